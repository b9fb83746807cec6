# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-module-tool-memory-semantic[fastembed]",
#     "onnx>=1.19,<2",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""What a model on this machine costs: `uv run benchmarks/models_here.py [NAME ...]`, two minutes.

With names, it measures models that were fetched; without, models built layer by layer like the two
recommended ones, with random weights and vocabularies of the same size, because time and memory do
not depend on the weights. What a model finds does; `recall.py --model` measures that.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx as files_of_onnx
from memory_models import fetching, real_name, running
from memory_models.catalogue import ENGLISH, MULTILINGUAL
from memory_semantic import EmbeddingGenerator
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

BUILT_IN = "local"
# Layers, and entries of the vocabulary; both have 384 dimensions, 12 heads and 512 places.
SHAPES = {ENGLISH: (6, 30_522), MULTILINGUAL: (12, 250_037)}
WIDTH, HEADS, INNER, PLACES = 384, 12, 1_536, 512
# Tokens of what is embedded: a question, a memory of 150 characters, one of all that is read.
TOKENS = {"question": 12, "memory": 40, "longest": 510}
REPEATS, MANY, RUNS = 20, 200, 3
_FILE = "onnx/model.onnx"


class _Graph:
    """An ONNX graph that is being written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._random = np.random.default_rng(0)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self._random.standard_normal(shape, np.float32) * 0.05)

    def linear(self, value: str, outputs: int, inputs: int = WIDTH) -> str:
        product = self.node("MatMul", value, self.weights(inputs, outputs))
        return self.node("Add", product, self.weights(outputs))

    def normal(self, value: str) -> str:
        scale, bias = self.constant(np.ones(WIDTH)), self.constant(np.zeros(WIDTH))
        return self.node("LayerNormalization", value, scale, bias, epsilon=1e-12)


def bert(layers: int, vocabulary: int) -> bytes:
    """An ONNX file of this shape, as those of the recommended models are built."""
    graph = _Graph()
    token = graph.node("Gather", graph.weights(vocabulary, WIDTH), "input_ids")
    length = graph.node("Shape", "input_ids", start=1, end=2)
    zero, axis = graph.constant([0], np.int64), graph.constant([0], np.int64)
    place = graph.node("Slice", graph.weights(PLACES, WIDTH), zero, length, axis)
    value = graph.normal(graph.node("Add", token, place))
    mask = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = graph.node("Unsqueeze", mask, graph.constant([1, 2], np.int64))
    mask = graph.node("Sub", graph.constant(1.0), mask)
    mask = graph.node("Mul", mask, graph.constant(-10_000.0))
    split = graph.constant([0, 0, HEADS, WIDTH // HEADS], np.int64)
    whole = graph.constant([0, 0, WIDTH], np.int64)
    scale = graph.constant((WIDTH / HEADS) ** 0.5)
    for _ in range(layers):
        query, key, content = (
            graph.node(
                "Transpose",
                graph.node("Reshape", graph.linear(value, WIDTH), split),
                perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3],
            )
            for part in ("query", "key", "content")
        )
        scores = graph.node("Div", graph.node("MatMul", query, key), scale)
        shares = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, content), perm=[0, 2, 1, 3])
        mixed = graph.linear(graph.node("Reshape", mixed, whole), WIDTH)
        value = graph.normal(graph.node("Add", mixed, value))
        inner = graph.linear(value, INNER)
        half = graph.node("Mul", inner, graph.constant(0.5))
        error = graph.node("Erf", graph.node("Div", inner, graph.constant(2**0.5)))
        inner = graph.node("Mul", half, graph.node("Add", error, graph.constant(1.0)))
        value = graph.normal(graph.node("Add", graph.linear(inner, WIDTH, INNER), value))
    size = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, size)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, [*size, WIDTH])
    made = helper.make_graph(graph.nodes, "bert", inputs, [output], graph.constants)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


def build(model: str) -> None:
    """Put a model of the same shape where the real one would be."""
    layers, vocabulary = SHAPES[model]
    described = fetching._all()[model]
    repository = described["sources"]["hf"].replace("/", "--")
    folder = running.models_folder() / f"models--{repository}" / "snapshots" / "random"
    (folder / _FILE).parent.mkdir(parents=True)
    (folder / _FILE).write_bytes(bert(layers, vocabulary))
    pieces = [("<pad>", 0.0), ("<unk>", -10.0), *((f"▁w{n}", -8.0) for n in range(vocabulary - 2))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))
    limits = {"model_max_length": PLACES, "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(limits))
    record = running.record_of(model)
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps(fetching._tried(model, described, folder)._asdict()))


def text(tokens: int, number: int) -> str:
    """A text of `tokens` tokens."""
    words = np.random.default_rng(number).integers(0, 30_000, tokens)
    return " ".join(f"w{word}" for word in words)


def first(model: str) -> dict[str, float]:
    """Seconds to the first vector of a new process, Python's own start included, and the MB that it
    takes more by then than when it had only imported the package.
    """
    script = f"""
import asyncio
from memory_semantic import EmbeddingGenerator
generator = EmbeddingGenerator({model!r})
def resident(): return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) / 1000
before = resident()
asyncio.run(generator.generate({text(TOKENS["question"], 0)!r}))
print(resident() - before)
"""
    started = time.perf_counter()
    loaded = float(subprocess.check_output([sys.executable, "-c", script], text=True))
    return {"cold": time.perf_counter() - started, "loaded": loaded}


def measure(model: str) -> dict[str, float]:
    """Milliseconds of a text in a process that has loaded the model, and MB with long ones."""
    before = resident()
    generator = EmbeddingGenerator(model)
    asyncio.run(generator.generate(text(TOKENS["question"], 0)))
    found: dict[str, float] = {}
    for kind, tokens in TOKENS.items():
        taken = []
        for number in range(REPEATS):
            begun = time.perf_counter()
            asyncio.run(generator.generate(text(tokens, number)))
            taken.append((time.perf_counter() - begun) * 1000)
        found[kind] = min(taken)  # what else the machine does is not the model's
    begun = time.perf_counter()
    asyncio.run(generator.generate_batch([text(TOKENS["memory"], n) for n in range(MANY)]))
    found["many"] = (time.perf_counter() - begun) / MANY * 1000
    found["peak"] = resident("VmHWM") - before
    return found


def resident(what: str = "VmRSS") -> float:
    """MB of memory that this process has, on Linux."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) / 1000


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if not names:
            os.environ["FASTEMBED_CACHE_PATH"] = folder
            names = [BUILT_IN, ENGLISH, MULTILINGUAL]
            for name in names[1:]:
                build(name)
        print(
            "| model | files, MB | first vector, s | a question, ms | a memory, ms | one of many "
            "| the longest | memory, MB | with long texts |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name in names:
            command = [sys.executable, __file__, "--alone", name]
            runs = [
                first(name) | json.loads(subprocess.check_output(command, text=True))
                for _ in range(RUNS)
            ]
            found = {kind: min(run[kind] for run in runs) for kind in runs[0]}
            known = None if name == BUILT_IN else running.known(real_name(name))
            size = f"{sum(known.files.values()) / 1e6:.0f}" if known else "-"
            kinds = ("question", "memory", "many", "longest")
            times = " | ".join(f"{found[kind]:.1f}" for kind in kinds)
            print(
                f"| {name} | {size} | {found['cold']:.1f} | {times} "
                f"| {found['loaded']:.0f} | {found['peak']:.0f} |"
            )
    print(
        f"\n{files_of_onnx.__name__} {files_of_onnx.__version__}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
