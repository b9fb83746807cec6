"""How many tokens a text is, about, for any model and without asking one."""

import re

# What tokenizers make a token or more of. A word takes the blank before it, digits do not.
_PIECES = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<digits> ?[0-9]{1,3})|(?P<blanks>\s*\n\s*|[^\S\n]{2,})"
    r"|(?P<signs>[!-/:-@\[-`{-~]+)|(?P<other>[^\x00-\x7f])"
)
# Letters of a word that is one token, and of a token in a longer one; signs of one; blanks of one.
_WHOLE_WORD, _LETTERS, _SIGNS, _BLANKS = 7, 4.5, 2.2, 32
# Korean, Japanese and Chinese take 0.8 to 1.1 tokens for a character, emoji more.
_NOT_ASCII = 1.1


def estimate(text: str) -> float:
    """The tokens of `text`, rather too many than too few, for Korean as well: there a quarter of
    the characters would be 43 to 64 % too few. The lines of a text never come to less than the
    whole.
    """
    total = 0.0
    for piece in _PIECES.finditer(text):
        length = piece.end() - piece.start()
        match piece.lastgroup:
            case "word":
                total += 1 if length <= _WHOLE_WORD else length / _LETTERS
            case "blanks":
                total += 1 + length / _BLANKS
            case "signs":
                total += max(1, length / _SIGNS)
            case "digits":
                total += 1 + (piece[0][0] == " ")
            case _:
                total += _NOT_ASCII
    return total
