"""Starts the command `agent-memory`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line. Without the extra `cli` it says how to get it (exit code 1)."""
    if not all(find_spec(package) for package in ("click", "lz4", "rich", "yaml")):
        sys.exit(
            "agent-memory is installed without its command line. Install it with the extra cli: "
            'uv tool install "amplifier-module-tool-memory-semantic[cli] @ …"; the README has the '
            "whole command."
        )
    from .cli import cli

    cli(prog_name="agent-memory")


if __name__ == "__main__":
    main()
