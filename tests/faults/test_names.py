"""Hostile file names and texts: they work like any others, and never reach a terminal unescaped."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.normalize.normalizing import audited, write
from tests.normalize.test_failures import lines_of
from tests.running import run_here
from tests.samples import sample
from tests.sources.compressing import Format, compressed
from tests.systems import needs_byte_names

NAMES = [
    b"with space.jsonl",
    b"with\nnewline.jsonl",
    b"with'quote\".jsonl",
    pytest.param(b"bad-\xff\xfe-utf8.jsonl", marks=needs_byte_names),
    b"--leading-dash.jsonl",
    b"-",
    b"esc\x1b[31mred\x07.jsonl",
    "bidi\u202etxt.jsonl".encode(),
    b"*[star]?.jsonl",
    b"%s{x}$(y)`z`.jsonl",
]
STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def fastrec(*arguments: bytes | str, cwd: Path) -> tuple[int, bytes]:
    """Run the command; check that it prints no traceback and no terminal escape sequences."""
    done = run_here(*arguments, cwd=cwd)
    said = done.stdout + done.stderr
    text = said.decode()
    assert not [char for char in text if char != "\n" and not char.isprintable()], text
    return done.returncode, said


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_of_a_shard_works(name: bytes, tmp_path: Path) -> None:
    """A shard of any name is read, and errors and rejected lines name it."""
    good = tmp_path / "good.jsonl"
    folder = tmp_path / "in"
    folder.mkdir()
    write(good, lines_of("a"))
    path = os.path.join(os.fsencode(folder), name)  # a name of bytes
    with open(path, "wb") as file:
        file.write(
            compressed(Format.ZSTD, b"".join(line + b"\n" for line in [*lines_of("b"), b"{"]))
        )
    code, said = fastrec(
        "normalize", b"./in/" + name.replace(b"[", b"[[]"), "-o", "out", cwd=tmp_path
    )
    if not set(name) & set(b"*?["):  # those are patterns
        assert code == 1, said
        assert audited(tmp_path / "out").line_counts["rejected"] == 1
        fastrec("rejects", "out", cwd=tmp_path)
        fastrec("verify", "out", cwd=tmp_path)
    with open(path, "rb+") as file:
        file.truncate(100)
    if name != b"-":  # a directory is searched for *.jsonl*
        code, said = fastrec("normalize", "in", "good.jsonl", "-o", "bad", cwd=tmp_path)
        assert code == 3, said
        assert b"1 shard could not be read completely" in said
        assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("name", NAMES[:5] + NAMES[6:], ids=ascii)
def test_any_name_of_an_output_works(name: bytes, tmp_path: Path) -> None:
    """A corpus of any name is published, and not overwritten the second time."""
    write(tmp_path / "in.jsonl", lines_of("a"))
    code, said = fastrec("normalize", "in.jsonl", "-o", b"./" + name, cwd=tmp_path)
    assert code == 0, said
    audited(tmp_path / os.fsdecode(name))
    code, said = fastrec("normalize", "in.jsonl", "-o", b"./" + name, cwd=tmp_path)
    assert code == 2, said


@needs_byte_names
def test_tables_in_a_directory_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """Parquet and SQL take paths of any bytes; a result names the corpus with escapes."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("duckdb")
    write(tmp_path / "in.jsonl", lines_of("a"))
    for name in (b"c\xff", b"c"):
        assert fastrec("normalize", "in.jsonl", "-o", name, cwd=tmp_path)[0] == 0
    code, said = fastrec("export", b"c\xff", "-o", b"t\xff", cwd=tmp_path)
    assert code == 0, said
    file = tmp_path / os.fsdecode(b"t\xff/data/part-00000.parquet")
    assert pq.read_table(pa.BufferReader(file.read_bytes())).num_rows == len(lines_of("a"))
    query = "select distinct corpus from answers order by 1"
    code, said = fastrec("sql", b"c\xff", "c", query, "-o", b"t\xff/r.parquet", cwd=tmp_path)
    assert code == 0, said
    table = pq.read_table(pa.BufferReader((file.parents[1] / "r.parquet").read_bytes()))
    assert table["corpus"].to_pylist() == ["c", r"c\xff"]


@pytest.mark.parametrize("name", ["r" * 255, "ü" * 127], ids=["ascii", "two bytes a character"])
def test_longest_file_name(name: str, tmp_path: Path) -> None:
    """A file may have the longest name that the file system allows.

    Its temporary name is not longer.
    """
    write(tmp_path / "in.jsonl", lines_of("a"))
    assert fastrec("normalize", "in.jsonl", "-o", "out", cwd=tmp_path)[0] == 0
    code, said = fastrec("report", "out", "-o", name, cwd=tmp_path)
    assert code == 0, said
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("options", [["-v"], ["--format", "json"]])
def test_texts_with_escape_sequences(options: list[str], tmp_path: Path) -> None:
    """Escape sequences in records, in keys and in rejected lines are escaped wherever they are
    printed.
    """
    record = sample(
        model_id=STEERING, evaluation_name=STEERING, evaluation_id=STEERING, **{STEERING: STEERING}
    )
    rival = sample(
        model_id=STEERING, evaluation_name=STEERING, evaluation_id=STEERING, error=STEERING
    )
    bad = {**record, "schema_version": STEERING, "evaluation": {STEERING: STEERING}}
    lines = [json.dumps(one, ensure_ascii=False).encode() for one in (record, rival, bad)]
    write(tmp_path / "in.jsonl", [*lines, STEERING.encode()])
    assert fastrec("normalize", "in.jsonl", "-o", "out", *options, cwd=tmp_path)[0] == 1
    for command in (
        ["rejects", "out"],
        ["rejects", "out", "--format", "json"],
        ["verify", "out"],
        ["validate", "."],
    ):
        fastrec(*command, cwd=tmp_path)


@pytest.mark.parametrize(
    "option", ["--sort-by", "--hash", "--memory", "--work-dir", "--files-from"]
)
def test_arguments_with_escape_sequences(option: str, tmp_path: Path) -> None:
    """Messages about wrong arguments escape them."""
    write(tmp_path / "in.jsonl", lines_of("a"))
    code, _ = fastrec("normalize", "in.jsonl", "-o", "out", option, STEERING, cwd=tmp_path)
    assert code in (0, 2)
