"""The sections of the page about what a search finds, and about recall before a prompt."""

from typing import Any

from tables import default_method, estimate_text, number, strong, table


def section(recall: dict[str, Any]) -> str:
    """As Markdown, of what `recall.measure` found."""
    scores, questions = recall["scores"], recall["set"]["questions"]
    default = default_method(recall)
    kinds = [kind for kind in scores[default] if kind != "all"]
    tuned, reported = (
        sum(each[part] for each in questions.values()) for part in ("tune", "report")
    )
    heads = ["method", "first", "among five"]
    heads += [f"{kind} ({scores[default][kind]['n']})" for kind in kinds]
    rows = []
    for method in recall["methods"]:
        every = scores[method]["all"]
        estimates = [every["recall@1"], every["recall@5"]]
        estimates += [scores[method][kind]["recall@5"] for kind in kinds]
        rows.append([strong(method, default), *map(estimate_text, estimates)])
    tuning = ", ".join(f"{each['recall@5']:.1f} at {each['weight']:g}" for each in recall["tuning"])
    return "\n\n".join(
        [
            "Our own set ([what it is](../benchmarks/recall/README.md)): "
            f"{recall['set']['memories']} memories of two years, {tuned} questions to tune on and "
            f"{reported} others, of which these figures are. In %, with the interval that holds "
            "95 % of what resampling the questions gives: answers that come first, and among the "
            "first five, of all questions and by their kind. Each row of `local`, the built-in "
            "model, adds something to the one before; the default is in bold. `static` is the part "
            "of it that takes 0.1 ms a text.",
            table(heads, rows),
            "How much shared words should count was chosen on the questions to tune on, by answers "
            f"among the first five: {tuning}. The default is {recall['weight']:g}. That the "
            "overlap is squared and common words are left out are ideas that came from LoCoMo as "
            "well, whose figures are not blind therefore. [Other models and "
            "languages](models.md#what-they-find).",
        ]
    )


def locomo(found: dict[str, Any]) -> str:
    """As Markdown, of what `locomo.measure` found."""
    rows = (
        [by]
        + [
            f"{100 * row[f'{key}@{k}'] / (1 if key == 'share' else row['with evidence']):.1f}"
            for k in (5, 10)
            for key in ("share", "any", "all")
        ]
        for by, row in found.items()
    )
    heads = [f"{key} of {k}" for k in (5, 10) for key in ("share", "any", "all")]
    return "\n\n".join(
        [
            "[LoCoMo](https://github.com/snap-research/locomo) has ten long conversations and "
            f"{next(iter(found.values()))['questions']:,} questions, each with the turns that "
            "answer it. In %; a memory is a session, or a turn. **Share** is the "
            "mean share of the evidence among the first 5 or 10 results, a question without "
            "evidence counting as found; **any** and **all** are how many of the others have some "
            "of it there, or all. Images are left out.",
            table(["", *heads], rows),
            "By session, share of 10, others publish 88.9 and 92.4 "
            "([MemPalace](https://github.com/MemPalace/mempalace/blob/develop/benchmarks/"
            "BENCHMARKS.md), a hybrid, with a small model and with bge-large), and 90.2 and 91.7 "
            "([hebb-mind](https://afx-team.github.io/hebb-mind/benchmarks/locomo/), with a "
            "reranker, of smaller memories and 1,978 questions); not run here. The name of the "
            "speaker, which is in every turn, helps where shared words count.",
        ]
    )


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
            f"{row['report']:.0%}",
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
            "Tokens that it adds to the input of a conversation with one request a turn, where "
            "every other prompt is a question of our set and the rest are small talk. What is "
            "recalled is sent again in every later request, from the cache at a tenth of the "
            "price; writing into it costs 1.25.",
            table(
                ["after so many turns", "recalled", "in all requests", "paid with a cache"], turns
            ),
            "How close a memory has to be, as the cosine, where not everything fits. **Found**: the "
            "answer is among the at most twenty that are recalled. Then how many memories are recalled: for a question with an "
            "answer, for one without, for small talk, and for how much of that there are none.",
            table(
                ["cosine", "found", "answer", "no answer", "small talk", "silent"],
                closeness,
            ),
        ]
    )
