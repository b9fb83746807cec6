"""What was found in somebody else's files, and what was left out of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_semantic import limits

from .. import interchange

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage

# A memory has room for as many of its own tags; the others are left for `--tag` and the form.
_OWN_TAGS = limits.MAX_TAGS // 2


class Form(NamedTuple):
    """A form of files: its name for people, and the tag that its memories get."""

    name: str
    tag: str


@dataclass
class Haul:
    """What may become memories, by text, and how many things were left out, by what they are."""

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
        """Add a text of a `kind`, such as "note". It is of `when`, a time in any common form; if
        that is unknown or in the future, of when its file was `written`. What is `told` about it
        becomes its metadata. A text that is too long becomes several memories.
        """
        known, moment = list(tags), self.moment(when)
        own = [
            tag for tag in known if isinstance(tag, str) and 0 < len(tag) <= limits.MAX_TAG_CHARS
        ]
        self.left["tags that do not fit"] += len(known) - len(own[:_OWN_TAGS])
        about = {"stored_by": "agent-memory import", "kind": kind, **told}
        texts = {
            name: str(text)[: limits.MAX_METADATA_CHARS] for name, text in about.items() if text
        }
        fields: dict[str, Any] = {"tags": [*own[:_OWN_TAGS], form.tag], "metadata": texts}
        fields |= {"timestamp": moment} if moment else {}
        fields |= {"said_by": said_by} if said_by else {}
        for piece in _pieces(content.strip()):
            earlier = self.found.get(piece)
            if earlier is None:
                self.kinds[form, kind] += 1
            elif (earlier.fields.get("timestamp") or self.now) >= (moment or self.now):
                continue
            undated = min(written or self.now, self.now)
            self.found[piece] = interchange.Entry(kind, {**fields, "content": piece}, undated)

    @property
    def tags(self) -> list[str]:
        """The tags of the forms, by which the import can be undone."""
        return sorted({form.tag for form, _ in self.kinds})

    def memories(
        self, storage: "MemoryStorage", tags: Sequence[str], pinned: str
    ) -> interchange.Read:
        """What was found, to be restored to `storage`, with `tags`; those of the kind `pinned` are
        rules of the person.
        """
        read = interchange.read_entries(self.found.values(), storage, tags)
        for kind, memory in read.memories:
            memory.pinned = kind == pinned
        self.left["texts that cannot be stored"] += len(read.faults)
        return read

    def moment(self, value: object) -> datetime | None:
        """The time that `value` tells, as ISO 8601 or in seconds since 1970, unless it is to come."""
        from memory_semantic import moment

        try:
            if isinstance(value, int | float):
                told = datetime.fromtimestamp(value, UTC)
            else:
                told = moment(value, UTC) if isinstance(value, str) else None
        except (ValueError, OverflowError, OSError):
            return None
        return told if told and told <= self.now else None


def _pieces(text: str) -> Iterable[str]:
    """The text, cut between lines or words if it is too long for one memory."""
    while len(text) > limits.MAX_CONTENT_CHARS:
        most = limits.MAX_CONTENT_CHARS
        cut = max(text.rfind(sign, 1, most) for sign in ("\n", " "))
        cut = cut if cut > 0 else most
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
