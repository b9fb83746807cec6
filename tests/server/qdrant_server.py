"""A local HTTP server in place of Qdrant: its REST API, over qdrant-client's local mode."""

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.common.client_warnings import SEEN_MESSAGES

Answer = tuple[int, dict[str, str], bytes]
DROP: Answer = (0, {}, b"")
WORDS = {429: "Rate limiting exceeded: injected", 503: "Shard temporarily unavailable: injected"}
PARAMS = ("shard_number", "replication_factor", "write_consistency_factor")  # 1 unless asked for
# Local mode warns once a process of what it does not do, and to pytest a warning is an error.
SEEN_MESSAGES.update({"local_query_points_search_params_ignored", "large-local-collection"})


class Refused(Exception):
    """The status and the message with which the real server refuses."""


@dataclass
class Rule:
    """What happens to the next `times` requests with `only` in their "METHOD /path"."""

    times: int = 1
    only: str = ""
    method: str = ""
    before: Callable[[], object] = bool
    answer: Answer | None = None
    after: bool = False


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
    if isinstance(problem, Refused):
        return error(*problem.args)
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


class QdrantServer:
    """Answers as Qdrant does, except where a rule (`fail`, `drop`, `slow`, `between`) says not.

    `requests` holds (method, path without query) of all that came, `created` the body that created
    each collection, `rules` what is still to go wrong, `client` the data. With `api_key` set,
    requests need it. A request takes the first rule that fits it, and no other.
    """

    def __init__(self) -> None:
        self.client = local = QdrantClient(":memory:")
        self.api_key = ""
        self.version = "1.20.0"
        self.requests: list[tuple[str, str]] = []
        self.created: dict[str, dict[str, Any]] = {}
        self.rules: list[Rule] = []
        self._broken: list[Exception] = []  # what the hooks of rules raised
        self._indexes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._client_lock, self._rules_lock = Lock(), Lock()
        self._http: Listener | None = None
        self._port = 0
        one = "/collections/*"
        # For each route what its body is, and what makes the result of a collection's name and it.
        self._routes: dict[str, tuple[Any, Callable[[str, Any], Any]]] = {
            "GET /aliases": (None, lambda name, _: local.get_aliases()),
            "GET /collections": (None, lambda name, _: local.get_collections()),
            "POST /collections/aliases": (m.ChangeAliasesOperation, self._change_aliases),
            f"GET {one}": (None, self._info),
            f"GET {one}/exists": (None, lambda name, _: {"exists": local.collection_exists(name)}),
            f"GET {one}/aliases": (None, lambda name, _: local.get_collection_aliases(name)),
            f"PUT {one}": (m.CreateCollection, self._create),
            f"PATCH {one}": (m.UpdateCollection, self._update),
            f"DELETE {one}": (None, self._delete),
            f"PUT {one}/index": (m.CreateFieldIndex, self._index),
            f"PUT {one}/points": (m.PointInsertOperations, self._upsert),
            f"POST {one}/points": (m.PointRequest, self._retrieve),
            f"POST {one}/points/scroll": (m.ScrollRequest, self._scroll),
            f"POST {one}/points/count": (m.CountRequest, self._count),
            f"POST {one}/points/delete": (m.PointsSelector, local.delete),
            f"POST {one}/points/query/batch": (m.QueryRequestBatch, self._query_batch),
        }

    @property
    def url(self) -> str:
        """Where it listens; the same after `stop` and `start`."""
        return f"http://127.0.0.1:{self._port}"

    def fail(
        self, status: int = 503, times: int = 1, only: str = "", after: bool = False, text: str = ""
    ) -> None:
        """Answer with an error; `after` doing the work, so that its acknowledgement is lost."""
        answer = error(status, text or WORDS.get(status, "Service internal error: injected"))
        self.rules.append(Rule(times, only, answer=answer, after=after))

    def drop(self, times: int = 1, only: str = "", after: bool = False) -> None:
        """Close the connection without an answer, in place of the work or `after` it."""
        self.rules.append(Rule(times, only, answer=DROP, after=after))

    def slow(self, seconds: float, times: int = 1, only: str = "") -> None:
        """Wait, then do the work, even if the client has given up by then."""
        self.rules.append(Rule(times, only, before=partial(time.sleep, seconds)))

    def between(self, hook: Callable[[], object], only: str = "", method: str = "") -> None:
        """Call `hook` once, just before the next request's work; it may use this server itself."""
        self.rules.append(Rule(1, only, method, hook))

    def clear(self) -> None:
        """Forget the requests seen so far; the rules stay."""
        self.requests.clear()

    def start(self) -> None:
        """Listen; again, after `stop`, on the same port and with the same data."""
        self._http = Listener(("127.0.0.1", self._port), Handler)
        self._http.owner = self
        self._port = self._http.server_port
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections; what came on those still open and is not worked on yet is dropped."""
        http, self._http = self._http, None
        if http is not None:
            http.shutdown()
            http.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for problem in self._broken:
            raise problem

    def respond(self, http: object, method: str, target: str, key: str, body: bytes) -> Answer:
        """The answer to a request that came to `http`."""
        url = urlsplit(target)
        if http is not self._http:
            return DROP
        self.requests.append((method, url.path))
        if self.api_key and url.path != "/" and key != self.api_key:
            missing = "Must provide an API key or an Authorization bearer token"
            words = "Invalid API key or JWT" if key else missing
            return 401, {"content-type": "text/plain"}, words.encode()
        rule = self._rule(method, f"{method} {url.path}")
        try:
            rule.before()
        except Exception as problem:
            self._broken.append(problem)
        if http is not self._http:
            return DROP
        if rule.answer and not rule.after:
            return rule.answer
        try:
            answer = self._work(method, url.path, "wait=true" in url.query, body)
        except Exception as problem:
            answer = refusal(problem)
        return rule.answer or answer

    def _rule(self, method: str, line: str) -> Rule:
        with self._rules_lock:
            for rule in self.rules:
                if rule.only in line and rule.method in ("", method):
                    rule.times -= 1
                    if rule.times < 1:
                        self.rules.remove(rule)
                    return rule
        return Rule()

    def _work(self, method: str, path: str, wait: bool, body: bytes) -> Answer:
        if path == "/":
            about = {"title": "qdrant - vector search engine", "version": self.version}
            return 200, {}, json.dumps(about).encode()
        name = ""
        if path.startswith("/collections/") and path != "/collections/aliases":
            parts = path.split("/")
            name, parts[2] = unquote(parts[2]), "*"
            path = "/".join(parts)
        if f"{method} {path}" not in self._routes:
            raise Refused(501, f"The stand-in for Qdrant does not serve {method} {path}")
        kind, work = self._routes[f"{method} {path}"]
        asked = adapter(kind).validate_json(body) if kind else None
        with self._client_lock:
            result = work(name, asked)
            if isinstance(result, m.UpdateResult) and not wait:
                result.status = m.UpdateStatus.ACKNOWLEDGED
            said = adapter(Any).dump_json(result, by_alias=True, exclude_none=True)
        return 200, {}, b'{"result":%b,"status":"ok","time":0.0}' % said

    def _real(self, name: str) -> str:
        """The collection with that name or alias."""
        self.client.get_collection(name)
        aliases = {one.alias_name: one.collection_name for one in self.client.get_aliases().aliases}
        return aliases.get(name, name)

    def _info(self, name: str, _: None) -> dict[str, Any]:
        """What local mode reports, and what it does not keep about the creation and the indexes."""
        info = self.client.get_collection(name).model_dump(mode="json", exclude_none=True)
        asked, config = self.created.get(self._real(name), {}), info["config"]
        config["params"] |= {key: asked.get(key, 1) for key in PARAMS}
        config["hnsw_config"] |= asked.get("hnsw_config", {})
        config["optimizer_config"] |= asked.get("optimizers_config", {})
        config["quantization_config"] = asked.get("quantization_config")
        return info | {"payload_schema": self._indexes[self._real(name)]}

    def _create(self, name: str, asked: m.CreateCollection) -> bool:
        self.client.create_collection(
            name, asked.vectors, asked.sparse_vectors, metadata=asked.metadata
        )
        self.created[name] = asked.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return True

    def _change_aliases(self, _: str, asked: m.ChangeAliasesOperation) -> bool:
        return self.client.update_collection_aliases(asked.actions)

    def _update(self, name: str, asked: m.UpdateCollection) -> bool:
        self.client.update_collection(name, metadata=asked.metadata)
        return True

    def _delete(self, name: str, _: None) -> bool:
        self._indexes.pop(name, None)
        return self.client.delete_collection(name)

    def _index(self, name: str, asked: m.CreateFieldIndex) -> m.UpdateResult:
        schema = asked.model_dump(mode="json", exclude_none=True)["field_schema"]
        index = {"params": schema} if isinstance(schema, dict) else {}
        index |= {"data_type": schema["type"] if index else schema, "points": 0}
        self._indexes[self._real(name)][asked.field_name] = index
        return m.UpdateResult(operation_id=0, status=m.UpdateStatus.COMPLETED)

    def _upsert(self, name: str, asked: m.PointsBatch | m.PointsList) -> m.UpdateResult:
        points = asked.batch if isinstance(asked, m.PointsBatch) else asked.points
        how = {"update_filter": asked.update_filter, "update_mode": asked.update_mode}
        return self.client.upsert(name, points, **how)

    def _retrieve(self, name: str, asked: m.PointRequest) -> list[m.Record]:
        payload = asked.with_payload is None or asked.with_payload
        return self.client.retrieve(name, asked.ids, payload, asked.with_vector or False)

    def _scroll(self, name: str, asked: m.ScrollRequest) -> dict[str, Any]:
        order = asked.order_by
        if order:
            key = order if isinstance(order, str) else order.key
            index = self._indexes[self._real(name)].get(key, {})
            if index.get("data_type") not in ("integer", "float", "datetime"):
                raise Refused(400, f"Bad request: No range index for `order_by` key: `{key}`.")
        payload = asked.with_payload is None or asked.with_payload
        records, offset = self.client.scroll(
            name,
            scroll_filter=asked.filter,
            limit=10 if asked.limit is None else asked.limit,
            order_by=order,
            offset=asked.offset,
            with_payload=payload,
            with_vectors=asked.with_vector or False,
        )
        return {"points": records, "next_page_offset": offset}

    def _count(self, name: str, asked: m.CountRequest) -> m.CountResult:
        return self.client.count(name, asked.filter)

    def _query_batch(self, name: str, asked: m.QueryRequestBatch) -> object:
        return self.client.query_batch_points(name, asked.searches)


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # the client opens a connection for each request
    owner: QdrantServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a client that gave up waiting
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def answer(self) -> None:
        assert isinstance(self.server, Listener)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        key = self.headers.get("api-key", "")
        answer = self.server.owner.respond(self.server, self.command, self.path, key, body)
        if answer is DROP:
            self.close_connection = True
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        pass
