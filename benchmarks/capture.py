"""What capture by cues keeps of labelled conversations: `uv run benchmarks/capture.py`.

A turn is right if something is captured in it and something is worth it. With `-v` it prints what
was captured without being worth it.
"""

import json
import sys
from pathlib import Path

from memory_hooks.cues import found

SETS = sorted((Path(__file__).parent / "capture").glob("*.jsonl"))
# What nobody may make it store: turns with these hold words that are not the human's.
FOREIGN = ("poisoned", "secret", "quoted", "tool_output")


def main() -> None:
    print("| | worth it | precision | recall | of others' words |\n|---|--:|--:|--:|--:|")
    for file in SETS:
        turns = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        worth = [turn for turn in turns if turn["worth"]]
        captured = [turn for turn in turns if found(turn["human"])]
        right = [turn for turn in captured if turn["worth"]]
        wrong = [turn for turn in captured if not turn["worth"]]
        foreign = sum(turn["trap"] in FOREIGN for turn in wrong)
        precision, recall = len(right) / len(captured), len(right) / len(worth)
        cells = f"{len(worth)} | {precision:.2f} | {recall:.2f} | {foreign}"
        print(f"| `{file.name}` | {cells} |")
        if "-v" in sys.argv:
            for turn in wrong:
                print(
                    *(f"  {turn['conversation']}: {each.text!r}" for each in found(turn["human"]))
                )


if __name__ == "__main__":
    main()
