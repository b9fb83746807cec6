"""The sections of the page about what a search finds, and about recall before a prompt."""

from collections.abc import Iterator
from typing import Any

from tables import NONE, default_method, estimate_text, number, strong, table


def section(recall: dict[str, Any]) -> str:
    """As Markdown, of what `recall.measure` found."""
    parts = [*_own(recall), *_steps(recall), *_languages(recall["languages"])]
    return "\n\n".join(parts)


def _own(recall: dict[str, Any]) -> Iterator[str]:
    scores, questions = recall["scores"], recall["set"]["questions"]
    default = default_method(recall)
    metrics = [name for name in scores[default]["all"] if name != "n"]
    kinds = [kind for kind in scores[default] if kind != "all"]
    tuned, reported = (
        sum(each[part] for each in questions.values()) for part in ("tune", "report")
    )
    yield (
        "Our own set ([what it is](../benchmarks/recall/README.md)): "
        f"{recall['set']['memories']} memories of two years, {tuned} questions to tune on and "
        f"{reported} others, of which all that follows is. In %, with the interval that holds "
        "95 % of what resampling the questions gives. Each row of a model adds something to the "
        "one before; the default is in bold."
    )
    yield _scores(recall["methods"], default, metrics, lambda m, c: scores[m]["all"][c])
    yield "recall@5 by kind of question:"
    heads = {f"{kind} ({scores[default][kind]['n']})": kind for kind in kinds}
    yield _scores(recall["methods"], default, heads, lambda m, c: scores[m][heads[c]]["recall@5"])


def _scores(methods: Any, default: str, columns: Any, estimate: Any) -> str:
    rows = (
        [strong(method, default), *(estimate_text(estimate(method, each)) for each in columns)]
        for method in methods
    )
    return table(["method", *columns], rows)


def _steps(recall: dict[str, Any]) -> Iterator[str]:
    rows: dict[str, dict[str, Any]] = {}
    for each in recall["differences"]:
        rows.setdefault(each["what"], {})[each["kind"]] = each["recall@5"]
    kinds = list(dict.fromkeys(each["kind"] for each in recall["differences"]))
    yield (
        "What each adds to the one before, question by question, in points of recall@5; where the "
        "interval holds 0, it may be chance:"
    )
    yield table(
        ["", *kinds],
        (
            [what, *(estimate_text(row[kind], True) if kind in row else NONE for kind in kinds)]
            for what, row in rows.items()
        ),
    )
    yield (
        "How much shared words should count was chosen on the questions to tune on: "
        + ", ".join(f"{each['recall@5']:.1f} at {each['weight']:g}" for each in recall["tuning"])
        + f". The default is {recall['weight']:g}. That the overlap is squared and common words "
        "are left out are ideas that came from LoCoMo as well, whose figures are not blind "
        "therefore."
    )


def _languages(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "### Other languages"
    yield (
        "Forty short memories in each of four languages, with the built-in model. One question "
        "about each is in other words, the other names a thing by a word of the memory, often "
        f"inflected or part of a longer word. Right answers of {rows[0]['questions']}, first and "
        "among the first five; by chance 1 and 5."
    )
    cells = ([f"{row['language']}, {row['kind']}", *map(str, row["now"])] for row in rows)
    yield table(["question", "first", "among five"], cells)
    yield (
        "The built-in model cannot read Korean and Japanese: there, shared words count for most, "
        "and a question wholly in other words finds little more than chance would. How much more "
        "they count there was chosen on these very questions. "
        "`uv run benchmarks/languages.py MODEL` measures another model."
    )


def better(recall: dict[str, Any]) -> Iterator[str]:
    """Which other methods find more than the default, by kind of question."""
    ours = recall["scores"][default_method(recall)]
    for kind, row in ours.items():
        found = {method: each[kind]["recall@5"][0] for method, each in recall["scores"].items()}
        least = row["recall@5"][0]
        if names := [f"{method} {mean:.1f}" for method, mean in found.items() if mean > least]:
            yield f"**recall@5, {kind} questions** ({least:.1f}): {', '.join(names)}."


def before_a_prompt(result: dict[str, Any]) -> str:
    """As Markdown, of what `recall_hook.measure` found."""
    times = result["ms"]
    busy = (
        f" **The machine was busy: {times['load']:.0f} programs for each of its cores. Compare "
        "these two with each other only.**"
        if times["load"] >= 1.5
        else ""
    )
    closeness = (
        [
            strong(f"{row['least']:.2f}", f"{row['least'] if row['chosen'] else -1:.2f}"),
            *(f"{row[key]:.0%}" for key in ("tune", "report")),
            *(number(row[key]) for key in ("report_memories", "no_answer", "small_talk")),
            f"{row['silent']:.0%}",
        ]
        for row in result["close"]
    )
    turns = (
        [str(row["turns"]), *(number(row[key]) for key in ("recalled", "read", "paid"))]
        for row in result["tokens"]
    )
    return "\n\n".join(
        [
            f"[The hook](recall.md) adds {number(times['warm'])} ms to a prompt (p95 "
            f"{number(times['warm_p95'])}) at {result['size']:,} memories with the built-in model, "
            f"and {number(times['first'])} ms to the first of a process, which loads engine and "
            f"model. Medians, in a scripted session with the real kernel.{busy}",
            "What it adds to the input of a conversation, in tokens, where every other prompt is a "
            "question of the labelled set and the rest are small talk. Without it, all of this is "
            "0. What it adds is sent again in every later request, at a tenth of the price where "
            "the provider has it in its cache (writing into it costs 1.25). Means of "
            "conversations with one request a turn.",
            table(
                ["after so many turns", "recalled", "in all requests", "paid with a cache"], turns
            ),
            "Its budgets are kept by an estimate, which counts "
            f"{result['tokens'][0]['estimate']:.2f} times what that of Llama 2 does, by which all "
            "of this is counted and which counts about a fifth more than OpenAI's.",
            "How close a memory has to be, as the cosine with the built-in model. **Found**: the "
            "answer is among the five that are recalled, for questions of both parts of the set. "
            "The other columns are how many memories are recalled: for a question with an answer, "
            "for one without, for a prompt of small talk, and for how much of that there are none.",
            table(
                ["cosine", "found, tuning", "found", "answer", "no answer", "small talk", "silent"],
                closeness,
            ),
        ]
    )
