"""An S3-compatible server (moto's) on loopback, in its own process, that fails on request.

`python -m tests.services.s3` prints its address, and serves until it is killed. `S3` starts and
stops one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

ROOT = Path(__file__).parents[2]

KINDS = ("503", "500", "403", "slow", "reset", "lost")
"""Answers; a slow answer, which comes all the same; no answer; and no answer although the request has succeeded."""


class Fault(msgspec.Struct):
    """A fault that requests run into."""

    kind: str
    """One of KINDS."""
    method: str = ""
    """Method of the requests; empty for all."""
    has: str = ""
    """A part of the path and query of the requests."""
    after: int = 0
    """Number of requests that pass first."""
    times: int = 1_000_000
    seconds: float = 0.0
    """Delay of a slow answer."""


class S3:
    """A server with one bucket, `bucket`; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.s3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout
        self.address = self._process.stdout.readline().strip()
        self.environment = {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "an-access-key",
            "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-may-see",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self._ask("PUT", "/bucket")

    def fail(self, *faults: Fault) -> None:
        """Fail requests from now on; without faults, stop failing them."""
        self._ask("PUT", "/_faults", msgspec.json.encode(faults))

    def injected(self) -> int:
        """Return the number of requests that ran into a fault since `fail` was called."""
        return sum(self.injected_each())

    def injected_each(self) -> list[int]:
        """Return the number of requests that ran into each of the faults."""
        each: list[int] = json.loads(self._ask("GET", "/_injected"))
        return each

    def requests(self) -> list[str]:
        """Return method, path and query of all requests since the last call."""
        requests: list[str] = json.loads(self._ask("GET", "/_requests"))
        return requests

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the objects in the bucket."""
        return msgspec.msgpack.decode(
            self._ask("GET", f"/_objects?{_quoted(prefix)}"), type=dict[str, bytes]
        )

    def put(self, key: str, data: bytes) -> None:
        """Store an object in the bucket."""
        self._ask("PUT", f"/bucket/{_quoted(key)}", data)

    def remove(self, key: str) -> None:
        """Remove an object from the bucket."""
        self._ask("DELETE", f"/bucket/{_quoted(key)}")

    def clear(self) -> None:
        """Empty the bucket, stop failing requests, and forget those that were made."""
        self._ask("PUT", "/_clear")

    def begin_upload(self, key: str) -> None:
        """Start a multipart upload that is never completed, like a killed process."""
        self._ask("POST", f"/bucket/{key}?uploads", b"")

    def uploads(self) -> list[str]:
        """List the objects whose upload was neither completed nor aborted."""
        uploads: list[str] = json.loads(self._ask("GET", "/_uploads"))
        return uploads

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        # moto asks nobody who they are; it only wants to see which service is meant.
        headers = {
            "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request",
            "Content-Type": "application/octet-stream",
        }
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
            return body

    @contextlib.contextmanager
    def pages_of(self, keys: int) -> Iterator[None]:
        """List no more keys with one request, unless it says how many; 1000 otherwise."""
        self._ask("PUT", "/_page", b"%d" % keys)
        try:
            yield
        finally:
            self._ask("PUT", "/_page", b"1000")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Accept connections, but never answer."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def without_token(name: str) -> str:
    """Return the name of a file of a corpus without the token of the run that wrote it.

    >>> without_token("part-00000-0123456789abcdef.jsonl.zst"), without_token("manifest.json")
    ('part-00000.jsonl.zst', 'manifest.json')
    """
    return re.sub(r"-[0-9a-f]{16}(?=\.json|\.columns|\.sources)", "", name)


_quoted = urllib.parse.quote


class _Failing:
    """The application of the server, behind the faults.

    Tests look at the bucket without S3 requests: most of those take moto 3 ms, and a listing up to
    10 ms.
    """

    def __init__(self, application: Callable[..., Any], buckets: Mapping[str, Any]) -> None:
        self._application = application
        self._buckets = buckets
        self._faults: list[Fault] = []
        self._requests: list[str] = []
        self._injected: list[int] = []
        self._changing = threading.Lock()  # moto looks at a condition and writes in two steps

    def __call__(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"]
        query = environ["QUERY_STRING"]
        if path == "/_faults":
            self._faults = msgspec.json.decode(_body(environ), type=list[Fault])
            self._injected = [0] * len(self._faults)
            return _answer(respond, b"")
        if path == "/_injected":
            return _answer(respond, json.dumps(self._injected).encode())
        if path == "/_objects":
            prefix = urllib.parse.unquote(query)
            found = {key.name: key.value for key in self._buckets["bucket"].keys.values()}
            some = {name: found[name] for name in sorted(found) if name.startswith(prefix)}
            return _answer(respond, msgspec.msgpack.encode(some))
        if path == "/_uploads":
            uploads = sorted(
                upload.key_name for upload in self._buckets["bucket"].multiparts.values()
            )
            return _answer(respond, json.dumps(uploads).encode())
        if path == "/_clear":
            self._faults = []
            self._injected = []
            self._requests = []
            self._buckets["bucket"].keys.clear()
            self._buckets["bucket"].multiparts.clear()
            return _answer(respond, b"")
        if path == "/_page":
            os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = _body(environ).decode()
            return _answer(respond, b"")
        if path == "/_requests":
            seen = self._requests
            self._requests = []
            return _answer(respond, json.dumps(seen).encode())
        if "HTTP_TRANSFER_ENCODING" not in environ:
            # A client that is stopped while it sends a body must not hold the lock, which would
            # stop all others.
            environ["wsgi.input"] = io.BytesIO(_body(environ))
        place = f"{path}?{query}"
        self._requests.append(f"{method} {place}")
        for number, fault in enumerate(self._faults):
            if method.startswith(fault.method) and fault.has in place:
                fault.after -= 1
                if fault.after < 0 < fault.times:
                    fault.times -= 1
                    self._injected[number] += 1
                    if fault.kind == "lost":
                        with self._changing:
                            self._application(environ, lambda *_: None)
                        return _fail("lost", environ, respond)
                    if fault.kind != "slow":
                        return _fail(fault.kind, environ, respond)
                    time.sleep(fault.seconds)
        with self._changing:
            return self._application(environ, respond)


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return body


def _answer(respond: Callable[..., Any], body: bytes, status: str = "200 OK") -> list[bytes]:
    respond(status, [("Content-Length", str(len(body)))])
    return [body]


_ANSWERS = {
    "503": ("SlowDown", "Please reduce your request rate."),
    "500": ("InternalError", "We encountered an internal error. Please try again."),
    "403": ("AccessDenied", "Access Denied"),
}


def _fail(kind: str, environ: dict[str, Any], respond: Callable[..., Any]) -> list[bytes]:
    if kind != "lost":
        _body(environ)
    if kind in ("reset", "lost"):
        connection = environ["werkzeug.socket"]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with Path(os.devnull).open(
            "wb"
        ) as nowhere:  # the server holds files on it, so closing it would not end it
            os.dup2(nowhere.fileno(), connection.fileno())
        return _answer(respond, b"")
    code, message = _ANSWERS[kind]
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    return _answer(respond, body, f"{kind} {code}")


def _serve() -> None:
    from moto.core import DEFAULT_ACCOUNT_ID  # noqa: PLC0415 - takes a second, and only the server needs it
    from moto.s3.models import s3_backends  # noqa: PLC0415
    from moto.server import create_backend_app  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    application = _Failing(create_backend_app("s3"), s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets)
    server = make_server("127.0.0.1", 0, application, threaded=True)
    sys.stdout.write(f"http://127.0.0.1:{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve()
