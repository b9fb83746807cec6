"""Models that run on this machine: `model use`, `model list`."""

import os
from functools import partial
from typing import Any

import click
from memory_semantic import InputError, counted, limits, readable_size

from .. import interrupt
from ..options import command, yes_option
from ..session import Session, confirm, run, with_progress
from .reembed import WHOLE, tell_settings

_HUB = "https://huggingface.co"
_INTERRUPTED = "\nInterrupted. Nothing was changed. Run it again; the fetching begins anew."


@click.group("model")
def model() -> None:
    """Use a model that runs on this machine, or list those that can."""


@command("model use multilingual", "model use BAAI/bge-small-en-v1.5", "model use local")
@click.argument("name")
@yes_option
def use(session: Session, name: str, yes: bool) -> None:
    """Fetch a model if need be, and give it to the agent's store.

    NAME is local, static, multilingual, or one that `agent-memory model list --all` shows. Says
    what it will do, and asks; installs nothing. The store stays usable meanwhile, and is made if
    there is none; its model is used in all sessions. Safe to rerun after an interruption, and
    replaces damaged files.
    """
    import memory_models
    from memory_semantic import EmbeddingGenerator, upkeep

    out, place, storage = session.out, session.place, session.storage
    generator = EmbeddingGenerator(name)
    real = generator.model
    fetchable = None if real in limits.BUILT_IN_MODELS else _fetchable(real)
    missing = bool(fetchable) and not memory_models.works(real)
    info, number = run(storage.info()), run(storage.count())
    steps = []
    if fetchable and missing:
        size, hub = readable_size(fetchable["size_in_GB"] * 1e9), os.environ.get("HF_ENDPOINT")
        steps.append(f"fetches {size} from {hub or _HUB}, licence {fetchable['license']}")
    if info and (missing or info.model[:2] != (real, generator.version)):
        maybe = missing and info.model.model == real  # these may be the files it was made with
        if place.url != limits.HERE and not maybe:  # the error says how to do it there
            other = info.model_copy(update={"model": info.model._replace(model=real)})
            run(upkeep.reembed(place, other, generator, lambda *_: None))
        why = "if these are other files" if maybe else f"(so far with {info.model.model})"
        steps.append(f"embeds {counted(number)} of {session.agent} anew {why}")
    if info is None:
        steps.append(f"makes a store for {session.agent}")
    if steps:
        out.note("\n  ".join([f"To use {real}, this", *steps]))
        confirm(session, "Start?", yes)
    if missing:
        interrupt.end_at_once(_INTERRUPTED)
        memory_models.fetch(real, show_progress=not out.as_json)
        interrupt.raise_again()
    only = {"embedding_model": name, "base_url": None, "dimensions": None}
    wanted = run(upkeep.info_with(place, storage.config.model_copy(update=only), generator))
    if info is None:
        number = run(place.run(lambda store: store.count(), create=wanted)) or 0
    elif place.url == limits.HERE or wanted.model != info.model:
        number = with_progress(session, partial(upkeep.reembed, place, wanted, generator), WHOLE)
    facts = {"agent": session.agent, "memories": number, "model": real}
    out.json({**facts, "version": generator.version})
    out.line(f"{counted(number)} of {session.agent} with the model {real}.")
    tell_settings(session, wanted, generator)
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
