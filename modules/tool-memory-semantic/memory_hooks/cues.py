"""How people phrase what should last, on any subject: precise, not complete.

A sentence in a human's own words is kept for one of three reasons. A cue marks it outright ("we
decided"). It is a standing statement: no task, no complaint, and with two signals, such as a
"never" and a reason. Or it is a lesson: what helped, and what the trouble was. Questions, guesses,
chat, reports, and sentences about this moment or not to be kept are left out (see `statements`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_semantic.speaker import Sentence, paragraphs

from .statements import (
    is_at_hand,
    is_said,
    is_statement,
    is_task,
    may_be_kept,
    phrases,
    refers_back,
    speaks_of_secrets,
    without_manners,
)

MIN_CHARS, MAX_CHARS = 10, 1_000  # of a text that is kept
_INTRODUCTION_CHARS, _INTRODUCED = 30, 3  # a shorter text is kept with so many that follow
_MIN_WORDS = 4  # of a statement with a single signal


class Found(NamedTuple):
    """A text that is worth keeping, and its kind."""

    kind: str
    text: str


CUES: dict[str, re.Pattern[str]] = {
    "explicit": phrases(r"""
        START (always )?remember(?! (when|how|what|\w+ing|the (time|bug|name)|to (?!always|never)))
        ((keep|bear) in mind|don'?t (ever )?forget(?! to)|please note|for the record|make a note)
        (fyi|note (to|for) (self|you)|for (your|future) (info\w*|reference)|write (this|that) down)
        ((need|good|important|worth) (to know|knowing|remembering)|merk dir|denk (bitte )?daran)
        ^important( \w+)*[:,]|기억해|잊지 ?마|覚えておいて|忘れないで|an[oó]ta(te|lo)|retiens
    """),
    "decision": phrases(r"""
        (we|i)( have|'ve)?( all| just| now)? (decided|agreed|settled|opted)
        (we|i)( will|'ll|'re| are|'m| am)( now)? (go(ing)? with|stay(ing)?|stick|use)
        let'?s (go with|stick|use|stay|standardi[sz]e|not (use|do)|only|always|never)
        (we (stay|stick|keep to|go) (on|with|to)|it('s| is) (settled|final|decided)|made up my mind)
        (do not|don'?t) (take|use|introduce) (?!it|this|that|these|a |an |the |any )\w+
        (we('re| are) (moving|switching|migrating) (to|off|from)|the plan is|that'?s the plan)
        ^(ok\w*,? )?(?!what|here|there|as|how|so)[\w.+-]+( [\w.+-]+)? it is( then)?\W*$
        ^\W*let it be \w+|\b(period|full stop|end of (story|discussion))\W*$
        ^\W*[\w.+-]+( is)? (out, [\w.+-]+( is)? in|in, [\w.+-]+( is)? out|won|wins)\b
        (wir (haben (uns )?entschieden|bleiben bei|nehmen)|on (garde|part sur|reste sur|passe à))
        (nos quedamos con|vamos con|usamos)\b|하기로 했|(로 가|하)자(?!\w)|にしよう|に決めました
    """),
    "correction": phrases(
        r"""
        we( have|'ve)?( now| just| all| finally)? (moved|switched|migrated|changed) MOVED
        ([\w.+-]+ is the new [\w.+-]+|we (no longer|stopped) \w+|(is|are|was|been) (replaced) by)
        we (do not|don'?t) (\w+ ){1,4}any ?more|(is|are) now called|(is|are|was) renamed to
        (sind|haben) .*(umgestiegen|gewechselt|umgezogen|umgestellt)|(heißt|nutzen wir|wird) jetzt
        wir (nutzen|verwenden|benutzen) .*nicht mehr|(remplacé par|n'utilis\w+ plus|est passés? à)
        (ya no (us|ten)\w+|hemos (pasado|cambiado|migrado)|nos (pasamos|cambiamos|mudamos) a)
        로 ?(옮겼|옮겨|바꿨|바뀌었|바뀜|변경|전환했|이전했|갈아탔)|더 이상 .*[안않]
        [にへ](移行|変更|乗り換え|切り替え|移)(し|ま|た|にな)|[にへ](変わ|移)りまし
    """.replace(
            "MOVED",
            r"(?!.*\b(function|file|method|class|button|line|tests?|it|this|them)\b)"
            r"([\w'-]+ ){0,4}(from|off|to)",
        )
    ),
    "preference": phrases(r"""
        (i (much |really )?prefer|i('d| would) (much )?rather|my preference|i hate (it )?when)
        (i (don'?t|do not) (want|like) (any|to see|you to|your|seeing|it when))
        keep (your |the |all )?(answers|replies|responses|explanations|summaries|messages)
        (^preference|(answer|reply|talk) (to me |only )?in \w+|ich (mag|möchte) (kein\w*|lieber))
    """),
    "rule": phrases(r"""
        (from now( on)?|going forward|from here on|in future|from day one|ever again|as a rule)
        ((the|our|team|company) (rule|policy|convention)|without exception|, (always|never)\W*$)
        ((must|may) (not|never|always|only)|not allowed|ha(s|ve) to be (?!the|an?\b)\w+)
        (do not|don'?t|no|only|must|use|all)\b.*\b(anywhere|everywhere|elsewhere|ever|at all)
        ((pls|please) no \w+|(insist(s|ed)?|vetoed|banned|forbidden|mandatory))
        ab (jetzt|sofort)|künftig|grundsätzlich|bitte kein|앞으로|항상|반드시|今後|必ず|常に
    """),
    "lesson": phrases(r"(we('ve)? learn(ed|t)|lessons? learn(ed|t)|our \w+ turned out)"),
    "fact": phrases(r"(i work (from|for|at)|we (support|deploy|use)|in charge of|responsible for)"),
}
# Signals that standing statements have and few other sentences. Any two are enough, or one strong
# signal in a turn that consists of statements only.
_STRONG = {
    "none": phrases(r"""
        (no|none|nothing|nobody|no ?one|never|zero|neither|nor|without|forbidden|off limits|not)
        (hands off|off the table|nowhere|must ?n.?t|can ?not|can.?t|don.?t|won.?t|isn.?t|doesn.?t)
        (keine?\w*|nie|niemals|nicht|sin|nunca|ning[uú]n\w*|nadie|ni|jamais|aucune?|rien|sans|pas)
        절대|금지|지 ?마|말 ?것|絶対|禁止|ないで
    """),
    "all": phrases(r"""
        (all|any|each|every|always|only|every(thing|one|body| ?where)|(what|who|when) ?ever)
        (both|throughout|the (whole|rest)|solely|exclusively|anything|alle[sn]?|jede\w*|immer|nur)
        (überall|tod[oa]s?|cada|siempre|s[oó]lo|tous|toutes|chaque|toujours|uniquement|seulement)
        だけ|のみ|全部|すべて|全て|毎|いつも|전부|모든|모두|매|만(?!\w)
    """),
    "reason": phrases(r"""
        (because|bc|cuz|cos|since|otherwise|so that|that'?s why|thats why|due to|reasons?|or else)
        (?<!is )(?<!are )(?<!was )\bso (?!i|u|you|we can|far|much|many|good|bad|long|\w+ly)\w+
        , (or|as|so)\b|ので|から|ため|때문|니까|라서
        (weil|denn|deshalb|sonst|damit|porque|as[ií] que|por eso|ya que|parce que|car|puisque|sinon)
    """),
    "contrast": phrases(r"""
        , (and |but )?not\b|ではなく|じゃなくて|대신|말고
        (instead of|rather than|in place of|no longer|any ?more|except|unless|other than|whereas)
        (statt|sondern|außer|au lieu de|plutôt que|sauf|en (vez|lugar) de|salvo|excepto)
    """),
    "authority": phrases(r"""
        (wants?|insists?|demands?|requires?|expects?|refuses?|will not|signed|approved|vetoed|legal)
        (audit\w*|compliance|contract\w*|licen[sc]e\w*|board|customers?|clients?|boss|regulat\w+|law)
    """),
    "aside": phrases(
        r"(btw|by the way|heads up|be aware|should know)\b|^\W*[\w'/ -]{3,40}: (?=\w)"
    ),
}
_WEAK = {
    "bound": phrases(r"""
        (max(im\w+)?|minim\w+|at (most|least)|tops|up to|limit(ed)?|cap(ped)?|budget|deadline)
        ((older|more|less|fewer|larger|longer|deeper) than|window|(until|till?) \w+|au plus|máximo)
        (höchstens|mindestens)\b|以内|以上|以下|まで|이하|이상|까지
    """),
    "amount": phrases(r"""
        (by|before|b4|after|under|below|above|over|within|from|between|past|per) (\w+ ){0,2}NUMBER
        \d ?(ms|s|sec\w*|min\w*|h|hours?|hrs?|days?|weeks?|months?|years?|[kmgt]i?b|px|lines?)
        \d ?[%€$°]|\b(is|are|at) (at |on |in )?v?\d\S*|\d{1,2}(:\d\d|st|nd|rd|th|am|pm)
        ((mon|tues?|wednes|thurs?|fri|satur|sun)days?|mon|tue|wed|thu|fri|night|noon|midnight)
        (january|february|march|april|june|july|august|(sept|octo|novem|decem)(em)?ber|morning)
        (jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b|\d ?(時|日|分|秒|件|시|일|분|초|개)
        (bis|ab|hasta|desde|jusqu\w+|d[eè]s) (\w+ ){0,2}\d\w*
    """),
    "duty": phrases(r"""
        (must|ha(s|ve) to|shall|should|needs? to|(is|are) to be|ought|gotta|may|required|allowed)
        (muss|müssen|darf|dürfen|soll(en)?|tiene\w* que|deben?|doi(t|vent)|hay que)\b|해야|돼야|べき
    """),
    "choice": phrases(r"""
        (it is|wins|won|for good|final|then\W*$|(is|are|goes) (out|gone)|that'?s it|stays?|law)
        (we|i) (take|keep|drop|stick|stay|use|go|want)\b|にしよう|にします|하자
    """),
    "place": phrases(r"((is|are) called|belongs? to|lives? (in|on)|goes (to|into)|needs|owns?)"),
}
# A lesson says what helped, and what the trouble was or why.
_HELPED = phrases(r"""
    (now|then|since|and|both|all|is|are)\b[^.?]{0,45} (gone|fine|clean|green|stable|solid|fixed)
    (now|then|since|and|both|all)\b[^.?]{0,45} (work(s|ing)?|loads?|pass(es)?|survives?|holds|zero)
    (now|then|since|and|both|all)\b[^.?]{0,45} (stopped|match(es)?|agrees?|full|finish(es)?|runs)
    (went|drop\w*|fell|down|cut|up|is|takes?|from) (\w+ ){0,3}(from )?\d\S*( \w+)? ?(to|->|→) ?\d\w*
    \d\w* ?(->|→) ?\d\w*|drops? to \S*\d|= \w+$|(solved|fixed|fixes|cured|helped|did) (it|that)
    ((did|does) the trick|no more \w+|not (one|once|a single)|(none|no \w+|never|nothing) since)
    (back to \w+|now (it|we|the \w+|they)('s|'re)? \w+|disappeared|vanished|went away|solved\.)
    (seit ich|seitdem|jetzt (läuft|geht)|desde que|ya funciona|depuis que)
    고쳤|해결|解決|直りました|消えました|なくなりました
""")
_TROUBLE_WAS = phrases(r"""
    (explained|mystery|culprit|blame|fault|turn(s|ed) out|the (reason|cause|trick|catch|problem))
    (root cause|came from|caused by|found (it|out|the \w+)|figured|tracked|learn\w*|hard way)
    (because|bc|since the|so (the|it|we|our|all|every|each|that|they)|due to|twice|it'?s the)
    (was|were|had|held|kept|reused|assumed|expected|ran|died|did(n'?t| not)|without|wrong|stale)
    (mismatch\w*|silently|ignor\w+|overw\w+|leak\w*|default\w*|too \w+|instead|es lag|lag daran)
    (schuld|weil|porque|culpa|parce que|à cause)\b|原因|원인|때문|ので|から
""")
_REASON = phrases(r"^(because|otherwise|(the )?reason|that way)")


def found(*prompts: str) -> list[Found]:
    """What a human said in the `prompts` of one turn that is worth keeping, in its order: whole
    sentences as they were said, or nothing.
    """
    said = [paragraph for prompt in prompts for paragraph in paragraphs(prompt)]
    if not may_be_kept("\n".join(each.own for paragraph in said for each in paragraph)):
        return []
    said = [_without_secrets(paragraph) for paragraph in said]
    own = [sentence.own for paragraph in said for sentence in paragraph]
    only_statements = all(is_said(each) and is_statement(each) for each in own)
    kept = [each for paragraph in said for each in _kept(paragraph, only_statements)]
    found = [
        Found(kind, " ".join(sentence.said for sentence in sentences))
        for kind, sentences in kept
        if all(sentence.is_whole for sentence in sentences)
    ]
    return [
        each
        for each in found
        if MIN_CHARS <= len(each.text) <= MAX_CHARS and not speaks_of_secrets(each.text)
    ]


def withheld(*prompts: str) -> bool:
    """Whether a sentence that is marked to be kept is left out because it tells a credential."""
    said = [each.own for prompt in prompts for some in paragraphs(prompt) for each in some]
    marked = [each for each in said if any(cues.search(each) for cues in CUES.values())]
    return any(speaks_of_secrets(each) for each in marked)


def _without_secrets(paragraph: Sequence[Sentence]) -> list[Sentence]:
    """Without sentences that tell a credential, and those beside them that may belong to it."""
    told = [bool(speaks_of_secrets(each.own)) for each in paragraph]
    around = [any(told[max(n - 1, 0) : n + 2]) for n in range(len(told))]
    return [
        Sentence(each.said, without_manners(each.own))
        for n, each in enumerate(paragraph)
        if not (told[n] or (around[n] and refers_back(each.own)))
    ]


def _kept(
    paragraph: Sequence[Sentence], only_statements: bool
) -> Iterator[tuple[str, list[Sentence]]]:
    said = [each for each in paragraph if is_said(each.own)]
    lesson = _lesson(said)
    if lesson:
        yield "lesson", lesson
    kept: list[tuple[str, list[Sentence]]] = []
    last, introduced = -2, -1  # the last sentence kept, and the last one it introduces
    for number, sentence in enumerate(said):
        own = sentence.own
        cue = next((kind for kind, cues in CUES.items() if cues.search(own)), None)
        if cue != "explicit" and is_at_hand(own):
            continue
        kind = cue or _standing(own, only_statements)
        goes_on = number == last + 1 and (_REASON.search(own) or (kind and not cue))
        if sentence in lesson:
            continue
        if kept and (goes_on or number <= introduced):
            kept[-1][1].append(sentence)
        elif kind:
            kept.append((kind, [sentence]))
        else:
            continue
        last = number
        if own[-1] == ":" or (cue == "explicit" and len(own) < _INTRODUCTION_CHARS):
            introduced = number + _INTRODUCED
    yield from kept


def _signals(sentence: str, among: dict[str, re.Pattern[str]]) -> set[str]:
    return {name for name, signal in among.items() if signal.search(sentence)}


def _standing(sentence: str, among_statements: bool) -> str | None:
    if not is_statement(sentence):
        return None
    strong, weak = _signals(sentence, _STRONG), _signals(sentence, _WEAK)
    amounts = len(_WEAK["amount"].findall(sentence))
    alone = strong and among_statements and len(sentence.split()) >= _MIN_WORDS
    if alone or amounts > 1 or len(strong | weak) > 1:
        return "rule" if {"none", "all", "duty"} & (strong | weak) else "fact"
    return None


def _lesson(said: Sequence[Sentence]) -> list[Sentence]:
    told = [each for each in said if not is_task(each.own)]
    helped = [number for number, each in enumerate(told) if _HELPED.search(each.own)]
    trouble = [number for number, each in enumerate(told) if _TROUBLE_WAS.search(each.own)]
    both = helped + trouble
    return told[min(both) : max(both) + 1] if helped and trouble else []
