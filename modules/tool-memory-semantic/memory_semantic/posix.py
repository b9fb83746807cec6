"""What this package needs of the operating system, said in words where it is not there: locks that
end with their process, and calls at a fork. Windows has neither.
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
