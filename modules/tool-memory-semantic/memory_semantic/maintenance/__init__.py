"""The one door for whoever keeps stores in order. It works on backends, never on MemoryStorage.

    Progress = Callable[[int, int], None]       told how many of how many are done

    async rebuild(backend, info, generator, progress) -> int
        A new shard (on a server: a collection) in place of the present one, as `info` says; with
        a `generator` the texts are embedded, with None the vectors are copied (words added).
    async repair(backend: FileBackend, info, generator, progress) -> int
        The same from the texts that can be read in damaged files, which are kept as damaged-….
    async erase(backend) -> None                after Store.delete: no byte is left on return
    async unembedded(backend, info, among=None) -> list[Memory]
        What a rebuild to `info` has still to embed; `among` is what `readable` found, for a repair.
    async give_up(backend) -> None              remove what an interrupted rebuild left
    async readable(backend: FileBackend) -> Salvaged(memories, unverified, unreadable)
    async restore(backend: ServerBackend) -> str | None     the alias for the newest whole collection
    async renew_ids(backend) -> int             a new id for all but one that share one
    async remove(backend, agreed: Callable[[Store], bool]) -> bool      the whole store, for good
    async copy(source, target, info, generator, progress) -> dict[UUID, Memory]
    async missing(copied, source, target, same_model, progress) -> list[str]
    lacking(memory, copy: Memory | None) -> str | None
    async memories_in(backend) -> dict[UUID, Memory]        the oldest first
    examine(store, progress: Callable[[int], None]) -> list[str]
    traces(folder, forgotten, living) -> list[Path]
    salvage(shard: Path, agent: str) -> Salvaged

`(await backend.info()).erasing` tells that an erasure is due (files only).
"""
