"""The clients themselves, in a home of their own, with scripted models."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyte
from client_programs import PACKAGES, environment
from command import EXECUTABLE
from scripted_models import Request, Turn, serving

# Where the programs are; without it, nothing here runs.
VARIABLE = "AGENT_MEMORY_TEST_CLIENTS"
SESSION = 60  # seconds; it takes about two


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
        node = ["node", "-p", "process.execPath"]  # a `node` on the path may be a script
        (path / "node").symlink_to(subprocess.check_output(node, text=True).strip())
        (path / EXECUTABLE.name).symlink_to(EXECUTABLE)
        settings = home / ".gemini/settings.json"
        settings.parent.mkdir()
        settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
        self.environment = environment(home, programs, f"{path}:/usr/bin:/bin")

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

    @contextmanager
    def screen(self, *turns: Turn) -> Iterator["Screen"]:
        """Claude Code on its own screen, in a project that the person trusts."""
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {"hasCompletedOnboarding": True, "projects": {str(self.project): project}}
        file = self.home / ".claude.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **known}))
        with serving([*turns]) as model:
            access = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_AUTH_TOKEN": "none"}
            command = ["claude", "--allowedTools", "mcp__plugin_agent-memory_memory"]
            process, terminal = pty.fork()
            if not process:
                os.chdir(self.project)
                environment = {**self.environment, **access, "TERM": "xterm-256color"}
                os.execvpe(command[0], command, environment)
            try:
                yield Screen(terminal)
            finally:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                os.close(terminal)


class Screen:
    """What a program shows on this terminal."""

    def __init__(self, terminal: int) -> None:
        rows, columns = 50, 200
        self._terminal, self._screen = terminal, pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def waits_for(self, words: str, *, pressing: bytes = b"") -> None:
        """Until it shows them, on one line or several, `pressing` a key each second: a question
        takes none in its first moment.
        """
        end, next_press = time.monotonic() + SESSION, 0.0
        while "".join(words.split()) not in "".join(self._text.split()):
            now = time.monotonic()
            assert now < end, f"{words!r} is not shown, but:\n{self._text}"
            if now > next_press:
                os.write(self._terminal, pressing)
                next_press = now + 1
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    self._stream.feed(os.read(self._terminal, 65536))
                except OSError:  # it has ended
                    raise AssertionError(f"it ended before {words!r}:\n{self._text}") from None

    def type(self, text: str) -> None:
        """Type this, and then Enter."""
        os.write(self._terminal, text.encode())
        self.waits_for(text)
        os.write(self._terminal, b"\r")

    @property
    def _text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)
