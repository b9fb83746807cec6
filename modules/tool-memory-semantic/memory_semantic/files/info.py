"""The manifest: one small file, always whole, that says what a store is and where its shard is."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..errors import REPAIR, DamagedStoreError, NewerStoreError
from ..limits import ENGINE
from ..store import StoreInfo
from .disk import write_whole

NAME = "manifest.json"

_FORMAT = 4


class Manifest(StoreInfo):
    """The contents of `manifest.json`.

    `memories` is a lower bound, raised after a write is on disk: a store that opens with fewer has
    lost some, and one with more was interrupted before this file was written.
    """

    format: Annotated[int, Field(ge=_FORMAT)] = _FORMAT
    engine: str = ENGINE
    shard: Annotated[str, Field(pattern=r"^shard-[0-9]+$")] = "shard-1"
    memories: Annotated[int, Field(ge=0, strict=True)] = 0


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`, if there is one. Raises what `described` raises, and
    DamagedStoreError if another series of the engine wrote the shard.
    """
    manifest = described(folder)
    if manifest and manifest.engine != ENGINE:
        raise DamagedStoreError(
            f"The store's files were written by {manifest.engine[:40]!r}; this version works only "
            f"with {ENGINE!r}. `agent-memory doctor --repair` makes a new store from its texts."
        )
    return manifest


def described(folder: Path) -> Manifest | None:
    """The manifest in `folder`, whichever engine wrote the shard. Raises NewerStoreError if a newer
    version wrote it, and DamagedStoreError if it is damaged or an older one did.
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
        return Manifest.model_validate(fields)
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedStoreError(
            f"The store's {NAME} is damaged, or of an older version; its memories are untouched. "
            f"{REPAIR}"
        ) from error


def write(folder: Path, manifest: Manifest) -> None:
    """Write `manifest` to `folder`; it is on disk when this returns."""
    left_out = set() if manifest.common else {"common"}
    fields = manifest.model_dump(mode="json", by_alias=True, exclude=left_out)
    fields = {"format": manifest.format, **fields}  # first, for who opens it
    write_whole(folder / NAME, json.dumps(fields, indent=1).encode())


def identity(folder: Path) -> tuple[int, int]:
    """What tells the manifest in `folder` from any other. Raises FileNotFoundError without one."""
    found = (folder / NAME).stat()
    return found.st_ino, found.st_mtime_ns
