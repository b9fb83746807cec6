"""Whether a human's own words state something that may be kept. Questions, guesses, orders and
complaints do not; nor does what is taken back, shows a secret, or is to be forgotten.
"""

import re

from memory_semantic.masking import mask

_BEFORE_A_VERB = r"^((ok\w*|and|now|then|also|please|pls|plz|kindly|hey|hi|so|just|go|oh|k)\W+)*+"
_DETERMINER = r"(the|an?|this|that|it|all|my|me|us|these|those|our|some|every)\b"
_NUMBER = r"(\d[\w:.,]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred)"


def phrases(lines: str) -> re.Pattern[str]:
    """A pattern that finds any of `lines` as whole words. In them, START is where an imperative can
    stand, HEAD the head of a clause, DO what may come before the verb of an order, DET a determiner
    and NUMBER a number.
    """
    patterns = []
    for line in map(str.strip, lines.strip().splitlines()):
        pattern = re.sub(r"^(?=\(|[a-z])|(?<=[a-z)])$", r"\\b", line)
        pattern = pattern.replace(
            "START ", r"(^|[,;:\u2013-] |\b(and|but|so|please|pls|also|oh|ok) )"
        )
        pattern = pattern.replace("HEAD ", r"(^|[,;\u2013-] )((and|but|so|ok|hm+|then),? )?")
        pattern = (
            pattern.replace("DO ", _BEFORE_A_VERB)
            .replace("NUMBER", _NUMBER)
            .replace("DET", _DETERMINER)
        )
        patterns.append(pattern)
    return re.compile("|".join(patterns), re.IGNORECASE)


# Questions, guesses, what is undecided or for now, reports, and chat.
_NOT_SAID = phrases(r"""
    [?\uff1f]\W*$|\bor (no|not)( \w+)?\W*$|first\W*$|ですか|오늘|이번만|今[日回]だけ
    HEAD (what|why|how|who|where)'?s?\b(?!.*: )
    ^((and|so|but) )?(which|who|where)\b
    HEAD (can|could|would|should|shall|do|does|did|is|are|was) (i|we|you|it|the|there|that|this)
    (maybe|perhaps|might|suppose|imagine|hypothetical\w*|i wish|some ?day|at some point|vielleicht)
    (could|would(?! (much )?rather| have my)|wonder\w*|tempted|dream\w*|in theory|one day|idea)
    (eventually|meh|kinda|if only|thinking|feel like|wish\w*|hope\w*|könnte|würde|y si|et si)
    (quiz[aá]s?|tal vez|ser[ií]a|peut-être)\b|もし|かも|만약|혹시
    (not|nothing|have ?n'?t|has ?n'?t|un)[ -]?(\w+ ){0,2}(decided|settled|sure|final)
    (today|tonight|tomorrow|(for|right) now|for the moment|yet|heute|morgen|erstmal|vorerst|hoy)
    this (time|once|morning|afternoon|evening|week|run|build|test|branch|session|screenshot)
    (por ahora|de momento|esta vez|después|pour l'instant|aujourd'hui|cette fois|hurry|urgent\w*)
    とりあえず|一旦|일단|지금은|이번에
    (temp(orar\w+)?|quick(ly)?|typo|asap|waiting (for|on)|(just|only|for) (this|that|it)\W*$)
    (for a (sec\w*|moment|bit|minute|while|test)|at the moment|meanwhile|in the meantime)
    ((until|till?|while) i('m)?|(just|only) for (this|now|a))
    (for (the next|one (run|day)|this one\W*$)|just for me)
    (just|only|for) (for )?the (test|run|demo|meeting|plot|figure|moment|screenshot)
    (discussing|debating|jury|whether|unclear|not clear|no (final )?(word|answer|consensus))
    (i'?d (love|like)|my guess|i (guess|think|bet|assume|suspect|owe)|can'?t believe|no joke)
    ((put|set|turn|change|switch) (it|that|them) back|then revert|i'll (revert|undo)|afterwards?)
    ((says?|claim(s|ed)?) (to|that|you)|nobody (\w+ed|dares?)|gotta|pleasure|off until|raining)
    (try|see) (if|what|how|whether|it)
    (docs?|page|article|readme|they|he|she|it|paper|book|log|spec|manual|ticket|site) (says?|said)
    (my \w+ (says?|said)|wrote|writes|according to)|^(from|in) (the|their|his|her) \w+( \w+)?:
    (they|he|she|who|where)( \w+)? (all |have |had |has )?(decided|prefer\w*|swears?|always|never)
    ((his|her|former|previous) (team|company|job)|used to|always sa(id|ys)|an? friend|years ago)
    (lol|haha\w*|lmao+|jaja\w*|omg|lunch|coffee|cake|beers?|pizza|thanks?|thank you\w*|thx|cheers)
    (sorr?y|apolog\w+|preciso|necesito|j'ai besoin|ich (brauche|hätte gern))
    (pretend|act as|role ?play|imagine|in (the|a|my|this) (novel|story|game|film|movie|dream)|dear)
    (the character|(their|his|her) (company|policy|rules?|team|mother|boss)|my (mother|boss))
    (the|an?) (ad|exam|saying|joke|proverb|quote)\b|sake of argument|(test|sample|dummy) data:
    (phone|mobile|passport|wifi|wi-fi|alarm|door|gate|licen[cs]e plate|iban|badge)\b.*\d{3}
    (happy|funny|splendid|amazing|fantastic|wonderful|totally|tragic|ugh|alas|yay|weather|football)
    (my|nice|good|great|have a) (\w+ )?(weekend|holidays?|vacation|cat|dog|train|bus|grand\w+)
    (i('ll| will| shall) (never|always)|i swear|(never|always) \w+ing)
""")
# Said in a turn, it takes back or reverses what the rest of the turn says.
_NOT_MEANT = phrases(r"""
    (not|nothing|nobody|no ?one|n'?t|never|un)[ -]?(\w+ ){0,3}(decided|settled|agreed|final)
    ((take|took|taking) (it|that|this) back|hold off|scratch that|ignore (what|that|my))
    (don'?t|do not) (note|count|plan|quote|log|save|keep|share) (on |me )?(it|that|this|them)
    (not so fast|without (any )?commitment|(did not|didn'?t) (decide|agree|conclude|settle))
    (no decision|undecided|up in the air|jumped the gun|premature|changed my mind(?! \w+ times))
    ([.!?)]\s+|\n)((ah|oh|hm+|no|nope|well),? )?(actually|on second thoughts?|correction|or rather)
    ([.!?)]\s+|\n)(no(?=,)|make (that|it)|i (mean|meant)|(scrap|strike) that)
    (actually|wait|sorry|hm+),? no(pe)?(?=\W*$|[,.!;:]| wait)|no,? (wait|actually|sorry)
    (doch nicht|nein, doch|ach nein|en fait,? non|non, plutôt|no, mejor|en realidad,? no)
    やっぱ|いや、|아니[,다]
    (oh|yeah|great|wow)[, ]+(sure|right|great|yes|perfect|lovely|joy)\b|who needs|🙄|🙃|😏
    ^(sure( thing)?|oh yeah|yay|wow),|^(great|perfect|lovely),? (another|just|more|exactly)\b
    (brilliant|genius|great idea|what could (possibly )?go wrong|best \w+ (ever|of my)|love how)
""")
# Orders, wishes, and answers to what was proposed.
_TASK = phrases(r"""
    DO (add|fix|run|make|show|give|write|look|check|find|build|rename|remove|delete|try|compare)\b
    DO (explain|tell|let me|get|pull|restart|revert|create|generate|bring|take|have a|undo)\b
    DO (fetch|grep|refactor|tidy|implement|prepare|ignore|comment|leave|put|move|turn)\b
    DO (only (run|use|keep|show|take)|and (one|the)|drop (everything|all)|then do)\b
    DO re(run|do|try|build|generate|load|send|check|test|draw)\b|just curious|only curious
    DO (continue|go on|next|bump|keep (going|it)|set|switch)\b
    (please|pls|kindly) (?!(always|never|note|remember|keep|do not|don.?t|no|only|use)\b)\w+
    DO (list|set|open|print|plot|load|review|push|deploy|render|sort|clean|change|update) DET
    DO (search|kill|start|stop|convert|import|export|read|scan|test|merge|commit|send|use) DET
    DO (split|swap|count|wrap|switch|format|repeat|install|tag|shorten|skip|draft|disable) DET
    ((can|could|would|will|may|might) (you|u|i)|pros (and )?cons)
    (i|we) (need|want|would like|'d like) (a|an|the|some|you to|to|another|one)
    ^(no|nope|nah),? (that|the|it|this|i|he|she)\b
    ^(yes|yep|yeah|nothing else|that'?s all)\b|^(both|done)\W*$
    ^(should|shall|do|does|did|is|are|was|were|can|could|would|will|has|have) \w+
    ^any (idea|reason|chance|way)\b
    ^(no|nope|nah|hm+|nice|cool|sorry)\b,? (only|all|not|just|no|every|for|in|that)\b|^given\b
    ^(all of (them|it)|only the (first|second|last)|wait|not (that|this|the|all|yet|quite))
""")
# What is wrong or so at this moment, and what someone has just done or seen.
_TROUBLE = phrases(r"""
    (crash\w*|missing|complain\w*|fail\w*|errors?|broken|hangs?|slow|why|wrong|weird|odd|strange)
    (stuck|still|help|suddenly|out of (disk|memory)|shows? only|as you can see|all (clear|done))
    (blank|empty|nan|null|denied|cut off|freezes|timeouts?|cpu|currently|seems?|looks? like)
    ((does|do|did|was|were)( not|n'?t) \w+|(is|are)( not|n'?t) \w+ing|i never|for some reason)
    (not (react|work|start|find|load|show|understand)\w*|any idea|dunno|no (idea|clue|hurry|rush))
    (no (matter|problem|worries|wonder|intention)|every ?time|since (the \w+|yesterday|\d))
    (nothing|only|always|never) (happens?|works?|shows?|changes?|fails?|returns?|reach\w*|loads?)
    can.?t (log|open|find|connect|see|build|start|get|seem|reach|tell|make|decide)
    i (\w+ ){0,2}(remember|forget|forgot|know)\b|^(?!.*\b(never|don'?t|ever|no|not)\b).*\bagai?n\b
    ^(it|this|that) (says?|prints?|shows?|gives?|does|has|takes?)\b|\bthere('s| is| are) (no|only)
    ^(\w+,? )?(i|we) (just |also )?(\w{2,}ed|ran|got|get|see|saw|went|did|was|were|had|made|found)\b
    ^(\w+,? )?(i'?m|i am|we'?re|we are) (on|in|at|back|done|just|trying|looking|waiting|going|\d+)
    ((looks?|sounds?) (good|fine|ok)|all (green|good|fine)|you (never )?(\w+ed|forgot|did))
    ^(ok\w*|fine|good|great|perfect|nice),? (that|it) \w+
    ^(aha|ah|(ok|ah|aha) so|makes sense|i see|perfect|exactly|no wait|i have (an?|\d+))\b
    ^(works|tried|hm+|much|here'?s|(two|three) more|(ok|and) then|not? \w+ (luck|output))\b
    (has no|too \w+|way (more|less)|but (not|only)|when i|i only|i have to|luck|except me)
    (takes? \d|none of (them|these)|restarts?|jumps?|flicker\w*|lets? me|in the logs?|options)
    ^(half|two|three|some|one|many|most|\d+) of (the|my|our|them)
""")
_FORGET = phrases(r"""
    (don'?t|not|never|no need to) (\w+ )?(remember|store|save|record|note|write|keep) (this|that|it)
    (don'?t|not|never|no need to) (\w+ )?(remember|record|note|take note of) (any|what|th)\w*
    (?<!n't )(?<!dont )(?<!not )(?<!ever )forget (this|that|it|what|about|everything)
    (off the record|not be recorded)
    nicht (merken|speichern)
    (기억|저장)하지 ?마|(覚え|記録し)ないで
""")
# A credential that is told, and the shape of many: sardine-cathedral-91, rly_live_4471. That a
# sentence mentions tokens or keys voids nothing.
_SECRET = phrases(
    r"""
    (pass(word|wd|phrase|code)?|passwort|kennwort|credentials?|pin( code)?|api key) TOLD
    (tokens?|secrets?|keys?) TOLD
    (?<!\S)(?=[^\s/]*\d)(?=[^\s/]*[a-z])(?:[a-z\d]+[-_]){2,}[a-z\d]+(?=[.,;]*(\s|$))
    (pw|pwd|log ?in (is|with|for)|contraseña|clave|mot de passe|mdp|zugangsdaten)
    private key|비번|암호|暗号|\(masked |비밀번호|パスワード|暗証
""".replace(" TOLD", r"( (for|to|of|on) (\w+ ){0,3}\w+)?( (is|are|was|lautet|ist)\b|[:=])")
)
_BACK = phrases(r"(this|that|these|those|it|them|one|same)\b")
_POLITE = re.compile(
    r"""^((many\ )?thanks?(\ (you|a\ lot|so\ much|again))?|thx|ty|cheers|sorry|danke|merci|gracias
      |ありがとう\w*|고마워\w*|감사\w*)[\s,.!:-]+(?=\w)
    |[\s,.!-]+(thanks?(\ (you|a\ lot|so\ much))?|thx|cheers|danke|merci|gracias)[\s.!]*$
    |[\U0001f300-\U0001f641\U0001f645-\U0001faff\u2600-\u27bf\ufe0f]+""",
    re.IGNORECASE | re.VERBOSE,
)
# What specifies the task at hand, however much it sounds like a rule.
_AT_HAND = phrases(
    r"""
    (this|these) ((?!is|are|project|repo|team|company|product|codebase)\w+ )?MADE
    (for|in|on|of|to) this (one\W*$|task|step|exercise)\b|in the (snippet|solution|answer|function)
    the (output|result|return value|docstring|diff)\b|(you|you're|i'm) (now )?(writing|building)
    (the|each|every|all|any) (the )?(\w+ )?PART\b.*\b(must|should|ought|needs?|ha(s|ve) to|required)
    ^(and |please )?(it|this|they) (must|should|needs?|ha(s|ve) to)|^must be
    ^(include|leave|exactly|answer with|for each|only (touch|change|edit|fix|refactor|show|print))\b
    (diese[rsmn]?|dieses) (\w+ )?(datei|funktion|klasse|skript|methode|seite|test|aufgabe|tabelle)
    이 (파일|함수|스크립트|클래스|테스트|페이지|작업)
    この(ファイル|関数|スクリプト|クラス|テスト|ページ|作業)
""".replace(
        "PART",
        "(button|row|column|cell|field|regex|modal|dialog|chart|axis|loop|summary|function|handler"
        "|strings?|table|migration|error message|parameter|header|footer|heading|form|page|list)s?",
    ).replace(
        "MADE",
        "(file|function|class|method|module|script|page|component|tests?|step|table|"
        "column|query|endpoint|report|summary|list|output|draft|commit|change|email|diff|migration|"
        "section|paragraph|task|ticket|issue|pr|chart|regex|prompt|readme|form|view|branch|run)",
    )
)


def to_be_forgotten(words: str) -> bool:
    """Whether the human says in these words that they must not be kept."""
    return bool(_FORGET.search(words))


def speaks_of_secrets(text: str) -> bool:
    """Whether `text` tells a credential."""
    return bool(_SECRET.search(mask(text)[0]))


def may_be_kept(words: str) -> bool:
    """Whether anything in these words of one turn may be kept: the human means them, takes nothing
    back and does not ask to forget anything.
    """
    return not (to_be_forgotten(words) or _NOT_MEANT.search(words))


def without_manners(sentence: str) -> str:
    """A sentence without thanks and emoji around what it says."""
    return _POLITE.sub("", sentence).strip() or sentence


def is_at_hand(sentence: str) -> bool:
    """Whether a sentence specifies the task at hand."""
    return bool(_AT_HAND.search(sentence))


def refers_back(sentence: str) -> bool:
    """Whether a sentence may be about, or be, what stands beside it."""
    return bool(len(sentence.split()) < 4 or _BACK.search(sentence))


def is_said(sentence: str) -> bool:
    """Whether a sentence says something, rather than asks, supposes, reports or chats."""
    return not _NOT_SAID.search(sentence)


def is_task(sentence: str) -> bool:
    """Whether a sentence asks for something to be done."""
    return bool(_TASK.search(sentence))


def is_statement(sentence: str) -> bool:
    """Whether a sentence is neither a task nor about what is wrong or happening at this moment."""
    return not (_TASK.search(sentence) or _TROUBLE.search(sentence))
