"""Recall: before a prompt, the model reads what is remembered: all that holds, while that is
little, else what matters most.

It comes as a separate message before the prompt. It stays in the conversation, so it is paid for
once and cached from then on. What a conversation already shows is read from the conversation
itself, so a resumed or forked one knows it too.
"""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memory_semantic.identity import RECALL_MODULE, project_of
from memory_semantic.limits import MAX_RESULTS, MULTILINGUAL
from memory_semantic.masking import mask
from memory_semantic.memory import Memory
from memory_semantic.remembered import utc_now
from memory_semantic.tokens import estimate_tokens

from .block import Block, shown_in
from .display import show
from .held import held
from .pause import Pause
from .settings import RecallConfig, read

if TYPE_CHECKING:
    from amplifier_core import HookResult
    from memory_semantic import MemoryStorage, StoreInfo

NAME = RECALL_MODULE
# Each event with the fields that it carries, never a text.
EVENTS = {
    "memory:injected": "`agent_id`, `count` of memories, `of` how many that hold (of 500 or more: "
    "that are stored), `tokens`, `query_time_ms`",
    "memory:inject_failed": "`kind` of the error",
}
PRIORITY = 20  # before hooks with the kernel's default of 100

# How long recall may delay a prompt.
MAX_SECONDS = 2.0
# How much of a prompt is searched for: half from its beginning, half from its end, where a question
# often stands. The built-in model reads no more. It is masked before it is cut, with enough text
# around either half to see the longest key whole.
MAX_QUERY_CHARS = 1_000
_MASKED_CHARS = 20_000
# A sub-agent is told what it needs, and gets the rules alone.
CHILD_TOKENS = 300

# The cosine from which a memory is close to a prompt, by embedding model. Measured on
# benchmarks/recall for the built-in model: with .28 the answer is recalled for 67 % of the
# questions, and nothing for 57 % of small talk; with .24 for 76 % and 45 %; with .32 for 55 % and
# 75 %. For `static` and E5 (with 4-bit weights) in the same way. Not measured for OpenAI's:
# published examples have 0.08 to 0.25 for questions off topic and 0.44 on topic with the newer two,
# and 0.77 to 0.79 off topic with ada. Other models differ; the budget holds in any case.
MIN_COSINE = {"local": 0.28, "static": 0.24, "text-embedding-ada-002": 0.8, MULTILINGUAL: 0.32}
MIN_COSINE_OF_OTHERS = 0.3

# Ids whose texts the tools' results show. Others, such as one to forget, show none.
_IN_RESULTS = re.compile(r"id\W{1,12}mem-([0-9a-f]{12})")
# After a compaction, what was shown this many messages ago may be hidden from the model, and is
# shown again. Contexts compact at each request once they are full, so that it may not be sooner.
HIDDEN_AFTER = 40
# What is not searched for: the files that Amplifier puts before a prompt, and reminders.
_NOT_ASKED = re.compile(r"<(context_file|system-reminder)\b.*?</\1>", re.DOTALL)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Let the session of `coordinator` recall. Opens and contacts nothing."""
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    recall = Recall(coordinator, config or {})
    undo = [
        coordinator.hooks.register("prompt:submit", recall, priority=PRIORITY, name=NAME),
        coordinator.hooks.register("provider:request", recall.on_request, name=f"{NAME}:injected"),
        coordinator.hooks.register(
            "context:compaction", recall.on_compaction, name=f"{NAME}:again"
        ),
    ]
    return lambda: [each() for each in undo]


@dataclass
class _Found:
    """What is known when time is up."""

    asked: datetime = field(default_factory=utc_now)
    ms: int = 0  # how long it took
    storage: "MemoryStorage | None" = None  # if there is a store
    of: int = 0  # how many memories hold; in a large store, how many there are
    block: Block | None = None

    @property
    def text(self) -> str:
        """The message, or ""."""
        return self.block.text() if self.block else ""


class Recall:
    """The recall of one session. Called with `prompt:submit`, it returns what to put before the
    prompt. Whatever fails, the turn goes on; the person is told about it once.
    """

    def __init__(self, coordinator: Any, config: dict[str, Any]) -> None:
        self._coordinator = coordinator
        self._config = config
        self._pause = Pause(f"It took over {MAX_SECONDS:g} s; what was found by then is shown.")
        self._put: _Found | None = None  # before the prompt, until the model reads it
        self._from = 0  # the first message that counts: a compaction may have hidden those before

    async def __call__(self, event: str, data: dict[str, Any]) -> "HookResult":
        """What is remembered and bears on `data["prompt"]`; for a sub-agent, the rules alone."""
        from amplifier_core import HookResult

        self._put = None
        if self._pause.on:
            return HookResult()
        found, child = _Found(), bool(data.get("parent_id"))
        started = time.perf_counter()
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await self._look_up(data.get("prompt"), found, child)
            self._pause.succeeded()
        except Exception as error:  # what was found until then is still good
            await self._failed(error)
        found.ms = round((time.perf_counter() - started) * 1000)
        if not (text := found.text):
            if found.storage and not child:
                await found.storage.record_prompt([], found.asked)
            return HookResult()
        self._put = found
        return HookResult(
            action="inject_context", context_injection=text, context_injection_role="user"
        )

    async def on_request(self, event: str, data: dict[str, Any]) -> "HookResult":
        """Report what was put before the prompt, unless another hook has denied the prompt."""
        from amplifier_core import HookResult

        found, self._put = self._put, None
        if found is None or found.storage is None or found.block is None:
            return HookResult()
        text = found.text
        if any(each.get("content") == text for each in await self._messages()):
            count = len(found.block.memories)
            told = {"agent_id": found.storage.agent_id, "count": count, "of": found.of}
            told |= {"tokens": round(estimate_tokens(text)), "query_time_ms": found.ms}
            await self._coordinator.hooks.emit("memory:injected", told)
            if not data.get("parent_id"):
                await found.storage.record_prompt(found.block.memories, found.asked)
        return HookResult()

    async def on_compaction(self, event: str, data: dict[str, Any]) -> "HookResult":
        """Show again, before the next prompt, what was shown long ago."""
        from amplifier_core import HookResult

        messages = await self._messages()
        self._from = max(self._from, len(messages) - HIDDEN_AFTER)
        return HookResult()

    async def _messages(self) -> list[dict[str, Any]]:
        return await self._coordinator.get("context").get_messages()

    async def _look_up(self, prompt: object, found: _Found, child: bool) -> None:
        messages = await self._messages()
        if len(messages) < self._from:  # it was cleared
            self._from = 0
        recent = [(each.get("role"), str(each.get("content"))) for each in messages[self._from :]]
        shown = {start for role, text in recent if role == "user" for start in shown_in(text)}
        first = not shown
        shown.update(id for _, text in recent for id in _IN_RESULTS.findall(text))
        await _look_up(
            self._coordinator, self._config, prompt, found, shown, first=first, child=child
        )

    async def _failed(self, error: Exception) -> None:
        kind = {"kind": type(error).__name__}
        await self._coordinator.hooks.emit("memory:inject_failed", kind)
        if why := self._pause.failed(error):
            line = f"Recall from long-term memory failed for this prompt. {why}"
            show(self._coordinator, line, NAME, warning=True)


def asked(prompt: object) -> str:
    """The part of a prompt that is searched for: without files and credentials, at most 1,000
    characters; "" if it contains no word.
    """
    text = _NOT_ASKED.sub(" ", prompt) if isinstance(prompt, str) else ""
    text = _ends(text.encode(errors="ignore").decode().strip(), _MASKED_CHARS)
    text = _ends(mask(text)[0], MAX_QUERY_CHARS)
    return text if any(map(str.isalnum, text)) else ""


async def recalled(
    coordinator: Any,
    config: dict[str, Any],
    prompt: object,
    shown: Collection[str] = (),
    *,
    of_tools: bool = True,
    seconds: float | None = None,
) -> Block | None:
    """What to show before `prompt` in a conversation of another program than Amplifier, if there is
    a store. It has shown the ids that begin as in `shown`, without `mem-`. With what a page or tool
    said only if `of_tools`. If the search fails, or takes longer than `seconds`, what was found
    until then; if that is nothing, raises whatever failed.
    """
    found, how = _Found(), {"first": not shown, "of_tools": of_tools}
    try:
        async with asyncio.timeout(seconds):
            await _look_up(coordinator, config, prompt, found, shown, **how)
    except Exception:
        if not (found.block and found.block.memories):
            raise
    return found.block


async def _look_up(
    coordinator: Any,
    config: dict[str, Any],
    prompt: object,
    found: _Found,
    shown: Collection[str],
    *,
    first: bool,
    child: bool = False,
    of_tools: bool = True,
) -> None:
    # Loading the engine takes a third of a second, which would block the event loop.
    await asyncio.to_thread(import_module, "memory_semantic.storage")
    # Without shared words, the score is the cosine.
    settings, storage = read(coordinator, {**config, "lexical_weight": 0}, RecallConfig)
    budget = settings.token_budget if first else settings.prompt_token_budget
    if child:
        budget = min(budget, CHILD_TOKENS) if first else 0
    info = await storage.info() if budget else None
    if info is None:
        return
    here = project_of(coordinator).get("project_id", "")
    known = await held(storage, here, shown, of_tools=of_tools)

    def block(close: Sequence[Memory] = ()) -> Block:
        empty = Block(budget, coordinator.injection_size_limit, known.is_here, known.line_of)
        if child:
            return known.rules_alone(empty)
        if first:
            return known.begin(empty, settings.pin_budget, close)
        return known.go_on(empty, close)

    found.storage, found.of = storage, known.number
    found.block = await asyncio.to_thread(block)
    query = "" if child or known.all_in(found.block) else await asyncio.to_thread(asked, prompt)
    if query and (close := await _close(storage, info, query, settings, known.wanted)):
        found.block = await asyncio.to_thread(block, close)


async def _close(
    storage: "MemoryStorage",
    info: "StoreInfo",
    query: str,
    settings: RecallConfig,
    wanted: Callable[[Memory], bool],
) -> list[Memory]:
    """The memories of a store that are close to `query`, and `wanted`, best first."""
    from memory_semantic.embeddings.generator import english_only
    from memory_semantic.ranking import unreadable

    # To a model for English, all texts that it cannot read look alike.
    if english_only(info.model) and unreadable(query):
        return []
    least = settings.min_cosine
    if least is None:
        least = MIN_COSINE.get(info.model.model, MIN_COSINE_OF_OTHERS)

    def close(near: list[Memory]) -> list[Memory]:  # the others are not used
        return [each for each in near if wanted(each) and each.similarity >= least]

    return await storage.search(query, MAX_RESULTS, prompt=True, select=close)


def _ends(text: str, characters: int) -> str:
    half = characters // 2
    return text if len(text) <= characters else f"{text[: half - 1]}\n{text[-half:]}"
