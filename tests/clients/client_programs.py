"""The programs of the clients, from npm. `python tests/clients/client_programs.py` installs these
versions, and prints the folder they are in.
"""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

# The packages on npm, and the versions with which all this was seen to work.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "copilot": ("@github/copilot", "1.0.102"),
}
# Seconds that a download of 300 MB may take.
DOWNLOAD = 600
START = 60  # and that a program may take to say its version


def install() -> Path:
    """The folder of the programs, which are fetched once for each set of versions. Raises OSError
    or SubprocessError where they cannot be had, or do not run.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    packages = [f"{package}@{version}" for package, version in PACKAGES.values()]
    folder = cache / "agent-memory-clients" / sha256(" ".join(packages).encode()).hexdigest()[:16]
    programs = folder / "node_modules/.bin"
    if not all((programs / each).exists() for each in PACKAGES):
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        subprocess.run(npm, check=True, timeout=DOWNLOAD, stdout=sys.stderr)
    for each in PACKAGES:  # such as a Node that is too old for one
        asked = [str(programs / each), "--version"]
        subprocess.run(
            asked, check=True, timeout=START, stdout=sys.stderr, stdin=subprocess.DEVNULL
        )
    return programs


if __name__ == "__main__":
    try:
        print(install())
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
