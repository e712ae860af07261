"""Columns: what questions need of the records of a part, in a file beside it.

    part-00000.columns    magic, 8 bytes | size of the header, 4 bytes | header | frames

The header is JSON: the number of records, and for each frame its name, type and size. A frame is
zstd; its content is a little-endian array with a value of each record, in the order of the lines,
or JSON. The JSON frame `values.NAME` lists what the codes in the array NAME stand for. `exact` has
the integers that an array cannot hold, by name and position, in hexadecimal digits; the array has
the nearest number. NaN is a latency that is not known.

A key of metadata has a column if it is among the first `MOST_KEYS` keys of the part, and has at
most `MOST_VALUES` distinct values, each spelled in at most `MOST_BYTES` bytes of JSON. Code 0 says
that a record lacks the key. The JSON frame `metadata` names the other keys, as far as they are
among the first, and says whether there are more.

The same records give the same bytes. Workers write columns with `array`, because importing numpy
takes time and memory.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from itertools import count, repeat
from math import inf, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import zstandard
from msgspec import MsgspecError, Raw, Struct
from stringzilla import rfind

from fastrec.build import package
from fastrec.corpus.manifest import MANIFEST
from fastrec.errors import CorpusError
from fastrec.judge.parse import LongInteger
from fastrec.schemas.view import encode_json, json_decoder
from fastrec.sorting.keys import KeyColumns, sample_id_of, split_scope, text_of
from fastrec.sources.formats import COLUMNS_MAGIC
from fastrec.sources.shard import ListedFile, Shard
from fastrec.storage import file_in, join, parent_of, storage_of
from fastrec.storage.base import EndsEarlyError
from fastrec.summary.rows import USUAL_TYPE, columns_of, from_portable
from fastrec.summary.rows import Column as RowColumn

if TYPE_CHECKING:
    import numpy as np

_SIZE_BYTES = 4
_SUFFIX = ".columns"
_LEVEL = 3
_MOST_RATIO = 1 << 16  # of zstd: a block of 128 KiB takes at least four bytes
_ARRAY_CODES = {"u1": "B", "u4": "I", "u8": "Q", "f8": "d"}


class Column(NamedTuple):
    """A column: the type of its array, and what it has of each record."""

    type: str
    meaning: str
    is_coded: bool = False  # whether it has codes of values


# All columns but those of metadata, in the order of the file.
COLUMNS = msgspec.json.decode(
    package().joinpath("corpus", "columns.json").read_bytes(), type=dict[str, Column]
)

CODES = [name for name, column in COLUMNS.items() if column.is_coded]

# Columns that have a value of rows.
ROW_COLUMNS = {
    "interaction_type": RowColumn.INTERACTION_TYPE,
    "schema_version": RowColumn.SCHEMA_VERSION,
    "correct": RowColumn.CORRECT,
    "score": RowColumn.SCORE,
    "error": RowColumn.ERROR,
    "turns": RowColumn.TURNS,
    "tool_calls": RowColumn.TOOL_CALLS,
    "latency_ms": RowColumn.LATENCY,
    "notes": RowColumn.NOTES,
    "input_characters": RowColumn.INPUT_CHARACTERS,
    "response_characters": RowColumn.RESPONSE_CHARACTERS,
}

METADATA = "metadata."
MOST_KEYS = 64
MOST_VALUES = 255
MOST_BYTES = 128
_MOST_WAITING = 4_096  # distinct metadata of records that are held at a time
TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_NO_TOKENS = (0, 0, 0)
_HEAD_BYTES = 64 << 10  # of a file that are read first, and kept
_NEXT_STEP = "Normalize its shards again, or the corpus with --judge"
_METADATA_MARK = b',"metadata":{'
_MOST = {"d": int(sys.float_info.max), "Q": 2**64 - 1}  # the largest integer in an array


def columns_path(part: str) -> str:
    """Return the path of the columns of a part that is being made, given its own path."""
    return part[: part.rindex(".jsonl")] + _SUFFIX


def listed_columns(part: Shard) -> tuple[str, ListedFile]:
    """Return the path of the columns of a part of a corpus, and what the manifest says about them.

    Raises:
        CorpusError: Their name leads out of the corpus.
    """
    assert part.listed
    assert part.listed.columns
    folder = parent_of(part.path)
    return file_in(folder, part.listed.columns.file, join(folder, MANIFEST)), part.listed.columns


class Frame(Struct, array_like=True):
    """An entry of the header: the name of a frame, its type (`json` or an array's), its size."""

    name: str
    type: str
    bytes: int


class Header(Struct):
    """What a file of columns has."""

    records: int
    text_xxh3_128: str  # of the text of the part
    frames: list[Frame]


class OtherKeys(Struct):
    """Keys of metadata that have no column."""

    keys: list[str]
    more: bool  # whether there are more keys, which are not listed


def new_codes() -> defaultdict[Any, int]:
    """Number values in the order in which they are looked up."""
    return defaultdict(count().__next__)


class ColumnsBuilder:
    """Collects the columns of a part, and writes them."""

    def __init__(self, schema_label: str) -> None:
        self._schema_label = schema_label
        self._codes = {name: new_codes() for name in CODES}
        self._scopes = new_codes()  # of evaluation and metric together
        self._scope_codes = array("I")
        self._arrays: dict[str, array[Any]] = {
            name: array(_ARRAY_CODES[column.type]) for name, column in COLUMNS.items()
        }
        # By column and position: hexadecimal digits.
        self._exact = defaultdict[str, dict[int, str]](dict)
        self._metadata = _MetadataColumns()

    def add_metadata(self, texts: Iterable[memoryview]) -> None:
        """Add the metadata of records, given their lines."""
        self._metadata.add(texts)

    def add(
        self,
        keys: KeyColumns,
        rows: Sequence[Sequence[Any]],
        sizes: Iterable[int],
        fingerprints: Iterable[int],
    ) -> None:
        """Add everything else of records, which come in the same order."""
        if not rows:
            return
        arrays = self._arrays
        codes = self._codes
        # All records of a question are adjacent.
        for first, end in keys.groups():
            number = end - first
            self._scope_codes.extend(repeat(self._scopes[keys.scopes[first]], number))
            arrays["hash"].extend(repeat(codes["hash"][keys.hashes[first]], number))
            arrays["sample_id"].extend(repeat(codes["sample_id"][keys.sample_ids[first]], number))
        arrays["bytes"] += array("Q", sizes)
        arrays["fingerprint"] += array("Q", fingerprints)
        by_row = columns_of(rows)
        columns: dict[str, Sequence[Any]] = {"model": keys.models, "run": keys.evaluation_ids}
        columns |= {name: by_row[place] for name, place in ROW_COLUMNS.items()}
        for name, values in columns.items():
            kind = COLUMNS[name].type
            if kind == "f8":
                self._add_numbers(name, values)
            elif kind == "u1":
                arrays[name].frombytes(bytes(values))
            elif not COLUMNS[name].is_coded:
                arrays[name] += array(arrays[name].typecode, values)
            elif values.count(values[0]) == len(values):  # the usual type, or label of the corpus
                arrays[name] += array("I", [codes[name][values[0]]]) * len(values)
            else:
                arrays[name] += array("I", list(map(codes[name].__getitem__, values)))
        self._add_tokens(by_row[RowColumn.TOKENS])

    def _split_scopes(self) -> None:
        """Set the columns of evaluations and metrics."""
        names = [split_scope(scope) for scope in self._scopes]
        for number, column in enumerate(("evaluation", "metric")):
            codes = [self._codes[column][name[number]] for name in names]
            self._arrays[column] = array("I", map(codes.__getitem__, self._scope_codes))

    def _add_tokens(self, usages: Sequence[Sequence[Any] | None]) -> None:
        self._arrays["has_tokens"].frombytes(bytes([usage is not None for usage in usages]))
        if usages.count(None) == len(usages):
            for name in TOKENS:
                self._arrays[name].frombytes(bytes(8 * len(usages)))
            return
        known = [usage or _NO_TOKENS for usage in usages]
        for name, values in zip(TOKENS, columns_of(known), strict=True):
            self._add_numbers(name, values)

    def _add_numbers(self, name: str, values: Sequence[Any]) -> None:
        """Append numbers to an array.

        Those that it cannot hold stand apart, beside the nearest that it can.
        """
        numbers = self._arrays[name]
        known = [value for value in values if value is not None] if None in values else list(values)
        with suppress(TypeError, OverflowError):
            held = array(numbers.typecode, known)
            if held.tolist() == known:
                if len(known) < len(values):
                    values = [nan if value is None else value for value in values]
                    held = array(numbers.typecode, values)
                numbers.extend(held)
                return
        for position, value in enumerate(values, len(numbers)):
            exact = from_portable(value)
            if exact is None:
                exact = nan
            if exact.__class__ is int:
                most = _MOST[numbers.typecode]
                numbers.append(min(max(exact, -most), most))
                if numbers[-1] != exact:
                    self._exact[name][position] = hex(exact)
            else:
                numbers.append(exact)

    def contents(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield the name, the type and the content of each frame, after all records were added."""
        self._split_scopes()
        for name, column in COLUMNS.items():
            yield name, column.type, _little_endian(self._arrays[name])
            if column.is_coded:
                yield f"values.{name}", "json", encode_json(self._values(name))
        for key, codes, values in self._metadata.columns():
            yield METADATA + key, "u1", codes
            yield f"values.{METADATA}{key}", "json", encode_json([None, *map(Raw, values)])
        yield "metadata", "json", encode_json(self._metadata.other_keys())
        # Which column came first depends on the windows that records came in.
        yield "exact", "json", encode_json(dict(sorted(self._exact.items())))

    def write(self, path: str, text_hash: str) -> tuple[int, str]:
        """Write the file, given the 128-bit xxh3 of the text of the part.

        Return its size and SHA-256.
        """
        compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress
        frames = []
        contents = []
        for name, kind, content in self.contents():
            contents.append(compress(content))
            frames.append(Frame(name, kind, len(contents[-1])))
        header = compress(encode_json(Header(len(self._arrays["score"]), text_hash, frames)))
        size = len(header).to_bytes(_SIZE_BYTES, "little")
        data = b"".join([COLUMNS_MAGIC, size, header, *contents])
        with storage_of(path).create(path, synced=False) as file:
            file.write(data)
        return len(data), sha256(data).hexdigest()

    def _values(self, name: str) -> list[Any]:
        values = list(self._codes[name])
        if name == "sample_id":
            return [_portable_id(sample_id_of(value)) for value in values]
        if name in ("evaluation", "metric"):
            return values
        if name in ("interaction_type", "schema_version"):
            usual = USUAL_TYPE if name == "interaction_type" else self._schema_label
            return [usual if value is None else value for value in values]
        return list(map(text_of, values))


def _little_endian(numbers: array[Any]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _portable_id(sample_id: int | str) -> int | str | dict[str, str]:
    """Return a `sample_id` as every JSON reader takes it: a long integer as an object."""
    if isinstance(sample_id, int) and not -(1 << 63) <= sample_id < 1 << 63:
        return {"integer": hex(sample_id)}
    return sample_id


def _sample_id(portable: dict[str, str]) -> int:
    integer = LongInteger(int(portable["integer"], 16))
    integer.text = f"{Decimal(integer):f}"
    return integer


class _Tail(Struct):
    """The end of a line, or all of it."""

    metadata: dict[str, Raw] = {}


class _KeyColumn(Struct):
    """The codes of a key of metadata, as far as records have it."""

    codes: array[int]
    values: dict[bytes, int] = {}  # codes by value, as it is spelled in JSON


_NEW = _KeyColumn(array("B"))  # stands for the column of a key that is new


class _MetadataColumns(Struct):
    """Collects the metadata of records that have few distinct values.

    Most records have the same metadata as another one, so each distinct text is decoded once.
    """

    _records: int = 0
    _keys: dict[str, _KeyColumn | None] = {}  # None: it has too many values, or too long ones
    _has_more: bool = False  # keys than those
    _waiting: list[int] = []  # of each record, the number of its metadata
    _numbers: dict[bytes, int] = {}  # by end of a line
    _distinct: list[dict[str, int]] = []  # codes by key

    def add(self, texts: Iterable[memoryview]) -> None:
        numbers = self._numbers
        append = self._waiting.append
        for text in texts:
            # Without metadata, this is the end of the line. Quotes inside a string are escaped.
            end = text[rfind(text, _METADATA_MARK) :].tobytes()
            number = numbers.get(end)
            append(self._learn(end, text) if number is None else number)

    def _learn(self, end: bytes, text: memoryview) -> int:
        if len(self._distinct) >= _MOST_WAITING:
            self._settle()
        try:
            tail = _decode_tail(b"{" + end[1:]) if len(end) > 1 else _Tail()
            self._numbers[end] = len(self._distinct)
        except MsgspecError:  # this is a key of an inner object
            tail = _decode_tail(text)
        codes = {}
        for key, value in tail.metadata.items():
            column = self._keys.get(key, _NEW)
            if column:
                codes[key] = column.values.get(bytes(value)) or self._add_value(key, bytes(value))
        self._distinct.append(codes)
        return len(self._distinct) - 1

    def _settle(self) -> None:
        """Add the codes of waiting records to the columns."""
        for key, column in self._keys.items():
            if column:
                of_distinct = [codes.get(key, 0) for codes in self._distinct]
                column.codes.frombytes(bytes([of_distinct[number] for number in self._waiting]))
        self._records += len(self._waiting)
        self._waiting.clear()
        self._numbers.clear()
        self._distinct.clear()

    def _add_value(self, key: str, value: bytes) -> int:
        """Return the code of a value that is new; 0 if its key has no column, or loses it."""
        column = self._keys.get(key)
        if not column:
            if len(self._keys) == MOST_KEYS:
                self._has_more = True
                return 0
            column = _KeyColumn(array("B", bytes(self._records)))
        is_short = len(value) <= MOST_BYTES and len(column.values) < MOST_VALUES
        self._keys[key] = column if is_short else None
        return column.values.setdefault(value, len(column.values) + 1) if is_short else 0

    def columns(self) -> Iterator[tuple[str, bytes, Iterable[bytes]]]:
        """Yield each key with a column, the codes of the records, and the values from code 1 on."""
        self._settle()
        for key, column in self._keys.items():
            if column:
                yield key, column.codes.tobytes(), column.values

    def other_keys(self) -> OtherKeys:
        """The keys without a column."""
        return OtherKeys(
            [key for key, column in self._keys.items() if not column], more=self._has_more
        )


_decode_tail = json_decoder(_Tail)
_decode_header = json_decoder(Header)


def _decompress(frame: bytes) -> bytes:
    size = zstandard.get_frame_parameters(frame).content_size
    if size > len(frame) * _MOST_RATIO:  # it is not tried, because the memory is taken first
        raise zstandard.ZstdError(f"it promises {size:,} bytes")
    return zstandard.decompress(frame)


class PartColumns:
    """The columns of a part, read as they are asked for.

    Raises:
        CorpusError: The file is damaged, or is not the one of this part.
    """

    def __init__(self, path: str, text_hash: str) -> None:
        self._path = path
        self._storage = storage_of(path)
        self._head = head = self._read(0, _HEAD_BYTES, at_most=True)
        begin = len(COLUMNS_MAGIC) + _SIZE_BYTES
        size = int.from_bytes(head[len(COLUMNS_MAGIC) : begin], "little")
        if head[: len(COLUMNS_MAGIC)] != COLUMNS_MAGIC:
            raise self._damaged("it does not begin as a file of columns")
        if len(head) < begin + size:
            head = self._read(0, begin + size)
        try:
            header = _decode_header(_decompress(head[begin : begin + size]))
        except (MsgspecError, zstandard.ZstdError) as exc:
            raise self._damaged(f"its header cannot be read: {exc}") from exc
        if header.text_xxh3_128 != text_hash:
            raise self._damaged("it belongs to another part")
        self.records = header.records
        self.text_hash = text_hash
        self.frames: dict[str, tuple[Frame, int]] = {}
        offset = begin + size
        for frame in header.frames:
            self.frames[frame.name] = (frame, offset)
            offset += frame.bytes

    @property
    def metadata_keys(self) -> list[str]:
        """The keys of metadata that have a column; records may have others."""
        return [
            name.removeprefix(METADATA)
            for name, (frame, _) in self.frames.items()
            if name.startswith(METADATA) and frame.type != "json"
        ]

    def lacks(self, key: str) -> bool:
        """Whether no record has a key of metadata."""
        if METADATA + key in self.frames:
            return False
        others = msgspec.json.decode(self.content("metadata"), type=OtherKeys)
        return not others.more and key not in others.keys

    def content(self, name: str) -> bytes:
        """The content of a frame: the bytes of an array, or JSON."""
        try:
            frame, offset = self.frames[name]
            end = offset + frame.bytes
            is_here = end <= len(self._head)
            data = self._head[offset:end] if is_here else self._read(offset, frame.bytes)
            return _decompress(data)
        except (KeyError, zstandard.ZstdError) as exc:
            raise self._damaged(f"its column {name} cannot be read: {exc}") from exc

    def array(self, name: str) -> array[Any]:
        """The values of a column."""
        numbers = array(_ARRAY_CODES[self.frames[name][0].type])
        numbers.frombytes(self.content(name))
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """The same as a numpy array, which cannot be written."""
        import numpy as np  # noqa: PLC0415 - workers do not need it

        numbers = np.frombuffer(self.content(name), dtype=f"<{self.frames[name][0].type}")
        if len(numbers) != self.records:
            raise self._damaged(f"its column {name} has {len(numbers):,} values")
        return numbers

    def doubles(self, name: str) -> np.ndarray[Any, Any]:
        """The numbers of a column of doubles; infinite beyond the largest one."""
        numbers = self.numbers(name).copy()
        for position, exact in self.exact(name).items():
            try:
                float(exact)
            except OverflowError:
                numbers[position] *= inf
        return numbers

    def values(self, name: str) -> list[Any]:
        """What the codes of a column stand for."""
        try:
            values: list[Any] = msgspec.json.decode(self.content(f"values.{name}"))
        except MsgspecError as exc:
            raise self._damaged(f"the values of {name} cannot be read: {exc}") from exc
        if name == "sample_id":
            values = [_sample_id(value) if isinstance(value, dict) else value for value in values]
        return values

    def exact(self, name: str) -> dict[int, int]:
        """The integers that an array cannot hold, by position."""
        return self._exact.get(name, {})

    @cached_property
    def _exact(self) -> dict[str, dict[int, int]]:
        spelled = msgspec.json.decode(self.content("exact"), type=dict[str, dict[int, str]])
        return {
            name: {position: int(digits, 16) for position, digits in integers.items()}
            for name, integers in spelled.items()
        }

    def _read(self, offset: int, size: int, *, at_most: bool = False) -> bytes:
        try:
            if at_most:
                with self._storage.open_reader(self._path) as file:
                    return file.pread(size, offset)
            return self._storage.read_range(self._path, size, offset)
        except FileNotFoundError as exc:
            raise CorpusError(self._path, f"is missing. {_NEXT_STEP}") from exc
        except EndsEarlyError as exc:
            raise self._damaged(exc.strerror or str(exc)) from exc

    def _damaged(self, reason: str) -> CorpusError:
        return CorpusError(self._path, f"is damaged: {reason}. {_NEXT_STEP}")
