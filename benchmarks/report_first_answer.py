"""The section about the first answer of a process, and where its time goes."""

from typing import Any

from plots import Plots
from results import NONE, number, table

AIMS = {  # milliseconds on the clock
    "a search, 1,000 memories": 150,
    "a search, 10,000 memories": 250,
    "`agent-memory search`, 1,000 memories": 200,
}
SHOWN = 5  # packages
LEFT = (
    "The aims, on a machine that does nothing else: "
    + "; ".join(f"{name}, {aim} ms" for name, aim in AIMS.items())
    + ". On a busy one, the processor's time alone was above all three. What is left is not "
    "ours to shorten without another design. Three fifths are imports, most of them of "
    "Python's own modules and of `pydantic`, which builds the classes of memories and "
    "settings. A quarter is the model, nearly all of it `tokenizers` reading 1.8 MB of "
    "vocabulary. The vectors are mapped, and neither numpy nor the patterns for times and "
    "keys are loaded before a text needs them."
)


def section(found: dict[str, Any], plots: Plots) -> str:
    """What a first answer with the built-in model takes, and what of it cannot be had for less."""
    rows, parts = [], []
    for name, row in found.items():
        steps = row.get("steps", [None] * 3)
        aim = AIMS.get(name)
        clock, processor = number(row["clock"]), number(row["processor"])
        rows.append([name, clock, str(aim or NONE), processor, *map(number, steps)])
        whole = sum(row["imports"].values())
        most = list(row["imports"].items())[:SHOWN]
        shares = ", ".join(f"{owner} {100 * ms / whole:.0f} %" for owner, ms in most)
        parts.append(f"- {name}: {shares}.")
    aimed = [name for name in AIMS if name in found]
    missed = [name for name in aimed if found[name]["clock"] > AIMS[name]]
    verdict = f"Longer than the aim: {'; '.join(missed) or 'none'}."
    heads = ["", "ms", "aim", "of the processor", "imports", "the model", "the search"]
    return "\n\n".join(
        [
            "The built-in model, a new process for each answer; medians in milliseconds. The last "
            "three columns are the processor's, too. Where other work shares the machine, the "
            "processor's time is the better guide.",
            table(heads, rows),
            *([verdict] if aimed else []),
            "Shares of the time that imports take by themselves:",
            "\n".join(parts),
        ]
    )
