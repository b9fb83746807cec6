"""Starts the command `agent-memory`."""

import sys  # and nothing else, so that Ctrl-C finds `main` from the first moment


def main() -> None:
    """Run the command line. Without the extra `cli` it says how to get it (exit code 1)."""
    try:
        _run()
    except KeyboardInterrupt:  # while it was loading; later ones are the commands' own
        sys.exit("Interrupted before it began. Nothing was changed.")
    finally:
        _flush()


def _flush() -> None:
    """What cannot be written was told; Python would try again at its end, and tell it worse."""
    import os

    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run() -> None:
    import gc
    import io
    import os
    from importlib.util import find_spec
    from pathlib import Path

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
    # A twentieth of the time of a short command each: looking for garbage while modules are loaded,
    # and asking every package that is installed whether it is a plugin of pydantic.
    gc.set_threshold(100_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from .cli import cli

        cli(prog_name="agent-memory")
    except Exception as error:  # while it loads, or of the help; a command tells its own
        from memory_semantic import shortage_of

        from .causes import cause

        if not (isinstance(error, OSError) or shortage_of(error)):
            raise
        sys.exit(f"Error: {cause(error)}")


if __name__ == "__main__":
    main()
