"""A local HTTP server in place of Qdrant, whose answers can be made to go wrong.

They come from qdrant-client's local mode, or from a real server where one is given: `qdrant_real`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

from local_server import Answer, LocalServer
from qdrant_local import LocalMode, error
from qdrant_real import URL, RealServer

KEY = "qd-very-secret"
COLLECTION = "agent-memory.sam"
WRITE = f"POST /collections/{COLLECTION}/points/batch"
WORDS = {429: "Rate limiting exceeded: injected", 503: "Shard temporarily unavailable: injected"}


@dataclass
class Rule:
    """What happens to the next `times` requests with `only` in their "METHOD /path": `before`,
    which may use the server itself; then the `answer`, in place of the work or `after` it, so that
    only the acknowledgement is lost.
    """

    times: int = 1
    only: str = ""
    before: Callable[[], object] = bool
    answer: Answer | None = None
    after: bool = False


class QdrantServer(LocalServer):
    """Answers as Qdrant does, except where one of the `rules` says not.

    `requests` holds (method, path without query) of all that came, `created` the body that created
    each collection, `client` the data. With `api_key` set, requests need it. A request takes the
    first rule that fits it, and no other.
    """

    def __init__(self) -> None:
        self._data = RealServer() if URL else LocalMode()
        self.client = self._data.client
        self.api_key = ""
        self.version = "1.20.0"
        self.requests: list[tuple[str, str]] = []
        self.created: dict[str, dict[str, Any]] = {}
        self.rules: list[Rule] = []
        self._broken: list[Exception] = []  # what the hooks of rules raised
        self._rules_lock = Lock()
        super().__init__()

    def fail(
        self, status: int = 503, times: int = 1, only: str = "", after: bool = False, text: str = ""
    ) -> None:
        """Answer with an error, even `after` doing the work."""
        answer = error(status, text or WORDS.get(status, "Service internal error: injected"))
        self.rules.append(Rule(times, only, answer=answer, after=after))

    def between(self, hook: Callable[[], object], only: str = "", later: int = 0) -> None:
        """Call `hook` once, just before the next such request, or so many `later`."""
        self.rules += [Rule(later, only)] * bool(later) + [Rule(1, only, hook)]

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._data.close()
        for problem in self._broken:
            raise problem

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        url, key = urlsplit(target), headers.get("api-key", "")
        self.requests.append((method, url.path))
        if self.api_key and url.path != "/" and key != self.api_key:
            missing = "Must provide an API key or an Authorization bearer token"
            words = "Invalid API key or JWT" if key else missing
            return 401, {"content-type": "text/plain"}, words.encode()
        rule = self._rule(f"{method} {url.path}")
        try:
            rule.before()
        except Exception as problem:
            self._broken.append(problem)
        if rule.answer and not rule.after:
            return rule.answer
        if url.path == "/":
            about = {"title": "qdrant - vector search engine", "version": self.version}
            answer = 200, {}, json.dumps(about).encode()
        else:
            answer = self._data.answer(method, url.path, url.query, body)
        if answer[0] == 200 and method == "PUT" and url.path.count("/") == 2:
            self.created[unquote(url.path.rpartition("/")[2])] = json.loads(body)
        return rule.answer or answer

    def _rule(self, line: str) -> Rule:
        with self._rules_lock:
            for rule in self.rules:
                if rule.only in line:
                    rule.times -= 1
                    if rule.times < 1:
                        self.rules.remove(rule)
                    return rule
        return Rule()
