"""`memory_store` over MCP: it asks the user before it pins, if the client can ask. Where no quote
can count, its answer names the command.
"""

from typing import TYPE_CHECKING, Any

from memory_semantic import one_line
from memory_semantic.check import clean_text
from memory_semantic.errors import InputError
from memory_semantic.masking import mask
from memory_semantic.tools import MemoryStoreTool, read_arguments

from .loop import Call, Fields, fields

if TYPE_CHECKING:
    from memory_semantic import Stored

    from .host import Host

# How long the user may take to answer, in seconds.
PIN_SECONDS = 300
# The longest text about which the user is asked, as it is asked whole.
MAX_RULE_CHARS = 600
_PIN = 'Make this a rule for every session{where}? "{what}"'
_WHERE = {False: " in this project", True: ", in every project"}
# A form without a field, Codex accepts by itself where its user has allowed everything.
_FORM = {
    "type": "object",
    "properties": {"rule": {"type": "boolean", "title": "Make it a rule", "default": True}},
    "required": ["rule"],
}


class StoreTool(MemoryStoreTool):
    """The tool in the session `host`, where the user may have `agreed` to a rule. Commands name the
    memory by the options `named`.
    """

    def __init__(self, host: "Host", config: Fields, agreed: bool, named: str) -> None:
        super().__init__(host, config)
        self._host, self._agreed, self._named = host, agreed, named

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
            said += f". Not pinned by this. If it is a rule, the user can pin it: {command}"
        return said


def agrees(call: Call) -> bool | None:
    """Whether the user agrees that what a call stores is a rule; None if it is to be none, or the
    user cannot be asked. Nor is the user asked about what is to replace another memory, which a
    quote decides. Raises InputError for what cannot be stored, or if nobody answers.
    """
    given = read_arguments(MemoryStoreTool.input_schema, call.arguments)
    if given.get("pin") is not True or given.get("replaces") or "elicitation" not in call.can:
        return None
    what = one_line(mask(clean_text(given.get("content"), "content"))[0])
    if len(what) > MAX_RULE_CHARS:
        return None
    message = _PIN.format(where=_WHERE[given.get("everywhere") is True], what=what)
    asked = {"mode": "form", "message": message, "requestedSchema": _FORM}
    answer = call.ask("elicitation/create", asked, PIN_SECONDS)
    if answer is None:
        raise InputError("The user did not answer whether this is a rule. Nothing was stored.")
    is_rule = fields(answer.get("content")).get("rule") is True
    return answer.get("action") == "accept" and is_rule
