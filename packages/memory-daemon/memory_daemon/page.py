"""The page for the person: what was recorded, and why a bundle holds what it holds.

It shows what a request of the signed-in token sees, in the same transactions, and changes nothing.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from urllib.parse import parse_qsl

import jwt
from jinja2 import Environment, PackageLoader, StrictUndefined
from mcp.server.transport_security import TransportSecurityMiddleware
from memory_semantic import plain
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from .access import Access, Tokens, digest_of
from .arguments import Call
from .settings import Refused, Settings, explained, failed
from .views import VIEWS, Context, Look, View, Who

COOKIE, SIGNED_IN_SECONDS = "memory_daemon", 12 * 3600
FORM_BYTES = 4_096
LOCAL = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Page:
    """The page of a daemon with `settings`, for requests that `guard` lets in. `call` makes what a
    tool works with."""

    def __init__(
        self,
        settings: Settings,
        call: Callable[[Access], Call],
        guard: TransportSecurityMiddleware,
    ) -> None:
        self._settings, self._call, self._guard = settings, call, guard
        self._key = secrets.token_bytes(32)  # a restart signs everybody out
        self._templates = Environment(
            loader=PackageLoader("memory_daemon"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            finalize=lambda value: plain(value) if type(value) is str else value,
        )
        self._style = files("memory_daemon").joinpath("templates/page.css").read_bytes()

    def application(self) -> Starlette:
        """The page as an application of its own, for everything but /mcp."""
        routes = [Route(path, self._guarded(self._shown(view))) for path, view in VIEWS.items()]
        routes += [
            Route("/page.css", self._guarded(self._stylesheet)),
            Route("/sign-in", self._guarded(self._sign_in), methods=["GET", "POST"]),
            Route("/sign-out", self._guarded(self._sign_out), methods=["POST"]),
        ]
        return Starlette(routes=routes)

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            response = await self._guard.validate_request(request)
            if not response and not self._local(request):
                response = Response("Not found", status_code=404)
            try:
                response = response or await answer(request)
            except Refused as error:
                # The database failed, or there is no such thing.
                response = self._rendered("refused", str(error), 503 if error.__cause__ else 404)
            except ValidationError as error:
                response = self._rendered("refused", explained(error), 400)
            except Exception as error:
                response = self._rendered("refused", failed(request.url.path, error), 500)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _local(self, request: Request) -> bool:
        # Unless told, only for browsers on this machine that use an address of this machine.
        host = request.headers["host"].rpartition(":")[0] or request.headers["host"]
        here = request.client and request.client.host in ("127.0.0.1", "::1")
        return self._settings.page == "everywhere" or bool(here and host in LOCAL)

    def _shown(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def shown(request: Request) -> Response:
            who = self._who(request)
            if not who:
                return RedirectResponse("/sign-in", status_code=303)
            context = await view(Look(request, who, self._call(who.access)))
            return self._rendered(view.__name__, context | {"who": who})

        return shown

    def _rendered(self, name: str, context: Context | str | None, status: int = 200) -> Response:
        given = context if isinstance(context, dict) else {"who": None, "why": context or ""}
        text = self._templates.get_template(f"{name}.html").render(page=name, **given)
        return HTMLResponse(text, status_code=status)

    def _who(self, request: Request) -> Who | None:
        try:
            cookie = jwt.decode(request.cookies.get(COOKIE, ""), self._key, ["HS256"])
        except jwt.InvalidTokenError:
            return None
        # Looked up each time, so that a revoked token is signed out at once.
        access = Tokens(self._settings.tokens).all().get(cookie["sub"])
        return access and Who(access, access.agent or cookie["agent"])

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return self._rendered("sign_in", None)
        body = await request.body()
        form = dict(parse_qsl(body[:FORM_BYTES].decode(errors="replace")))
        token, agent = form.get("token", "").strip(), form.get("agent", "").strip()[:128]
        if not Tokens(self._settings.tokens).find(token):
            return self._rendered("sign_in", "This daemon does not know this token.", status=401)
        cookie = {"sub": digest_of(token), "agent": agent, "exp": time.time() + SIGNED_IN_SECONDS}
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            *(COOKIE, jwt.encode(cookie, self._key, "HS256"), SIGNED_IN_SECONDS),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _sign_out(self, _: Request) -> Response:
        response = RedirectResponse("/", status_code=303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    async def _stylesheet(self, _: Request) -> Response:
        return Response(self._style, media_type="text/css")
