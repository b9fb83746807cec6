"""What a Qdrant server answers, by qdrant-client's local mode: its REST API without HTTP."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any
from urllib.parse import unquote

from local_server import Answer
from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.common.client_warnings import SEEN_MESSAGES

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
        self.client = local = QdrantClient(":memory:")
        self._indexes: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._lock = Lock()
        one = "/collections/*"
        # For each route what its body is, and what makes the result of a collection's name and it.
        self._routes: dict[str, tuple[Any, Callable[[str, Any], Any]]] = {
            "GET /collections": (None, lambda name, _: local.get_collections()),
            f"GET {one}": (None, self._info),
            f"PUT {one}": (m.CreateCollection, self._create),
            f"PUT {one}/index": (m.CreateFieldIndex, self._index),
            f"POST {one}/points": (m.PointRequest, self._retrieve),
            f"POST {one}/points/scroll": (m.ScrollRequest, self._scroll),
            f"POST {one}/points/count": (
                m.CountRequest,
                lambda name, asked: local.count(name, asked.filter),
            ),
            f"POST {one}/points/batch": (
                m.UpdateOperations,
                lambda name, asked: local.batch_update_points(name, asked.operations),
            ),
            f"POST {one}/points/query/batch": (
                m.QueryRequestBatch,
                lambda name, asked: local.query_batch_points(name, asked.searches),
            ),
        }

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        """The answer to a request."""
        try:
            return self._work(method, path, body)
        except Exception as problem:
            return refusal(problem)

    def close(self) -> None:
        self.client.close()

    def _work(self, method: str, path: str, body: bytes) -> Answer:
        name = ""
        if path.startswith("/collections/"):
            parts = path.split("/")
            name, parts[2] = unquote(parts[2]), "*"
            path = "/".join(parts)
        if f"{method} {path}" not in self._routes:
            return error(501, f"The stand-in for Qdrant does not serve {method} {path}")
        kind, work = self._routes[f"{method} {path}"]
        asked = adapter(kind).validate_json(body) if kind else None
        with self._lock:
            result = work(name, asked)
            said = adapter(Any).dump_json(result, by_alias=True, exclude_none=True)
        return 200, {}, b'{"result":%b,"status":"ok","time":0.0}' % said

    def _info(self, name: str, _: None) -> dict[str, Any]:
        """What local mode reports, and the indexes, of which it keeps none."""
        info = self.client.get_collection(name).model_dump(mode="json", exclude_none=True)
        return info | {"payload_schema": self._indexes[name]}

    def _create(self, name: str, asked: m.CreateCollection) -> bool:
        return self.client.create_collection(
            name, asked.vectors, asked.sparse_vectors, metadata=asked.metadata
        )

    def _index(self, name: str, asked: m.CreateFieldIndex) -> m.UpdateResult:
        self._indexes[name][asked.field_name] = {"data_type": asked.field_schema, "points": 0}
        return m.UpdateResult(operation_id=0, status=m.UpdateStatus.COMPLETED)

    def _retrieve(self, name: str, asked: m.PointRequest) -> list[m.Record]:
        return self.client.retrieve(name, asked.ids, with_vectors=asked.with_vector or False)

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
