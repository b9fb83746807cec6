"""What a store holds for a session, and what of it comes before a prompt."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memory_semantic.limits import PAGE
from memory_semantic.memory import Memory, shortened, utc_now

from .block import Block

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

# Of a larger store, only the rules and so many of the latest are read before a prompt: more fit
# into no block, and these are one page of the store.
WHOLE = PAGE
# The ids of a larger store are shown with 8 digits: of 100,000 memories, two hardly ever share
# these, and if so, a tool that gets them says so.
_LONG_PREFIX = len("mem-") + 8
# Where not everything fits: how much of what the rules leave goes to the user's own words, so that
# what is close to the prompt has room.
_OWN_SHARE = 0.5


class Held:
    """The `memories` of a store, the newest first, as a session in the project `here` sees them.
    It has `shown` ids that begin so, without `mem-`. `whole` says whether these are all memories of
    the store, of which `number` hold.
    """

    def __init__(
        self, memories: Sequence[Memory], number: int, here: str, shown: Collection[str]
    ) -> None:
        self._here, self._shown = here, set(shown)
        now = utc_now()
        holding = [each for each in memories if not (each.replaced_by or each.expired(now))]
        self.whole = len(memories) < WHOLE
        self.number = len(holding) if self.whole else number
        self.new = [each for each in holding if self.wanted(each)]
        self.here = [each for each in self.new if self.is_here(each)]
        self.rules = [each for each in self.here if each.pinned]
        old = {each.replaced_by: each for each in memories}
        corrections = [each for each in self.here if each.key in old]
        own = [each for each in self.here if each.said_by == "user"]
        self._own = [*(each for each in corrections if each in own), *own]
        self._stale = [each for each in corrections if self._was_shown(old[each.key])]
        ids = [each.id for each in memories]
        self._short = shortened([each.id for each in self.new], ids) if self.whole else {}

    def left(self, block: Block) -> int:
        """How many memories hold that a conversation may see, and does not yet with this block;
        of a large store, about so many.
        """
        return (len(self.new) if self.whole else self.number) - len(block.memories)

    def short(self, id: str) -> str:
        """The beginning by which an id is shown."""
        return self._short.get(id, id[:_LONG_PREFIX])

    def wanted(self, memory: Memory) -> bool:
        """Whether a memory may be shown: it was not yet, and is no rule of another project."""
        other = memory.pinned and not self.is_here(memory)
        return not (other or self._was_shown(memory))

    def begin(self, empty: Callable[[], Block], rule_tokens: float) -> Block:
        """The first block of a conversation: all that holds; else all of this project; else the
        rules, in at most `rule_tokens`, and of the user's own words what half of the rest has room
        for, corrections first.
        """
        for all_of in (self.new, self.here):
            block = empty()
            if block.add_all(all_of):
                return block
        block = empty()
        block.add(self.rules, block.tokens + rule_tokens)
        block.add(self._own, block.tokens + block.left * _OWN_SHARE)
        return block

    def go_on(self, block: Block, since: datetime) -> None:
        """Add to a later block the rules that were stored `since` then, and what corrects what the
        conversation shows.
        """
        new = [each for each in self.rules if each.timestamp >= since]
        block.add([*new, *self._stale])

    def all_in(self, block: Block) -> bool:
        """Whether the conversation, with this block, shows all there is."""
        return self.whole and all(each.id in block.memories for each in self.new)

    def is_here(self, memory: Memory) -> bool:
        """Whether a memory is of this project, or of all."""
        return memory.project_id in (self._here, None)

    def _was_shown(self, memory: Memory) -> bool:
        digits = memory.id.removeprefix("mem-")
        return any(digits[:length] in self._shown for length in range(4, len(digits) + 1))


async def held(storage: "MemoryStorage", here: str, shown: Collection[str]) -> Held:
    """What the store holds: see `Held`."""
    memories = await storage.get_recent(WHOLE)
    if len(memories) < WHOLE:
        return Held(memories, 0, here, shown)
    rules = await storage.get_recent(None, pinned=True, holding=True)
    known = {each.id: each for each in [*memories, *rules]}
    return Held(list(known.values()), await storage.count(), here, shown)
