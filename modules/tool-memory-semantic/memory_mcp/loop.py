"""MCP over standard input and output, one JSON object a line: the protocols 2024-11-05 to
2025-11-25, which begin with a handshake, and 2026-07-28, which has none.

What is offered is answered before anything that takes long is imported, because some clients wait
no more than a second. The rest is imported from the first answer on; calls wait for it.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

Fields = dict[str, Any]
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
# The error codes of JSON-RPC, and the one of MCP for a version that is not served.
PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED = -32022
MAX_LINE = 4_000_000  # bytes; what a call takes has 10,000 characters
_KEY = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES, _SERVER = (
    f"{_KEY}{name}" for name in ("protocolVersion", "clientCapabilities", "serverInfo")
)
# Lists do not change while a server runs.
_LASTING = {"ttlMs": 3_600_000, "cacheScope": "private"}


class Refused(Exception):
    """What is answered with a JSON-RPC error of this `code`."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})


class Asked(Exception):
    """A call is answered with a question, and comes again with what the client answered to it."""

    def __init__(self, name: str, request: Fields) -> None:
        self.result = {"resultType": "input_required", "inputRequests": {name: request}}


@dataclass
class Offered:
    """What a server is: its `name` and `version`, `instructions` for the model, the result of each
    method that `lists` something, and the `calls`, methods that take work.
    """

    name: str
    version: str
    instructions: str
    lists: dict[str, Fields]
    calls: tuple[str, ...]
    capabilities: Fields


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
        return _object(self.params.get("_meta"))


Answer = Callable[[Call], Fields]


class Loop:
    """Answers one client. `load` imports what answers the calls, and returns it."""

    def __init__(
        self, offered: Offered, load: Callable[[], Answer], lines: BinaryIO, out: BinaryIO
    ) -> None:
        self._offered, self._lines, self._out = offered, lines, out
        self._info = {"name": offered.name, "version": offered.version}
        self._can: Fields = {}
        self._modern: bool | None = None  # unknown before the first request
        self._writing, self._running = threading.Lock(), dict[str | int, threading.Thread]()
        self._cancelled, self._questions = set[object](), dict[object, Future[Fields | None]]()
        self._number, self._answer, self._ended = count(1), Future[Answer](), False
        self._importing = threading.Thread(target=self._import, args=(load,), daemon=True)

    def run(self) -> None:
        """Until the input ends; what has been called is answered before."""
        while line := self._lines.readline(MAX_LINE + 1):
            if line.strip():
                self._take(line)
        self._ended = True
        for question in list(self._questions.values()):
            question.set_result(None)
        for call in list(self._running.values()):
            call.join()

    def _take(self, line: bytes) -> None:
        key = None
        try:
            if len(line) > MAX_LINE:
                while not line.endswith(b"\n") and (line := self._lines.readline(MAX_LINE)):
                    pass
                raise Refused(REQUEST, f"The line has more than {MAX_LINE:,} bytes.")
            try:
                message = json.loads(line)  # it may hold half an emoji, which the tools refuse
            except (ValueError, RecursionError):
                raise Refused(PARSE, "The line is not JSON.") from None
            if not isinstance(message, dict):
                raise Refused(REQUEST, "A message is one JSON object.")
            given, method, params = (message.get(name) for name in ("id", "method", "params"))
            if isinstance(given, str | int) and not isinstance(given, bool):
                key = given
            if message.get("jsonrpc") != "2.0" or (key is None and "id" in message):
                raise Refused(REQUEST, "jsonrpc must be 2.0, and an id a text or a whole number.")
            if method is None and key in self._questions:
                self._questions.pop(key).set_result(message.get("result"))
            elif not isinstance(method, str) or not isinstance(params, dict | None):
                raise Refused(REQUEST, "method must be a text, and params an object.")
            elif key is not None:
                self._begin(key, method, params or {})
            elif method == "notifications/cancelled":  # what it stored stays; nobody reads of it
                self._cancelled.add((params or {}).get("requestId"))
        except Refused as refused:
            self._send({"id": key, "error": refused.error})

    def _begin(self, key: str | int, method: str, params: Fields) -> None:
        meta = _object(params.get("_meta"))
        if self._modern is None:
            self._modern = method != "initialize" and _VERSION in meta
        if self._modern:
            self._check(method, params, meta)
        if answered := self._known(method, params):
            self._send({"id": key, "result": self._whole(answered)})
        elif method in self._offered.calls:
            can = _object(meta.get(_CAPABILITIES)) if self._modern else self._can
            call = Call(method, params, can, self._ask)
            if self._modern:
                call.ask = lambda method, asked, _: _told(params, method, asked)
            self._running[key] = threading.Thread(target=self._work, args=(key, call), daemon=True)
            self._running[key].start()
        elif method != "ping":
            raise Refused(METHOD, f"There is no method {method!r:.80}.")
        else:
            self._send({"id": key, "result": {}})
        if not self._importing.ident:
            self._importing.start()

    def _known(self, method: str, params: Fields) -> Fields | None:
        """The answer that needs no work, if it is one."""
        about = {
            "capabilities": self._offered.capabilities,
            "instructions": self._offered.instructions,
        }
        if method == "initialize":
            self._can = _object(params.get("capabilities"))
            asked = params.get("protocolVersion")
            version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
            return {"protocolVersion": version, "serverInfo": self._info, **about}
        lasting = _LASTING if self._modern else {}
        if method == "server/discover" and self._modern:
            return {"supportedVersions": [MODERN], **about, **lasting}
        listed = self._offered.lists.get(method)
        return listed and {**listed, **lasting}

    def _check(self, method: str, params: Fields, meta: Fields) -> None:
        version = params.get("protocolVersion") if method == "initialize" else meta.get(_VERSION)
        if missing := [name for name in (_VERSION, _CAPABILITIES) if name not in meta]:
            raise Refused(PARAMS, f"params._meta lacks {' and '.join(missing)}.")
        if version != MODERN:
            why = f"This connection speaks {MODERN}, which has no handshake."
            raise Refused(UNSUPPORTED, why, supported=[MODERN], requested=version)

    def _whole(self, result: Fields) -> Fields:
        if not self._modern:
            return result
        return {"resultType": "complete", **result, "_meta": {_SERVER: self._info}}

    def _ask(self, method: str, params: Fields, seconds: float) -> Fields | None:
        key, question = f"ask-{next(self._number)}", Future[Fields | None]()
        self._questions[key] = question
        if self._ended:
            return None
        self._send({"id": key, "method": method, "params": params})
        with suppress(TimeoutError):
            return question.result(seconds)
        return None

    def _import(self, load: Callable[[], Answer]) -> None:
        try:
            self._answer.set_result(load())
        except BaseException as error:
            self._answer.set_exception(error)

    def _work(self, key: str | int, call: Call) -> None:
        try:
            told = {"result": self._whole(self._answer.result()(call))}
        except Asked as asked:
            told = {"result": self._whole(asked.result)}
        except Refused as refused:
            told = {"error": refused.error}
        except BaseException as error:  # its text may quote a memory
            told = {"error": Refused(INTERNAL, f"It failed ({type(error).__name__}).").error}
        if key not in self._cancelled:
            self._send({"id": key, **told})
        self._cancelled.discard(key)
        self._running.pop(key, None)

    def _send(self, message: Fields) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):  # the client is gone; what was acknowledged is on disk
                os._exit(1)


def _told(params: Fields, method: str, asked: Fields) -> Fields | None:
    """What the client has answered to this question. Raises Asked if it was not asked yet."""
    answers = _object(params.get("inputResponses"))
    if method not in answers:
        raise Asked(method, {"method": method, "params": asked})
    return answers[method]


def _object(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def serve(offered: Offered, load: Callable[[], Answer]) -> None:
    """Answer the client at the standard streams until it goes away. Whatever else is printed goes
    to the error stream.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Loop(offered, load, sys.stdin.buffer, out).run()
