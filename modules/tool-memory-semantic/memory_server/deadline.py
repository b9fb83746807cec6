"""An end to answers that arrive drop by drop: httpx's time-out begins anew with each byte."""

import time
from collections.abc import Callable, Iterator

from httpx import ReadTimeout, Response, SyncByteStream


def deadline(seconds: float) -> Callable[[Response], None]:
    """A response hook of httpx: bodies must have come so long after their headers."""

    def bound(response: Response) -> None:
        if isinstance(response.stream, SyncByteStream):
            response.stream = _Bounded(response.stream, time.monotonic() + seconds)

    return bound


class _Bounded(SyncByteStream):
    def __init__(self, stream: SyncByteStream, end: float) -> None:
        self._stream = stream
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if time.monotonic() > self._end:
                raise ReadTimeout("The answer takes too long.")
            yield chunk

    def close(self) -> None:
        """Give the connection back."""
        self._stream.close()
