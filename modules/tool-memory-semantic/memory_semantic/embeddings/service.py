"""Texts into vectors by OpenAI, or by a service that speaks its protocol.

Importing this loads the SDK and certificates, which takes half a second: do it off the event loop.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ssl import SSLContext

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel, ValidationError
from tenacity import RetryCallState, retry, retry_if_exception, stop_after_attempt

from ..errors import UNCHANGED, EmbeddingError
from ..limits import (
    EMBEDDING_BATCH,
    EMBEDDING_MAX_BYTES,
    EMBEDDING_MAX_WAIT_SECONDS,
    EMBEDDING_TRIES,
    EMBEDDING_TRY_SECONDS,
)
from ..network import obstacle, proxied, redirection
from ..resources import explanation, shortage
from .generator import unusable

_SERVICE = "The embeddings service"
# Variables that the SDK puts into the headers of a request.
_HEADERS = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
# How a request ends without an answer. The SDK does not wrap errors in the middle of an answer.
_SILENT = (openai.APIConnectionError, httpx2.TransportError, TimeoutError)
# How long a connection is kept for the next call. Routers forget an idle one after four minutes or
# more, and a request on a forgotten one would wait for its time-out.
_IDLE_SECONDS = 60.0


async def embed(
    texts: list[str], model: str, api_key: str, base_url: str | None, dimensions: int | None
) -> list[list[float]]:
    """The vectors of `texts` from the service at `base_url`, None for OpenAI's. Raises
    EmbeddingError, whose message contains neither the key nor the texts.
    """
    for name in _HEADERS:
        if not os.environ.get(name, "").isascii():
            raise EmbeddingError(f"{name} must be ASCII. {UNCHANGED} Set it again.")
    try:
        client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            http_client=await _connections(),
            max_retries=0,  # only tenacity retries
            timeout=EMBEDDING_TRY_SECONDS,
        )
    except Exception as error:
        raise EmbeddingError(f"{obstacle(error, 'base_url')} {UNCHANGED}") from None
    vectors: list[list[float]] = []
    try:
        for start in range(0, len(texts), EMBEDDING_BATCH):
            batch = texts[start : start + EMBEDDING_BATCH]
            vectors += await _request(client, model, batch, dimensions)
        return vectors
    except EmbeddingError:
        raise
    except openai.APIStatusError as error:
        failure = _refusal(error)
    except _SILENT as error:
        failure = _silence(error)
    except Exception as error:
        kind = type(error).__name__
        failure = f"{_SERVICE} could not be asked ({kind}). {UNCHANGED} Check its address."
    raise EmbeddingError(failure)  # without its cause, which may contain the key


_Owner = tuple[int, asyncio.AbstractEventLoop]
# Connections belong to an event loop, and to a process: if parent and child used the same ones
# after a fork, they would mix up their answers.
_keepers: dict[_Owner, AsyncGenerator[httpx2.AsyncClient, None]] = {}


async def _connections() -> httpx2.AsyncClient:
    for owner in list(_keepers):
        if owner[1].is_closed():  # without having closed its generators
            _keepers.pop(owner, None)
    owner = (os.getpid(), asyncio.get_running_loop())
    if owner not in _keepers:
        _keepers[owner] = _keep(owner)
    return await anext(_keepers[owner])


async def _keep(owner: _Owner) -> AsyncGenerator[httpx2.AsyncClient, None]:
    # An ending event loop closes its asynchronous generators first, and with them the connections.
    limits = httpx2.Limits(keepalive_expiry=_IDLE_SECONDS)
    try:
        async with DefaultAsyncHttpxClient(
            verify=_certificates(), limits=limits, follow_redirects=False
        ) as client:
            while True:
                yield client
    finally:
        _keepers.pop(owner, None)


@cache
def _certificates() -> SSLContext:
    return httpx2.create_ssl_context()  # 140 ms the first time, 17 ms later


with suppress(OSError):  # creating a client will report what is wrong with them
    _certificates()  # now, because this is imported in a thread, and only once


class _Vector(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    """The parts of an answer that we need; compatible services leave out some of the rest."""

    data: list[_Vector]


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, openai.RateLimitError):
        return error.code != "insufficient_quota"
    return isinstance(error, (openai.InternalServerError, *_SILENT))


def _seconds_to_wait(state: RetryCallState) -> float:
    """What the service asks for in Retry-After, within reason; else 0.5 s, then 1 s."""
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    seconds = -1.0
    with suppress(ValueError, TypeError):  # TypeError: a time without a zone
        seconds = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
    with suppress(ValueError):
        seconds = float(asked)
    if not seconds >= 0:  # also if it is nan
        seconds = 0.5 * 2 ** (state.attempt_number - 1)
    return min(seconds, EMBEDDING_MAX_WAIT_SECONDS)


@retry(
    stop=stop_after_attempt(EMBEDDING_TRIES),
    wait=_seconds_to_wait,
    retry=retry_if_exception(_may_pass),
    reraise=True,
)
async def _request(
    client: AsyncOpenAI, model: str, texts: list[str], dimensions: int | None
) -> list[list[float]]:
    # Compatible services differ in `dimensions`, and in base64, which the SDK would choose.
    call = client.embeddings.with_streaming_response.create(
        model=model, input=texts, dimensions=dimensions or openai.omit, encoding_format="float"
    )
    body = bytearray()
    async with asyncio.timeout(EMBEDDING_TRY_SECONDS), call as response:
        # The SDK's own typed answer has no size limit and is not validated.
        async for chunk in response.iter_bytes():
            body += chunk
            if len(body) > EMBEDDING_MAX_BYTES:
                raise unusable(f"more than {EMBEDDING_MAX_BYTES:,} bytes")
    try:
        data = _Answer.model_validate_json(body, strict=True).data
    except ValidationError:  # its text may quote the answer
        raise unusable("something that is not a list of vectors") from None
    data.sort(key=lambda vector: vector.index)
    if [vector.index for vector in data] != list(range(len(texts))):
        raise unusable(f"{len(data)} vectors, not one for each of {len(texts)} texts")
    return [vector.embedding for vector in data]


def _silence(error: Exception) -> str:
    number = shortage(error)
    if number:
        return f"{_SERVICE} was not reached: {explanation(number)} {UNCHANGED}"
    late = isinstance(error, openai.APITimeoutError | httpx2.TimeoutException | TimeoutError)
    failure = "did not answer in time" if late else "could not be reached"
    return (
        f"{_SERVICE} {failure}, in {EMBEDDING_TRIES} tries. {UNCHANGED} "
        f"Check the network and the service's address{proxied()}, then try again."
    )


def _refusal(error: openai.APIStatusError) -> str:
    status = error.status_code
    if status < 400:
        location = error.response.headers.get("location", "")
        where = redirection(_SERVICE, status, str(error.request.url), location)
        return f"{where} {UNCHANGED} If that is the right address, set base_url to it."
    if status in (401, 403):
        reason, remedy = "rejected the API key", "Check OPENAI_API_KEY."
    elif status == 404:
        reason, remedy = "does not know this model", "Check embedding_model and base_url."
    elif status == 429 and error.code == "insufficient_quota":
        reason, remedy = "reports that the account's quota is used up", "Check its billing."
    elif status == 429 or status >= 500:
        reason = f"still failed after {EMBEDDING_TRIES} tries"
        remedy = "Try again later; if it keeps failing, look into the service's own log."
    else:
        reason = "refused the request"
        remedy = "The text may be too long, or the model may not accept `dimensions`."
    return f"{_SERVICE} {reason} (HTTP {status}). {UNCHANGED} {remedy}"
