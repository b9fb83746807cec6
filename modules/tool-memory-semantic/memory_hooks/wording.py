"""Two questions about wording: do two texts say the same, and does a text say more than its source?

Both are answered from the words alone. To an embedding model, "never on Fridays" is as close to "on
Fridays" as two wordings of the same thing, and so is Postgres to MySQL.
"""

import re
from unicodedata import normalize

# Words that make no difference to what is said; no preposition, tense or negation.
_FILLERS = set(
    """a an the that this these we i you our my your us me is are am be will have has ve ll re m s
    do does please pls kindly remember note fyi btw also and so just really ok okay yes hey decided
    agreed let lets going to""".split()  # noqa: SIM905 - to be read
)
_NOT = {"dont": "not", "don't": "not", "doesn't": "not"}
# Words with which a statement may begin even if its source does not contain them.
_OPENERS = set(
    """the a an all any each every no never always do use user users there it when if for in on at
    by to only new this these our replies answers prefers wants keep avoid project""".split()  # noqa: SIM905
)


def _words(text: str) -> list[str]:
    plain = normalize("NFKC", text).replace("\u2019", "'")
    return [word.strip(".'-/:") for word in re.findall(r"[\w#+&%€$][\w.'/:#+&%-]*", plain)]


def _stem(word: str) -> str:
    """The word without its plural or possessive ending."""
    word = word.casefold().removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def same_statement(one: str, other: str) -> bool:
    """Whether both say the same, apart from fillers, case, punctuation and endings.

    Any other difference may be a different fact: a name, a number, a "not", or the order of two
    names around an "instead of".
    """
    return _gist(one) == _gist(other)


def mostly_in(text: str, others: list[str]) -> bool:
    """Whether `text` and one of `others` share at least half of what the shorter one says."""
    own = set(_gist(text))
    for other in map(set, map(_gist, others)):
        if own and other and len(own & other) >= min(len(own), len(other)) / 2:
            return True
    return False


def _gist(text: str) -> list[str]:
    words = [_NOT.get(word, word) for word in map(str.casefold, _words(text))]
    return [_stem(word) for word in words if word and not {word, _stem(word)} & _FILLERS]


def goes_beyond(statement: str, source: str) -> bool:
    """Whether `statement` has a name or a number that `source` does not contain."""
    known = {_stem(part) for word in _words(source) for part in (word, *re.split(r"[-/:.]", word))}
    for number, word in enumerate(_words(statement)):
        named = any(char.isupper() or char.isdigit() for char in word)
        opener = number == 0 and word.casefold() in _OPENERS
        if named and not opener and _stem(word) not in known:
            return True
    return False
