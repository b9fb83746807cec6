"""The points of a store on this machine while its lock is held: its shard, and the journal. And the
one way to do what is not a store: a new shard, then swap.

A forget, another embedding model, a repair and a new store all make a new shard beside the present
one, and one write of the manifest puts it in its place. So nothing is changed before, and no byte
of what was left out is there after.

    1  shard.tmp is filled, flushed, closed, made private and synced
    2  it gets the next number: shard-2
    3  the new journal and the new manifest are written beside the present ones
    4  the manifest replaces the present one: this is the swap
    5  so does the journal; then all other shards are removed
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from uuid import UUID

from ..errors import (
    MAYBE,
    UNCHANGED,
    ReplacedStoreError,
    StorageError,
    counted,
    damage,
    explained,
)
from ..limits import PAGE
from ..memory import Memory
from ..points import Condition, Point, Question, StoreInfo, pages
from ..ranking import CANDIDATES
from . import disk, vectors
from .door import Lock, take_lock
from .edge import Shard, is_large
from .folder import UNFINISHED, AgentFolder, Manifest
from .journal import Lines, lines_of

logger = logging.getLogger(__name__)

# How an error ends that comes after a swap.
_DONE = (
    "It is done, but the files that it replaced could not all be removed, and may still hold what "
    "was forgotten. Any call on the store tries that again."
)

# How much a large store grows before its shard is made anew, because what is new opens more slowly:
# by so many memories, and by this share. So each is written anew about five times in all.
_GROWN = 5_000
_GROWN_SHARE = 0.25

# The databases whose shard this process could not make anew: it is tried once.
_failed: set[Path] = set()


class FilePoints:
    """The `Points` in `folder`, as `manifest` describes them, under the `lock`, which they release
    when they are closed. They must be closed; twice is harmless.

    Raises DamagedStoreError if shard, journal and manifest do not agree, or if a search does not
    find all that there is.
    """

    def __init__(self, folder: AgentFolder, manifest: Manifest, lock: Lock) -> None:
        self.info: StoreInfo = manifest
        self._folder = folder
        self._lock = lock
        self._identity = folder.identity()
        self._path = path = folder.database / manifest.shard
        self._made_with = manifest.memories
        self._is_over = False
        self.is_due = False  # to make the shard anew, unless a call fails
        if not path.is_dir():
            raise damage(manifest.agent, f"its {manifest.shard} is missing")
        with ExitStack() as on_error:
            self._shard = Shard(path, bool(manifest.words))
            on_error.callback(self._shard.close)
            count = self._shard.count()
            if count < manifest.memories:
                least = counted(manifest.memories)
                raise damage(manifest.agent, f"it holds {count} of at least {least}")
            self.info = manifest.model_copy(update={"memories": count})
            folder.journal.check(manifest, manifest.shard, count, pages(self))
            folder.clear_debris(manifest)
            self._doubled = is_large(manifest, count) and self._shard.versions() > count
            on_error.pop_all()

    def close(self) -> None:
        """Release the shard's files and the lock; before that, make the shard anew if that is due:
        every call has its answer, so a failure is logged.
        """
        with self._lock:
            try:
                if self.is_due and self.valid() and self._path.parent not in _failed:
                    self.make_anew(self.info, lambda point: point, self.info.memories)
            except (OSError, StorageError) as error:
                _failed.add(self._path.parent)
                logger.warning(
                    "The shard of agent %r was not made anew: %s. Its store works, but opens "
                    "slowly.",
                    self.info.agent,
                    type(error).__name__,
                )
            finally:
                self._is_over = True
                self._shard.close()
                with suppress(FileNotFoundError):  # deleted meanwhile, or replaced
                    disk.make_private(self._path)

    def awaited(self) -> bool:
        """Whether anyone else is waiting for the lock."""
        with suppress(FileNotFoundError):
            return self._lock.awaited()
        # The folder is being deleted. Closing the store now would write into it.
        return False

    def valid(self) -> bool:
        """Whether the store still exists, and more can be done with it: not after a swap, nor if
        the journal is not whole any more.
        """
        with suppress(OSError):
            return not self._is_over and self._identity == self._folder.identity()
        return False

    def upsert(self, points: Sequence[Point]) -> None:
        """See `Points`. The shard is the truth: what it has is stored, even if the journal cannot
        be written. An upsert without a vector would delete that: it is read first.
        """
        lacking = [point.key for point in points if not point.vector]
        known = {point.key: point.vector for point in self.get(lacking, vectors=True)}
        points = [p if p.vector else p._replace(vector=known.get(p.key, [])) for p in points]
        journal, number = self._folder.journal, self.info.memories
        with explained(MAYBE), journal.adding(points, number):
            self._shard.upsert(points)
        number += sum(point.changed is None for point in points)
        self.info = self.info.model_copy(update={"memories": number})
        self._is_over = not journal.is_whole
        grown = number - self._made_with
        slow = grown >= max(_GROWN, _GROWN_SHARE * self._made_with)
        self.is_due = self._doubled or (slow and is_large(self.info, number))

    def get(self, keys: Sequence[UUID], vectors: bool = False) -> list[Point]:
        """See `Points`."""
        return self._shard.get(keys, vectors)

    def query(self, asked: Sequence[Question], limit: int) -> list[list[Point]]:
        """See `Points`."""
        answers = self._shard.query(asked, limit)
        if any(question.vector for question in asked):  # words may be in no text
            for question, answer in zip(asked, answers, strict=True):
                self._require_all(answer, min(limit, CANDIDATES), question.where)
            if not any(answers):
                self._require_payloads()
        return answers

    def page(
        self,
        where: Sequence[Condition],
        limit: int,
        *,
        after: UUID | None = None,
        newest: bool = False,
        vectors: bool = False,
    ) -> list[Point]:
        """See `Points`."""
        most = min(limit, max(1, self.info.memories))  # the engine allocates room for as many
        found = self._shard.page(where, most, after=after, newest=newest, vectors=vectors)
        if newest:
            self._require_all(found, most, where)
        if not (found or after):
            self._require_payloads()
        return found

    def count(self, where: Sequence[Condition] = ()) -> int:
        """See `Points`."""
        return self._shard.count(where)

    def forget(self, points: Sequence[Point], relinked: Sequence[Point]) -> None:
        """See `Points`. A new shard without them takes the place of this one."""
        payloads = {point.key: point.payload for point in relinked}
        gone = {point.key for point in points}
        self._folder.require_space(self._path)
        for path in self._folder.gathered:
            vectors.forget(path, gone)

        def left(point: Point) -> Point | None:
            if point.key in payloads:
                return point._replace(payload=payloads[point.key])
            return None if point.key in gone else point

        self.make_anew(self.info, left, self.info.memories - len(gone))

    def make_anew(
        self,
        info: StoreInfo,
        change: Callable[[Point], Point | None],
        number: int,
        vectors: bool = True,
    ) -> None:
        """Replace the shard by one as `info` describes it: what `change` makes of each point, or
        leaves out, which are a `number` of memories. Nothing more can be done afterwards.
        """

        def new() -> Iterator[list[Point]]:
            for page in pages(self, vectors=vectors):
                yield [point for each in page if (point := change(each))]
            self._is_over = True
            self._shard.close()  # before its files are removed

        self._folder.require_space(self._path)
        lasting = info.model_copy(update={"created": self.info.created})
        swap(self._folder, lasting, new(), number)

    def keys(self) -> list[UUID]:
        """The keys of all points."""
        return self._shard.keys()

    def second_copy(self) -> dict[UUID, Memory] | None:
        """The journal's memories, without vectors; None if it could not be written."""
        journal = self._folder.journal
        return journal.memories()[0] if journal.is_whole else None

    def _require_all(self, found: Sequence[Point], limit: int, where: Sequence[Condition]) -> None:
        if len(found) < limit and len(found) < self.count(where):  # an index has lost some
            raise damage(self.info.agent, "a search does not find all memories")

    def _require_payloads(self) -> None:
        # If what conditions compare is lost, none finds anything.
        lines_of(self._shard.page((), PAGE), self.info.agent)


def open_points(
    folder: AgentFolder, create: StoreInfo | None, deadline: float, cancelled: Callable[[], bool]
) -> FilePoints | None:
    """The open store in `folder`; if there is none, a new one as `create` describes."""
    if not folder.exists:
        if create:  # the folder made for it came too late, or was deleted
            raise ReplacedStoreError("The store's folder was deleted meanwhile.")
        return None
    folder.require_writable()
    with explained(UNCHANGED), ExitStack() as unless_opened:
        lock = unless_opened.enter_context(take_lock(folder.database, deadline, cancelled))
        folder.require_space()
        manifest = folder.manifest()
        if manifest is None:
            _require_no_memories(folder)
            if create is None:
                return None
            folder.hide()
            manifest = swap(folder, create, [], 0, UNCHANGED)
        points = FilePoints(folder, manifest, lock)
        unless_opened.pop_all()
        return points


def _require_no_memories(folder: AgentFolder) -> None:
    # Without a manifest, only what an interrupted creation leaves may be here: unfinished work, or
    # a shard without memories.
    for path in folder.shards:
        with closing(Shard(path, words=False)) as shard:
            count = shard.count()
        if count:
            raise folder.lost(f"{path.name} holds", count)


def swap(
    folder: AgentFolder,
    info: StoreInfo,
    pages: Iterable[Sequence[Point]],
    number: int,
    done: str = _DONE,
) -> Manifest:
    """Replace the shard in `folder` by a new one, as `info` describes it, with the `number` of
    memories in `pages`; returns its manifest. Use it under the lock; the present shard must not be
    open when the last page was read.

    Raises StorageError; its `outcome` says if anything was changed, and is `done` after the swap.
    """
    database, unfinished = folder.database, folder.database / UNFINISHED
    disk.remove(unfinished)
    lines = Lines()
    large = is_large(info, number)
    with closing(Shard.create(unfinished, info, large)) as shard:
        for page in pages:
            lines += lines_of(page, info.agent)
            shard.fill(page)
        if large:
            shard.optimize()
        shard.flush()
        written = shard.count()
    if not written == len(lines) == number:
        raise StorageError(f"The new shard has {written:,} of {counted(number)}. Try again.")
    disk.make_durable(unfinished)
    lasting = info.model_dump(include=set(StoreInfo.model_fields))
    manifest = Manifest(**lasting | {"shard": folder.next_shard(), "memories": number})
    unfinished.rename(database / manifest.shard)
    disk.sync(database)
    folder.journal.prepare(manifest, manifest.shard, lines)
    with explained(MAYBE):
        folder.write_manifest(manifest)
    with explained(done):
        folder.journal.replace()
        folder.clear_debris(manifest)
        disk.sync(database)
    return manifest
