"""Where a memory comes from: what a session tells of what it stores."""

from pathlib import Path
from typing import Any

from .limits import MAX_METADATA_CHARS


def origin(coordinator: Any, stored_by: str, **more: str) -> dict[str, str]:
    """The metadata of what `stored_by` stores in the session of `coordinator`."""
    known = {
        "stored_by": stored_by,
        "session": coordinator.session_id,
        "project": project_of(coordinator),
        **more,
    }
    return {name: str(text)[:MAX_METADATA_CHARS] for name, text in known.items() if text}


def project_of(coordinator: Any) -> str:
    """The project that a session works on: the name of its working directory."""
    return Path(coordinator.get_capability("session.working_dir") or ".").absolute().name
