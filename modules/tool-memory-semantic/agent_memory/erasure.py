"""Whether forgotten memories are gone from the bytes on disk."""

import re
from collections.abc import Sequence
from pathlib import Path

from memory_semantic.models import MEMORY_ID, Memory

# The id of every memory is looked for, and the beginning of the text of so many: each of these is
# one more pass over the files. Shorter texts may stand in them by chance. The engine compresses
# each memory by itself, which leaves ids and nearly all beginnings as they are.
_TEXTS = 100
_TEXT_BYTES = 16
_ID = re.compile(MEMORY_ID.pattern.encode())
_HOLE = bytes(4096)


def traces(folder: Path, forgotten: Sequence[Memory], living: Sequence[Memory]) -> list[Path]:
    """The files in `folder` in which an id of `forgotten`, or a text, can still be read.

    What a living memory says as well does not count.
    """
    said = "\0".join(memory.content for memory in living).encode()
    ids = {memory.id.encode() for memory in forgotten} - set(_ID.findall(said))
    texts = {memory.content.encode()[:_TEXT_BYTES] for memory in forgotten[:_TEXTS]}
    texts = {text for text in texts if len(text) == _TEXT_BYTES and text not in said}
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes().replace(_HOLE, b"")  # most of a file is holes
            if not ids.isdisjoint(_ID.findall(content)) or any(text in content for text in texts):
                found.append(path)
    return found
