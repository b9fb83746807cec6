"""Ollama, LM Studio and llama.cpp: the blocks of docs/models.md, against what answers like them."""

import json
import re
from typing import Any

import pytest
import yaml
from conftest import MakeStorage
from embeddings_server import Answer, EmbeddingsServer, vector_of
from memory_semantic import EmbeddingError
from scripted import REPOSITORY
from tenacity import wait_none

PAGE = (REPOSITORY / "docs/models.md").read_text()
NAMES = ("Ollama", "LM Studio", "llama.cpp")


def block(name: str) -> dict[str, Any]:
    """The block that a person pastes for this program."""
    found = PAGE.split(f"**{name}**")[1]
    text = re.findall(r"```yaml\n(.*?)```", found, re.DOTALL)[0]
    return yaml.safe_load(text)["overrides"]["tool-memory-semantic"]["config"]


def ollama(request: dict[str, Any]) -> Answer:
    if request["model"] != block("Ollama")["embedding_model"]:
        message = f'model "{request["model"]}" not found, try pulling it first'
        told = {"message": message, "type": "not_found_error", "param": None, "code": None}
        return 404, {}, json.dumps({"error": told}).encode()
    return answer(request, model=request["model"], usage={"prompt_tokens": 9, "total_tokens": 9})


def lm_studio(request: dict[str, Any]) -> Answer:
    """It answers with a longer model name than was asked for, and counts no tokens."""
    model = f"{request['model']}@q8_0"
    return answer(request, model=model, usage={"prompt_tokens": 0, "total_tokens": 0})


def llama_cpp(request: dict[str, Any]) -> Answer:
    if max(map(len, request["input"])) > 4 * 512:
        message = "input (900 tokens) is too large to process. increase the physical batch size"
        told = {"code": 500, "message": message, "type": "server_error"}
        return 500, {}, json.dumps({"error": told}).encode()
    return answer(request, model="", usage={"prompt_tokens": 9, "total_tokens": 9})


ANSWERS = {"Ollama": ollama, "LM Studio": lm_studio, "llama.cpp": llama_cpp}


def answer(request: dict[str, Any], **told: Any) -> Answer:
    """32-bit vectors, not of length 1, the last one first, because nobody promises an order."""
    assert request["encoding_format"] == "float" and "dimensions" not in request
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, 1024)}
        for index, text in enumerate(request["input"])
    ]
    return 200, {}, json.dumps({"object": "list", "data": data[::-1], **told}).encode()


class Program(EmbeddingsServer):
    """A server that answers like one of the programs."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.vectors = ANSWERS[name]


@pytest.mark.parametrize("name", NAMES)
async def test_the_block_to_paste_works(make_storage: MakeStorage, name: str) -> None:
    config = block(name)
    assert re.fullmatch(r"http://localhost:\d+/v1", config["base_url"])
    with Program(name) as program:
        storage = make_storage(**{**config, "base_url": program.base_url})
        await storage.store_many(["We chose PostgreSQL.", "Deploys are frozen."])
        assert (await storage.search("We chose PostgreSQL."))[0].content == "We chose PostgreSQL."
        assert {request["model"] for request in program.requests} == {config["embedding_model"]}
        assert set(program.keys) == {"Bearer none"}


async def test_a_model_that_was_not_pulled_is_reported_as_unknown(
    make_storage: MakeStorage,
) -> None:
    with Program("Ollama") as program:
        storage = make_storage(embedding_model="other", base_url=program.base_url)
        with pytest.raises(EmbeddingError, match=r"does not know this model \(HTTP 404\)"):
            await storage.store("x")


async def test_a_text_that_does_not_fit_llama_cpp_s_batch_stores_nothing(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_semantic.embeddings.service._request.retry.wait", wait_none())
    with Program("llama.cpp") as program:
        storage = make_storage(**{**block("llama.cpp"), "base_url": program.base_url})
        with pytest.raises(EmbeddingError, match=r"HTTP 500\)\. Nothing was changed.*own log"):
            await storage.store("word " * 1000)
        assert await storage.count() == 0


def test_what_the_page_says_about_this_machine_is_true() -> None:
    from memory_models import catalogue, running

    for name, real in catalogue.RECOMMENDED.items():
        assert f"| `{real}` | `{name}` |" in PAGE
    assert (
        f'"{running.PACKAGE}"' in PAGE
        and running._FOLDER in PAGE
        and running._FOLDER_VARIABLE in PAGE
    )
    assert f"mean of {len(catalogue.SAMPLE)} texts" in PAGE
    project = (REPOSITORY / "modules/tool-memory-semantic/pyproject.toml").read_text()
    assert f'fastembed = ["{running.PACKAGE}"]' in project
