"""The sentence model inside: the maker's own weights, computed rightly, in few resources."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import MakeStorage
from memory_semantic import EmbeddingError, EmbeddingGenerator
from memory_semantic.embeddings import local, minilm, static
from store_files import cut, garble, remove

REPOSITORY = Path(__file__).parents[2]
MADE = {
    "model.safetensors": "bfcd4448a2eda81ff2ed6a0941d98667b8acb0fa229346fb23f05464b2bf2623",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# The first numbers of a vector of norm 1, as the documentation of Sentence Transformers has them.
EXAMPLE = "This is an example sentence"
PUBLISHED = [0.0677, 0.0635, 0.0487, 0.0793, 0.0374, 0.0026]
# Cosines by the maker's weights in float32.
COSINES = {
    ("who is my boss?", "The user's manager is Priya Raman."): 0.4415,
    ("which database did we pick?", "We chose PostgreSQL for the users table."): 0.5771,
    ("why do cats purr?", "Deploys are frozen on Friday afternoons."): -0.0218,
}
TEXTS = [
    json.loads(line)["content"]
    for line in (REPOSITORY / "benchmarks/recall/memories.jsonl").read_text().splitlines()[:200]
]


def unit(texts: list[str]) -> Any:
    vectors = np.array(minilm.embed(texts))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_files_are_those_that_the_script_made_of_the_makers_own(tmp_path: Path) -> None:
    for name, known in MADE.items():
        assert sha256((minilm.FOLDER / name).read_bytes()).hexdigest() == known
        (tmp_path / name).write_bytes(b"another")
    spec = spec_from_file_location("make", minilm.FOLDER / "make.py")
    assert spec and spec.loader
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    with pytest.raises(SystemExit, match="Nothing was written"):
        script.main(tmp_path, tmp_path / "nowhere")


def test_its_vectors_are_the_makers() -> None:
    assert unit([EXAMPLE])[0, :6] == pytest.approx(PUBLISHED, abs=3e-3)
    for pair, cosine in COSINES.items():
        one, other = unit([*pair])
        assert one @ other == pytest.approx(cosine, abs=0.01)


def test_texts_together_have_the_vectors_that_each_has_alone() -> None:
    texts = [*TEXTS[:20], "", "word " * 1_000, "a", "🙂"]
    alone = [minilm.embed([text])[0] for text in texts]
    assert np.allclose(minilm.embed(texts), alone, atol=1e-5)


def test_it_reads_256_tokens() -> None:
    read = "word " * 254  # and two that begin and end a text
    [whole, same, shorter] = minilm.embed([read, read + "and then another thing", read[:-5]])
    assert (whole == same).all() and (whole != shorter).any()


def test_a_short_text_takes_one_thread_and_the_host_keeps_its_number() -> None:
    blas, seen, done = minilm.load().blas, set[int](), threading.Event()

    def numbers() -> set[int]:
        return {each["num_threads"] for each in blas.info()}

    def watch() -> None:
        while not done.wait(0.001):
            seen.update(numbers())

    before = numbers()
    with ThreadPoolExecutor(4) as pool:
        watching = pool.submit(watch)
        list(pool.map(lambda text: minilm.embed([text[:200]]), TEXTS[:90]))
        minilm.embed(TEXTS[:30])
        done.set()
        watching.result()
    assert numbers() == before and (1 in seen or not blas.info())  # there is none on macOS


def test_a_child_forked_while_a_thread_embeds_can_embed() -> None:
    busy = threading.Thread(target=minilm.embed, args=(TEXTS,))
    busy.start()
    while not minilm._turn.locked():
        pass
    child = os.fork()
    if not child:
        os._exit(0 if len(minilm.embed(["x"])[0]) == 384 else 3)
    assert os.waitpid(child, 0)[1] == 0
    busy.join()


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("harm", [remove, cut, garble])
async def test_damaged_files_are_an_error_that_says_what_to_do(
    harm: Any, name: str, make_storage: MakeStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in MADE:
        (tmp_path / each).write_bytes((minilm.FOLDER / each).read_bytes())
    harm(tmp_path / name)
    monkeypatch.setattr(minilm, "FOLDER", tmp_path)
    minilm._loaded.cache_clear()
    said = r"cannot be loaded: .*Reinstall .* Nothing was changed"
    with pytest.raises(EmbeddingError, match=said):
        await make_storage().store("x")
    monkeypatch.undo()
    assert len(minilm.embed(["x"])) == 1  # nothing was remembered


async def test_joined_with_the_words_and_without_it_where_it_cannot_read() -> None:
    texts = ["We chose PostgreSQL.", "데이터베이스는 무엇을 골랐지?"]
    joined = await EmbeddingGenerator("local").generate_batch(texts)
    assert [len(each) for each in joined] == [640, 640]
    words = await EmbeddingGenerator("static").generate_batch(texts)
    assert joined[1] == pytest.approx([0] * 384 + words[1])
    assert np.hypot.reduce(joined[0][384:]) ** 2 == pytest.approx(0.3 / 1.3)
    assert local.version() == f"all-MiniLM-L6-v2 int8, {static.version()}"
