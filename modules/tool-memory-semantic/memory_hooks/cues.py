"""What a human says in so many words is worth keeping: a short list of phrases, precise rather than
complete. They are those by which people mark what lasts, whatever they talk about.

A sentence that asks, supposes, jokes, reports or is about this moment only is not kept. A turn in
which something is to be forgotten, or that speaks of a password, is left alone.
"""

import re
from typing import NamedTuple

# Lengths of a text that is kept. An introduction below the second is kept with what follows it.
MIN_CHARS, INTRODUCTION_CHARS, MAX_CHARS = 10, 30, 1_000


class Found(NamedTuple):
    """A text that is worth keeping, and its kind."""

    kind: str
    text: str


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Where an imperative can stand.
_START = r"(?:^|[,;:–—-] |\b(?:and|but|so|please|pls|also|oh|ok) )"

# Whoever says one of these does not want the turn kept, or speaks of what must not be.
_LEAVE = _any(
    r"\b(?:don'?t|do not|not|never|no need to) (?:\w+ )?(?:remember|store|save|record|note|memori[sz]e"
    r"|write|keep|capture)(?: of)? (?:this|that|it|any|what)\b",
    r"\bforget (?:this|that|it|what|about|everything)\b|off the record|\bnot be recorded\b",
    r"\bnicht (?:merken|speichern)|기억하지 ?마|저장하지 ?마|覚えないで|記録しないで",
    r"\b(?:passwords?|passwd|passphrase|passwort|kennwort|credentials?|tokens?|pin code)\b",
    r"\bpass (?:for|is)\b|\bkeys?(?: is| for|[:=])|\b(?:api|access|private|secret|ssh)[ -]?keys?\b",
    r"\bsecret is\b|비밀번호|パスワード|暗証",
)
_NOT_SAID = _any(
    r"[?？]\W*$|ですか|(?:^|[,;–-] )(?:(?:and|but|so|ok|hm+|then),? )?(?:what|why|how|which|who|where)\b",
    r"(?:^|[,;–-] )(?:(?:and|but|so|ok|hm+|then),? )?"
    r"(?:can|could|would|should|shall|do|does|did|is|are|was) (?:i|we|you|it|the|there|that|this)\b",
    r"\b(?:maybe|perhaps|might|suppose|imagine|hypothetical\w*|i wish|some ?day|vielleicht)\b|at some point",
    r"\bif (?:i|we|you|they|it) (?:had|were|was|wanted|went|could|would)\b|\bthink(?:ing)? aloud",
    r"\b(?:not|n't|nothing|un)[ -]?(?:\w+ ){0,2}(?:decided|settled|sure|final)\b|\bdecided nothing\b",
    r"\b(?:today|tonight|for now|right now|temp\w*|for the moment|this (?:time|once)|yet|quick\w*)\b",
    r"\bthis (?:run|build|test|branch|session|screenshot)\b|\b(?:just|only) for (?:this|the)\b",
    r"\b(?:try|see) (?:if|what|how|whether|it)\b|\bfirst\W*$|\b(?:heute|diesmal)\b|오늘|이번만|今[日回]だけ",
    r"\b(?:docs?|page|article|readme|they|he|she|paper|book|log) (?:says?|said|writes?|wrote|reads)\b",
    r"\btypo\b|🙄|🙃|\blol\b|\bhaha|\byeah,? right\b",
)
CUES: dict[str, re.Pattern[str]] = {
    "explicit": _any(
        rf"{_START}(?:always )?remember\b(?! when| how| what| the | to (?!always|never))",
        r"\b(?:keep|bear) in mind\b|\bdon'?t forget (?!to )|\bplease note\b|\bfor the record\b",
        r"\bmake a note\b|\bnote (?:to|for) (?:self|you)\b|\bfor (?:your|future) (?:info|reference)|\bfyi\b",
        r"^important\b|\b(?:need|good|important|worth) (?:to know|knowing|remembering)\b",
        r"\bmerk dir\b|\bdenk (?:bitte )?daran\b|기억해|잊지 ?마|覚えておいて|忘れないで",
    ),
    "decision": _any(
        r"\b(?:we|i)(?: have|'ve)?(?: all| just| now)? (?:decided|agreed|settled|opted)\b",
        r"\b(?:we|i)(?: will|'ll|'re| are|'m| am)(?: now)? (?:go(?:ing)? with|stay(?:ing)?|stick|use)\b",
        r"\blet'?s (?:go with|stick|use|stay|standardi[sz]e|not (?:use|do)|only|always|never)\b",
        r"\bwe (?:stay|stick|keep to|go) (?:on|with|to)\b|\bit(?:'s| is) (?:settled|final|decided)\b",
        r"\b(?:do not|don'?t) (?:take|use|introduce) (?!it|this|that|these|a |an |the |any )\w+",
        r"\bmade up my mind\b|\bwir (?:haben (?:uns )?entschieden|bleiben bei|nehmen)\b",
        r"하기로 했|(?:로 가|하)자\b|ことにし(?:た|ました)|に決め(?:た|ました)",
    ),
    "preference": _any(
        r"\bi (?:much |really |strongly )?prefer\b|\bi(?:'d| would) (?:much )?rather\b|^preference\b",
        r"\bi (?:don'?t|do not) (?:want|like) (?:any|to see|you to|your|seeing|it when)\b|\bi hate (?:it )?when",
        r"\bkeep (?:your |the |all )?(?:answers|replies|responses|explanations|summaries|messages)\b",
        r"\bmy preference\b|\bich (?:mag|bevorzuge|möchte) (?:kein|lieber)",
    ),
    "rule": _any(
        r"\b(?:from now(?: on)?|going forward|from here on|in future|from day one|ever again|as a rule)\b",
        r"\b(?:the|our|team|company) (?:rule|policy|convention)\b|\bwithout exception\b|\bunless (?:i|we)\b",
        rf"{_START}(?:never|always|(?:do not|don'?t) ever) (?!mind|the |a |my |\w+ed\b)\w+",
        r"\b(?:we|i) (?:always|never) (?!forget|get|got|had|know|knew|remember|see|saw|did|made|\w+ed\b)",
        r"\b(?:must|may) (?:not|never|always|only)\b|\bha(?:s|ve) to be (?!the|an?\b)|\bnot allowed\b",
        r"\b(?:do not|don'?t|no|only|must|use|all)\b.*\b(?:anywhere|everywhere|elsewhere|ever|at all)\b",
        r"\b(?:for|in) (?:all|every|each|any) (?:of )?(?:our|my|new|future|next|later|single)\b",
        r"\bevery(?! ?time)\w*(?: \w+){0,3} (?:we|i|you) (?!\w+ed\b)\w+",
        r"\b(?:all|every|no|never|always|only)\b.*\bin (?:this|our) (?:project|repo\w*|code ?base|house|company)",
        r"\bonly(?= ?(?:[.,;!]|$|ok\b|please|pls))|\b(?:pls|please) no \w+|^no (?!idea|need).*\b(?:please|pls)\b",
        r"\binsist(?:s|ed)?\b|\b(?:vetoed|banned|forbidden|mandatory)\b",
        r"\bab (?:jetzt|sofort)\b|\bkünftig\b|\bgrundsätzlich\b|\bbitte kein|앞으로|항상|반드시|今後|必ず|常に",
    ),
    "lesson": _any(r"\bturn(?:s|ed) out\b|\bwe(?:'ve)? learn(?:ed|t)\b|\blessons? learn(?:ed|t)\b"),
    "fact": _any(
        r"\bi work (?:from|for|at)\b|\bi(?:'m| am) based in\b|\bwe (?:support|deploy|use)\b",
        r"\bin charge of\b|\bresponsible for\b|\bthe one for\b|\b(?:deadline|code freeze) is\b",
    ),
}
# A lesson is also a cause together with what became of it.
_CAUSE = _any(
    r"\b(?:came from|because|caused by|due to|culprit|root cause|reason (?:is|was)|since the)\b",
    r"\bit was\b|\w (?:was|were) (?:the|a|that|when|on|not)\b|\bso every\b|\bes lag an\b|원인|原因",
)
_SOLVED = _any(
    r"\b(?:is|are|'?s|completely|all) (?:now )?(?:fixed|solved|gone|fine|green|stable|solid)\b",
    r"\b(?:solved|fixed|fixes) (?:it|that)\b|\bsolved\.|\b(?:works|fine|green|right) (?:again|now)\b",
    r"\bfound it\b|\brock solid\b|고쳤|解決しました",
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def found(words: str) -> list[Found]:
    """What of a human's own `words` is worth keeping, in their order."""
    if _LEAVE.search(words):
        return []
    found = []
    for paragraph in re.split(r"\n{2,}", words):
        sentences = [each.strip() for each in _SENTENCES.split(paragraph) if each.strip()]
        said = [each for each in sentences if not _NOT_SAID.search(each)]
        lesson = bool(_SOLVED.search(paragraph))
        for number, sentence in enumerate(said):
            kind = next((kind for kind, cues in CUES.items() if cues.search(sentence)), None)
            if kind is None and lesson and _CAUSE.search(sentence):
                kind = "lesson"
            if kind == "explicit" and (len(sentence) < INTRODUCTION_CHARS or sentence[-1] == ":"):
                sentence = " ".join(said[number : number + 3])
            if kind and MIN_CHARS <= len(sentence) <= MAX_CHARS:
                found.append(Found(kind, sentence))
    return found
