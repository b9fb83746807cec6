"""What this package needs from the operating system: locks that end with their process, and hooks
at a fork. Windows has neither; importing this module there raises an error that says so.
"""

from .errors import UNCHANGED, StorageError

try:
    import fcntl
except ImportError:
    raise StorageError(
        "agent-memory runs on Linux, on macOS, and on Windows inside WSL: this Python has no file "
        f"locks (fcntl). {UNCHANGED} On Windows, install and run it inside WSL."
    ) from None

__all__ = ["fcntl"]
