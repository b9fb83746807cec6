"""The section of the page about recall before a prompt."""

from collections.abc import Iterable, Sequence
from typing import Any

from results import number


def section(result: dict[str, Any], plots: object = None) -> str:
    """As Markdown, of what `recall_hook.measure` found."""
    times, agent = result["ms"], result["agent"]
    together = agent["envelope"] + agent["answer"]
    estimates = result["tokens"][0]["estimate"]
    return "\n\n".join(
        [
            f"[The hook](recall.md) adds {number(times['warm'])} ms to a prompt (p95 "
            f"{number(times['warm_p95'])}) at {result['size']:,} memories with the built-in model, "
            f"and {number(times['first'])} ms to the first of a process, which loads engine and "
            f"model; at the same time, a search took {number(times['search'])} ms. Medians, in a "
            f"scripted session with the real kernel.{_busy(times['load'])}",
            "What it adds to the input of a conversation, in tokens, where every other prompt is a "
            "question of the labelled set and the rest are small talk. Without it, all of this is "
            "0. What it adds is sent again in every later request, at a tenth of the price where "
            "the provider has it in its cache (writing into it costs 1.25). Means of "
            "conversations with one request a turn.",
            _table(
                ["after so many turns", "recalled", "in all requests", "paid with a cache"],
                (
                    [str(row["turns"]), *(number(row[key]) for key in ("recalled", "read", "paid"))]
                    for row in result["tokens"]
                ),
            ),
            f"Its budgets are kept by an estimate, which counts {estimates:.2f} times what that of "
            "Llama 2 does, by which all of this is counted and which counts about a fifth more "
            "than OpenAI's.",
            "How close a memory has to be, as the cosine with the built-in model. **Found**: the "
            "answer is among the five that are recalled, for questions of both parts of the set. "
            "The other columns are how many memories are recalled: for a question with an answer, "
            "for one without, for a prompt of small talk, and for how much of that there are none.",
            _table(
                ["cosine", "found, tuning", "found", "answer", "no answer", "small talk", "silent"],
                (_closeness(row) for row in result["close"]),
            ),
            "A look-up that is delegated to [the retrieval agent](../agents/memory-retrieval.md) "
            f"adds {together} tokens to the main agent's context at any size of the memory: "
            f"{agent['envelope']} for the call and what the answer comes in, and "
            f"{agent['answer']} for an answer of 200 words. Four searches for ten memories each, "
            f"which stay with the agent, are {agent['searches']:,}.",
        ]
    )


def _busy(load: float) -> str:
    """A word of warning if the machine did more than this."""
    if load < 1.5:
        return ""
    return (
        f" **The machine was busy: {load:.0f} programs for each of its cores. Compare these three "
        "with each other only.**"
    )


def _closeness(row: dict[str, Any]) -> list[str]:
    cells = [f"{row['least']:.2f}", f"{row['tune']:.0%}", f"{row['report']:.0%}"]
    cells += [number(row[key]) for key in ("report_memories", "no_answer", "small_talk")]
    cells.append(f"{row['silent']:.0%}")
    return [f"**{cell}**" for cell in cells] if row["chosen"] else cells


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["--:"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
