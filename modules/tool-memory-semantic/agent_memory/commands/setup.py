"""Give the memory to the programs of this machine: `setup`."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING

import click
from memory_semantic import mask, plain

from .. import interrupt
from ..options import command, yes_option
from ..session import Session, confirm, fail

if TYPE_CHECKING:
    from ..clients import Files, Plan, Plugin

_NOT_FOUND = (
    "agent-memory is not on the PATH, so no program could start it. Run: uv tool update-shell, "
    "open a new terminal, run this again. Nothing was changed."
)
_NOW = "Open sessions get it when they start anew. To take it back: agent-memory setup --undo"
_NAMES = ("claude", "codex", "gemini", "copilot", "vscode", "cursor")
_NOBODY = (
    f"None of {', '.join(_NAMES)} is on this machine. Tell another program to start: "
    "agent-memory mcp"
)


@command(
    "setup",
    "setup codex cursor",
    "setup --dry-run",
    "setup --undo",
    of_agent=False,
    of_store=False,
    prints=False,
)
@click.argument("names", nargs=-1, type=click.Choice(_NAMES), metavar="[CLIENT]...")
@click.option("--undo", is_flag=True, help="Take all of it back; the memories stay.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option
def setup(session: Session, names: Sequence[str], undo: bool, dry_run: bool, yes: bool) -> None:
    """Give the memory to Claude Code, Codex, Gemini, Copilot, VS Code and Cursor.

    Sets up those that it finds on this machine, or those that you name: claude, codex, gemini,
    copilot, vscode, cursor. Shows every command that it will run and every line that it will write,
    and asks. Run it again after an update.
    """
    from ..clients import clients

    chosen = [each for each in clients() if each.name in (names or _NAMES)]
    if not undo:
        if not shutil.which("agent-memory"):
            fail(_NOT_FOUND)
        if absent := [each.title for each in chosen if names and not each.found]:
            fail(f"Not on this machine: {', '.join(absent)}. Nothing was changed.")
        chosen = [each for each in chosen if each.found]
    plans: list[tuple[Plugin | Files, Plan]] = []
    failed = False
    for client in chosen:
        try:
            plan = client.plan(undo)
        except (OSError, ValueError) as error:
            session.out.warn(f"{client.title} stays as it is: {error}.")
            failed = True
            continue
        failed |= bool(plan.problems)
        if plan.commands or plan.edits or plan.problems or not undo:
            _show(session, client.title, plan)
            plans.append((client, plan))
    if not any(plan.commands or plan.edits for _, plan in plans):
        if not failed:
            session.out.line("There is nothing to do." if chosen else _NOBODY)
    elif not dry_run:
        confirm(session, "Go on?", yes)
        interrupt.raise_again()
        failed |= not all([_apply(session, client, plan) for client, plan in plans])
        session.out.note("The memories are untouched." if undo else _NOW)
    if failed:
        sys.exit(1)


def _show(session: Session, title: str, plan: "Plan") -> None:
    """What will be done to a client."""
    session.out.line(click.style(title, bold=True))
    for words in plan.commands:
        session.out.line(f"  {shlex.join(words)}")
    for file, before, after in plan.edits:
        old, new = (before or "").splitlines(), (after or "").splitlines()
        for line in unified_diff(old, new, str(file), str(file), n=1, lineterm=""):
            session.out.line(f"  {plain(mask(line)[0])}")
    for problem in plan.problems:
        session.out.warn(problem)


def _apply(session: Session, client: "Plugin | Files", plan: "Plan") -> bool:
    """Do it, and say what happened."""
    from ..clients import TRUST

    try:
        plan.apply()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        again = "Run this again" + ("" if plan.undo else ", or take it back with --undo")
        session.out.warn(f"✗ {client.title}: {error}\n  What comes before that is done. {again}.")
        return False
    rest = ", but for what is left to you above" if plan.problems else ""
    session.out.line(f"✓ {client.title}: {'taken back' if plan.undo else 'set up'}{rest}")
    if client.name == "codex" and not plan.undo:
        session.out.line(f"  Left to you: {TRUST}.")
    return True
