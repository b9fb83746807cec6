"""One embedding model, wherever it runs."""

import math
import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from urllib.parse import urlsplit

from ..check import clean_base_url, clean_local
from ..errors import UNCHANGED, EmbeddingError
from ..limits import DEFAULT_MODEL, DIMENSIONS, LOCAL_MODEL, MULTILINGUAL, STATIC_MODEL
from ..points import EmbeddingModel
from ..workers import run_blocking
from . import local, static

# The models inside.
_BUILT_IN = {LOCAL_MODEL: local, STATIC_MODEL: static}
# Texts that one of them embeds at once: a cancelled call ends soon.
_AT_ONCE = 32
# Besides names with `/`, what means a model of `memory_models`: an optional package, imported only
# where one of them is asked for.
_SHORT_NAMES = {"multilingual": MULTILINGUAL}
# Parts of the names of those that read Korean, Chinese or Japanese.
_NOT_ENGLISH_ONLY = ("multilingual", "-zh", "gemma", "Qwen3", "jina-embeddings-v3")
_OPENAI_HOST = "api.openai.com"
SET_KEY = "Set OPENAI_API_KEY in the environment or in ~/.amplifier/keys.env."


def is_optional(model: str, base_url: str | None) -> bool:
    """Whether a setting of this name, with this `base_url`, means a model of `memory_models`."""
    return not (base_url or "").strip() and ("/" in model or model.lower() in _SHORT_NAMES)


def english_only(model: EmbeddingModel) -> bool:
    """Whether this model is known not to read Korean, Chinese and Japanese: it runs on this
    machine, where models have versions, and is none of those that read other languages.
    """
    return model.version is not None and not any(part in model.model for part in _NOT_ENGLISH_ONLY)


def _optional_models() -> ModuleType:
    import memory_models

    return memory_models


class EmbeddingGenerator:
    """One embedding model.

    `model` is `local` for the built-in one, or `static` for the part of it that takes 0.1 ms a
    text. Without a `base_url`, `multilingual` and names with `/` are models of `fastembed` on this
    machine; the attribute is the real name. Other names are those of the service at `base_url` (by
    default OPENAI_BASE_URL, or OpenAI's). `api_key` defaults to OPENAI_API_KEY; a service at
    another address may need none. `dimensions` asks the service for that vector length; the
    attribute is the length in use, None until known.

    Nothing is loaded or contacted before the first text. Safe to use from many tasks, threads and
    event loops; connections to a service stay open for the next call until their event loop ends.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        self.model = clean_local(model)
        self._optional = _optional_models() if is_optional(self.model, base_url) else None
        if self._optional:
            self.model = _SHORT_NAMES.get(self.model.lower(), self.model)
        self.dimensions = dimensions or DIMENSIONS.get(self.model)
        self._requested_dimensions = dimensions
        self._api_key = api_key
        self._base_url = base_url

    @property
    def _built_in(self) -> ModuleType | None:
        return _BUILT_IN.get(self.model)

    @property
    def on_this_machine(self) -> bool:
        """Whether no text leaves this machine: a built-in model, or one of `fastembed`."""
        return bool(self._optional or self._built_in)

    @property
    def endpoint(self) -> str | None:
        """Host and port of the service; None for OpenAI's own and for models on this machine."""
        if self.on_this_machine:
            return None
        host = urlsplit(self._service() or "").netloc
        return None if host in ("", _OPENAI_HOST) else host

    @property
    def version(self) -> str | None:
        """The version of a model on this machine; None for a service, whose names carry it. Raises
        EmbeddingError if the model has not been fetched.
        """
        if self._optional:
            return self._optional.version(self.model)
        return self._built_in.version() if self._built_in else None

    async def generate(self, content: str) -> list[float]:
        """The vector of one text. Raises EmbeddingError as `generate_batch` does."""
        return (await self.generate_batch([content]))[0]

    async def generate_batch(
        self, contents: Sequence[str], *, questions: bool = False
    ) -> list[list[float]]:
        """The vectors of several texts in order, all of one length, each of norm 1. Some models on
        this machine treat `questions` differently from memories. Raises EmbeddingError if there is
        no key, no usable answer after three tries, or no such model here.
        """
        question, memory = self._optional.prefixes(self.model) if self._optional else ("", "")
        prefix = question if questions else memory
        texts = [prefix + text for text in contents]
        return self._checked(await self._embed(texts) if texts else [])

    async def load(self) -> bool:
        """Prepare for `embed_now`, and return whether it can be used: never with a service or in a
        subclass. Raises EmbeddingError if the model cannot be loaded.
        """
        if not self._built_in or type(self)._embed is not EmbeddingGenerator._embed:
            return False
        await run_blocking(self._built_in.load)
        return True

    def embed_now(self, content: str) -> list[float]:
        """Like `generate`, but at once, from a built-in model. Only after `load`."""
        assert self._built_in
        return self._checked(self._built_in.embed([content]))[0]

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors as the model gives them. A subclass for another model overrides this."""
        if self._built_in:
            vectors: list[list[float]] = []
            for start in range(0, len(texts), _AT_ONCE):
                some = texts[start : start + _AT_ONCE]
                vectors += await run_blocking(partial(self._built_in.embed, some))
            return vectors
        if self._optional:
            embed = partial(self._optional.embed, self.model)
            # One by one, so that a cancelled call embeds no more.
            return [await run_blocking(partial(embed, text)) for text in texts]
        key = (self._api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not key and not self.endpoint:
            raise EmbeddingError(
                f"OPENAI_API_KEY is not set, and the model {self.model!r} needs it.",
                UNCHANGED,
                SET_KEY,
            )
        if not (key.isascii() and key.isprintable()):
            raise EmbeddingError("OPENAI_API_KEY is not a valid key.", UNCHANGED, "Set it again.")
        # This imports the SDK, which takes half a second the first time.
        service = await run_blocking(lambda: import_module(".service", __package__))
        return await service.embed(
            texts, self.model, key, self._service(), self._requested_dimensions
        )

    def _service(self) -> str | None:
        name = "base_url" if self._base_url else "OPENAI_BASE_URL"
        return clean_base_url(self._base_url or os.environ.get(name), name)

    def _checked(self, vectors: list[list[float]]) -> list[list[float]]:
        for vector in vectors:
            self.dimensions = self.dimensions or len(vector)
            if len(vector) != self.dimensions:
                raise unusable(f"{len(vector)} dimensions, but {self.dimensions} were expected")
        return [_unit(vector) for vector in vectors]


def unusable(answer: str) -> EmbeddingError:
    """The error for an `answer` that cannot be vectors of the texts."""
    return EmbeddingError(
        f"The embedding model answered with {answer}.",
        UNCHANGED,
        "Check embedding_model, dimensions and base_url.",
    )


def _unit(vector: Sequence[float]) -> list[float]:
    # The engine does not normalise every length, and silently accepts vectors it cannot compare.
    length = math.hypot(*vector)
    if not math.isfinite(length) or length < 1e-30:
        raise unusable("a vector that is zero or not finite")
    return [number / length for number in vector]
