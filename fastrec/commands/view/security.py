"""Guards every request to the local server, before anything else sees it.

1. The Host header must name this server: another web site may let its own name point to 127.0.0.1 (DNS rebinding).
2. Only GET and HEAD: the server changes nothing.
3. The first part of the path must be the token of this start, which other users and web sites do not know.

Every response, an error too, has headers that forbid scripts, styles and requests other than our own, framing, and
storing.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from fastrec.html import tag

__all__ = ["HEADERS", "Guard", "make_token"]

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_SPELLED: Final = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_METHODS: Final = ("GET", "HEAD")
_HINT: Final = "Open the address that `fastrec view` has printed: it is new at every start."


def make_token() -> str:
    """Make a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Guard:
    """Passes requests for this server, with its token, to an application below `/TOKEN`."""

    def __init__(self, app: _App, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self._hosts |= {b"127.0.0.1", b"localhost"}

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":  # a web socket: not one of ours
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_SPELLED]}
            await send(message)

        problem = self._problem(scope)
        if problem is not None:
            await _refuse(scope, send_with_headers, *problem)
            return
        await self._app({**scope, "root_path": f"/{self._token.decode()}"}, receive, send_with_headers)

    def _problem(self, scope: _Scope) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "This server answers only to 127.0.0.1 and localhost."
        if scope["method"] not in _METHODS:
            return 405, "This server only shows things: it answers GET and HEAD."
        token, slash, _ = scope["path"][1:].encode("utf-8", "replace").partition(b"/")
        if not secrets.compare_digest(token, self._token):
            return 403, "The address lacks the right token."
        return None if slash else (404, "There is no such page.")


async def _refuse(scope: _Scope, send: _Send, status: int, reason: str) -> None:
    body = (
        "<!doctype html>" + tag("html", tag("title", "fastrec view"), tag("h1", reason), tag("p", _HINT), lang="en")
    ).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *([(b"allow", b"GET, HEAD")] if status == 405 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
