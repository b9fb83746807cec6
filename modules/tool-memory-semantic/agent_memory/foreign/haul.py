"""What was found in somebody else's files, and what was left out of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_semantic import limits

from .. import interchange

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

# So many tags of its own fit on a memory; the others are left for `--tag` and the form.
_OWN_TAGS = limits.MAX_TAGS // 2


class Form(NamedTuple):
    """A form of files: its name for people, and the tag that its memories get."""

    name: str
    tag: str


@dataclass
class Haul:
    """What may become memories, by text; how many there are of each kind; and how many things were
    left out, by what they are.
    """

    found: dict[str, interchange.Entry] = field(default_factory=dict)
    kinds: Counter[tuple[Form, str]] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def add(
        self,
        form: Form,
        kind: str,
        content: str,
        when: object = None,
        written: datetime | None = None,
        tags: Iterable[object] = (),
        said_by: str | None = None,
        **told: object,
    ) -> None:
        """Add a text of a `kind`, such as "notes". It is of `when`, a time in any common form; if
        that is unknown or in the future, of when its file was `written`. What is `told` about it
        becomes its metadata. A text that is too long becomes several memories.
        """
        given, moment = list(tags), self.moment(when)
        own = [
            tag for tag in given if isinstance(tag, str) and 0 < len(tag) <= limits.MAX_TAG_CHARS
        ]
        self.left["tags that do not fit"] += len(given) - len(own[:_OWN_TAGS])
        about = {"stored_by": "agent-memory import", "kind": kind, **told}
        about = {name: str(it)[: limits.MAX_METADATA_CHARS] for name, it in about.items() if it}
        fields = {"tags": [*own[:_OWN_TAGS], form.tag], "metadata": about, "said_by": said_by}
        for piece in _pieces(content):
            known = self.found.get(piece)
            if known is None:
                self.kinds[form, kind] += 1
            elif (known.fields["timestamp"] or self.now) >= (moment or self.now):
                continue
            all_fields = {**fields, "content": piece, "timestamp": moment}
            undated = min(written or self.now, self.now)
            self.found[piece] = interchange.Entry(kind, all_fields, undated)

    @property
    def tags(self) -> list[str]:
        """The tags of the forms, by which the import can be undone."""
        return sorted({form.tag for form, _ in self.kinds})

    def memories(
        self, storage: "MemoryStorage", tags: Sequence[str], pinned: str
    ) -> interchange.Read:
        """What was found, to be restored to `storage`, with `tags`; the kind `pinned` is pinned."""
        read = interchange.read_entries(self.found.values(), storage, tags)
        for kind, memory in read.memories:
            memory.pinned = kind == pinned
        self.left["texts that cannot be stored"] += len(read.faults)
        return read

    def moment(self, value: object) -> datetime | None:
        """The time in `value`, ISO 8601 or seconds since 1970; None if it is none, or to come."""
        from memory_semantic import times

        try:
            if isinstance(value, int | float):
                told = datetime.fromtimestamp(value, UTC)
            else:
                told = times.moment(value, UTC) if isinstance(value, str) else None
        except (ValueError, OverflowError, OSError):
            return None
        return told if told and told <= self.now else None


def dict_of(value: Any) -> dict[str, Any]:
    """`value` if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def dicts_of(value: Any) -> list[dict[str, Any]]:
    """The dicts in `value`, if that is a list."""
    return [each for each in list_of(value) if isinstance(each, dict)]


def _pieces(text: str) -> Iterator[str]:
    """The text, cut between lines or words if it is too long for one memory."""
    text, most = text.strip(), limits.MAX_CONTENT_CHARS
    while len(text) > most:
        cut = max(text.rfind(sign, 1, most) for sign in "\n ")
        cut = cut if cut > 0 else most
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
