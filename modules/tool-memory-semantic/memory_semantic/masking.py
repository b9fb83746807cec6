"""Keys and passwords do not become memories: known credential shapes are masked.

Shape alone decides, not entropy, so that commit hashes, UUIDs and base64 stay. What is masked is
lost, so a shape that no issuer guarantees must also look like a secret. The tests have the rates;
detect-secrets 1.5 without its guesses missed 19 of 32 examples and took 23 ms.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from .plaintext import without_tags

# Known by a shape of their own, which their issuers give them. They are data, with their source.
_SHAPES = Path(__file__).with_name("credentials")
# What may stand before such a shape. A letter or digit would make it the middle of a word, unless
# it ends a \n or Telegram's `/bot`.
_BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=/bot))"
# The same behind a name, an assignment between them (as gitleaks has it).
_ASSIGNED = r"[ \t\w.-]{0,20}[\s'\"]{0,3}(?:=>|:{1,3}=|\|\||\?=|[=>:,])[`'\"\s=]{0,5}"
# A hash or an id, which is no credential only because some name stands before it.
_HASH = re.compile(r"[0-9a-f-]+", re.IGNORECASE)

# NAME_PASSWORD=…, "token": "…", password: …, <password>…, --password … and "the password is …"; in
# German and Korean, too.
_NAMED = re.compile(
    r"(?:(?i:(?P<password>pass[ _-]?(?:wor[dt]|wd|phrase)|pwd|(?<=[_.])pass|kennwort"
    r"|(?<![A-Za-z])(?-i:[Pp]ass|[Pp][Ww])(?![A-Za-z])|비밀번호|패스워드|비번|암호)"
    r"|secret|token|credentials?|geheimnis|schl(?:ü|ue)ssel|토큰|시크릿|키"
    r"|(?:secret|api|access|auth|account|app|client|private|encryption|signing|master|license"
    r"|service|admin|session|shared)[ _.-]?(?:access[ _.-]?)?key)"
    r"|(?P<other>(?<!PUBLIC)_KEY))"
    # whose it is
    r"(?:[ \t](?:(?:for|of|on|für|von|zum?)[ \t][\w.@-]{1,30}|\([^()\n]{1,30}\)))?"
    r"(?:(?:\\?[\"']?[*_]{0,2}\s{0,3}(?:=>|:=|[:=])[*_]{0,2}|(?:는|은|이|가)"
    r"|[ \t](?:is|was|ist|war|lautet)(?:[ \t](?:now|jetzt))?:?)\s{0,3}\\?[\"'`]"
    r"(?P<quoted>[^\s\"'`\\]{6,300}+)(?=\\?[\"'`])"
    r"|(?:(?P<tight>\\?[\"']?=|>)|[*_]{0,2}[ \t]{0,3}[:=][*_]{0,2}[ \t]{0,3}"
    r"|(?:는|은|이|가|[ \t](?:is|was|ist|war|lautet)(?:[ \t](?:now|jetzt))?:?)[ \t]{1,3}"
    r"|(?P<flag>[ \t]))"
    r"(?P<bare>(?:[^\s\"'`,;()\[\]{}<>\\&]|&(?!\w+=)){6,300}+)(?![(\[{])"
    r"(?P<end>(?=[ \t]*(?:$|[\"'])))?)",
    re.MULTILINE,
)
# A placeholder for a secret: a variable, or a word that says so.
_PLACEHOLDER = re.compile(
    r"[$<{\[(*#@&!|>=~]|%(?![0-9A-F]{2})|%\w+%$|.*?(?:\{\w|\$\(|\.\.\.|…|x{4}"
    r"|(?<![a-z])(?:your|example|sample|dummy|fake|mock|placeholder|redacted|masked|insert|replace"
    r"|1password|todo|test|change[-_]?(?:me|it))(?![a-z]))",
    re.IGNORECASE | re.DOTALL,
)
# A secret's name or location instead of the secret: a path, an address, code, a constant, a number
# with its unit, an algorithm. Names in lower case are words between separators, one of them no hex,
# each with four digits at most, or short.
_REFERENCE = re.compile(
    r"(?:~|\.\.?)?/.*|[A-Za-z]:[\\/].*|(?:[a-z][a-z0-9+.-]{1,20}:/|arn:|urn:|mailto:).*"
    r"|[a-z]+(?:[A-Z][a-z]*)+\d{0,2}|[A-Za-z_]\w{0,24}(?:(?:\.|::|->)[A-Za-z_]\w{0,24})+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    r"|\d[\d.,:_-]*[a-z]{0,3}|(?:sha|hs|rs|es|aes|md|rsa|ed|base|argon|bcrypt|pbkdf|oauth)-?\d{1,5}"
    r"[a-z]{0,2}(?:[^A-Za-z0-9:].*)?"
    r"|(?=[a-z0-9]+[-_./@])(?=(?:.*[-_./@])?(?=[a-z]*[g-z])[a-z]{3,}(?:[-_./@]|$))"
    r"(?:(?>(?:[a-z]+\d{0,4}|[a-z0-9]{1,3}|\d{4})(?:[-_./@]|$)))+(?<![-_./@])",
    re.DOTALL,
)
# What a key of a cache is made of.
_PARTS = re.compile(r"[a-z0-9]+(?:[-_./@][a-z0-9]+)+")
# More than a word: letters and digits, but not a word with a number.
_MIXED = re.compile(r"(?![A-Za-z_]+\d{0,2}\Z)(?=.*\d)(?=.*[^\W\d_])", re.DOTALL)

# Credentials with a shape are long and without blanks; most other text is not.
_RUN = re.compile(r"[^\s\"'`<>(){}\[\],;]{15,}")


class Shape(NamedTuple):
    """The shape of a credential: its name, words of which a text that has it has one, in small
    letters, and the pattern, whose group `secret` is masked. It is `known_by` that `alone`, by its
    name before it (`named`), or by the place where it stands (`placed`).
    """

    name: str
    words: list[str]
    pattern: str
    known_by: str

    def fits(self, value: str) -> bool:
        """Whether a `value` in this shape is a credential, and not something else."""
        if self.known_by == "named":
            other = _HASH.fullmatch(value) or _REFERENCE.fullmatch(value)
            return bool(_MIXED.match(value)) and not other
        if self.name in ("token", "credentials") and _REFERENCE.fullmatch(value):
            return False
        return self.known_by == "alone" or not _PLACEHOLDER.match(value)


@cache
def shapes() -> list[Shape]:
    """Those that are known alone or by their name, ours before those of gitleaks."""
    ours, theirs = _read("ours"), _read("gitleaks")
    found: list[Shape] = []
    for name, (words, value) in (ours["alone"] | theirs["alone"]).items():
        pattern = rf"{_BEGINS}(?P<secret>{value})(?![A-Za-z0-9])"
        found.append(Shape(name.replace("-", " "), words.split(), pattern, "alone"))
    for name, (words, label, value) in theirs["named"].items():
        pattern = rf"(?i:{label}){_ASSIGNED}(?P<secret>{value})(?![\w-])"
        found.append(Shape(name.replace("-", " "), words.split(), pattern, "named"))
    return found


@cache
def places() -> list[Shape]:
    """Those that are known by their place."""
    read = _read("placed").items()
    return [Shape(name, words.split(), "".join(of), "placed") for name, (words, *of) in read]


def _read(name: str) -> dict[str, Any]:
    import tomllib  # not at mount

    return tomllib.loads((_SHAPES / f"{name}.toml").read_text())


_compiled = cache(re.compile)  # one by one, because most texts have the words of none


def _shaped(text: str) -> Iterator[tuple[str, int, int]]:
    runs = [run.span() for run in _RUN.finditer(text)]
    lower, within = text.lower(), " ".join(text[slice(*run)] for run in runs).lower()
    for shape in (*(shapes() if runs else ()), *places()):
        alone = shape.known_by == "alone"
        if any(word in (within if alone else lower) for word in shape.words):
            for span in runs if alone else [(0, len(text))]:
                for match in _compiled(shape.pattern).finditer(text, *span):
                    if shape.fits(match["secret"]):
                        yield shape.name, *match.span("secret")


def _named(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while match := _NAMED.search(text, at):
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
            shortest = 8 if match["password"] and _MIXED.match(value) else 16
        known = _PLACEHOLDER.match(value) or _REFERENCE.fullmatch(value)
        known = known or (match["other"] and _PARTS.fullmatch(value))
        if looks and len(value) >= shortest and not known:
            yield "secret", *match.span(group)
            at = match.end(group)
        else:  # it may begin with the name of a secret
            at = match.start(group)


def mask(text: str) -> tuple[str, int]:
    """`text` with every credential replaced by the name of its kind, and how many there were. The
    text never gets longer, so one that can be stored can also be stored masked.
    """
    pieces, end = list[str](), 0
    joined = _joined(chain(_shaped(text), _named(text)))
    for start, stop, (_, name) in joined:
        # Round brackets: Amplifier's console takes square ones for its own markup.
        mark = f"(masked {name})"
        fits = len(mark) <= stop - start
        pieces += (text[end:start], mark if fits else "***"[: stop - start])
        end = stop
    return "".join((*pieces, text[end:])), len(joined)


def _joined(found: Iterable[tuple[str, int, int]]) -> list[tuple[int, int, tuple[int, str]]]:
    """Where they begin and end in the text, those that overlap as one; and the length and name of
    the longest.
    """
    joined: list[tuple[int, int, tuple[int, str]]] = []
    for name, start, stop in sorted(found, key=itemgetter(1)):
        longest = (stop - start, name)
        if joined and start < joined[-1][1]:
            start, end, before = joined.pop()
            stop, longest = max(stop, end), max(before, longest, key=itemgetter(0))
        joined.append((start, stop, longest))
    return joined


def mask_all(value: Any, name: str = "") -> tuple[Any, int]:
    """The same for every text in lists and dicts of JSON, and for the names in these; anything else
    stays as it is. A name, as that of `value` may be, can say that what it names is a secret.
    """
    if isinstance(value, dict):
        pairs = [(mask_all(key), mask_all(each, str(key))) for key, each in value.items()]
        masked = {key: each for (key, _), (each, _) in pairs}
        return masked, sum(in_key + number for (_, in_key), (_, number) in pairs)
    if isinstance(value, list):
        items = [mask_all(each, name) for each in value]
        return [each for each, _ in items], sum(number for _, number in items)
    if not isinstance(value, str):
        return value, 0
    text, label = without_tags(value), name and f"{name}: "  # tags could split a credential
    both, number = mask(label + text)
    return (both.removeprefix(label), number) if both.startswith(label) else mask(text)
