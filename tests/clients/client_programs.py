"""The programs of the clients, from npm. `python tests/clients/client_programs.py` installs these
versions, and prints the folder they are in; it ends with 3 where they cannot be had or do not run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

# The packages on npm, and the versions with which all this was seen to work.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "copilot": ("@github/copilot", "1.0.102"),
}
# Seconds that a download of 300 MB may take, and that a program may take to say its version.
DOWNLOAD, START = 600, 60


def install() -> Path:
    """The folder of the programs, which are fetched once for each set of versions. Raises OSError
    or SubprocessError where they cannot be had, or do not run.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    packages = [f"{package}@{version}" for package, version in PACKAGES.values()]
    folder = cache / "agent-memory-clients" / sha256(" ".join(packages).encode()).hexdigest()[:16]
    if not folder.exists():
        unfinished = folder.with_suffix(".tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(unfinished), *packages]
        subprocess.run(npm, check=True, timeout=DOWNLOAD, stdout=sys.stderr)
        unfinished.rename(folder)
    programs = folder / "node_modules/.bin"
    with tempfile.TemporaryDirectory() as home:
        for name, (_, version) in PACKAGES.items():
            said = subprocess.run(
                [programs / name, "--version"],
                env=environment(Path(home), programs, os.environ.get("PATH", "")),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=START,
            )
            if version not in said.stdout:  # such as a Node that is too old for it
                raise OSError(f"{name} does not say its version: {said.stdout}{said.stderr}"[:500])
    return programs


def environment(home: Path, programs: Path, path: str) -> dict[str, str]:
    """What a program finds in its environment: nothing of the person's who runs the tests."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PATH": path,
        # Copilot CLI unpacks 200 MB there, once for all homes.
        "XDG_CACHE_HOME": str(programs.parents[1] / "unpacked"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }


if __name__ == "__main__":
    try:
        print(install())
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(3)
