# /// script
# requires-python = ">=3.11"
# dependencies = ["amplifier-module-tool-memory-semantic[fastembed]", "numpy>=2"]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
# pyright: reportMissingImports=false
"""What a model on this machine costs: `uv run benchmarks/models_here.py [NAME ...]`, a minute.

Of the built-in model, and of those that `agent-memory model fetch` has brought here. What a model
finds is measured by `recall.py --model`. Prints a Markdown table, the best of several runs: what
else the machine does is not the model's.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from memory_semantic import EmbeddingGenerator
from stores.worker import WORDS

# About the tokens of what is embedded: a question, a memory of 150 characters, one of all that is
# read.
TOKENS = {"question": 12, "memory": 40, "longest": 510}
REPEATS, RUNS = 20, 3


def text(tokens: int, number: int) -> str:
    """A text of some `tokens` tokens."""
    return " ".join(np.random.default_rng(number).choice(WORDS, tokens))


def resident(what: str = "VmRSS") -> float:
    """MB of memory that this process has, on Linux."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) / 1000


def measure(model: str) -> dict[str, float]:
    """Milliseconds of a text once the model is loaded; MB that it takes then, and at most."""
    before = resident()
    generator = EmbeddingGenerator(model)
    asyncio.run(generator.generate(text(TOKENS["question"], 0)))
    found = {"loaded": resident() - before}
    for kind, tokens in TOKENS.items():
        taken = []
        for number in range(REPEATS):
            begun = time.perf_counter()
            asyncio.run(generator.generate(text(tokens, number)))
            taken.append((time.perf_counter() - begun) * 1000)
        found[kind] = min(taken)
    return found | {"peak": resident("VmHWM") - before}


def first(model: str) -> float:
    """Seconds to the first vector of a new process, Python's own start included."""
    script = "import asyncio, sys; from memory_semantic import EmbeddingGenerator; asyncio.run("
    script += "EmbeddingGenerator(sys.argv[1]).generate(sys.argv[2]))"
    started = time.perf_counter()
    subprocess.check_call([sys.executable, "-c", script, model, text(TOKENS["question"], 0)])
    return time.perf_counter() - started


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    print(
        "| model | first vector, s | a question, ms | a memory, ms | the longest | MB | at most |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in ["local", *sys.argv[1:]]:
        command = [sys.executable, __file__, "--alone", name]
        runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(RUNS)]
        best = {kind: min(run[kind] for run in runs) for kind in runs[0]}
        times = " | ".join(f"{best[kind]:.1f}" for kind in TOKENS)
        cold = min(first(name) for _ in range(RUNS))
        print(f"| {name} | {cold:.1f} | {times} | {best['loaded']:.0f} | {best['peak']:.0f} |")
    print(f"\n{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
