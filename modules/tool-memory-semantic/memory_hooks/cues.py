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
    HEAD (what|why|how)\b(?!.*: )
    ^((and|so|but) )?(which|who|where)\b
    HEAD (can|could|would|should|shall|do|does|did|is|are|was) (i|we|you|it|the|there|that|this)
    (maybe|perhaps|might|suppose|imagine|hypothetical\w*|i wish|some ?day|at some point|vielleicht)
    (if (i|we|you|they|it) (had|were|was|wanted|went|could|would)|think(ing)? aloud)
    (not|nothing|have ?n'?t|has ?n'?t|un)[ -]?(\w+ ){0,2}(decided|settled|sure|final)
    (today|tonight|tomorrow|(for|right) now|for the moment|this (time|once|morning|afternoon|evening|week)|yet|heute)
    (temp(orar\w+)?|quick(ly)?|decided nothing|typo|lol|haha\w*|yeah,? right)
    (this (run|build|test|branch|session|screenshot)|(just|only) for (this|the (test|run|demo|meeting|plot|figure|moment|screenshot)))
    (try|see) (if|what|how|whether|it)
    (hurry|asap|urgent\w*|for the demo|for (that|this|it)\W*$|still|waiting (for|on))
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
        (period|full stop|end of (story|discussion))\W*$|^\W*let it be \w+|^[\w.+-]+ (wins|won), [\w.+-]+ is out
        [\w.+-]+( is)? out, [\w.+-]+( is)? in|[\w.+-]+( is)? in, [\w.+-]+( is)? out
        wir (haben (uns )?entschieden|bleiben bei|nehmen)|on (garde|part sur|reste (sur|à)|prend|passe (à|sur))
        (nos quedamos con|vamos con|usamos|pasamos a)
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
        START (never|always|(do not|don'?t) ever) (?!\w+ing\b|mind|the |a |my |\w+ed\b)\w+
        (we|i) (always|never) (?!forget|get|got|had|know|knew|remember|see|saw|did|made|\w+ed\b)\w+
        (must|may) (not|never|always|only)|not allowed|ha(s|ve) to be (?!the|an?\b)\w+
        (only \w+ (may|is allowed)|we can'?t (use|change|move))
        (off limits|no-go|non-?negotiable|everything else (is|stays|goes) (?!fine|ok|good|done)\w+)
        (do not|don'?t|no|only|must|use|all)\b.*\b(anywhere|everywhere|elsewhere|ever|at all)
        (for|in) (all|every|each|any) (of )?(our|my|new|future|next|later|single)
        every(?! ?time)\w*( \w+){0,3} (we|i|you) (?!\w+ed\b)\w+
        (all|every|no|never|always|only)\b.*\bin (this|our) (project|repo\w*|code ?base|house)
        , (always|never)\W*$
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

# What no standing statement is: a task, a complaint, a question, an idea, chat, or hearsay.
_TASK = phrases(r"""
    ^((ok\w*|and|now|then|also|next|please|pls|plz|kindly|hey|hi|so|just|go|oh|ya)\W+)*(add|fix|run|make|show|give|write|look|check|find|build|rename|remove|delete|try|compare|explain|tell|let me|get|pull|rerun|restart|revert|create|generate|bring|take|have a|rewrite|undo|fetch|purge|grep|scaffold|refactor|tidy|implement|prepare|calculate|leave|put|move|turn|bump)\b
    ^((ok\w*|and|now|then|also|next|please|pls|plz|kindly|hey|hi|so|just|go|oh|ya)\W+)*(list|set|open|print|port|plot|load|review|push|deploy|render|sort|clean|draft|profile|change|update|search|kill|start|stop|convert|import|export|read|scan|test|merge|commit|send|split|swap|walk|count|wrap|switch|double|format|repeat|install|tag|shorten) (the|a|an|this|that|it|all|my|me|us|these|those|our|some|every)\b
    (can|could|would|will|may|might) (you|u|i)|(i|we) (need|want|would like|'d like) (a|an|the|some|you to|to|another|one)
    ^(no|nope|nah),? (that|the|it|this|i|he|she)|^(yes|yep|yeah|both|nothing else|that'?s all|done|all of (them|it)|only the (first|second|last))
    ^(should|shall|do|does|did|is|are|was|were|can|could|would|will|has|have|any) (?!we (take|use|keep))\w+
    pros (and )?cons
""")
_TROUBLE = phrases(r"""
    (crash\w*|fail\w*|errors?|broken|hangs?|slow|why|wrong|weird|odd|strange|stuck|halp|help|wtf|suddenly|seems?|looks? like|complains?|for some reason)
    (does|do|did|was|were)( not|n'?t) \w+|(is|are)( not|n'?t) \w+ing|(i|they|you|it) (do not|don'?t) \w+
    ^(?!.*\b(never|don'?t|ever|no|not)\b).*\bagai?n\b
    (not (react|work|start|find|load|show|understand)\w*|any idea|no (idea|clue|hurry|rush|matter|problem|worries|wonder|intention)|dunno|don'?t know|i never)
    (blank|empty|nan|null|denied|cut off|freez\w+|timeouts?|cpu|nothing in|currently)
    ^(it|this|that) (says?|prints?|shows?|gives?|does|has|takes?|keeps?)|there('s| is| are) (no|nothing|only)|since (the (last|update)|yesterday|\d)
    ^(\w+,? )?(i|we) (just |also )?(\w{2,}ed|ran|got|get|see|saw|went|did|was|were|had|made|put|tried|think|guess|found|never \w+ed)\b
    ^(\w+,? )?(i'?m|i am|we'?re|we are) (on|in|at|back|done|just|trying|looking|waiting|going|\d+)
    (looks?|sounds?) (good|fine|great|ok)|^(ok\w*|fine|good|great|perfect|nice),? (that|it) \w+|all (green|good|fine)
    ^(wait|not (that|this|the|all|yet|quite)|you (\w+ed|forgot|wrote|made|did|put|missed))
    (nothing|only|always|never) (happens?|works?|shows?|changes?|fails?|returns?|reach\w*|finish\w*|gets|loads?)
    (returns?|throws?|gives?|got|getting|shows?) (\w+ )?(\d{3}|null|nan|nothing|empty|blank|undefined)|every ?time
    can.?t (log|open|find|connect|see|build|start|get|seem|reach|tell|make|decide)
    i (\w+ ){0,2}(remember|forget|forgot|know)
""")
_IDEA = phrases(r"""
    (could|would(?! (much )?rather| have my)|wonder\w*|tempted|dream\w*|in theory|one day|eventually|no intention|idea|meh|kinda|if only|thinking|feel like|wish\w*|hope\w*)
    (quiz[aá]s?|tal vez|y si|ser[ií]a|peut-être|et si|könnte|würde|por ahora|de momento|hoy|esta vez|después|pour l'instant|aujourd'hui|cette fois|erstmal|vorerst|morgen)
    もし|かも|とりあえず|一旦|만약|혹시|일단|지금은|이번에
""")
_CHAT = phrases(r"""
    (lunch|coffee|cake|beers?|pizza|ramen|brb|haha\w*|lmao+|lol|jaja\w*|omg|congrat\w*|happy|funny|splendid|cheers|thanks?|thank you\w*|thx|my favou?rite|thrilled|can'?t wait)
    (my|nice|good|great|lovely|long|have a) (\w+ )?(weekend|holidays?|vacation|birthday|cat|dog|kids?|son|daughter|grand\w+|brother|sister|friend|neighbou?r|cousin|room ?mate|uncle|aunt|dad|mom|mum|mother|father)
    (my|the) (train|bus|flight|commute)|always sa(id|ys)|used to|an? (friend|buddy|mate)('s)?
    i('ll| will|'d|'ll| shall) (never|always)|i swear|(never|always) \w+ing|last night|dinner|breakfast|movie|hungry|sleepy?|slept|tired|bed
    (weather|party|football|tragic|sigh|ugh|alas|yay|totally|fantastic|wonderful|amazing|delightful|poor thing)
    [😂🤣😭😅😍🥳😴🙈]
    (they|he|she|who|which|where)( \w+)? (all |always |never |have |had |has )?(decided|prefer\w*|swears?|used to|always|never|loved?|hates?)
    (my|our|the|his|her) (former|previous|ex|last) (team|company|job|boss|employer|client|firm|place|lab)
""")
# A turn that takes something back is left alone.
_TAKEN_BACK = phrases(r"""
    (not|nothing|nobody|no ?one|n'?t|never|un)[ -]?(\w+ ){0,3}(decided|settled|agreed|final|official)
    (take|took|taking) (it|that|this) back
    (don'?t|do not) (put|note|count|plan|treat|quote|hold|assume|take|log|save|keep|repeat|share|paste|commit) (on |me )?(it|that|this|them)
    (chang(ed|ing) my mind|on second thought\w*|withdraw\w*|cancel (it|that|this)|strike that|not a decision|not serious|no longer (true|valid)|drop (that|this|the idea))
    (hold off|scratch that|ignore (what|that|my)|no decision|still (open|undecided|discussing)|up in the air|jumped the gun|premature)
    (brilliant|genius|great idea|what could (possibly )?go wrong|oh,? sure|yeah,? (right|sure)|love (it )?(when|how)|because that (\w+ )?(went|worked)|best \w+ (ever|of my))
    (oh|ah|yes|yeah|great|wow|love)[, ]+(sure|great|yes|perfect|lovely|wonderful|fantastic|joy|how|let'?s)|what an? (great|brilliant|wonderful|lovely|fantastic|joy|treat|surprise)
    work(s|ed) (out )?(so |great|well|wonders)|so well|who needs|nothing (says|beats|like)|good luck|clearly
    ^(sure|oh yes|oh yeah|yay|wow),|^(great|perfect|nice|lovely|wonderful|fantastic),? (another|just|more|exactly)|🙄|🙃|😏|/s$
""")
_SIGNALS: dict[str, re.Pattern[str]] = {
    "none": phrases(r"""
        (no|none|nothing|nobody|no ?one|never|zero|neither|nor|without|forbidden|off limits|hands off|off the table|nowhere|must ?n.?t|can ?not|can.?t|don.?t|won.?t|isn.?t|doesn.?t|not)
        (keine?\w*|nie|niemals|nicht|sin|nunca|jam[aá]s|ning[uú]n\w*|nadie|ni|jamais|aucune?|rien|sans|pas)
        절대|금지|지 ?마|말 ?것|絶対|禁止|ないで|だめ|ダメ
    """),
    "all": phrases(r"""
        (all|every|each|always|everything|every ?where|everyone|everybody|whatever|whoever|whenever|wherever|only|both|throughout|the whole|solely|exclusively|anything|any|the rest)
        (alle[sn]?|jede\w*|immer|nur|überall|todos?|todas?|cada|siempre|s[oó]lo|solamente|tous|toutes|chaque|toujours|uniquement|seulement)
        だけ|のみ|全部|すべて|全て|毎|いつも|전부|모든|모두|매|만(?!\w)
    """),
    "bound": phrases(r"""
        (max(imum)?|min(imum)?|at (most|least)|tops|up to|no more than|limit(ed)?|cap(ped)?|budget|deadline|window|(older|more|less|fewer|larger|bigger|longer|higher|deeper|smaller|under|over|below|above) than)
        (until|till?) \w+
        以内|以上|以下|まで|이하|이상|까지
    """),
    "amount": phrases(r"""
        (until|till?|by|before|b4|after|under|below|above|over|within|from|between|past|per) (\w+ ){0,2}(\d[\w:.,]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundred)
        \d[\d.,]* ?(ms|s|sec\w*|min\w*|h|hours?|hrs?|days?|weeks?|months?|years?|[kmgt]i?b|percent|mm|cm|px|lines?|words?|eur|usd|fps|k?hz)
        \d ?[%€$°]|(is|are|=) (at |on |in )?v?\d\S*|morning|night|evening|noon|midnight
        (mon|tues?|wednes|thurs?|fri|satur|sun)days?|(mon|tue|wed|thu|fri)
        (january|february|march|april|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)
        \d{1,2}(:\d\d|st|nd|rd|th|h|am|pm)
        (bis|ab|höchstens|mindestens|maximal|hasta|desde|m[aá]ximo|m[ií]nimo|jusqu\w+|d[eè]s|au plus|au moins) (\w+ ){0,2}\d\w*
        \d ?(時|日|分|秒|件|시|일|분|초|개)
    """),
    "reason": phrases(r"""
        (because|bc|cuz|cos|since|otherwise|so that|that'?s why|thats why|due to|reasons?|or else|(?<!is )(?<!are )(?<!was )so (?!i|u|you|we can|far|much|many|good|bad|long|nice|slow|\w+ly)\w+)
        , (or|as|so)\b
        (weil|denn|deshalb|sonst|damit|porque|as[ií] que|por eso|ya que|parce que|car|puisque|sinon|donc)
        ので|から(?!\w*始)|ため|때문|니까|라서
    """),
    "duty": phrases(r"""
        (must|ha(s|ve) to|shall|should|needs? to|(is|are) to be|ought|gotta|may|required|allowed)
        (muss|müssen|darf|dürfen|soll|sollen|tiene\w* que|hay que|deben?|doit|doivent|il faut)
        해야|돼야|べき|ること
    """),
    "contrast": phrases(r"""
        , (and |but )?not
        (instead of|rather than|in place of|no longer|any ?more|not \w+ but|whereas|while the|and not|except|unless|other than|out, .* in)
        (statt|sondern|außer|en vez de|en lugar de|salvo|excepto|au lieu de|plutôt que|sauf)
        ではなく|じゃなくて|대신|말고
    """),
    "choice": phrases(r"""
        (it is|wins|period|full stop|for good|final|let it be|then\W*$|end of (story|discussion)|(is|are|goes) (out|gone)|\w+ (won|wins)|that'?s (that|it)|law|(we|i) (take|keep|drop|stick|stay|use|go|want)|it stays|stays?)
        にしよう|にします|하자
    """),
    "aside": phrases(r"""
        (btw|by the way|heads up|for context|so you know|be aware|should know|mind you|also know|careful)
        ^\W*[\w'/ -]{3,40}: (?=\w)
    """),
    "home": phrases(r"""
        ((is|are) called|belongs? to|lives? (in|on|under|at)|goes (to|through|in|into)|comes? (from|in|out)|owned by|owns|responsible|in charge|contact|needs)
    """),
    "word": phrases(r"""
        (wants?|insists?|demands?|requires?|expects?|refuses?|won'?t|will not|signed|agreed|approved|vetoed|legal|audit\w*|compliance|contract\w*|licen[sc]e\w*|board|customers?|clients?|boss|policy|regulat\w+)
    """),
}
_ENOUGH = 2
# A lesson tells at least two of the three: what it was, why, and what became of it.
_LESSON = {
    "found": phrases(r"""
        (explained|solved|mystery|culprit|to blame|blame|fault|turn(s|ed) out|root cause|the (reason|cause|trick|catch|problem|issue|bug)|came from|caused by|found (it|the \w+|out)|figured|tracked|got it+|gotcha|tl;?dr|learn\w*|lesson|hard way)
        (it|that|this|\w+) was (just |only |simply )?(the|my|our|a|an|that|on|when|not|in)
        (it'?s|its) the
        es lag an|lag (daran|am)|schuld|原因|원인|때문이었|era (el|la|que|por)|c'était|venait de|la cause|la causa|culpa
    """),
    "cause": phrases(r"""
        (because|bc|since the|so (the|it|we|our|all|every|each|that|they)|, so|due to)
        (was|were|had|kept|reused|still|twice|believed|assumed|expected|ran|sat|died|did(n'?t| not)|had(n'?t)|without|missing|mismatch\w*|stale|silently|ignor\w+|overw\w+|leak\w*|default\w*|too (small|big|large|short|long|low|high|many|few|late|early)|instead)
        ので|から|때문|weil|porque|parce que
    """),
    "helped": phrases(r"""
        (and|now|since then|since|then|both|all|is|are|completely|after)\b[^.?]{0,45} (gone|fine|clean|green|quiet|stable|solid|works?|working|loads?|pass|passes|passed|survives?|stopped|holds|match(es)?|agrees?|full|zero|silent|right again|solved|fixed|happy|smooth|steady|flat|correct|disappeared|vanished|went away|sorted|behaves?|finish(es|ed)|runs|halved|cured|normal|alive)
        (went|drop\w*|fell|down|cut|up|is|takes?|from) (\w+ ){0,3}(from )?\d\S*( \w+)? ?(to|->|→) ?\d\w*
        \d\w* ?(->|→) ?\d\w*|drops? to \S*\d\w*|= \w+$|(solved|fixed|fixes|cured|sorted|helped|did) (it|that)|no more \w+|(did|does) the trick|not (one|once|a single)|(none|no \w+|never|nothing|quiet|fine|clean) since|back to \w+|now (it|we|the \w+|they)('s|'re)? \w+|(for good|ever) (now|since)|now (only )?\d\S*
        고쳤|(직|되|돼|없어)\w* ?(졌|됐)|解決しました|(直|治)(り|っ)|消え|なくなり|seit ich|seitdem|jetzt (läuft|geht|passt|stimm)\w*|desde que|desde entonces|ya (no|funciona|pasa)|depuis( que)?|maintenant (ça|tout)
    """),
}
_REASON = phrases(r"^(because|otherwise|(the )?reason|that way)")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。\uff01\uff1f])|\n+")


def found(words: str) -> list[Found]:
    """What of a human's own `words` is worth keeping, in their order."""
    found = []
    if to_be_forgotten(words) or speaks_of_secrets(words) or _TAKEN_BACK.search(words):
        return found
    pure = not any(each.search(s) for s in _SENTENCES.split(words) for each in (_NOT_SAID, _TASK, _TROUBLE, _IDEA, _CHAT))
    for paragraph in re.split(r"\n{2,}", words):
        sentences = [each.strip() for each in _SENTENCES.split(paragraph) if each.strip()]
        said = [each for each in sentences if not (_NOT_SAID.search(each) or _CHAT.search(each) or _IDEA.search(each))]
        lesson = _lesson(said)
        if lesson:
            found.append(Found("lesson", lesson))
        for number, sentence in enumerate(said):
            if sentence in lesson:
                continue
            kind = next((kind for kind, cues in CUES.items() if cues.search(sentence)), None)
            kind = kind or _standing(sentence, pure)
            if sentence[-1] == ":" or (kind == "explicit" and len(sentence) < _INTRODUCTION_CHARS):
                sentence = " ".join(said[number : number + 1 + _INTRODUCED])
            elif said[number + 1 :] and _REASON.search(said[number + 1]):
                sentence += f" {said[number + 1]}"
            if kind and MIN_CHARS <= len(sentence) <= MAX_CHARS:
                found.append(Found(kind, sentence))
    return found


def _lesson(said: list[str]) -> str:
    told = [
        {part for part, signs in _LESSON.items() if signs.search(each)}
        if not (_TASK.search(each) or _IDEA.search(each)) else set()
        for each in said
    ]
    where = [number for number, parts in enumerate(told) if parts]
    if len(set().union(*told)) < _ENOUGH or "helped" not in set().union(*told):
        return ""
    return " ".join(said[where[0] : where[-1] + 1])


def _standing(sentence: str, pure: bool) -> str | None:
    if any(each.search(sentence) for each in (_TASK, _TROUBLE, _IDEA, _CHAT)):
        return None
    given = [name for name, signal in _SIGNALS.items() if signal.search(sentence)]
    if len(given) >= _ENOUGH or len(_SIGNALS["amount"].findall(sentence)) > 1:
        return "rule"
    if pure and len(sentence.split()) > 4 and {*given} & {"none", "all", "reason", "contrast", "word", "aside"}:
        return "rule"
    return None
