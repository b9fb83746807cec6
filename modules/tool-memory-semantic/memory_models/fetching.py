"""Fetch a model to this machine, once: the only step that needs the network.

fastembed fetches the files that it lists for a model, compares their sizes, and resumes after an
interruption. Nothing is sent but the request for them, without any token.
"""

import json
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from memory_semantic.errors import UNCHANGED, EmbeddingError, InputError, shortage
from memory_semantic.network import proxied

from . import running
from .catalogue import RECOMMENDED, SAMPLE, UNFIT, prefixes, real_name
from .running import Fetched

# The files of a tokenizer, as far as the model has them. Vectors do not depend on the last one.
_CONFIG = "config.json"
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", _CONFIG)
_VERSION_DIGITS = 12
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
    running.require_installed(next(iter(RECOMMENDED)))
    names = [*RECOMMENDED.values(), *sorted(_all().keys() - RECOMMENDED.values())]
    return [
        Listed(name, one["dim"], round(one["size_in_GB"] * 1e9), one["license"], one["description"])
        for name, one in ((name, _all()[name]) for name in names)
    ]


def all_fetched() -> list[Fetched]:
    """The models that are on this machine, by name. Raises EmbeddingError if the record of one
    cannot be read.
    """
    records = running.record_of("any").parent.glob("*.json")
    names = sorted(path.stem.replace("--", "/") for path in records)
    return [found for found in map(running.known, names) if found]


def fetch(model: str, show_progress: bool = False) -> Fetched:
    """Fetch and try a model, named in `RECOMMENDED` or listed by fastembed. One that is here and
    whole is left alone, without the network. Blocks. Progress is shown on standard error.

    Raises InputError for a name that is not listed, and EmbeddingError if the model could not be
    fetched or does not work; fetching it again then resumes, or replaces it.
    """
    name = real_name(model)
    running.require_installed(name)
    try:
        found = running.fetched(name)
        if _version(name, found.path, list(found.files)) == found.version:
            return found
    except EmbeddingError:
        pass
    described = _described(name)
    found = _tried(name, described, _downloaded(name, described, show_progress))
    record = running.record_of(name)
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps(found._asdict()))
    unfinished.replace(record)  # so if it exists, it is whole
    return found


def _all() -> dict[str, dict[str, Any]]:
    """What fastembed says about each model that can be fetched, by name."""
    each = running.library().TextEmbedding.list_supported_models()
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
    record = running.record_of(name)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

        enable_progress_bars() if show_progress else disable_progress_bars()
        # Making a TextEmbedding would hide the error, and wait for 39 s before it gives up.
        folder = running.library().TextEmbedding.download_files_from_huggingface(
            described["sources"]["hf"],
            cache_dir=str(running.models_folder()),
            extra_patterns=[described["model_file"], *described["additional_files"]],
            force_download=record.exists(),  # it was whole once, but is not now
        )
        return running.models_folder().joinpath(*Path(folder).parts[-3:])
    except Exception as error:
        why = shortage(error) or f"{type(error).__name__}."
        raise EmbeddingError(
            f"The model {name!r} could not be fetched: {why} {UNCHANGED} Check the network"
            f"{proxied()} and the folder {running.models_folder()}, then run it again: it resumes."
        ) from error


def _tried(name: str, described: dict[str, Any], folder: Path) -> Fetched:
    """The fetched model, after it has embedded the sample both as questions and as memories."""
    names = [described["model_file"], *described["additional_files"], *_TOKENIZER]
    files = {each: (folder / each).stat().st_size for each in names if (folder / each).is_file()}
    texts = [prefix + text for prefix in prefixes(name) for text in SAMPLE]
    try:
        vectors = running.run(running.load(name, folder), texts)
    except Exception as error:
        if shortage(error):
            raise
        shutil.rmtree(folder.parents[1], ignore_errors=True)
        raise EmbeddingError(
            f"The model {name!r} was fetched, but cannot be loaded. It was removed. Run it again."
        ) from error
    return Fetched(
        model=name,
        version=_version(name, folder, list(files)),
        dimensions=len(vectors[0]),
        folder=str(folder.relative_to(running.models_folder())),
        files=files,
        centre=[sum(numbers) / len(texts) for numbers in zip(*vectors, strict=True)],
    )


def _version(name: str, folder: Path, files: Sequence[str]) -> str:
    digest = sha256("\n".join([*prefixes(name), *SAMPLE]).encode())
    for path in (folder / each for each in files if each != _CONFIG):
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    return f"sha256 {digest.hexdigest()[:_VERSION_DIGITS]}"
