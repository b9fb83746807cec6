"""Starts the command `agent-memory`."""

import io
import os
import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Run the command line. Without the extra `cli` it says how to get it (exit code 1)."""
    if not all(find_spec(package) for package in ("click", "lz4", "rich", "yaml")):
        sys.exit(
            "agent-memory is installed without its command line. Install it with the extra cli: "
            'uv tool install "amplifier-module-tool-memory-semantic[cli] @ …"; the README has the '
            "whole command."
        )
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a memory may hold what the locale has not
            stream.reconfigure(errors="backslashreplace")
    try:
        from .cli import cli

        cli(prog_name="agent-memory")
    except Exception as error:
        from memory_semantic.resources import explanation, shortage

        number = shortage(error)
        if not number:
            raise
        sys.exit(f"Error: {explanation(number)}")


if __name__ == "__main__":
    main()
