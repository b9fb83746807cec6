"""When to ask an embeddings service again, and what to say when it does not help."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from .errors import EmbeddingError
from .models import EMBEDDING_MAX_WAIT_SECONDS, EMBEDDING_TRIES
from .network import proxied, redirection
from .resources import explanation, shortage

if TYPE_CHECKING:
    from openai import APIStatusError
    from tenacity import RetryCallState

T = TypeVar("T")

UNCHANGED = "No memory was stored or changed."


async def with_retries(request: Callable[[], Awaitable[T]]) -> T:
    """The result of `request`, which is tried three times if what stops it may pass.

    Raises EmbeddingError, whose text holds neither the key nor what was to be embedded.
    """
    import httpx2
    import openai
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    tries = AsyncRetrying(
        stop=stop_after_attempt(EMBEDDING_TRIES),
        wait=_seconds_to_wait,
        retry=retry_if_exception(_may_pass),
        sleep=pause,
        reraise=True,
    )

    async def attempt() -> T:  # tenacity awaits what is defined as a coroutine, a lambda is not
        return await request()

    try:
        return await tries(attempt)
    except EmbeddingError:
        raise
    except openai.APIStatusError as error:
        raise EmbeddingError(_refusal(error)) from None  # its text can hold the key
    except (openai.APIConnectionError, httpx2.TransportError, TimeoutError) as error:
        number = shortage(error)
        if number:
            raise EmbeddingError(
                f"The embeddings service was not reached: {explanation(number)} {UNCHANGED}"
            ) from None
        slow = openai.APITimeoutError | httpx2.TimeoutException | TimeoutError
        late = isinstance(error, slow)
        failure = "did not answer in time" if late else "could not be reached"
        raise EmbeddingError(
            f"The embeddings service {failure}, in {EMBEDDING_TRIES} tries. {UNCHANGED} "
            f"Check the network and the service's address{proxied()}, then try again."
        ) from None
    except Exception as error:
        raise EmbeddingError(
            f"The embeddings service could not be asked ({type(error).__name__}). {UNCHANGED} "
            f"Check its address{proxied()}."
        ) from None


async def pause(seconds: float) -> None:
    """What happens between two tries."""
    await asyncio.sleep(seconds)


def nonsense(answer: str) -> EmbeddingError:
    """The error for an answer that cannot be vectors of the texts."""
    return EmbeddingError(
        f"The embedding model answered with {answer}. {UNCHANGED} "
        "Check embedding_model, dimensions and base_url."
    )


def _may_pass(error: BaseException) -> bool:
    import httpx2
    import openai

    if isinstance(error, openai.APIStatusError):
        if error.status_code == 429:
            return error.code != "insufficient_quota"
        return error.status_code >= 500
    # What ends an answer while it is read, the SDK leaves as it is.
    return isinstance(error, openai.APIConnectionError | httpx2.TransportError | TimeoutError)


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
    if status < 400:
        location = error.response.headers.get("location", "")
        where = redirection("The embeddings service", status, str(error.request.url), location)
        return f"{where} {UNCHANGED} If that is the right address, set base_url to it."
    if status in (401, 403):
        reason, remedy = "rejected the API key", "Check OPENAI_API_KEY."
    elif status == 404:
        reason, remedy = "does not know this model", "Check embedding_model and base_url."
    elif status == 429 and error.code == "insufficient_quota":
        reason, remedy = "reports that the account's quota is used up", "Check its billing."
    elif status == 429 or status >= 500:
        reason, remedy = f"still failed at try {EMBEDDING_TRIES}", "Try again later."
    else:
        reason = "refused the request"
        remedy = "The text may be too long for the model, or it does not take `dimensions`."
    return f"The embeddings service {reason} (HTTP {status}). {UNCHANGED} {remedy}"
