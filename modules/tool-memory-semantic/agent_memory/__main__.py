"""Starts the command `agent-memory`."""

import sys  # and nothing else, so that Ctrl-C finds `main` from the first moment


def main() -> None:
    """Run the command line, or, without click, say how to install it (exit code 1)."""
    try:
        if sys.argv[1:] == ["hook"]:
            return _hook()
        _run()
    except KeyboardInterrupt:  # while loading; commands handle later ones themselves
        sys.exit("Interrupted before it began. Nothing was changed.")
    finally:
        _flush()


def _hook() -> None:
    """Answer the hook of a program, which waits for it: without what a command loads. It is never
    kept from going on.
    """
    from contextlib import suppress

    with suppress(Exception):
        from .hook import main as hook

        hook()


def _flush() -> None:
    """Flush, and drop what cannot be written: that has been reported, and Python, which would try
    again on exit, would report it worse. As it would a Ctrl-C from here on, which is too late.
    """
    import os
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run() -> None:
    from . import interrupt

    interrupt.end_at_once()
    import gc
    import io
    import os
    from pathlib import Path

    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 - stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # for characters that the locale lacks
            stream.reconfigure(errors="backslashreplace")
    # Each of these would take a twentieth of a short command's time: collecting garbage while
    # modules load, and asking every installed package whether it is a plugin of pydantic.
    gc.set_threshold(100_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from .cli import cli

        cli(prog_name="agent-memory")
    except Exception as error:  # from loading or from the help; commands report theirs
        from memory_semantic import shortage

        from .causes import cause

        if not (isinstance(error, OSError | ModuleNotFoundError) or shortage(error)):
            raise
        sys.exit(f"Error: {cause(error)}")


if __name__ == "__main__":
    main()
