"""Results of tools: which call they belong to, and whether they are errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

__all__ = ["Calls", "is_failure"]

T = TypeVar("T")

_ERROR_TEXT: Final = re.compile(
    r"""\s*(?:
        (?:Error|ERROR)\b                            # Error: payment method not found
      | (?i:error)\s*[:\[(]                          # error[E0308], error (exit 1)
      | (?:\w+\.)*[A-Z]\w*(?:Error|Exception)\s*[:(] # ValueError: …, requests.exceptions.HTTPError: …
      | Traceback\ \(most\ recent\ call\ last\)
      | (?i:HTTP)(?:/[\d.]+)?\ *(?i:error|status)?\ *[:(]?\ *[45]\d\d\b  # HTTP/1.1 404 Not Found, HTTP Error 503: …
      | [45]\d\d\ (?:Client|Server)\ Error\b
    )""",
    re.VERBOSE,
)
_ERROR_KEYS: Final = ("error", "errors", "is_error", "isError")
_STATUS_KEYS: Final = ("status", "status_code", "statusCode")


class Calls(Generic[T]):
    """Calls of tools that wait for their results.

    Calls that follow each other without a result in between are a group. A result belongs to the first open call of
    the last group that has one with its id. A result without an id belongs to the first open call of the last group
    that has one. So repeated ids, and calls that were never answered, do not shift the results after them.
    """

    def __init__(self) -> None:
        self._groups: list[list[tuple[str, T]]] = []
        self._closed = True
        """Whether a result came since the last call."""

    def add(self, calls: Iterable[tuple[str, T]]) -> None:
        """Add the calls of a turn with their ids."""
        if added := list(calls):
            if self._closed:
                self._groups.append([])
            self._groups[-1].extend(added)
            self._closed = False

    def take(self, call_id: str) -> T | None:
        """Take the call that a result belongs to; None if there is none. The id is empty if the result has none."""
        self._closed = True
        for group in reversed(self._groups):
            for position, (open_id, call) in enumerate(group):
                if not call_id or call_id == open_id:
                    del group[position]
                    return call
        return None


def is_failure(result: str) -> bool:
    """Return whether the result of a tool says that it is an error.

    It does if it begins with the word `Error`, with the name of an exception and a colon, with a traceback or with an
    HTTP status of 400 to 599, or if it is a JSON object with one of these:

    - `error`, `errors`, `is_error` or `isError` that is not empty, 0, false or null
    - `status`, `status_code` or `statusCode` that is "error" or a number from 400 to 599

    >>> [is_failure(text) for text in ("Error: no such file", '{"error": null}', '{"status": 503}', "Errors: none")]
    [True, False, True, False]
    """
    return bool(_ERROR_TEXT.match(result)) or (result.lstrip()[:1] == "{" and _is_failed_document(result))


def _is_failed_document(text: str) -> bool:
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return any(map(document.get, _ERROR_KEYS)) or any(map(_is_failed_status, map(document.get, _STATUS_KEYS)))


def _is_failed_status(status: object) -> bool:
    if isinstance(status, str):
        return status.lower() == "error" or (status.isascii() and status.isdigit() and 400 <= int(status[:9]) < 600)
    return isinstance(status, int) and 400 <= status < 600
