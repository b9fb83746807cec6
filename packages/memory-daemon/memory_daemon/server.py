"""The MCP server: five tools over HTTP, stateless, for clients of either protocol era."""

import asyncio
import inspect
import socket
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import (
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from pydantic import AnyHttpUrl, ValidationError
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from . import acb, upkeep
from .access import Access, Tokens
from .arguments import Asked, Call
from .database import Database
from .embedded import database_of
from .meaning import Meaning
from .page import LOCAL, Page
from .record import RecordEvent
from .settings import BODY_BYTES, UNCHANGED, Refused, Settings, explained, failed

INSTRUCTIONS = (
    "Memory shared by the agents of a team. Call build_acb when a session begins or its subject "
    "changes. Record what happens with record_event."
)
TOOLS: dict[str, type[Asked]] = {
    "record_event": RecordEvent,
    "build_acb": acb.BuildAcb,
    "query_decisions": acb.QueryDecisions,
    "create_handoff_packet": acb.CreateHandoffPacket,
    "get_artifact": acb.GetArtifact,
}
# How Claude Code learns that a whole bundle may be shown; characters.
LARGE_ANSWERS = {"anthropic/maxResultSizeChars": 500_000}


class _Token(AccessToken):
    access: Access


class _Verifier(Tokens):
    async def verify_token(self, token: str) -> AccessToken | None:
        access = self.find(token)
        return access and _Token(token="", client_id=access.tenant, scopes=[], access=access)


def application(settings: Settings, database: Database, meaning: Meaning) -> Starlette:
    """The web application with the tools at /mcp."""
    tools = [
        Tool(
            name=name,
            description=inspect.getdoc(model),
            input_schema=model.model_json_schema(),
            _meta=LARGE_ANSWERS,
        )
        for name, model in TOOLS.items()
    ]

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_: Any, call: CallToolRequestParams) -> CallToolResult:
        wrong = True
        try:
            text = await _answer(database, meaning, call.name, call.arguments or {})
            wrong = False
        except ValidationError as error:
            text = f"{UNCHANGED} {explained(error)}"
        except Refused as error:
            text = str(error)
        except Exception as error:
            text = f"{UNCHANGED} {failed(call.name, error)}"
        return CallToolResult(content=[TextContent(text=text)], is_error=wrong)

    server = Server(
        "agent-memory-daemon",
        version=version("agent-memory-daemon"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    names = [*LOCAL, *settings.allowed_hosts.split()]
    hosts = [host for name in names for host in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_BYTES,
        transport_security=security,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl("http://127.0.0.1"),  # never contacted: tokens are made here
            resource_server_url=None,
            validate_token_resource=False,
        ),
        token_verifier=_Verifier(settings.tokens),
    )
    if settings.page != "off":
        guard = TransportSecurityMiddleware(security)
        page = Page(settings, lambda access: Call(database, access, meaning), guard)
        app.mount("/", page.application())
    app.add_middleware(BaseHTTPMiddleware, dispatch=_refuse_large)
    return app


async def _answer(database: Database, meaning: Meaning, name: str, given: dict[str, Any]) -> str:
    if name not in TOOLS:
        raise Refused(f"{UNCHANGED} There is no tool {name}. The tools are: {', '.join(TOOLS)}.")
    request = TOOLS[name].model_validate(given)
    token = get_access_token()
    assert isinstance(token, _Token)  # the SDK lets nobody in without one
    if request.tenant_id not in (None, token.access.tenant):
        raise Refused(f"{UNCHANGED} This token is not for tenant {request.tenant_id}.")
    request.agent_id = token.access.agent or request.agent_id
    if not isinstance(request, RecordEvent):
        request.channel = token.access.reach(request.channel)
    return await request.answer(Call(database, token.access, meaning))


async def _refuse_large(request: Request, go_on: RequestResponseEndpoint) -> Response:
    # In a form that clients display, unlike the SDK's own answer.
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) <= BODY_BYTES:
        return await go_on(request)
    message = f"{UNCHANGED} The call has {int(length):,} bytes; {BODY_BYTES:,} are allowed."
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    return JSONResponse(error, status_code=413)


async def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `ready` is called with the address. Raises Refused."""
    Tokens(settings.tokens).all()
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise Refused(
            f"The daemon cannot listen on {settings.host}, port {settings.port} ({error.strerror})."
            " Set MEMORY_DAEMON_HOST or MEMORY_DAEMON_PORT to another."
        ) from error
    # Head and body are sent separately. Without this, the body would wait 40 ms for the head's ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with database_of(settings) as dsn, Database(dsn) as database:
        meaning = Meaning(settings.embedding_model)
        await meaning.prepare(dsn)
        background = [
            asyncio.create_task(meaning.fill(dsn)),
            asyncio.create_task(upkeep.analyze(dsn)),
            asyncio.create_task(upkeep.retain(dsn, settings.retention_days)),
        ]
        config = uvicorn.Config(application(settings, database, meaning), log_level="warning")
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready(f"http://{host}:{listening.getsockname()[1]}/mcp")
        await uvicorn.Server(config).serve(sockets=[listening])
        for task in background:
            task.cancel()
