"""The parts of the five tools' arguments, and their limits."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Self

from memory_semantic import read_arguments
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from .access import Access, Channel
from .database import Database
from .meaning import Meaning

MAX_TEXT = 10_000_000  # characters
CLOCKS_APART = timedelta(minutes=1)  # how far in the future a sender's clock may be
EARLIEST_YEAR = 1970  # no clock or log says less, and what is far less cannot be read back
MAX_DECISION = 4_000  # characters, so that several fit into a small bundle

_ONE_LINE = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029]*$"  # for what appears in headings
_Words = Annotated[str, AfterValidator(lambda text: text.replace("\0", "\ufffd"))]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=_ONE_LINE)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
Tag = Annotated[str, Field(min_length=1, max_length=50, pattern=_ONE_LINE)]
Ref = Annotated[str, Field(min_length=1, max_length=300, pattern=_ONE_LINE)]
Reasons = Annotated[list[Annotated[_Words, Field(max_length=1_000)]], Field(max_length=10)]
Kind = Literal["message", "tool_call", "tool_result", "decision", "task_update", "artifact"]
Scope = Literal["project", "user", "global"]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Query = Annotated[_Words, Field(max_length=10_000)]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return read_arguments(_schema(cls), given) if isinstance(given, Mapping) else given


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


class Decision(_Arguments):
    """Why it was decided."""

    scope: Scope = "project"
    rationale: Reasons = []
    constraints: Reasons = []
    alternatives: Reasons = []
    consequences: Reasons = []
    supersedes: Id | None = Field(None, description="event_id of the decision this one replaces")


class Task(_Arguments):
    """Where a task stands."""

    task_id: Id
    status: Literal["open", "doing", "done"] = "open"
    title: Annotated[str, Field(max_length=200, pattern=_ONE_LINE)] = ""


def _decoded(given: Any) -> bytes:
    try:
        return base64.b64decode(given, validate=True)
    except (TypeError, ValueError):
        raise ValueError("it is not base64") from None


class Artifact(_Arguments):
    """A file: its name and type, and its bytes if they are no text."""

    name: Annotated[str, Field(max_length=300, pattern=_ONE_LINE)] = ""
    type: Annotated[str, Field(max_length=100, pattern=_ONE_LINE)] = ""
    data: Annotated[bytes, BeforeValidator(_decoded)] | None = Field(
        None, description="base64; needs sensitivity high or secret, as it is not masked"
    )


class Event(_Arguments):
    """Something that happened."""

    kind: Kind
    text: Text = ""
    content: str | dict[str, Any] | list[Any] | None = Field(
        None, description="instead of text: an object is searched by its texts, and kept whole"
    )
    ts: datetime | None = Field(None, description="when it happened; default: now")
    actor_type: Literal["human", "agent", "tool"] = "agent"
    actor_id: Name | None = Field(None, description="who of several people, or which tool")
    channel: Channel | None = Field(
        None,
        description="who may see it: public, team, agent, or private (only you). Default: team; a "
        "decision that supersedes, or a task's update, takes its predecessor's",
    )
    artifact: Artifact | None = None
    sensitivity: Literal["none", "low", "high", "secret"] = "none"
    tags: list[Tag] = Field([], max_length=20)
    refs: list[Ref] = Field([], max_length=50, description="files, event ids, links")
    importance: float | None = Field(None, ge=0, le=1)
    event_id: Id | None = Field(None, description="an id of your own: sent twice, recorded once")
    decision: Decision | None = None
    task: Task | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self._check()
        return self

    @field_validator("ts")
    @classmethod
    def _past(cls, given: datetime | None) -> datetime | None:
        if given is None:
            return None
        moment = given.replace(tzinfo=UTC) if given.tzinfo is None else given
        now = datetime.now(UTC)
        if moment > now + CLOCKS_APART:
            raise ValueError("it is in the future")
        if moment.year < EARLIEST_YEAR:
            raise ValueError(f"it is before {EARLIEST_YEAR}")
        return min(moment, now)

    def _check(self) -> None:
        if isinstance(self.content, str):
            self.text, self.content = self.text or self.content, None
        if not self.content and not self.text.strip():
            raise ValueError("text is empty")
        if self.content is not None and self.text:
            raise ValueError("give text or content, not both")
        secret = self.sensitivity in ("high", "secret")
        if self.artifact and self.artifact.data is not None:
            if not secret:
                raise ValueError("an artifact's data needs sensitivity high or secret")
            if self.content is not None or len(self.text) > MAX_DECISION:
                raise ValueError(f"beside data, give a text of at most {MAX_DECISION:,} characters")
        if (self.kind == "task_update") != bool(self.task):
            raise ValueError("kind task_update needs `task`, and `task` needs kind task_update")
        if self.kind != "decision" and self.decision:
            raise ValueError("`decision` needs kind decision")
        if self.kind == "decision" and len(self.text) > MAX_DECISION:
            raise ValueError(f"a decision has at most {MAX_DECISION:,} characters")


class Call(NamedTuple):
    """What a tool works with, and for whom."""

    database: Database
    access: Access
    meaning: Meaning | None = None  # without it, everything is found by words


class Asked(_Arguments):
    """The arguments of every tool. A tool is a subclass: its docstring is its description, its
    fields are its arguments, and `answer` is what it does."""

    agent_id: Name = Field("agent", description="which agent you are, unless your token says it")
    tenant_id: Name | None = Field(None, description="not needed: the token says it")
    channel: Channel | None = Field(None, description="see what this channel sees; default: all")

    async def answer(self, call: Call) -> str:
        """The text of the answer. Raises Refused."""
        raise NotImplementedError
