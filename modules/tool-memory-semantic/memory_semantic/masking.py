"""Keys and passwords do not become memories: known credential shapes are masked.

Shape alone decides, not entropy, so that commit hashes, UUIDs and base64 stay. What is masked is
lost, so a shape that no issuer guarantees must also look like a secret. The tests have the rates;
detect-secrets 1.5 without its guesses missed 19 of 32 examples and took 23 ms.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from .limits import MAX_CONTENT_CHARS, MAX_TAGS
from .plaintext import normal, without_tags

# Credentials with their issuer's prefix: the name of each shape, and its pattern. Lengths are lower
# bounds, because they have grown. Repetitions that something has to follow are bounded.
PREFIXED: dict[str, str] = {
    # Code hosts
    "GitHub token": r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}",
    "GitLab token": r"gl(?:pat|ptt|dt|rt|rtr|cbt|ft|ffct|imt|agent|oas|soat|wt)-[\w-]{20,}"
    r"(?:\.\w{2,9}){0,2}|GR1348941[\w-]{20,}",
    "Atlassian token": r"AT(?:ATT3|CTT3|STT3|BB)[\w+/-]{24,}(?:=\w{8})?",
    "Azure DevOps token": r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b",
    # Models
    "API key": r"sk-(?:proj|svcacct|admin|ant|or|lf)-[\w-]{20,}"
    # Others: a run of 20, or all three kinds, tells them from words such as sk-cube-grid-9x9.
    r"|sk-(?=[A-Za-z_]{0,40}\d)\w{20,}"
    r"|sk-(?=[a-z\d_-]{0,40}[A-Z])(?=[A-Z\d_-]{0,40}[a-z])(?=[A-Za-z_-]{0,40}\d)[\w-]{20,}",
    "xAI key": r"xai-[A-Za-z0-9]{40,}",
    "Groq key": r"gsk_[A-Za-z0-9]{40,}",
    "Perplexity key": r"pplx-[A-Za-z0-9]{40,}",
    "Hugging Face token": r"(?:hf|api_org)_[A-Za-z0-9]{30,}",
    "Replicate token": r"r8_[A-Za-z0-9]{30,}",
    "NVIDIA key": r"nvapi-[\w-]{50,}",
    "Tavily key": r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}",
    "LangSmith key": r"lsv2_[ps][tk]_[0-9a-f]{32}\w*",
    "Pinecone key": r"pcsk_\w{40,}",
    # Clouds
    "AWS key": r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}\b|ABSK[A-Za-z0-9+/]{100,}={0,2}",
    "Azure secret": r"[\w~.]{3}\dQ~[\w~.-]{31,}",
    "Google key": r"AIza[\w-]{35}|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,}|1//0[\w-]{40,}",
    "DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}\b",
    "Cloudflare token": r"cf(?:k|ut|at)_[A-Za-z0-9]{40,}|v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}",
    "Heroku key": r"HRKU-[\w-]{36,}",
    "Fly token": r"fo1_[\w-]{40,}|fm[12][ar]?_[\w+/=,-]{60,}",
    "Vercel token": r"vc[aciprk]_[A-Za-z0-9]{24,}",
    "Netlify token": r"nf[bcopu]_[A-Za-z0-9]{36,}",
    "Supabase key": r"sbp_[0-9a-f]{40,}|sb_secret_[\w-]{20,}",
    "Alibaba key": r"LTAI[A-Za-z0-9]{20}\b",
    # Infrastructure
    "Vault token": r"hv[sbr]\.[\w-]{24,}",
    "Terraform token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",
    "Pulumi token": r"pul-[0-9a-f]{40}\b",
    "Doppler token": r"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,}",
    "Docker token": r"dckr_[po]at_[\w-]{27,}",
    "Tailscale key": r"tskey-[a-z]{2,10}-[\w-]{20,}",
    "1Password token": r"ops_eyJ[\w+/-]{100,}={0,2}",
    "PlanetScale token": r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",
    "Databricks token": r"d(?:api|ose|kea)[0-9a-f]{32}(?:-\d)?\b",
    "Grafana token": r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b|glc_[A-Za-z0-9+/]{32,}={0,2}",
    "Sentry token": r"sntry[su]_[\w+/]{40,}={0,2}[\w+/]*",
    "New Relic key": r"NR(?:AK|II|IQ|RA|JS)-[\w-]{19,}",
    "Dynatrace token": r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
    "PostHog key": r"phx_\w{40,}",
    # Packages
    "npm token": r"npm_[A-Za-z0-9]{36,}",
    "PyPI token": r"pypi-[\w-]{50,}",
    "crates.io token": r"cio[A-Za-z0-9]{32}\b",
    "RubyGems key": r"rubygems_[0-9a-f]{48}\b",
    "NuGet key": r"oy2[a-z0-9]{43}\b",
    "Packagist token": r"packagist_[a-z]{3}_[0-9a-f]{60,}",
    "SonarQube token": r"sq[apu]_[0-9a-f]{40}\b",
    # Services
    "Stripe key": r"(?:[rs]k_(?:live|test|org)|whsec)_[A-Za-z0-9]{16,}",
    "Square token": r"sq0(?:atp|csp)-[\w-]{22,}|EAAA[\w-]{60}\b",
    "Shopify token": r"shp(?:at|ss|ca|pa|ua)_[0-9a-fA-F]{32}\b",
    "PayPal token": r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
    "Slack token": r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%+/-]{10,}|xapp-\d-[\w-]{10,}",
    "Discord token": r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    "Telegram token": r"\d{8,10}:AA[\w-]{33}\b",
    "Twilio key": r"(?:SK|AC)[0-9a-f]{32}\b",
    "SendGrid key": r"SG\.[\w-]{22}\.[\w-]{43}",
    "Mailgun key": r"key-[0-9a-f]{32}\b|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b",
    "Mailchimp key": r"[0-9a-f]{32}-us\d{1,2}\b",
    "Brevo key": r"xkeysib-[0-9a-f]{64}-\w{16}",
    "Resend key": r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}",
    "Notion token": r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b",
    "Linear key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "Figma token": r"fig[dur]_[\w-]{38,}",
    "Postman key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Airtable token": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
    "HubSpot token": r"pat-[a-z]{2}\d-[0-9a-f]{8}-[0-9a-f-]{27}",
    "Mapbox token": r"sk\.eyJ[\w-]{20,}\.[\w-]{20,}",
    "Contentful token": r"CFPAT-[\w-]{40,}",
    "memory daemon token": r"mem_[\w-]{43}(?![\w-])",
    # Of no single issuer
    "web token": r"(?<![\w.-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
}

# Places where credentials stand: only `secret` is masked, and not if it is something else.
PLACED: dict[str, str] = {
    # To its end; without one before the next key, as many lines as look like it.
    "private key": r"(?P<secret>-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?s:"
    r"(?:(?!-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE).){40,}?"
    r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|(?:\s|\\[rn]"
    r"|[\w-]{1,20}: [^\n]{1,100}\n){0,9}(?:(?:\s|\\[rn])*[A-Za-z0-9+/=]{20,})+))",
    "webhook": r"(?:hooks\.slack\.com/(?:services|workflows|triggers)"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+"
    r"|[\w-]{1,60}\.webhook\.office\.com/webhookb2"
    r"|outlook\.office\.com/webhook)/(?P<secret>[\w/@-]{20,})",
    "Azure signature": r"[?&;](?:amp;)?sig=(?P<secret>[\w%+/-]{40,}=*)",
    "Azure key": r"(?:AccountKey|SharedAccessKey)=(?P<secret>[\w/+]{40,}={0,2})",
    "AWS secret": r"(?i:aws_?secret_?(?:access_?)?key|secretaccesskey)"
    r"\\?[\"']?\s{0,9}[=:]\s{0,9}\\?[\"']?(?P<secret>[\w/+=]{40})",
    # user:password@ in an address. The password may hold an @, and a slash unless it is a port.
    "password": r"://[\w.%+~-]{0,100}:(?!\d{1,5}[/?#])(?P<secret>[^\s/?#\"'`<>]{1,200}"
    r"|[^\s?#\"'`<>]{1,200}(?<!/))(?=@)(?!@sha\d)",
    "token": r"https?://(?=[\w-]{0,60}\d)(?P<secret>[\w-]{20,200})(?=@)(?!@[^\s/]{0,60}\bsentry\b)",
    "credentials": r"(?i:\b(?:Bearer|Basic|Authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:Token"
    r"|ApiKey|GenieKey|SSWS)))\s{1,3}(?:token=)?[\"']?(?=[\w.~+/-]{0,60}\d)"
    r"(?P<secret>[\w.~+/-]{16,}=*)",
    # curl -u user:password, mysql -ppassword, sshpass -p password, docker login -p password
    "command's password": r"\b(?:curl\b[^\n|;]{0,200}?\s(?:-u|--user|--proxy-user)[\s=]{0,3}[\"']?"
    r"[\w.@%+/\\-]{1,80}:|mysql(?:dump|admin)?\b[^\n|;]{0,100}?\s-p(?=\S{0,40}\d)"
    r"|sshpass\s{1,3}-p\s{0,3}|redis-cli\b[^\n|;]{0,100}?\s-a\s{1,3}"
    r"|docker\s{1,3}login\b[^\n|;]{0,100}?\s-p\s{1,3})[\"']?(?P<secret>[^\s\"'`]{4,200})",
    ".netrc password": r"\bmachine\s{1,9}\S{1,100}\s{1,9}login\s{1,9}\S{1,100}\s{1,9}"
    r"password\s{1,9}(?P<secret>\S{1,200})",
}

# NAME_PASSWORD=…, "token": "…", password: …, <password>… and --password …
_NAMED = re.compile(
    r"(?:(?i:(?P<password>pass(?:word|wd|phrase)|pwd|(?<=[_.])pass)"
    r"|secret|token|credentials?|(?:secret|api|access|auth|account|app|client|private|encryption"
    r"|signing|master|license|service|admin|session|shared)[_.-]?(?:access[_.-]?)?key)"
    r"|(?P<other>(?<!PUBLIC)_KEY))(?:\\?[\"']?\s{0,3}(?:=>|:=|[:=])\s{0,3}\\?[\"']"
    r"(?P<quoted>[^\s\"'`\\]{6,300}+)(?=\\?[\"'])"
    r"|(?:(?P<tight>\\?[\"']?=|>)|[ \t]{0,3}[:=][ \t]{1,3}|(?P<flag>[ \t]))"
    r"(?P<bare>(?:[^\s\"'`,;()\[\]{}<>\\&]|&(?!\w+=)){6,300}+)(?![(\[{])"
    r"(?P<end>(?=[ \t]*(?:$|[\"'])))?)",
    re.MULTILINE,
)
# A placeholder for a secret: a variable, or a word that says so.
_PLACEHOLDER = re.compile(
    r"[$<{\[(*#@&!|>=~]|%(?![0-9A-F]{2})|%\w+%$|.*?(?:\{\w|\$\(|\.\.\.|…|x{4}"
    r"|(?<![a-z])(?:your|example|sample|dummy|fake|mock|placeholder|redacted|masked|insert|replace"
    r"|todo|test|change[-_]?(?:me|it))(?![a-z]))",
    re.IGNORECASE | re.DOTALL,
)
# A secret's name or location instead of the secret: a path, an address, code, a constant, a number
# with its unit, an algorithm. Names in lower case are words between separators, one of them no hex.
_REFERENCE = re.compile(
    r"(?:~|\.\.?)?/.*|[A-Za-z]:[\\/].*|[a-z][a-z0-9+.-]{1,20}:.*|[a-z]+(?:[A-Z][a-z]*)+\d{0,2}"
    r"|[A-Za-z_]\w{0,24}(?:(?:\.|::|->)[A-Za-z_]\w{0,24})+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    r"|\d[\d.,:_-]*[a-z]{0,3}|(?:sha|hs|rs|es|aes|md|rsa|ed|base|argon|bcrypt|pbkdf|oauth)-?\d.*"
    r"|(?=(?:.*[-_./@])?(?=[a-z]*[g-z])[a-z]{3,}(?:[-_./@]|$))[a-z0-9]+(?:[-_./@][a-z0-9]+)+",
    re.DOTALL,
)
# More than a word: letters and digits, but not a word with a number.
_MIXED = re.compile(r"(?![A-Za-z_]+\d{0,2}\Z)(?=.*\d)(?=.*[^\W\d_])", re.DOTALL)

# Prefixed credentials are long and without blanks; most other text is not.
_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;]{15,}")
# A letter before a prefix makes it the middle of a word, unless it ends a \n or Telegram's `/bot`.
# The number of the matching group is the index of its kind, plus one.
_PREFIXED = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=/bot))"
    rf"(?:{'|'.join(f'({pattern})' for pattern in PREFIXED.values())})"
)
_KINDS = list(PREFIXED)


@cache
def _prefixed_pattern() -> re.Pattern[str]:
    # Compiled for the first text with such a run, which few questions have.
    return re.compile(_PREFIXED)


def _prefixed(text: str) -> Iterator[tuple[str, int, int]]:
    for run in _RUN.finditer(text):
        for match in _prefixed_pattern().finditer(text, *run.span()):
            yield _KINDS[(match.lastindex or 0) - 1], *match.span()


def _placed(name: str, pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int]]:
    for match in pattern.finditer(text):
        value = match["secret"]
        a_name = name in ("token", "credentials") and _REFERENCE.fullmatch(value)
        if not a_name and not _PLACEHOLDER.match(value):
            yield name, *match.span("secret")


_PLACED = [partial(_placed, name, re.compile(pattern)) for name, pattern in PLACED.items()]


def _named(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _NAMED.finditer(text):
        group = "bare" if match["quoted"] is None else "quoted"
        value = match[group]
        if match["password"]:
            looks, shortest = re.search(r"[\d!@#$%^&*+=?]", value), 6
        else:
            looks, shortest = _MIXED.match(value), 20 if match["other"] else 8
        if match["flag"]:
            before = text[max(0, match.start() - 32) : match.start()]
            looks = looks and re.search(r"--[a-z-]*$", before)
        elif group == "bare" and not match["tight"] and match["end"] is None:  # amid a sentence
            shortest = 16
        known = _PLACEHOLDER.match(value) or _REFERENCE.fullmatch(value)
        if looks and len(value) >= shortest and not known:
            yield "secret", *match.span(group)


def mask(text: str) -> tuple[str, int]:
    """`text` with every credential replaced by the name of its kind, and how many there were. The
    text never gets longer, so one that can be stored can also be stored masked.
    """
    masked = 0
    for search in (_prefixed, *_PLACED, _named):
        pieces, end = [], 0
        for name, start, stop in search(text):
            # Round brackets: Amplifier's console takes square ones for its own markup.
            mark = f"(masked {name})"
            fits = len(mark) <= stop - start
            pieces += (text[end:start], mark if fits else "***"[: stop - start])
            end = stop
            masked += 1
        text = "".join((*pieces, text[end:]))
    return text, masked


def mask_all(value: Any) -> tuple[Any, int]:
    """The same for every text in lists and dicts of JSON; anything else stays as it is."""
    if isinstance(value, str):
        return mask(without_tags(value).strip())  # tag characters could split a credential
    if isinstance(value, list):
        items = [mask_all(item) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if isinstance(value, dict):
        items, masked = mask_all(list(value.values()))
        return dict(zip(value, items, strict=True)), masked
    return value, 0


def mask_given(value: Any) -> tuple[Any, int]:
    """The same for a text, tags or metadata; input that is too large will be refused anyway, and
    stays as it is.
    """
    texts = list(value.values()) if isinstance(value, dict) else value
    texts = texts if isinstance(texts, list) else [texts]
    possible = len(texts) <= MAX_TAGS and all(
        isinstance(text, str) and len(normal(text)) <= MAX_CONTENT_CHARS for text in texts
    )
    return mask_all(value) if possible else (value, 0)
