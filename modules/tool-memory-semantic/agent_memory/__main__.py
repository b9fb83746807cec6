"""Starts the command `agent-memory`."""

import sys


def main() -> None:
    """Run the command line. Without the extra `cli` it says how to get it (exit code 1)."""
    try:
        from .cli import cli
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(
            "agent-memory is installed without its command line. Install it with the extra: "
            'uv tool install "amplifier-module-tool-memory-semantic[cli] @ …"; the README has the '
            "whole command."
        )
    cli(prog_name="agent-memory")


if __name__ == "__main__":
    main()
