"""Claude Code and Codex themselves, from npm, in a home of their own, with scripted models.

`PYTHONPATH=tests python tests/clients/real_clients.py` installs these versions and prints where.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from command import EXECUTABLE
from scripted_models import Request, Turn, serving

# The packages on npm, and the versions with which all this was seen to work.
PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
VERSIONS = {"claude": "2.1.332", "codex": "0.171.0"}
# Where the programs are; without it, nothing here runs.
VARIABLE = "AGENT_MEMORY_TEST_CLIENTS"
# Seconds. A session takes about two, a download of 500 MB minutes.
SESSION, DOWNLOAD = 60, 600
OWN = re.compile("ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|COPILOT|AMPLIFIER|AGENT_MEMORY")


def install() -> Path:
    """The folder of the programs, which are fetched once for each set of versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = cache / "agent-memory-clients" / "-".join(VERSIONS.values())
    programs = folder / "node_modules/.bin"
    if not all((programs / each).exists() for each in PACKAGES):
        packages = [f"{package}@{VERSIONS[name]}" for name, package in PACKAGES.items()]
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        subprocess.run(npm, check=True, timeout=DOWNLOAD, stdout=sys.stderr)
    return programs


@dataclass
class Session:
    """What a client printed, and what it sent to the model."""

    client: str
    printed: str
    requests: list[Request]

    def expects(self, holds: object, what: str) -> None:
        """Fail with the client's name and version if it behaves otherwise."""
        assert holds, (
            f"{self.client} behaves otherwise than agent-memory expects: {what}. If it is a new "
            f"version, see docs/clients.md for what rests on this. It printed:\n{self.printed}"
        )

    def first(self) -> Request:
        """Its first request."""
        self.expects(self.requests, "it asks the model")
        return self.requests[0]


class Clients:
    """Both clients in this home, for a person who has them and the command, and nothing else of
    ours. `programs` is the folder that `install` returned.
    """

    def __init__(self, home: Path, programs: Path) -> None:
        self.home, self.project = home, home / "project"
        self.project.mkdir()
        path = home / "bin"
        path.mkdir()
        for name in PACKAGES:
            (path / name).symlink_to(programs / name)
        (path / "node").symlink_to(shutil.which("node") or "/usr/bin/node")
        (path / EXECUTABLE.name).symlink_to(EXECUTABLE)
        own = {name: value for name, value in os.environ.items() if not OWN.match(name)}
        self.environment = {**own, "HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"}
        self.environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
        self.environment |= {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}

    def run(self, *command: str, **more: str) -> str:
        """What it printed; it must end well."""
        done = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SESSION,
        )
        assert not done.returncode, (command, done.stdout)
        return done.stdout

    def claude(self, prompt: str, *turns: Turn, again: bool = False) -> Session:
        """A session of Claude Code with this prompt, in which nobody is asked for a permission; or
        the last one `again`.
        """
        with serving([*turns]) as model:
            access = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
            allowed = ("--allowedTools", "mcp__plugin_agent-memory_memory")
            last = ["-c"] if again else []
            printed = self.run("claude", *last, "-p", prompt, *allowed, **access)
        return Session("Claude Code " + VERSIONS["claude"], printed, model.requests)

    def codex(
        self, prompt: str, *turns: Turn, again: bool = False, trusted: bool = True
    ) -> Session:
        """A session of Codex with this prompt, or the last one `again`. Its hooks run as for a
        person who trusts them, which only its own screen can ask.
        """
        with serving([*turns]) as model:
            provider = f'{{name="x",base_url="{model.url}/v1",wire_api="responses"}}'
            options = ["-c", f"model_providers.x={provider}", "-c", "model_provider=x", "-m", "x"]
            options += ["--dangerously-bypass-hook-trust"] if trusted else []
            last = ["resume", "--last"] if again else []
            printed = self.run("codex", "exec", "--skip-git-repo-check", *options, *last, prompt)
        return Session("Codex " + VERSIONS["codex"], printed, model.requests)


if __name__ == "__main__":
    try:
        print(install())
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
