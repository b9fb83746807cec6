"""Texts into vectors by OpenAI, or by a service that speaks its protocol.

Importing this loads the SDK and certificates, which takes half a second: do it off the event loop.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from ssl import SSLContext
from uuid import UUID

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types import CreateEmbeddingResponse
from tenacity import RetryCallState, retry, retry_if_exception, stop_after_attempt

from ..errors import UNCHANGED, EmbeddingError, RefusedTextError, counted, shortage
from ..limits import (
    EMBEDDING_BATCH,
    EMBEDDING_MAX_WAIT_SECONDS,
    EMBEDDING_TRIES,
    EMBEDDING_TRY_SECONDS,
)
from ..network import obstacle, proxied, redirection
from ..remembered import point_id
from .generator import SET_KEY, unusable

_SERVICE = "The embeddings service"
# Variables that the SDK puts into the headers of a request.
_HEADERS = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
# How a request ends without an answer.
_SILENT = (openai.APIConnectionError, TimeoutError)
# How services say that they lack a model, in the body of a 404. A wrong path has another body.
_NO_MODEL = re.compile(r"(?!\s*<).*\bmodel(_not_found)?\b", re.IGNORECASE | re.DOTALL)
# How services answer a text that is too long for the model, or too many texts at once; and a text
# that none refuses.
_TOO_MUCH = (400, 413, 422, 500)
_HARMLESS = "a"
_OF_LLAMA_CPP = r"too large to process"  # with HTTP 500
_TOO_LONG = ("that the text is too long for the model", "Shorten it or split it.")
# What a refusal names in the service's own words, which are not quoted; and what to do about it.
_CAUSES = {
    _OF_LLAMA_CPP: _TOO_LONG,
    r"batch|too many|(?:number|list|array) of (?:input|text)s?": (
        "that there are too many texts in one request",
        "Ask whoever runs the service to accept more.",
    ),
    r"dimension|matryoshka": (
        "that the model cannot give this many dimensions",
        "Set dimensions to null, or to a number that the model can give.",
    ),
    r"too long|too large|token|context|length|exceed": _TOO_LONG,
    r"\bmodel\b": (
        "that the model cannot be used for this",
        "Check embedding_model: it must be a model for embeddings.",
    ),
}
# The longest wait that an error repeats, two weeks; more is a mistake of the service.
_LONGEST_ASKED_SECONDS = 14 * 86_400
# How long a connection is kept for the next call. Routers forget an idle one after four minutes or
# more, and a request on a forgotten one would wait for its time-out.
_IDLE_SECONDS = 60.0


async def embed(
    texts: list[str], model: str, api_key: str, base_url: str | None, dimensions: int | None
) -> list[list[float]]:
    """The vectors of `texts` from the service at `base_url`, None for OpenAI's. `api_key` is blank
    if none is set. Raises EmbeddingError, whose message contains neither the key nor the texts.
    """
    for name in _HEADERS:
        if not os.environ.get(name, "").isascii():
            raise EmbeddingError(f"{name} must be ASCII.", UNCHANGED, "Set it again.")
    try:
        client = AsyncOpenAI(
            api_key=api_key or "none",  # the SDK insists on one
            base_url=base_url,
            http_client=await _connections(),
            max_retries=0,  # only tenacity retries
            timeout=EMBEDDING_TRY_SECONDS,
        )
    except Exception as error:
        raise EmbeddingError(obstacle(error, "base_url"), UNCHANGED) from None
    ask = partial(_request, client, model, dimensions)
    try:
        vectors, refused = await _vectors(ask, texts)
        if not refused:
            return vectors
        which = f"{counted(len(refused), 'text')} of {len(texts):,}"
        what, remedy = _refusal(next(iter(refused.values())), which)
        failure = RefusedTextError(what, UNCHANGED, remedy)
        failure.keys = set(refused)
    except EmbeddingError:
        raise
    except Exception as error:
        answered = isinstance(error, openai.APIStatusError)
        what, remedy = _failure(error, bool(api_key)) if answered else _silence(error)
        failure = EmbeddingError(what, UNCHANGED, remedy)
        failure.may_pass = _may_pass(error)
    raise failure  # without its cause, which may contain the key


async def _vectors(
    ask: Callable[[list[str]], Awaitable[list[list[float]]]], texts: list[str]
) -> tuple[list[list[float]], dict[UUID, openai.APIStatusError]]:
    """The vectors of the texts that the service accepts, in their order, asking for fewer at once
    where it refuses many; and, by its key, how it refuses each of the others alone.
    """
    vectors: list[list[float]] = []
    refused: dict[UUID, openai.APIStatusError] = {}
    starts = range(0, len(texts), EMBEDDING_BATCH)
    waiting = [texts[start : start + EMBEDDING_BATCH] for start in starts]
    while waiting:
        some = waiting.pop(0)
        try:
            vectors += await ask(some)
        except openai.APIStatusError as error:
            alone = len(texts) == 1 and _may_pass(error)  # a failure that anything may have caused
            if error.status_code not in _TOO_MUCH or alone:
                raise
            await ask([_HARMLESS])  # raises if the texts are not the cause
            middle = len(some) // 2
            if middle:
                waiting[:0] = some[:middle], some[middle:]
            else:
                refused[point_id(some[0])] = error
    return vectors, refused


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


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, openai.RateLimitError):
        return error.code != "insufficient_quota"
    return isinstance(error, (openai.InternalServerError, *_SILENT))


def _asked_seconds(error: BaseException | None) -> float:
    """How long the service asks to wait, in Retry-After; below 0 or nan if it does not say."""
    asked = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    with suppress(ValueError):
        return float(asked)
    with suppress(ValueError, TypeError, OverflowError):  # TypeError: a time without a zone
        return (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
    return -1.0


def _seconds_to_wait(state: RetryCallState) -> float:
    """What the service asks for, within reason; else 0.5 s, then 1 s."""
    asked = _asked_seconds(state.outcome.exception() if state.outcome else None)
    seconds = asked if asked >= 0 else 0.5 * 2 ** (state.attempt_number - 1)
    return min(seconds, EMBEDDING_MAX_WAIT_SECONDS)


@retry(
    stop=stop_after_attempt(EMBEDDING_TRIES),
    wait=_seconds_to_wait,
    retry=retry_if_exception(_may_pass),
    reraise=True,
)
async def _request(
    client: AsyncOpenAI, model: str, dimensions: int | None, texts: list[str]
) -> list[list[float]]:
    # Not `client.embeddings.create`, which always sends an `encoding_format`: some compatible
    # services refuse that, and some refuse `dimensions`.
    body = {"model": model, "input": texts} | ({"dimensions": dimensions} if dimensions else {})
    try:
        async with asyncio.timeout(EMBEDDING_TRY_SECONDS):
            answer = await client.post("/embeddings", body=body, cast_to=CreateEmbeddingResponse)
        # The SDK checks no types, because services differ: these are what the answer contains.
        vectors = {each.index: [*map(float, each.embedding)] for each in answer.data}
        number = len(answer.data)
    except (ArithmeticError, AttributeError, TypeError, ValueError):  # which may quote the answer
        raise unusable("something that is not a list of vectors") from None
    if number != len(texts) or vectors.keys() != set(range(number)):
        raise unusable(f"{number} vectors, not one for each of {len(texts)} texts")
    return [vectors[index] for index in range(number)]


def _silence(error: Exception) -> tuple[str, str]:
    if not isinstance(error, _SILENT):
        kind = type(error).__name__
        return f"{_SERVICE} could not be asked ({kind}).", "Check its address."
    if lacking := shortage(error):
        return f"{_SERVICE} was not reached: {lacking}", ""
    late = isinstance(error, openai.APITimeoutError | TimeoutError)
    failure = "did not answer in time" if late else "could not be reached"
    return (
        f"{_SERVICE} {failure}, in {EMBEDDING_TRIES} tries.",
        "Check that the service is running, then the network and the service's address"
        f"{proxied()}, and try again.",
    )


def _refusal(error: openai.APIStatusError, which: str) -> tuple[str, str]:
    said, remedy = "", "The text may be too long, or the model may not accept `dimensions`."
    for pattern, (cause, advice) in _CAUSES.items():
        if re.search(pattern, str(error.body), re.IGNORECASE):
            said, remedy = f" It says {cause}.", advice
            break
    return f"{_SERVICE} refused {which} (HTTP {error.status_code}).{said}", remedy


def _failure(error: openai.APIStatusError, with_key: bool) -> tuple[str, str]:
    status, wait = error.status_code, ""
    if status < 400:
        location = error.response.headers.get("location", "")
        where = redirection(_SERVICE, status, str(error.request.url), location)
        return where, "If that is the right address, set base_url to it."
    if status in (401, 403):
        reason, remedy = "wants an API key, and none is set", SET_KEY
        if with_key:
            reason, remedy = "rejected the API key", "Check OPENAI_API_KEY."
    elif status == 404 and _NO_MODEL.match(str(error.body)):
        reason, remedy = "does not know this model", "Check embedding_model and base_url."
    elif status == 404:
        reason = "has nothing at this address"
        remedy = "Check base_url (or OPENAI_BASE_URL): for most services it ends with /v1."
    elif status == 429 and error.code == "insufficient_quota":
        reason, remedy = "reports that the account's quota is used up", "Check its billing."
    elif status == 500 and re.search(_OF_LLAMA_CPP, str(error.body), re.IGNORECASE):
        return _refusal(error, "the request")
    elif status == 429 or status >= 500:
        reason = f"still failed after {EMBEDDING_TRIES} tries"
        remedy = "Try again later; if it keeps failing, look into the service's own log."
        asked = _asked_seconds(error)
        if EMBEDDING_MAX_WAIT_SECONDS < asked <= _LONGEST_ASKED_SECONDS:
            long = f"{asked:.0f} seconds" if asked < 120 else f"{asked / 60:,.0f} minutes"
            wait, remedy = f" It asks to wait {long}.", "Try again then."
    else:
        return _refusal(error, "the request")
    return f"{_SERVICE} {reason} (HTTP {status}).{wait}", remedy
