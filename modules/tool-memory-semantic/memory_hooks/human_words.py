"""Which part of a prompt a human wrote. The rest is pasted, quoted or put there by a program, and
nothing in it may become a memory: a page that says "remember to always …" is not the user.

Better too little than too much: what may have been pasted counts as pasted.
"""

import re

# Nobody types more than this in one prompt; a paragraph, or a whole prompt, beyond it was pasted.
MAX_PARAGRAPH_CHARS = 1_000
MAX_PROMPT_CHARS = 4_000

_BLOCKS = re.compile(
    r"""```.*?(?:```|\Z) | ~~~.*?(?:~~~|\Z) | \"\"\".*?(?:\"\"\"|\Z) | '''.*?(?:'''|\Z)  # fences
    | <(?P<tag>[a-zA-Z][\w-]*)\b[^>]*>.*?(?:</(?P=tag)>|\Z)  # <context_file …>, HTML
    | <!--.*?(?:-->|\Z)
    | ^[-=*_]{3,}\s*$.*?(?:^[-=*_]{3,}\s*$|\Z)  # between two rules
    | :[ \t]*\n[ \t]*\n.*  # "summarise this for me:", an empty line, and all that follows
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
# Text in quotation marks of three words or more; in Japanese and Chinese ones of six signs.
_QUOTES = re.compile(
    r"""["“”„«](?:[^\s"“”„«»]+\s+){2,}[^"“”„«»]*["“”»] | [「『][^」』]{6,}[」』]
    | (?<!\w)['‘](?:[^\s'‘’]+\s+){2,}[^'‘’]*['’](?!\w)""",
    re.VERBOSE,
)
_MACHINE = re.compile(
    r"""^\s*(?: [>|$#%+] | // | /\* | \[?\d\d+[:.-]\d\d | at\ \S+\( | Traceback | File\ " | ={3}
      | (?:\S+\ )?(?:error|warning|warn|info|debug|fatal|exception|hint|help)\b\S*[:\]] )
    | \b(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL)\b | \w(?:Error|Exception)\b | ^(?:\ {4}|\t)""",
    re.MULTILINE | re.VERBOSE,
)


def human_words(prompt: str) -> str:
    """What of `prompt` its human wrote: without code, quotations, logs, tagged blocks and pastes;
    paragraphs are kept apart by empty lines.
    """
    text = _QUOTES.sub(" … ", _BLOCKS.sub("\n\n", prompt))
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    typed = [
        each
        for each in paragraphs
        if len(each) <= MAX_PARAGRAPH_CHARS and not _MACHINE.search(each)
    ]
    words = "\n\n".join(each for each in typed if each)
    return words if len(words) <= MAX_PROMPT_CHARS else ""
