"""Texts with credentials, and harmless ones, to measure masking: `credentials.txt`, `harmless.txt`.

The credentials are generated when this runs, in the form that their issuers describe.
"""

import random
import re
import string
from pathlib import Path

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
