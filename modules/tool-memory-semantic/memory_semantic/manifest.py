"""The manifest: what a store is, in one small file that is always whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from .disk import write_whole
from .errors import REPAIR, DamagedStoreError, NewerStoreError
from .models import DIMENSIONS
from .shard import ENGINE

# 1.0.0 wrote format 1 and would drop the words of a store that holds them: those are format 2.
FORMAT = 2
NAME = "manifest.json"


class Embedding(NamedTuple):
    """What made the vectors of a store: they can be compared with no others."""

    model: str
    version: str | None  # of the built-in model; the names of others carry it
    dimensions: int

    def unusual_dimensions(self) -> int | None:
        """The vector length if it must have been asked for: it is not what the model gives."""
        usual = DIMENSIONS.get(self.model, self.dimensions)
        return None if usual == self.dimensions else self.dimensions

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version else ""
        return f"{self.model!r}{version}, {self.dimensions} dimensions"


@dataclass(kw_only=True)
class Manifest:
    """The contents of `manifest.json`.

    `memories` is a lower bound: it is raised after a write is on disk, so a store that opens with
    fewer has lost some, and one with more was interrupted before this file was written.
    `endpoint` is the host and port of the embeddings service, None for OpenAI's own and `local`.
    `words` tells whether the shard holds the words of the texts, for the lexical part of the
    ranking.
    """

    format: int = FORMAT
    agent: str
    engine: str = ENGINE
    embedding: Embedding
    endpoint: str | None = None
    shard: Annotated[str, msgspec.Meta(pattern=r"^shard-[0-9]+\Z")] = "shard-1"
    memories: Annotated[int, msgspec.Meta(ge=0)] = 0
    created: datetime
    words: bool = False


def read(folder: Path) -> Manifest | None:
    """The manifest in `folder`, or None if there is none.

    Raises DamagedStoreError if it is not whole, NewerStoreError if a newer version wrote it.
    """
    try:
        text = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(text)
        if _series(fields["engine"]) > _series(ENGINE):
            raise _newer(fields)
        return parse(fields)
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedStoreError(
            f"The store's {NAME} is damaged; the memories beside it are untouched. {REPAIR}"
        ) from error


def parse(fields: Mapping[str, Any]) -> Manifest:
    """The manifest with these fields.

    Raises NewerStoreError if a newer version wrote them, ValueError, LookupError or TypeError if
    they are not those of a manifest.
    """
    if fields["format"] > FORMAT:
        raise _newer(fields)
    return msgspec.convert(fields, Manifest)


def _newer(fields: Mapping[str, Any]) -> NewerStoreError:
    made = f"format {fields['format']}, {fields.get('engine', 'on a server')}"
    return NewerStoreError(
        f"The store was made by a newer version ({made}). Upgrade "
        "amplifier-module-tool-memory-semantic."
    )


def _series(engine: str) -> tuple[int, ...]:
    return tuple(int(number) for number in engine.split()[-1].split("."))


def write(folder: Path, manifest: Manifest) -> None:
    """Put `manifest` into `folder`; it is on disk when this returns."""
    write_whole(folder / NAME, json.dumps(fields(manifest), indent=1).encode())


def fields(manifest: Manifest) -> dict[str, Any]:
    """What `parse` makes `manifest` of."""
    return msgspec.to_builtins(replace(manifest, format=FORMAT if manifest.words else 1))
