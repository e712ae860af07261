"""`normalize` with filters: the corpus is byte for byte that of the matching lines alone."""

from __future__ import annotations

import json
import random
import tempfile
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.errors import NoMatchError
from fastrec.filters import Filters, make_filters
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from tests.faults.failing import contents
from tests.normalize.normalizing import StopAfter, audited, write
from tests.samples import question, sample, sample_of
from tests.sizes import examples
from tests.strategies import dice, respelled

VERSIONS = ("0.2.0", "0.2.0-released", "0.2.1", "0.3.0")
OTHER_LINES = [
    b"",
    b" \t",
    b"{",
    b'{"model_id":"a"}',
    b"\xff",
    json.dumps(sample(output=None, model_id="org/a")).encode(),
    json.dumps(sample(model_id="org/b"))
    .replace('"sample_id"', '"model_id": "org/a", "sample_id"')
    .encode(),
    json.dumps(sample_of("0.3.0", evaluation_result_id=None, model_id="org/a")).encode(),
]
"""Blank and invalid lines, two of them with a model that filters name; the last one can be repaired."""


def make_line(rng: random.Random, versions: tuple[str, ...]) -> bytes:
    """Return a record with names, outcomes and hashes of a small choice."""
    version = rng.choice(versions)
    record = sample_of(version, rng.choice(["single_turn", "multi_turn", "agentic"]))
    record |= {
        "model_id": rng.choice(["org/a", "org/b", "a[1]", "é\u202e"]),
        "evaluation_name": rng.choice(["sums", "sums 2", "*"]),
        "sample_id": rng.choice(
            ["5", "57", "x"] if version in ("0.2.1", "0.3.0") else [5, 5.0, "5", 10**30, "x"]
        ),
        "error": rng.choice(["", "broken", None])
        if version == "0.2.0"
        else rng.choice(["", "broken"]),
    }
    record["input"]["raw"] = question(rng.randint(1, 3))["raw"]
    record["evaluation"]["is_correct"] = rng.random() < 0.5
    if rng.random() < 0.3:
        del record["error"]
    if rng.random() < 0.7:
        del record["sample_hash"]
    if version == "0.3.0" and rng.random() < 0.5:
        record["evaluation_result_id"] = rng.choice(["acc", "f1"])
    if version.startswith("0.2.0") and rng.random() < 0.3:
        record["evaluation_result_id"] = rng.choice(
            ["acc", 5]
        )  # an unknown key, which an upgrade makes a metric
    if version.startswith("0.2.0") and rng.random() < 0.3:
        record["zz"] = {"evaluation": {"is_correct": True}, "null": None}
    return respelled(record, rng).encode()


names = {
    "evaluation": ["sums", "sums*", "[*]", "*", "none"],
    "metric": ["acc", "?1", "", "*"],
    "model": ["org/a", "org/*", "a[1]", "*\u202e", "none"],
    "sample_id": ["5", "5*", "x", "1" + "0" * 30],
    "exclude_evaluation": ["sums", "x*"],
    "exclude_model": ["org/a", "org/*", "a[1]"],
}
patterns = {
    name: st.lists(st.sampled_from(some), max_size=2, unique=True) for name, some in names.items()
}
flags = {name: st.booleans() for name in ("right", "wrong", "errors")}
hashes = st.sampled_from([(), ("00ff",), ("[0-7]*",), ("[!0-7]*", "00*")])
asked_for = st.fixed_dictionaries({}, optional={**patterns, **flags, "hash": hashes})
modes = st.fixed_dictionaries(
    {
        "schema": st.sampled_from(["auto", "auto", "0.3.0", "0.2.0"]),
        "sample_hash": st.sampled_from(["replace", "fill", "verify"]),
        "repair": st.sampled_from([(), ("all",)]),
        "repeats": st.sampled_from(["keep", "first", "reject"]),
        "sort_by": st.sampled_from([(), ("model_id",)]),
    }
)


def naive(record: dict[str, Any], filters: Filters) -> bool:
    """Whether a record of a corpus matches."""
    metric = record.get("evaluation_result_id", "") if "0.3.0" in record["schema_version"] else ""
    values = {
        "evaluation": record["evaluation_name"],
        "metric": metric,
        "model": record["model_id"],
        "sample_id": str(record["sample_id"]),
        "hash": record["sample_hash"],
    }
    for name, value in values.items():
        for negated, some in (
            (False, getattr(filters, name)),
            (True, getattr(filters, f"exclude_{name}", ())),
        ):
            matches = any(value == one or fnmatchcase(value, one) for one in some)
            if some and matches is negated:
                return False
    outcome = (
        "errors"
        if record.get("error")
        else "right"
        if record["evaluation"]["is_correct"]
        else "wrong"
    )
    return not (filters.right or filters.wrong or filters.errors) or getattr(filters, outcome)


@cache
def plain_judge(target: str, mode: Any, repair: tuple[str, ...]) -> Judge:
    repairs = frozenset(make_options(repair=repair).repair)
    return Judge(JudgeSettings(target=target, sample_hash=mode, repairs=repairs))


def matching(
    lines: list[bytes], filters: Filters, options: dict[str, Any]
) -> tuple[list[bytes], Schema]:
    """The lines that match, with all that are blank or invalid; and the target that follows from
    them.
    """

    def judged(
        target: Schema, line: bytes, mode: str = options["sample_hash"]
    ) -> tuple[dict[str, Any] | None, str]:
        judge = plain_judge(target.name, mode, options["repair"])
        text = bytearray()
        batch = judge.judge_chunk(line + b"\n", text)
        return (json.loads(text) if text else None), next(
            (name for name, count in batch.versions.items() if count), ""
        )

    def is_newer(line: bytes) -> bool:
        """Whether it is a record of a later version, or one that names a metric, which decides for
        the newest version.

        Also if its hash is wrong, which `verify` rejects.
        """
        record, version = judged(NEWEST_SCHEMA, line, "fill")
        if record is None:
            return False
        is_later = version != DEFAULT_SCHEMA.name
        return is_later or (options["schema"] == "auto" and "evaluation_result_id" in record)

    def stay(target: Schema) -> list[bytes]:
        kept = []
        for line in lines:
            record, _ = judged(NEWEST_SCHEMA, line, "fill")
            # Such a record matches as what it is in the newest version.
            own = NEWEST_SCHEMA if is_newer(line) else target
            named = judged(own, line, "fill")[0]
            final = judged(own, line)[0]
            if record is None or (
                named and naive(named, any_hash) and (not final or naive(final, filters))
            ):
                kept.append(line)
        return kept

    any_hash = msgspec.structs.replace(filters, hash=())

    target = TARGETS.get(options["schema"], NEWEST_SCHEMA)
    if options["schema"] == "auto":
        target = NEWEST_SCHEMA if any(map(is_newer, stay(NEWEST_SCHEMA))) else DEFAULT_SCHEMA
    return stay(target), target


PIECES = Limits(small_input=0, task_bytes=3_000, run_bytes=6_000, decompressed_chunk_bytes=4_000)


@settings(max_examples=examples(7, 160))
@given(
    dice,
    st.sampled_from([VERSIONS, VERSIONS[:1], VERSIONS[-1:], VERSIONS[::3]]),
    asked_for,
    modes,
    st.booleans(),
)
def test_the_corpus_is_that_of_the_matching_lines(
    rng: random.Random,
    versions: tuple[str, ...],
    asked: dict[str, Any],
    options: dict[str, Any],
    in_pieces: bool,
) -> None:
    """Parts and summary have the bytes of a corpus made without filters from the matching and
    invalid lines.
    """
    filters = make_filters(**asked)
    lines = [make_line(rng, versions) for _ in range(rng.randint(0, 25))] + rng.sample(
        OTHER_LINES, rng.randint(0, 4)
    )
    rng.shuffle(lines)
    expected, _ = matching(lines, filters, options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_lines = write(folder / "all.jsonl", lines)
        some = write(folder / "some.jsonl", expected)
        given_options = make_options(**options, **asked, allow_empty=True)
        with use_limits(PIECES if in_pieces else LIMITS):
            result = run([all_lines], folder / "filtered", given_options)
        run([some], folder / "plain", make_options(**options, allow_empty=True))
        found, wanted = ({path.name: path.read_bytes() for path in (folder / one).iterdir()} for one in
                         ("filtered", "plain"))  # fmt: skip
        assert {**found, "manifest.json": b"", "rejects.jsonl.zst": b""} == {
            **wanted, "manifest.json": b"", "rejects.jsonl.zst": b""
        }  # fmt: skip
        corpus = audited(folder / "filtered", result)
        assert corpus.manifest["filtered"] == result.filtered == len(lines) - len(expected)
        assert [entry["filtered"] for entry in corpus.manifest["inputs"]] == [result.filtered]
        assert fastrec.verify(folder / "filtered").ok


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    rng = random.Random(5)
    (tmp_path / "in").mkdir()
    for number in range(6):
        write(tmp_path / "in" / f"{number}.jsonl", [make_line(rng, VERSIONS) for _ in range(30)])
    return tmp_path / "in"


ASKED: dict[str, Any] = {"model": "org/*", "exclude_evaluation": "x", "hash": "[0-7]*"}


def test_however_it_is_made(shards: Path, tmp_path: Path) -> None:
    """By several processes, after an interruption, or night after night: the same bytes."""
    fastrec.normalize(shards, tmp_path / "plain", **ASKED)
    expected = contents(tmp_path / "plain")
    small = Limits(small_input=0, task_bytes=4_000)
    use_limits(small)(fastrec.normalize)(shards, tmp_path / "jobs", **ASKED, jobs=2)
    assert contents(tmp_path / "jobs") == expected
    options = make_options(**ASKED)
    with use_limits(Limits(task_bytes=4_000)):
        with pytest.raises(KeyboardInterrupt):
            run([shards], tmp_path / "resumed", options, progress=StopAfter(3))
        result = run([shards], tmp_path / "resumed", options)
    assert "resuming an interrupted run" in result.notices[0]
    assert contents(tmp_path / "resumed") == expected
    away = (shards / "5.jsonl").rename(tmp_path / "5.jsonl")
    for number in range(2):
        run(
            [shards],
            tmp_path / "nights",
            make_options(**ASKED, incremental=True, overwrite=number > 0),
        )
        away.rename(shards / "5.jsonl") if away.exists() else None
    assert contents(tmp_path / "nights") == expected


def test_nothing_stays_if_no_record_matches(shards: Path, tmp_path: Path) -> None:
    """Neither output nor work; but the work that an earlier night kept stays."""
    with pytest.raises(NoMatchError, match="no record matches --model none; evaluations: "):
        fastrec.normalize(shards, tmp_path / "out", model="none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    fastrec.normalize(shards, tmp_path / "out", incremental=True)
    before = contents(tmp_path / "out")
    with pytest.raises(NoMatchError):
        fastrec.normalize(shards, tmp_path / "out", incremental=True, overwrite=True, model="none")
    assert contents(tmp_path / "out") == before
    result = run([shards], tmp_path / "out", make_options(incremental=True, overwrite=True))
    assert result.unchanged == 6


def test_left_out_records_with_unknown_keys_are_fast() -> None:
    """Unknown keys are learned from records that are left out, too."""
    judge = Judge(JudgeSettings(target=DEFAULT_SCHEMA.name, filters=Filters(model=("none",))))
    text = b"".join(json.dumps(sample(zz=number)).encode() + b"\n" for number in range(50))
    seen: list[bytes] = []
    slow = judge._judge_slow
    judge._judge_slow = lambda raw, *rest: (seen.append(raw), slow(raw, *rest))[1]  # type: ignore[assignment]
    batch = judge.judge_chunk(text, bytearray())
    assert (batch.filtered, len(seen)) == (50, 1)
