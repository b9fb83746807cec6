"""Small models, made here, and a local HTTP server in place of the hub that has them."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
from local_server import LocalServer
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

ENGLISH, MULTILINGUAL = "snowflake/snowflake-arctic-embed-xs", "intfloat/multilingual-e5-small"
MODEL_FILE = "onnx/model.onnx"
_COMMIT = "c0ffee" * 6 + "c0ff"
_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def graph(dimensions: int = 384, seed: int = 0) -> bytes:
    """An ONNX model: a text's vector is the mean of its bytes' vectors, which are much alike."""
    source = np.random.default_rng(seed)
    table = source.standard_normal((len(_ALPHABET) + 1, dimensions)).astype(np.float32)
    table += 4 * source.standard_normal(dimensions).astype(np.float32)
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
        numpy_helper.from_array(np.array([2], np.int64), "two"),
        numpy_helper.from_array(np.array(0, np.float32), "zero"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "two"], ["weights"]),
        helper.make_node("Mul", ["vectors", "weights"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "one"], ["sum"]),
        helper.make_node("ReduceSum", ["weights", "one"], ["length"]),
        helper.make_node("Div", ["sum", "length"], ["mean"]),
        # The mean at every position, whichever one a library takes.
        helper.make_node("Mul", ["vectors", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "mean"], ["last_hidden_state"]),
    ]
    size = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, size)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, [*size, dimensions]
    )
    made = helper.make_graph(nodes, "small", inputs, [output], constants)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


def files(dimensions: int = 384, seed: int = 0) -> dict[str, bytes]:
    """All files of a small model, by their path in its repository."""
    vocabulary = {"<pad>": 0} | {char: place for place, char in enumerate(_ALPHABET, 1)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {
        MODEL_FILE: graph(dimensions, seed),
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": b'{"model_max_length": 512, "pad_token": "<pad>"}',
        "special_tokens_map.json": b'{"pad_token": "<pad>"}',
        "config.json": b'{"pad_token_id": 0}',
        "README.md": b"what nobody asked for",
    }


class ModelHub(LocalServer):
    """Has a small model under every name. The file `damaged` arrives with a wrong byte, and only
    half of the file `cut`; each file comes after `delay` seconds.
    """

    def __init__(self, dimensions: int = 384) -> None:
        self.files = files(dimensions)
        self.damaged = self.cut = ""
        self.delay = 0.0
        self.fetched: list[str] = []
        self.headers: list[dict[str, str]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_HEAD(self) -> None:
                self._answer(with_body=False)

            def do_GET(self) -> None:
                self._answer(with_body=True)

            def _answer(self, with_body: bool) -> None:
                hub.headers.append({name.lower(): value for name, value in self.headers.items()})
                path = self.path.split("?")[0]
                if path.startswith("/api/models/"):
                    self._send(json.dumps(hub.about(path)).encode(), {}, with_body)
                    return
                name = path.split(f"/resolve/{_COMMIT}/")[-1]
                body = hub.files.get(name)
                if body is None:
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound")
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                if with_body:
                    hub.fetched.append(name)
                    time.sleep(hub.delay)
                digest = sha256(body).hexdigest()
                headers = {"ETag": f'"{digest}"', "X-Repo-Commit": _COMMIT}
                if name == hub.damaged:
                    body = body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]
                self._send(body, headers, with_body, cut=name == hub.cut)

            def _send(
                self, body: bytes, headers: dict[str, str], with_body: bool, cut: bool = False
            ) -> None:
                self.send_response(200)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if with_body:
                    self.wfile.write(body[: len(body) // 2] if cut else body)
                self.close_connection = self.close_connection or cut

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(Handler)

    def about(self, path: str) -> Any:
        """What the hub says about a repository, or about its files."""
        repository, _, asked = path.removeprefix("/api/models/").partition("/tree/")
        each = [(name, body, sha256(body).hexdigest()) for name, body in self.files.items()]
        if asked:
            return [
                {"type": "file", "path": name, "size": len(body), "oid": digest}
                | _large(name, body, {"oid": digest})
                for name, body, digest in each
            ]
        repository = repository.partition("/revision/")[0]
        siblings = [
            {"rfilename": name, "size": len(body), "blobId": digest}
            | _large(name, body, {"sha256": digest})
            for name, body, digest in each
        ]
        return {"id": repository, "modelId": repository, "sha": _COMMIT, "siblings": siblings}

    def start_fetch(self, model: str, folder: Path) -> subprocess.Popen[str]:
        """A process that fetches the model from here into `folder` and prints what it got."""
        script = (
            "import sys; from memory_semantic.embeddings.fetch import fetch; "
            "from memory_semantic import AgentMemoryError\n"
            "try: print(fetch(sys.argv[1]).version)\n"
            "except AgentMemoryError as error: sys.exit(str(error))"
        )
        environment = {**os.environ, "HF_ENDPOINT": self.url, "FASTEMBED_CACHE_PATH": str(folder)}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", script, model]
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def fetch(self, model: str, folder: Path) -> tuple[str, str]:
        """What the process got, and its stderr."""
        got, said = self.start_fetch(model, folder).communicate(timeout=50)
        return got.strip(), said.strip()


def _large(name: str, body: bytes, digest: dict[str, str]) -> dict[str, Any]:
    if not name.endswith(".onnx"):
        return {}
    return {"lfs": {**digest, "size": len(body), "pointerSize": 100}}


def notes(number: int) -> Iterable[str]:
    """Different texts of several lengths."""
    source = random.Random(7)
    words = ["disk", "table", "invoice", "budget", "tea", "deploy", "Lisbon", "printer", "token"]
    for each in range(number):
        yield f"{each}: {' '.join(source.choices(words, k=source.randint(4, 40)))}"
