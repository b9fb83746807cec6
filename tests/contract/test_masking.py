"""Keys and passwords do not become memories; texts that only look a little like them stay.

The credentials of `credentials.txt` are generated when this runs, in the form that their issuers
describe; the texts of `harmless.txt` have none.
"""

import random
import re
import string
import sys
import time
import tomllib
from pathlib import Path

import pytest
from conftest import MakeStorage, MakeTools, Tools
from embeddings_server import EmbeddingsServer
from memory_semantic import Memory, MemoryStorage, masking
from memory_semantic.masking import mask
from rstr import Rstr
from store_files import bytes_of

_SOURCE = random.Random(7)
_ALPHABETS = {
    "chars": string.ascii_letters + string.digits,
    "low": string.ascii_lowercase + string.digits,
    "up": string.ascii_uppercase + string.digits,
    "hexa": "0123456789abcdef",
    "digits": string.digits,
}
_UUID = "-".join(f"{{hexa {size}}}" for size in (8, 4, 4, 4, 12))

# A text with "¤" in place of the secret, and the secret.
Case = tuple[str, str]


def chars(number: int, kind: str = "chars") -> str:
    """Random characters, including a capital, a small letter and a digit if there is room."""
    text = "".join(_SOURCE.choices(_ALPHABETS[kind], k=number))
    return f"{text[:-3]}kQ7" if kind == "chars" and number > 8 else text


def _section(name: str, file: str = "harmless.txt") -> list[str]:
    """The lines of a section of a file."""
    text = Path(__file__).with_name(file).read_text()
    lines = text.split(f"[{name}]\n")[1].split("\n\n")[0].splitlines()
    read = (re.sub(r"\\([\\n])", lambda m: m[1].replace("n", "\n"), line) for line in lines)
    return [line for line in read if not line.startswith("# ")]


def _cases(name: str) -> dict[str, Case]:
    """The credentials of a section, by their names."""
    cases = {}
    for row in _section(name, "credentials.txt"):
        called, text, form = row.replace("{uuid}", _UUID).split(" | ")
        cases[called] = text, re.sub(r"\{(\w+) (\d+)\}", lambda m: chars(int(m[2]), m[1]), form)
    return cases


PREFIXED, PLACED, NAMED = map(_cases, ("prefixed", "placed", "named"))
OTHER_SECRETS = _cases("other secrets")
HARMLESS, OTHER_HARMLESS = _section("harmless"), _section("other harmless")
# Look like the shapes of gitleaks, or like a secret that is named or told, and are none.
LOOKALIKES = _section("lookalikes")
COMMON = {**PLACED, **NAMED}


def hides(case: Case) -> bool:
    """Whether the whole secret is masked as one, and nothing else is."""
    text, secret = case
    masked, number = mask(text.replace("¤", secret))
    before, after = map(re.escape, text.split("¤"))
    mark = r"\(masked [^()]+\)|\*{1,3}"
    return number == 1 and bool(re.fullmatch(f"{before}({mark}){after}", masked))


@pytest.mark.parametrize("name", {**PREFIXED, **COMMON})
def test_a_credential_is_masked_where_it_stands(name: str) -> None:
    assert hides({**PREFIXED, **COMMON}[name])


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_stays(text: str) -> None:
    assert mask(text) == (text, 0)


def test_amid_a_sentence_a_short_word_is_no_credential_and_after_a_flag_it_is() -> None:
    for text in ("The password is required? Then ask Kim.", "The token is a1b2c3d4e5 for now."):
        assert mask(text) == (text, 0)
    assert mask("--token q8Zt3Rk5Vw2Xy7Bn4") == ("--token (masked secret)", 1)


def test_rates(capsys: pytest.CaptureFixture[str]) -> None:
    """The rates that SECURITY.md states."""
    sets = {"prefixed": PREFIXED, "common": COMMON, "others": OTHER_SECRETS}
    masked = {name: sum(map(hides, cases.values())) for name, cases in sets.items()}
    touched = {
        name: sum(mask(text)[1] > 0 for text in texts)
        for name, texts in {"harmless": HARMLESS, "other harmless": OTHER_HARMLESS}.items()
    }
    with capsys.disabled():
        said = [f"{masked[name]} of {len(cases)} {name}" for name, cases in sets.items()]
        print(f"\nmasked: {', '.join(said)}; harmless texts touched: {touched}")
    assert masked["others"] >= 0.8 * len(OTHER_SECRETS) and touched["other harmless"] <= 1


OF_GITLEAKS = 222  # rules, those included that its data file leaves out


def test_the_shapes_of_gitleaks_and_their_likes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shape as it is generated from its pattern, behind its name as gitleaks tests it."""
    told = tomllib.loads((Path(masking.__file__).parent / "credentials/gitleaks.toml").read_text())
    monkeypatch.setattr(sys.modules["rstr.xeger"], "STAR_PLUS_LIMIT", 300)  # repetitions
    draw = Rstr(random.Random(7)).xeger
    secrets = [("the key ¤ here", draw(value)) for _, value in told["alone"].values()]
    secrets += [
        (f'{draw(label)}_api_token = "¤"', draw(value))
        for _, label, value in told["named"].values()
    ]
    # Five that the file leaves out are known here by their place.
    secrets += [PLACED[name] for name in ("Slack webhook", "Teams webhook", "curl --user")]
    secrets += [PLACED["X-API-Key of curl"], OTHER_SECRETS["App Store key"]]
    passed = [case for case in secrets if case[1][4:] in mask(case[0].replace("¤", case[1]))[0]]
    touched = [text for text in LOOKALIKES if mask(text)[1]]
    with capsys.disabled():
        masked = len(secrets) - len(passed)
        print(f"\nmasked: {masked} of the {OF_GITLEAKS} shapes of gitleaks; passed: {passed}")
    assert masked >= 0.9 * OF_GITLEAKS
    assert touched == [] and len(LOOKALIKES) >= 60


def test_every_prefix_has_a_test() -> None:
    named = " ".join(mask(text.replace("¤", secret))[0] for text, secret in PREFIXED.values())
    ours = [shape.name for shape in masking.shapes() if not shape.name.islower()]
    untried = [name for name in ours if f"(masked {name})" not in named]
    assert untried == [] and len(PREFIXED) >= 80


def test_masking_twice_changes_nothing_more_and_makes_no_text_longer() -> None:
    for text, secret in {**PREFIXED, **COMMON, **OTHER_SECRETS}.values():
        whole = text.replace("¤", secret)
        masked, _ = mask(whole)
        assert len(masked) <= len(whole) and mask(masked) == (masked, 0)


async def test_a_text_that_is_as_long_as_possible(tools: Tools, storage: MemoryStorage) -> None:
    def text(number: int) -> str:
        return f"redis://:pw{number}@cache " * 500 + "x" * 500

    tag = "https://user1:pw@example.com/a/b/c/d/e/f/g/h/i/j/k"
    assert (len(text(1)), len(tag)) == (10_000, 50)
    output = await tools.call("memory_store", content=text(1), tags=[tag])
    assert output["masked_secrets"] == 501
    memory = await storage.get(output["memory_id"])
    assert memory and memory.content == "redis://:***@cache " * 500 + "x" * 500
    assert memory.tags == [tag.replace(":pw@", ":**@")]
    await storage.store(text(2), [tag])  # the same text now
    assert await storage.count() == 1
    assert "10,001" in await tools.refused("memory_store", content=f"{text(1)}x")


KEY = f"sk-proj-{chars(60)}"


async def test_a_store_masks_before_anything_else_sees_it(
    make_tools: MakeTools, server: EmbeddingsServer
) -> None:
    tools = await make_tools(embedding_model="m", base_url=server.base_url)
    output = await tools.call("memory_store", content=f"The key is {KEY}.")
    assert output["masked_secrets"] == 1
    found = await tools.call("memory_search", query=f"Is {KEY} the sandbox key?")
    assert found["masked_secrets"] == 1
    [memory] = found["memories"]
    assert memory["content"] == "The key is (masked API key)." and KEY not in str(tools.events)
    assert [request["input"] for request in server.requests] == [
        ["The key is (masked API key)."],
        ["Is (masked API key) the sandbox key?"],
    ]


async def test_there_is_no_way_into_a_store_around_the_mask(
    storage: MemoryStorage, make_storage: MakeStorage, root: Path
) -> None:
    tags = [KEY[:50], "AKIA" + "A" * 16]
    said = {"content": f"The key is {KEY}.", "tags": tags, "metadata": {KEY[:40]: KEY}}
    await storage.store(*said.values())
    await storage.store("A text.", metadata={"db password": "hunter22", "project": "shop"})
    memory = Memory.model_validate({**said, "agent_id": "eva", "content": f"It is {KEY}"})
    await make_storage("eva").restore([memory])
    on_disk = bytes_of(root)
    assert KEY[8:].encode() not in on_disk and b"akia" not in on_disk.lower()
    [newest, older] = await storage.get_recent()
    assert older.content == "The key is (masked API key)."
    assert older.tags == ["(masked api key)", "(masked aws key)"]
    assert newest.metadata == {"db password": "***", "project": "shop"}


async def test_what_was_stored_unmasked_is_masked_when_shown(make_tools: MakeTools) -> None:
    tools = await make_tools(mask_secrets=False)
    output = await tools.call("memory_store", content=f"The key is {KEY}.")
    assert "masked_secrets" not in output
    assert KEY in str(await tools.call("memory_search", query="key"))
    output = await (await make_tools()).call("memory_search", query="key")
    assert KEY not in str(output) and output["masked_secrets"] == 1


# Beginnings of shapes, in texts made to be slow: over and over, or before what goes on and on.
BEGINNINGS = (
    *("sk-", "password=", "a.b-", "://a:", "-----BEGIN A ", "eyJa.", "eyJ-", "Bearer ", "x://:"),
    *("://a:b@", "https://a1", "--", "--password", "curl ", "curl -u ", "mysql ", "docker login "),
    *("machine ", "machine a login ", "a_", "A", "0-", "1//0", "token: ", "token:\t", "key='"),
    *("password: a1!", "\\n", "dp.st.", "?sig=", "token=a.b", "secret='a{", "password=&a=", " "),
    *(f"-----BEGIN RSA PRIVATE KEY-----{rest}" for rest in ("\n", "\nMIIEowIBAAKC")),
    *("-----BEGIN RSA PRIVATE KEY-----\n-----END CERTIFICATE-----\n",),
    *("-----BEGIN PRIVATE KEY-----", "a.webhook.office.com/webhookb2/", "aws_secret_access_key="),
)


def half(case: Case) -> str:
    """What comes before a secret, and the first half of it."""
    text, secret = case
    return (text.partition("¤")[0] + secret[: max(4, min(40, len(secret) // 2))])[-60:]


@pytest.mark.parametrize("further", [None, "a", "a1-", "a1_.", "A1/"])
def test_no_text_takes_long(further: str | None) -> None:
    """A pattern that looks for its end from each beginning would hold up the whole process: 10,000
    characters take about 10 ms, and 35 ms at worst; the bound is only for what makes it seconds.
    """
    for beginning in (*BEGINNINGS, *map(half, {**PREFIXED, **COMMON}.values())):
        text = (beginning + (further or beginning) * 10_000)[:10_000]
        started = time.process_time()
        mask(text)
        assert time.process_time() - started < 0.5, beginning
