"""The clients themselves, from npm, in a home of their own, with scripted models.

`PYTHONPATH=tests python tests/clients/real_clients.py` installs these versions and prints where.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from command import EXECUTABLE
from scripted_models import Request, Turn, serving

# The packages on npm, and the versions with which all this was seen to work.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "copilot": ("@github/copilot", "1.0.102"),
}
# Where the programs are; without it, nothing here runs.
VARIABLE = "AGENT_MEMORY_TEST_CLIENTS"
# Seconds. A session takes about two, a download of 300 MB minutes.
SESSION, DOWNLOAD = 60, 600
OWN = re.compile("ANTHROPIC|CLAUDE|OPENAI|CODEX|GEMINI|COPILOT|AMPLIFIER|AGENT_MEMORY")


def install() -> Path:
    """The folder of the programs, which are fetched once for each set of versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    packages = [f"{package}@{version}" for package, version in PACKAGES.values()]
    folder = cache / "agent-memory-clients" / sha256(" ".join(packages).encode()).hexdigest()[:16]
    programs = folder / "node_modules/.bin"
    if not all((programs / each).exists() for each in PACKAGES):
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
    """The clients of these names in this home, for a person who has them and the command, and
    nothing else of ours. `programs` is the folder that `install` returned.
    """

    def __init__(self, home: Path, programs: Path, names: Iterable[str] = PACKAGES) -> None:
        self.home, self.project = home, home / "project"
        self.project.mkdir()
        path = home / "bin"
        path.mkdir()
        for name in names:
            (path / name).symlink_to(programs / name)
        (path / "node").symlink_to(shutil.which("node") or "/usr/bin/node")
        (path / EXECUTABLE.name).symlink_to(EXECUTABLE)
        settings = home / ".gemini/settings.json"
        settings.parent.mkdir()
        settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
        own = {name: value for name, value in os.environ.items() if not OWN.match(name)}
        self.environment = {**own, "HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"}
        self.environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
        # Copilot CLI unpacks 200 MB there, which may serve all homes.
        self.environment["XDG_CACHE_HOME"] = str(programs.parents[1] / "unpacked")
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

    def talk(
        self, client: str, prompt: str, *turns: Turn, again: bool = False, trusted: bool = True
    ) -> Session:
        """A session of this client with this prompt, or its last one `again`, in which nobody is
        asked for a permission. Codex runs hooks as for a person who has trusted them, which only
        its own screen can ask, unless they are not `trusted`.
        """
        with serving([*turns]) as model:
            if client == "claude":
                command = ["claude", *(["-c"] if again else []), "-p", prompt]
                command += ["--allowedTools", "mcp__plugin_agent-memory_memory"]
                access = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
            elif client == "codex":
                provider = f'{{name="x",base_url="{model.url}/v1",wire_api="responses"}}'
                options = ["-c", f"model_providers.x={provider}", "-c", "model_provider=x"]
                options += ["--dangerously-bypass-hook-trust"] if trusted else []
                last = ["resume", "--last"] if again else []
                command = ["codex", "exec", "--skip-git-repo-check", "-m", "x", *options, *last]
                command, access = [*command, prompt], {}
            elif client == "gemini":
                last = ["--resume", "latest"] if again else []
                command = ["gemini", "--skip-trust", "-m", "gemini-2.5-flash", *last, "-p", prompt]
                access = {"GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "none"}
            else:
                last = ["--continue"] if again else []
                command = ["copilot", *last, "-p", prompt, "--allow-all-tools"]
                access = {"COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1", "COPILOT_MODEL": "x"}
                access |= {"COPILOT_PROVIDER_API_KEY": "none", "COPILOT_OFFLINE": "true"}
            printed = self.run(*command, **access)
        return Session(f"{client} {PACKAGES[client][1]}", printed, model.requests)


if __name__ == "__main__":
    try:
        print(install())
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
