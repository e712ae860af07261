"""The local server: a socket on the loopback interface, a new token, and uvicorn."""

from __future__ import annotations

import socket
from typing import Self

import uvicorn

from fastrec.answers.index import Index
from fastrec.commands.view.app import make_app
from fastrec.commands.view.security import Guard, make_token
from fastrec.errors import UsageError

__all__ = ["View"]

_HOST = "127.0.0.1"
_LONGEST_REQUEST = 4 << 20
"""Bytes of a request's head: an address may name hundreds of models."""


class View:
    """A corpus that is ready to be looked at. It accepts connections at once, and answers them in `serve`."""

    address: str
    """Where a browser finds it. Whoever knows the address can read the corpus on this machine."""

    def __init__(self, index: Index, port: int) -> None:
        self._index = index
        self._socket = _listen(port)
        token = make_token()
        port = self._socket.getsockname()[1]
        self.address = f"http://{_HOST}:{port}/{token}/"
        config = uvicorn.Config(
            Guard(make_app(index), token, port),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=_LONGEST_REQUEST,
        )
        self._server = uvicorn.Server(config)

    def serve(self) -> None:
        """Answer requests until `stop` is called, or until a signal; its handler runs when the server has stopped."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """End `serve` soon, from another thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Close the socket and the index."""
        self._socket.close()
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(port: int) -> socket.socket:
    """Open a socket that only this machine can reach."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((_HOST, port))
        listening.listen()
    except OSError as exc:
        listening.close()
        raise UsageError(f"port {port} cannot be used: {exc.strerror}; give another --port, or none") from exc
    return listening
