"""A local HTTP server in place of Qdrant, whose answers can be made to go wrong.

They come from qdrant-client's local mode, or from a real server, which is empty before and after
each test: the one that AGENT_MEMORY_TEST_QDRANT_URL names, with the key
AGENT_MEMORY_TEST_QDRANT_API_KEY. It is never the one on which the developer's own memories are.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from local_server import Answer, LocalServer
from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.common.client_warnings import SEEN_MESSAGES

KEY = "qd-very-secret"
COLLECTION = "agent-memory.sam"
WRITE = f"POST /collections/{COLLECTION}/points/batch"

REAL_URL, REAL_KEY = (
    os.environ.get(name, "").strip()
    for name in ("AGENT_MEMORY_TEST_QDRANT_URL", "AGENT_MEMORY_TEST_QDRANT_API_KEY")
)

# Local mode warns once a process of what it does not do, and to pytest a warning is an error.
SEEN_MESSAGES.update({"local_query_points_search_params_ignored", "large-local-collection"})


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def error(status: int, words: str) -> Answer:
    """An error as Qdrant gives it."""
    headers = {"retry-after": "1"} if status == 429 else {}
    return status, headers, json.dumps({"status": {"error": words}, "time": 0.0}).encode()


def refusal(problem: Exception) -> Answer:
    """What the server answers when local mode raises `problem`."""
    words = str(problem)
    if isinstance(problem, ValidationError):
        return error(400, f"Format error in JSON body: {words}")
    if isinstance(problem, KeyError):
        return error(404, f"Not found: No point with id {problem.args[0]} found")
    if not isinstance(problem, ValueError):
        return error(500, f"Service internal error: {problem!r}")
    if found := re.fullmatch("Collection (.*) not found", words):
        return error(404, f"Not found: Collection `{found[1]}` doesn't exist!")
    if found := re.fullmatch("Collection (.*) already exists", words):
        return error(409, f"Wrong input: Collection `{found[1]}` already exists!")
    return error(400, f"Wrong input: {words.removeprefix('Wrong input: ')}")


class LocalMode:
    """Answers requests from memory. `client` has the same data."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self._indexes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._lock = Lock()

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        """The answer to a request."""
        try:
            with self._lock:
                result = self._result(method, path, body)
                said = adapter(Any).dump_json(result, by_alias=True, exclude_none=True)
        except Exception as problem:
            return refusal(problem)
        return 200, {}, b'{"result":%b,"status":"ok","time":0.0}' % said

    def close(self) -> None:
        self.client.close()

    def _result(self, method: str, path: str, body: bytes) -> Any:
        """Local mode's result, and the indexes, of which it keeps none."""
        local = self.client
        name, _, what = unquote(path).removeprefix("/collections").strip("/").partition("/")
        if method == "POST" and what.startswith(("points/scroll", "points/count", "points/query")):
            for field in re.findall(r'"key": ?"([^"]+)"', body.decode()):
                if field not in self._indexes[name]:  # in strict mode, as on Qdrant Cloud
                    raise ValueError(f"Index required but not found for `{field}`")

        def asked(kind: Any) -> Any:
            return adapter(kind).validate_json(body)

        match f"{method} {what}":
            case "GET ":
                if not name:
                    return local.get_collections()
                info = local.get_collection(name).model_dump(mode="json", exclude_none=True)
                return info | {"payload_schema": self._indexes[name]}
            case "PUT ":
                new = asked(m.CreateCollection)
                return local.create_collection(
                    name, new.vectors, new.sparse_vectors, metadata=new.metadata
                )
            case "PUT index":
                new = asked(m.CreateFieldIndex)
                self._indexes[name][new.field_name] = {"data_type": new.field_schema, "points": 0}
                return m.UpdateResult(operation_id=0, status=m.UpdateStatus.COMPLETED)
            case "POST points":
                some = asked(m.PointRequest)
                return local.retrieve(name, some.ids, with_vectors=some.with_vector or False)
            case "POST points/scroll":
                return self._scroll(name, asked(m.ScrollRequest))
            case "POST points/count":
                return local.count(name, asked(m.CountRequest).filter)
            case "POST points/batch":
                return local.batch_update_points(name, asked(m.UpdateOperations).operations)
            case "POST points/query/batch":
                return local.query_batch_points(name, asked(m.QueryRequestBatch).searches)
        raise NotImplementedError(f"The stand-in for Qdrant does not serve {method} {path}")

    def _scroll(self, name: str, asked: m.ScrollRequest) -> dict[str, Any]:
        order: Any = asked.order_by
        if order and self._indexes[name].get(order.key, {}).get("data_type") != "datetime":
            raise ValueError(f"No range index for `order_by` key: `{order.key}`.")
        records, offset = self.client.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            order_by=order,
            offset=asked.offset,
            with_vectors=asked.with_vector or False,
        )
        return {"points": records, "next_page_offset": offset}


class RealServer:
    """Passes requests on. `client` is a way to the same data."""

    def __init__(self) -> None:
        headers = {"api-key": REAL_KEY} if REAL_KEY else {}
        self._http = httpx.Client(base_url=REAL_URL, headers=headers, timeout=60)
        self.client = QdrantClient(
            url=REAL_URL, headers=headers, timeout=60, check_compatibility=False
        )
        there = self.client.get_collections().collections
        assert not there, f"{REAL_URL} has collections. Give the tests a server of their own."

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        """The server's answer to a request."""
        answer = self._http.request(
            method,
            f"{path}?{query}" if query else path,
            content=body,
            headers={"content-type": "application/json"},
        )
        headers = {k: v for k, v in answer.headers.items() if k in ("retry-after", "location")}
        return answer.status_code, headers, answer.content

    def close(self) -> None:
        """Delete everything, all of which was created since."""
        for collection in self.client.get_collections().collections:
            self.client.delete_collection(collection.name)
        self._http.close()
        self.client.close()


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
        self._data = RealServer() if REAL_URL else LocalMode()
        self.client = self._data.client
        self.api_key = ""
        self.version = "1.20.0"
        self.requests: list[tuple[str, str]] = []
        self.created: dict[str, dict[str, Any]] = {}
        self.rules: list[Rule] = []
        self._broken: list[Exception] = []  # what the hooks of rules raised
        self._rules_lock = Lock()
        super().__init__()

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
