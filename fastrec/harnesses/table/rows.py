"""The rows of a table: CSV, TSV, JSON Lines, a JSON array of objects, a JSON document, or Parquet.

A document has its rows in a list, or in an object by their keys, at any path. If nothing says where
they are, it is one row.

A row is its number, and its cells by the name of the column, or why it has none. The number is that
of its first line, if the table has lines. A large file is cut into pieces, which are read at the
same time.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, pairwise
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple

import msgspec
from stringzilla import count

from fastrec.errors import LogError, NotATableError, listed
from fastrec.harnesses.files import read_text
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.recognise import head_of
from fastrec.harnesses.table.columns import BESIDE, KEY, TableColumns
from fastrec.harnesses.values import (
    Buffer,
    JsonObject,
    encode,
    explaining,
    integer_in,
    plain,
    spell,
    value_at,
)
from fastrec.schemas.view import REFUSALS, json_decoder
from fastrec.sources.formats import MAGIC_BYTES, PARQUET_MAGIC, Format, detect, parquet_module
from fastrec.sources.lines import chunks
from fastrec.sources.shard import shard_at
from fastrec.storage import open_reader
from fastrec.storage.base import read_at

_DELIMITERS = ",\t;"
_LONGEST_CELL = 512 << 20
_BLOCK = 1 << 20
_PIECE_BYTES = 16 << 20
_NO_LIMIT = 1 << 62
_TABLE_NAME = re.compile(r"\.(?:csv|tsv|ssv)(?:\.\w+)?$", re.IGNORECASE)

Row = tuple[int, JsonObject | str]


class Table(NamedTuple):
    word: str  # what the numbers of rows count
    rows: Iterator[Row]
    beside: JsonObject  # what a document has besides its rows, as `^name`


class Piece(NamedTuple):
    """Bytes of a file that is not compressed, or row groups of Parquet."""

    start: int
    end: int
    before: int  # lines or rows before


_WHOLE = Piece(0, 1 << 62, 0)  # all of a file


def open_table(path: str, columns: TableColumns, piece: Piece = _WHOLE) -> Table:
    """Open a table, or a piece of one."""
    head = head_of(path).lstrip()
    if head.startswith(PARQUET_MAGIC):
        return Table("row", _parquet_rows(path, piece), {})
    if _is_whole(head, columns):
        return _document(path, columns)
    if head[:1] == b"[":
        blocks = shard_at(path).read_text()
        items = JsonArray(path, lambda _: next(blocks, b""), None, _json_row).items()
        return Table("row", enumerate(map(itemgetter(2), items), 1), {})
    if head[:1] == b"{":
        return Table("line", _json_rows(path, piece), {})
    names = head.partition(b"\n")[0].decode(errors="replace")
    return Table("line", _csv_rows(path, piece, max(_DELIMITERS, key=names.count)), {})


def _is_whole(head: bytes, columns: TableColumns) -> bool:
    """Whether a file is read as one document."""
    is_json = head[:1] in (b"[", b"{")
    return is_json and (bool(columns.rows) or columns.has_keys or is_document(head))


def pieces_of(path: str, columns: TableColumns) -> list[Piece]:
    with open_reader(path) as file:
        magic = file.pread(MAGIC_BYTES, 0)
    if magic.startswith(PARQUET_MAGIC):
        return [Piece(*bounds) for bounds in parquet_module(path).survey(path).slices]
    head = head_of(path).lstrip()
    if detect(magic) is not Format.PLAIN or head[:1] == b"[" or _is_whole(head, columns):
        return [_WHOLE]
    return _cut_lines(path, is_csv=head[:1] != b"{")


def is_document(head: bytes) -> bool:
    """Whether a file that starts with a bracket is one object over several lines."""
    first, newline, rest = head.partition(b"\n")
    if first[:1] != b"{" or not newline or rest.lstrip()[:1] == b"{":
        return False
    try:
        _decode_cells(first)
    except REFUSALS:
        return bool(rest.strip())
    return False


def is_table(path: str, head: bytes) -> bool:
    """Whether a file that nobody named looks like a table."""
    is_text = head.lstrip()[:1] in (b"[", b"{") or _TABLE_NAME.search(path) is not None
    return bool(head) and (is_text or head.startswith(PARQUET_MAGIC))


def _cut_lines(path: str, *, is_csv: bool) -> list[Piece]:
    """Cut plain text after newlines; those of CSV have an even number of quotes before them."""
    cuts = [(0, 0)]
    at = 0
    line = 0
    quotes = 0
    with open_reader(path) as file:
        while block := read_at(file, _PIECE_BYTES, at):
            border = _last_border(block, quotes) if is_csv else block.rfind(b"\n") + 1
            if border:
                cuts.append((at + border, line + count(block, b"\n", 0, border)))
            quotes += count(block, b'"')
            at += len(block)
            line += count(block, b"\n")
    if quotes % 2 and is_csv:  # a quote in a cell without quotes
        cuts = [(0, 0)]
    borders = pairwise([*cuts, (at, line)])
    return [Piece(start, end, before) for (start, before), (end, _) in borders if start < end]


def _last_border(block: bytes, quotes: int) -> int:
    """The offset after the last newline outside of quotes, given the quotes before the block."""
    end = len(block)
    while (newline := block.rfind(b"\n", 0, end)) >= 0:
        if (quotes + count(block, b'"', 0, newline)) % 2 == 0:
            return newline + 1
        end = max(block.rfind(b'"', 0, newline), 0)  # the quote before the cell
    return 0


def _whole_lines(path: str, piece: Piece) -> Iterator[bytes]:
    """Read text in blocks that end with a line."""
    blocks = shard_at(path).read_text() if piece == _WHOLE else _range(path, piece)
    # A loop would keep each block until the next.
    return map(itemgetter(0), chunks(blocks, max_line_bytes=_NO_LIMIT, offset=piece.start))


def _range(path: str, piece: Piece) -> Iterator[bytes]:
    with open_reader(path) as file:
        for at in range(piece.start, piece.end, _BLOCK):
            yield read_at(file, min(_BLOCK, piece.end - at), at)


def _is_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _csv_cells(path: str, piece: Piece, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV, each with its first line; bytes that are not UTF-8 are surrogates."""
    number = piece.before

    def texts() -> Iterator[str]:
        nonlocal number
        # "\r" ends rows, too
        blocks = map(methodcaller("splitlines", True), _whole_lines(path, piece))
        for line in chain.from_iterable(blocks):
            number += line.endswith(b"\n")
            yield line.decode(errors="surrogateescape")

    csv.field_size_limit(_LONGEST_CELL)
    first = number + 1  # the line of the next row
    try:
        # A strict reader refuses a piece that ends inside of a cell.
        for cells in csv.reader(texts(), delimiter=delimiter, strict=True):
            if cells:
                yield first, cells
            first = number + 1
    except csv.Error as exc:
        raise LogError(
            path, f"is not CSV at line {first:,}: {exc}; quotes inside of a cell must be doubled"
        ) from exc


def _csv_rows(path: str, piece: Piece, delimiter: str) -> Iterator[Row]:
    rows = _csv_cells(path, piece, delimiter)
    first_rows = _csv_cells(path, _WHOLE, delimiter) if piece.start else rows
    _, names = next(first_rows, (0, []))
    columns = [name.encode(errors="surrogateescape").decode(errors="replace") for name in names]
    if len(set(columns)) != len(columns):
        raise LogError(path, f"has two columns of the same name: {listed(columns, 30)}")
    for number, cells in rows:
        if len(cells) != len(columns):
            yield number, f"it has {len(cells):,} cells, and the table {len(columns):,} columns"
        elif _is_utf8("".join(cells)):
            yield number, dict(zip(columns, cells, strict=True))
        else:
            yield number, "it is not UTF-8"


_decode_cells = json_decoder(JsonObject)
_decode_lines = msgspec.json.Decoder(JsonObject).decode_lines
NO_OBJECT = "it is no JSON object"
_COLON = b"\\u003"  # an escaped colon begins like this


def _json_rows(path: str, piece: Piece) -> Iterator[Row]:
    number = piece.before + 1
    for block in _whole_lines(path, piece):
        yield from _rows_in(block, number)
        number += count(block, b"\n")


def _rows_in(block: bytes, first: int) -> Iterator[Row]:
    """The rows of a block, whose first line has a number.

    They are decoded at once if that loses nothing, which takes 7 % off an import.
    """
    lines = block.removesuffix(b"\n").split(b"\n")
    with suppress(*REFUSALS):
        rows = _decode_lines(block)  # wherever its lines end
        borders = 1 + count(block, b"}\n{")
        if borders == len(lines) == len(rows) and not _loses_keys(block, rows):
            return enumerate(rows, first)
    return (
        (number, _row_or_problem(text)) for number, text in enumerate(lines, first) if text.strip()
    )


def _row_or_problem(text: bytes) -> JsonObject | str:
    try:
        return _json_row(text)
    except ValueError as exc:
        return f"it is no JSON object: {exc}"


def _json_row(text: Buffer) -> JsonObject | str:
    """Decode a row, or say why it does not fit. ValueError if it is not JSON."""
    row, twice = _json_value(text, _decode_cells)
    if not isinstance(row, dict):
        return NO_OBJECT
    if twice:
        return f"it has the key {twice[0]!r} twice"
    for name, value in row.items() if twice is not None else ():
        if not _is_utf8(spell([name, value])):
            return f"{name!r} contains half of a surrogate pair, which UTF-8 cannot encode"
    return row


def _json_value(text: Buffer, decode: Callable[[Buffer], Any]) -> tuple[Any, list[str] | None]:
    """Decode JSON, and tell keys that are there twice. ValueError if it is not JSON.

    msgspec takes the last of several equal keys. They are told by the number of colons. It also
    refuses some of what Python's `json` writes. Such texts are read by `json`: then the second
    value is not None.
    """
    problem = ""
    try:
        value = decode(text)
        if not _loses_keys(text, value):
            return value, None
    except REFUSALS as refusal:
        problem = str(refusal)
    twice: list[str] = []

    def object_of(pairs: list[tuple[str, Any]]) -> JsonObject:
        names = Counter(name for name, _ in pairs)
        twice.extend(name for name, number in names.items() if number > 1)
        return dict(pairs)

    try:
        value = json.loads(bytes(text), object_pairs_hook=object_of, parse_int=integer_in)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError(problem) from None
    return value, twice


def _loses_keys(text: Buffer, value: Any) -> bool:
    """Whether a decoded value may have fewer keys than its text: then it has fewer colons."""
    try:
        spelled = encode(value)
    except OverflowError:  # a long integer
        return True
    has_escapes = bool(count(text, _COLON))
    return has_escapes or bool(count(text, b":") != count(spelled, b":"))


def read_json(path: str) -> Any:
    """Read a document; LogError if it is damaged, or has a key twice.

    Lone surrogates become U+FFFD.
    """
    with explaining(path, "is no JSON, or it is cut or damaged"):
        value, twice = _json_value(read_text(path), msgspec.json.decode)
    if twice:
        raise LogError(path, f"has the key {twice[0]!r} twice")
    return value if twice is None else plain(value)


def _document(path: str, columns: TableColumns) -> Table:
    """The rows of a document, and the values beside them: those next to the rows come first."""
    rows = read_json(path)
    beside: JsonObject = {}
    for key in filter(None, columns.rows.split(".")):
        if isinstance(rows, dict):
            beside |= {BESIDE + name: value for name, value in rows.items() if name != key}
        rows = value_at(rows, key)
    if isinstance(rows, dict) and not columns.rows and not columns.has_keys:
        rows = [rows]
    if not isinstance(rows, dict if columns.has_keys else list):
        kind = f"object of rows, which {KEY} needs," if columns.has_keys else "list of rows"
        raise NotATableError(path, f"no {kind} at {columns.rows or 'its top'!r}")
    if isinstance(rows, dict):
        for key, cells in rows.items():
            if isinstance(cells, dict):
                cells[KEY] = key
        rows = rows.values()
    objects = (cells if isinstance(cells, dict) else NO_OBJECT for cells in rows)
    return Table("row", enumerate(objects, 1), beside)


def _parquet_rows(path: str, groups: Piece) -> Iterator[Row]:
    parquet = parquet_module(path)
    columns = list(parquet.survey(path).columns)
    number = groups.before
    for table in parquet.tables(path, columns, None if groups == _WHOLE else groups[:2]):
        for cells in table.cells():
            number += 1
            yield number, cells
