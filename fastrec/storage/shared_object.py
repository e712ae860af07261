"""An object that several runs may write: a run changes it only if nobody else has changed it since.

S3 does this itself: a request with `If-Match` or `If-None-Match` fails if the object is not as
expected (412). Other stores can only create an object conditionally, if at all. There, the object
is read again just before it is written, which leaves a gap of one request. `is_conditional` tells
which it is.

A request can succeed although its answer is lost, and the client repeats it. The repeated request
then finds the object
changed: by this run itself. So after every failure the object is read again. If it holds what was
to be written, the request has succeeded.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    # takes 20 ms to load, and only URLs need it
    from fastrec.storage.object_store import (
        ObjectStore,
    )

_ATTEMPTS = 5
_WAIT_SECONDS = 0.1  # before the second attempt; doubles with each one
_NO_VERSION = '"00000000000000000000000000000000"'  # an ETag that no object has


class ChangedError(OSError):
    """Another process has created, changed or removed the object."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EAGAIN, "another process has changed it", path)


class _BusyError(Exception):
    """Another request changes the object at this moment: try again."""


class _UnsupportedError(Exception):
    """The store says that it has no conditional requests."""


class SharedObject(Struct):
    """A small object, with what this process knows of it."""

    _client: ObjectStore
    _path: str
    _supported: bool = True  # whether it has conditional requests, until the store says otherwise
    _content: bytes | None = None
    _version: str | None = None  # its ETag, if the store has any

    def read(self) -> bytes | None:
        """Read the object, and remember its state for the next change.

        None if it does not exist.
        """
        self._content, self._version = self._look()
        return self._content

    def _look(self) -> tuple[bytes | None, str | None]:
        try:
            with self._client.asking(self._path) as (fs, name):
                # If it changes between the two requests, the next conditional request fails, as it
                # should.
                limit = self._client.time_limit(fs)
                version = fs.info(name, **limit).get("ETag") if hasattr(fs, "call_s3") else None
                return bytes(fs.cat_file(name, **limit)), version
        except FileNotFoundError:
            return None, None

    def write(self, data: bytes) -> None:
        """Write the object.

        ChangedError if it is not as it was when this process last read or wrote it.
        """
        try:
            self._version = self._write(data)
        except OSError:
            content = version = None
            with suppress(OSError):
                content, version = self._look()
            if content != data:
                raise
            self._version = version
        self._content = data

    def _write(self, data: bytes) -> str | None:
        try:
            return self._change(data, self._version)
        except _UnsupportedError:
            if self._look()[0] != self._content:
                raise ChangedError(self._path) from None
            with self._client.asking(self._path) as (fs, name):
                return _version_in(fs.pipe_file(name, data, **self._client.time_limit(fs)))

    def remove(self) -> None:
        """Remove the object; ChangedError if it is not as this process knows it."""
        if self._look()[0] != self._content:  # many stores can write conditionally, but not remove
            raise ChangedError(self._path)
        try:
            self._remove_if(self._version if self._supported else None)
        except _UnsupportedError:
            self._remove_if(None)
        except _BusyError:
            raise ChangedError(self._path) from None

    def _remove_if(self, version: str | None) -> None:
        with self._translated() as (fs, name):
            if version is None:
                fs.rm_file(name)
            else:
                bucket, _, key = name.partition("/")
                named = {"Bucket": bucket, "Key": key, "IfMatch": version}
                fs.call_s3("delete_object", **named, **self._client.time_limit(fs))

    def is_conditional(self) -> bool:
        """Whether the store refuses a request whose condition does not hold.

        Some ignore conditions.

        The object must exist, and be as this process has written it.
        """
        if self._version is None or self._content is None:
            return False
        try:
            self._version = self._change(self._content, _NO_VERSION)
        except ChangedError:
            return True
        except _UnsupportedError:
            pass
        self._supported = False
        return False

    def _change(self, data: bytes, version: str | None) -> str | None:
        """Write the object if it has a version, or does not exist; return its new version."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._change_once(data, version)
            except _BusyError:
                time.sleep(_WAIT_SECONDS * 2**attempt)
        raise OSError(errno.EBUSY, "other requests change it again and again", self._path)

    def _change_once(self, data: bytes, version: str | None) -> str | None:
        with self._translated() as (fs, name):
            options = self._client.time_limit(fs)
            if not self._supported or (self._content is not None and version is None):
                raise _UnsupportedError
            condition = {"mode": "create"} if version is None else {"IfMatch": version}
            try:
                return _version_in(fs.pipe_file(name, data, **condition, **options))
            except (TypeError, ValueError) as exc:
                if "mode" not in str(exc):
                    raise
                raise _UnsupportedError from exc
        return None

    @contextmanager
    def _translated(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the name of the object.

        Tell the reasons apart for which a request is refused.
        """
        refusal = None
        with self._client.asking(self._path) as named:
            try:
                yield named
            except Exception as exc:
                refusal = _refusal(exc)
                if refusal is None:
                    raise
        if refusal is ChangedError:
            raise ChangedError(self._path)
        if refusal is _UnsupportedError:
            self._supported = False
        if refusal is not None:
            raise refusal


def _version_in(answer: Any) -> str | None:
    return answer.get("ETag") if isinstance(answer, dict) else None


# By the class of an error, or by the status or the code of an answer.
_REFUSALS = {
    FileExistsError: ChangedError,
    NotImplementedError: _UnsupportedError,
    _UnsupportedError: _UnsupportedError,
    "409": _BusyError,
    "412": ChangedError,
    "501": _UnsupportedError,
    "ConditionalRequestConflict": _BusyError,
    "NotImplemented": _UnsupportedError,
    "OperationAborted": _BusyError,
    "PreconditionFailed": ChangedError,
}


def _refusal(exc: Exception) -> type[Exception] | None:
    """Why a store refused a conditional request; None if it failed for any other reason.

    s3fs makes a plain OSError of most of them, with the answer of the store as its cause.
    """
    answer = getattr(exc, "response", None) or getattr(exc.__cause__, "response", None)
    answer = answer if isinstance(answer, dict) else {}
    code = str(answer.get("Error", {}).get("Code", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if isinstance(exc, FileNotFoundError) and code in ("NoSuchKey", "404"):
        return ChangedError  # it should exist, and is gone
    kinds = map(_REFUSALS.get, (type(exc), str(status), code))
    return next(filter(None, kinds), None)
