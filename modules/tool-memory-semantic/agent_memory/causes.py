"""Says in a sentence what went wrong when an error is not one of ours."""

import shlex
import sys
from pathlib import Path
from traceback import extract_tb, walk_tb

from memory_semantic import shortage


def cause(error: Exception) -> str:
    """What happened, in a sentence. An error's own text may quote a memory, so an unexpected one is
    described only by its kind and by where it was raised.
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0].replace("yaml", "pyyaml")
        line = f"uv pip install --python {shlex.quote(sys.executable)} {package}"
        why = f"This needs the package {package}, a part of the extra [cli]. Nothing was changed."
        return f"{why} To install it alone: {line}"
    frames = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    if isinstance(error, OSError) and any(code.co_name == "echo" for code in frames):
        done = "What was done before that stays done."
        return f"Standard output cannot be written: {_reason(error)}. {done}"
    lacking = shortage(error)
    if isinstance(error, OSError) and (error.filename or not lacking):
        advice = lacking.partition(". ")[2]  # the second of its sentences
        return f"{error.filename or 'A file'} cannot be used: {_reason(error)}. {advice}".rstrip()
    if lacking:
        return lacking
    where = extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {Path(where.filename).name}, line {where.lineno}"
    return f"agent-memory failed unexpectedly ({place}). Please report this."


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
