"""Verifying: a new corpus is OK, and every kind of damage is found and reported by its own kinds of
problems.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from click.testing import CliRunner, Result
from xxhash import xxh3_128_hexdigest

import fastrec
from fastrec.cli import cli
from fastrec.commands.generate import Recipe, lines
from fastrec.commands.verify import Verification, verify
from fastrec.commands.verify.part import MOST_PROBLEMS
from fastrec.corpus.manifest import tree_hash
from fastrec.corpus.writer import ShardWriter
from fastrec.errors import UsageError
from fastrec.limits import Limits, use_limits
from fastrec.sources.shard import shard_at
from tests.corpus.plain_columns import read_columns, spell
from tests.running import run_command
from tests.samples import sample
from tests.sizes import examples

# What each kind of problem means.
KINDS = tomllib.loads(
    (Path(fastrec.__file__).parent / "commands" / "verify" / "kinds.toml").read_text()
)

RECIPE = Recipe(
    records=160,
    seed=9,
    duplicates=0.05,
    conflicts=0.1,
    unknown_keys=0.2,
    rejects=0.15,
    blanks=0.03,
    warnings=0.2,
    mix="single_turn",
    text="words",
)
PART_SIZE = 1 << 16
MIDDLE = "part-00001.jsonl.zst"
LARGE = "part-00005.jsonl.zst"  # the part with the most lines
REJECTS = "rejects.jsonl.zst"
SOURCES = "part-00001.sources.zst"

# What the kinds of problems that compare two values end with.
COMPARED = {"total", "line_counts", "bytes", "sha256", "records", "text_bytes", "text_xxh3_128"}
COMPARED |= {"first", "last", "count", "statistics", "conflict", "kept"}

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards with duplicates, repeats, contradictions, unknown keys, invalid and blank lines."""
    directory = tmp_path_factory.mktemp("shards")
    every = list(lines(RECIPE))
    every += [
        json.dumps(sample(sample_id=number // 2, error=str(number))).encode() for number in range(6)
    ]
    for number in range(3):
        (directory / f"{number}.jsonl").write_bytes(
            b"".join(line + b"\n" for line in every[number::3])
        )
    return directory


@pytest.fixture(scope="module")
def fresh(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus as it was published; read only."""
    out = tmp_path_factory.mktemp("fresh") / "corpus"
    fastrec.normalize(shards, out, part_size=PART_SIZE)
    assert len(list(out.glob("part-*.jsonl*"))) >= 4
    return out


@pytest.fixture(scope="module")
def tracked(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with the sources of its records; read only."""
    out = tmp_path_factory.mktemp("tracked") / "corpus"
    fastrec.normalize(shards, out, part_size=PART_SIZE, track_sources=True)
    return out


@pytest.fixture
def corpus(fresh: Path, tmp_path: Path) -> Path:
    """A copy of `fresh` to damage."""
    return Path(shutil.copytree(fresh, tmp_path / "corpus"))


# Ways to change a corpus


def text_of(path: Path) -> bytes:
    return b"".join(chunk.data for chunk in shard_at(str(path)).read())


def write_text(path: Path, text: bytes) -> None:
    with ShardWriter(str(path), "zst", 3) as writer:
        writer.write([text])
        writer.finish()


def on_lines(change: Callable[[list[bytes]], Any], file: str = MIDDLE) -> Damage:
    """Damage that changes the list of lines of a file in place."""

    def damage(corpus: Path) -> None:
        found = text_of(corpus / file).splitlines(keepends=True)
        change(found)
        write_text(corpus / file, b"".join(found))

    return damage


def replace_in(path: Path, old: bytes, new: bytes) -> None:
    """Damage that replaces bytes of a file, wherever they are."""
    path.write_bytes(path.read_bytes().replace(old, new))


def on_json(file: str, *steps: Any, to: Any) -> Damage:
    """Damage that sets a value of a document, or applies a function to the old value."""

    def damage(corpus: Path) -> None:
        document = parent = json.loads((corpus / file).read_bytes())
        for step in steps[:-1]:
            parent = parent[step]
        parent[steps[-1]] = to(parent[steps[-1]]) if callable(to) else to
        (corpus / file).write_text(json.dumps(document, ensure_ascii=False))

    return damage


def on_record(
    change: Callable[[dict[str, Any]], Any], file: str = MIDDLE, index: int = 5
) -> Damage:
    """Damage that changes one record and spells it as the normal form does."""

    def respell(found: list[bytes]) -> None:
        record = json.loads(found[index])
        change(record)
        found[index] = (
            json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        )

    return on_lines(respell, file)


def more(value: Any) -> Any:
    return value + 1


def swap(found: list[bytes]) -> None:
    found[3], found[4] = found[4], found[3]


def swap_parts(corpus: Path) -> None:
    for old, new in (
        (MIDDLE, "x"),
        ("part-00002.jsonl.zst", MIDDLE),
        ("x", "part-00002.jsonl.zst"),
    ):
        (corpus / old).rename(corpus / new)


def other_corpus(corpus: Path) -> None:
    """Replace a part with a part of another corpus."""
    other = corpus.parent / "other.jsonl"
    other.write_bytes(b"".join(line + b"\n" for line in lines(Recipe(records=9, seed=99))))
    fastrec.normalize(other, corpus.parent / "other")
    shutil.copy(corpus.parent / "other" / "part-00000.jsonl.zst", corpus / MIDDLE)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


def seal(corpus: Path) -> None:
    """Update the checksums, sizes, counts and keys in the manifest, as if it had been written for
    these files.
    """
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    for part in manifest["parts"]:
        data = (corpus / part["file"]).read_bytes()
        text = text_of(corpus / part["file"])
        found = [line for line in text.split(b"\n") if line.strip()]
        part |= {"bytes": len(data), "sha256": sha256(data).hexdigest(), "records": len(found)}
        part |= {"text_bytes": len(text), "text_xxh3_128": xxh3_128_hexdigest(text)}
        for name, line in (("first", found[0]), ("last", found[-1])):
            part[name] = {field: json.loads(line)[field] for field in part[name]}
    for name in ("records", "text_bytes"):
        manifest[name] = sum(part[name] for part in manifest["parts"])
    manifest["text_xxh3_128"] = tree_hash(part["text_xxh3_128"] for part in manifest["parts"])
    manifest["summary_sha256"] = sha256((corpus / "summary.json").read_bytes()).hexdigest()
    for sources in (part["sources"] for part in manifest["parts"] if "sources" in part):
        data = (corpus / sources["file"]).read_bytes()
        sources |= {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    rejects = (corpus / REJECTS).read_bytes()
    manifest["rejects"] |= {"bytes": len(rejects), "sha256": sha256(rejects).hexdigest()}
    (corpus / "manifest.json").write_text(json.dumps(manifest))


def kinds(found: Verification) -> set[str]:
    assert found.ok is (not found.problems)
    return {problem.kind for problem in found.problems} - {"more"}


# A new corpus


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "many parts": {"part_size": 1 << 14},
    "one part": {"part_size": 1 << 30},
    "first of conflicts": {"conflicts": "first", "part_size": PART_SIZE},
    "no conflicts": {"conflicts": "reject", "part_size": PART_SIZE},
    "first of repeats": {"repeats": "first", "part_size": PART_SIZE},
    "no repeats": {
        "repeats": "reject",
        "conflicts": "first",
        "same_run": "ignore",
        "part_size": PART_SIZE,
    },
    "by model": {"sort_by": ("model_id", "sample_id"), "part_size": PART_SIZE},
    "by id": {"sort_by": ("sample_id",), "conflicts": "first", "part_size": PART_SIZE},
    "fast hash": {"hash_algorithm": "xxh3_128"},
    "hashes as given": {"sample_hash": "fill"},
    "hashes as given, fast": {
        "sample_hash": "fill",
        "hash_algorithm": "xxh3_128",
        "conflicts": "reject",
    },
    "hashes verified": {"sample_hash": "verify"},
    "gzip": {"compression": "gz", "part_size": PART_SIZE},
    "plain": {"compression": "none", "part_size": PART_SIZE},
    "short lines": {"max_line_bytes": 2_000},
    "sources": {"track_sources": True, "part_size": PART_SIZE},
    "sources of a plain corpus": {"track_sources": True, "compression": "none", "repeats": "first"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_new_corpus_is_ok(shards: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    """Whatever the options of `normalize`, and the counts are those of the summary."""
    some = [shards / "0.jsonl", shards / "1.jsonl"]
    summary = fastrec.normalize(some, tmp_path / "corpus", **options)
    found = verify(tmp_path / "corpus")
    assert found.problems == []
    assert found.notices == []
    assert found.records == summary.line_counts.kept
    assert found.parts == len(list((tmp_path / "corpus").glob("part-*.jsonl*")))


@pytest.mark.parametrize("data", [b"", b"\n \n", b"{}\n"], ids=["empty", "blank", "rejected"])
def test_a_corpus_without_records_is_ok(tmp_path: Path, data: bytes) -> None:
    """It has no parts."""
    (tmp_path / "a.jsonl").write_bytes(data)
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    found = verify(tmp_path / "corpus")
    assert (found.problems, found.parts, found.records) == ([], 0, 0)


def test_a_corpus_with_a_skipped_shard_is_ok(shards: Path, tmp_path: Path) -> None:
    """Its line counts are those of the shards that could be read."""
    (tmp_path / "bad.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    fastrec.normalize(
        [shards, tmp_path / "bad.jsonl.zst"], tmp_path / "corpus", skip_bad_shards=True
    )
    assert verify(tmp_path / "corpus").problems == []


def test_keys_may_be_integers_of_any_size(tmp_path: Path) -> None:
    """Keys with 30, 3,000 and 30,000 digits, positive or negative, are compared as numbers."""
    record = json.loads(next(iter(lines(Recipe(records=1, mix="single_turn")))))
    text = json.dumps(record | {"sample_id": "@"}).replace('"@"', "%s")
    numbers = [
        text % f"{sign}1{'0' * zeros}" for sign in ("", "-") for zeros in (0, 29, 2_999, 29_999)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(numbers))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", sort_by=("sample_id",))
    found = verify(tmp_path / "corpus")
    assert (found.problems, found.records) == ([], len(numbers))


# Damage


BYTES = {"file.sha256"}
SIZES = {"file.bytes", "file.sha256"}
TEXT = {"part.text_bytes", "part.text_xxh3_128"}
EVALUATION = ("evaluations", 0)
MODEL = (*EVALUATION, "by_model", 0)

# For each damage: what is done, and exactly the kinds of problems that must be found.
DAMAGE: dict[str, tuple[Damage, set[str]]] = {
    "a flipped byte at the end of a part": (
        lambda out: flip(out / MIDDLE, -1),
        BYTES | {"file.unreadable"},
    ),
    "a flipped magic number": (lambda out: flip(out / MIDDLE, 0), BYTES | {"file.unreadable"}),
    "a truncated part": (lambda out: cut(out / MIDDLE, 3), SIZES | {"file.unreadable"}),
    "an empty part": (
        lambda out: (out / MIDDLE).write_bytes(b""),
        SIZES | TEXT | {"part.records", "summary.statistics"},
    ),
    "a part with more bytes": (
        lambda out: (out / MIDDLE).write_bytes((out / MIDDLE).read_bytes() + b"x"),
        SIZES | {"file.unreadable"},
    ),
    "a missing part": (lambda out: (out / MIDDLE).unlink(), {"file.missing"}),
    "a directory for a part": (
        lambda out: ((out / MIDDLE).unlink(), (out / MIDDLE).mkdir()),
        {"file.unreadable"},
    ),
    "a stray part": (
        lambda out: shutil.copy(out / MIDDLE, out / "part-00099.jsonl.zst"),
        {"file.stray"},
    ),
    "a stray file": (lambda out: (out / ".hidden").write_bytes(b""), {"file.stray"}),
    "a stray directory": (lambda out: (out / "old").mkdir(), {"file.stray"}),
    "a missing summary": (lambda out: (out / "summary.json").unlink(), {"file.missing"}),
    "missing rejects": (lambda out: (out / REJECTS).unlink(), {"file.missing"}),
    "truncated rejects": (lambda out: cut(out / REJECTS, 3), SIZES | {"file.unreadable"}),
    "a flipped byte in the rejects": (
        lambda out: flip(out / REJECTS, -1),
        BYTES | {"file.unreadable"},
    ),
    "a dropped line": (
        on_lines(lambda found: found.pop(5)),
        SIZES | TEXT | {"part.records", "summary.statistics"},
    ),
    "a dropped first line": (
        on_lines(lambda found: found.pop(0)),
        SIZES | TEXT | {"part.records", "part.first", "summary.statistics"},
    ),
    "dropped last lines": (
        on_lines(lambda found: found.__delitem__(slice(-3, None))),
        SIZES | TEXT | {"part.records", "part.last", "summary.statistics"},
    ),
    "a dropped rejected line": (
        on_lines(lambda found: found.pop(2), REJECTS),
        SIZES | {"rejects.count"},
    ),
    "an edited summary": (
        on_json("summary.json", "line_counts", "blank", to=more),
        BYTES | {"summary.line_counts"},
    ),
    "a manifest that is not JSON": (
        lambda out: cut(out / "manifest.json", 9),
        {"manifest.unreadable"},
    ),
    "a manifest that is not UTF-8": (
        lambda out: (out / "manifest.json").write_bytes(b'{"format": 1, "fastrec": "\xff"}'),
        {"manifest.unreadable"},
    ),
    "a manifest of another format": (
        on_json("manifest.json", "format", to=99),
        {"manifest.unreadable"},
    ),
    "a manifest without a field": (
        lambda out: (out / "manifest.json").write_text('{"format": 1}'),
        {"manifest.unreadable"},
    ),
    "a damaged key of the manifest": (
        lambda out: replace_in(out / "manifest.json", b'"filtered"', b'"filtdred"'),
        {"manifest.key"},
    ),
    "another schema": (on_json("manifest.json", "schema", to="0.3"), {"manifest.options"}),
    "an unknown hash": (
        on_json("manifest.json", "options", "hash", to="md5"),
        {"manifest.options"},
    ),
    "an option that no manifest records": (
        on_json("manifest.json", "options", to=lambda options: {**options, "jobs": 99}),
        {"manifest.options"},
    ),
    "an option of another type": (
        on_json("manifest.json", "options", "level", to="3"),
        {"manifest.options"},
    ),
    "an unknown field of the order": (
        on_json("manifest.json", "sort_fields", 0, to="colour"),
        {"manifest.options"},
    ),
    "an incomplete order": (
        on_json("manifest.json", "sort_fields", to=lambda order: order[:3]),
        {"manifest.options"},
    ),
    "another total of records": (
        on_json("manifest.json", "records", to=more),
        {"manifest.total", "summary.line_counts"},
    ),
    "another total of text": (on_json("manifest.json", "text_bytes", to=more), {"manifest.total"}),
    "another checksum of text": (
        on_json("manifest.json", "text_xxh3_128", to="00"),
        {"manifest.total"},
    ),
    "another number of records": (
        on_json("manifest.json", "parts", 1, "records", to=more),
        {"manifest.total", "part.records"},
    ),
    "a checksum that is not hexadecimal": (
        on_json("manifest.json", "parts", 1, "text_xxh3_128", to="nonsense"),
        {"manifest.total", "part.text_xxh3_128"},
    ),
    "another first key": (
        on_json("manifest.json", "parts", 1, "first", "sample_id", to="nonsense"),
        {"part.first"},
    ),
    "another last key": (
        on_json("manifest.json", "parts", 1, "last", "model_id", to="nonsense"),
        {"part.last"},
    ),
    "a part that is not listed": (
        on_json("manifest.json", "parts", to=lambda parts: parts[:-1]),
        {"manifest.total", "file.stray", "summary.statistics"},
    ),
    "a part that is listed twice": (
        on_json("manifest.json", "parts", to=lambda parts: [*parts, parts[-1]]),
        {"manifest.files", "manifest.total", "part.order", "summary.statistics"},
    ),
    "a part in another directory": (
        on_json("manifest.json", "parts", 1, "file", to=f"../{MIDDLE}"),
        {"manifest.files", "file.stray"},
    ),
    "rejects that are not listed": (
        on_json("manifest.json", "rejects", to=None),
        {"file.stray", "summary.line_counts"},
    ),
    "another number of rejected lines": (
        on_json("manifest.json", "rejects", "records", to=more),
        {"rejects.count", "summary.line_counts"},
    ),
    "an input with another number of lines": (
        on_json("manifest.json", "inputs", 0, "lines", to=more),
        {"manifest.line_counts", "summary.line_counts"},
    ),
    "inputs with other numbers of rejected lines": (
        lambda out: [
            on_json("manifest.json", "inputs", 0, "rejected", to=more)(out),
            on_json("manifest.json", "inputs", 1, "rejected", to=lambda count: count - 1)(out),
        ],
        {"manifest.line_counts", "rejects.count"},
    ),
}

# The same, but the manifest was updated afterwards: only the records and the line counts show the
# damage.
SEALED: dict[str, tuple[Damage, set[str]]] = {
    "nothing": (lambda out: None, set()),
    "a dropped line": (
        on_lines(lambda found: found.pop(5)),
        {"summary.line_counts", "summary.statistics"},
    ),
    "two swapped lines": (on_lines(swap), {"line.order"}),
    "two swapped parts": (swap_parts, {"part.order"}),
    "a line twice": (
        on_lines(lambda found: found.insert(5, found[5])),
        {"line.duplicate", "summary.line_counts", "summary.statistics"},
    ),
    "the same line in two parts": (
        lambda out: on_lines(
            lambda found: found.insert(0, text_of(out / MIDDLE).splitlines(keepends=True)[-1]),
            "part-00002.jsonl.zst",
        )(out),
        {"part.order", "summary.line_counts", "summary.statistics"},
    ),
    "another spelling": (
        on_lines(lambda found: found.append(found.pop().replace(b":", b": ", 1))),
        {"line.form"},
    ),
    "keys in another order": (
        on_record(lambda record: record.update(model_id=record.pop("model_id"))),
        {"line.form"},
    ),
    "another line ending": (
        on_lines(lambda found: found.append(found.pop().replace(b"\n", b"\r\n"))),
        {"line.form"},
    ),
    "no newline at the end": (
        on_lines(lambda found: found.append(found.pop().rstrip())),
        {"line.form"},
    ),
    "a byte order mark": (
        on_lines(lambda found: found.insert(0, b"\xef\xbb\xbf")),
        {"line.form", "part.text_bytes"},
    ),
    "a blank line": (on_lines(lambda found: found.insert(5, b" \n")), {"line.blank"}),
    "a record without a hash": (
        on_record(lambda record: record.pop("sample_hash"), index=5),
        {"line.form"},
    ),
    "a record with another hash": (
        on_record(lambda record: record.update(sample_hash="00")),
        {"line.invalid", "part.records"},
    ),
    "a record that is not valid": (
        on_record(lambda record: record.pop("output")),
        {"line.invalid", "part.records"},
    ),
    "a line that is not a record": (
        on_lines(lambda found: found.insert(5, b"nonsense\n")),
        {"line.invalid", "part.records", "summary.line_counts"},
    ),
    "a part of another corpus": (
        other_corpus,
        {"part.order", "summary.line_counts", "summary.statistics"},
    ),
    "another score": (
        on_record(
            lambda record: record["evaluation"].update(
                is_correct=not record["evaluation"]["is_correct"]
            )
        ),
        {"summary.statistics"},
    ),
    "conflicts that should not be there": (
        on_json("manifest.json", "options", "conflicts", to="first"),
        {"corpus.conflict"},
    ),
    "repeats that should not be there": (
        on_json("manifest.json", "options", "repeats", to="first"),
        {"corpus.conflict"},
    ),
    "hashes of another kind": (
        on_json("manifest.json", "options", "hash", to="xxh3_128"),
        {"line.invalid", "part.records"},
    ),
    "another order": (
        on_json("manifest.json", "sort_fields", to=lambda order: [order[4], *order[:4]]),
        {"line.order", "part.order"},
    ),
    "a summary that is not JSON": (
        lambda out: cut(out / "summary.json", 5),
        {"summary.unreadable"},
    ),
    "a summary with a negative count": (
        on_json("summary.json", "line_counts", "blank", to=-1),
        {"summary.unreadable"},
    ),
    "a summary of another format": (
        on_json("summary.json", "format", to=99),
        {"summary.unreadable"},
    ),
    "lines": (on_json("summary.json", "line_counts", "lines", to=more), {"summary.line_counts"}),
    "kept": (
        on_json("summary.json", "line_counts", "kept", to=more),
        {"summary.line_counts", "summary.statistics"},
    ),
    "duplicates": (
        on_json("summary.json", "line_counts", "duplicates", to=more),
        {"summary.line_counts"},
    ),
    "rejected": (
        on_json("summary.json", "line_counts", "rejected", to=more),
        {"summary.line_counts"},
    ),
    "rejected by code": (
        on_json("summary.json", "rejected_by_code", "json.syntax", to=more),
        {"summary.line_counts", "rejects.count"},
    ),
    "a code for another": (
        lambda out: [
            on_json("summary.json", "rejected_by_code", "json.syntax", to=more)(out),
            on_json("summary.json", "rejected_by_code", "schema.type", to=lambda count: count - 1)(
                out
            ),
        ],
        {"rejects.count"},
    ),
    "verified hashes": (
        on_json("summary.json", "sample_hash", "verified", to=more),
        {"summary.line_counts"},
    ),
    "the name of the hash": (
        on_json("summary.json", "sample_hash", "algorithm", to="md5"),
        {"summary.statistics"},
    ),
    "interaction types": (
        on_json("summary.json", "interaction_types", "single_turn", to=more),
        {"summary.statistics"},
    ),
    "repeats": (on_json("summary.json", "repeats", "identities", to=more), {"summary.statistics"}),
    "examples of repeats": (
        on_json("summary.json", "repeats", "examples", to=lambda old: old[1:]),
        {"summary.statistics"},
    ),
    "questions": (
        on_json("summary.json", *EVALUATION, "questions", to=more),
        {"summary.statistics"},
    ),
    "ids with many hashes": (
        on_json("summary.json", *EVALUATION, "ids_with_many_hashes", to=more),
        {"summary.statistics"},
    ),
    "the name of an evaluation": (
        on_json("summary.json", *EVALUATION, "evaluation_name", to="nonsense"),
        {"summary.statistics"},
    ),
    "records of a model": (
        on_json("summary.json", *MODEL, "records", to=more),
        {"summary.statistics"},
    ),
    "mean score": (on_json("summary.json", *MODEL, "mean_score", to=0.125), {"summary.statistics"}),
    "latency": (
        on_json("summary.json", *MODEL, "latency_ms", "p90", to=0.125),
        {"summary.statistics"},
    ),
    "two swapped rejected lines": (on_lines(swap, REJECTS), {"rejects.order"}),
    "a rejected line twice": (
        on_lines(lambda found: found.insert(3, found[3]), REJECTS),
        {"rejects.order", "rejects.count"},
    ),
    "a rejected line that is not JSON": (
        on_lines(lambda found: found.__setitem__(3, b"{\n"), REJECTS),
        {"rejects.entry", "rejects.count"},
    ),
    "a rejected line with an unknown code": (
        on_record(lambda entry: entry.update(code="nonsense"), REJECTS),
        {"rejects.entry", "rejects.count"},
    ),
    "a rejected line with another code": (
        on_record(lambda entry: entry.update(code="line.too_long"), REJECTS),
        {"rejects.count"},
    ),
    "a rejected line without its bytes": (
        on_record(lambda entry: [entry.pop(name, None) for name in ("raw", "raw_base64")], REJECTS),
        {"rejects.entry", "rejects.count"},
    ),
    "a rejected line with a newline": (
        on_record(lambda entry: entry.update(raw_base64="Cg==") or entry.pop("raw", None), REJECTS),
        {"rejects.entry", "rejects.count"},
    ),
    "a rejected line with invalid base64": (
        on_record(lambda entry: entry.update(raw_base64="x") or entry.pop("raw", None), REJECTS),
        {"rejects.entry", "rejects.count"},
    ),
}


# Damage to a corpus with sources. If it is sealed, all checksums are right.
SOURCES_DAMAGE: dict[str, tuple[Damage, set[str]]] = {
    "missing sources": (lambda out: (out / SOURCES).unlink(), {"file.missing"}),
    "truncated sources": (lambda out: cut(out / SOURCES, 3), SIZES | {"file.unreadable"}),
    "a flipped byte in the sources": (
        lambda out: flip(out / SOURCES, -1),
        BYTES | {"file.unreadable"},
    ),
    "empty sources": (
        lambda out: (out / SOURCES).write_bytes(b""),
        SIZES | {"sources.records", "sources.kept"},
    ),
    "sources of another part": (
        lambda out: shutil.copy(out / "part-00002.sources.zst", out / SOURCES),
        SIZES | {"sources.records", "sources.kept"},
    ),
    "a stray file of sources": (
        lambda out: shutil.copy(out / SOURCES, out / "part-00099.sources.zst"),
        {"file.stray"},
    ),
    "sources in another directory": (
        on_json("manifest.json", "parts", 1, "sources", "file", to=f"../{SOURCES}"),
        {"manifest.files", "file.stray"},
    ),
    "sources that are not listed": (
        on_json(
            "manifest.json",
            "parts",
            1,
            to=lambda part: {key: part[key] for key in part if key != "sources"},
        ),
        {"manifest.sources", "file.stray"},
    ),
    "sources that are not tracked": (
        on_json("manifest.json", "options", "track_sources", to=False),
        {"manifest.sources"},
    ),
}
SOURCES_SEALED: dict[str, tuple[Damage, set[str]]] = {
    "nothing": (lambda out: None, set()),
    "a dropped source": (
        on_lines(lambda found: found.pop(5), SOURCES),
        {"sources.records", "sources.kept"},
    ),
    "a source twice": (
        on_lines(lambda found: found.insert(5, found[5]), SOURCES),
        {"sources.records", "sources.kept"},
    ),
    "a source that is not JSON": (
        on_lines(lambda found: found.__setitem__(5, b"{\n"), SOURCES),
        {"sources.entry"},
    ),
    "a source that is not UTF-8": (
        on_lines(lambda found: found.__setitem__(5, b'{"source":"\xff","line":1}\n'), SOURCES),
        {"sources.entry"},
    ),
    "a blank line": (
        on_lines(lambda found: found.insert(5, b"\n"), SOURCES),
        {"sources.entry", "sources.records"},
    ),
    "a source without a line": (
        on_record(lambda source: source.pop("line"), SOURCES),
        {"sources.entry"},
    ),
    "a source of another type": (
        on_record(lambda source: source.update(line="1"), SOURCES),
        {"sources.entry"},
    ),
    "an unknown shard": (
        on_record(lambda source: source.update(source="x.jsonl"), SOURCES),
        {"sources.shard", "sources.kept"},
    ),
    "line 0": (on_record(lambda source: source.update(line=0), SOURCES), {"sources.line"}),
    "a line after the last one": (
        on_record(lambda source: source.update(line=10**30), SOURCES),
        {"sources.line"},
    ),
    "another shard": (
        on_record(
            lambda source: source.update(
                source=source["source"].replace(*other_shard(source["source"])), line=1
            ),
            SOURCES,
        ),
        {"sources.kept"},
    ),
}


def other_shard(path: str) -> tuple[str, str]:
    return ("0.jsonl", "1.jsonl") if path.endswith("0.jsonl") else (path[-7:], "0.jsonl")


@pytest.mark.parametrize("name", [*SOURCES_DAMAGE, *(f"{name}, sealed" for name in SOURCES_SEALED)])
def test_damaged_sources_are_reported(tracked: Path, tmp_path: Path, name: str) -> None:
    """Each damage gives exactly the expected kinds of problems."""
    damage, expected = SOURCES_DAMAGE.get(name) or SOURCES_SEALED[name.removesuffix(", sealed")]
    corpus = Path(shutil.copytree(tracked, tmp_path / "corpus"))
    damage(corpus)
    if name not in SOURCES_DAMAGE:
        seal(corpus)
    found = verify(corpus)
    assert kinds(found) == expected
    assert_files_are_named(found)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_reported(corpus: Path, name: str) -> None:
    """Each damage gives exactly the expected kinds of problems."""
    damage, expected = DAMAGE[name]
    damage(corpus)
    found = verify(corpus)
    assert kinds(found) == expected
    assert_files_are_named(found)


@pytest.mark.parametrize("name", SEALED)
def test_damage_with_an_updated_manifest_is_reported(corpus: Path, name: str) -> None:
    """Even if all checksums are right."""
    damage, expected = SEALED[name]
    damage(corpus)
    seal(corpus)
    found = verify(corpus)
    assert (
        kinds(found) - {"columns.unreadable"} == expected
    )  # columns belong to the text that they were made from
    assert_files_are_named(found)


def promising(columns: bytes) -> bytes:
    """Have the last frame take its next eight bytes for the size of its content."""
    descriptor = columns.rindex(b"\x28\xb5\x2f\xfd") + 4
    return columns[:descriptor] + b"\xc0" + columns[descriptor + 1 :]


COLUMNS_DAMAGE: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "a flipped bit in a column": (
        lambda path: flip(path, -20),
        {"file.sha256", "columns.unreadable"},
    ),
    "a column that promises more than the memory": (
        lambda path: path.write_bytes(promising(path.read_bytes())),
        {"file.sha256", "columns.unreadable"},
    ),
    "a flipped bit in the header": (
        lambda path: flip(path, 40),
        {"file.sha256", "columns.unreadable"},
    ),
    "a cut file": (lambda path: cut(path, 9), {"file.bytes", "file.sha256", "columns.unreadable"}),
    "another file": (
        lambda path: path.write_bytes(b"nonsense"),
        {"file.bytes", "file.sha256", "columns.unreadable"},
    ),
    "no file": (Path.unlink, {"file.missing"}),
    "columns of another part": (
        lambda path: path.write_bytes(path.with_name("part-00002.columns").read_bytes()),
        {"file.bytes", "file.sha256", "columns.unreadable"},
    ),
    "another value": (
        lambda path: change_column(path, "score"),
        {"file.bytes", "file.sha256", "columns.values"},
    ),
    "another name": (
        lambda path: change_column(path, "values.model"),
        {"file.sha256", "columns.values"},
    ),
    "a column more": (
        lambda path: change_column(path, ""),
        {"file.bytes", "file.sha256", "columns.names"},
    ),
}


def change_column(path: Path, changed: str) -> None:
    """Write a file of columns again with another value in the last record of a column, or with
    another column.
    """
    columns = read_columns(path)
    header = columns["header"]
    frames = []
    for name, kind, _ in header["frames"]:
        values = columns[name]
        if name == changed:
            values = (
                [*values[:-1], "another name"] if kind == "json" else np.append(values[:-1], 17.5)
            )
        frames.append((name, kind, spell(values) if kind == "json" else values.tobytes()))
    if not changed:
        frames.append(("metadata.new", "u1", bytes(header["records"])))
    packed = [zstandard.compress(content) for _, _, content in frames]
    header["frames"] = [
        (name, kind, len(data)) for (name, kind, _), data in zip(frames, packed, strict=True)
    ]
    head = zstandard.compress(json.dumps(header).encode())
    path.write_bytes(b"fastrec\1" + len(head).to_bytes(4, "little") + head + b"".join(packed))


@pytest.mark.parametrize("name", COLUMNS_DAMAGE)
def test_damaged_columns_are_reported(corpus: Path, name: str) -> None:
    """Every kind of damage, with the name of the file."""
    damage, expected = COLUMNS_DAMAGE[name]
    damage(corpus / "part-00001.columns")
    found = verify(corpus)
    assert kinds(found) - {"file.bytes"} == expected - {"file.bytes"}
    assert {problem.file for problem in found.problems} == {"part-00001.columns"}
    assert_files_are_named(found)


def test_a_wrong_column_is_named_with_its_first_wrong_line(corpus: Path) -> None:
    path = corpus / "part-00001.columns"
    change_column(path, "score")
    (problem,) = [
        problem for problem in verify(corpus).problems if problem.kind == "columns.values"
    ]
    assert "score" in problem.message
    assert problem.line == read_columns(path)["header"]["records"]


def test_every_kind_of_problem_has_an_example() -> None:
    """The tables above cause every kind of problem."""
    tables = (DAMAGE, SEALED, COLUMNS_DAMAGE, SOURCES_DAMAGE, SOURCES_SEALED)
    seen = set().union(*(expected for table in tables for _, expected in table.values()))
    assert seen | {"more"} == set(KINDS)


def test_problems_say_where_and_what(corpus: Path) -> None:
    """The file, the line, and what is wrong."""
    on_lines(lambda found: found.append(found.pop(0).replace(b"{", b"{ ", 1)))(corpus)
    on_json("summary.json", *MODEL, "correct", to=999)(corpus)
    seal(corpus)
    last = text_of(corpus / MIDDLE).count(b"\n")
    found = {problem.kind: problem for problem in verify(corpus).problems}
    order = found["line.order"]
    form = found["line.form"]
    number = found["summary.statistics"]
    assert (order.file, order.line) == (MIDDLE, last)
    assert (form.file, form.line) == (MIDDLE, last)
    assert form.message == "expected the normal form, found other text from byte 1 of the line"
    assert (number.file, number.line) == ("summary.json", None)
    assert re.search(r"\.correct: summary\.json says 999, the parts give \d+$", number.message)


def test_problems_say_which_file_claims_what(corpus: Path, fresh: Path) -> None:
    """A changed count in the summary: the message names the file that claims it, and what
    contradicts it.
    """
    kept = json.loads((fresh / "summary.json").read_bytes())["line_counts"]["kept"]
    on_json("summary.json", "line_counts", "kept", to=more)(corpus)
    seal(corpus)
    said = f"summary.json says {kept + 1:,}"
    lines = sum(
        entry["lines"] for entry in json.loads((corpus / "manifest.json").read_bytes())["inputs"]
    )
    assert [problem.message for problem in verify(corpus).problems] == [
        (
            f"summary.json says {lines} lines, but its kept + duplicates + rejected + blank are "
            f"{lines + 1}"
        ),
        f"kept: {said}, the inputs in manifest.json add up to {kept}",
        f"kept: {said}, manifest.json says that the number of records is {kept}",
        (
            f"valid lines: summary.json says {hashed(corpus) + 1}, its sample_hash adds up to "
            f"{hashed(corpus)}"
        ),
        f"$.line_counts.kept: {said}, the parts give {kept}",
    ]


def hashed(corpus: Path) -> int:
    counts = json.loads((corpus / "summary.json").read_bytes())["sample_hash"]
    return int(counts["verified"] + counts["filled"] + counts["replaced"])


def assert_files_are_named(found: Verification) -> None:
    """Every problem that compares two values names the file that claims one of them."""
    for problem in found.problems:
        if problem.kind.split(".")[-1] in COMPARED:
            assert re.search(r"(manifest|summary)\.json says ", problem.message), problem


@pytest.mark.parametrize("file", ["part-00000.jsonl.zst", MIDDLE, REJECTS, "summary.json"])
def test_every_changed_byte_is_reported(fresh: Path, corpus: Path, file: str) -> None:
    """Whichever byte of a file changes."""
    data = (fresh / file).read_bytes()
    for offset in range(0, len(data), len(data) // examples(4, 9)):
        flip(corpus / file, offset)
        found = verify(corpus)
        assert (file, "file.sha256") in {(problem.file, problem.kind) for problem in found.problems}
        (corpus / file).write_bytes(data)
    assert verify(corpus).ok


def test_all_problems_are_reported(corpus: Path) -> None:
    """Damage in several files gives problems for each of them, in the order of the files."""
    (corpus / "part-00000.jsonl.zst").unlink()
    flip(corpus / MIDDLE, -1)
    on_lines(swap, "part-00002.jsonl.zst")(corpus)
    cut(corpus / REJECTS, 1)
    found = verify(corpus)
    files = [problem.file for problem in found.problems]
    assert list(dict.fromkeys(files)) == [
        "part-00000.jsonl.zst",
        MIDDLE,
        "part-00002.jsonl.zst",
        REJECTS,
    ]
    assert len(found.notices) == 1
    assert found.notices[0].startswith("the statistics in summary.json were not checked")


def test_the_problems_of_one_file_are_bounded(corpus: Path) -> None:
    """If every line of a part is wrong, the first are listed and the others counted.

    The checksum comes first.
    """
    count = len(text_of(corpus / LARGE).splitlines())

    def spread(found: list[bytes]) -> None:
        found[:] = [line.replace(b"{", b"{   ", 1) for line in found]

    on_lines(spread, LARGE)(corpus)
    problems = [problem for problem in verify(corpus).problems if problem.file == LARGE]
    assert [problem.kind for problem in problems[:2]] == ["file.bytes", "file.sha256"]
    assert [problem.line for problem in problems if problem.kind == "line.form"] == list(
        range(1, MOST_PROBLEMS + 1)
    )
    assert problems[-1].message == f"{count - MOST_PROBLEMS} more problems in this file"


SOME_DAMAGE = [swap_parts, *(DAMAGE[name][0] for name in ("a dropped line", "a stray file"))]


def all_of_it(corpus: Path) -> None:
    for damage in SOME_DAMAGE:
        damage(corpus)


@pytest.mark.parametrize(
    "damage",
    [
        None,
        all_of_it,
        *(pytest.param(damage, marks=pytest.mark.long_only) for damage in SOME_DAMAGE),
    ],
)
def test_jobs_do_not_change_the_result(corpus: Path, damage: Damage | None) -> None:
    """Two processes find the same problems as one, in the same order."""
    if damage:
        damage(corpus)
    one, two = (use_limits(Limits(small_input=0))(verify)(corpus, jobs=jobs) for jobs in (1, 2))
    two.seconds = one.seconds
    assert one == two


def test_a_manifest_with_other_white_space_is_ok(corpus: Path) -> None:
    """Only its content matters."""
    seal(corpus)
    assert verify(corpus).ok


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_part_without_read_permission_is_reported(corpus: Path) -> None:
    """As a problem of this file."""
    (corpus / MIDDLE).chmod(0)
    assert "file.unreadable" in kinds(verify(corpus))


@pytest.mark.parametrize(
    "make", [lambda path: None, Path.mkdir, Path.touch], ids=["nothing", "directory", "file"]
)
def test_a_path_that_is_not_a_corpus_is_a_usage_error(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    """Without a manifest there is nothing to check against."""
    make(tmp_path / "out")
    with pytest.raises(UsageError, match="is not a corpus: "):
        verify(tmp_path / "out")


def test_no_job_is_a_usage_error(fresh: Path) -> None:
    """There must be at least one."""
    with pytest.raises(UsageError, match="at least one job"):
        verify(fresh, jobs=0)


# The command line


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, arguments)])


@pytest.fixture(scope="module")
def run() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    return partial(run_command, "verify")


def test_the_result_for_a_good_corpus_is_one_line(fresh: Path) -> None:
    """With exit code 0 and the counts."""
    done = invoke(fresh)
    assert (done.exit_code, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"OK: {len(list(fresh.glob('part-*.jsonl*')))} parts, ")
    assert line.endswith(" MB/s)")


def test_problems_are_lines_of_stdout(corpus: Path) -> None:
    """With exit code 1: one problem per line, then the result.

    What could not be checked is a notice on stderr.
    """
    (corpus / MIDDLE).unlink()
    (corpus / "stray\x1b[31m\n").touch()
    done = invoke(corpus)
    assert done.exit_code == 1
    first, second, verdict = done.stdout.splitlines()
    assert first == f"{MIDDLE}: manifest.json lists this file, but it does not exist [file.missing]"
    assert second.startswith(r"stray\x1b[31m\n: ")
    assert verdict.startswith("damaged: 2 problems; ")
    assert done.stderr.startswith("note: the statistics in summary.json were not checked")


def test_a_problem_of_a_line_has_its_number(corpus: Path) -> None:
    """As `file:line`."""
    on_lines(swap, LARGE)(corpus)
    assert f"{LARGE}:5: expected a key greater than" in invoke(corpus).stdout


def test_json_is_one_document(corpus: Path) -> None:
    """`--format json` prints the result of the Python interface."""
    on_lines(swap)(corpus)
    done = invoke(corpus, "--format", "json")
    found = msgspec.json.decode(done.stdout, type=Verification)
    expected = verify(corpus)
    found.seconds = expected.seconds
    assert (found, done.exit_code) == (expected, 1)


def test_a_path_that_is_not_a_corpus_is_exit_code_2(tmp_path: Path, run: Any) -> None:
    """The message names the directory and what is missing."""
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(
        f"error: {tmp_path} is not a corpus: it holds no manifest.json\n"
    )
    assert run(tmp_path / "missing").returncode == 2


def test_an_unreadable_manifest_is_exit_code_3(tmp_path: Path, run: Any) -> None:
    """Nothing can be checked."""
    (tmp_path / "manifest.json").mkdir()
    done = run(tmp_path)
    assert done.returncode == 3
    assert (
        done.stderr.decode()
        == f"error: {tmp_path / 'manifest.json'}: is a directory, not a regular file\n"
    )


def test_help_fits_a_terminal() -> None:
    """It has examples and at most 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(("damage", "code"), [(None, 0), (SEALED["another order"][0], 1)])
def test_a_closed_pipe_is_no_error(
    corpus: Path, run: Any, damage: Damage | None, code: int
) -> None:
    """Nothing is written to stderr, and the exit code does not change."""
    if damage:
        damage(corpus)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(corpus, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")
