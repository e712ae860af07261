"""Read the files of logs: ranges of bytes, whole files, JSON documents, or rows of JSON."""

from collections.abc import Callable
from multiprocessing.util import Finalize
from tempfile import NamedTemporaryFile, gettempdir
from typing import IO, Any, TypeVar

from fastrec.errors import LogError, ShardError, naming
from fastrec.harnesses.values import BOM, Fields, as_list, decode_object, decoder, explaining
from fastrec.sources.formats import MAGIC_BYTES, Format, detect
from fastrec.sources.shard import shard_at
from fastrec.storage import open_reader
from fastrec.storage.base import Reader, read_at

_T = TypeVar("_T")


def read_text(path: str) -> bytes:
    with open_plain(path) as reader:
        return read_at(reader, reader.size, 0).removeprefix(BOM)


def read_document(path: str, decode: Callable[[bytes], _T], problem: str) -> _T:
    """Read a small JSON document.

    If it does not decode, raise LogError with `problem` and the reason.
    """
    with explaining(path, problem):
        return decode(read_text(path))


_decode_any = decoder(Any)


def read_object(path: str | None, what: str) -> Fields:
    """Read a JSON object; LogError if there is something else. `what` names it.

    Without a path, it is empty.
    """
    if path is None:
        return Fields()
    return Fields(read_document(path, decode_object, f"this is no {what}, or it is cut or damaged"))


def read_rows(path: str, what: str) -> list[Fields]:
    """Read the objects of a JSON array, or of JSON lines; LogError if there is something else.

    `what` names a row.
    """
    text = read_text(path)
    is_array = text.lstrip()[:1] == b"["
    parts = [text] if is_array else text.split(b"\n")
    rows: list[Fields] = []
    for number, part in enumerate(parts, 1):
        place = "" if is_array else f"line {number:,} "
        if not part.strip():
            continue
        with explaining(path, f"{place}is cut or damaged"):
            values = as_list(_decode_any(part))
        if not all(isinstance(row, dict) for row in values):
            raise LogError(path, f"{place}is not {what}")
        rows += map(Fields, values)
    return rows


_copies: dict[tuple[str, int, int], IO[bytes]] = {}  # by path, size and version
_MOST_COPIES = 2  # a run of HELM has two long files


def open_plain(path: str) -> Reader:
    """Open a file whose text is read by byte ranges.

    A compressed file is decompressed into a temporary file first.

    LogError if it is damaged.
    """
    reader = open_reader(path)
    if not reader.size or detect(read_at(reader, MAGIC_BYTES, 0)) is Format.PLAIN:
        return reader
    with reader:
        key = path, reader.size, reader.version
    if key not in _copies:
        while len(_copies) >= _MOST_COPIES:
            _copies.pop(next(iter(_copies))).close()
        copy = NamedTemporaryFile(prefix="fastrec-")  # noqa: SIM115 - closed when others replace it
        Finalize(None, copy.close, exitpriority=0)  # processes end without cleaning up
        try:
            with naming(gettempdir()):
                copy.writelines(shard_at(path).read_text())
                copy.flush()
        except ShardError as exc:
            copy.close()
            raise LogError(path, exc.reason) from exc
        _copies[key] = copy
    return open_reader(_copies[key].name)
