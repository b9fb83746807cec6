"""What stops a request to a service, on this machine, is named."""

import pytest
from conftest import MakeTools
from embeddings_server import EmbeddingsServer
from memory_semantic.embeddings import service
from memory_server.connection import connect
from qdrant_server import QdrantServer
from tenacity import wait_none

KEY = "sk-very-secret"
TEXT = "a private thought"


@pytest.fixture(autouse=True)
def nothing_set_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    service._certificates.cache_clear()
    connect.cache_clear()
    for name in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        for spelling in (name, name.lower()):
            monkeypatch.delenv(spelling, raising=False)


BROKEN = {
    "socks": ("ALL_PROXY", "socks5://me:pw@127.0.0.1:1", "socksio. Install it, or name an HTTP"),
    "lower case": ("all_proxy", "socks5h://me:pw@h:1", "HTTP proxy. Check all_proxy and "),
    "no proxy": ("HTTPS_PROXY", "garbage://me:pw@x", "Check HTTPS_PROXY"),
    "no address": ("HTTP_PROXY", "http://[::1", "Check HTTP_PROXY"),
    "no certificates": ("SSL_CERT_FILE", "/nowhere.pem", "Check SSL_CERT_FILE"),
    "a folder": ("SSL_CERT_FILE", "/", "Check SSL_CERT_FILE"),
    "no key log": ("SSLKEYLOGFILE", "/nowhere/keys", "Check SSLKEYLOGFILE"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_stops_a_request_is_named(
    make_tools: MakeTools, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    variable, value, words = BROKEN[name]
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with QdrantServer() as qdrant:
        for config in ({"qdrant_url": qdrant.url}, {"base_url": server.base_url}):
            tools = await make_tools(embedding_model="m", **config)
            said = await tools.refused("memory_store", content=TEXT)
            assert words in said and "unexpectedly" not in said, config
            assert "me:pw" not in said and KEY not in said and TEXT not in said
            assert "changed" in said  # and what was
        assert qdrant.requests == [] and server.requests == []


async def test_names_a_dead_proxy(make_tools: MakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:pw@127.0.0.1:9")
    monkeypatch.setattr("memory_semantic.embeddings.service._request.retry.wait", wait_none())
    tools = await make_tools(embedding_model="m", base_url="http://embeddings.example/v1")
    said = await tools.refused("memory_store", content=TEXT)
    assert "the proxy in HTTP_PROXY" in said and "me:pw" not in said


INVALID = [
    *("localhost:6333", "http://", "http://[::1", "ftp://x", "grpc://127.0.0.1:6334"),
    *("http://127.0.0.1:port", "http://127.0.0.1:99999", "http://me:very-secret@host:6333"),
    *("http://h\n/v1", "http://h/v\r1", "http://a b/v1", "http://h\t/"),
]
VARIABLES = {"base_url": "OPENAI_BASE_URL", "qdrant_url": "AGENT_MEMORY_QDRANT_URL"}


@pytest.mark.parametrize("url", INVALID)
@pytest.mark.parametrize("setting", VARIABLES)
async def test_rejects_an_invalid_address(
    make_tools: MakeTools, monkeypatch: pytest.MonkeyPatch, setting: str, url: str
) -> None:
    tools = await make_tools(**{setting: url})
    said = await tools.refused("memory_store", content=TEXT)
    monkeypatch.setenv(VARIABLES[setting], url)
    tools = await make_tools(embedding_model="m")
    for each in (said, await tools.refused("memory_store", content=TEXT)):
        assert setting in each or VARIABLES[setting] in each
        assert "must be an address" in each and "very-secret" not in each
    if setting == "base_url":  # which the model inside does not need
        tools = await make_tools(embedding_model="local")
        assert (await tools.call("memory_store", content=TEXT))["status"] == "stored"
