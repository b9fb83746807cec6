"""The phrases by which people mark what lasts, whatever they talk about: precise, not complete.

A sentence that asks, supposes, jokes, reports or is about this moment only is not kept, and a turn
in which something is to be forgotten, or that speaks of a password, is left alone.
"""

import re
from typing import NamedTuple

from .human_words import phrases, speaks_of_secrets, to_be_forgotten

MIN_CHARS, MAX_CHARS = 10, 1_000  # of a text that is kept
_INTRODUCTION_CHARS, _INTRODUCED = 30, 3  # below, it is kept with so many sentences that follow


class Found(NamedTuple):
    """A text that is worth keeping, and its kind."""

    kind: str
    text: str


# Asked, supposed, undecided, for now, reported, or not meant.
_NOT_SAID = phrases(r"""
    [?\uff1f]\W*$|first\W*$|ですか|오늘|이번만|今[日回]だけ|🙄|🙃
    HEAD (what|why|how)
    ^((and|so|but) )?(which|who|where)\b
    HEAD (can|could|would|should|shall|do|does|did|is|are|was) (i|we|you|it|the|there|that|this)
    (maybe|perhaps|might|suppose|imagine|hypothetical\w*|i wish|some ?day|at some point|vielleicht)
    (if (i|we|you|they|it) (had|were|was|wanted|went|could|would)|think(ing)? aloud)
    (not|nothing|have ?n'?t|has ?n'?t|un)[ -]?(\w+ ){0,2}(decided|settled|sure|final)
    (today|tonight|tomorrow|(for|right) now|for the moment|this (time|once)|yet|heute)
    (temp(orar\w+)?|quick(ly)?|decided nothing|typo|lol|haha\w*|yeah,? right)
    (this (run|build|test|branch|session|screenshot)|(just|only) for (this|the))
    (try|see) (if|what|how|whether|it)
    (docs?|page|article|readme|they|he|she|paper|book|log) (says?|said|writes?|wrote|reads)
""")
CUES: dict[str, re.Pattern[str]] = {
    "explicit": phrases(r"""
        START (always )?remember(?! when| how| what| the (time|bug|name)| to (?!always|never))
        ((keep|bear) in mind|don'?t forget(?! to)|please note|for the record|make a note|fyi)
        (note (to|for) (self|you)|for (your|future) (info\w*|reference)|write (this|that) down)
        ((need|good|important|worth) (to know|knowing|remembering)|merk dir|denk (bitte )?daran)
        ^important|기억해|잊지 ?마|覚えておいて|忘れないで
    """),
    "decision": phrases(r"""
        (we|i)( have|'ve)?( all| just| now)? (decided|agreed|settled|opted)
        (we|i)( will|'ll|'re| are|'m| am)( now)? (go(ing)? with|stay(ing)?|stick|use)
        let'?s (go with|stick|use|stay|standardi[sz]e|not (use|do)|only|always|never)
        (we (stay|stick|keep to|go) (on|with|to)|it('s| is) (settled|final|decided)|made up my mind)
        (do not|don'?t) (take|use|introduce) (?!it|this|that|these|a |an |the |any )\w+
        (we('re| are) (moving|switching|migrating) (to|off|from)|the plan is|that'?s the plan)
        ^(ok\w*,? )?(?!what|here|there|as|how|so)[\w.+-]+( [\w.+-]+)? it is( then)?\W*$
        ^(no|nah|nope),? (please )?(use|take) (?!it|this|that|a |the )\w+
        wir (haben (uns )?entschieden|bleiben bei|nehmen)
        하기로 했|(로 가|하)자(?!\w)|(ことにし|に決め)(た|ました)
    """),
    "preference": phrases(r"""
        (i (much |really )?prefer|i('d| would) (much )?rather|my preference|i hate (it )?when)
        (i (don'?t|do not) (want|like) (any|to see|you to|your|seeing|it when))
        keep (your |the |all )?(answers|replies|responses|explanations|summaries|messages)
        (answer|reply|respond|talk)\b.* in (english|german|french|spanish|korean|japanese|chinese)
        ich (mag|bevorzuge|möchte) (kein\w*|lieber)|^preference
    """),
    "rule": phrases(r"""
        (from now( on)?|going forward|from here on|in future|from day one|ever again|as a rule)
        ((the|our|team|company) (rule|policy|convention)|without exception|unless (i|we))
        START (never|always|(do not|don'?t) ever) (?!mind|the |a |my |\w+ed\b)\w+
        (we|i) (always|never) (?!forget|get|got|had|know|knew|remember|see|saw|did|made|\w+ed\b)\w+
        (must|may) (not|never|always|only)|not allowed|ha(s|ve) to be (?!the|an?\b)\w+
        (only \w+ (may|is allowed)|we can'?t (use|change|move))
        (off limits|no-go|non-?negotiable|everything else (is|stays|goes) (?!fine|ok|good|done)\w+)
        (do not|don'?t|no|only|must|use|all)\b.*\b(anywhere|everywhere|elsewhere|ever|at all)
        (for|in) (all|every|each|any) (of )?(our|my|new|future|next|later|single)
        every(?! ?time)\w*( \w+){0,3} (we|i|you) (?!\w+ed\b)\w+
        (all|every|no|never|always|only)\b.*\bin (this|our) (project|repo\w*|code ?base|house)
        only(?= ?([.,;!]|$|ok\b|please|pls))|, (always|never)\W*$
        ((pls|please) no \w+|(insist(s|ed)?|vetoed|banned|forbidden|mandatory))
        ^no (?!idea|need).*\b(please|pls)\b
        ab (jetzt|sofort)|künftig|grundsätzlich|bitte kein|앞으로|항상|반드시|今後|必ず|常に
    """),
    "lesson": phrases(r"(turn(s|ed) out|we('ve)? learn(ed|t)|lessons? learn(ed|t))"),
    "fact": phrases(r"""
        (i work (from|for|at)|i('m| am) based in|we (support|deploy|use|target|ship))
        ((our|my) (client|customer|contact|time ?zone) is|in charge of|responsible for|the one for)
    """),
}
_CAUSE = phrases(r"""
    (came from|because|caused by|due to|culprit|root cause|reason (is|was)|since the|so every)
    (it was|\w+ (was|were) (the|a|that|when|on|not)|es lag an|原因|원인)
""")
_SOLVED = phrases(r"""
    (is|are|completely|all) (now )?(fixed|solved|gone|fine|green|stable|solid)
    ((solved|fixed|fixes) (it|that)|(works|fine|green|right) (again|now)|found it|rock solid)
    solved\.|고쳤|解決しました
""")
_REASON = phrases(r"^(because|otherwise|(the )?reason|that way)")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。\uff01\uff1f])|\n+")


def found(words: str) -> list[Found]:
    """What of a human's own `words` is worth keeping, in their order."""
    found = []
    if to_be_forgotten(words) or speaks_of_secrets(words):
        return found
    for paragraph in re.split(r"\n{2,}", words):
        sentences = [each.strip() for each in _SENTENCES.split(paragraph) if each.strip()]
        said = [each for each in sentences if not _NOT_SAID.search(each)]
        solved = _SOLVED.search(paragraph)
        for number, sentence in enumerate(said):
            kind = next((kind for kind, cues in CUES.items() if cues.search(sentence)), None)
            if kind is None and solved and _CAUSE.search(sentence):
                kind = "lesson"  # a cause, and what became of it
            if sentence[-1] == ":" or (kind == "explicit" and len(sentence) < _INTRODUCTION_CHARS):
                sentence = " ".join(said[number : number + 1 + _INTRODUCED])
            elif said[number + 1 :] and _REASON.search(said[number + 1]):
                sentence += f" {said[number + 1]}"
            if kind and MIN_CHARS <= len(sentence) <= MAX_CHARS:
                found.append(Found(kind, sentence))
    return found
