"""Members of an archive are read whatever their compression.

An archive that is cut or damaged is refused by name.
"""

from __future__ import annotations

import contextlib
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.errors import LogError
from fastrec.harnesses import inspect
from fastrec.harnesses.inspect import files as archives
from fastrec.harnesses.inspect.files import opened_archive
from fastrec.harnesses.recognise import head_of
from fastrec.storage import storage_of
from tests.harnesses.converting import role_of
from tests.harnesses.inspect_logs import (
    DEFLATE,
    STORED,
    ZSTD,
    archive,
    entry,
    header,
    imported,
    log_at,
    sample,
    write_eval,
    write_json,
)
from tests.sizes import examples

IDS = [1, "a/b", "../up", "a_epoch_1/sample", "x y\n\u2028é.json", "", 'quote" and \\']


@pytest.mark.each_value
@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_every_compression_gives_the_same_records(tmp_path, method, frames):
    samples = [sample(identity) for identity in IDS]
    expected = imported(write_json(tmp_path / "log.json", *samples)).records
    found = imported(
        write_eval(tmp_path / "log.eval", *samples, method=method, frames=frames)
    ).records
    assert found == expected
    assert [one["sample_id"] for one in found] == [str(identity) for identity in IDS]


def test_python_and_fastrec_agree_on_archives_that_python_writes(tmp_path):
    """As Inspect writes them: in append mode, with data descriptors, zip64 and a comment."""
    path = tmp_path / "log.eval"
    for number in range(3):
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
            with file.open(f"samples/{number}_epoch_1.json", "w", force_zip64=True) as member:
                member.write(json.dumps(sample(number)).encode())
            file.comment = b"a comment"
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("header.json", json.dumps(header(entry("match"), samples=3)))
    assert [one["sample_id"] for one in imported(path).records] == ["0", "1", "2"]


def test_of_members_with_the_same_name_the_last_one_counts(tmp_path):
    path = tmp_path / "log.eval"
    first = sample(scores={"match": {"value": "I"}})
    second = sample(scores={"match": {"value": "C"}})
    members = [("header.json", header(entry("match"))), ("samples/1_epoch_1.json", first)]
    path.write_bytes(archive([*members, ("samples/1_epoch_1.json", second)]))
    (record,) = imported(path).records
    assert record["evaluation"]["score"] == 1


def test_an_archive_in_an_object_store():
    store = storage_of("memory://inspect/log.eval")
    members = [
        ("samples/1_epoch_1.json", sample()),
        ("header.json", header(entry("match", accuracy=1.0))),
    ]
    store.write_all("memory://inspect/log.eval", archive(members))
    assert len(imported("memory://inspect/log.eval").records) == 1


def test_slices_have_whole_samples_and_depend_on_the_log_only(tmp_path, monkeypatch):
    monkeypatch.setattr(inspect, "_SLICE_BYTES", 2000)
    samples = [sample(number, uuid="u" * 500) for number in range(10)]
    for path in (
        write_eval(tmp_path / "log.eval", *samples),
        write_json(tmp_path / "log.json", *samples),
    ):
        found = imported(path)
        assert [one["sample_id"] for one in found.records] == [str(number) for number in range(10)]
        assert found.plan.slices == imported(path).plan.slices
    assert len(inspect.plan(log_at(tmp_path / "log.eval")).slices) == 5


def test_an_archive_is_cut_anywhere(tmp_path):
    """A cut archive is a log, by its first member, and is refused with the reason."""
    path = tmp_path / "log.eval"
    whole = write_eval(path, sample(1), sample(2)).read_bytes()
    for end in [*range(60, len(whole) - 100, 29), *range(len(whole) - 100, len(whole), 3)]:
        path.write_bytes(whole[:end])
        with pytest.raises(LogError, match=r"not a whole zip archive: .*the file is cut"):
            inspect.plan(log_at(path))


@pytest.mark.parametrize(
    ("forged", "method", "reason"),
    [
        ({"crc": 7}, ZSTD, "the checksum does not match"),
        ({"crc": 7}, STORED, "the checksum does not match"),
        ({"size": 10}, ZSTD, "does not have the 10 bytes"),
        ({"size": 10}, DEFLATE, "does not have the 10 bytes"),
        ({"size": 10}, STORED, "disagree on the size"),
        ({"size": 1 << 20}, ZSTD, "does not have the 1,048,576 bytes"),
        ({"size": 1 << 20}, DEFLATE, "does not have the 1,048,576 bytes"),
        ({"size": (1 << 30) + 1}, ZSTD, "too many to read"),
        ({"compressed": 40}, ZSTD, "damaged"),
        ({"compressed": 40}, DEFLATE, "damaged"),
        ({"compressed": 1 << 20}, STORED, "disagree on the size"),
        ({"flags": 1}, ZSTD, "is encrypted"),
    ],
)
def test_a_directory_that_lies(tmp_path, forged, method, reason):
    path = tmp_path / "log.eval"
    path.write_bytes(archive([("header.json", header())], method, **forged))
    with pytest.raises(LogError, match=reason):
        imported(path)


def test_an_unknown_compression(tmp_path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("header.json", "{}")
    with pytest.raises(LogError, match="unknown compression 12"):
        imported(path)


def test_a_bomb_is_refused_before_it_explodes(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1 << 20)
    bomb = b" " * (1 << 22)
    for method in (DEFLATE, ZSTD):
        for forged in ({}, {"size": 1000}):
            (tmp_path / "log.eval").write_bytes(archive([("header.json", bomb)], method, **forged))
            with pytest.raises(LogError, match=r"too many|does not have the 1,000 bytes"):
                imported(tmp_path / "log.eval")


def test_a_member_that_is_no_sample(tmp_path):
    path = tmp_path / "log.eval"
    for text, reason in [
        (b"[]", "Expected `object`"),
        (b"{", "truncated"),
        (b'{"epoch": 1}', "missing"),
        (b"\xff", ""),
    ]:
        path.write_bytes(archive([("header.json", header()), ("samples/1_epoch_1.json", text)]))
        with pytest.raises(LogError, match=f"samples/1_epoch_1.json is not a sample.*{reason}"):
            imported(path)


def test_an_archive_without_a_header(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(archive([("samples/1_epoch_1.json", sample())]))
    with pytest.raises(LogError, match=r"neither header.json nor _journal/start.json"):
        imported(path)


def test_other_archives_are_no_logs(tmp_path):
    path = tmp_path / "data.zip"
    path.write_bytes(archive([("word/document.xml", b"<xml/>"), ("header.txt", b"")]))
    assert role_of("inspect", head_of(str(path)), str(path)) is None
    path.write_bytes(path.read_bytes()[:-30])
    assert role_of("inspect", head_of(str(path)), str(path)) is None
    path.write_bytes(archive([("samples/cat.json", b"{}"), ("samples/dog_epoch.json", b"{}")]))
    assert role_of("inspect", head_of(str(path)), str(path)) is None
    path.write_bytes(archive([("readme.txt", b"a log"), ("header.json", header())]))
    assert role_of("inspect", head_of(str(path)), str(path)) == "eval"


LOG = archive(
    [
        ("_journal/start.json", header()),
        ("samples/1_epoch_1.json", sample()),
        ("header.json", header(entry("match"))),
    ]
)


@settings(max_examples=examples(18, 300))
@given(
    st.lists(st.tuples(st.integers(0, len(LOG) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, 1 << 20),
)
def test_random_damage_is_a_log_error(tmp_path_factory, changes, end):
    data = bytearray(LOG)
    for position, byte in changes:
        data[position] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.eval"
    path.write_bytes(data[:end])
    if role_of("inspect", bytes(data[:end]), str(path)) == "eval":
        with contextlib.suppress(LogError):
            imported(path)


@settings(max_examples=examples(11, 200))
@given(st.binary(max_size=200))
def test_any_bytes_have_a_directory_or_are_refused(data):
    path = "memory://inspect/bytes.eval"
    for content in (data + b"PK\5\6" + data[:18].ljust(18, b"\0"), b"PK\1\2" + data + LOG[-22:]):
        storage_of(path).write_all(path, content)
        with contextlib.suppress(LogError), opened_archive(path):
            pass


def test_the_path_of_an_error_is_that_of_the_log(tmp_path):
    path: Path = tmp_path / "log.eval"
    path.write_bytes(LOG[:100])
    with pytest.raises(LogError) as error:
        inspect.plan(log_at(path))
    assert error.value.path == str(path)


def test_a_sample_that_needs_too_much_memory_is_reported(tmp_path, monkeypatch):
    """The limit is on what the decoded sample needs; text that is skipped counts once."""
    monkeypatch.setattr(archives, "MAX_SAMPLE_MEMORY", 1 << 20)
    monkeypatch.setattr(archives, "_LARGE_SAMPLE", 1 << 10)
    path = tmp_path / "log.eval"
    short = [{"role": "user", "content": "a"}] * 5_000
    for large in (
        {"messages": short},
        {"target": "x" * 200_000},
        {"target": "é" * 50_000},
        {"events": [float("nan"), short]},
    ):
        path.write_bytes(
            archive(
                [("header.json", header()), ("samples/1_epoch_1.json", sample(**large))], DEFLATE
            )
        )
        with pytest.raises(
            LogError, match=r"samples/1_epoch_1.json needs .* GB of memory or more to convert"
        ):
            imported(path)
    path.write_bytes(
        archive(
            [("header.json", header()), ("samples/1_epoch_1.json", sample(events=short))], DEFLATE
        )
    )
    assert imported(path)


def test_inflating_takes_the_size_once(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(archive([("header.json", b" " * (1 << 24))], DEFLATE))
    tracemalloc.start()
    try:
        with storage_of(str(path)).open_reader(str(path)) as reader:
            assert len(archives.Archive(str(path), reader).read("header.json")) == 1 << 24
        assert tracemalloc.get_traced_memory()[1] < 1.5 * (1 << 24)
    finally:
        tracemalloc.stop()
