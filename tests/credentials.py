"""Texts with credentials, and harmless ones, to measure masking.

The credentials are generated when this runs, in the form that their issuers describe.
"""

import random
import string
from pathlib import Path

_SOURCE = random.Random(7)
_LETTERS = string.ascii_letters + string.digits


def chars(number: int, alphabet: str = _LETTERS) -> str:
    """Random characters, including a capital, a small letter and a digit if there is room."""
    text = "".join(_SOURCE.choices(alphabet, k=number))
    return f"{text[:-3]}kQ7" if alphabet == _LETTERS and number > 8 else text


def low(number: int) -> str:
    return chars(number, string.ascii_lowercase + string.digits)


def up(number: int) -> str:
    return chars(number, string.ascii_uppercase + string.digits)


def hexa(number: int) -> str:
    return chars(number, "0123456789abcdef")


def uuid() -> str:
    return "-".join(hexa(size) for size in (8, 4, 4, 4, 12))


def digits(number: int) -> str:
    return chars(number, string.digits)


def _section(name: str) -> list[str]:
    """The texts of a section of `harmless.txt`."""
    text = Path(__file__).with_name("harmless.txt").read_text()
    lines = text.split(f"[{name}]\n")[1].split("\n\n")[0].splitlines()
    return [line.replace("\\n", "\n") for line in lines if not line.startswith("#")]


# A text with "¤" in place of the secret, and the secret.
Case = tuple[str, str]

# Credentials with their issuer's prefix.
PREFIXED: dict[str, Case] = {
    "Neon": ("neonctl --api-key ¤", f"napi_{low(64)}"),
    "memory daemon": ("Authorization: ¤", f"mem_{chars(43)}"),
    "GitHub classic": ("git clone with ¤ please", f"ghp_{chars(36)}"),
    "GitHub app": ("¤", f"ghs_{chars(36)}"),
    "GitHub fine-grained": ("'¤'", f"github_pat_{chars(22)}_{chars(59)}"),
    "GitLab personal": ("PRIVATE-TOKEN: ¤", f"glpat-{chars(20)}"),
    "GitLab routable": ("use ¤.", f"glpat-{chars(27)}.{low(2)}.{low(9)}"),
    "GitLab runner": ("register with ¤", f"glrt-{chars(20)}"),
    "Bitbucket": ("app password ¤", f"ATBB{chars(32)}"),
    "Atlassian": ("Jira takes ¤", f"ATATT3xFfGF0{chars(170)}={up(8)}"),
    "Azure DevOps": ("pipeline: ¤", f"{chars(76)}AZDO{chars(4)}"),
    "OpenAI legacy": ("use ¤ here", f"sk-{chars(48)}"),
    "OpenAI project": ("OPENAI=¤", f"sk-proj-{chars(40)}-{chars(60)}"),
    "Anthropic": ("export A=¤;", f"sk-ant-api03-{chars(80)}-{chars(6)}AA"),
    "OpenRouter": ("key ¤", f"sk-or-v1-{hexa(64)}"),
    "DeepSeek": ("key ¤", f"sk-{hexa(31)}7"),
    "xAI": ("¤", f"xai-{chars(80)}"),
    "Groq": ("Groq: ¤", f"gsk_{chars(52)}"),
    "Perplexity": ("¤", f"pplx-{chars(48)}"),
    "Hugging Face": ("huggingface-cli login, then ¤", f"hf_{chars(34)}"),
    "Replicate": ("¤", f"r8_{chars(37)}"),
    "NVIDIA": ("¤", f"nvapi-{chars(64)}"),
    "Tavily": ("¤", f"tvly-dev-{chars(32)}"),
    "LangSmith": ("¤", f"lsv2_pt_{hexa(32)}_{hexa(10)}"),
    "AWS key id": ("id ¤,", f"AKIA{up(16)}"),
    "AWS session key id": ("id ¤", f"ASIA{up(16)}"),
    "Azure client secret": ("the app's ¤", f"{chars(3)}8Q~{chars(34)}"),
    "Google API": ("maps: ¤", f"AIza{chars(35)}"),
    "Google OAuth": ("¤", f"GOCSPX-{chars(28)}"),
    "Google access": ("¤", f"ya29.{chars(120)}"),
    "DigitalOcean": ("doctl with ¤", f"dop_v1_{hexa(64)}"),
    "Cloudflare": ("wrangler: ¤", f"cfut_{chars(48)}"),
    "Heroku": ("¤", f"HRKU-AA{chars(58)}"),
    "Fly": ("FlyV1 ¤", f"fm2_{chars(120)}"),
    "Vercel": ("¤", f"vcp_{chars(56)}"),
    "Netlify": ("¤", f"nfp_{chars(36)}"),
    "Supabase": ("¤", f"sbp_{hexa(40)}"),
    "Vault service": ("vault login ¤", f"hvs.{chars(95)}"),
    "Vault batch": ("vault login ¤", f"hvb.{chars(120)}"),
    "Terraform": ("¤", f"{chars(14)}.atlasv1.{chars(67)}"),
    "Pulumi": ("¤", f"pul-{hexa(40)}"),
    "Doppler": ("¤", f"dp.pt.{chars(43)}"),
    "Doppler service": ("¤", f"dp.st.prd.{chars(43)}"),
    "Docker": ("docker login with ¤", f"dckr_pat_{chars(27)}"),
    "Tailscale": ("¤", f"tskey-auth-{chars(16)}-{chars(32)}"),
    "PlanetScale": ("¤", f"pscale_tkn_{chars(43)}"),
    "Databricks": ("¤", f"dapi{hexa(32)}"),
    "Grafana service": ("¤", f"glsa_{chars(32)}_{hexa(8)}"),
    "Grafana cloud": ("¤", f"glc_{chars(80)}=="),
    "Sentry": ("¤", f"sntrys_eyJ{chars(120)}=_{chars(43)}"),
    "New Relic": ("¤", f"NRAK-{up(27)}"),
    "Dynatrace": ("¤", f"dt0c01.{up(24)}.{up(64)}"),
    "npm": ("//registry.npmjs.org/:_authToken=¤", f"npm_{chars(36)}"),
    "PyPI": ("twine with ¤", f"pypi-AgEIcHlwaS5vcmc{chars(150)}"),
    "crates.io": ("cargo login ¤", f"cio{chars(32)}"),
    "RubyGems": ("¤", f"rubygems_{hexa(48)}"),
    "NuGet": ("¤", f"oy2{low(43)}"),
    "Stripe": ("¤", f"sk_live_{chars(24)}"),
    "Stripe restricted": ("¤", f"rk_test_{chars(99)}"),
    "Stripe webhook": ("(¤)", f"whsec_{chars(32)}"),
    "Square": ("¤", f"sq0atp-{chars(22)}"),
    "Square OAuth": ("¤", f"sq0csp-{chars(43)}"),
    "Shopify access": ("¤", f"shpat_{hexa(32)}"),
    "Shopify secret": ("¤", f"shpss_{hexa(32)}"),
    "Slack bot": ("¤", f"xoxb-{digits(12)}-{digits(12)}-{chars(24)}"),
    "Slack app": ("¤", f"xapp-1-A{up(10)}-{digits(13)}-{hexa(64)}"),
    "Slack refresh": ("¤", f"xoxe.xoxp-1-{chars(140)}"),
    "Discord bot": ("¤", f"M{chars(25)}.{chars(6)}.{chars(38)}"),
    "Telegram": ("bot ¤", f"123456789:AA{chars(33)}"),
    "Twilio key": ("¤", f"SK{hexa(32)}"),
    "Twilio account": ("¤", f"AC{hexa(32)}"),
    "SendGrid": ("¤", f"SG.{chars(22)}.{chars(43)}"),
    "Mailgun": ("¤", f"key-{hexa(32)}"),
    "Mailchimp": ("¤", f"{hexa(32)}-us19"),
    "Brevo": ("¤", f"xkeysib-{hexa(64)}-{chars(16)}"),
    "Notion": ("¤", f"ntn_{chars(46)}"),
    "Notion, older": ("¤", f"secret_{chars(43)}"),
    "Linear": ("¤", f"lin_api_{chars(40)}"),
    "Figma": ("¤", f"figd_{chars(40)}"),
    "Postman": ("¤", f"PMAK-{hexa(24)}-{hexa(34)}"),
    "Airtable": ("¤", f"pat{chars(14)}.{hexa(64)}"),
    "HubSpot": ("¤", f"pat-na1-{uuid()}"),
    "Contentful": ("¤", f"CFPAT-{chars(43)}"),
    "Mapbox": ("¤", f"sk.eyJ1{chars(60)}.{chars(22)}"),
    "Resend": ("¤", f"re_{chars(8)}_{chars(24)}"),
    "PayPal": ("¤", f"access_token$production${low(16)}${hexa(32)}"),
    "SonarQube": ("¤", f"squ_{hexa(40)}"),
    "Packagist": ("¤", f"packagist_out_{hexa(68)}"),
    "PostHog": ("¤", f"phx_{chars(43)}"),
    "1Password": ("¤", f"ops_eyJ{chars(250)}"),
    "Alibaba": ("¤", f"LTAI5t{chars(18)}"),
    "Pinecone": ("¤", f"pcsk_{chars(6)}_{chars(60)}"),
    "web token": ("the token ¤ expired", f"eyJ{chars(20)}.eyJ{chars(90)}.{chars(43)}"),
    "age": ("¤", f"AGE-SECRET-KEY-1{up(58)}"),
    "PEM": (
        "the key\n¤\nof it",
        f"-----BEGIN RSA PRIVATE KEY-----\n{chars(99)}\n-----END RSA PRIVATE KEY-----",
    ),
    "PEM in JSON": (
        '"private_key": "¤\\n"',
        f"-----BEGIN PRIVATE KEY-----\\n{chars(99)}\\n-----END PRIVATE KEY-----",
    ),
    "PEM, cut off": ("key: ¤", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{chars(99)}"),
    "PGP": (
        "¤",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{chars(99)}\n=aB1d\n"
        "-----END PGP PRIVATE KEY BLOCK-----",
    ),
}

# Credentials by their place.
PLACED: dict[str, Case] = {
    "database": ("postgres://user:¤@db.example.com:5432/app", "pa55word"),
    "database, user's name": ("mysql://bob:¤@db", "bob"),
    "cache": ("redis://:¤@cache:6379/0", "p4$$w:rd"),
    "with an @": ("https://me:¤@example.com/x?mail=a@b.org", "v@n9"),
    "with a slash": ("DATABASE_URL=postgres://app:¤@db:5432/app", "aB3/xY+9z"),
    "percent-encoded": ("amqp://guest:¤@rabbit:5672/%2f", "%40dmin1"),
    "token in an address": ("git clone https://¤@github.com/acme/app.git", hexa(40)),
    "Bearer": ("Authorization: Bearer ¤", chars(32)),
    "Basic": ("curl -H 'authorization: basic ¤'", "dXNlcjpwYXNzd29yZDE="),
    "Token": ('-H "Authorization: Token ¤"', hexa(40)),
    "X-API-Key": ("X-API-Key: ¤", hexa(32)),
    "X-API-Key of curl": ('curl -H "X-API-Key: ¤" https://api.example.com', chars(20)),
    "curl -u": ("curl -u admin:¤ https://jenkins.example.com/api", "s3cr3tpw"),
    "curl --user": ("curl -s --user 'bob:¤' https://x.example.com", "hunter2!"),
    "mysql -p": ("mysql -h db -u root -p¤ shop", "Tr0ub4dor"),
    "sshpass": ("sshpass -p '¤' ssh root@10.0.0.5", "qwe123rty"),
    ".netrc": ("machine api.heroku.com login a@b.com password ¤", chars(20)),
    "Slack webhook": ("https://hooks.slack.com/services/¤", f"T{up(8)}/B{up(10)}/{chars(24)}"),
    "Discord webhook": ("https://discord.com/api/webhooks/1098765432109876543/¤", chars(68)),
    "Teams webhook": (
        "https://acme.webhook.office.com/webhookb2/¤",
        f"{uuid()}@{uuid()}/IncomingWebhook/{hexa(32)}/{uuid()}",
    ),
    "Azure SAS": (
        "https://x.blob.core.windows.net/c/f?sv=2022-11-02&sp=r&sig=¤",
        f"{chars(43)}%3D",
    ),
    "Azure storage": ("AccountName=x;AccountKey=¤;", f"{chars(86)}=="),
    "AWS secret": ("aws_secret_access_key = ¤", chars(40)),
    "AWS secret in JSON": ('"SecretAccessKey": "¤"', chars(40)),
}

# Credentials by the name before them.
NAMED: dict[str, Case] = {
    "DB_PASSWORD": ("DB_PASSWORD=¤", "hunter2"),
    "PGPASSWORD": ("PGPASSWORD=¤ psql -h db", "s3cret-pw!"),
    "SECRET_KEY": ("SECRET_KEY = '¤'", f"django-insecure-{chars(30)}^&(x"),
    "access_token": ('{"access_token": "¤", "expires_in": 3600}', chars(40)),
    "client_secret": ('{"client_secret": "¤"}', "abc123def"),
    "api_key": ("api_key: '¤'", "0a1b2c3d"),
    "query": ("https://api.example.com/v1?api_key=¤&q=x", hexa(32)),
    "YAML": ("db:\n  user: app\n  password: ¤\n", "x9!kLm2"),
    "properties": ("spring.datasource.password=¤", "Sommer2024"),
    "connection string": ("Server=db;User Id=sa;Password=¤;Encrypt=true", "P@ssw0rd!"),
    "Kubernetes data": ("data:\n  password: ¤\n", "aHVudGVyMjM0NQ=="),
    "option": ("tool login --password ¤", "tr1cky-pw"),
    "option with =": ("tool --api-key=¤ run", chars(24)),
    "XML": ("<password>¤</password>", "m4ven-pw"),
    "escaped JSON": ('"{\\"password\\": \\"¤\\"}"', "n3sted-pw"),
    "Datadog": ("DD_API_KEY=¤", hexa(32)),
    "UUID as a key": ("POSTMARK_SERVER_TOKEN=¤", uuid()),
    "with a word before it": ("DB_PASSWORD=¤", f"prod-{hexa(16)}"),
    "with a name before it": ("client_secret=¤", f"myapp-{hexa(15)}7"),
    "up to its end": ("token=¤", f"sk-proj-{chars(20)}.{chars(8)}"),
    "label of two words": ("api key: ¤", low(16)),
    "label of two words, amid a sentence": ("The access token is ¤ for now", low(24)),
    "pw": ("pw: ¤", "geheim123"),
    "pass": ("user bob, pass: ¤", "s3cr3tt"),
    "passphrase": ("The passphrase is '¤'.", "0range-Tractor"),
    "told": ("The wifi password is ¤ and the other one is open", "Tr0ub4dor&3"),
    "German": ("Das Passwort ist ¤", "Sommer2024!"),
    "German, another": ("Kennwort: ¤", "geheim99"),
    "German key": ("API-Schlüssel: ¤", low(20)),
    "Korean": ("비밀번호는 ¤ 입니다", "abc1234!"),
    "Korean, another": ("암호: ¤", "s3cret!!"),
    "Korean key": ("API 키: ¤", low(20)),
    "amid a sentence": ("Login admin, password: ¤, ask Bob.", "Hunter22x9"),
    "amid a German sentence": ("Passwort: ¤ für die DB", "Hunter22x9"),
    "amid a Korean sentence": ("비밀번호: ¤ 로 접속", "Hunter22x9"),
    "before a remark": ("password: ¤  # prod", "hunter2prod"),
    "a name before the name": ("set the password DB_PASSWORD=¤ in CI", f"prod-{hexa(16)}"),
    "a label before the name": ("Datadog api key DD_API_KEY=¤", hexa(32)),
    "Laravel": ("APP_KEY=¤", f"base64:{chars(43)}="),
    "hex": ("JWT_SECRET=¤", f"hex:{low(22)}"),
    "like an algorithm": ("TOKEN=¤", f"rs2947k{low(19)}"),
    "in short parts": ("DB_PASSWORD=¤", "prod-7f3a-9c2e"),
    "without a blank": ("x-api-key:¤", low(20)),
    "Markdown": ("**Password:** ¤", "Hunter22x9"),
    "Markdown code": ("password: `¤`", "Hunter22x9"),
    "whose": ("Password for prod: ¤", "Hunter22x9"),
    "whose, in brackets": ("Password (prod): ¤", "Hunter22x9"),
    "now": ("the password is now ¤", "Hunter22x9"),
}

HARMLESS = _section("harmless")

# The same again, written once the rules were fixed, about other work: mobile, data and home.
OTHER_SECRETS: dict[str, Case] = {
    "Expo, in a shell": ("export EXPO_TOKEN=¤", chars(40)),
    "Firebase": ("firebase deploy --token ¤", f"1//03{chars(60)}"),
    "Fastlane": ("MATCH_PASSWORD=¤ bundle exec fastlane", "gr33n-House"),
    "Android keystore": ("storePassword=¤\nkeyAlias=upload", "k3yst0re"),
    "Gradle": ("signing.password=¤", "Zebra77x"),
    "App Store key": (
        "AuthKey.p8:\n¤",
        f"-----BEGIN PRIVATE KEY-----\n{chars(200)}\n-----END PRIVATE KEY-----",
    ),
    "Mapbox": ("mapbox: ¤", f"sk.eyJ1{chars(60)}.{chars(22)}"),
    "Kaggle": ('{"username":"bob","key":"¤"}', hexa(32)),
    "Weights & Biases": ("WANDB_API_KEY=¤", hexa(40)),
    "Comet": ("api_key = ¤", chars(25)),
    "Snowflake": ("snowsql -a acme -u bob; SNOWSQL_PWD=¤", "Fr0sty!Pine"),
    "JDBC": ("jdbc:mysql://db:3306/app?user=root&password=¤&useSSL=false", "tig3rLily"),
    "MongoDB": ("mongodb+srv://app:¤@cluster0.ab1cd.mongodb.net/test", chars(16)),
    "Elastic": ("Authorization: ApiKey ¤", f"{chars(58)}=="),
    "ClickHouse": ("clickhouse-client --user bob --password ¤", "cl1ckity"),
    "Airflow": ("AIRFLOW__CORE__FERNET_KEY=¤", f"{chars(43)}="),
    "MQTT": ("mqtt:\n  username: ha\n  password: ¤\n", "m0squitto"),
    "Wi-Fi": ('ssid="home"\npsk="¤"', "blue-Kettle-42"),
    "Home Assistant": ("Authorization: Bearer ¤", f"eyJ{chars(33)}.eyJ{chars(60)}.{chars(43)}"),
    "Z-Wave": ('"network_key": "¤"', hexa(32)),
    "Pushover": ("curl -F token=¤ -F user=bob https://api.pushover.net", low(30)),
    "Telegram in an address": ("https://api.telegram.org/bot¤/getMe", f"987654321:AA{chars(33)}"),
    "rclone": ("pass = ¤", chars(30)),
    "restic": ("RESTIC_PASSWORD='¤' restic backup", "p!neapple_7"),
    "S3 in rclone": ("secret_access_key = ¤", chars(40)),
    "SMTP": ("smtp://mailer:¤@smtp.example.com:587", "ma1l/er+X"),
    "Proxy": ("https_proxy=http://bob:¤@proxy.corp:3128", "pr0xy"),
    "npm in .npmrc": ("//npm.pkg.github.com/:_authToken=¤", f"ghp_{chars(36)}"),
    "Maven": ("<username>ci</username><password>¤</password>", "j3nkins!"),
    "Gitea": ("git clone https://bob:¤@git.example.com/a/b.git", hexa(40)),
    "Azure Functions": ("https://f.azurewebsites.net/api/x?code=¤", f"{chars(54)}=="),
    "Google Chat webhook": (
        "https://chat.googleapis.com/v1/spaces/AAA/messages?key=x&token=¤",
        chars(43),
    ),
    "Cloudinary": ("cloudinary://123456789012345:¤@demo", chars(27)),
    "LaunchDarkly": ("LD_SDK_KEY=¤", f"sdk-{uuid()}"),
    "Segment": ("writeKey: '¤'", chars(32)),
    "Plaid": ('"secret": "¤"', hexa(30)),
    "Okta": ("Authorization: SSWS ¤", f"00{chars(40)}"),
    "Zendesk": ("curl -u bob@example.com/token:¤ https://x.zendesk.com", chars(40)),
    "Algolia": ("X-Algolia-API-Key: ¤", hexa(32)),
    "hashed cookie key": ('session_secret: "¤"', chars(48)),
}

OTHER_HARMLESS = _section("other harmless")

# Look like the shapes of gitleaks, or like a secret that is named or told, and are none.
LOOKALIKES = _section("lookalikes")
