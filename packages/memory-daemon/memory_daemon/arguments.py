"""What the five tools are given, and its limits."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Self

from memory_semantic import read_arguments
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from .database import Access, Channel, Database

MAX_TEXT = 1_000_000  # characters of one event; masking them takes most of a second
MAX_DECISION = 4_000  # characters, so that several fit into a small bundle
EARLIEST_YEAR = 1970  # no clock or log says less

Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029]*$")]
# Without what PostgreSQL cannot hold; half a character, which JSON can, is refused.
_Words = Annotated[str, AfterValidator(lambda text: text.replace("\0", "\ufffd").encode().decode())]
Name = Annotated[Line, Field(min_length=1, max_length=128)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
Tag = Annotated[Line, Field(min_length=1, max_length=50)]
Ref = Annotated[Line, Field(min_length=1, max_length=300)]
Tags = Annotated[list[Tag], Field(max_length=20)]
Reasons = Annotated[list[Annotated[_Words, Field(max_length=1_000)]], Field(max_length=10)]
Session = Annotated[Name, Field(description="the conversation; the same in all its calls")]
Query = Annotated[_Words, Field(max_length=10_000)]
Kind = Literal["message", "tool_call", "tool_result", "decision", "task_update", "artifact"]
Scope = Literal["project", "user", "global"]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return read_arguments(_schema(cls), given) if isinstance(given, Mapping) else given


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


class Decision(_Arguments):
    """Why it was decided."""

    scope: Scope = Field(default="project", description="user: your rule; global: a rule for all")
    rationale: Reasons = []
    constraints: Reasons = []
    alternatives: Reasons = []
    consequences: Reasons = []
    supersedes: Id | None = Field(default=None, description="event_id of what it replaces")


class Task(_Arguments):
    """Where a task stands."""

    task_id: Id
    status: Literal["open", "doing", "done"] = "open"
    title: Line = Field(default="", max_length=200)


class Event(_Arguments):
    """Something that happened."""

    kind: Kind = "message"
    text: Annotated[_Words, Field(min_length=1, max_length=MAX_TEXT)]
    ts: datetime | None = Field(default=None, description="when it happened; default: now")
    actor_type: Literal["human", "agent", "tool"] = "agent"
    actor_id: Name | None = Field(default=None, description="who of several people, or which tool")
    channel: Channel | None = Field(default=None, description="who may see it; default: team")
    sensitivity: Literal["none", "low", "high", "secret"] | None = None
    tags: Tags = []
    refs: list[Ref] = Field(default=[], max_length=50, description="files, event ids, links")
    name: Line = Field(default="", max_length=300, description="a file's name; it is kept whole")
    importance: float | None = Field(
        default=None, ge=0, le=1, description="can only be less than usual"
    )
    event_id: Id | None = Field(default=None, description="your own: sent twice, recorded once")
    decision: Decision | None = None
    task: Task | None = None

    @field_validator("ts")
    @classmethod
    def _past(cls, given: datetime | None) -> datetime | None:
        if given is None:
            return None
        moment = given.replace(tzinfo=UTC) if given.tzinfo is None else given
        if moment.year < EARLIEST_YEAR:
            raise ValueError(f"it is before {EARLIEST_YEAR}")
        return min(moment, datetime.now(UTC))  # a clock that is fast loses nothing

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.text.strip():
            raise ValueError("text is empty")
        if (self.kind == "task_update") != bool(self.task):
            raise ValueError("kind task_update needs `task`, and `task` needs kind task_update")
        if self.kind == "decision":
            self.decision = self.decision or Decision()
        elif self.decision:
            raise ValueError("`decision` needs kind decision")
        if self.decision and len(self.text) > MAX_DECISION:
            raise ValueError(f"a decision has at most {MAX_DECISION:,} characters")
        return self


class Call(NamedTuple):
    """What a tool works with, and for whom."""

    database: Database
    access: Access


class Asked(_Arguments):
    """The arguments of every tool. A tool is a subclass: its docstring is its description, its
    fields are its arguments, and `answer` is what it does."""

    tenant_id: Name | None = Field(default=None, description="not needed: your token says it")
    agent_id: Name | None = Field(default=None, description="not needed: your token says it")
    channel: Channel | None = Field(
        default=None, description="recorded: who may see it; asked: only what that channel sees"
    )

    async def answer(self, call: Call) -> str:
        """The text of the answer. Raises Refused."""
        raise NotImplementedError
