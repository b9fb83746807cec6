"""What memory costs in tokens: `uv run benchmarks/run.py --parts tokens`.

Of every request of a session, which describes the tools to the model, and of each call of a tool.
The tokenizer is Llama 2's, which comes with the built-in model and needs no network. It counts
about a fifth more than OpenAI's cl100k_base, on the texts of the recall set and on JSON alike
(checked once).
"""

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memory_semantic import MemoryStorage
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from tokenizers import Tokenizer

Log = Callable[[str], None]

HERE = Path(__file__).parent
# What the bundle puts into the instructions of an agent, beside the tools.
AWARENESS = HERE.parent / "context/memory-awareness.md"
CALLS = 20
LIMITS = [5, 20]
CHARACTERS = 150
AGENT = "bench"


class Session:
    """As much of a session as the tools need: no identity of its own, and no one who listens."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.session_id = "tokens"
        self.hooks = self

    def get_capability(self, name: str) -> None:
        return None

    def get(self, mount_point: str) -> None:
        return None

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        pass


def measure(sizes: list[int], log: Log = print) -> dict[str, Any]:
    """What is read on every request, and in each call at each of `sizes`; ready for JSON.

    every_request: of each tool's specification and of the instructions. calls: the rows of
    `_calls`.
    """
    with tempfile.TemporaryDirectory() as root:
        calls: list[dict[str, Any]] = []
        for size in sizes:
            log(f"tokens: {size:,} memories")
            calls += asyncio.run(_calls(str(Path(root, str(size))), size))
    time.sleep(0.1)  # amplifier-core 2.0.2 crashes if the process exits right after a call to it
    return {
        "tokenizer": f"Llama 2 (in wordllama {version('wordllama')})",
        "every_request": every_request(),
        "calls": calls,
    }


def count(text: str) -> int:
    """The tokens of a text."""
    return len(_tokenizer().encode(text, add_special_tokens=False).ids)


@cache
def _tokenizer() -> Tokenizer:
    package = find_spec("wordllama")  # finds it without importing it
    folder = Path((package and package.origin) or "").parent
    return Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))


def every_request() -> dict[str, dict[str, int]]:
    """The tools as a provider gets them, in compact JSON, and the instructions."""
    texts = {"instructions": AWARENESS.read_text()}
    for tool in (MemoryStoreTool, MemorySearchTool):
        spec = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
        texts[tool.name] = json.dumps(spec, separators=(",", ":"))
    return {name: {"tokens": count(text)} for name, text in texts.items()}


async def _calls(root: str, size: int) -> list[dict[str, Any]]:
    """A row for each kind of call on a new store of so many memories.

    memories: that came back, each time; text: the tokens of the contents stored or found; overhead:
    of all else, which are the other arguments of the call and the rest of the result. Both are
    medians of the calls; overhead_most is the most.
    """
    settings = {"storage_root": root, "embedding_model": "local"}
    config = {"agent_identity": AGENT, **settings}
    storage = MemoryStorage(AGENT, settings)
    for start in range(0, size, 1_000):
        numbers = range(start, min(start + 1_000, size))
        await storage.store_many([memory(number, CHARACTERS) for number in numbers])
    about = {"size": size, "characters": CHARACTERS}
    rows: list[dict[str, Any]] = []
    for limit in LIMITS:
        calls = [{"query": question, "limit": limit} for question in _questions()]
        if limit == LIMITS[0]:  # the default, which a model leaves out
            calls = [{"query": call["query"]} for call in calls]
        tool = MemorySearchTool(Session(), config)
        rows.append({"call": "search", **about, "limit": limit, **await _row(tool, calls)})
    calls = [{"content": memory(size + i, CHARACTERS), "tags": ["billing"]} for i in range(CALLS)]
    tool = MemoryStoreTool(Session(), config)
    rows.insert(0, {"call": "store", **about, "limit": None, **await _row(tool, calls)})
    await storage.close()
    return rows


async def _row(
    tool: MemoryStoreTool | MemorySearchTool, calls: list[dict[str, Any]]
) -> dict[str, Any]:
    texts, overheads, found = [], [], 0
    for arguments in calls:
        result = await tool.execute(arguments)
        if not result.success:
            raise RuntimeError(result.get_serialized_output())
        output: dict[str, Any] = result.output or {}
        shown = [memory["content"] for memory in output.get("memories", ())]
        found = len(shown)
        shown += [arguments["content"]] if "content" in arguments else []
        texts.append(sum(map(count, shown)))
        # As the model writes the one and reads the other.
        whole = count(json.dumps(arguments)) + count(result.get_serialized_output())
        overheads.append(whole - texts[-1])
    return {
        "memories": found,
        "text": statistics.median(texts),
        "overhead": statistics.median(overheads),
        "overhead_most": max(overheads),
    }


def memory(number: int, characters: int) -> str:
    """A text of so many characters, of runs of words from real memories; none comes twice."""
    chooser = random.Random(number)
    words = [f"{number}."]
    while len(" ".join(words)) < characters:
        start = chooser.randrange(len(_words()))
        words += _words()[start : start + 12]
    return " ".join(words)[:characters].rstrip()


@cache
def _words() -> list[str]:
    lines = (HERE / "recall/memories.jsonl").read_text().splitlines()
    return [word for line in lines for word in json.loads(line)["content"].split()]


def _questions() -> list[str]:
    lines = (HERE / "recall/questions.jsonl").read_text().splitlines()
    return [json.loads(line)["question"] for line in random.Random(0).sample(lines, CALLS)]
