"""Models that run on this machine: `model fetch`, `model list`."""

import click

from ..options import command
from ..output import readable_size
from ..session import Session


@click.group("model")
def model() -> None:
    """Fetch models that run on this machine, and list them."""


@command("model fetch multilingual", "model fetch BAAI/bge-small-en-v1.5", of_agent=False)
@click.argument("name")
def fetch(session: Session, name: str) -> None:
    """Fetch a model once; from then on it runs on this machine, without the network.

    NAME is english, multilingual, or one that `agent-memory model list --all` shows. Safe to rerun:
    resumes after an interruption, and mends what was damaged.
    """
    from memory_semantic import models

    found = models.fetch(name, show_progress=not session.out.as_json)
    size = sum(found.files.values())
    if session.out.as_json:
        facts = {"model": found.model, "version": found.version, "bytes": size}
        session.out.json({**facts, "dimensions": found.dimensions, "folder": str(found.path)})
        return
    session.out.line(
        f"{found.model} is here: {readable_size(size)}, {found.dimensions} dimensions."
    )
    session.out.note(
        f"Set embedding_model: {name}, or give it to a store that exists: "
        f"agent-memory reembed --model {name}"
    )


@command("model list", "model list --all --json", of_agent=False)
@click.option("--all", "-a", "everything", is_flag=True, help="All that can be fetched.")
def list_(session: Session, everything: bool) -> None:
    """List the recommended models, and those that were fetched."""
    from memory_semantic import models

    names = {real: name for name, real in models.RECOMMENDED.items()}
    here = {each.model for each in models.all_fetched()}
    rows = []
    for each in models.listed():
        if everything or each.model in here | names.keys():
            state = "not fetched" if each.model not in here else "fetched"
            if each.model in here and models.missing(each.model):
                state = "damaged"
            rows.append({**each._asdict(), "name": names.get(each.model, ""), "state": state})
    if session.out.as_json:
        session.out.json(rows)
        return
    session.out.table(
        ("STATE", "SIZE", "LICENCE", "NAME", "MODEL"),
        [
            (
                str(row["state"]),
                readable_size(int(row["size"])),
                str(row["license"]),
                str(row["name"]) or "-",
                str(row["model"]),
            )
            for row in rows
        ],
    )


model.add_command(fetch)
model.add_command(list_)
