"""Read what all harnesses write: JSON as Python's `json` writes it, numbers, text for metadata, and whole files."""

from __future__ import annotations

import io
import json
import math
import tempfile
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar

import msgspec

from fastrec.errors import LogError, ShardError
from fastrec.sources.formats import MAGIC_BYTES, Format, detect
from fastrec.sources.shard import shard_at
from fastrec.storage import storage_of
from fastrec.storage.base import Reader

REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that it does not decode."""

BOM: Final = b"\xef\xbb\xbf"

_T = TypeVar("_T")

_LARGEST: Final = 1 << 63

encode: Final = msgspec.json.Encoder().encode


def integer_in(digits: str) -> int | str:
    """The integer of some digits; the digits themselves, if they are more than Python converts."""
    try:
        return int(digits)
    except ValueError:
        return digits


def decoder(kind: type[_T], *, has_raw: bool = False) -> Callable[[bytes | memoryview], _T]:
    """Make a function that decodes JSON as a type; unknown keys are skipped.

    `has_raw`: whether it has Raw in it.

    Harnesses write bare NaN and Infinity, and escaped lone surrogates. msgspec refuses them. Such a
    text is parsed by Python's `json`, which is slower; lone surrogates become U+FFFD, integers of
    more than 4,300 digits become texts. With Raw, it is written again as JSON, where NaN and
    Infinity are texts.

    The function raises ValueError if the text is no JSON either way, or not of that type.
    """
    fast = msgspec.json.Decoder(kind).decode

    def decode(text: bytes | memoryview) -> _T:
        try:
            return fast(text)
        except REFUSALS as refusal:
            try:
                value = plain(json.loads(bytes(text), parse_int=integer_in), is_finite=has_raw)
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            except ValueError:
                raise ValueError(str(refusal)) from None
        try:
            return fast(encode(value)) if has_raw else msgspec.convert(value, kind)
        except REFUSALS as refusal:
            raise ValueError(str(refusal)) from None

    return decode


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value: Any, *, is_finite: bool = True) -> Any:
    """Replace lone surrogates; and, with `is_finite`, numbers that JSON cannot hold: not finite or too long."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else replace_lone_surrogates(value)
    if kind is dict:
        return {plain(key): plain(item, is_finite=is_finite) for key, item in value.items()}
    if kind is list:
        return [plain(item, is_finite=is_finite) for item in value]
    if is_finite and kind is float and not math.isfinite(value):
        return json.dumps(value)
    if is_finite and kind is int and not -_LARGEST <= value < _LARGEST:
        return str(value)
    return value


def number_in(text: str) -> float:
    """The number that a text spells; ValueError if it spells none.

    Unlike in Python, `1_0` is none.
    """
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def number_of(value: Any) -> float | None:
    """A value as a finite number, or None if it is none; True is 1.

    Text counts if it spells a number or a truth value: lm-eval writes values of numpy as text.

    >>> [number_of(value) for value in (1, True, "0.5", "False", "A", "1_0", float("nan"), [1])]
    [1.0, 1.0, 0.5, 0.0, None, None, None, None]
    """
    if isinstance(value, str):
        if value in ("True", "False"):
            return float(value == "True")
        try:
            value = number_in(value)
        except ValueError:
            return None
    if isinstance(value, int | float):
        try:
            value = float(value)
        except OverflowError:
            return None
        return value if math.isfinite(value) else None
    return None


def as_list(value: Any) -> list[Any]:
    """A list as it is, nothing for null, and any other value as a list of one."""
    return value if isinstance(value, list) else [] if value is None else [value]


def spell(value: Any) -> str:
    """Spell a value as text for metadata and arguments: text as it is, bytes in base64, the rest as compact JSON.

    >>> spell("a"), spell(b"a"), spell(2), spell({"b": [1, None]})
    ('a', 'YQ==', '2', '{"b":[1,null]}')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return encode(value).decode()[1:-1]
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # a Struct or Raw
        return encode(value).decode()


def read_at(reader: Reader, size: int, offset: int) -> bytes:
    """Read `size` bytes from `offset`, or fewer if the file ends: a single `pread` may return fewer at any time."""
    if offset >= reader.size:  # it may be too large for the system to seek to
        return b""
    data = reader.pread(size, offset)
    while len(data) < size and (more := reader.pread(size - len(data), offset + len(data))):
        data += more
    return data


class ReaderFile(io.RawIOBase):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.size}[whence]
        if base + offset < 0:
            raise OSError("a file has no place before its start")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        data = read_at(self._reader, self._reader.size - self._at if size < 0 else size, self._at)
        self._at += len(data)
        return data


def read_document(path: str, decode: Callable[[bytes], _T], problem: str) -> _T:
    """Read a small JSON document.

    If it does not decode, raise LogError with `problem` and the reason.
    """
    try:
        with open_plain(path) as reader:
            return decode(read_at(reader, reader.size, 0))
    except ValueError as exc:
        raise LogError(path, f"{problem}: {exc}") from exc


_decode_any: Final = decoder(Any)


def read_rows(path: str, what: str) -> list[dict[str, Any]]:
    """Read the objects of a JSON array, or of JSON lines; LogError if there is something else.

    `what` names a row.
    """
    with open_plain(path) as reader:
        text = read_at(reader, reader.size, 0).removeprefix(BOM)
    is_array = text.lstrip()[:1] == b"["
    parts = [text] if is_array else text.split(b"\n")
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(parts, 1):
        place = "" if is_array else f"line {number:,} "
        if not part or part.isspace():
            continue
        try:
            found = as_list(_decode_any(part))
        except ValueError as exc:
            raise LogError(path, f"{place}is cut or damaged: {exc}") from exc
        if not all(isinstance(row, dict) for row in found):
            raise LogError(path, f"{place}is not {what}")
        rows += found
    return rows


_copies: Final[
    dict[tuple[str, int, int], IO[bytes]]
] = {}  # by path, size and version: one per process
_MOST_COPIES: Final = 2  # a run of HELM has two long files


def open_plain(path: str) -> Reader:
    """Open a file whose text is read by byte ranges.

    A compressed one is decompressed into a temporary file first.

    LogError if it is damaged.
    """
    reader = storage_of(path).open_reader(path)
    if not reader.size or detect(read_at(reader, MAGIC_BYTES, 0)) is Format.PLAIN:
        return reader
    with reader:
        key = path, reader.size, reader.version
    if key not in _copies:
        while len(_copies) >= _MOST_COPIES:
            _copies.pop(next(iter(_copies))).close()
        copy = tempfile.NamedTemporaryFile(prefix="fastrec-")  # noqa: SIM115 - closed when others replace it
        try:
            for block in shard_at(path).read_text():
                copy.write(block)
            copy.flush()
        except BaseException as exc:
            copy.close()
            if isinstance(exc, ShardError):
                raise LogError(path, exc.reason) from exc
            raise
        _copies[key] = copy
    return storage_of(_copies[key].name).open_reader(_copies[key].name)
