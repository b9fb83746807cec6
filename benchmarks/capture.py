"""What capture by cues keeps of labelled conversations. `uv run benchmarks/capture.py FILE`.

One JSON line for each turn, as `benchmarks/capture/score.py FILE PREDICTIONS` reads them.
"""

import json
import sys
from pathlib import Path

from memory_hooks.cues import found


def main() -> None:
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        turn = json.loads(line)
        captured = [each.text for each in found(turn["human"])]
        about = {"conversation": turn["conversation"], "turn": turn["turn"]}
        print(json.dumps({**about, "captured": captured}, ensure_ascii=False))


if __name__ == "__main__":
    main()
