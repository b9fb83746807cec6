"""Which part of a prompt its human wrote. The rest is pasted, quoted or put there by a program, and
nothing in it may become a memory: a page that says "remember to always …" is not the user.

Better too little than too much: what may have been pasted counts as pasted.
"""

import re

from memory_semantic.masking import mask


def phrases(lines: str) -> re.Pattern[str]:
    """What finds any of the patterns, one a line, as whole words. In them START is where an
    imperative can stand, and HEAD the head of a clause.
    """
    patterns = []
    for line in map(str.strip, lines.strip().splitlines()):
        pattern = re.sub(r"^(?=\(|[a-z])|(?<=[a-z)])$", r"\\b", line)
        pattern = pattern.replace(
            "START ", r"(^|[,;:\u2013-] |\b(and|but|so|please|pls|also|oh|ok) )"
        )
        pattern = pattern.replace("HEAD ", r"(^|[,;\u2013-] )((and|but|so|ok|hm+|then),? )?")
        patterns.append(pattern)
    return re.compile("|".join(patterns), re.IGNORECASE)


_FORGET = phrases(r"""
    (don'?t|not|never|no need to) (\w+ )?(remember|store|save|record|note|write|keep) (this|that|it)
    (don'?t|not|never|no need to) (\w+ )?(remember|record|note|take note of) (any|what|th)\w*
    (forget (this|that|it|what|about|everything)|off the record|not be recorded)
    nicht (merken|speichern)
    (기억|저장)하지 ?마|(覚え|記録し)ないで
""")
_SECRET = phrases(r"""
    (passwords?|passwd|passphrase|passwort|kennwort|credentials?|tokens?|pin code|secret is)
    (pass (for|is)|keys? (is|for)|(api|access|private|secret|ssh)[ -]?keys?)
    (pw|pwd|pin|pass ?code|secrets?|login|contraseña|clave|mot de passe|mdp|zugangsdaten)
    keys?[:=]|비번|암호|暗号|\(masked |비밀번호|パスワード|暗証
""")

# Nobody types more than this; a paragraph, or a whole prompt, beyond it was pasted.
MAX_PARAGRAPH_CHARS = 1_000
MAX_PROMPT_CHARS = 4_000

# Amplifier puts the files that a prompt mentions before it, and writes prompts for skills itself.
# To the last closing tag: a file may hold one of its own.
_FILES = re.compile(r"<context_file\b(?:.*</context_file>|.*)", re.DOTALL)
_SYNTHETIC = ("Use the load_skill tool to load the skill",)

_BLOCKS = re.compile(
    r"""```.*?(?:```|\Z) | ~~~.*?(?:~~~|\Z) | \"\"\".*?(?:\"\"\"|\Z) | '''.*?(?:'''|\Z)  # fences
    | <(?P<tag>[a-zA-Z][\w-]*)\b[^>]*>.*?(?:</(?P=tag)>|\Z) | <!--.*?(?:-->|\Z)  # tagged blocks
    | ^[-=*_]{3,}\s*$.*?(?:^[-=*_]{3,}\s*$|\Z)  # between two rules
    | :[ \t]*\n[ \t]*\n.*  # "the sniffer says:", an empty line, and all that follows
    | (?:^|[.,;!]\s|\b(?:please|pls|and|can\ you|could\ you)\s)  # "write a comment: …"
      (?:write|put|add|draft|say|answer|reply|send)\b(?![^:\n]*\b(?:down|memory)\b)[^:\n]*:\s.*
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
# Text in quotation marks of three words or more; in Japanese and Chinese of six signs.
_QUOTES = re.compile(
    r"""["“”„«](?:[^\s"“”„«»]+\s+){2,}[^"“”„«»]*["“”»] | [「『][^」』]{6,}[」』]
    | (?<!\w)['\u2018](?:[^\s'\u2018\u2019]+\s+){2,}[^'\u2018\u2019]*['\u2019](?!\w)""",
    re.VERBOSE,
)
# Who asks to have a text worked on has given one, and where it begins cannot be told.
_GIVEN = re.compile(
    r"""\b(?:summari[sz]e | tl;?dr | translate | shorten | condense | rephrase | paraphrase | reword
      | proofread | übersetze? | zusammenfassen | fass)\b | 요약 | 번역 | 要約 | 翻訳
    | \b(?:got|received|here'?s|here\ is|read)\b[^.\n]{0,40}\b(?:this|the|a|an|my|their|from)\b
      [^\n]*\n""",
    re.IGNORECASE | re.VERBOSE,
)
_MACHINE = re.compile(
    r"""^\s*(?: [>|$#%+] | // | /\* | \[?\d\d+[:.-]\d\d | at\ \S+\( | Traceback | File\ " | ={3}
      | (?:\S+\ )?(?i:error|warning|warn|info|debug|fatal|exception|hint|help)\b\S*[:\]] )
    | \b(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL)\b | \w(?:Error|Exception)\b | ^(?:\ {4}|\t)""",
    re.MULTILINE | re.VERBOSE,
)


def human_words(prompt: str) -> str:
    """What of `prompt` its human wrote: without code, quotations, logs, tagged blocks and pastes;
    paragraphs are kept apart by empty lines. Empty if it cannot be told.
    """
    text = _FILES.sub("", prompt).replace("\u2019", "'").strip()
    if len(text) > MAX_PROMPT_CHARS or text.startswith(_SYNTHETIC) or _GIVEN.search(text):
        return ""
    text = _QUOTES.sub("…", _BLOCKS.sub("\n\n", text))
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    return "\n\n".join(
        each
        for each in paragraphs
        if each and len(each) <= MAX_PARAGRAPH_CHARS and not _MACHINE.search(each)
    )


def to_be_forgotten(words: str) -> bool:
    """Whether a human says in these words that they are not to be kept."""
    return bool(_FORGET.search(words))


def speaks_of_secrets(text: str) -> bool:
    """Whether `text` shows a credential or speaks of one."""
    return bool(_SECRET.search(mask(text)[0]))
