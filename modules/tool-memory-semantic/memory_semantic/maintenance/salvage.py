"""Reads the memories in a damaged shard, from its files and without the engine.

The engine refuses a shard for damage that harms no text, opens others with fewer memories, and a
damaged list of ids makes it abort the whole process. But the texts are in plain blocks of the
payload files, whatever has happened to everything around them, so this looks for them there.

It knows the files that the series qdrant-edge 0.9 writes; in those of another series it may find
nothing. Below `segments/*/` of a shard:

`payload_storage/page_<n>.dat`  values, each beginning at a multiple of 128 bytes: the length of the
    payload's JSON (uint32, little-endian), then that JSON as one LZ4 block. A value may continue
    on the next page. An overwritten value stays where it was until its space is needed.
`mutable_id_tracker.mappings`  a log with an entry of 21 bytes for every point: 0x02, the 16 bytes
    of its UUID in the usual order, and the point's number in the segment (uint32, little-endian).
`mutable_id_tracker.versions`  8 bytes for every such number.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..check import clean_id, clean_tags, trimmed_text
from ..limits import (
    MAX_CONTENT_CHARS,
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from ..memory import Memory
from ..resources import shortage

_BLOCK = 128
# The longest JSON of a memory: six bytes for a character (\u001f), and 1,000 for everything else.
_MAX_CHARS = MAX_CONTENT_CHARS + MAX_TAGS * MAX_TAG_CHARS
_MAX_CHARS += MAX_METADATA * (MAX_TAG_CHARS + MAX_METADATA_CHARS)
_MAX_JSON = 6 * _MAX_CHARS + 1_000
# An LZ4 block is at most this much longer than its contents, including the length before it.
_MAX_VALUE = _MAX_JSON + _MAX_JSON // 255 + 20
# The last byte of the number is 0 up to 16 million points, which tells entries from damaged bytes.
_ENTRY = re.compile(rb"\x02(.{16}).{3}\0", re.DOTALL)
# How such a JSON ends: with the tags, or with the metadata.
_END = re.compile(rb"\]\}|\"\}\}")
# Disks lose data in units of this size, so files are read in them.
_SECTOR = 4096


@dataclass(frozen=True)
class Salvaged:
    """What could be read of a shard: the newest version left of each memory, oldest memory first.

    `unverified` of the `memories` could not be checked, because the key of their text is lost.
    `unreadable` is how many more there were, as far as can be known: their texts are gone or are
    not what was stored. Keys protect only texts: altered tags or times go unnoticed if they are
    valid.
    """

    memories: list[Memory]
    unverified: int
    unreadable: int


def salvage(shard: Path, agent: str) -> Salvaged:
    """Read the memories of `agent` in the folder `shard`, without changing anything there.

    Nobody else may write to it meanwhile. Raises OSError for files that may not be read.
    """
    ids = [id for path in _tracker(shard, "mappings") for id in _ENTRY.findall(_read(path))]
    points = sum(path.stat().st_size // 8 for path in _tracker(shard, "versions"))
    stored = set(ids)
    verified: dict[bytes, Memory] = {}
    others: dict[str, Memory] = {}
    for memory in _versions(shard, agent):
        key = memory.key.bytes
        if key in stored:
            verified[key] = _newer(verified.get(key), memory)
        else:
            others[memory.id] = _newer(others.get(memory.id), memory)
    if ids and len(ids) >= points:  # no key is lost, so these texts were altered
        others.clear()
    for memory in verified.values():  # these are altered versions of verified texts
        others.pop(memory.id, None)
    memories = sorted([*verified.values(), *others.values()], key=lambda memory: memory.timestamp)
    missing = max(len(stored), points) - len(memories)
    return Salvaged(memories, unverified=len(others), unreadable=max(missing, 0))


def _newer(known: Memory | None, memory: Memory) -> Memory:
    return known if known and known.timestamp > memory.timestamp else memory


def _versions(shard: Path, agent: str) -> Iterator[Memory]:
    """Everything in the pages that reads as a memory of `agent`, overwritten versions included."""
    for path in shard.glob("segments/*/payload_storage/page_*.dat"):
        number = path.stem.removeprefix("page_")
        if not number.isdecimal():
            continue
        page = _read(path)
        following = path.with_name(f"page_{int(number) + 1}.dat")
        data = page + (_read(following, _MAX_VALUE) if following.exists() else b"")
        for at in range(0, len(page.rstrip(b"\0")), _BLOCK):  # a page begins as one large hole
            size = int.from_bytes(data[at : at + 4], "little")
            memory = _memory(data, at) if 0 < size <= _MAX_JSON else None
            if memory and memory.agent_id == agent:
                yield memory


def _memory(data: bytes, at: int) -> Memory | None:
    """The memory in the value at `at`, if it is one and in every respect in its stored form."""
    from lz4.block import LZ4BlockError, decompress

    # The value does not state its length, and old bytes may follow it. But it ends as the JSON
    # ends: the last five bytes of an LZ4 block are never compressed.
    for end in _END.finditer(data, at + 4, at + _MAX_VALUE):
        try:
            payload = json.loads(decompress(data[at : end.end()]).decode())
            memory = Memory.from_storage(payload)
            clean_id(memory.id)
            # Not normalised: an earlier version may have stored them.
            text = trimmed_text(memory.content, "content")
            unchanged = text, clean_tags(memory.tags, trimmed_text)
        except LZ4BlockError:
            continue
        except (ValueError, RecursionError):
            return None
        as_stored = memory.dict_for_storage() == payload
        return memory if as_stored and unchanged == (memory.content, memory.tags) else None
    return None


def _tracker(shard: Path, kind: str) -> Iterator[Path]:
    return shard.glob(f"segments/*/mutable_id_tracker.{kind}")


def _read(path: Path, limit: int | None = None) -> bytes:
    """The file, or its first `limit` bytes, with zeros for what the disk has lost.

    Read, not mapped: a lost sector under a map kills the process.
    """
    pieces: list[bytes] = []
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size if limit is None else limit
        for at in range(0, size, _SECTOR):
            try:
                pieces.append(os.pread(file, _SECTOR, at))
            except OSError as error:
                if shortage(error):  # the disk has not lost it
                    raise
                pieces.append(bytes(_SECTOR))
    finally:
        os.close(file)
    return b"".join(pieces)
