"""An ONNX model run without fastembed, whose import takes a second, most of it for fetching models.
`fetch` compares both ways, and only a model with the same vectors is run like this.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# How a model's answer, a vector for each token, becomes the vector of the text.
POOLINGS = {
    "first": lambda tokens: tokens[0],
    "mean": lambda tokens: tokens.mean(axis=0),
    "last": lambda tokens: tokens[-1],
}
# More threads do not make a short text faster.
THREADS = min(4, os.cpu_count() or 1)


class DirectModel:
    """The model in `file` and the tokenizer beside it in `folder`. Loads them, and raises whatever
    damaged ones raise.
    """

    def __init__(self, folder: Path, file: str, pooling: str) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
        self._session = onnxruntime.InferenceSession(
            str(folder / file), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._pool = POOLINGS[pooling]
        config = json.loads((folder / "tokenizer_config.json").read_bytes())
        lengths = [config[name] for name in ("model_max_length", "max_length") if config.get(name)]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(min(lengths))
        self._tokenizer.no_padding()

    def embed(self, texts: Sequence[str], **_: Any) -> Iterator[np.ndarray]:
        """One vector for each text, of any length above 0."""
        for text in texts:
            tokens = np.array([self._tokenizer.encode(text).ids], np.int64)
            given = {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            }
            answer: Any = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            yield self._pool(answer[0]) if answer.ndim == 3 else answer[0]
