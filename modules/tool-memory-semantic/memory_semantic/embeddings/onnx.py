"""Models that run on this machine through `fastembed`: finding, loading and running fetched ones.

Nothing here uses the network: a model is loaded from the files that `fetch` left in the folder. If
they are missing or damaged, the error names the command that fetches them.
"""

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

from ..errors import UNCHANGED, EmbeddingError
from ..resources import explanation, require_memory, shortage
from .catalogue import MULTILINGUAL

PACKAGE = "fastembed>=0.9,<0.10"
# The variable that tells fastembed where its models are, and where they are if it is not set.
_FOLDER_VARIABLE = "FASTEMBED_CACHE_PATH"
_FOLDER = "~/.amplifier/models"
# In that folder, our own records of the models, beside the library's files.
_RECORDS = "agent-memory"

# What the runtime takes besides the model's files, and its threads for each processor.
_RUNTIME_BYTES = 256 * 1024 * 1024
_PROCESSOR_BYTES = 16 * 1024 * 1024


class Fetched(NamedTuple):
    """A model whose files are on this machine, whole when they were fetched.

    `version` stands for all that its vectors depend on: a hash of its files, its prefixes and the
    sample. `files` maps paths below `folder` to sizes in bytes, the model's own file first;
    `folder` is relative to `models_folder()`. `pooling` is how the model is run directly, empty if
    that is not possible. `centre` is the mean of the sample's vectors.
    """

    model: str
    version: str
    dimensions: int
    folder: str
    files: dict[str, int]
    pooling: str
    centre: list[float]

    @property
    def path(self) -> Path:
        """The folder with its files."""
        return models_folder() / self.folder


def models_folder() -> Path:
    """Where the models are: FASTEMBED_CACHE_PATH, or by default `~/.amplifier/models`."""
    return Path(os.environ.get(_FOLDER_VARIABLE, "").strip() or _FOLDER).expanduser().absolute()


def record_of(model: str) -> Path:
    """The record of a fetched model; it exists once all of the model's files are whole."""
    return models_folder() / _RECORDS / f"{model.replace('/', '--')}.json"


def installed() -> bool:
    """Whether the package that runs these models is installed, without importing it."""
    return find_spec("fastembed") is not None


def known(model: str) -> Fetched | None:
    """The model with this real name, if it was fetched; its files are not checked."""
    try:
        return Fetched(**json.loads(record_of(model).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise EmbeddingError(_damaged(model)) from None


def fetched(model: str) -> Fetched:
    """The fetched model with this real name. Raises EmbeddingError, which says what to do, if it
    was not fetched, or if a file is missing or has another size.
    """
    found = known(model)
    if found is None:
        raise EmbeddingError(
            f"The embedding model {model!r} has not been fetched to this machine. {UNCHANGED} "
            f"{_remedy(model)} If a service has it, set base_url."
        )
    for name, size in found.files.items():
        file = found.path / name
        if not file.is_file() or file.stat().st_size != size:
            raise EmbeddingError(_damaged(model))
    return found


def embed(model: str, texts: Sequence[str], cancelled: Event) -> list[list[float]]:
    """One vector for each text, not normalised, in the order of the texts. Blocks; loads the model
    at the process's first call. Raises EmbeddingError if `fetched` does, if the model cannot be
    loaded, or if `cancelled` is set.
    """
    found = fetched(model)
    vectors = []
    for text in texts:
        # Only one thread at a time: together they would take as long, and far more memory.
        with _turn:
            if cancelled.is_set():
                raise EmbeddingError(f"The embedding was cancelled. {UNCHANGED}")
            [vector] = run(_loaded(found), [text])
        if len(vector) != len(found.centre):
            raise EmbeddingError(_damaged(model))
        vectors.append([x - y for x, y in zip(vector, found.centre, strict=True)])
    return vectors


def load(model: str, folder: Path, files: Mapping[str, int], pooling: str) -> Any:
    """The model from `files` (with their sizes) in `folder`, without the network: run directly, or
    through fastembed if `pooling` is empty. Raises EmbeddingError if the package is missing, there
    is too little memory, or the files are damaged.
    """
    require_installed(model)
    try:
        # Without enough memory, the runtime ends the process.
        threads = (os.cpu_count() or 1) * _PROCESSOR_BYTES
        require_memory(sum(files.values()) + _RUNTIME_BYTES + threads)
        if pooling:
            from .direct import DirectModel

            return DirectModel(folder, next(iter(files)), pooling)
        from .direct import THREADS

        return library().TextEmbedding(
            model,
            cache_dir=str(models_folder()),
            specific_model_path=str(folder),
            local_files_only=True,
            providers=["CPUExecutionProvider"],
            threads=THREADS,
            enable_cpu_mem_arena=False,
        )
    except Exception as error:
        number = shortage(error)
        if number:
            raise EmbeddingError(
                f"The embedding model {model!r} cannot be loaded: {explanation(number)} {UNCHANGED}"
            ) from error
        raise EmbeddingError(_damaged(model)) from error


def run(loaded: Any, texts: Sequence[str]) -> list[list[float]]:
    """The vectors of some texts as the model gives them, each of norm 1."""
    vectors = [vector.tolist() for vector in loaded.embed(list(texts), batch_size=1)]
    lengths = [math.hypot(*vector) or 1.0 for vector in vectors]
    pairs = zip(vectors, lengths, strict=True)
    return [[number / length for number in vector] for vector, length in pairs]


def library() -> Any:
    """fastembed, which then also lists the recommended models."""
    # Read when the packages are imported. A variable that is already set is somebody's choice.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    # Shared blobs are outside the model's folder, and the runtime refuses them there.
    os.environ.setdefault("HF_HUB_DISABLE_SHARED_BLOBS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns after a fork
    import fastembed

    listed = fastembed.TextEmbedding.list_supported_models()
    if MULTILINGUAL not in [each["model"] for each in listed]:
        from fastembed.common.model_description import ModelSource, PoolingType

        fastembed.TextEmbedding.add_custom_model(
            MULTILINGUAL,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf=MULTILINGUAL),
            dim=384,
            license="mit",
            size_in_gb=0.47,
            description="94 languages, prefixes necessary",
        )
    return fastembed


def require_installed(model: str) -> None:
    """Raise EmbeddingError, with the command that installs it, if the package is missing."""
    if not installed():
        raise EmbeddingError(
            f"The embedding model {model!r} needs the package fastembed. {UNCHANGED} Install it: "
            f'uv pip install --python {shlex.quote(sys.executable)} "{PACKAGE}"'
        )


def missing(model: str) -> str | None:
    """What is missing to run the model with this real name, and what to do; None if nothing."""
    try:
        require_installed(model)
        fetched(model)
    except EmbeddingError as error:
        return str(error)
    return None


_models: dict[str, Any] = {}
_turn = Lock()
# Models of a parent process. The child keeps them: freeing them would wait for threads it lacks.
_abandoned: list[Any] = []


def _loaded(found: Fetched) -> Any:
    if found.version not in _models:
        _models[found.version] = load(found.model, found.path, found.files, found.pooling)
    return _models[found.version]


def _start_over() -> None:
    global _turn
    _abandoned.append(dict(_models))
    _models.clear()
    _turn = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


def _damaged(model: str) -> str:
    return f"The files of the embedding model {model!r} are damaged. {UNCHANGED} {_remedy(model)}"


def _remedy(model: str) -> str:
    return f"Run `agent-memory model fetch {shlex.quote(model)}`."
