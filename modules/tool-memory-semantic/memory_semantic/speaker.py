"""Who said a text: the user, a tool or a page, or the agent itself, as its conversation shows; and
which part of a prompt its human wrote, sentence by sentence.

The rest of a prompt is pasted, quoted or put there by a program, and nothing in it is the user's
word: a page that says "remember to always …" is not the user. The user said a text if every
sentence of it is a whole sentence of such own words, and vouches for one with a quote, if this
stands in them as it is, and is about the same. Better too little than too much: what may have been
pasted counts as pasted.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import normalize

from .remembered import Speaker

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
      (?:write|put\ (?:this|that|an?)|add|draft|say|answer|reply|send)\b
      (?![^:\n]*\b(?:down|memory)\b)[^:\n]*:\s.*
    | ^>[^\n]*(?:\n>[^\n]*)*  # quoted, as in a mail; the answer follows
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
# A prompt that asks for work on a text contains that text, and where it begins cannot be told. The
# title of a ticket ("FERN-212: shorten the lease") asks for nothing.
_GIVEN = re.compile(
    r"""\b(?<!\d:\ )(?:summari[sz]e | tl;?dr | translate | shorten | condense | rephrase
      | paraphrase | reword | proofread | übersetze? | zusammenfassen | fass)\b
    | 요약 | 번역 | 要約 | 翻訳
    | \b(?:got|received|here'?s|here\ is|read)\b[^.\n]{0,40}\b(?:this|the|a|an|my|their|from)\b
      [^\n]*\n(?!\s*(?:```|~~~))  # what is fenced is known
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MACHINE = re.compile(
    r"""^\s*(?: [>|\#%+] | \$(?!\d) | // | /\* | at\ \S+\( | Traceback | File\ " | ={3}
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
# A command of the app, and unlike it no path; how a question ends; the words of a statement.
_COMMAND = re.compile(r"\s*/\w[\w:-]*(?:\s|\Z)")
_QUESTION = re.compile(r"[?\uff1f\u061f]\W*\Z")
_STATED_WORDS = 3
# Results of these repeat what is remembered, and who said that is known.
_OWN_TOOLS = ("memory_search", "memory_store")
_INTRODUCTION = re.compile(
    r"^((please|pls|also|and|so|ok(ay)?)[, ]+)*(remember|note|keep in mind)(,? that\b|:|,)\s*"
)
# Each character of Chinese, Japanese and Korean counts as a word, and so does what was cut, so that
# no quote spans it.
_WORD = re.compile(rf"[^\W\u3005-\ud7a3]+|[\u3005-\ud7a3{_CUT}{_CODE}]")
# What two texts about the same may share: two neighbouring characters of these, without hiragana.
_PAIRS = re.compile(r"(?=([\u30a1-\ud7a3]{2}))")
# Words that say nothing of what a text is about, in English, German, French and Spanish.
_EMPTY = set(
    """
    a aber about after again all also always an and any are as at auch auf avec be because been
    before but by can ce cette como con could dans das de dem den der des did die dies do does
    doing don done du each ein eine einen einer el elle en es est et every for from für get give
    go got haben had has hat have he her here him his how i ich if ihr il im immer in into is ist
    it its je jetzt just keep la las le les let like lo los made make man may me mit more most
    must my need never new nicht no noch not nous now nuestro nur o oder of off on one only or
    other ou our out over par para pas please por pour put que qui same say says se see shall she
    should sie siempre sind so some son sont still su such sur sure take tell than that the their
    them then there these they thing things this those to too toujours un una und under une up us
    use used user uses using very von vous want wants was way we well wenn werden were what when
    where which while who why will wir wird with would y yes yet you your zu zum
    """.split()  # noqa: SIM905 - to be read
)
_STEM = 4  # of longer words so many characters are compared: deploys, deploying, deployment
_END = re.compile(r"[\s.!\u2026\u3002\uff01*_)]+$")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")  # in JSON, as many tools answer


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

    @property
    def is_statement(self) -> bool:
        """Whether it is whole and no question."""
        return self.is_whole and not _QUESTION.search(self.said)


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


def states(prompt: str) -> bool:
    """Whether its human states something in `prompt`, which is no command of the app and not of a
    skill: a whole sentence of three words or more that is no question. What it says does not count.
    """
    if _COMMAND.match(prompt) or is_of_skill(prompt):
        return False
    return any(
        each.is_statement and len(_words(each.said).split()) >= _STATED_WORDS
        for paragraph in paragraphs(prompt)
        for each in paragraph
    )


def is_remember(prompt: str) -> bool:
    """Whether Amplifier wrote `prompt` for the skill /remember, which shows what it stores."""
    return bool(_REMEMBER.match(_FILES.sub("", prompt).strip()))


def is_of_skill(prompt: str) -> bool:
    """Whether Amplifier wrote `prompt` for a skill, such as /remember."""
    return _FILES.sub("", prompt).lstrip().startswith(SKILL_PROMPT)


def _without_block(block: re.Match[str]) -> str:
    # A paragraph ends within it, and the sentences before and after it show that they were cut.
    long = len(block[0])  # it may be one character
    return (_CUT + "\n" * (long - 2) + _CUT)[:long]


def _without_quote(quote: re.Match[str]) -> str:
    text = quote[0]
    blanks = text[0] not in "「『"
    long = len(text.split()) >= _QUOTED_WORDS if blanks else len(text) - 2 >= _QUOTED_CHARS
    return (_CODE if text[0] == "`" else _CUT) * len(text) if long else text


def humans(coordinator: Any) -> bool:
    """Whether a human types the prompts of this session: it is no sub-agent's, no program drives
    it, and it is not pursuing a goal, whose evaluator speaks in the user's place.
    """
    origin = os.environ.get("AMPLIFIER_SESSION_ORIGIN", "").strip().lower()
    goal = (getattr(coordinator, "session_state", None) or {}).get("goal") or {}
    parent = getattr(coordinator, "parent_id", None)
    return not parent and origin in ("", "human") and not goal.get("turns_used")


def said_by(content: str, messages: Sequence[Any], by_human: bool) -> Speaker:
    """Who said `content`, as the `messages` of the conversation show. Only if they come `by_human`
    can the user have said it.
    """
    said = sentences(content)
    own = [_plain(sentence) for sentence in said]
    if by_human and own and set(own) <= _of_user(messages):
        return "user"
    parts = [words for sentence in said if (words := _words(sentence))]
    heard = any(_is_in(parts, result) for result in _results(messages))
    return "tool" if heard else "agent"


def vouched(quote: str, content: str, messages: Iterable[Any]) -> str:
    """The sentences in which the human of a conversation typed `quote`, so that they vouch for
    `content`; "" if they do not. The quote must stand in them word for word, have three words or
    more, and share with `content` what it is about: a word or a number, or two pairs of Chinese,
    Japanese or Korean characters. Only sentences that state something count.
    """
    words, shared = _words(quote), _subjects(quote) & _subjects(content)
    pairs = [each for each in shared if _PAIRS.match(each)]
    if (len(shared) - len(pairs) < 1 and len(pairs) < 2) or _number_of(words) < _STATED_WORDS:
        return ""
    for prompt in _prompts(messages):
        for stated in _stated(prompt):
            texts = [_words(each) for each in stated]
            if _within(words, texts):
                first = max(n for n in range(len(texts)) if _within(words, texts[n:]))
                last = min(
                    n for n in range(first, len(texts)) if _within(words, texts[first : n + 1])
                )
                return " ".join(stated[first : last + 1])
    return ""


def _within(words: str, texts: Sequence[str]) -> bool:
    return f" {words} " in f" {' '.join(texts)} "


def _stated(prompt: str) -> Iterator[list[str]]:
    """What its human states in `prompt`, as rows of sentences that follow each other: with the code
    in them, and a mark in place of quotations.
    """
    for paragraph in paragraphs(prompt):
        row: list[str] = []
        for each in paragraph:
            if each.is_statement:
                pairs = zip(each.said, each.own, strict=False)
                row.append("".join(said if own == _CODE else own for said, own in pairs))
            else:
                yield row
                row = []
        yield row


def _number_of(words: str) -> float:
    """How many words these are; two characters of Chinese, Japanese or Korean count as one."""
    return sum(0.5 if "\u3005" <= word <= "\ud7a3" else 1 for word in words.split())


def _subjects(text: str) -> set[str]:
    """The words and numbers that say what a text is about, as far as they are compared."""
    words = [word for word in _words(text).split() if word not in _EMPTY]
    told = {word[:_STEM] for word in words if len(word) > 1 or word.isdigit()}
    return told.union(_PAIRS.findall(_folded(text)))


def _is_in(parts: Sequence[str], result: str) -> bool:
    """Whether one of `parts`, which are words alone, stands in what a tool answered."""
    text = _folded(_ESCAPE.sub(lambda it: chr(int(it[1], 16)) if it[1] else " ", result))
    likely = [part for part in parts if max(part.split(), key=len) in text]  # this is quick
    words = f" {_words(text)} " if likely else ""
    return any(f" {part} " in words for part in likely)


def _prompts(messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        hook = _get(_get(message, "metadata"), "source") == "hook"
        if _get(message, "role") == "user" and not hook:
            yield _text(message, ("text",))


def _of_user(messages: Iterable[Any]) -> set[str]:
    said = set()
    for prompt in _prompts(messages):
        for paragraph in paragraphs(prompt):
            whole = [_plain(each.said) for each in paragraph if each.is_whole]
            said.update(whole, (_INTRODUCTION.sub("", each) for each in whole))
    return said


def _results(messages: Iterable[Any]) -> Iterator[str]:
    """What tools answered, apart from the memory tools."""
    calls = [call for message in messages for call in _get(message, "tool_calls") or ()]
    names = {_get(call, "id"): _get(call, "tool") or _get(call, "name") for call in calls}
    for message in messages:
        name = names.get(_get(message, "tool_call_id")) or _get(message, "name")
        if _get(message, "role") == "tool" and name not in _OWN_TOOLS:
            yield _text(message)


def _text(message: Any, fields: Sequence[str] = ("text", "output")) -> str:
    content = _get(message, "content") or ""
    if not isinstance(content, str):
        parts = (next(filter(None, (_get(part, name) for name in fields)), "") for part in content)
        content = "\n".join(map(str, parts))
    return content


def _get(thing: Any, name: str) -> Any:
    """A field, whether loops and contexts keep their messages as dicts or as objects."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _plain(sentence: str) -> str:
    """A sentence as it is compared: case, blanks, the form of quotes and the end do not count."""
    straight = _folded(sentence).replace("\u2019", "'")
    listed = re.sub(r"^(?:[-*\u2022]|\d+[.)])\s+", "", " ".join(straight.split()))
    return _END.sub("", listed)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(_folded(text)))


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()
