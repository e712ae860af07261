"""Tables of answers: CSV, TSV, JSON Lines, JSON arrays of objects, and Parquet, with names of columns from the user.

A table is a log of its own kind: its rows may be of several models and evaluations, and nothing
about it is recognised by its content. A row is a sample; each column of scores is a metric. Columns
without a meaning become metadata. A row that does not fit is left out, with its line and the
reason.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec import UNSET
from stringzilla import count, count_byteset
from xxhash import xxh3_128

from fastrec.errors import LogError, UsageError, listed, shown
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.lighteval.files import parquet_module
from fastrec.harnesses.log import Log, LogPlan, PlainSample, RunInfo, Sample, Score
from fastrec.harnesses.metadata import chosen_names, own_names
from fastrec.harnesses.registry import PARQUET_MAGIC, head_of
from fastrec.harnesses.values import (
    REFUSALS,
    as_list,
    encode,
    integer_in,
    number_of,
    read_at,
    spell,
)
from fastrec.schemas.newest import Input, Output
from fastrec.sources.formats import MAGIC_BYTES, Format, detect
from fastrec.sources.shard import shard_at
from fastrec.storage import storage_of
from fastrec.toml_file import parse_toml

_TRUTH: Final = {
    "true": 1.0,
    "yes": 1.0,
    "1": 1.0,
    "1.0": 1.0,
    "false": 0.0,
    "no": 0.0,
    "0": 0.0,
    "0.0": 0.0,
}
_DELIMITERS: Final = ",\t;"
_LONGEST_CELL: Final = 512 << 20
_FIRST_ROWS: Final = 100  # that tell the columns
_BOM: Final = b"\xef\xbb\xbf"
_BLOCK: Final = 1 << 20
_PIECE_BYTES: Final = 16 << 20

# The names that `--guess` knows, the best first. Only columns whose first values are of the right
# kind are taken.
_GUESSES: Final = {
    "evaluation_column": "evaluation evaluation_name benchmark dataset task task_name",
    "model_column": "model model_id model_name llm",
    "id_column": "sample_id question_id id doc_id example_id task_id index",
    "input_column": "input question prompt query instruction problem",
    "output_column": "output response prediction completion generation model_output "
    "model_response answer",
    "reference_column": "reference target gold expected ground_truth correct_answer label "
    "solution answer",
    "choices_column": "choices options",
    "correct_column": "is_correct correct ok passed pass exact_match acc",
    "score_column": "score rating f1 grade",
    "error_column": "error",
}


_NEEDED: Final = (
    ("--evaluation", "--evaluation-column"),
    ("--model", "--model-column"),
    ("--input-column",),
    ("--correct-column", "--score-column"),
)


class TableColumns(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """What the columns of a table mean: the options of `import`.

    `score_column` may name several, with commas.
    """

    evaluation: str = ""
    evaluation_column: str = ""
    model: str = ""
    model_column: str = ""
    id_column: str = ""
    input_column: str = ""
    output_column: str = ""
    reference_column: str = ""
    choices_column: str = ""
    correct_column: str = ""
    score_column: str = ""
    error_column: str = ""
    run: str = ""
    metadata: str = "all"  # the columns without a meaning to keep, as in `chosen_names`

    def check(self) -> None:
        chosen_names(self.metadata)
        given = {
            f"--{name.replace('_', '-')}" for name in self.__struct_fields__ if getattr(self, name)
        }
        if missing := [" or ".join(either) for either in _NEEDED if given.isdisjoint(either)]:
            raise UsageError(f"a table needs {', '.join(missing)}; --guess proposes them")

    @property
    def metrics(self) -> list[str]:
        return [name for name in (self.correct_column, *self.score_column.split(",")) if name]

    @property
    def named(self) -> list[str]:
        own = [
            getattr(self, name)
            for name in _GUESSES
            if name not in ("correct_column", "score_column")
        ]
        return [name for name in (*own, *self.metrics) if name]

    def others(self, names: Iterable[str]) -> list[str]:
        """Those of the names that become metadata."""
        named = frozenset(self.named)
        chosen = chosen_names(self.metadata)
        return [name for name in names if name not in named and (chosen is None or name in chosen)]


def columns_from(document: bytes, path: str) -> TableColumns:
    try:
        return msgspec.convert(parse_toml(document, path, "the columns"), TableColumns)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{shown(path)}: {exc}") from exc


_Row = tuple[int, dict[str, Any] | list[PlainSample] | str]
"""The number of a row or its line, from 1, and its cells by column; or why it has none; or samples of several rows."""
_Cells = tuple[int, list[bytes]]
"""The number of lines of a row of CSV, and its cells as JSON without quotes; a blank line has none."""
_PlainMaker = Callable[[list[bytes]], PlainSample | None]
"""Make the sample of a row of CSV, given its cells as JSON; None if it is not plain."""
_Piece = tuple[int, int, int] | None
"""A part of a file that is not compressed: where it begins and ends, and the line before. Of a Parquet file: the first
of its row groups, the one after the last, and the rows before. None is the whole file."""


def _rows_of(
    path: str,
    piece: _Piece = None,
    plain: Callable[[list[str]], _PlainMaker] = lambda _: lambda _: None,
) -> tuple[str, Iterator[_Row]]:
    """Read the rows of a table, and tell what their numbers are.

    `plain` gets the names of the columns of CSV.
    """
    head = head_of(path).lstrip(b"\r\n ")
    if head.startswith(PARQUET_MAGIC):
        return "row", _parquet_rows(path, piece)
    if head[:1] == b"[":
        blocks = shard_at(path).read_text()
        found = JsonArray(path, lambda _: next(blocks, b""), None).items(_json_row)
        return "row", ((number, cells) for number, (_, _, cells) in enumerate(found, 1))
    if head[:1] == b"{":
        return "line", _json_rows(path, piece)
    return "line", _csv_rows(path, piece, head.decode(errors="replace"), plain)


def _whole_lines(path: str, piece: _Piece) -> Iterator[bytes]:
    """Read text in blocks that end with a line. Parts of a long line are joined once."""
    start, end, _ = piece or (0, 0, 0)
    blocks = _range(path, start, end) if piece else shard_at(path).read_text()
    parts: list[bytes] = []
    for block in blocks:
        if not parts and not start:
            block = block.removeprefix(_BOM)
        before, newline, after = block.rpartition(b"\n")
        if newline:
            parts += (before, newline)
            yield _joined(parts)
            parts.append(after)
        else:
            parts.append(block)
    yield _joined(parts)


def _joined(parts: list[bytes]) -> bytes:
    """Join parts of a text, and empty the list: the caller keeps no second copy."""
    text = b"".join(parts)
    parts.clear()
    return text


def _range(path: str, start: int, end: int) -> Iterator[bytes]:
    with storage_of(path).open_reader(path) as file:
        for at in range(start, end, _BLOCK):
            yield read_at(file, min(_BLOCK, end - at), at)


_decode_cells: Final = msgspec.json.Decoder(dict[str, Any]).decode
_KEY_END: Final = re.compile(rb'"[ \t\r\n]*+:')
# What whitespace between a key and its colon begins with, with the quote, and ends with, with the
# colon
_SPACE_AFTER: Final = (b'" :', b'"  ', b'"\t', b'"\r', b'"\n')
_SPACE_BEFORE: Final = (b" :", b"\t:", b"\r:", b"\n:")


def _json_rows(path: str, piece: _Piece) -> Iterator[_Row]:
    line = piece[2] if piece else 0
    for lines, rows in map(_json_block, _whole_lines(path, piece)):
        for number, cells in rows:
            yield line + number, cells
        line += lines


def _json_block(block: bytes) -> tuple[int, Iterable[_Row]]:
    """Decode whole lines: their number, and the rows with their lines, from 1."""
    texts = block.removesuffix(b"\n").split(b"\n")
    numbered = [
        (number, text) for number, text in enumerate(texts, 1) if text and not text.isspace()
    ]
    try:
        rows = [(number, _decode_cells(text)) for number, text in numbered]
        # Keys of a whole block are counted at once: row by row, it takes ten times as long.
        if _key_ends(block) == sum(_keys_in(cells) for _, cells in rows):
            return len(texts), rows
    except REFUSALS:
        pass
    return len(texts), ((number, _row_or_problem(text)) for number, text in numbered)


def _row_or_problem(text: bytes) -> dict[str, Any] | str:
    try:
        return _json_row(text)
    except ValueError as exc:
        return f"it is no JSON object: {exc}"


def _json_row(text: bytes | memoryview) -> dict[str, Any] | str:
    """Decode a row, or say why it does not fit. ValueError if it is not JSON.

    msgspec takes the last of several equal keys. They are told by the number of keys in the text.
    It also refuses some of what Python's `json` writes. Such rows are read by `json`.
    """
    problem = ""
    try:
        cells = _decode_cells(text)
        if _key_ends(text) == _keys_in(cells):
            return cells
    except REFUSALS as refusal:
        problem = str(refusal)
    twice: list[str] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            twice.append(
                next(
                    name
                    for name, number in Counter(name for name, _ in pairs).items()
                    if number > 1
                )
            )
        return members

    try:
        found = json.loads(bytes(text), object_pairs_hook=object_of, parse_int=integer_in)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError(problem) from None
    if not isinstance(found, dict):
        return "it is no JSON object"
    if twice:
        return f"it has the key {twice[0]!r} twice"
    for name, value in found.items():
        try:
            spell([name, value]).encode()
        except UnicodeEncodeError:
            return f"{name!r} contains half of a surrogate pair, which UTF-8 cannot encode"
    return found


def _keys_in(value: Any) -> int:
    """Count the keys of all objects in a value."""
    if value.__class__ is dict:
        return len(value) + sum(
            _keys_in(item) for item in value.values() if item.__class__ in _CONTAINERS
        )
    return sum(_keys_in(item) for item in value if item.__class__ in _CONTAINERS)


_CONTAINERS: Final = (dict, list)


def _key_ends(text: bytes | memoryview) -> int:
    """Count quotes with a colon after them that may end a key: all that do, and the first of texts like `": a"`."""
    is_spaced = any(count(text, end) for end in _SPACE_BEFORE) and any(
        count(text, start) for start in _SPACE_AFTER
    )
    if not is_spaced and not count(text, b'\\\\"'):  # so each quote after a backslash is escaped
        return int(count(text, b'":') - count(text, b'\\":'))
    return len(_KEY_END.findall(bytes(text).replace(b"\\\\", b"").replace(b'\\"', b"")))


def _csv_rows(
    path: str, piece: _Piece, head: str, plain: Callable[[list[str]], _PlainMaker]
) -> Iterator[_Row]:
    delimiter = max(_DELIMITERS, key=head.partition("\n")[0].count)
    columns = _column_names(path, head, delimiter)
    if len(set(columns)) != len(columns):
        raise LogError(path, f"has two columns of the same name: {listed(columns, 30)}")
    width = len(columns)
    plain_of = plain(columns)
    is_head = not (piece and piece[0])
    for line, rows, is_utf8 in _csv_blocks(path, piece, delimiter):
        samples = list[PlainSample]()
        for lines, row in rows:
            if is_head or not row:
                is_head = (
                    is_head and not row
                )  # blank lines may come before the names of the columns
            else:
                found: PlainSample | dict[str, Any] | str
                if len(row) != width:
                    found = f"it has {len(row):,} cells, and the table {width:,} columns"
                elif is_utf8 or _is_utf8(b"".join(row)):
                    found = plain_of(row) or dict(zip(columns, map(_text_of, row), strict=True))
                else:
                    found = "it is not UTF-8"
                if isinstance(found, PlainSample):
                    samples.append(found)
                else:
                    if samples:
                        yield line, samples
                        samples = []
                    yield line, found
            line += lines
        rows, row = [], []  # a long cell is not kept while its sample is converted
        if samples:
            yield line, samples


def _column_names(path: str, head: str, delimiter: str) -> list[str]:
    """The first row that is not blank; of the whole text, if the head may end inside of it."""
    text = io.StringIO(head, newline="")
    columns = next(csv.reader(text, delimiter=delimiter), [])
    if text.read(1):
        return columns
    rows = (row for _, rows, _ in _csv_blocks(path, None, delimiter) for _, row in rows if row)
    return [_text_of(cell.decode(errors="replace").encode()) for cell in next(rows, [])]


def _text_of(cell: bytes) -> str:
    return msgspec.json.decode(b'"%b"' % cell, type=str)


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _csv_blocks(
    path: str, piece: _Piece, delimiter: str
) -> Iterator[tuple[int, list[_Cells], bool]]:
    """Read some rows at a time, with their first line and whether all is UTF-8.

    From the first block on that is not plain, `csv` reads.

    Up to there, quotes are in pairs around cells. So it is certain that a block with an even number
    of them ends a row.
    """
    line = 1 + (piece[2] if piece else 0)
    blocks = _whole_lines(path, piece)
    parts: list[bytes] = []
    quotes = 0
    for block in chain(blocks, [b""]):
        quotes += count(block, b'"')
        parts.append(block)
        if block and quotes % 2:
            continue  # it ends inside of a cell
        held = _joined(parts)
        if (rows := _plain_rows(held, delimiter.encode())) is None:
            break
        is_utf8 = _is_utf8(held)
        block = held = b""  # a long cell is not kept while its row is converted
        yield line, rows, is_utf8
        line += sum(lines for lines, _ in rows)
    else:
        return
    texts = (block.decode(errors="surrogateescape") for block in chain([held], blocks))
    rest = (one for text in texts for one in io.StringIO(text, newline=""))
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(
        rest, delimiter=delimiter, strict=True
    )  # it refuses a piece that ends inside of a cell
    start = line
    try:
        for cells in reader:
            is_utf8 = _is_utf8("".join(cells).encode(errors="surrogateescape"))
            yield (
                line,
                [(0, [encode(cell)[1:-1] if is_utf8 else b"\xff" for cell in cells])],
                is_utf8,
            )
            line = start + reader.line_num
    except csv.Error as exc:
        raise LogError(
            path, f"is not CSV at line {line:,}: {exc}; quotes inside of a cell must be doubled"
        ) from exc


_CONTROLS: Final = {
    bytes([code]): encode(chr(code))[1:-1] for code in range(32) if chr(code) not in "\r\n"
}


def _plain_rows(text: bytes, delimiter: bytes) -> list[_Cells] | None:
    """Split whole rows, each with its number of lines.

    None if there are quotes or returns inside of plain cells.

    Characters besides quotes and ends of lines are escaped all at once.

    Between two quotes is a cell or a part of one; then come further cells and rows, or nothing if
    the quote is doubled. This takes half of the time of `csv`, which looks at each character. Text
    with characters outside of ASCII would take twice as long as its bytes.
    """
    text = text.replace(b"\\", b"\\\\")
    for character in _CONTROLS if count_byteset(text, b"".join(_CONTROLS)) else ():
        if character != delimiter:
            text = text.replace(character, _CONTROLS[character])
    has_returns = b"\r" in text
    parts = text.split(b'"')
    if len(parts) % 2 == 0:
        return None
    parts[0] = b"\n" + parts[0]
    parts[-1] = parts[-1].removesuffix(b"\n") + b"\n"
    if has_returns:
        outside = b'"'.join(parts[::2]).replace(b"\r\n", b"\n")
        if b"\r" in outside:
            return None
        parts[::2] = outside.split(b'"')
    found = []
    row = [b""]
    lines = 0
    pieces = list[bytes]()
    for inside, outside in zip([b"", *parts[1::2]], parts[::2], strict=True):
        if not outside:
            pieces.append(inside)
            continue
        if row[-1]:
            return None
        if pieces:
            inside = b'\\"'.join([*pieces, inside])
            pieces = []
        if newlines := inside.count(b"\n"):
            inside = inside.replace(b"\n", b"\\n")
            lines += newlines
        if has_returns:
            inside = inside.replace(b"\r", b"\\r")
        row[-1] = inside.replace(b"\t", b"\\t")
        if outside == delimiter:  # between two cells with quotes
            row.append(b"")
            continue
        end, *others = outside.split(b"\n")
        nothing, *cells = end.split(delimiter)
        if nothing:
            return None
        row += cells
        for other in others:
            found.append((lines, row))
            row = other.split(delimiter) if other else []
            lines = 1
        row = row or [b""]
    return found[1:]


def _pieces(path: str, *, is_csv: bool) -> list[_Piece]:
    """Cut plain text at line ends that are not inside of quotes: those with an even number of quotes before them."""
    cuts = [(0, 0)]
    at = 0
    line = 0
    quotes = 0
    with storage_of(path).open_reader(path) as file:
        while block := read_at(file, _PIECE_BYTES, at):
            quotes += count(block, b'"')
            is_inside = quotes % 2
            end = len(block)
            while True:
                if is_csv and is_inside:  # go to the quote before the cell
                    end = max(block.rfind(b'"', 0, end), 0)
                    is_inside = 0
                if (newline := block.rfind(b"\n", 0, end)) < 0:
                    break
                is_inside ^= block.count(b'"', newline, end) % 2
                end = newline
                if not (is_csv and is_inside):
                    cuts.append((at + end + 1, line + count(block, b"\n", 0, end + 1)))
                    break
            at += len(block)
            line += count(block, b"\n")
    if quotes % 2 and is_csv:  # a quote in a cell without quotes
        cuts = [(0, 0)]
    ends = [start for start, _ in cuts[1:]] + [at]
    return [
        (start, end, line) for (start, line), end in zip(cuts, ends, strict=True) if start < end
    ]


def _parquet_rows(path: str, groups: _Piece) -> Iterator[_Row]:
    parquet = parquet_module(path)
    columns = list(parquet.survey(path).columns)
    line = groups[2] if groups else 0
    for table in parquet.tables(path, columns, groups and groups[:2]):
        for cells in zip(*map(table.values, columns), strict=True):
            line += 1
            yield line, dict(zip(columns, cells, strict=True))


def plan(log: Log) -> LogPlan:
    """Check the names of the columns in the first rows, and cut the table into slices."""
    columns = log.columns
    path = log.files[0].path
    first = [
        cells for _, cells in islice(_rows_of(path)[1], _FIRST_ROWS) if isinstance(cells, dict)
    ]
    known = list(dict.fromkeys(name for cells in first for name in cells))
    if not first:
        raise LogError(path, "has no rows that can be read")
    chosen = chosen_names(columns.metadata) or ()
    if unknown := [name for name in (*columns.named, *sorted(chosen)) if name not in known]:
        raise LogError(
            path, f"has no column {listed(unknown)}; its columns are {listed(known, 30)}"
        )
    slices: Sequence[_Piece] = [None]
    digest = xxh3_128()
    with storage_of(path).open_reader(path) as file:
        head = file.pread(MAGIC_BYTES, 0)
        while block := file.read(_BLOCK):
            digest.update(block)
    if head.startswith(PARQUET_MAGIC):
        slices = [
            (start, end, before)
            for start, end, before, _ in parquet_module(path).survey(path).slices
        ]
    elif detect(head) is Format.PLAIN and (first_byte := head_of(path).lstrip()[:1]) != b"[":
        slices = _pieces(path, is_csv=first_byte != b"{")
    run = columns.run or digest.hexdigest()[:16]
    return LogPlan(
        run=RunInfo(task=columns.evaluation, model=columns.model, started=run), slices=slices
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample | list[PlainSample] | str]:
    sample_of = _sample_maker(log.columns, run.started)
    word, rows = _rows_of(
        log.files[0].path, log_slice, lambda names: _plain_maker(log.columns, run.started, names)
    )
    for number, cells in rows:
        try:
            if isinstance(cells, str):
                yield f"{word} {number:,}: {cells}"
            else:
                yield sample_of(cells) if isinstance(cells, dict) else cells
        except ValueError as exc:
            yield f"{word} {number:,}: {exc}"


def _sample_maker(columns: TableColumns, started: str) -> Callable[[dict[str, Any]], Sample]:
    named = frozenset(columns.named)
    metrics = columns.metrics
    names = {column: "" if len(metrics) == 1 else column for column in metrics}
    own = own_names("table")
    is_kept = cache(lambda name: bool(columns.others([name])))
    run_of = cache(lambda evaluation, model: RunInfo(task=evaluation, model=model, started=started))

    def sample_of(cells: dict[str, Any]) -> Sample:
        evaluation = columns.evaluation or _required(cells, columns.evaluation_column)
        model = columns.model or _required(cells, columns.model_column)
        question = _required(cells, columns.input_column)
        reference = _texts(cells, columns.reference_column)
        choices = _texts(cells, columns.choices_column)
        return Sample(
            run=run_of(evaluation, model),
            # Without ids, equal questions have equal ids, whatever the model and the order of the
            # rows.
            sample_id=_required(cells, columns.id_column) if columns.id_column else None,
            input=Input(raw=question, reference=reference, choices=choices or UNSET),
            output=Output(raw=_texts(cells, columns.output_column)),
            scores=[
                _score(
                    cells.get(column),
                    column,
                    names[column],
                    is_truth=column == columns.correct_column,
                )
                for column in metrics
            ],
            error=" ".join(_texts(cells, columns.error_column)),
            metadata={}
            if cells.keys() <= named
            else {
                f"table.{name}" if name in own else name: spell(value)
                for name, value in cells.items()
                if value not in _EMPTY and is_kept(name)
            },
        )

    return sample_of


def _plain_maker(columns: TableColumns, started: str, names: list[str]) -> _PlainMaker:
    """Make the samples of plain rows from their cells: most rows of CSV, in a third of the time of `_sample_maker`."""
    at = {name: position for position, name in enumerate(names)}
    own = own_names("table")
    others = columns.others(names)
    metadata = [f"table.{name}" if name in own else name for name in others]
    if (
        len(columns.metrics) != 1
        or not at.keys() >= {*columns.named}
        or len({*metadata}) != len(metadata)
    ):
        return lambda _: None
    metric = columns.metrics[0]
    is_truth = bool(columns.correct_column)
    members = [
        (b",%b:" % encode(name), at[other]) for name, other in zip(metadata, others, strict=True)
    ]
    # The cell of a column that is not given is the empty one that is put after the last.
    evaluation_at, model_at, id_at, input_at, output_at, reference_at, choices_at, error_at = (
        at[name] if (name := getattr(columns, one)) else -1
        for one in _GUESSES
        if one not in ("correct_column", "score_column")
    )
    score_at = at[metric]
    has_ids = bool(columns.id_column)
    score_of = lru_cache(lambda cell: _score(_text_of(cell), metric, "", is_truth=is_truth))

    @cache
    def run_of(evaluation: bytes, model: bytes) -> RunInfo:
        task = columns.evaluation or _text_of(evaluation)
        name = columns.model or _text_of(model)
        return RunInfo(task=task, model=name, started=started)

    def plain_of(row: list[bytes]) -> PlainSample | None:
        cells = [*row, b""]
        run = run_of(cells[evaluation_at], cells[model_at])
        question = cells[input_at]
        name = cells[id_at]
        if (
            not (run.task and run.model and question)
            or has_ids > bool(name)
            or cells[choices_at]
            or cells[error_at]
        ):
            return None
        try:
            score = score_of(cells[score_at])
        except ValueError:
            return None
        reference = cells[reference_at]
        output = cells[output_at]
        return PlainSample(
            run,
            b'"%b"' % name if name else b"",
            b'{"raw":"%b","reference":["%b"]}' % (question, reference)
            if reference
            else b'{"raw":"%b","reference":[]}' % question,
            b'{"raw":["%b"]}' % output if output else b'{"raw":[]}',
            score,
            b"".join(
                [b'%b"%b"' % (key, cells[position]) for key, position in members if cells[position]]
            ),
        )

    return plain_of


_EMPTY: Final = (None, "")


def _texts(cells: dict[str, Any], column: str) -> list[str]:
    """The texts in a cell: a list has several, an empty cell none.

    Numbers are spelled as in JSON.
    """
    if not column or (value := cells.get(column)) is None:
        return []
    if value.__class__ is str:
        return [value] if value else []
    texts = as_list(value)
    if any(isinstance(text, list | dict) for text in texts):
        raise ValueError(f"{column!r} is neither text nor a list of texts")
    return [spell(text) for text in texts if text is not None]


def _required(cells: dict[str, Any], column: str) -> str:
    value = cells.get(column)
    if value and value.__class__ is str:  # nearly always
        return str(value)
    texts = _texts(cells, column)
    if len(texts) != 1:
        raise ValueError(f"{column!r} {'is empty' if not texts else 'has several texts'}")
    return texts[0]


def _score(value: Any, column: str, metric: str, *, is_truth: bool) -> Score:
    if value in _EMPTY:
        return Score(metric=metric, value=None, problem=f"{column!r} is empty")
    number = _TRUTH.get(str(value).lower()) if is_truth else number_of(value)
    if number is None:
        raise ValueError(
            f"{column!r} is not {'true or false' if is_truth else 'a number'}: "
            f"{spell(value)[:40]!r}"
        )
    return Score(metric=metric, value=number)


def guess(path: str, output: str) -> str:
    """Propose the command line that imports a table, by the names of its columns and its first rows."""
    rows = [cells for _, cells in islice(_rows_of(path)[1], _FIRST_ROWS) if isinstance(cells, dict)]
    left = {
        name.lower().replace(" ", "_"): name
        for name in reversed([name for cells in rows for name in cells])
    }
    words = ["fastrec", "import", path, "-o", output]
    for option, names in _GUESSES.items():
        for name in names.split():
            column = left.get(name)
            if column is not None and _fits(option, [cells.get(column) for cells in rows]):
                words += [f"--{option.replace('_', '-')}", left.pop(name)]
                break
    for either in _NEEDED:
        if not {*either} & {*words}:
            words += [either[0], "COLUMN" if either[0].endswith("-column") else "NAME"]
    return shlex.join(words)


def _fits(option: str, values: list[Any]) -> bool:
    given = [value for value in values if value not in _EMPTY]
    if option == "correct_column":
        return all(str(value).lower() in _TRUTH for value in given)
    return option != "score_column" or all(number_of(value) is not None for value in given)
