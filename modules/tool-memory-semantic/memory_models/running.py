"""Finding, loading and running fetched models, without the network. If a model's files are missing
or damaged, the error names the command that fetches them.
"""

import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from memory_semantic.errors import UNCHANGED, EmbeddingError, shortage

from .catalogue import MULTILINGUAL

PACKAGE = "fastembed>=0.9,<0.10"
# The variable that tells fastembed where its models are, and where they are if it is not set.
_FOLDER_VARIABLE = "FASTEMBED_CACHE_PATH"
_FOLDER = "~/.amplifier/models"
# In that folder, our own records of the models, beside the library's files.
_RECORDS = "agent-memory"
# More threads do not make a short text faster.
_THREADS = min(4, os.cpu_count() or 1)


class Fetched(NamedTuple):
    """A model whose files are on this machine, whole when they were fetched.

    `version` stands for all that its vectors depend on: a hash of its files, its prefixes and the
    sample. `files` maps paths below `folder` to sizes in bytes, the model's own file first;
    `folder` is relative to `models_folder()`. `centre` is the mean of the sample's vectors.
    """

    model: str
    version: str
    dimensions: int
    folder: str
    files: dict[str, int]
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


def known(model: str) -> Fetched | None:
    """The model with this real name, if it was fetched; its files are not checked."""
    try:
        fields = json.loads(record_of(model).read_bytes())
        return Fetched(**{name: fields[name] for name in Fetched._fields})  # 2.x wrote others too
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
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


def embed(found: Fetched, text: str) -> list[float]:
    """The vector of a text, not normalised. Blocks; loads the model at the process's first call.
    Raises EmbeddingError if the model cannot be loaded.
    """
    with _turn:  # only one thread at a time: together they would take as long, and more memory
        [vector] = run(_loaded(found.model, found.path, found.version, os.getpid()), [text])
    if len(vector) != len(found.centre):
        raise EmbeddingError(_damaged(found.model))
    return [x - y for x, y in zip(vector, found.centre, strict=True)]


def load(model: str, folder: Path) -> Any:
    """The model from the files in `folder`, without the network. Raises EmbeddingError if the
    package is missing, something runs out, or the files are damaged.
    """
    require_installed(model)
    try:
        return library().TextEmbedding(
            model,
            cache_dir=str(models_folder()),
            specific_model_path=str(folder),
            local_files_only=True,
            providers=["CPUExecutionProvider"],
            threads=_THREADS,
            enable_cpu_mem_arena=False,  # it would keep the memory of the longest text
        )
    except Exception as error:
        if lacking := shortage(error):
            raise EmbeddingError(
                f"The embedding model {model!r} cannot be loaded: {lacking} {UNCHANGED}"
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
    # A public model needs no account.
    os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
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
    if find_spec("fastembed") is None:
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


@cache
def _loaded(model: str, path: Path, version: str, process: int) -> Any:
    # Each process loads its own. A child keeps those of its parent, because freeing them would wait
    # for threads that it lacks.
    return load(model, path)


_turn = Lock()


def _start_over() -> None:
    global _turn
    _turn = Lock()  # a thread that the child lacks may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


def _damaged(model: str) -> str:
    return f"The files of the embedding model {model!r} are damaged. {UNCHANGED} {_remedy(model)}"


def _remedy(model: str) -> str:
    return f"Run `agent-memory model fetch {shlex.quote(model)}`."
