"""With AMPLIFIER_LOOPS naming the folders of Amplifier's own loops, sessions run in those too."""

from typing import Any

import conversation
import pytest
from memory_hooks import recall
from scripted import LOOPS


@pytest.fixture(params=LOOPS)
def memory(
    memory: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The config of the memory tools of `sam`, for sessions in each loop."""
    monkeypatch.setattr(conversation, "loop", request.param)
    return memory


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a busy machine time, except in the test about time."""
    monkeypatch.setattr(recall, "MAX_SECONDS", 30.0)
