"""Memories as lines of text: the form of an export, and of a store's journal.

JSON Lines in UTF-8. The first line says what the file is:

    {"format": "agent-memory", "version": 1, "agent": "sam", "exported": "…", "memories": 2}

and each other line is a memory, oldest first:

    {"id": "mem-a3f2b8c1d4e5", "timestamp": "…", "tags": ["database"], "content": "We chose …"}

`metadata`, an object of strings, follows if there is any, `pinned` if it is true, `said_by` if it
is known, `quote`, the user's words that it rests on, `expires`, a time, and `replaced_by`, the key
of the text that corrects this one; then what a newer version has added. Times are RFC 3339. Vectors
are left out: the text is the truth, and whoever reads it makes its own.

A journal goes on after its `memories`: each later line is what was written next, and the later line
of a text counts. Each also has "n": how many memories the store held then.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer

from .memory import Memory
from .points import EmbeddingModel
from .remembered import timestamp_text

FORMAT = "agent-memory"
VERSION = 1
# The name of a shard: newer ones have higher numbers.
SHARD = r"^shard-[0-9]{1,9}$"
# The last field of a line in a journal.
NUMBER = "n"
_ENCODER = json.JSONEncoder(ensure_ascii=False)
FIELDS = (
    *("id", "timestamp", "tags", "content", "metadata"),
    *("pinned", "said_by", "quote", "expires", "replaced_by"),
)


class Header(BaseModel):
    """The first line. A journal also says what its store is, as in `StoreInfo`, of which `shard` it
    is, and how many bytes its lines had when it was last written whole.
    """

    model_config = ConfigDict(defer_build=True, populate_by_name=True)

    format: Literal["agent-memory"] = FORMAT
    version: Annotated[int, Field(le=VERSION)] = VERSION
    agent: str
    exported: Annotated[AwareDatetime, PlainSerializer(timestamp_text)]
    memories: Annotated[int, Field(ge=0)]
    embedding: EmbeddingModel | None = None
    endpoint: str | None = None
    words: int | None = None
    shard: Annotated[str | None, Field(pattern=SHARD)] = None
    size: Annotated[int | None, Field(alias="bytes", ge=0)] = None

    def line(self) -> bytes:
        """The line, with its end."""
        return self.model_dump_json(exclude_none=True, by_alias=True).encode() + b"\n"


def number_of(shard: str | None) -> int:
    """The number in the name of a shard's folder, 0 without a name; newer ones have higher ones."""
    return int(shard.rpartition("-")[2]) if shard else 0


def fields_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What the line of a memory says, which `payload` holds as the engine keeps it."""
    known = {name: payload[name] for name in FIELDS if name in payload}
    return known | {name: payload[name] for name in payload if name not in (*FIELDS, "agent_id")}


def line_of(payload: Mapping[str, Any]) -> bytes:
    """The line of a memory, with its end; see `fields_of`."""
    return _ENCODER.encode(fields_of(payload)).encode() + b"\n"


def numbered(line: bytes, number: int) -> bytes:
    """The `line` of a memory as a journal has it, after which the store holds `number` memories."""
    return b'%b, "%b": %d}\n' % (line[:-2], NUMBER.encode(), number)


def memory_of_line(line: bytes, agent: str) -> tuple[Memory, int]:
    """The memory in a line of `agent`'s journal, and the number there. Raises ValueError if it
    holds none.
    """
    fields = json.loads(line)
    if not (isinstance(fields, dict) and isinstance(fields.get(NUMBER), int)):
        raise ValueError("It is no line of a journal.")
    number = fields.pop(NUMBER)
    return Memory.from_storage({**fields, "agent_id": agent}), number
