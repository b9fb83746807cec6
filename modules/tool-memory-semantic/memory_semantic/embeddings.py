"""Texts into vectors, by an OpenAI-compatible service or by the built-in model."""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from . import local_model
from .errors import EmbeddingError
from .models import (
    DEFAULT_MODEL,
    DIMENSIONS,
    EMBEDDING_BATCH,
    EMBEDDING_MAX_BYTES,
    EMBEDDING_MAX_WAIT_SECONDS,
    EMBEDDING_TRIES,
    EMBEDDING_TRY_SECONDS,
    LOCAL_MODEL,
)
from .workers import run_blocking

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from tenacity import RetryCallState

_UNCHANGED = "No memory was stored or changed."


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
        self.model = model
        self.dimensions = dimensions or DIMENSIONS.get(model)
        self._requested_dimensions = dimensions
        self._api_key = api_key
        self._base_url = base_url

    @property
    def endpoint(self) -> str | None:
        """Host and port of the service if it is not OpenAI's own; None for that and `local`."""
        base_url = self._service()
        if self.model == LOCAL_MODEL or not base_url:
            return None
        return urlsplit(base_url).netloc.rpartition("@")[2]

    @property
    def version(self) -> str | None:
        """Which built-in model this is; None for a service, whose names carry the version."""
        return local_model.model_version() if self.model == LOCAL_MODEL else None

    async def generate(self, content: str) -> list[float]:
        """The vector of one text. Raises EmbeddingError as `generate_batch` does."""
        return (await self.generate_batch([content]))[0]

    async def generate_batch(self, contents: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order, all of one length, finite and not zero.

        Raises EmbeddingError if there is no key, if the service refuses, if it still fails at the
        third try, or if its answer is not such vectors.
        """
        texts = list(contents)
        return await run_blocking(lambda cancelled: self._embed(texts, cancelled))

    def _service(self) -> str | None:
        return self._base_url or os.environ.get("OPENAI_BASE_URL") or None

    def _embed(self, texts: list[str], cancelled: Event) -> list[list[float]]:
        if self.model == LOCAL_MODEL:
            vectors = local_model.embed(texts)
        else:
            vectors = []
            for start in range(0, len(texts), EMBEDDING_BATCH):
                batch = texts[start : start + EMBEDDING_BATCH]
                vectors += _with_retries(lambda batch=batch: self._request(batch), cancelled)
        for vector in vectors:
            self._check(vector)
        return vectors

    def _request(self, texts: list[str]) -> list[list[float]]:
        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and not self.endpoint:
            raise EmbeddingError(
                f"OPENAI_API_KEY is not set, and the model {self.model!r} needs it. {_UNCHANGED} "
                "Set the key in the environment or in ~/.amplifier/keys.env."
            )
        from openai import omit

        # Compatible servers differ in `dimensions`, and in base64, which is the SDK's own choice.
        call = _client(key or "none", self._service()).embeddings.with_streaming_response.create(
            model=self.model,
            input=texts,
            dimensions=self._requested_dimensions or omit,
            encoding_format="float",
        )
        deadline = time.monotonic() + EMBEDDING_TRY_SECONDS
        body = bytearray()
        with call as response:
            for chunk in response.iter_bytes():  # the SDK's time-out starts anew with each chunk
                body += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(body) > EMBEDDING_MAX_BYTES:
                    raise _nonsense(f"more than {EMBEDDING_MAX_BYTES:,} bytes")
        data = sorted(json.loads(body)["data"], key=lambda item: item["index"])
        if [item["index"] for item in data] != list(range(len(texts))):
            raise _nonsense(f"{len(data)} vectors, not one for each of {len(texts)} texts")
        return [item["embedding"] for item in data]

    def _check(self, vector: list[float]) -> None:
        try:
            length = math.sqrt(math.fsum(x * x for x in vector))
        except (TypeError, OverflowError):
            raise _nonsense("a vector that is not made of numbers") from None
        # float32 loses vectors shorter than this when it squares them to normalise.
        if not math.isfinite(length) or length < 1e-12:
            raise _nonsense("a vector that is zero or not finite")
        self.dimensions = self.dimensions or len(vector)
        if len(vector) != self.dimensions:
            raise _nonsense(f"{len(vector)} dimensions, where {self.dimensions} were expected")


@cache
def _client(api_key: str, base_url: str | None) -> "OpenAI":
    """One client, and so one pool of connections, for each service; made at first use.

    The synchronous one, because an asynchronous pool belongs to one event loop and callers may
    have several. Its own retries are off: tenacity's are the only ones.
    """
    from openai import OpenAI

    return OpenAI(api_key=api_key, base_url=base_url, max_retries=0, timeout=EMBEDDING_TRY_SECONDS)


# Connections must not be shared with a forked child.
os.register_at_fork(after_in_child=_client.cache_clear)


def _with_retries(request: Callable[[], list[list[float]]], cancelled: Event) -> list[list[float]]:
    import openai
    from tenacity import Retrying, retry_if_exception, stop_after_attempt
    from tenacity.nap import sleep_using_event
    from tenacity.stop import stop_when_event_set

    tries = Retrying(
        stop=stop_after_attempt(EMBEDDING_TRIES) | stop_when_event_set(cancelled),
        wait=_seconds_to_wait,
        retry=retry_if_exception(_is_passing),
        sleep=sleep_using_event(cancelled),
        reraise=True,
    )
    try:
        return tries(request)
    except EmbeddingError:
        raise
    except openai.APIStatusError as error:
        raise EmbeddingError(_refusal(error)) from None  # its text can hold the key
    except (openai.APIConnectionError, TimeoutError) as error:
        late = isinstance(error, openai.APITimeoutError | TimeoutError)
        failure = "did not answer in time" if late else "could not be reached"
        raise EmbeddingError(
            f"The embeddings service {failure}, in {EMBEDDING_TRIES} tries. {_UNCHANGED} "
            "Check the network and the service's address, then try again."
        ) from None
    except Exception as error:
        raise _nonsense(f"something that is no list of vectors ({type(error).__name__})") from None


def _is_passing(error: BaseException) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        if error.status_code == 429:
            return error.code != "insufficient_quota"
        return error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | TimeoutError)


def _seconds_to_wait(state: "RetryCallState") -> float:
    """What the service asks for in Retry-After, within reason; else 0.5 s, then 1 s."""
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            seconds = math.nan
    if not seconds >= 0:
        seconds = 0.5 * 2 ** (state.attempt_number - 1)
    return min(seconds, EMBEDDING_MAX_WAIT_SECONDS)


def _refusal(error: "APIStatusError") -> str:
    status = error.status_code
    if status in (401, 403):
        reason = "rejected the API key", "Check OPENAI_API_KEY."
    elif status == 404:
        reason = "does not know this model", "Check embedding_model and base_url."
    elif status == 429 and error.code == "insufficient_quota":
        reason = "reports that the account's quota is used up", "Check the account's billing."
    elif status == 429 or status >= 500:
        reason = f"still failed at try {EMBEDDING_TRIES}", "Try again later."
    else:
        reason = "refused the request", "The text may be too long for the model: shorten it."
    return f"The embeddings service {reason[0]} (HTTP {status}). {_UNCHANGED} {reason[1]}"


def _nonsense(answer: str) -> EmbeddingError:
    return EmbeddingError(
        f"The embedding model answered with {answer}. {_UNCHANGED} "
        "Check embedding_model, dimensions and base_url."
    )
