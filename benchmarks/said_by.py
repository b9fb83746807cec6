"""Who is taken to have said what is stored: `uv run benchmarks/said_by.py`.

The sets in benchmarks/said_by: sentences that a user typed, planted pages, and words that the user
did not mean.
"""

import json
from pathlib import Path
from typing import Any

from memory_semantic.speaker import said_by

SET = Path(__file__).parent / "said_by"


def lines(name: str) -> list[dict[str, Any]]:
    """The rows of a file of the set."""
    return [json.loads(line) for line in (SET / name).read_text("utf-8").splitlines()]


def speaker(row: dict[str, Any]) -> str:
    """Who is taken to have said what the agent stores in this row."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": row.get("prompt", "Read that.")}]
    if "result" in row:
        talk.append({"role": "assistant", "tool_calls": [{"id": "1", "tool": "fetch"}]})
        answer = json.dumps({"text": row["result"]})
        talk.append({"role": "tool", "tool_call_id": "1", "content": answer})
    return said_by(row.get("store") or row["sentence"], talk, True)


def main() -> None:
    for name, right in (
        ("verbatim.jsonl", "user"),
        ("planted.jsonl", "tool"),
        ("negated.jsonl", "agent"),
    ):
        rows = lines(name)
        told = [speaker(row) for row in rows]
        counts = {each: told.count(each) for each in ("user", "tool", "agent")}
        print(f"{name}: {len(rows)} rows, {counts}")
        for row, by in zip(rows, told, strict=True):
            if by != right and not row.get("reworded"):
                print(f"  {by}: {row.get('store') or row['sentence']!r}")


if __name__ == "__main__":
    main()
