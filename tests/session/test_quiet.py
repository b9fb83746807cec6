"""Nothing is left behind: no output, no thread, no temporary file, no warning.

There is nothing to close, so nothing can be closed twice or used after closing.
"""

from pathlib import Path

import pytest
from processes import run


def test_a_process_that_used_its_memory_ends_without_a_trace(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    output = run(
        root,
        """
import threading
async def main():
    memory_id = await storage().store("x")
    await asyncio.gather(*(storage().search("x") for _ in range(5)))
    await storage().delete([memory_id])
asyncio.run(main())
others = [t for t in threading.enumerate() if t is not threading.main_thread()]
assert all(t.name.startswith("agent-memory") for t in others), others
""",
    )
    assert output == ""
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "home").iterdir()) == []
    assert {path.name for path in root.iterdir()} == {"sam"}
    assert not list(root.rglob("*.tmp"))
