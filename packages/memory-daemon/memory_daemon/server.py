"""The MCP server: five tools over HTTP, stateless, for clients of either protocol era."""

import inspect
import json
import logging
import socket
import traceback
from importlib.metadata import version
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from pydantic import AnyHttpUrl, ValidationError
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from . import acb, meaning
from .arguments import Asked, Call
from .database import UNCHANGED, Access, Database, Refused, Unsure, sha256
from .record import RecordEvent

BODY_BYTES = 16 << 20  # of one HTTP request
SCHEMES = ("http", "https")
LOCAL = ("127.0.0.1", "localhost", "[::1]")
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
_FIRST_TOKEN = """
Here is a token for the tenant "default" and its agent "default". It will not be shown again:

  export MEMORY_DAEMON_TOKEN={token}

For example, in Claude Code:

  claude mcp add --transport http memory {url} --header "Authorization: Bearer {token}"
"""
log = logging.getLogger(__name__)


class _Token(AccessToken):
    access: Access


class _Verifier:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def verify_token(self, token: str) -> AccessToken | None:
        for access in await self._database.tokens("sha256 = %s", sha256(token)):
            return _Token(token="", client_id=access.tenant, scopes=[], access=access)
        return None


def application(database: Database, hosts: list[str]) -> Starlette:
    """The web application with the tools at /mcp, for clients that name one of `hosts`."""
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
            text = await _answer(database, call.name, call.arguments or {})
            wrong = False
        except ValidationError as error:
            text = f"{UNCHANGED} {_explained(error)}"
        except Refused as error:
            text = str(error) if isinstance(error, Unsure) else f"{UNCHANGED} {error}"
        except Exception as error:  # whose words may be something recorded
            places = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s failed: %s\n%s", call.name, type(error).__name__, places)
            text = f"{UNCHANGED} The daemon failed ({type(error).__name__}); its log says where."
        return CallToolResult(content=[TextContent(text=text)], is_error=wrong)

    server = Server(
        "agent-memory-daemon",
        version=version("agent-memory-daemon"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    named = [host for name in (*LOCAL, *hosts) for host in (name, f"{name}:*")]
    app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_BYTES,
        transport_security=TransportSecuritySettings(
            allowed_hosts=named,
            allowed_origins=[f"{scheme}://{each}" for scheme in SCHEMES for each in named],
        ),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl("http://127.0.0.1"),  # never contacted: tokens are made here
            resource_server_url=None,
            validate_token_resource=False,
        ),
        token_verifier=_Verifier(database),
    )
    app.add_middleware(BaseHTTPMiddleware, dispatch=_in_sentences)
    return app


async def _answer(database: Database, name: str, given: dict[str, Any]) -> str:
    if name not in TOOLS:
        raise Refused(f"There is no tool {name}. The tools are: {', '.join(TOOLS)}.")
    request = TOOLS[name].model_validate(given)
    token = get_access_token()
    assert isinstance(token, _Token)  # the SDK lets nobody in without one
    access = token.access
    if request.tenant_id not in (None, access.tenant):
        raise Refused(f"This token is not for tenant {request.tenant_id}.")
    if request.agent_id not in (None, access.agent):
        raise Refused(f"This token is agent {access.agent}'s, not {request.agent_id}'s.")
    request.agent_id = access.agent
    if not isinstance(request, RecordEvent):
        request.channel = access.reach(request.channel)
    return await request.answer(Call(database, access))


def _explained(error: ValidationError) -> str:
    # The first few problems, without the values, which may be private.
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    lines = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:5])
    return "; ".join(line.removeprefix(": ") for line in lines) + "."


async def _in_sentences(request: Request, go_on: RequestResponseEndpoint) -> Response:
    # In a form that clients display, unlike the SDK's own answers.
    answer: Any = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600}}
    try:
        response: Any = await go_on(request)
        status, kind = response.status_code, response.headers.get("content-type", "")
        if status == 413:
            message = f"The call has more than the {BODY_BYTES:,} bytes that are allowed."
        elif status == 400 and kind.startswith("application/json"):  # broken, or nested too deeply
            answer = json.loads(b"".join([part async for part in response.body_iterator]))
            message = answer["error"]["message"]
        else:
            return response
    except Refused as error:  # the token could not be looked up
        status, message = 503, str(error)
    answer["error"]["message"] = f"{UNCHANGED} {message}"
    return JSONResponse(answer, status_code=status)


async def serve(dsn: str, host: str, port: int, hosts: list[str]) -> None:
    """Serve until a signal ends it; prints the address, and the first token. Raises Refused."""
    if host not in ("127.0.0.1", "localhost", "::1") and not hosts:
        raise Refused(
            f"The host is {host}: other machines can connect. Name the hosts by which they do, in "
            "--allow-host or MEMORY_DAEMON_ALLOWED_HOSTS."
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise Refused(
            f"The daemon cannot listen on {host}, port {port} ({error.strerror}). Name another with"
            " --host or --port."
        ) from error
    # Head and body are sent separately. Without this, the body would wait 40 ms for the head's ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await meaning.load()
    async with Database(dsn) as database:
        config = uvicorn.Config(application(database, hosts), log_level="warning")
        shown = hosts[0] if hosts else f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening.getsockname()[1]}/mcp"
        if database.first_token:
            print(_FIRST_TOKEN.format(token=database.first_token, url=url))
        print(f"Serving on {url}. Ctrl-C stops it.", flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])
