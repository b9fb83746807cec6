"""What memory costs in tokens: of every request of a session, which describes the tools to the
model, and of each call of a tool.

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
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from amplifier_core.testing import MockCoordinator
from memory_hooks.capture import REMINDER
from memory_semantic import MemoryStorage
from memory_semantic.remembered import utc_now
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from page import Log, Options, Row, number, table
from recall_sets import own, rows
from sessions import session, storage
from tokenizers import Tokenizer

# What the bundle puts into the instructions of an agent, beside the tools.
AWARENESS = Path(__file__).parent.parent / "context/memory-awareness.md"
CALLS, LIMITS, CHARACTERS = 20, (5, 20), 150
# Of a provider's cache, against an ordinary input token: what is new in a request is written, what
# was in an earlier one is read (Anthropic's prices).
WRITTEN, READ = 1.25, 0.1
TURNS = (1, 5, 10, 20)
AGENT = "bench"


def measure(options: Options, log: Log) -> Row:
    """What is read on every request, and in each call; ready for JSON."""
    size = 1_000 if options.quick else 10_000
    with tempfile.TemporaryDirectory() as root:
        log(f"tokens: {size:,} memories")
        calls = asyncio.run(_calls(root, size))
    time.sleep(0.1)  # amplifier-core 2.0.2 crashes if the process exits right after a call to it
    tokenizer = f"Llama 2 (in wordllama {version('wordllama')})"
    turns = asyncio.run(_by_turns(2 if options.quick else 20))
    found = {"tokenizer": tokenizer, "every_request": every_request()}
    return {**found, "calls": calls, "turns": turns}


def count(text: str) -> int:
    """The tokens of a text."""
    return len(_tokenizer().encode(text, add_special_tokens=False).ids)


@cache
def _tokenizer() -> Tokenizer:
    package = find_spec("wordllama")  # finds it without importing it
    folder = Path((package and package.origin) or "").parent
    return Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))


def every_request() -> dict[str, int]:
    """The tools as a provider gets them, in compact JSON, and the instructions."""
    texts = {"instructions": AWARENESS.read_text()}
    for tool in (MemoryStoreTool, MemorySearchTool):
        spec = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
        texts[tool.name] = json.dumps(spec, separators=(",", ":"))
    return {name: count(text) for name, text in texts.items()}


async def _calls(root: str, size: int) -> list[Row]:
    """A row for each kind of call on a new store of so many memories.

    memories: that came back, each time; text: the tokens of the contents stored or found; overhead:
    of all else, which are the other arguments of the call and the rest of the result. Both are
    medians of the calls; overhead_most is the most.
    """
    storage = await filled(root, AGENT, size)
    config = {"agent_identity": AGENT, "storage_root": root, "embedding_model": "local"}
    questions = [each.text for each in random.Random(0).sample(own().questions, CALLS)]
    stored = [{"content": memory(size + i), "tags": ["billing"]} for i in range(CALLS)]
    kinds: list[tuple[str, list[Row]]] = [
        # Of the default, a model leaves the limit out.
        (f"search, limit {limit}", [{"query": text} | more for text in questions])
        for limit in LIMITS
        for more in [{} if limit == LIMITS[0] else {"limit": limit}]
    ]
    found: list[Row] = []
    for name, calls in [*kinds, ("store", stored)]:
        kind = MemoryStoreTool if name == "store" else MemorySearchTool
        tool = kind(MockCoordinator(), config)
        found.append({"call": name, "size": size, **await _row(tool, calls)})
    await storage.close()
    return found


async def _by_turns(conversations: int) -> list[Row]:
    """What recall adds to conversations that take turns between a question of our set and prompts
    of another project, one request a turn: recalled, in all requests, and paid with a cache.
    """
    given, talk, added = own(), rows("holds/prompts"), list[list[int]]()
    for each in given.memories.values():  # as old as they are on the day of the questions
        each.timestamp += utc_now() - given.now
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        await storage(root).restore([*given.memories.values()])
        for nth in range(conversations):
            added.append([])
            async with session(root, "loop-scripted", []) as opened:
                context = opened.coordinator.get("context")
                for turn in range(max(TURNS)):
                    of_set = given.questions[(nth * 31 + turn // 2 * 7) % len(given.questions)]
                    small = talk[(nth * 13 + turn // 2 * 3) % len(talk)]["prompt"]
                    prompt = small if turn % 2 else of_set.text
                    before = len(await context.get_messages())
                    await opened.execute(prompt)
                    texts = [each["content"] for each in (await context.get_messages())[before:]]
                    blocks = {*texts[: texts.index(prompt)]} - {REMINDER}
                    added[-1].append(sum(map(count, blocks)))

    def mean(turns: int, written: float, read: float) -> float:
        return statistics.mean(
            sum(block * (written + read * (turns - 1 - i)) for i, block in enumerate(each[:turns]))
            for each in added
        )

    prices = (1, 0), (1, 1), (WRITTEN, READ)
    return [{"turns": turns, "tokens": [mean(turns, *each) for each in prices]} for turns in TURNS]


async def filled(root: str, agent: str, size: int) -> MemoryStorage:
    """A store of so many memories of CHARACTERS, with the built-in model."""
    storage = MemoryStorage(agent, {"storage_root": root, "embedding_model": "local"})
    for start in range(0, size, 1_000):
        numbers = range(start, min(start + 1_000, size))
        await storage.store_many([memory(number) for number in numbers])
    return storage


async def _row(tool: MemoryStoreTool | MemorySearchTool, calls: list[Row]) -> Row:
    texts, overheads, found = [], [], 0
    for arguments in calls:
        result = await tool.execute(arguments)
        if not result.success:
            raise RuntimeError(result.get_serialized_output())
        output: Row = result.output or {}
        shown = [memory["content"] for memory in output.get("memories", ())]
        found = len(shown)
        shown += [arguments["content"]] if "content" in arguments else []
        texts.append(sum(map(count, shown)))
        # As the model writes the one and reads the other.
        whole = count(json.dumps(arguments)) + count(result.get_serialized_output())
        overheads.append(whole - texts[-1])
    medians = {"text": statistics.median(texts), "overhead": statistics.median(overheads)}
    return {"memories": found, **medians, "overhead_most": max(overheads)}


def memory(number: int) -> str:
    """A text of CHARACTERS, of runs of words from real memories; none comes twice."""
    chooser = random.Random(number)
    words = [f"{number}."]
    while len(" ".join(words)) < CHARACTERS:
        start = chooser.randrange(len(_words()))
        words += _words()[start : start + 12]
    return " ".join(words)[:CHARACTERS].rstrip()


@cache
def _words() -> list[str]:
    return [word for memory in own().memories.values() for word in memory.content.split()]


def blocks(found: Row) -> dict[str, str]:
    """What stands in every request, and the calls in the largest store."""
    every: dict[str, int] = found["every_request"]
    spelled = ", ".join(f"`{name}` {amount}" for name, amount in every.items())
    size = found["calls"][0]["size"]
    rows = [
        [row["call"], *map(number, (row["text"], row["overhead"], row["overhead_most"]))]
        for row in found["calls"]
    ]
    heads = [f"call, {size:,} memories", "text", "all else", "at most"]
    turns = [[str(row["turns"]), *map(number, row["tokens"])] for row in found["turns"]]
    recalled = ["after so many turns", "recalled", "in all requests", "paid with a cache"]
    return {
        "tokens turns": table(recalled, turns),
        "tokens": f"By the tokenizer of {found['tokenizer']}, on every request "
        f"**{sum(every.values()):,}** ({spelled}).\n\n{table(heads, rows)}",
    }
