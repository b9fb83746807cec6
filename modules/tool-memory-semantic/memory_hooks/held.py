"""What a store holds for a session, and what of it comes before a prompt."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from memory_semantic.limits import PAGE
from memory_semantic.remembered import LONG_BEGINNING, Remembered, last, shortened, utc_now

from .block import Block, line

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

# Of a larger store, only the rules, and so many of the latest and of the latest of the project are
# read before a prompt: more fit into no block, and these are one page of the store each.
WHOLE = PAGE
# Where not everything fits: how much of what the rules leave goes to the user's own words, so that
# what is close to the prompt has room.
_OWN_SHARE = 0.5


class Held:
    """The `memories` of a store, the newest first, as a session in the project `here` sees them.
    The session has shown those whose ids begin as in `shown`, without `mem-`. They are the `whole`
    store, or it has a `number`. Texts are shown `masked`, or as they are; what a page or tool said
    only if `of_tools`.
    """

    def __init__(
        self,
        memories: Sequence[Remembered],
        here: str,
        shown: Collection[str],
        *,
        number: int | None = None,
        masked: bool,
        of_tools: bool,
    ) -> None:
        self._here, self._shown, self._of_tools = here, set(shown), of_tools
        now = utc_now()
        holding = [each for each in memories if not (each.replaced_by or each.expired(now))]
        self.whole = number is None
        self.number = len(holding) if number is None else number
        self.new = [each for each in holding if self.wanted(each)]
        self.here = [each for each in self.new if self.is_here(each)]
        self.rules = [each for each in self.here if each.pinned]
        replaced = [each for each in memories if each.replaced_by]
        by_key = {each.key: each for each in memories} if replaced else {}
        corrections = {last(by_key.get, each).id for each in replaced}
        stale = {last(by_key.get, each).id for each in replaced if self._was_shown(each)}
        own = [each for each in self.here if each.said_by == "user" and not each.pinned]
        self._own = sorted(own, key=lambda memory: memory.id not in corrections)
        self._stale = [each for each in self.new if each.id in stale]
        ids = [each.id for each in memories]
        self._short = shortened([each.id for each in self.new], ids) if self.whole else {}
        self._masked, self._lines = masked, dict[str, str]()

    def line_of(self, memory: Remembered) -> str:
        """The line of a memory in a block, made once."""
        if memory.id not in self._lines:
            begins = self._short.get(memory.id, memory.id[:LONG_BEGINNING]).removeprefix("mem-")
            made = line(memory, begins, self._masked)
            self._lines[memory.id] = made
        return self._lines[memory.id]

    def wanted(self, memory: Remembered) -> bool:
        """Whether a memory may be shown: it was not yet, is no rule of another project, and nothing
        that a tool said where that is left out.
        """
        other = memory.pinned and not self.is_here(memory)
        unheard = memory.said_by == "tool" and not self._of_tools
        return not (other or unheard or self._was_shown(memory))

    def begin(self, block: Block, rule_tokens: float, close: Sequence[Remembered] = ()) -> Block:
        """Fill the first block of a conversation, with all that holds; else with all of this
        project, and what is `close` of others; else with the rules, in at most `rule_tokens`, of
        the user's own words what half of the rest has room for, corrections first, what is `close`,
        and the latest.
        """
        if not block.add_all(self.new):
            if not block.add_all(self.here):
                block.add(self.rules, block.tokens + rule_tokens)
                block.add(self._own, block.tokens + block.left * _OWN_SHARE)
            block.add([*close, *(each for each in self.here if not each.pinned)])
        block.more = (len(self.new) if self.whole else self.number) - len(block.memories)
        self._with_rules_left(block)
        block.more -= block.more_rules
        return block

    def go_on(self, block: Block, close: Sequence[Remembered] = ()) -> Block:
        """Fill a later block, with rules that the conversation does not show, what corrects what it
        shows, and what is `close`.
        """
        block.add([*self.rules, *self._stale, *close])
        return block

    def rules_alone(self, block: Block) -> Block:
        """Fill a block with what a sub-agent gets."""
        block.add(self.rules)
        return self._with_rules_left(block)

    def _with_rules_left(self, block: Block) -> Block:
        block.more_rules = sum(rule.id not in block.memories for rule in self.rules)
        return block

    def all_in(self, block: Block) -> bool:
        """Whether the conversation, with this block, shows all there is."""
        return self.whole and all(each.id in block.memories for each in self.new)

    def is_here(self, memory: Remembered) -> bool:
        """Whether a memory is of this project, or of all."""
        return memory.project_id in (self._here, None)

    def _was_shown(self, memory: Remembered) -> bool:
        digits = memory.id.removeprefix("mem-")
        return any(digits[:length] in self._shown for length in range(4, len(digits) + 1))


async def held(
    storage: "MemoryStorage", here: str, shown: Collection[str], *, of_tools: bool
) -> Held:
    """What the store holds: see `Held`."""
    masked = storage.config.mask_secrets
    memories = await storage.get_recent(WHOLE)
    if len(memories) < WHOLE:
        return Held(memories, here, shown, masked=masked, of_tools=of_tools)
    own = await storage.get_recent(WHOLE, holding=True, project_id=here)
    rules = await storage.get_recent(None, holding=True, pinned=True)
    known = {each.id: each for each in [*memories, *own, *rules]}
    newest = sorted(known.values(), key=lambda memory: memory.timestamp, reverse=True)
    number = await storage.count()
    return Held(newest, here, shown, number=number, masked=masked, of_tools=of_tools)
