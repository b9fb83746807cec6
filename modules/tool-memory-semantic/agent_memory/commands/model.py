"""Models that run on this machine: `model fetch`, `model list`."""

import click
from memory_semantic import readable_size

from ..options import command
from ..session import Session


@click.group("model")
def model() -> None:
    """Fetch models that run on this machine, and list them."""


@command("model fetch multilingual", "model fetch BAAI/bge-small-en-v1.5", of_agent=False)
@click.argument("name")
def fetch(session: Session, name: str) -> None:
    """Fetch a model once; from then on it runs on this machine, without the network.

    NAME is english, multilingual, or one that `agent-memory model list --all` shows. Safe to rerun:
    resumes after an interruption, and replaces damaged files.
    """
    import memory_models

    found = memory_models.fetch(name, show_progress=not session.out.as_json)
    size = sum(found.files.values())
    facts = {"model": found.model, "version": found.version, "bytes": size}
    session.out.json({**facts, "dimensions": found.dimensions, "folder": str(found.path)})
    session.out.line(
        f"{found.model} is here: {readable_size(size)}, {found.dimensions} dimensions."
    )
    session.out.note(
        f"Set embedding_model: {name}, or change an existing store: "
        f"agent-memory reembed --model {name}"
    )


@command("model list", "model list --all --json", of_agent=False)
@click.option("--all", "-a", "everything", is_flag=True, help="All that can be fetched.")
def list_(session: Session, everything: bool) -> None:
    """List the recommended models, and those that were fetched."""
    import memory_models

    names = {real: name for name, real in memory_models.RECOMMENDED.items()}
    here = {each.model for each in memory_models.all_fetched()}

    def state(name: str) -> str:
        if name not in here:
            return "not fetched"
        return "damaged" if memory_models.missing(name) else "fetched"

    rows = [
        {**each._asdict(), "name": names.get(each.model, ""), "state": state(each.model)}
        for each in memory_models.listed()
        if everything or each.model in here | names.keys()
    ]
    session.out.json(rows)
    cells = (
        [row["state"], readable_size(row["size"]), row["license"], row["name"] or "-", row["model"]]
        for row in rows
    )
    session.out.table(("state", "size", "licence", "name", "model"), cells)


model.add_command(fetch)
model.add_command(list_)
