"""Small models, made here, and a local HTTP server in place of the hub that has them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from local_server import Answer, LocalServer
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

BGE, MULTILINGUAL = "BAAI/bge-small-en-v1.5", "intfloat/multilingual-e5-small"
# The file of each: what fastembed calls the first has another name at the hub.
FILE_OF = {BGE: "model_optimized.onnx", MULTILINGUAL: "onnx/model.onnx"}
_COMMIT = "c0ffee" * 6 + "c0ff"
_ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def graph() -> bytes:
    """An ONNX model: at each place the sum of all bytes' vectors, which are much alike."""
    source = np.random.default_rng(0)
    table = source.standard_normal((len(_ALPHABET) + 1, 384)).astype(np.float32)
    table += 4 * source.standard_normal(384).astype(np.float32)
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array(0, np.float32), "zero"),
        numpy_helper.from_array(np.array([1]), "one"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["vectors"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "one"], ["row"]),
        helper.make_node("MatMul", ["row", "vectors"], ["sum"]),
        helper.make_node("Mul", ["vectors", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "sum"], ["last_hidden_state"]),
    ]
    size = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, size)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*size, 384])
    made = helper.make_graph(nodes, "small", inputs, [output], constants)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


def files() -> dict[str, bytes]:
    """All files of a small model, by their path in its repository."""
    vocabulary = {"<pad>": 0} | {char: place for place, char in enumerate(_ALPHABET, 1)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return {
        **dict.fromkeys(FILE_OF.values(), graph()),
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": b'{"model_max_length": 512, "pad_token": "<pad>"}',
        "special_tokens_map.json": b'{"pad_token": "<pad>"}',
        "config.json": b'{"pad_token_id": 0}',
        "README.md": b"what nobody asked for",
    }


class ModelHub(LocalServer):
    """Has a small model under every name. Of the file `cut`, only half arrives, and then nothing
    until `go_on` is set.
    """

    def __init__(self) -> None:
        self.files = files()
        self.cut, self.go_on = "", Event()
        self.fetched: list[str] = []
        self.headers: list[dict[str, str]] = []
        super().__init__()

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        self.headers.append(headers)
        name = target.split("?")[0].split(f"/resolve/{_COMMIT}/")[-1]
        content = self.files.get(name) or json.dumps(self.about("/tree/" in name)).encode()
        told = {"ETag": f'"{sha256(content).hexdigest()}"', "X-Repo-Commit": _COMMIT}
        if name in self.files and method == "GET":
            self.fetched.append(name)
        if method == "GET" and self.cut and target.endswith(self.cut):
            return 200, {**told, "content-length": str(len(content))}, self._half(content)
        return 200, told, content

    def _half(self, content: bytes) -> Iterator[bytes]:
        yield content[: len(content) // 2]
        self.go_on.wait(20)

    def about(self, tree: bool) -> Any:
        """What the hub says about a repository, or about its files."""
        each = [(name, len(body), sha256(body).hexdigest()) for name, body in self.files.items()]
        listed = [
            {"type": "file", "path": name, "size": size, "oid": digest}
            for name, size, digest in each
        ]
        return listed if tree else {"id": "of any name", "sha": _COMMIT}

    def fetch(self, model: str, folder: Path, *, any_hash: bool = True) -> tuple[str, str]:
        """The version of the model that a process fetched from here into `folder`, and stderr.
        Unless `any_hash` will do, the files must be those that the makers published.
        """
        script = (
            "import sys; from memory_models import catalogue, fetch, version\n"
            "from memory_semantic import EmbeddingError\n"
            f"if {any_hash}: catalogue.SHA256.clear()\n"
            "try: print(fetch(sys.argv[1]) or version(sys.argv[1]))\n"
            "except EmbeddingError as error: sys.exit(str(error))"
        )
        environment = {**os.environ, "HF_ENDPOINT": self.url, "FASTEMBED_CACHE_PATH": str(folder)}
        command = [sys.executable, "-c", script, model]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50)
        return done.stdout.strip(), done.stderr.strip()
