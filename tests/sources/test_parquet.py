"""Parquet as input: rows become the lines that they were made of, and damage is reported."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.commands.export.table import MEASURES
from fastrec.commands.generate import Recipe, lines
from fastrec.errors import ForeignFormatError, ShardCorruptError, ShardError
from fastrec.schemas.registry import SCHEMAS, TARGETS
from fastrec.schemas.schema import Shape
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, ReadStats
from fastrec.sources.shard import Shard, Slice, shard_at
from tests import strategies
from tests.commands.test_export import odd_records
from tests.lazily import Library
from tests.normalize.normalizing import Corpus, normalized, without_long, write
from tests.running import run_command
from tests.samples import sample_of
from tests.sizes import examples

pa: Any = Library("pyarrow")
pq: Any = Library("pyarrow.parquet")
parquet: Any = Library("fastrec.sources.parquet")
exporting: Any = Library("fastrec.commands.export.parquet")


def lines_in(shard: Shard, slice_: Slice | None = None, **options: Any) -> list[bytes]:
    part = slice_ or Slice(shard)
    text = b""
    for chunk in shard.read(part.start, part.end, **options):
        assert isinstance(chunk, Chunk)
        text += chunk.data
    return text.splitlines(keepends=True)


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in lines_in(shard_at(str(path)))]


def write_table(path: Path, rows: Any, **options: Any) -> Path:
    made = pa.Table.from_pylist(rows) if isinstance(rows, list) else rows
    pq.write_table(made, path, **options)
    return path


def records(count: int) -> list[dict[str, Any]]:
    return [sample_of("0.3.0", sample_id=str(n), input=_asked(n)) for n in range(count)]


def _asked(number: int) -> dict[str, Any]:
    return {**sample_of("0.3.0")["input"], "raw": f"{number} x 7 = ?"}


@pytest.fixture
def _long_integers() -> Iterator[None]:
    """Let Python convert integers of any length."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


# The values that went in


@pytest.mark.usefixtures("_long_integers")
@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_an_export_becomes_the_same_parts_again(version: str, tmp_path: Path) -> None:
    """Odd records, unknown keys, huge integers, and several parts: byte for byte."""
    write(tmp_path / "odd.jsonl", [json.dumps(record).encode() for record in odd_records()])
    recipe = Recipe(records=40, seed=5, unknown_keys=0.3, text="words")
    write(tmp_path / "made.jsonl", without_long(lines(recipe)))
    shards = [tmp_path / "odd.jsonl", tmp_path / "made.jsonl"]
    options: Any = {"schema": version, "part_size": 40_000}
    fastrec.normalize(shards, tmp_path / "before", max_rejects="100%", **options)
    fastrec.export(tmp_path / "before", tmp_path / "tables")
    tables = sorted((tmp_path / "tables" / "data").iterdir())
    after = normalized(tables, tmp_path / "after", **options)
    parts = sorted((tmp_path / "before").glob("part-*"))
    assert len(parts) > 2
    assert {part.name: part.read_bytes() for part in parts} == {
        part.name: part.read_bytes() for part in after.path.glob("part-*")
    }


@settings(max_examples=examples(6, 400))
@given(data=st.data())
def test_any_record_survives(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Records of every version, upgraded to each target: columns and back give the same bytes."""
    target = data.draw(st.sampled_from([*TARGETS]))
    version = data.draw(st.sampled_from([*SCHEMAS] if target == "0.3.0" else ["0.2.0"]))
    found = data.draw(st.lists(strategies.records_of[version], min_size=1, max_size=3))
    how: Any = {"upgrade": True} if target == "0.3.0" else {"schema": "0.2.0"}
    judged = [fastrec.judge(json.dumps(record).encode(), **how) for record in found]
    normal = [verdict.normal for verdict in judged if verdict.valid]
    decoder = exporting.Decoder(TARGETS[target])
    batch = exporting.batch_of([decoder.decode(line) for line in normal], TARGETS[target])
    path = tmp_path_factory.mktemp("any") / "a.parquet"
    write_table(path, pa.Table.from_batches([batch], batch.schema))
    again = [fastrec.judge(line, **how).normal for line in lines_in(shard_at(str(path)))]
    assert again == normal


def test_records_of_other_writers(tmp_path: Path) -> None:
    """Nulls stand for absent fields, and so do objects of nulls. Objects may be JSON text."""
    first, second = records(2)
    second["performance"] = None
    second["metadata"] = {"tags": "[1]"}
    found = read(write_table(tmp_path / "a.parquet", [first, second]))
    del second["performance"]
    assert found == [first, second]
    as_text = [
        {
            name: json.dumps(value) if name in parquet.OBJECTS else value
            for name, value in row.items()
        }
        for row in (first, second)
    ]
    assert read(write_table(tmp_path / "b.parquet", as_text)) == [first, second]
    empty = {"latency_ms": None, "additional_details": None}
    read_back = read(write_table(tmp_path / "c.parquet", [first, {**second, "performance": empty}]))
    assert read_back == [first, second]


def test_texts_stay_texts(tmp_path: Path) -> None:
    """JSON in place of a text, texts that only look like JSON, and what could break a line."""
    texts = ['{"a": 1}', "[", '{}, "model_id": "x"', "\n", "\u2028\r\0", "NaN", "é" * 70_000]
    rows = [
        {**record, "error": text, "metadata": {"input": text, "more": {"arguments": text}}}
        for text, record in zip(texts, records(len(texts)), strict=True)
    ]
    assert read(write_table(tmp_path / "a.parquet", rows)) == rows
    assert read(
        write_table(tmp_path / "b.parquet", [{**rows[0], "metadata": t} for t in texts[1:]])
    ) == [{**rows[0], "metadata": text} for text in texts[1:]]


def test_types_of_columns(tmp_path: Path) -> None:
    """Maps, bytes, dictionaries, decimals and dates; a score of NaN is rejected."""
    (record,) = records(1)
    plain = pa.Table.from_pylist([record])
    columns = {
        "metadata": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
        "model_id": pa.array([b"org/m"]),
        "evaluation_name": pa.array(["sums"]).dictionary_encode(),
        "day": pa.array([0], pa.date32()),
        "error": pa.array([b"none"], pa.binary(4)),
        "performance": pa.array([7]),
    }
    for name, column in columns.items():
        plain = plain.drop_columns([name]) if name in plain.column_names else plain
        plain = plain.append_column(name, column)
    changed = {
        "metadata": {"a": "b"},
        "model_id": "org/m",
        "evaluation_name": "sums",
        "day": "1970-01-01",
        "error": "none",
        "performance": 7,
    }
    assert read(write_table(tmp_path / "a.parquet", plain)) == [{**record, **changed}]
    record["evaluation"]["score"] = float("nan")
    (line,) = lines_in(shard_at(str(write_table(tmp_path / "b.parquet", [record]))))
    assert b'"score":null' in line
    assert not fastrec.judge(line).valid


# Slices and counts


def test_slices_have_all_rows_in_order(tmp_path: Path) -> None:
    """However a file is cut into byte ranges, and whatever the sizes of row groups."""
    path = write_table(tmp_path / "a.parquet", records(50), row_group_size=7)
    shard = shard_at(str(path))
    assert shard.format is Format.PARQUET
    assert shard.splittable
    whole = lines_in(shard)
    assert [json.loads(line)["sample_id"] for line in whole] == [str(n) for n in range(50)]
    for count in (2, 3, 8, 40):
        cuts = [shard.size * number // count for number in range(count)]
        slices = [Slice(shard, *ends) for ends in zip(cuts, [*cuts[1:], None], strict=True)]
        found = [lines_in(shard, slice_) for slice_ in slices]
        assert [line for part in found for line in part] == whole
        assert sum(map(bool, found)) > 1
        stats = [ReadStats() for _ in slices]
        for slice_, one in zip(slices, stats, strict=True):
            lines_in(shard, slice_, stats=one)
        assert [one.raw_start for one in stats] == cuts
        assert sum(one.raw_bytes for one in stats) == shard.size
        assert all(
            shard.own_bytes(slice_.start, slice_.end)[0] == slice_.start for slice_ in slices
        )


def test_rejected_rows_have_the_number_of_their_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a file that is read in slices."""
    rows = records(60)
    rows[41]["evaluation"]["score"] = None
    path = write_table(tmp_path / "a.parquet", rows, row_group_size=5)
    monkeypatch.setattr("fastrec.sources.shard._SMALLEST", 1)
    assert len(list(shard_at(str(path)).slices(1 << 20))) > 10
    fastrec.normalize(path, tmp_path / "out", max_rejects=1, jobs=1)
    (rejected,) = Corpus(tmp_path / "out").rejects
    assert (rejected["source"], rejected["line"]) == (str(path), 42)
    assert "score" in json.dumps(rejected)
    assert len(Corpus(tmp_path / "out").lines) == 59


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """The rows of a slice may depend on any byte, so a slice counts only for the file as found."""
    path = write_table(tmp_path / "a.parquet", records(20), row_group_size=5)
    shard = shard_at(str(path))
    assert shard.own_bytes(0, 10) == (0, 10)
    write_table(path, records(21), row_group_size=5)
    with pytest.raises(ShardError, match="changed"):
        shard.own_bytes(0, 10)


# Directories, and what is not read


def test_directories_are_not_searched_for_parquet(tmp_path: Path) -> None:
    """A hint says how to name the files; a pattern finds them."""
    write_table(tmp_path / "a.parquet", records(2))
    done = run_command("validate", tmp_path)
    assert done.returncode == 2
    assert b"is Parquet, not JSON Lines: name the files, as 'DIR/**/*.parquet'" in done.stderr
    assert fastrec.validate(f"{tmp_path}/**/*.parquet").lines == 2


def test_a_table_is_no_shard(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", [{"question": "?", "model_id": "m"}])
    done = run_command("normalize", path, "-o", tmp_path / "out")
    assert done.returncode == 3
    assert b"is a Parquet table, not of records" in done.stderr
    assert b"`fastrec import` reads tables and logs" in done.stderr


def test_compressed_parquet(tmp_path: Path) -> None:
    data = write_table(tmp_path / "a.parquet", records(2)).read_bytes()
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(data))
    with pytest.raises(ForeignFormatError, match="is Parquet, not JSON Lines: name the files"):
        list(shard_at(str(tmp_path / "a.parquet.gz")).read())


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path / "a.parquet", records(2))
    monkeypatch.setattr("fastrec.errors.find_spec", lambda _: None)
    with pytest.raises(
        ForeignFormatError, match="needs pyarrow, not installed: pip install pyarrow"
    ):
        list(shard_at(str(path)).read())


# Damage


@settings(max_examples=examples(25, 2_000))
@given(data=st.data())
def test_damaged_bytes(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Changed or cut bytes give lines or a ShardError."""
    path = tmp_path_factory.mktemp("damaged") / "a.parquet"
    content = bytearray(write_table(path, records(3), row_group_size=2).read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    with suppress(ShardError):
        for line in lines_in(shard_at(str(path))):
            assert line.endswith(b"\n")


@given(tail=st.binary(max_size=100))
def test_random_footers(tail: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("random") / "a.parquet"
    path.write_bytes(b"PAR1" + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ShardError):
        lines_in(shard_at(str(path)))


def test_paths_and_types_that_no_export_writes(tmp_path: Path) -> None:
    """A table that only looks like an export is reported as damaged."""
    (record,) = records(1)
    counts = dict.fromkeys(MEASURES, 1)
    for number, extra in enumerate(
        ['{"$.nowhere.x": 1}', "[]", "{", '{"$.error[5]": 1}', '{"": 1}']
    ):
        path = write_table(tmp_path / f"{number}.parquet", [{**record, **counts, "extra": extra}])
        with pytest.raises(ShardCorruptError, match="this Parquet file is damaged"):
            lines_in(shard_at(str(path)))


@pytest.mark.parametrize(
    "changes", [{"extra": '{"$.x": [\n1]}'}, {"sample_id": "1\n", "sample_id_type": "integer"}]
)
def test_a_value_cannot_break_a_line(tmp_path: Path, changes: dict[str, str]) -> None:
    """Text that is taken for JSON of our own making must not become another line."""
    row = {**records(1)[0], **dict.fromkeys(MEASURES, 1), "extra": "{}", **changes}
    path = write_table(tmp_path / "a.parquet", [row])
    with pytest.raises(ShardCorruptError, match="has a line break inside of a value"):
        lines_in(shard_at(str(path)))


def test_a_damaged_file_is_a_bad_shard(tmp_path: Path) -> None:
    data = write_table(tmp_path / "a.parquet", records(2)).read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[:-9])
    write_table(tmp_path / "b.parquet", records(2))
    shards = sorted(tmp_path.iterdir())
    done = run_command("normalize", *shards, "-o", tmp_path / "out")
    assert done.returncode == 3
    assert b"a.parquet: it is cut or damaged" in done.stderr
    assert (
        run_command("normalize", *shards, "-o", tmp_path / "out", "--skip-bad-shards").returncode
        == 0
    )


# Lists that must agree with the schemas


def test_names_of_fields() -> None:
    free = set()
    objects = set()

    def collect(shape: Shape) -> None:
        hints = {field.name: field.type for field in msgspec.structs.fields(shape.struct)}
        for name, field in shape.fields.items():
            kinds = {get_origin(kind) for kind in get_args(hints[field.name])}
            if field.shape:
                objects.add(name)
                collect(field.shape)
            elif dict in kinds or get_origin(hints[field.name]) is dict:
                free.add(name)

    for schema in SCHEMAS.values():
        collect(schema.shape)
        required = [field.name for field in msgspec.structs.fields(schema.record) if field.required]
        assert {*parquet.RECORD} <= {*required}
    assert {*parquet.FREE} == free
    assert {*parquet.OBJECTS} == free | objects
    assert parquet.MEASURES == MEASURES
