"""Which part of a prompt its human wrote, sentence by sentence. The rest is pasted, quoted or put
there by a program, and nothing in it may become a memory: a page that says "remember to always …"
is not the user.

Better too little than too much: what may have been pasted counts as pasted.
"""

import re
from typing import NamedTuple

# Nobody types more than this; a paragraph, or a whole prompt, beyond it was pasted.
MAX_PARAGRAPH_CHARS = 1_000
MAX_PROMPT_CHARS = 4_000

# Amplifier puts the files that a prompt mentions before it, and writes prompts for skills itself.
# Up to the last closing tag, because a file may contain one.
_FILES = re.compile(r"<context_file\b(?:.*</context_file>|.*)", re.DOTALL)
SKILL_PROMPT = "Use the load_skill tool to load the skill"
# Of these, the one for /remember ends with what its human typed to be remembered.
_REMEMBER = re.compile(rf"""\A{SKILL_PROMPT} "remember".*?input is: """, re.DOTALL)

_BLOCKS = re.compile(
    r"""```.*?(?:```|\Z) | ~~~.*?(?:~~~|\Z) | \"\"\".*?(?:\"\"\"|\Z) | '''.*?(?:'''|\Z)  # fences
    | <(?!https?:)(?P<tag>[a-zA-Z][\w-]*)\b[^>]*>.*?(?:</(?P=tag)>|\Z)  # tagged blocks
    | <!--.*?(?:-->|\Z)
    | ^[-=*_]{3,}\s*$.*?(?:^[-=*_]{3,}\s*$|\Z)  # between two rules
    | :[ \t]*\n[ \t]*\n.*  # "the sniffer says:", an empty line, and all that follows
    | (?:^|(?<=[.,;!]\s)|\b(?:please|pls|and|can\ you|could\ you)\s)  # "write a comment: …"
      (?:write|put|add|draft|say|answer|reply|send)\b(?![^:\n]*\b(?:down|memory)\b)[^:\n]*:\s.*
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
# What stands for each character of a quotation or block, and of code, so that nothing moves.
_CUT, _CODE = "\ufffc", "\ufffb"
# Quotations and code, short ones too: else the end of one would be the beginning of the next.
_QUOTES = re.compile(
    r"""" [^"]* " | “ [^“”]* ” | „ [^„“”]* [“”] | « [^«»]* » | » [^«»]* « | `[^`]+`
    | 「 [^「」]* 」 | 『 [^『』]* 』 | (?<!\w)['\u2018] (?:[^'\u2018]|(?<=\w)'(?=\w))* ' (?!\w)""",
    re.VERBOSE,
)
_QUOTED_WORDS, _QUOTED_CHARS = 3, 6  # so many and more were pasted; characters without blanks
# Other pairs, smiling faces, and half a pair, whose other half is in another sentence.
_PAIR = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|(\*+)(?=\w)[^*]+\1|[:;=8]['-]?[()]")
_HALF = re.compile(
    r"[\"“”„«»「」『』`()\[\]{}]|(?<![\w*])\*+(?=\w)|(?<=[\w.!?])\*+(?!\w)"
    r"|(?<!\w)['\u2018](?=[^\W\d])|(?<=[.!?])'(?!\w)"
)
# A prompt that asks for work on a text contains that text, and where it begins cannot be told.
_GIVEN = re.compile(
    r"""\b(?:summari[sz]e | tl;?dr | translate | shorten | condense | rephrase | paraphrase | reword
      | proofread | übersetze? | zusammenfassen | fass)\b | 요약 | 번역 | 要約 | 翻訳
    | \b(?:got|received|here'?s|here\ is|read)\b[^.\n]{0,40}\b(?:this|the|a|an|my|their|from)\b
      [^\n]*\n""",
    re.IGNORECASE | re.VERBOSE,
)
_MACHINE = re.compile(
    r"""^\s*(?: [>|$#%+] | // | /\* | at\ \S+\( | Traceback | File\ " | ={3}
      | \[?(?:[A-Z][a-z]{2}\ +\d+\ )?\d\d+[:.-]\d\d  # a time, after a date as in a syslog
      | (?:\S+\ )?(?i:error|warning|warn|info|debug|fatal|exception|hint|help)\b\S*[:\]] )
    | ^\s*(?:npm|yarn|pip|make|zsh|bash|sh|ld|gcc|clang|docker|git|cargo|E\ )\b[^\n]*[:!]\s
    | \b(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL)\b | \w(?:Error|Exception)\b | ^(?:\ {4}|\t)""",
    re.MULTILINE | re.VERBOSE,
)
_PARAGRAPH = re.compile(r"(?:[^\n]|\n(?!\s*\n))+")
# A dot ends no sentence after these or a single letter, nor does a line if the next one goes on in
# lower case, or with a quotation, a bracket, emphasis or what was cut.
_ABBREVIATED = "vs. cf. etc. approx. incl. max. min. no. No. nr. Nr. Mr. Mrs. Ms. Dr. Prof. ca. .."
_NO_END = "".join(rf"(?<!\b{re.escape(each)})" for each in _ABBREVIATED.split())
_SENTENCE = re.compile(
    rf"""\S.*?(?=(?<=[.!?]){_NO_END}(?<![\s.(][^\W\d]\.)\s|(?<=[。\uff01\uff1f])
    |\n(?![a-zà-ÿ`'\u2018"“„«「『(\[{{{_CUT}{_CODE}]|[*_~]+\w)|\Z)""",
    re.DOTALL | re.VERBOSE,
)


class Sentence(NamedTuple):
    """A sentence as it was `said`, and its human's `own` words in it: equally long, with something
    else for the characters of quotations and code, on one line, with straight apostrophes.
    """

    said: str
    own: str

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut from it, and no quotation, bracket or emphasis goes on in another
        sentence.
        """
        rest, pairs = _QUOTES.sub("", self.own), 1
        while pairs:  # the innermost first
            rest, pairs = _PAIR.subn("", rest)
        return _CUT not in rest and not _HALF.search(rest)


def paragraphs(prompt: str) -> list[list[Sentence]]:
    """What its human wrote in `prompt`: without files, code, logs, tagged blocks and pastes. Empty
    if it cannot be told.
    """
    said = _REMEMBER.sub("", _FILES.sub("", prompt).strip())
    own = said.replace("\u2019", "'")
    if len(own) > MAX_PROMPT_CHARS or own.startswith(SKILL_PROMPT) or _GIVEN.search(own):
        return []
    own = _QUOTES.sub(_without_quote, _BLOCKS.sub(_without_block, own))
    return [
        [
            Sentence(said[slice(*each.span())].rstrip(), each[0].replace("\n", " ").rstrip())
            for each in _SENTENCE.finditer(own, *paragraph.span())
        ]
        for paragraph in _PARAGRAPH.finditer(own)
        if len(text := paragraph[0].strip()) <= MAX_PARAGRAPH_CHARS and not _MACHINE.search(text)
    ]


def sentences(text: str) -> list[str]:
    """The sentences of `text`, whoever wrote it, split as those of a prompt are."""
    own = text.replace("\u2019", "'")
    spans = [paragraph.span() for paragraph in _PARAGRAPH.finditer(own)]
    return [each[0] for span in spans for each in _SENTENCE.finditer(own, *span)]


def human_words(prompt: str) -> str:
    """The same as one text, for a model to read: with … for quotations and code."""
    text = "\n\n".join("\n".join(each.own for each in some) for some in paragraphs(prompt))
    return re.sub(f"[{_CUT}{_CODE}]+", "…", text)


def _without_block(block: re.Match[str]) -> str:
    # A paragraph ends within it, and the sentences before and after it show that they were cut.
    return _CUT + "\n" * (len(block[0]) - 2) + _CUT


def _without_quote(quote: re.Match[str]) -> str:
    text = quote[0]
    blanks = text[0] not in "「『"
    long = len(text.split()) >= _QUOTED_WORDS if blanks else len(text) - 2 >= _QUOTED_CHARS
    return (_CODE if text[0] == "`" else _CUT) * len(text) if long else text
