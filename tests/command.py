"""The command `agent-memory`, run in this process or in a separate one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from agent_memory.cli import cli
from click.testing import CliRunner, Result

EXECUTABLE = Path(sys.executable).with_name("agent-memory")

# Root ignores file permissions, unless it gives up that right.
AS_ANYBODY = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
)


def invoke(*arguments: str, input: str | IO[bytes] | None = None, code: int = 0) -> Result:
    """Run a command in this process; its exit code must be `code`."""
    result = CliRunner().invoke(cli, arguments, input=input)
    unexpected = result.exception and not isinstance(result.exception, SystemExit)
    assert not unexpected and result.exit_code == code, (result.output, result.exception)
    return result


def settings(file: str = "~/.amplifier/settings.yaml", /, **config: str) -> Path:
    """Write Amplifier's settings with this config for the memory tools; returns the file."""
    path = Path(file).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"overrides": {"tool-memory-semantic": {"config": config}}}))
    return path


class Command:
    """Runs commands on the store of `sam` under `root`, or, without, where the settings say."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path("~/.amplifier/memory").expanduser()
        self._options = ["--root", str(root)] if root else []

    def run(self, *arguments: str, input: str | IO[bytes] | None = None, code: int = 0) -> Result:
        """See `invoke`."""
        return invoke(*self._all(arguments), input=input, code=code)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """A command in a separate process."""
        return subprocess.Popen(
            [str(EXECUTABLE), *self._all(arguments)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def limited(self, limits: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command in a separate process, for a minute at most, under these limits of `ulimit`."""
        limited = f'ulimit {limits} && exec "$@"'
        return subprocess.run(
            ["bash", "-c", limited, "bash", str(EXECUTABLE), *self._all(arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def _all(self, arguments: tuple[str, ...]) -> list[str]:
        named = "--agent" in arguments
        return [*arguments, *self._options, *([] if named else ["--agent", "sam"])]
