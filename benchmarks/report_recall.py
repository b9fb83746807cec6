"""The section of the page about what a search finds."""

from collections.abc import Iterator
from typing import Any

from results import NONE, default_method, estimate_text, name_text, table


def section(recall: dict[str, Any], plots: Any = None) -> str:
    """As Markdown, of what `recall.measure` found; without `plots` no pictures."""
    return "\n\n".join(
        [
            *_own(recall, plots),
            *_gains(recall),
            *_chosen(recall, plots),
            *_boost(recall["recency"]),
            "Can the score tell that there is no answer? It puts a question with an answer above "
            f"one without in {estimate_text([100 * each for each in recall['none']['auc']])} % of "
            "all pairs; 50 is chance.",
            *_store(recall),
            "### Other languages",
            *_languages(recall["languages"]),
            "### LoCoMo",
            *_locomo(recall),
        ]
    )


def _own(recall: dict[str, Any], plots: Any) -> Iterator[str]:
    all_scores, questions = recall["scores"], recall["set"]["questions"]
    default = default_method(recall)
    metrics = [name for name in all_scores[default]["all"] if name != "n"]
    kinds = [kind for kind in all_scores[default] if kind != "all"]
    tuned = sum(each["tune"] for each in questions.values())
    reported = sum(each["report"] for each in questions.values())
    yield (
        "Our own set ([what it is](../benchmarks/recall/README.md)): "
        f"{recall['set']['memories']} memories of two years, {tuned} questions to tune on and "
        f"{reported} others, of which all that follows is. In %, with the interval that holds "
        "95 % of what resampling the questions gives. Each ranking is worked out for all memories "
        "by its formula; the last of the built-in model is the default."
    )
    if plots:
        from plots import draw_recall

        yield plots.add(
            "recall",
            lambda theme: draw_recall(recall, theme),
            f"recall@5 of {', '.join(recall['methods'])}, by kind of question. The figures are "
            "below.",
        )
    yield table(
        ["method", *metrics],
        [
            [
                name_text(method, default),
                *(estimate_text(all_scores[method]["all"][metric]) for metric in metrics),
            ]
            for method in recall["methods"]
        ],
    )
    yield "recall@5 by kind of question:"
    yield table(
        ["method", *(f"{kind} ({all_scores[default][kind]['n']})" for kind in kinds)],
        [
            [
                name_text(method, default),
                *(estimate_text(all_scores[method][kind]["recall@5"]) for kind in kinds),
            ]
            for method in recall["methods"]
        ],
    )


def _gains(recall: dict[str, Any]) -> Iterator[str]:
    rows: dict[str, dict[str, Any]] = {}
    for each in recall["differences"]:
        rows.setdefault(each["what"], {})[each["kind"]] = each["recall@5"]
    columns = list(dict.fromkeys(each["kind"] for each in recall["differences"]))
    yield (
        "Differences question by question, in points of recall@5; where the interval holds 0, it "
        "may be chance:"
    )
    yield table(
        ["", *columns],
        [
            [
                what,
                *(estimate_text(row[kind], True) if kind in row else NONE for kind in columns),
            ]
            for what, row in rows.items()
        ],
    )


def _chosen(recall: dict[str, Any], plots: Any) -> Iterator[str]:
    yield (
        "How much shared words should count was chosen on the questions to tune on: "
        + ", ".join(f"{each['recall@5']:.1f} at {each['weight']:g}" for each in recall["tuning"])
        + f". The default is {recall['weight']:g}. That the overlap is squared and common words "
        "are left out are ideas that came from LoCoMo as well, whose figures are not blind "
        "therefore."
    )
    if plots:
        from plots import draw_tuning

        yield plots.add(
            "tuning",
            lambda theme: draw_tuning(recall, theme),
            "recall@5 over the weight of shared words, for all questions to tune on and for each "
            "kind of them.",
        )


def _boost(recency: dict[str, Any]) -> Iterator[str]:
    share = recency["pays_from_share"]
    pays = f"pays if {share:.0%} of all questions or more are such" if share else "never pays here"
    yield (
        "Memories of the last seven days count a fifth more. Where the answer is of that week this "
        f"gains {estimate_text(recency['gain_recent'])} points of recall@5, elsewhere it loses "
        f"{estimate_text(recency['loss_other'])}: it {pays}. With `since` given instead, "
        f"{estimate_text(recency['with_since']['recall@5'])} % of the answers to questions about "
        f"the week are found instead of {estimate_text(recency['without_since']['recall@5'])} %."
    )


def _store(recall: dict[str, Any]) -> Iterator[str]:
    store = recall["store"]
    yield (
        f"A store of these memories answers {store['same']} of {store['questions']} questions with "
        "the same five memories in the same order as the formula, and finds "
        f"{estimate_text(store['recall@5'])} % of the answers among them. It keeps vectors in 16 "
        "bits, by which close scores can change places."
    )


def _languages(rows: list[dict[str, Any]]) -> Iterator[str]:
    questions = rows[0]["questions"]
    yield (
        "Forty short memories in each of four languages, with the built-in model. One question "
        "about each is in other words, the other names a thing by a word of the memory, often "
        f"inflected or part of a longer word. Right answers of {questions}, first and among the "
        "first five; by chance 1 and 5."
    )
    yield table(
        ["question", "1.3: first", "among five", "now: first", "among five"],
        [
            [f"{row['language']}, {row['kind']}", *map(str, [*row["former"], *row["now"]])]
            for row in rows
        ],
    )
    yield (
        "The built-in model cannot read Korean and Japanese: there, shared words count for most, "
        "and a question wholly in other words finds little more than chance would. How much more "
        "they count there was chosen on these very questions. "
        "`uv run benchmarks/languages.py MODEL` measures another model."
    )


def _locomo(recall: dict[str, Any]) -> Iterator[str]:
    locomo = recall["locomo"]
    if not locomo:
        yield "This public set was not given to this run (`--locomo`)."
        return
    all_scores, nameless = locomo["scores"], locomo["nameless"]
    default = default_method(recall)
    kinds = list(all_scores[default])
    yield (
        "Ten long conversations; what was said is what is remembered, and what its authors name as "
        "evidence is the answer. recall@5 in %. Every turn begins with the name of its speaker, "
        "one of two: a name in a question draws its meaning to all turns of that speaker alike, "
        "unless it is left out as a common word. The last column is without these names."
    )
    yield table(
        [
            "method",
            *(f"{kind} ({all_scores[default][kind]['n']:,})" for kind in kinds),
            "all, without names",
        ],
        [
            [
                name_text(method, default),
                *(estimate_text(row[kind]["recall@5"]) for kind in kinds),
                estimate_text(nameless[method]),
            ]
            for method, row in all_scores.items()
        ],
    )
