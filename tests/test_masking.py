"""Keys and passwords do not become memories; what only looks a little like one stays."""

import random
import string
import time
from pathlib import Path

import pytest
from conftest import MakeStorage, MakeTools, Tools
from embeddings_server import EmbeddingsServer
from memory_semantic.masking import SHAPES, mask

SOURCE = random.Random(7)


def chars(number: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(SOURCE.choices(alphabet, k=number - 1)) + "7"


HEX = "0123456789abcdef"
PEM = "-----BEGIN RSA PRIVATE KEY-----\n"
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----"
JWT = f"eyJ{chars(20)}.eyJ{chars(30)}.{chars(40)}"

# A name of a shape, a text with "SECRET" in place of the secret, the secret.
SECRETS = [
    (
        "private key",
        "SECRET",
        f"-----BEGIN RSA PRIVATE KEY-----\n{chars(99)}\n-----END RSA PRIVATE KEY-----",
    ),
    ("private key", "key: SECRET", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{chars(99)}\ncut off"),
    (
        "private key",
        "SECRET",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    ("web token", "the token SECRET expired", JWT),
    ("API key", "use SECRET here", f"sk-{chars(48)}"),
    ("API key", "use SECRET.", f"sk-proj-{chars(60)}"),
    ("API key", "OPENAI=SECRET", f"sk-ant-api03-{chars(80)}"),
    ("Stripe key", "SECRET", f"sk_live_{chars(24)}"),
    ("Stripe key", "(SECRET)", f"whsec_{chars(32)}"),
    ("GitHub token", "git clone with SECRET", f"ghp_{chars(36)}"),
    ("GitHub token", "'SECRET'", f"github_pat_{chars(82)}"),
    ("GitLab token", "SECRET", f"glpat-{chars(20)}"),
    ("AWS key", "id SECRET,", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS secret", "aws_secret_access_key = SECRET", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("Azure key", "AccountName=x;AccountKey=SECRET;", f"{chars(86)}=="),
    ("Google key", "maps: SECRET", f"AIza{chars(35)}"),
    ("Slack token", "SECRET", f"xoxb-{chars(12, string.digits)}-{chars(24)}"),
    (
        "Slack webhook",
        "https://hooks.slack.com/services/SECRET",
        f"T{chars(8)}/B{chars(8)}/{chars(24)}",
    ),
    ("SendGrid key", "SECRET", f"SG.{chars(22)}.{chars(43)}"),
    ("Telegram token", "bot SECRET", f"123456789:AA{chars(33)}"),
    ("package token", "SECRET", f"npm_{chars(36)}"),
    ("package token", "SECRET", f"pypi-{chars(60)}"),
    ("package token", "SECRET", f"hf_{chars(34)}"),
    ("DigitalOcean token", "SECRET", f"dop_v1_{chars(64, HEX)}"),
    ("credentials", "Authorization: Bearer SECRET", f"{chars(32)}"),
    ("credentials", "curl -H 'authorization: basic SECRET'", "dXNlcjpwYXNzd29yZDE="),
    ("password", "postgres://user:SECRET@db.example.com:5432/app", "password"),
    ("password", "redis://:SECRET@cache", "p4$$w:rd"),
    ("password", "mysql://bob:SECRET@db", "bob"),
    ("password", "https://me:SECRET@example.com/x", "a@b"),
    ("password or secret", "DB_PASSWORD=SECRET", "hunter2"),
    ("password or secret", '{"client_secret": "SECRET"}', "abc123def"),
    ("password or secret", "api_key: 'SECRET'", "0a1b2c3d"),
]

NEAR_MISSES = [
    "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
    "eyJhbGciOi.not.a.token",
    "we use sk-learn, sk-fading-circle-and-other-spinners, task-1234567890123456789012",
    "sk_live_ keys are for production; pk_live_ ones are public",
    "ghp_ is the prefix of GitHub tokens",
    "glpat- is GitLab's",
    "AKIA is a prefix; AKIAtooshort; MYAKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key is read from the vault",
    "AccountKey=see vault",
    "AIza keys are Google's",
    "xoxb tokens; xoxo-hugs",
    "hooks.slack.com/services is blocked",
    "SG.short.one",
    "at 12:30 we met 12345678:90",
    "npm_config_registry, pypi-server, hf_hub_download",
    "do_v1_ endpoint",
    "the bearer of good news; Bearer authentication; basic understanding of things",
    "http://example.com:8080/path?at=a@b",
    "postgres://user:${DB_PASSWORD}@host, postgres://user:<password>@host, user@host",
    "the password is in the vault; password: required; secret=optional; password=os.environ",
    "token = tokenizer.encode(text)",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
    "id 123e4567-e89b-12d3-a456-426614174000",
    "image data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "mem-a3f2b8c1",
    "We chose PostgreSQL for the users table.",
]


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS)
def test_a_secret_is_masked_where_it_stands(name: str, text: str, secret: str) -> None:
    assert mask(text.replace("SECRET", secret)) == (text.replace("SECRET", f"(masked {name})"), 1)


def test_every_shape_has_a_test() -> None:
    assert {name for name, _, _ in SECRETS} == set(SHAPES)


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_stays(text: str) -> None:
    assert mask(text) == (text, 0)


def test_all_at_once_and_again_changes_no_more() -> None:
    text = " and ".join(text.replace("SECRET", secret) for _, text, secret in SECRETS[3:])
    masked, count = mask(text)
    assert count >= len(SECRETS) - 3
    assert not any(secret in masked for _, _, secret in SECRETS[3:] if len(secret) > 9)
    assert mask(masked) == (masked, 0)


KEY = f"sk-proj-{chars(60)}"


async def test_a_store_masks_before_anything_else_sees_it(tools: Tools, root: Path) -> None:
    output = await tools.call(
        "memory_store",
        content=f"The sandbox key is {KEY}.",
        tags=["api", f"id-{'AKIA' + 'A' * 16}"],
    )
    assert output["masked_secrets"] == 2
    found = await tools.call("memory_search", query=f"Is {KEY} the sandbox key?")
    assert found["masked_secrets"] == 1
    [memory] = found["memories"]
    assert memory["content"] == "The sandbox key is (masked API key)."
    assert memory["tags"] == ["api", "id-(masked aws key)"]
    on_disk = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert KEY[8:].encode() not in on_disk and b"AKIA" not in on_disk
    assert KEY not in str(tools.events)


async def test_the_service_never_sees_it(make_tools: MakeTools, server: EmbeddingsServer) -> None:
    tools = await make_tools(embedding_model="m", base_url=server.base_url)
    await tools.call("memory_store", content=f"The key is {KEY}.")
    await tools.call("memory_search", query=KEY)
    assert [request["input"] for request in server.requests] == [
        ["The key is (masked API key)."],
        ["(masked API key)"],
    ]


async def test_what_was_stored_without_masking_is_masked_when_shown(
    make_tools: MakeTools, make_storage: MakeStorage
) -> None:
    tools = await make_tools()
    await make_storage().store(f"The key is {KEY}.")
    output = await tools.call("memory_search", query="key")
    assert KEY not in str(output) and output["masked_secrets"] == 1


async def test_it_can_be_turned_off(make_tools: MakeTools) -> None:
    tools = await make_tools(mask_secrets=False)
    output = await tools.call("memory_store", content=f"The key is {KEY}.")
    assert "masked_secrets" not in output
    assert KEY in str(await tools.call("memory_search", query="key"))


def test_no_text_takes_long() -> None:
    """Repetitions that make careless patterns take seconds; the bound here is only for those."""
    hostile = ["sk-", "password=", "a.b-", "://a:", "-----BEGIN A ", "eyJa.", "Bearer ", "x://:"]
    started = time.perf_counter()
    for text in hostile:
        mask(text * (10_000 // len(text)))
    assert time.perf_counter() - started < 1
