"""Requests to a Qdrant server: three tries where that may help, and errors for people.

The client for an address, with its open connections, lasts as long as the process.
"""

import os
from collections.abc import Callable
from functools import cache
from threading import Event
from typing import TypeVar
from urllib.parse import urlsplit

import tenacity
from httpx import TimeoutException, TransportError
from memory_semantic.errors import StorageError
from memory_semantic.network import obstacle, proxied, redirection
from memory_semantic.settings import KEY_VARIABLE, ServerConfig
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

T = TypeVar("T")

TRIES = 3
PAUSE_SECONDS = 0.5  # before the second try, and twice as long before the third

_NONSENSE = "gave an answer that is not from Qdrant. Check qdrant_url."


class MissingError(StorageError):
    """The server has nothing by that name."""


class ExistsError(StorageError):
    """The server already has something by that name."""


class RefusedError(StorageError):
    """The server refused the request itself."""


class Connection:
    """Requests to the server at `url`. Waiting between tries ends once `cancelled` is set."""

    def __init__(self, url: str, config: ServerConfig, cancelled: Event) -> None:
        self._url = url
        self._config = config
        self._cancelled = cancelled
        self._server = f"The Qdrant server at {urlsplit(url).netloc}"
        self._tries = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exponential(PAUSE_SECONDS),
            retry=tenacity.retry_if_exception(_may_pass),
            sleep=self._pause,
            reraise=True,
        )

    def ask(self, request: Callable[[QdrantClient], T]) -> T:
        """The answer to `request`, which is retried if the failure may be temporary.

        Raises StorageError, whose message contains neither the key nor anything that was sent.
        """
        try:
            client = connect(self._url, self._config.qdrant_api_key, self._config.qdrant_timeout)
        except Exception as error:
            reason = obstacle(error, "qdrant_url")
            raise StorageError(f"{self._server} was not asked. {reason}") from None
        try:
            return self._tries(request, client)
        except StorageError:
            raise
        except UnexpectedResponse as error:
            failure = _refusal(self._server, self._url, error)
        except Exception as error:
            failure = StorageError(f"{self._server} {_silence(error)}")
        raise failure  # without its cause, which holds what the server said

    def _pause(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise StorageError("The call was cancelled while waiting for the server.")


@cache
def connect(url: str, api_key: str, seconds: int) -> QdrantClient:
    """This process's client for the server at `url`; it keeps its connections open."""
    # As a header, the key causes no warning on the host's standard error if it is sent without TLS,
    # as may be fine inside a cluster.
    return QdrantClient(
        url=url,
        headers={"api-key": api_key} if api_key else None,
        timeout=seconds,
        check_compatibility=False,
    )


# If parent and child shared a connection, they would mix up their answers.
os.register_at_fork(after_in_child=connect.cache_clear)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return status in (408, 429) or (status >= 500 and not _is_full(error))
    return isinstance(error, QdrantException) or _is_transport(error)  # HTTP 429 with Retry-After


def _is_transport(error: BaseException) -> bool:
    return isinstance(error, ResponseHandlingException) and isinstance(error.source, TransportError)


def _silence(error: Exception) -> str:
    if isinstance(error, QdrantException):
        return "is too busy (HTTP 429). Try again later."
    if not _is_transport(error):
        return _NONSENSE
    late = isinstance(getattr(error, "source", None), TimeoutException)
    failure = "did not answer in time" if late else "could not be reached"
    return f"{failure}, in {TRIES} tries. Check qdrant_url{proxied()}, and whether the server runs."


def _is_full(error: UnexpectedResponse) -> bool:
    words = error.content.lower()
    return error.status_code == 507 or b"no space left" in words or b"out of disk" in words


def _refusal(server: str, url: str, error: UnexpectedResponse) -> StorageError:
    status = error.status_code or 0
    kind = StorageError
    if 300 <= status < 400:
        server = redirection(server, status, url, error.headers.get("location", ""))
        reason = "If that is the right address, set qdrant_url to it."
    elif _is_full(error):
        reason = f"is out of disk space (HTTP {status}). Give it more space."
    elif status in (401, 403):
        reason = f"does not accept the API key for this (HTTP {status}). Check {KEY_VARIABLE}."
    elif status == 404 and b"No point with id" in error.content:
        server, reason = "A memory was deleted", "while this call was running."
    elif status == 404 and b"doesn't exist" not in error.content:
        reason = _NONSENSE
    elif status == 404:
        kind, reason = MissingError, "has no such collection (HTTP 404). Check qdrant_url."
    elif status == 409:
        kind, reason = ExistsError, "already has such a collection (HTTP 409). Try again."
    elif _may_pass(error):
        reason = f"failed in {TRIES} tries (HTTP {status}). Try again later; its log says why."
    else:
        kind, reason = RefusedError, f"refused the request (HTTP {status}). Its log says why."
    return kind(f"{server} {reason}")
