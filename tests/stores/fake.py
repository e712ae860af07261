"""An object store in the memory of this process, which behaves like S3 and fails at chosen
requests: `fake://bucket/a`.

store = FakeStore.reset()
store.before = lambda request: ...     called before each request; what it raises, the request raises
store.after = lambda request: ...      called when the request is done: an exception is a lost answer
store.repeat = True                    clients repeat each request, as after a lost answer
"""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Callable
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem


class Answer(Exception):  # noqa: N818 - the answer of a store, like botocore's ClientError
    """The answer of a store to a request that it refused."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


def refused(status: int, code: str, reason: int = errno.EIO) -> OSError:
    """Return what s3fs makes of an answer: a plain OSError."""
    error = OSError(reason, code)
    error.__cause__ = Answer(status, code)
    return error


class Faults:
    """What happens to requests; fsspec makes a file system per thread, so it is not part of one."""

    def __init__(self) -> None:
        FakeStore.store.clear()
        FakeStore.faults = self
        self.objects = FakeStore.store
        self.requests: list[str] = []
        self.repeat = False
        self.conditions = "kept"  # or "ignored", or "unsupported"
        self.calm()

    def calm(self) -> None:
        """Let all requests succeed from now on."""
        self.before: Callable[[str], None] = lambda request: None
        self.after: Callable[[str], None] = lambda request: None


class FakeStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system: all instances share their objects."""

    protocol = ("fake",)
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    faults: ClassVar[Faults]

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix("fake://")
        return MemoryFileSystem._strip_protocol(path)

    def call_s3(self, method: str, **given: Any) -> dict[str, Any]:
        """Send a request by its name."""
        if method == "delete_object":
            path = self._strip_protocol(f"{given['Bucket']}/{given['Key']}")
            self._ask("DELETE", path, lambda: self._delete(path, given.get("IfMatch")))
        return {}

    def _ask(self, method: str, path: str, work: Callable[[], Any]) -> Any:
        request = f"{method} {path}"
        self.faults.requests.append(request)
        self.faults.before(request)
        answer = work()
        if self.faults.repeat:
            answer = work()
        self.faults.after(request)
        return answer

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **given: Any) -> Any:
        path = self._strip_protocol(path)
        create = mode == "create"
        match = given.get("IfMatch")
        return self._ask(
            "PUT", path, lambda: self._put(path, bytes(value), create=create, match=match)
        )

    def _put(
        self, path: str, value: bytes, *, create: bool = False, match: str | None = None
    ) -> dict[str, str]:
        if (create or match) and self.faults.conditions == "unsupported":
            raise refused(501, "NotImplemented", errno.ENOSYS)
        if create and self.faults.conditions == "kept" and path in self.store:
            raise refused(412, "PreconditionFailed", errno.EINVAL)
        if match and self.faults.conditions == "kept":
            self._match(path, match)
        self.store[path] = MemoryFile(self, path, value)
        return {"ETag": self._etag(path)}

    def _match(self, path: str, match: str) -> None:
        if path not in self.store:
            raise FileNotFoundError(errno.ENOENT, path) from Answer(404, "NoSuchKey")
        if self._etag(path) != match:
            raise refused(412, "PreconditionFailed", errno.EINVAL)

    def _delete(self, path: str, match: str | None = None) -> None:
        if match and self.faults.conditions == "kept":
            self._match(path, match)
        self.store.pop(path, None)

    def _etag(self, path: str) -> str:
        return f'"{hashlib.md5(self.store[path].getvalue(), usedforsecurity=False).hexdigest()}"'

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        found = self._ask("HEAD", path, lambda: super(FakeStore, self).info(path, **more))
        return {**found, "ETag": self._etag(path)} if found["type"] == "file" else dict(found)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        data: bytes = self._ask(
            "GET", path, lambda: super(FakeStore, self).cat_file(path, start, end)
        )
        return data

    def find(self, path: str, **more: Any) -> Any:
        path = self._strip_protocol(path)
        names = self._ask(
            "LIST", path, lambda: [name for name in self.store if name.startswith(f"{path}/")]
        )
        return (
            {name: super(FakeStore, self).info(name) for name in sorted(names)}
            if more.get("detail")
            else names
        )

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1 = self._strip_protocol(path1)
        path2 = self._strip_protocol(path2)
        self._ask("COPY", path2, lambda: super(FakeStore, self).cp_file(path1, path2))

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        self._ask("DELETE", path, lambda: self._delete(path))

    def rm(self, path: Any, **_: Any) -> None:
        names = [self._strip_protocol(name) for name in ([path] if isinstance(path, str) else path)]
        for name in names:  # one request each, so that a fault can hit any of them
            self.rm_file(name)

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        return _Upload(self, path) if mode == "wb" else super()._open(path, mode, **more)


class Bucket:
    """One bucket of an empty store, with the methods of the S3 server of the tests."""

    def __init__(self) -> None:
        self.faults = Faults()

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the objects in the bucket."""
        found = {
            name.removeprefix("/bucket/"): file.getvalue()
            for name, file in sorted(FakeStore.store.items())
        }
        return {name: data for name, data in found.items() if name.startswith(prefix)}

    def put(self, key: str, data: bytes) -> None:
        """Store an object in the bucket."""
        FakeStore().pipe_file(f"/bucket/{key}", data)

    def remove(self, key: str) -> None:
        """Remove an object from the bucket."""
        FakeStore().rm_file(f"/bucket/{key}")

    def uploads(self) -> list[str]:
        """There are none: objects appear as a whole."""
        return []


class _Upload(io.BytesIO):
    """An object that appears when it is closed."""

    def __init__(self, fs: FakeStore, path: str) -> None:
        super().__init__()
        self._fs = fs
        self._path = path
        self._open = True

    def close(self) -> None:
        if self._open:
            self._open = False
            self._fs.pipe_file(self._path, self.getvalue())

    def discard(self) -> None:
        self._open = False


fsspec.register_implementation("fake", FakeStore, clobber=True)
