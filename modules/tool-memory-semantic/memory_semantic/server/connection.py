"""Requests to a Qdrant server: three tries where that may help, and errors for people."""

import os
import shlex
import sys
from collections.abc import Callable
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from memory_semantic.errors import StorageError
from memory_semantic.network import obstacle, proxied, redirection

from .config import ServerConfig

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http.exceptions import UnexpectedResponse
    from tenacity import RetryCallState

T = TypeVar("T")

TRIES = 3
# A server may ask for at most so many seconds between two tries.
MAX_WAIT_SECONDS = 10.0

_NEEDS_CLIENT = (
    "qdrant_url is set, but the client of the server is not installed. Install it (uv pip install "
    f'--python {shlex.quote(sys.executable)} "qdrant-client>=1.20,<1.21").'
)


_NONSENSE = "gave an answer that is none of Qdrant's. Check qdrant_url."


class MissingError(StorageError):
    """The server has nothing of that name."""


class ExistsError(StorageError):
    """The server has something of that name already."""


class RefusedError(StorageError):
    """The server does not take a request as it is."""


class Connection:
    """Requests to the server at `url`. Waiting between tries ends once `cancelled` is set."""

    def __init__(self, url: str, config: ServerConfig, cancelled: Event) -> None:
        self._url = url
        self._config = config
        self._cancelled = cancelled

    def wait(self, seconds: float) -> bool:
        """Pause; whether the call was cancelled meanwhile."""
        return self._cancelled.wait(seconds)

    def ask(self, request: Callable[["QdrantClient"], T]) -> T:
        """The answer to `request`, which is made again if what stops it may pass.

        Raises StorageError, whose text holds neither the key nor anything that was sent.
        """
        try:
            import qdrant_client  # noqa: F401 - takes a second, so not before it is needed
            from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
        except ImportError:
            raise StorageError(_NEEDS_CLIENT) from None
        from qdrant_client.common.client_exceptions import QdrantException
        from tenacity import Retrying, retry_if_exception, sleep_using_event, stop_after_attempt

        def stop_waiting(state: "RetryCallState") -> None:
            if self._cancelled.is_set() and state.attempt_number > 1:
                raise StorageError("The call was cancelled while it waited.")

        tries = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=_seconds_to_wait,
            retry=retry_if_exception(_may_pass),
            sleep=sleep_using_event(self._cancelled),
            before=stop_waiting,
            reraise=True,
        )
        server = f"The Qdrant server at {urlsplit(self._url).netloc}"
        try:
            client = connect(self._url, self._config.qdrant_api_key, self._config.qdrant_timeout)
        except Exception as error:
            raise StorageError(f"{server} was not asked. {obstacle(error, 'qdrant_url')}") from None
        try:
            return tries(request, client)
        except StorageError:
            raise
        except UnexpectedResponse as error:
            failure = _refusal(server, self._url, error)
        except QdrantException:
            failure = StorageError(f"{server} has too much to do (HTTP 429). Try again later.")
        except ResponseHandlingException as error:
            failure = StorageError(f"{server} {_silence(error)}")
        except Exception:
            failure = StorageError(f"{server} {_NONSENSE}")
        raise failure  # not from those, which hold what the server said


@cache
def connect(url: str, api_key: str | None, seconds: int) -> "QdrantClient":
    """The client of this process for the server at `url`; it keeps its connections open."""
    from qdrant_client import QdrantClient

    from .deadline import deadline

    # As a header the key causes no warning on the host's standard error where it goes without TLS,
    # as it may inside a cluster.
    key = {"api-key": api_key} if api_key else None
    return QdrantClient(
        url=url,
        headers=key,
        timeout=seconds,
        check_compatibility=False,
        event_hooks={"response": [deadline(seconds)]},
    )


# A connection that parent and child share would mix up their answers.
os.register_at_fork(after_in_child=connect.cache_clear)


def _may_pass(error: BaseException) -> bool:
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return status in (408, 429) or (status >= 500 and not _is_full(error))
    if isinstance(error, ResponseHandlingException):
        return _is_transport(error)
    return isinstance(error, QdrantException)  # HTTP 429 with Retry-After


def _seconds_to_wait(state: "RetryCallState") -> float:
    """What the server asks for in Retry-After, within reason; else 0.5 s, then 1 s."""
    error = state.outcome.exception() if state.outcome else None
    header = getattr(error, "headers", {}).get("retry-after", "")
    asked = getattr(error, "retry_after_s", int(header) if header.isdecimal() else None)
    seconds = 0.5 * 2 ** (state.attempt_number - 1) if asked is None else asked
    return min(max(seconds, 0), MAX_WAIT_SECONDS)


def _is_transport(error: Exception) -> bool:
    from httpx import TransportError

    return isinstance(getattr(error, "source", None), TransportError)


def _silence(error: Exception) -> str:
    from httpx import TimeoutException

    if not _is_transport(error):
        return _NONSENSE
    late = isinstance(getattr(error, "source", None), TimeoutException)
    failure = "did not answer in time" if late else "could not be reached"
    return f"{failure}, in {TRIES} tries. Check qdrant_url{proxied()}, and whether the server runs."


def _is_full(error: "UnexpectedResponse") -> bool:
    words = error.content.lower()
    return error.status_code == 507 or b"no space left" in words or b"out of disk" in words


def _refusal(server: str, url: str, error: "UnexpectedResponse") -> StorageError:
    status = error.status_code or 0
    if 300 <= status < 400:
        where = redirection(server, status, url, error.headers.get("location", ""))
        return StorageError(f"{where} If that is the right address, set qdrant_url to it.")
    if _is_full(error):
        return StorageError(f"{server} is out of disk space (HTTP {status}). Give it more.")
    if status in (401, 403):
        return StorageError(
            f"{server} does not accept the API key for this (HTTP {status}). "
            "Check AGENT_MEMORY_QDRANT_API_KEY."
        )
    if status == 404 and b"doesn't exist" not in error.content:
        return StorageError(f"{server} {_NONSENSE}")
    if status == 404:
        return MissingError(f"{server} has no such collection (HTTP 404). Check qdrant_url.")
    if status == 409:
        return ExistsError(f"{server} has such a collection already (HTTP 409). Try again.")
    if status in (408, 429) or status >= 500:
        return StorageError(
            f"{server} still failed at try {TRIES} (HTTP {status}). Try again later; its log tells "
            "why."
        )
    return RefusedError(f"{server} refused the request (HTTP {status}). Its log tells why.")
