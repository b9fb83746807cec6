"""Embedding models that `fastembed` runs on this machine, once it has fetched them. Each has a
cache of its own; fastembed compares the sizes of its files. Importing this does not import it.
"""

import os
import shlex
import shutil
import sys
from contextlib import suppress
from functools import cache
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from memory_semantic.errors import UNCHANGED, EmbeddingError, shortage
from memory_semantic.limits import MULTILINGUAL
from memory_semantic.network import proxied
from memory_semantic.posix import fcntl

from .catalogue import PREFIXES, PREPARED, SAMPLE, SHA256

PACKAGE = "fastembed>=0.9,<0.10"
_turns: dict[int, Lock] = {}  # by process: a thread that a child lacks may hold its parent's


def listed(asked: str = "") -> dict[str, dict[str, Any]]:
    """What fastembed says about each model, by its name. Raises EmbeddingError if it is missing."""
    return {one["model"]: one for one in _library(asked).list_supported_models()}


def state(model: str) -> str:
    """`fetched` or `not fetched`."""
    return "fetched" if _commit(model) else "not fetched"


def version(model: str) -> str:
    """What vectors of a model depend on: the commit of its files at the hub, and how texts are
    prepared. Raises EmbeddingError if it was not fetched.
    """
    if not (commit := _commit(model)):
        raise _unusable(model, "is not on this machine. (If a service has it, set base_url.)")
    return f"{commit:.12}.{PREPARED}"


def prefixes(model: str) -> tuple[str, str]:
    """The prefixes of a question and of a memory for this model."""
    return next((pair for name, pair in PREFIXES.items() if model.startswith(name)), ("", ""))


def embed(model: str, text: str) -> list[float]:
    """The vector of a text, not normalised. Blocks; loads the model at the process's first call.
    Raises EmbeddingError if the model or the package is not here, or cannot be loaded.
    """
    # Only one thread at a time: together they would take as long, and more memory.
    with _turns.setdefault(os.getpid(), Lock()):
        loaded, centre = _loaded(model, version(model), os.getpid())
        [vector] = run(loaded, [text])
    return (vector - centre).tolist()


def run(loaded: Any, texts: list[str]) -> list[Any]:
    """The vectors of some texts as the model gives them, as arrays of norm 1."""
    vectors = [vector.astype(float) for vector in loaded.embed(texts)]
    return [vector / ((vector @ vector) ** 0.5 or 1.0) for vector in vectors]


def works(model: str) -> bool:
    """Whether this model is here and embeds a text. Blocks. EmbeddingError if something ran out."""
    try:
        return bool(embed(model, SAMPLE[0]))
    except EmbeddingError as error:
        if shortage(error):
            raise
        return False


def fetch(model: str, show_progress: bool = False) -> None:
    """Fetch a model that is `listed`, unless it `works`; it replaces what is here when it is whole.
    Blocks, also while another process fetches. Progress is shown on standard error. Raises
    EmbeddingError if it could not be fetched or does not work.
    """
    _library(model)  # before the next line, whose package reads what it sets
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    folder = _folder(model)
    new = folder.with_name(f"{folder.name}.new")  # so that nobody uses what is not whole
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if works(model):
                return
            shutil.rmtree(new, ignore_errors=True)  # what was not finished
            enable_progress_bars() if show_progress else disable_progress_bars()
            files = _files(model, new, local_files_only=False)
            for name, known in SHA256.items() if model == MULTILINGUAL else ():
                with (files / name).open("rb") as file:
                    found = file_digest(file, "sha256").hexdigest()
                if found != known:
                    raise ValueError(f"{name} has the SHA-256 {found}, not the known {known}.")
            shutil.rmtree(folder, ignore_errors=True)  # it does not work
            new.rename(folder)
    except Exception as error:
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}."
        raise EmbeddingError(
            f"The model {model!r} could not be fetched: {shortage(error) or said}",
            UNCHANGED,
            f"Check the network{proxied()} and the folder {folder}, then run it again.",
        ) from error
    embed(model, SAMPLE[0])


def _files(model: str, folder: Path, local_files_only: bool = True) -> Path:
    one = listed(model)[model]
    needed = [one["model_file"], *one["additional_files"]]
    # Making a TextEmbedding would hide an error, and wait for 39 s before it gives up.
    found = _library(model).download_files_from_huggingface(
        one["sources"]["hf"], str(folder), needed, local_files_only=local_files_only
    )
    Path(found, one["model_file"]).stat()  # its size was compared, if it is there
    return Path(found)


@cache
def _loaded(model: str, version: str, process: int) -> tuple[Any, Any]:
    # The model, and the mean of the sample's vectors. A child of the process loads its own, and
    # keeps its parent's: to free it would wait for threads that the child lacks.
    library, folder = _library(model), _folder(model)
    try:
        loaded = library(
            model,
            cache_dir=str(folder),
            specific_model_path=str(_files(model, folder)),
            providers=["CPUExecutionProvider"],
            threads=min(4, os.cpu_count() or 1),  # more do not make a short text faster
            enable_cpu_mem_arena=False,  # it would keep the memory of the longest text
        )
        sample = [prefix + text for prefix in prefixes(model) for text in SAMPLE]
        return loaded, sum(run(loaded, sample)) / len(sample)
    except Exception as error:
        lacking = shortage(error)
        why = f"cannot be loaded: {lacking}" if lacking else "has damaged files."
        raise _unusable(model, why) from error


def _library(asked: str) -> Any:
    # fastembed's class of models, which then also lists the recommended one.
    # Read when the packages are imported. A variable that is already set is somebody's choice.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")  # a public model needs no account
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns after a fork
    try:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType
    except ImportError as error:
        why = shortage(error) or f"{error}. Install it again."
        raise _unusable(asked, f"needs fastembed, which cannot be imported: {why}") from error

    source = ModelSource(hf=MULTILINGUAL)
    with suppress(ValueError):  # it is listed
        TextEmbedding.add_custom_model(
            MULTILINGUAL, PoolingType.MEAN, True, source, 384, license="mit", size_in_gb=0.487
        )
    return TextEmbedding


def _folder(model: str) -> Path:
    # A cache of its own, so that it is found without fastembed's list of what it is called there.
    folder = os.environ.get("FASTEMBED_CACHE_PATH", "").strip() or "~/.amplifier/models"
    return Path(folder).expanduser().absolute() / model.replace("/", "--")


def _commit(model: str) -> str:
    # The commit of the model's files; "" if they are not here.
    with suppress(OSError, StopIteration):
        return next(_folder(model).glob("models--*/refs/main")).read_text()
    return ""


def _unusable(model: str, why: str) -> EmbeddingError:
    # Without a model: the list of them.
    what = f"The embedding model {model!r}" if model else "The list of models"
    run = f"agent-memory model use {shlex.quote(model)}" if model else "agent-memory model list"
    if find_spec("fastembed") is None:
        why = "needs the package fastembed."
        run = f'uv pip install --python {shlex.quote(sys.executable)} "{PACKAGE}" && {run}'
    return EmbeddingError(f"{what} {why}", UNCHANGED, f"Run: {run}")
