"""Ollama, LM Studio and llama.cpp: the blocks of docs/models.md, against what answers like them."""

import json
import re
from typing import Any

import pytest
import yaml
from conftest import MakeStorage
from embeddings_server import Answer, EmbeddingsServer, vector_of
from memory_models import catalogue, running
from scripted import REPOSITORY

PAGE = (REPOSITORY / "docs/models.md").read_text()
# What each says besides the vectors: the model that was asked for, a longer name of it, or none;
# the tokens, or that it does not count them.
TOLD = {
    "Ollama": ("{}", {"prompt_tokens": 9, "total_tokens": 9}),
    "LM Studio": ("{}@q8_0", {"prompt_tokens": 0, "total_tokens": 0}),
    "llama.cpp": ("", {"prompt_tokens": 9, "total_tokens": 9}),
}


def block(name: str) -> dict[str, Any]:
    """The block that a person pastes for this program."""
    found = PAGE.split(f"**{name}**")[1]
    text = re.findall(r"```yaml\n(.*?)```", found, re.DOTALL)[0]
    return yaml.safe_load(text)["overrides"]["tool-memory-semantic"]["config"]


class Program(EmbeddingsServer):
    """A server that answers like one of the programs."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.model, self.usage = TOLD[name]

    def vectors(self, request: dict[str, Any]) -> Answer:
        """32-bit vectors, not of length 1, the last one first, because nobody promises an order."""
        assert request.keys() == {"model", "input"}  # more is refused by some
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text, 1024)}
            for index, text in enumerate(request["input"])
        ]
        told = {"model": self.model.format(request["model"]), "usage": self.usage}
        return 200, {}, json.dumps({"object": "list", "data": data[::-1], **told}).encode()


@pytest.mark.parametrize("name", TOLD)
async def test_the_block_to_paste_works(make_storage: MakeStorage, name: str) -> None:
    config = block(name)
    assert re.fullmatch(r"http://localhost:\d+/v1", config["base_url"])
    with Program(name) as program:
        storage = make_storage(**{**config, "base_url": program.base_url})
        await storage.store_many(["We chose PostgreSQL.", "Deploys are frozen."])
        assert (await storage.search("We chose PostgreSQL."))[0].content == "We chose PostgreSQL."
        assert {request["model"] for request in program.requests} == {config["embedding_model"]}
        assert set(program.keys) == {"Bearer none"}


def test_what_the_page_says_about_this_machine_is_true() -> None:
    for name, real in catalogue.RECOMMENDED.items():
        assert f"| `{real}` | `{name}` |" in PAGE
    for said in (f'"{running.PACKAGE}"', running._FOLDER, running._FOLDER_VARIABLE):
        assert said in PAGE
    assert f"mean of {len(catalogue.SAMPLE)} texts" in PAGE
    project = (REPOSITORY / "modules/tool-memory-semantic/pyproject.toml").read_text()
    assert f'fastembed = ["{running.PACKAGE}"]' in project
