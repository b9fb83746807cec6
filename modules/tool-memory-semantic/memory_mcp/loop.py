"""MCP over standard input and output, one JSON object a line: the protocols 2024-11-05 to
2025-11-25, which begin with a handshake, and 2026-07-28, which has none.

What a server is and lists is answered before anything that takes long is imported, because some
clients wait no more than a second. The rest is imported from the first answer on; calls wait for
it.
"""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, BinaryIO, Protocol

Fields = dict[str, Any]
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
# The methods that take work.
CALLS = ("tools/call", "prompts/get")
# Calls at once, of which some may wait for a person; more wait their turn.
MAX_CALLS = 32
# The error codes of JSON-RPC, and the one of MCP for a version that is not served.
PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED = -32022
_KEY = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES, _SERVER = (
    f"{_KEY}{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)
# Lists do not change while a server runs.
_LASTING = {"ttlMs": 3_600_000, "cacheScope": "private"}


class RpcError(Exception):
    """What is answered with a JSON-RPC error of this `code`."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})


class InputRequired(Exception):
    """A call is answered with a question, and comes again with what the client answered."""

    def __init__(self, method: str, params: Fields) -> None:
        asked = {method: {"method": method, "params": params}}
        self.result = {"resultType": "input_required", "inputRequests": asked}


@dataclass
class Call:
    """A call by the client: its `method` and `params`, what the client `can`, and how to `ask` it
    something, by a method, its params, and how many seconds it may take: returns its result, or
    None without one.
    """

    method: str
    params: Fields
    can: Fields
    ask: Callable[[str, Fields, float], Fields | None]

    @property
    def meta(self) -> Fields:
        """What the client says about the call itself."""
        return fields(self.params.get("_meta"))

    @property
    def arguments(self) -> Fields:
        """What the tool or the prompt is given."""
        return fields(self.params.get("arguments"))


class Server(Protocol):
    """What a client is connected with: what it says `about` itself, its name and version, which are
    its `info`, and the result of each method that `lists` something.
    """

    about: Fields
    info: Fields
    lists: dict[str, Fields]

    def load(self) -> Callable[[Call], Fields]:
        """Import what answers the calls, and return it. It may raise RpcError or InputRequired."""
        ...


class Loop:
    """Answers one client."""

    def __init__(self, server: Server, lines: BinaryIO, out: BinaryIO) -> None:
        self._server, self._lines, self._out = server, lines, out
        self._can: Fields = {}  # what the client said when it shook hands
        self._writing, self._number, self._ended = Lock(), count(1), False
        self._questions = dict[object, Future[Fields | None]]()
        self._threads = ThreadPoolExecutor(MAX_CALLS)
        self._answer: Future[Callable[[Call], Fields]] | None = None  # once it is imported

    def run(self) -> None:
        """Until the input ends; what has been called is answered before."""
        with self._threads:
            for line in self._lines:
                if line.strip():
                    self._take(line)
            self._ended = True
            for question in list(self._questions.values()):
                question.set_result(None)

    def _take(self, line: bytes) -> None:
        key = None
        try:
            try:
                message = json.loads(line)  # it may hold half an emoji, which the tools refuse
            except (ValueError, RecursionError):
                raise RpcError(PARSE, "The line is not JSON.") from None
            if not isinstance(message, dict):
                raise RpcError(REQUEST, "A message is one JSON object.")
            given, method, params = (message.get(name) for name in ("id", "method", "params"))
            if isinstance(given, str | int) and not isinstance(given, bool):
                key = given
            if method is None and message.keys() & {"result", "error"}:
                if question := self._questions.pop(key, None):
                    question.set_result(fields(message.get("result")) or None)
            elif message.get("jsonrpc") != "2.0" or (key is None and "id" in message):
                raise RpcError(REQUEST, "jsonrpc must be 2.0, and an id a text or a whole number.")
            elif not isinstance(method, str) or not isinstance(params, dict | None):
                raise RpcError(REQUEST, "method must be a text, and params an object.")
            elif key is not None:  # else it notes something: nothing is cancelled once it began
                self._begin(key, method, params or {})
        except RpcError as refused:
            self._send({"id": key, "error": refused.error})
        except Exception as error:  # such as too few threads
            refused = RpcError(INTERNAL, f"It failed ({type(error).__name__}).")
            self._send({"id": key, "error": refused.error})

    def _begin(self, key: str | int, method: str, params: Fields) -> None:
        modern = _speaks_modern(method, params)
        whole = self._whole if modern else dict
        if method not in CALLS:
            self._send({"id": key, "result": whole(self._known(method, params, modern))})
        if self._answer is None or (self._answer.done() and self._answer.exception()):
            self._answer = self._threads.submit(self._server.load)
        if method in CALLS:
            call = Call(method, params, self._can, self._ask)
            if modern:
                call.can = fields(call.meta.get(_CAPABILITIES))
                call.ask = lambda method, asked, _: _answered(params, method, asked)
            self._threads.submit(self._work, key, call, self._answer, whole)

    def _known(self, method: str, params: Fields, modern: bool) -> Fields:
        """The answer that needs no work."""
        lasting = _LASTING if modern else {}
        if method in self._server.lists:
            return {**self._server.lists[method], **lasting}
        if method == "initialize":
            self._can = fields(params.get("capabilities"))
            asked = params.get("protocolVersion")
            version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
            return {
                "protocolVersion": version,
                "serverInfo": self._server.info,
                **self._server.about,
            }
        if method == "server/discover" and modern:
            return {"supportedVersions": [MODERN], **self._server.about, **lasting}
        if method == "ping":
            return {}
        raise RpcError(METHOD, f"There is no method {method!r:.80}.")

    def _whole(self, result: Fields) -> Fields:
        return {"resultType": "complete", **result, "_meta": {_SERVER: self._server.info}}

    def _ask(self, method: str, params: Fields, seconds: float) -> Fields | None:
        key, question = f"ask-{next(self._number)}", Future[Fields | None]()
        self._questions[key] = question
        if self._ended:
            return None
        self._send({"id": key, "method": method, "params": params})
        with suppress(TimeoutError):
            return question.result(seconds)
        return None

    def _work(
        self,
        key: str | int,
        call: Call,
        answer: Future[Callable[[Call], Fields]],
        whole: Callable[[Fields], Fields],
    ) -> None:
        try:
            told = {"result": whole(answer.result()(call))}
        except InputRequired as asked:
            told = {"result": whole(asked.result)}
        except RpcError as refused:
            told = {"error": refused.error}
        except BaseException as error:  # its text may quote a memory
            told = {"error": RpcError(INTERNAL, f"It failed ({type(error).__name__}).").error}
        self._send({"id": key, **told})

    def _send(self, message: Fields) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):  # the client is gone; what was acknowledged is on disk
                os._exit(1)


def _speaks_modern(method: str, params: Fields) -> bool:
    """Whether a request is of the protocol without a handshake, where each says its version.
    Raises RpcError if it says another, or not what its client can.
    """
    meta = fields(params.get("_meta"))
    if method == "initialize" or _VERSION not in meta:
        return False
    if meta[_VERSION] != MODERN:
        why = f"Without a handshake, this server speaks {MODERN}."
        raise RpcError(UNSUPPORTED, why, supported=[MODERN], requested=meta[_VERSION])
    if _CAPABILITIES not in meta:
        raise RpcError(PARAMS, f"params._meta lacks {_CAPABILITIES}.")
    return True


def _answered(params: Fields, method: str, asked: Fields) -> Fields | None:
    """What the client has answered to this question. Raises InputRequired if it was not asked."""
    answers = fields(params.get("inputResponses"))
    if method not in answers:
        raise InputRequired(method, asked)
    return fields(answers[method]) or None


def fields(value: object) -> Fields:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def serve(server: Server) -> None:
    """Answer the client at the standard streams until it goes away. Whatever else is printed goes
    to the error stream.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Loop(server, sys.stdin.buffer, out).run()
