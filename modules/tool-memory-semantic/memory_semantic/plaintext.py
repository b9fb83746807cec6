"""Invisible characters: which are left out of memories, and which are shown as dots.

A model reads them all, so an instruction to it can hide in what looks like ordinary text.
"""

import re

# Tags (U+E0000 to E007F) have one use: after a black flag they spell which flag it is, and a cancel
# tag ends them (UTS #51). They could spell any other text, so only the flags that Unicode
# recommends are accepted: England, Scotland and Wales.
_FLAGS = ("gbeng", "gbsct", "gbwls")
_FLAG = (
    "\U0001f3f4(?:"
    + "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in _FLAGS)
    + ")\U000e007f"
)
_TAGS = re.compile(f"({_FLAG})|[\U000e0000-\U000e007f]")
_LINE_END = re.compile("\r\n?")

# Controls, line and paragraph separators, and what Unicode calls default-ignorable code points: the
# zero-width ones, directions, fillers, variation selectors, tags.
_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI = "\xa9\xae\u203c-\u3299\ufe0f\U0001f000-\U0001faff"
# Where they belong: a flag; a joiner between emoji, or after a letter of the scripts that need it,
# from Hebrew and Arabic to Mongolian; one variation selector after what it varies.
_AT_HOME = (
    f"{_FLAG}|(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])|(?<=[\u0590-\u061b\u061d-\u17b3\u17b6-\u180a])"
    f"[\u200c\u200d]|(?<=[^\\s{_INVISIBLE}])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_HIDDEN = re.compile(f"({_AT_HOME})|[{_INVISIBLE}]")


def without_tags(text: str) -> str:
    """`text` without tag characters, except those of flags."""
    return _TAGS.sub(r"\1", text)


def normal(text: str) -> str:
    """`text` in its stored form: trimmed, without tag characters or leading byte order marks, and
    with line feeds as the only line ends.
    """
    text = re.sub(r"\A[\s\ufeff]+", "", without_tags(text))
    return _LINE_END.sub("\n", text).strip()


def one_line(text: str) -> str:
    """`text` as a line, or a part of one, that a person or a model reads: `plain`, its blanks and
    line ends folded, and each < as ‹, so that it neither ends the message it stands in nor begins
    another.
    """
    return plain(" ".join(text.split())).replace("<", "\u2039")


def plain(text: str) -> str:
    """`text` for display, with a dot for each character that is invisible or that a terminal would
    obey. Tabs and line feeds stay, and so do the characters that emoji and scripts need.
    """
    return _HIDDEN.sub(lambda match: match[1] or "·", text)
