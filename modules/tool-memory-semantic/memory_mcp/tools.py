"""`memory_store` as a client of MCP sees it: the person is asked about a rule, where the client can
ask, and what only the user may do, the answers name as a command where no quote can vouch for it.
"""

from typing import TYPE_CHECKING, Any

from memory_hooks.display import quoted
from memory_semantic.check import clean_text
from memory_semantic.masking import mask
from memory_semantic.tools import MemoryStoreTool, read_arguments

from .loop import Call, Fields

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage, Stored

    from .host import Host

# How long a person may take to answer, in seconds.
PIN_SECONDS = 300
_PIN = "Make this a rule for every session{where}? {what}"
_WHERE = {False: " in this project", True: ", in every project"}


class StoreTool(MemoryStoreTool):
    """The tool in the session `host`, where the user has `agreed` to a rule, or not; None if nobody
    was asked. Commands name the memory by the options `named`.
    """

    def __init__(self, host: "Host", config: Fields, agreed: bool | None, named: str) -> None:
        super().__init__(host, config)
        self._host, self._agreed, self._named = host, agreed, named

    async def _run(self, storage: "MemoryStorage", *arguments: Any) -> tuple[Fields, int]:
        *others, pin, everywhere = arguments
        pin = pin if self._agreed is not False else None
        output, masked = await super()._run(storage, *others, pin, everywhere)
        if self._agreed is False:
            output["status"] += ". Not pinned: the user did not agree"
        return output, masked

    async def _said_by(self, content: Any, quote: Any) -> tuple[Any, str]:
        said_by, words = await super()._said_by(content, quote)
        return "user" if self._agreed else said_by, words

    def remarks(self, stored: "Stored", said_by: Any, pin: bool, invented: bool) -> str:
        """The same; where no quote can count, the commands of what only the user may do."""
        if said_by == "user" or self._host.words:
            return super().remarks(stored, said_by, pin, invented)
        said = ""
        if stored.refused:
            command = f'agent-memory store "TEXT" --replaces {stored.refused}{self._named}'
            said += f". {stored.refused} still holds, as the user said it. To correct it: {command}"
        if pin:
            command = f"agent-memory pin {stored.id}{self._named}"
            said += f". Not pinned. If it is a rule for every conversation, the user can: {command}"
        return said


def agrees(call: Call, arguments: Fields) -> bool | None:
    """Whether the person agrees that what a call stores is a rule; None if it is to be none, or
    nobody can be asked. Raises InputError for what cannot be stored.
    """
    given = read_arguments(MemoryStoreTool.input_schema, arguments)
    if given.get("pin") is not True or "elicitation" not in call.can:
        return None
    what = quoted(mask(clean_text(given.get("content"), "content"))[0])
    message = _PIN.format(where=_WHERE[given.get("everywhere") is True], what=what)
    form = {"type": "object", "properties": {}}
    asked = {"mode": "form", "message": message, "requestedSchema": form}
    answer = call.ask("elicitation/create", asked, PIN_SECONDS)
    return None if answer is None else answer.get("action") == "accept"
