"""Models that run on this machine: `model use`, `model list`."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import click
from memory_semantic import AgentMemoryError, InputError, counted, limits, readable_size

from .. import interrupt
from ..options import command, yes_option
from ..session import Session, confirm, run, with_progress
from .reembed import WHOLE

_HUB = "https://huggingface.co"
_INTERRUPTED = "\nInterrupted. Nothing was changed. Run it again; the fetching begins anew."


@click.group("model")
def model() -> None:
    """Use a model that runs on this machine, or list those that can."""


@command("model use multilingual", "model use BAAI/bge-small-en-v1.5", "model use local")
@click.argument("name")
@yes_option
def use(session: Session, name: str, yes: bool) -> None:
    """Fetch a model if need be, give it to the agent's store, and set it for sessions.

    NAME is local, static, multilingual, or one that `agent-memory model list --all` shows. Says
    what it will do, and asks; installs nothing. The store stays usable meanwhile. Safe to rerun
    after an interruption, and replaces damaged files.
    """
    import memory_models
    from memory_semantic import EmbeddingGenerator, upkeep

    out, place, storage = session.out, session.place, session.storage
    generator = EmbeddingGenerator(name)
    real, config = generator.model, session.settings.config
    fetchable = None if real in limits.BUILT_IN_MODELS else _fetchable(real)
    missing = bool(fetchable) and not memory_models.works(real)
    values = {"embedding_model": name} | {other: None for other in ("base_url", "dimensions")}
    changes = {each: new for each, new in values.items() if config.get(each) != new}
    new = {each: value or "null" for each, value in changes.items()}
    writes = bool(changes) and session.settings.can_set(**changes)
    info, number = run(storage.info()), run(storage.count())
    steps = []
    if fetchable and missing:
        size, hub = readable_size(fetchable["size_in_GB"] * 1e9), os.environ.get("HF_ENDPOINT")
        steps.append(f"fetches {size} from {hub or _HUB}, licence {fetchable['license']}")
    if info and (missing or info.model[:2] != (real, generator.version)):
        if place.url != limits.HERE and info.model.model != real:  # the error says how to do it
            other = info.model_copy(update={"model": info.model._replace(model=real)})
            run(upkeep.reembed(place, other, generator, lambda *_: None))
        steps.append(f"embeds {counted(number)} of {session.agent} anew (so far with {info.model})")
    if writes:
        steps.append(f"sets {', '.join(f'{each}: {new[each]}' for each in new)} for all agents")
    elif changes:
        steps.append("prints the settings that sessions need, for you to write")
    if steps:
        out.note("\n  ".join([f"To use {real}, this", *steps]))
        if changes and (others := ", ".join(_others(session, real))):
            out.warn(f"Run it for these agents, too, with --agent: {others}.")
        confirm("Start?", yes)
    if missing:
        interrupt.end_at_once(_INTERRUPTED)
        memory_models.fetch(real, show_progress=not out.as_json)
        interrupt.raise_again()
    if info:
        new_config = storage.config.model_copy(update=values)
        wanted = run(upkeep.info_with(place, new_config, generator))
        if place.url == limits.HERE or wanted.model != info.model:
            number = with_progress(
                session, partial(upkeep.reembed, place, wanted, generator), WHOLE
            )
    file = session.settings.set(**changes) if writes else None
    facts = {"agent": session.agent, "memories": number, "model": real}
    out.json({**facts, "version": generator.version, "settings": file and str(file)})
    out.line(f"{counted(number)} of {session.agent} with the model {real}.")
    if file:
        out.note(f"Sessions get it from {file}.")
    elif changes:
        block = session.settings.to_set(**new)
        out.warn(f"Sessions need these settings from now on, in every folder. {block}")
    if fetchable:
        python = '"$(uv tool dir)/amplifier/bin/python"'
        line = f'uv pip install --python {python} "{memory_models.PACKAGE}"'
        out.note(f"Sessions need fastembed where Amplifier runs: {line}")


def _fetchable(real: str) -> dict[str, Any]:
    """What fastembed says about this model. Raises InputError for one that does not run here."""
    import memory_models

    if "/" in real and real in (listed := memory_models.listed(real)):
        return listed[real]
    raise InputError(
        f"There is no model {real!r:.80} that runs on this machine. Nothing was changed. See "
        "`agent-memory model list --all`; for a model of a service, `agent-memory reembed --help`."
    )


def _others(session: Session, real: str) -> Iterator[str]:
    """The other agents whose stores have another model."""
    for agent in session.place.agents():
        with suppress(AgentMemoryError):  # what cannot be read is no concern of this agent
            info = run(session.settings.storage(agent).info())
            if agent != session.agent and info and info.model.model != real:
                yield agent


@command("model list", "model list --all --json", of_agent=False)
@click.option("--all", "-a", "everything", is_flag=True, help="All that can be fetched.")
def list_(session: Session, everything: bool) -> None:
    """List the recommended model, and those that were fetched."""
    import memory_models

    rows = [
        {
            "model": name,
            "dimensions": one["dim"],
            "size": round(one["size_in_GB"] * 1e9),
            "license": one["license"],
            "description": one["description"],
            "name": "multilingual" if name == limits.MULTILINGUAL else "",
            "state": memory_models.state(name),
        }
        for name, one in sorted(memory_models.listed().items())
    ]
    rows = [row for row in rows if everything or row["name"] or row["state"] != "not fetched"]
    rows.sort(key=lambda row: not row["name"])
    session.out.json(rows)
    cells = (
        [row["state"], readable_size(row["size"]), row["license"], row["name"] or "-", row["model"]]
        for row in rows
    )
    session.out.table(("state", "size", "licence", "name", "model"), cells)


model.add_command(use)
model.add_command(list_)
