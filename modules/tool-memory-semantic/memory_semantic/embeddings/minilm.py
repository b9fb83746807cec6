"""all-MiniLM-L6-v2: what a text means, in 384 numbers, computed with numpy.

The weights are the maker's, with 8 bits for each (`all-MiniLM-L6-v2/NOTICE`). The 12 MB of the
words stay as they are, mapped; those of the layers become float32 once a process: 43 MB.

In each of six layers, every token takes in what bears on it from the others (attention) and is then
transformed by itself. The vector of a text is the mean of its tokens (Reimers and Gurevych 2019,
arXiv 1908.10084).
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from .weights import loading, mapped, tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]

VERSION, DIMENSIONS = "all-MiniLM-L6-v2 int8", 384
# The model reads so many tokens of a text, about 1,000 characters of English (its card), and texts
# of as many together are computed at once. With more at once, a token takes as long.
TOKENS = 256
FOLDER = Path(__file__).with_name("all-MiniLM-L6-v2")
_LAYERS, _HEADS = 6, 12
# Threads of Python for the parts of many texts. BLAS's own wait for each other on a processor each,
# which on a busy machine takes ten times as long.
_THREADS = min(4, os.cpu_count() or 1)


class _Linear(NamedTuple):
    weight: "Numbers"
    bias: "Numbers"

    def __call__(self, x: "Numbers") -> "Numbers":
        return x @ self.weight.T + self.bias


class _Norm(NamedTuple):
    weight: "Numbers"
    bias: "Numbers"

    def __call__(self, x: "Numbers") -> "Numbers":
        x = x - x.mean(-1, keepdims=True)
        x /= ((x * x).mean(-1, keepdims=True) + 1e-12) ** 0.5
        return x * self.weight + self.bias


class _Layer(NamedTuple):
    attention: _Linear  # to query, key and value, one after another
    attended: _Linear
    attended_norm: _Norm
    wide: _Linear
    narrow: _Linear
    norm: _Norm


class _Model(NamedTuple):
    encode: Any  # a text's tokens
    words: "NDArray[np.int8]"
    scales: "Numbers"  # of each word
    places: "Numbers"
    norm: _Norm
    layers: list[_Layer]
    blas: Any  # sets how many threads it uses


def embed(texts: Sequence[str]) -> list["Numbers"]:
    """One vector of 384 numbers, not normalised, for each text: 7 ms for a short question, 10 for
    two sentences, 90 for 256 tokens or more. Raises EmbeddingError if `load` does.
    """
    model = load()
    parts: list[list[list[int]]] = []
    for tokens in [model.encode(text).ids for text in texts]:
        if not parts or sum(map(len, parts[-1])) + len(tokens) > TOKENS:
            parts.append([])
        parts[-1].append(tokens)
    with _turn, model.blas.limit(limits=1), ThreadPoolExecutor(_THREADS) as threads:
        done = [*threads.map(partial(_vectors, model), parts)]
    return [vector for vectors in done for vector in vectors]


def _vectors(model: _Model, texts: Sequence[Sequence[int]]) -> list["Numbers"]:
    # The texts go through the linear layers as one; no token looks at those of another text.
    import numpy as np

    tokens = np.array([token for text in texts for token in text])
    places = np.concatenate([np.arange(len(text)) for text in texts])
    ends = np.cumsum([len(text) for text in texts]).tolist()
    spans = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    x = model.norm(model.words[tokens] * model.scales[tokens, None] + model.places[places])
    for layer in model.layers:
        each = layer.attention(x).reshape(len(x), 3, _HEADS, -1).transpose(1, 2, 0, 3)
        attended = np.concatenate([_attend(*each[:, :, span]) for span in spans])
        x = layer.attended_norm(x + layer.attended(attended))
        x = layer.norm(x + layer.narrow(_gelu(layer.wide(x))))
    return [x[span].mean(axis=0) for span in spans]


def _attend(query: "Numbers", key: "Numbers", value: "Numbers") -> "Numbers":
    """Each token's mean of all values, by how well its query fits their keys, head by head."""
    import numpy as np

    fit = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    fit = np.exp(fit - fit.max(-1, keepdims=True))
    fit /= fit.sum(-1, keepdims=True)
    return (fit @ value).transpose(1, 0, 2).reshape(query.shape[1], -1)


def _gelu(x: "Numbers") -> "Numbers":
    # By tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415): three times as fast as the exact form,
    # and a cosine differs by 2e-6.
    import numpy as np

    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def load() -> _Model:
    """The model, loaded once a process, in 40 ms. Raises EmbeddingError if there is no memory for
    it, or its files are missing or damaged.
    """
    with _turn:
        return _loaded()


@cache
def _loaded() -> _Model:
    with loading("amplifier-module-tool-memory-semantic"):
        import numpy as np
        from threadpoolctl import ThreadpoolController

        array = mapped(FOLDER / "model.safetensors")

        def linear(*names: str) -> _Linear:  # of several, one that does the work of all
            weights = [array[f"{n}.weight"] * array[f"{n}.weight.scale"][:, None] for n in names]
            biases = [array[f"{n}.bias"] for n in names]
            return _Linear(np.concatenate(weights), np.concatenate(biases))

        def norm(name: str) -> _Norm:
            return _Norm(array[f"{name}.weight"], array[f"{name}.bias"])

        def layer(number: int) -> _Layer:
            own = f"encoder.layer.{number}"
            asked = (f"{own}.attention.self.{each}" for each in ("query", "key", "value"))
            return _Layer(
                attention=linear(*asked),
                attended=linear(f"{own}.attention.output.dense"),
                attended_norm=norm(f"{own}.attention.output.LayerNorm"),
                wide=linear(f"{own}.intermediate.dense"),
                narrow=linear(f"{own}.output.dense"),
                norm=norm(f"{own}.output.LayerNorm"),
            )

        words = tokenizer(FOLDER / "tokenizer.json")
        words.no_padding()
        words.enable_truncation(TOKENS)
        kind, place = (
            array[f"embeddings.{n}_embeddings.weight"] for n in ("token_type", "position")
        )
        return _Model(
            encode=words.encode,
            words=array["embeddings.word_embeddings.weight"],
            scales=array["embeddings.word_embeddings.weight.scale"],
            places=place[:TOKENS].astype("f4") + kind[0].astype("f4"),
            norm=norm("embeddings.LayerNorm"),
            layers=[layer(number) for number in range(_LAYERS)],
            blas=ThreadpoolController().select(user_api="blas"),
        )


# One call at a time: together they would take as long and more memory. The number of BLAS's threads
# is that of the whole process, and 1 only while we compute: no other call must take that for the
# host's, and a fork waits.
_turn = Lock()
os.register_at_fork(
    before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release
)
