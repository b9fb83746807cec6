"""Ctrl-C before a command does anything.

Until then it ends the process at once. As an exception amid an import, Python can lose it and keep
the lock of all imports: the next thread that imports would wait for ever.
"""

import os
import signal


def end_at_once() -> None:
    """Let Ctrl-C end the process, exit code 1, until `raise_again` is called."""
    signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on, as something may be changed."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, b"Interrupted before it began. Nothing was changed.\n")
    os._exit(1)
