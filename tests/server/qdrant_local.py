"""What a Qdrant server answers, by qdrant-client's local mode: its REST API without HTTP."""

import json
import re
from collections import defaultdict
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
