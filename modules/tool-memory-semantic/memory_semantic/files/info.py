"""The manifest: one small file, always whole, that says what a store is and where its shard is."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..errors import DamagedStoreError, NewerStoreError, StorageError
from ..exchange import SHARD
from ..limits import ENGINE
from ..points import StoreInfo
from ..ranking import INDEXED
from . import disk

NAME = "manifest.json"

_FORMAT = 5


class Manifest(StoreInfo):
    """The contents of `manifest.json`, which is written when a shard is put in place, and never by
    a store. `memories` is how many there were then: a shard that has fewer has lost some.
    """

    format: Annotated[int, Field(ge=_FORMAT)] = _FORMAT
    engine: str = ENGINE
    shard: Annotated[str, Field(pattern=SHARD)]
    memories: Annotated[int, Field(ge=0, strict=True)] = 0


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`, if there is one. Raises what `described` raises, and
    DamagedStoreError if another series of the engine wrote the shard, or if it holds the words of
    its texts by another version.
    """
    manifest = described(folder)
    if manifest and (manifest.engine != ENGINE or manifest.words not in (0, INDEXED)):
        raise DamagedStoreError(
            f"The store's files were written by {manifest.engine[:40]!r}, with words of version "
            f"{manifest.words}; this version works only with {ENGINE!r} and words of version "
            f"{INDEXED}. `agent-memory doctor --repair` makes a new store from its texts."
        )
    return manifest


def described(folder: Path) -> Manifest | None:
    """The manifest in `folder`, whichever engine wrote the shard. Raises NewerStoreError if a newer
    version wrote it, StorageError if an older one did, and DamagedStoreError if it is damaged.
    """
    try:
        text = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(text)
        if fields["format"] > _FORMAT:
            raise NewerStoreError(
                f"The store was made by a newer version (format {fields['format']}). Upgrade "
                "amplifier-module-tool-memory-semantic."
            )
        if 0 < fields["format"] < _FORMAT:
            raise StorageError(
                f"The store was made by an older version (format {fields['format']}), which this "
                f"one does not read: move {folder.parent} away, and `agent-memory import` its "
                "backup.jsonl."
            )
        return Manifest.model_validate(fields)
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedStoreError(
            f"The store's {NAME} is damaged; its memories are untouched. "
            "`agent-memory doctor --repair` makes another."
        ) from error


def write(folder: Path, manifest: Manifest) -> None:
    """Write `manifest` to `folder`; it is on disk when this returns."""
    fields = manifest.model_dump(mode="json", by_alias=True)
    fields = {"format": manifest.format, **fields}  # first, for who opens it
    disk.write_whole(folder / NAME, json.dumps(fields, indent=1).encode())


def identity(folder: Path) -> tuple[int, int]:
    """What tells the manifest in `folder` from any other. Raises FileNotFoundError without one."""
    found = (folder / NAME).stat()
    return found.st_ino, found.st_mtime_ns


def number_of(shard: str | None) -> int:
    """The number in the name of a shard's folder, 0 without a name; newer ones have higher ones."""
    return int(shard.rpartition("-")[2]) if shard else 0
