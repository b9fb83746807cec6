"""Change the embedding model: `reembed`."""

from functools import partial
from typing import TYPE_CHECKING

import click
from memory_semantic import AgentMemoryError, counted, limits

from ..options import command, yes_option
from ..session import Session, confirm, cost, run, with_progress

if TYPE_CHECKING:
    from memory_semantic import EmbeddingGenerator, StoreInfo

# What an interruption leaves.
WHOLE = "The store is unharmed, as before or finished."


@command(
    "reembed --model text-embedding-3-small",
    "reembed --model local",
    "reembed --model nomic-embed-text --base-url http://localhost:11434/v1",
)
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    required=True,
    help='"local", one that `agent-memory model list` shows as fetched, or the name at a service.',
)
@click.option(
    "--base-url", metavar="URL", help="The service's URL.  [default: as the settings say]"
)
@click.option(
    "--dimensions", metavar="N", type=click.IntRange(1), help="The vector length to ask for."
)
@yes_option
def reembed(
    session: Session, model: str, base_url: str | None, dimensions: int | None, yes: bool
) -> None:
    """Change the embedding model of a store.

    Says what it will take, and asks. The store stays usable meanwhile. Safe to rerun: resumes after
    an interruption. With the model that the store already has, nothing is embedded, unless
    --base-url names another service; the words of its texts are added if it lacks them.
    """
    from memory_semantic import EmbeddingGenerator, upkeep

    storage, place = session.existing, session.place
    config = storage.config
    service, base_url = base_url, base_url or config.base_url
    if model == config.embedding_model:
        dimensions = dimensions or config.dimensions
    generator = EmbeddingGenerator(model, base_url=base_url, dimensions=dimensions)
    model = generator.model
    info, wanted = run(storage.info()), run(upkeep.info_with(place, config, generator))
    if service:
        wanted = wanted.model_copy(update={"endpoint": generator.endpoint})
    if info and info.embedder != wanted.embedder and place.url == limits.HERE:  # else it is refused
        memories = run(storage.get_recent(None))  # an interrupted run may have embedded some
        session.out.note(
            f"{session.agent}: from {info.model} to {wanted.model}.\n"
            f"At most {cost(memories, generator)}"
        )
        confirm(session, "Start?", yes)
    work = partial(upkeep.reembed, place, wanted, generator)
    number = with_progress(session, work, WHOLE)
    session.out.json({"agent": session.agent, "memories": number, "model": model})
    session.out.line(f"{counted(number)} of {session.agent} with the model {wanted.model}.")
    tell_settings(session, wanted, generator, base_url, dimensions)


def tell_settings(
    session: Session,
    info: "StoreInfo",
    generator: "EmbeddingGenerator",
    base_url: str | None = None,
    dimensions: int | None = None,
) -> None:
    """Tell which settings sessions need for a store with this model, unless they have them."""
    config = session.storage.config
    try:
        agree = session.storage.generator(info).endpoint == generator.endpoint
    except AgentMemoryError:
        agree = False
    if not agree:
        unset = "null" if config.base_url else None
        set_these = session.settings.to_set(
            embedding_model=generator.model,
            base_url=unset if generator.on_this_machine else base_url,
            dimensions=dimensions or (config.dimensions and "null"),
        )
        session.out.warn(f"Sessions need these settings from now on. {set_these}")
