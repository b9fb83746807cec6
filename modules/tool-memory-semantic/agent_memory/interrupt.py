"""Ctrl-C before a command does anything, and while it fetches.

Then it ends the process at once. As an exception amid an import, Python can lose it and keep
the lock of all imports: the next thread that imports would wait for ever.
"""

import os
import signal

_said = ""


def end_at_once(said: str = "Interrupted before it began. Nothing was changed.") -> None:
    """Let Ctrl-C say this and end the process, exit code 1, until `raise_again` is called."""
    global _said
    _said = said
    signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, as something may be changed."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, f"{_said}\n".encode())
    os._exit(1)
