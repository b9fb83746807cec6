"""The MCP server: five tools over streamable HTTP, for clients of either protocol era."""

import inspect
import logging
import traceback
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import AnyHttpUrl, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from . import acb, arguments
from .access import Access, Tokens
from .artifacts import get_artifact
from .database import Database
from .meaning import Meaning
from .record import record_event
from .settings import BODY_BYTES, LOCAL_HOSTS, UNCHANGED, Refused, Settings

log = logging.getLogger(__name__)

INSTRUCTIONS = (
    "Memory shared by the agents of a team. Call build_acb when a session begins or the subject "
    "changes; record what happens with record_event."
)
_TOOLS: dict[str, type[arguments.Asked]] = {
    "record_event": arguments.RecordEvent,
    "build_acb": arguments.BuildAcb,
    "query_decisions": arguments.QueryDecisions,
    "create_handoff_packet": arguments.CreateHandoffPacket,
    "get_artifact": arguments.GetArtifact,
}


class _Token(AccessToken):
    access: Access


class Daemon:
    """The tools on one database, and the web application that serves them."""

    def __init__(self, settings: Settings, tokens: Tokens, database: Database) -> None:
        self._settings = settings
        self._tokens = tokens
        self._database = database
        self.meaning = Meaning()

    async def verify_token(self, token: str) -> AccessToken | None:
        """What the SDK asks for each request."""
        try:
            access = self._tokens.find(token)
        except Refused as error:
            log.error("%s", error)
            return None
        if not access:
            return None
        limit = min(access.max_tokens, self._settings.bundle_tokens)
        access = replace(access, max_tokens=limit)
        return _Token(token="", client_id=access.id, scopes=[], access=access)

    def app(self) -> Starlette:
        """Stateless, for clients of the 2026-07-28 protocol and of those before it."""
        server = Server(
            "agent-memory-daemon",
            version=version("agent-memory-daemon"),
            instructions=INSTRUCTIONS,
            on_list_tools=_list_tools,
            on_call_tool=self._call_tool,
        )
        hosts = [*LOCAL_HOSTS, *self._settings.allowed_hosts]
        names = [name for host in hosts for name in (host, f"{host}:*")]
        app = server.streamable_http_app(
            json_response=True,
            stateless_http=True,
            max_request_body_size=BODY_BYTES,
            transport_security=TransportSecuritySettings(
                allowed_hosts=names,
                allowed_origins=[f"{way}://{name}" for way in ("http", "https") for name in names],
            ),
            auth=AuthSettings(
                issuer_url=AnyHttpUrl("http://127.0.0.1"),  # never asked: tokens are made here
                resource_server_url=None,
                validate_token_resource=False,
            ),
            token_verifier=self,
            custom_starlette_routes=[Route("/health", self._health)],
        )
        app.add_middleware(_BodyLimit)
        return app

    async def _health(self, _: Request) -> JSONResponse:
        try:
            async with self._database.transaction("-") as connection:
                await connection.execute("SELECT FROM schema_version")
        except Refused as error:
            return JSONResponse({"status": str(error)}, status_code=503)
        return JSONResponse({"status": "ok"})

    async def _call_tool(
        self, _: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        try:
            text = await self._answer(params.name, params.arguments or {})
        except Refused as error:
            text = str(error)
        except Exception as error:
            # The places but not the message, which may hold what was recorded.
            places = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s failed: %s\n%s", params.name, type(error).__name__, places)
            text = f"{UNCHANGED} The daemon failed ({type(error).__name__}); its log says where."
        else:
            return CallToolResult(content=[TextContent(text=text)])
        return CallToolResult(content=[TextContent(text=text)], is_error=True)

    async def _answer(self, name: str, given: dict[str, Any]) -> str:
        if name not in _TOOLS:
            raise Refused(f"{UNCHANGED} There is no tool {name}. There are: {', '.join(_TOOLS)}.")
        try:
            request = _TOOLS[name].model_validate(given)
        except ValidationError as error:
            raise Refused(f"{UNCHANGED} {_explained(error)}") from None
        token = get_access_token()
        assert isinstance(token, _Token)  # the SDK lets nobody in without one
        access = token.access
        if request.tenant_id not in (None, access.tenant):
            raise Refused(f"{UNCHANGED} This token is not for tenant {request.tenant_id}.")
        match request:
            case arguments.RecordEvent():
                return await self._record(access, request)
            case arguments.BuildAcb():
                return await acb.build_acb(self._database, self.meaning, access, request)
            case arguments.QueryDecisions():
                return await acb.query_decisions(self._database, self.meaning, access, request)
            case arguments.CreateHandoffPacket():
                packet, event = await acb.handoff_packet(
                    self._database, self.meaning, access, request
                )
                await self._record(access, event)
                return packet
            case arguments.GetArtifact():
                return await get_artifact(self._database, access, request)
        raise AssertionError(name)

    async def _record(self, access: Access, request: arguments.RecordEvent) -> str:
        excerpt_chars = self._settings.excerpt_chars
        return await record_event(self._database, self.meaning, access, request, excerpt_chars)


async def _list_tools(
    _: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(
        tools=[
            Tool(
                name=name,
                description=inspect.cleandoc(model.__doc__ or ""),
                input_schema=model.model_json_schema(),
            )
            for name, model in _TOOLS.items()
        ]
    )


def _explained(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}".removeprefix(": ")
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "; ".join(problems[:5]) + "."


class _BodyLimit:
    """Answers a body that is too large in a form that clients show."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = Headers(scope=scope).get("content-length", "") if scope["type"] == "http" else ""
        if length.isdigit() and int(length) > BODY_BYTES:
            message = f"{UNCHANGED} The call has {int(length):,} bytes; {BODY_BYTES:,} are allowed."
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
            await JSONResponse(error, status_code=413)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
