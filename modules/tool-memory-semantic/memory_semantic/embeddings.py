"""Texts into vectors, by an OpenAI-compatible service or by the built-in model."""

import asyncio
import json
import math
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from . import local_model
from .errors import EmbeddingError
from .models import (
    DEFAULT_MODEL,
    DIMENSIONS,
    EMBEDDING_BATCH,
    EMBEDDING_MAX_BYTES,
    EMBEDDING_TRY_SECONDS,
    LOCAL_MODEL,
    clean_base_url,
    clean_local,
)
from .network import obstacle
from .retries import UNCHANGED, nonsense, with_retries
from .workers import run_blocking

if TYPE_CHECKING:
    from ssl import SSLContext

    from openai import AsyncOpenAI

_OPENAI_HOST = "api.openai.com"
# What the SDK puts into the headers of a request.
_HEADERS = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")


class EmbeddingGenerator:
    """One embedding model.

    `model` is `local` for the built-in one, else the name that the service at `base_url` (OpenAI's
    by default, or what OPENAI_BASE_URL says) knows it by. `api_key` defaults to OPENAI_API_KEY;
    a service at another address may need none. `dimensions` asks the service for that vector
    length; the attribute of that name is the length in use, None until it is known.

    Nothing is loaded or contacted before the first text. Safe from many tasks and threads.
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
        self.dimensions = dimensions or DIMENSIONS.get(self.model)
        self._requested_dimensions = dimensions
        self._api_key = api_key
        self._base_url = base_url

    @property
    def endpoint(self) -> str | None:
        """Host and port of the service; None for OpenAI's own, and for `local`."""
        base_url = self._service()
        if self.model == LOCAL_MODEL or not base_url:
            return None
        endpoint = urlsplit(base_url).netloc
        return None if endpoint == _OPENAI_HOST else endpoint

    @property
    def version(self) -> str | None:
        """Which built-in model this is; None for a service, whose names carry the version."""
        return local_model.model_version() if self.model == LOCAL_MODEL else None

    async def generate(self, content: str) -> list[float]:
        """The vector of one text. Raises EmbeddingError as `generate_batch` does."""
        return (await self.generate_batch([content]))[0]

    async def generate_batch(self, contents: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order, all of one length, each of norm 1.

        Raises EmbeddingError if there is no key, if the service refuses, if it still fails at the
        third try, or if its answer is not such vectors.
        """
        vectors = [_unit(vector) for vector in await self._embed(list(contents))]
        for vector in vectors:
            self.dimensions = self.dimensions or len(vector)
            if len(vector) != self.dimensions:
                raise nonsense(f"{len(vector)} dimensions, where {self.dimensions} were expected")
        return vectors

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors as the model gives them: what a subclass for another model replaces."""
        if self.model == LOCAL_MODEL:
            return await run_blocking(lambda _: local_model.embed(texts))
        return await self._ask_service(texts)

    async def _ask_service(self, texts: list[str]) -> list[list[float]]:
        key = (self._api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not key and not self.endpoint:
            raise EmbeddingError(
                f"OPENAI_API_KEY is not set, and the model {self.model!r} needs it. {UNCHANGED} "
                "Set the key in the environment or in ~/.amplifier/keys.env."
            )
        if not (key.isascii() and key.isprintable()):
            raise EmbeddingError(f"OPENAI_API_KEY is not a key. {UNCHANGED} Set it again.")
        for name in _HEADERS:
            if not os.environ.get(name, "").isascii():
                raise EmbeddingError(f"{name} must be ASCII. {UNCHANGED} Set it again.")
        service = self._service()
        # Making the first client imports the SDK and loads certificates. Each lives for one call,
        # because its connections belong to one event loop, and callers may have several.
        client = await run_blocking(lambda _: _client(key or "none", service))
        vectors: list[list[float]] = []
        async with client:
            for start in range(0, len(texts), EMBEDDING_BATCH):
                batch = texts[start : start + EMBEDDING_BATCH]
                vectors += await with_retries(lambda batch=batch: self._try(client, batch))
        return vectors

    async def _try(self, client: "AsyncOpenAI", texts: list[str]) -> list[list[float]]:
        from openai import omit

        # Compatible servers differ in `dimensions`, and in base64, which is the SDK's own choice.
        call = client.embeddings.with_streaming_response.create(
            model=self.model,
            input=texts,
            dimensions=self._requested_dimensions or omit,
            encoding_format="float",
        )
        body = bytearray()
        async with asyncio.timeout(EMBEDDING_TRY_SECONDS), call as response:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > EMBEDDING_MAX_BYTES:
                    raise nonsense(f"more than {EMBEDDING_MAX_BYTES:,} bytes")
        try:
            data = sorted(json.loads(body)["data"], key=lambda item: item["index"])
            indexes = [item["index"] for item in data]
            vectors = [item["embedding"] for item in data]
        except Exception as error:
            kind = type(error).__name__  # its text may quote the answer
            raise nonsense(f"something that is no list of vectors ({kind})") from None
        if indexes != list(range(len(texts))):
            raise nonsense(f"{len(data)} vectors, not one for each of {len(texts)} texts")
        return vectors

    def _service(self) -> str | None:
        return clean_base_url(self._base_url or os.environ.get("OPENAI_BASE_URL"))


def _unit(vector: Sequence[float]) -> list[float]:
    """`vector` at length 1. Raises EmbeddingError if it has no direction or is not of numbers.

    The engine does not do it for every length, and takes what cannot be compared without a word.
    """
    try:
        length = math.hypot(*vector)
    except TypeError:
        raise nonsense("a vector that is not made of numbers") from None
    except OverflowError:  # a whole number that no float can hold
        length = math.inf
    if not math.isfinite(length) or length < 1e-30:
        raise nonsense("a vector that is zero or not finite")
    return [number / length for number in vector]


def _client(api_key: str, base_url: str | None) -> "AsyncOpenAI":
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    try:
        return AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            http_client=DefaultAsyncHttpxClient(verify=_certificates(), follow_redirects=False),
            max_retries=0,  # tenacity's are the only tries
            timeout=EMBEDDING_TRY_SECONDS,
        )
    except Exception as error:
        raise EmbeddingError(f"{obstacle(error, 'base_url')} {UNCHANGED}") from None


@cache
def _certificates() -> "SSLContext":
    """What the SDK would load for each client anew, in 30 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()
