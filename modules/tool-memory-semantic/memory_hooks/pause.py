"""A hook that keeps failing rests, so that no prompt waits for what does not answer."""

from time import monotonic

from memory_semantic.errors import AgentMemoryError, InputError

FAILURES = 2  # in a row: one alone may be a hiccup
# A few prompts at first; at last, no longer than a person works before trying it again.
FIRST_SECONDS, MAX_SECONDS = 30, 900


class Pause:
    """It begins after two failures in a row, doubles with each further one, ends with a success.
    `late` is why something failed if time was up.
    """

    def __init__(self, late: str) -> None:
        self._late = late
        self._failures, self._until, self._told = 0, 0.0, False

    @property
    def on(self) -> bool:
        """Whether the hook should not even try."""
        return monotonic() < self._until

    def succeeded(self) -> None:
        """End the outage; the next one is told again."""
        self._told = self._told and self._failures < FAILURES
        self._failures = 0

    def failed(self, error: BaseException) -> str:
        """Count a failure; returns what the person has not been told: why, or that it pauses."""
        if isinstance(error, InputError):  # a mistake in the settings costs no time
            return self._why(error)
        self._failures += 1
        if self._failures < FAILURES:
            return self._why(error)
        pause = min(FIRST_SECONDS * 2 ** (self._failures - FAILURES), MAX_SECONDS)
        self._until = monotonic() + pause
        if self._failures > FAILURES:
            return ""
        later = f"After {FAILURES} failures in a row, the next try comes {pause} seconds later"
        return f"{later}, and after each further failure it takes longer."

    def _why(self, error: BaseException) -> str:
        # For the person; "" if an outage has been explained.
        told, self._told = self._told, True
        if told:
            return ""
        if isinstance(error, TimeoutError):
            return self._late
        if isinstance(error, AgentMemoryError):
            return str(error)
        return f"It failed unexpectedly ({type(error).__name__})."  # its text may quote the person
