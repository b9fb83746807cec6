"""Fetch a model to this machine, once: the only step that needs the network.

`huggingface_hub`, which comes with fastembed, fetches the files that fastembed lists for a model
and resumes after an interruption. Nothing is sent but the request for them, without any token.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import UNCHANGED, EmbeddingError, InputError
from ..network import proxied
from ..resources import explanation, shortage
from . import onnx
from .catalogue import RECOMMENDED, SAMPLE, UNFIT, prefixes, real_name
from .direct import POOLINGS
from .onnx import Fetched

# The files of a tokenizer, as far as the model has them.
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    "config.json",
)
# More than any model reads, so that its end is cut off; and by how much 32-bit numbers may differ.
_LONG = "We talked about many things. " * 400
_SAME = 1e-4
_REVISION_DIGITS = 12
_READ_BYTES = 1 << 20


class Listed(NamedTuple):
    """A model that can be fetched; `size` is its approximate size in bytes, as listed."""

    model: str
    dimensions: int
    size: int
    license: str
    description: str


def listed() -> list[Listed]:
    """All models that can be fetched, the recommended ones first. Raises EmbeddingError without
    fastembed.
    """
    onnx.require_installed(next(iter(RECOMMENDED)))
    listed = [
        Listed(name, one["dim"], round(one["size_in_GB"] * 1e9), one["license"], one["description"])
        for name, one in _all().items()
    ]
    recommended = list(RECOMMENDED.values())
    return [
        *(each for name in recommended for each in listed if each.model == name),
        *sorted(each for each in listed if each.model not in recommended),
    ]


def all_fetched() -> list[Fetched]:
    """The models that are on this machine, by name. Raises EmbeddingError if the record of one
    cannot be read.
    """
    records = onnx.record_of("any").parent.glob("*.json")
    names = sorted(path.stem.replace("--", "/") for path in records)
    return [found for found in map(onnx.known, names) if found]


def fetch(model: str, show_progress: bool = False) -> Fetched:
    """Fetch and try a model, named in `RECOMMENDED` or listed by fastembed. One that is here and
    whole is left alone, without the network. Blocks, and waits for another process that fetches the
    same model. Progress is shown on standard error.

    Raises InputError for a name that is not listed, and EmbeddingError if the model could not be
    fetched or does not work; it then counts as not fetched, and fetching it again resumes.
    """
    name = real_name(model)
    onnx.require_installed(name)
    with _alone(name):
        try:
            found = onnx.fetched(name)
            if _version(name, found.path, list(found.files)) == found.version:
                return found
        except EmbeddingError:
            pass
        described = _described(name)
        cache = onnx.models_folder() / f"models--{described['sources']['hf'].replace('/', '--')}"
        if onnx.record_of(name).exists():  # it was whole once, but is not now
            onnx.record_of(name).unlink()
            shutil.rmtree(cache, ignore_errors=True)
        try:
            found = _tried(name, described, cache / _downloaded(name, described, show_progress))
        except _DamagedError as error:
            shutil.rmtree(cache, ignore_errors=True)
            raise EmbeddingError(
                f"The model {name!r} was fetched, but {error}. It was removed. Run it again."
            ) from error
        _write(found)
        return found


class _DamagedError(Exception):
    """The fetched files are not the model."""


def _all() -> dict[str, dict[str, Any]]:
    """What fastembed says about each model that can be fetched, by name."""
    each = onnx.library().TextEmbedding.list_supported_models()
    return {one["model"]: one for one in each if not one["model"].startswith(UNFIT)}


def _described(name: str) -> dict[str, Any]:
    each = _all()
    if name in each:
        return each[name]
    near = get_close_matches(name, each, n=1) or get_close_matches(name.lower(), RECOMMENDED, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise InputError(
        f"There is no model {name!r:.80} to fetch. {UNCHANGED} {hint}See: agent-memory model list"
    )


def _downloaded(name: str, described: dict[str, Any], show_progress: bool) -> Path:
    """Where the files are below the repository's folder, after comparing the large ones' hashes."""
    try:
        import huggingface_hub as hub

        bars = hub.utils.enable_progress_bars if show_progress else hub.utils.disable_progress_bars
        bars()
        repository = described["sources"]["hf"]
        wanted = [described["model_file"], *described["additional_files"], *_TOKENIZER]
        # No token: a public model needs no account.
        about = hub.HfApi(token=False).model_info(repository, files_metadata=True, timeout=30)
        folder = Path(
            hub.snapshot_download(
                repository,
                revision=about.sha,
                allow_patterns=wanted,
                cache_dir=onnx.models_folder(),
                token=False,
            )
        )
    except Exception as error:
        number = shortage(error)
        why = explanation(number) if number else f"{type(error).__name__}."
        raise EmbeddingError(
            f"The model {name!r} could not be fetched: {why} {UNCHANGED} Check the network"
            f"{proxied()}, then run it again: it resumes."
        ) from error
    for file in about.siblings or ():
        if file.rfilename in wanted and not _is_whole(folder / file.rfilename, file):
            raise _DamagedError(f"its file {file.rfilename} was damaged in transit")
    return Path("snapshots", folder.name)


def _is_whole(path: Path, file: Any) -> bool:
    if not path.is_file() or (file.size is not None and path.stat().st_size != file.size):
        return False
    return not file.lfs or _digest([path]) == file.lfs.sha256


def _tried(name: str, described: dict[str, Any], folder: Path) -> Fetched:
    """The fetched model, after it has embedded the sample both as questions and as memories."""
    names = [described["model_file"], *described["additional_files"], *_TOKENIZER]
    files = {each: (folder / each).stat().st_size for each in names if (folder / each).is_file()}
    texts = [prefix + text for prefix in prefixes(name) for text in SAMPLE]
    try:
        vectors = onnx.run(onnx.load(name, folder, files, ""), [*texts, _LONG])
    except Exception as error:
        if shortage(error):
            raise
        raise _DamagedError("it cannot be loaded") from error
    dimensions = len(vectors[0])
    if dimensions != described["dim"]:
        raise _DamagedError(f"it gives {dimensions} dimensions, not {described['dim']}")
    centre = np.mean(vectors[: len(texts)], axis=0).tolist()
    return Fetched(
        model=name,
        version=_version(name, folder, list(files)),
        dimensions=dimensions,
        folder=str(folder.relative_to(onnx.models_folder())),
        files=files,
        pooling=_pooling(name, folder, files, [*texts, _LONG], vectors),
        centre=centre,
    )


def _pooling(
    name: str,
    folder: Path,
    files: Mapping[str, int],
    texts: Sequence[str],
    vectors: Sequence[Sequence[float]],
) -> str:
    """The pooling with which the model, run directly, gives the same `vectors` as fastembed; empty
    if none does, as for a model that is not an ONNX file.
    """
    for pooling in POOLINGS:
        try:
            direct = onnx.run(onnx.load(name, folder, files, pooling), texts)
        except EmbeddingError:
            return ""
        if np.allclose(direct, vectors, rtol=0, atol=_SAME):
            return pooling
    return ""


def _version(name: str, folder: Path, files: Sequence[str]) -> str:
    told = "\n".join([*prefixes(name), *SAMPLE]).encode()
    used = [folder / each for each in files if each != "config.json"]
    return f"sha256 {_digest(used, told)[:_REVISION_DIGITS]}"


def _digest(files: Sequence[Path], beside: bytes = b"") -> str:
    digest = sha256(beside)
    for path in files:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _write(found: Fetched) -> None:
    """Write the record in one step: if it exists, it is whole."""
    record = onnx.record_of(found.model)
    begun = record.with_suffix(".new")
    begun.write_text(json.dumps(found._asdict()))
    begun.replace(record)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    record = onnx.record_of(name)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        lock = record.with_suffix(".lock").open("w")
    except OSError as error:
        raise EmbeddingError(
            f"The models' folder {record.parent} cannot be used: {error.strerror}. {UNCHANGED}"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
