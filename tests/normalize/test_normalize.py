"""The main job, whole: golden runs, the order, the options, and corpora that others can read."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import fastrec
from fastrec.commands.generate import Recipe, generate, lines
from fastrec.errors import UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.dry_run import plan
from fastrec.normalize.options import Options
from fastrec.normalize.run import normalize
from fastrec.sorting.keys import FIELDS
from fastrec.sources.formats import Format
from fastrec.summary.document import Summary
from tests import reference
from tests.docs.documents import json_schema
from tests.golden.update import GOLDEN, ROOT, produce
from tests.lazily import Library
from tests.normalize.leaving_out import leave_out
from tests.normalize.normalizing import EVERYTHING, Corpus, normalized, raw_of, sort_position, write
from tests.samples import sample
from tests.sizes import LONG, examples
from tests.summary.naive import naive_models, near_root

duckdb: Any = Library("duckdb")
pa: Any = Library("pyarrow")
pa_json: Any = Library("pyarrow.json")
pd: Any = Library("pandas")

SCHEMA = Path(fastrec.__file__).parent / "summary" / "summary.schema.json"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated shards with all kinds of lines."""
    folder = tmp_path_factory.mktemp("mixed") / "in"
    generate(
        folder,
        records=examples(110, 300),
        seed=5,
        text="words",
        shards=3,
        compression="mixed",
        **EVERYTHING,
    )
    return folder


def line_of(**changes: Any) -> bytes:
    return json.dumps(sample(**changes)).encode()


# Golden runs


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_demo_becomes_the_golden_corpus(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo corpus gives the committed text, byte for byte, with 1 and 2 jobs."""
    monkeypatch.chdir(ROOT)
    found = use_limits(Limits(small_input=0))(produce)(tmp_path / "out", jobs=jobs)
    assert sorted(found) == sorted(path.name for path in GOLDEN.iterdir())
    for name, text in found.items():
        assert text == (GOLDEN / name).read_bytes(), (
            f"{name} differs; if that is meant: python -m tests.golden.update"
        )


# Sort order


@pytest.mark.parametrize(
    "sort_by",
    [
        (),
        ("model_id",),
        ("sample_id", "evaluation_name"),
        ("sample_hash",),
        tuple(reversed(FIELDS)),
    ],
)
def test_records_are_sorted(sort_by: tuple[str, ...], mixed: Path, tmp_path: Path) -> None:
    """The records of all parts are in the order that `sorted` gives for decoded records."""
    corpus = normalized(mixed, tmp_path / "out", sort_by=sort_by, part_size=30_000)
    order = [*sort_by, *(field for field in FIELDS if field not in sort_by)]
    assert corpus.manifest["sort_fields"] == order
    assert len(corpus.parts) > 3
    assert corpus.lines == sorted(corpus.lines, key=lambda line: sort_position(line, order))


def test_tricky_fields_sort_by_value_and_code_point(tmp_path: Path) -> None:
    """Integers by value and before strings.

    NUL, the empty string and characters beyond UTF-16 by code point.
    """
    sample_ids = [
        "",
        "\0",
        "\0a",
        "a",
        "a\0",
        "ab",
        "10",
        "9",
        9,
        10,
        -1,
        -256,
        0,
        10**30,
        -(10**30),
        7.0,
        "\uffff",
        "\U00010000",
    ]
    names = ["", "\0", "a", "a\0", "a\0\0", "\uffff", "\U00010000"]
    records = [line_of(sample_id=one, evaluation_name=name) for one in sample_ids for name in names]
    corpus = normalized(write(tmp_path / "in.jsonl", records[::-1]), tmp_path / "out")
    found = [
        (record["evaluation_name"], record["sample_id"]) for record in map(json.loads, corpus.lines)
    ]
    numbers = sorted(int(one) for one in sample_ids if not isinstance(one, str))
    ids = [*numbers, *sorted(one for one in sample_ids if isinstance(one, str))]
    assert found == [(name, one) for name in sorted(names) for one in ids]


def test_integers_of_any_length_are_sorted_and_summed(tmp_path: Path) -> None:
    """Ids, scores and token counts may have 19, 30 or 5,000 digits.

    The summary shows the longest in hexadecimal.
    """
    digits = ["1" + "0" * 18, "9" * 30, "7" * 5_000]
    text = line_of(
        sample_id=1, sample_hash="wrong", evaluation={"score": 1, "is_correct": True}, strange=1
    ).decode()
    records = []
    for one in digits:
        changed = text.replace('"sample_id": 1,', f'"sample_id": {one},').replace(
            '"score": 1,', f'"score": {one},'
        )
        records.append(changed.replace('"input_tokens": 10,', f'"input_tokens": {one},').encode())
    corpus = normalized_unaudited(write(tmp_path / "in.jsonl", records[::-1]), tmp_path / "out")
    assert [
        any(f'"sample_id":{one},'.encode() in line for line in corpus.lines) for one in digits
    ] == [True] * 3
    assert [
        line.index(b'"sample_id":' + one.encode()) > 0
        for line, one in zip(corpus.lines, digits, strict=True)
    ]
    model = corpus.summary["evaluations"][0]["by_model"][0]
    assert (model["first_sample_id"], model["mean_score"]) == (10**18, None)
    assert len(model["last_sample_id"]) > 4_000
    assert model["last_sample_id"] == corpus.manifest["parts"][0]["last"]["sample_id"]
    assert model["last_sample_id"] == hex_of(digits[2])
    assert model["tokens"]["input"].startswith("0x")
    assert corpus.summary["sample_hash"]["replaced"] == 3
    msgspec.json.decode((tmp_path / "out" / "summary.json").read_bytes(), type=Summary)


def normalized_unaudited(path: Path, output: Path) -> Corpus:
    """The stdlib does not take integers as long as these."""
    normalize(path, output)
    return Corpus(output)


def hex_of(digits: str) -> str:
    value = 0
    for start in range(0, len(digits), 1_000):
        some = digits[start : start + 1_000]
        value = value * 10 ** len(some) + int(some)
    return hex(value)


# Options


@pytest.mark.each_value
@pytest.mark.parametrize("compression", ["zst", "gz", "none"])
@pytest.mark.parametrize("level", [1, 9])
def test_compression_does_not_change_the_text(
    compression: str, level: int, mixed: Path, tmp_path: Path
) -> None:
    """Every compression and level gives the same text; file names show the compression."""
    corpus = normalized(mixed, tmp_path / "out", compression=compression, level=level)
    suffix = {"zst": ".jsonl.zst", "gz": ".jsonl.gz", "none": ".jsonl"}[compression]
    assert [part.name for part in corpus.parts] == [f"part-00000{suffix}"]
    assert corpus.text == normalized(mixed, tmp_path / "again").text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"jobs": 0}, "at least one job"),
        ({"hash_algorithm": "md5"}, "hash_algorithm must be one of sha256, xxh3_128"),
        ({"sample_hash": "keep"}, "sample_hash must be one of"),
        ({"conflicts": "last"}, "conflicts must be one of"),
        ({"repeats": "last"}, "repeats must be one of"),
        ({"same_run": "drop"}, "same_run must be one of"),
        ({"compression": "xz"}, "compression must be one of"),
        ({"check": "time"}, "check must be one of stat, content"),
        ({"check": "content"}, "check content needs an incremental run: give --incremental, too"),
        ({"sort_by": ("output",)}, "sort_by must be one of"),
        ({"part_size": 1_000}, "part_size must be at least 1 KiB"),
        ({"memory": "4GiB"}, "memory must be an integer, not '4GiB'; sizes are in bytes"),
        ({"level": 23}, "level must be from -7 to 22 for zst"),
        ({"level": 10, "compression": "gz"}, "level must be from 0 to 9 for gz"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    """The message names the option and its valid values; nothing is done."""
    with pytest.raises(UsageError, match=said):
        normalize(write(tmp_path / "in.jsonl", [line_of()]), tmp_path / "out", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.each_value
@pytest.mark.parametrize("algorithm", ["sha256", "xxh3_128"])
@pytest.mark.parametrize("mode", ["replace", "fill", "verify"])
def test_sample_hash_modes(mode: str, algorithm: str, tmp_path: Path) -> None:
    """A correct hash is verified, a missing one filled, a wrong one replaced, kept or rejected.

    All are counted.
    """
    right = fastrec.sample_hash("6 x 7 = ?", "42", algorithm=algorithm)
    records = [line_of(sample_hash=right, sample_id=1), line_of(sample_hash="wrong", sample_id=2)]
    records.append(
        json.dumps(
            {key: value for key, value in sample(sample_id=3).items() if key != "sample_hash"}
        ).encode()
    )
    corpus = normalized(
        write(tmp_path / "in.jsonl", records),
        tmp_path / "out",
        hash_algorithm=algorithm,
        sample_hash=mode,
    )
    found = corpus.summary["sample_hash"]
    assert (found["algorithm"], found["verified"], found["filled"]) == (algorithm, 1, 1)
    hashes = {
        record["sample_id"]: record["sample_hash"] for record in map(json.loads, corpus.lines)
    }
    if mode == "verify":
        assert hashes == {1: right, 3: right}
        assert corpus.summary["rejected_by_code"] == {"hash.mismatch": 1}
        assert (found["replaced"], found["examples"]) == (0, [])
        assert raw_of(corpus.rejects[0]) == records[1]
    else:
        assert hashes == {1: right, 2: right if mode == "replace" else "wrong", 3: right}
        example = {
            "evaluation_name": "arithmetic",
            "model_id": "org/model",
            "sample_id": 2,
            "given": "wrong",
        }
        assert (found["replaced"], found["examples"]) == (1, [{**example, "computed": right}])


def test_a_plan_describes_the_run(mixed: Path) -> None:
    """It has shards, bytes, tasks and parts, and writes nothing; less memory means more tasks."""
    found = plan([mixed], "out", Options(part_size=50_000))
    assert (found.shards, found.tasks) == (3, 1)
    assert found.input_bytes == sum(path.stat().st_size for path in mixed.iterdir())
    assert found.estimated_parts == -(-found.estimated_text_bytes // 50_000)
    assert found.paths == sorted(map(str, mixed.iterdir()))
    assert plan([mixed], "out", Options(memory=1 << 20)).tasks >= 1


def test_normalize_returns_the_summary(mixed: Path, tmp_path: Path) -> None:
    """`fastrec.normalize` returns the published summary."""
    summary = fastrec.normalize([str(mixed)], str(tmp_path / "out"))
    assert isinstance(summary, Summary)
    assert summary.to_json() == (tmp_path / "out" / "summary.json").read_bytes()
    assert fastrec.normalize(mixed, tmp_path / "again") == summary


@pytest.mark.parametrize("jobs", [1, 2])
def test_standard_input_is_a_shard(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input, compressed or not, gives the same corpus as a file with these lines."""
    several = list(lines(Recipe(records=60, seed=2, text="words", **EVERYTHING)))
    expected = normalized(write(tmp_path / "in.jsonl", several), tmp_path / "expected")
    data = write(tmp_path / "packed.jsonl", several, Format.ZSTD).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    corpus = normalized("-", tmp_path / "out", jobs=jobs)
    assert corpus.same_for_all == expected.same_for_all
    assert corpus.manifest["inputs"][0]["path"] == "-"
    places = [(reject["line"], reject["offset"], raw_of(reject)) for reject in expected.rejects]
    assert [
        (reject["line"], reject["offset"], raw_of(reject)) for reject in corpus.rejects
    ] == places


# Small and odd inputs


@pytest.mark.parametrize("lines", [[], [b""], [b" ", b"\t", b""]])
def test_no_records_make_an_empty_corpus(lines: list[bytes], tmp_path: Path) -> None:
    """A shard with only blank lines gives a corpus without parts."""
    corpus = normalized(write(tmp_path / "in.jsonl", lines), tmp_path / "out")
    assert (corpus.parts, corpus.rejects) == ([], [])
    assert corpus.line_counts == {
        "lines": len(lines),
        "kept": 0,
        "duplicates": 0,
        "rejected": 0,
        "blank": len(lines),
    }
    assert corpus.summary["evaluations"] == []


def test_all_lines_may_be_rejected(tmp_path: Path) -> None:
    """A corpus without records has rejected lines and a summary, but no part."""
    bad = [b"{", b"\xff\xfe", b'{"a": "\\ud800"}', b"[" * 300]
    corpus = normalized(write(tmp_path / "in.jsonl", bad), tmp_path / "out")
    assert corpus.parts == []
    assert [raw_of(reject) for reject in corpus.rejects] == bad
    codes = {"json.syntax": 1, "json.utf8": 1, "json.surrogate": 1, "json.depth": 1}
    assert Counter(corpus.summary["rejected_by_code"]) == codes


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_line_that_is_too_long_is_rejected(jobs: int, tmp_path: Path) -> None:
    """The rejects file has its location and its first bytes, marked as truncated.

    Other lines are not affected.
    """
    long = line_of(sample_id="x" * 5_000)
    several = [line_of(), long, line_of(sample_id=2), long, long]
    corpus = normalized(
        write(tmp_path / "in.jsonl", several), tmp_path / "out", max_line_bytes=4_000, jobs=jobs
    )
    assert len(corpus.lines) == 2
    assert [reject["line"] for reject in corpus.rejects] == [2, 4, 5]
    for reject in corpus.rejects:
        assert (reject["code"], reject["truncated"]) == ("line.too_long", True)
        assert long.startswith(raw_of(reject))


def test_names_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    """Manifest and rejects file escape the bytes of a shard name that is not UTF-8."""
    path = Path(str(tmp_path / "in" / "in-\udcff.jsonl"))
    path.parent.mkdir()
    path.write_bytes(b"{\n" + line_of() + b"\n")
    corpus = normalized(path.parent, tmp_path / "out")
    assert corpus.manifest["inputs"][0]["path"].endswith("in-\\xff.jsonl")
    assert corpus.rejects[0]["source"].endswith("in-\\xff.jsonl")


# The summary


def test_the_schema_of_the_summary_is_up_to_date() -> None:
    """The JSON Schema in the package is generated from the classes."""
    assert SCHEMA.read_bytes() == json_schema(Summary)


def test_summaries_follow_their_schema(mixed: Path, tmp_path: Path) -> None:
    """A summary is valid, and has every field of the schema, but for those that need --map,
    --labels or --fixes.
    """
    corpus = normalized(mixed, tmp_path / "out")
    schema = json.loads(SCHEMA.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(corpus.summary)
    assert {*corpus.summary, "renamed", "labels", "fixes"} == set(
        schema["$defs"]["Summary"]["properties"]
    )


def test_the_summary_agrees_with_simple_counting(mixed: Path, tmp_path: Path) -> None:
    """Counts, means and questions of each evaluation and model, computed with plain Python."""
    corpus = normalized(mixed, tmp_path / "out", part_size=30_000)
    records = [json.loads(line) for line in corpus.lines]
    assert [one["evaluation_name"] for one in corpus.summary["evaluations"]] == sorted(
        {record["evaluation_name"] for record in records}
    )
    for evaluation in corpus.summary["evaluations"]:
        own = [
            record
            for record in records
            if record["evaluation_name"] == evaluation["evaluation_name"]
        ]
        models = sorted({record["model_id"] for record in own})
        assert [one["model_id"] for one in evaluation["by_model"]] == models
        answered = {
            sample: {record["model_id"] for record in own if record["sample_hash"] == sample}
            for sample in {record["sample_hash"] for record in own}
        }
        assert evaluation["questions"] == len(answered)
        assert evaluation["questions_all_models"] == sum(
            len(who) == len(models) for who in answered.values()
        )
        answering = {record["model_id"] for record in own if not record.get("error")}
        by_question: dict[str, set[str]] = {}
        for record in own:
            if not record.get("error"):
                by_question.setdefault(record["sample_hash"], set()).add(record["model_id"])
        assert evaluation["questions_answered_by_all"] == sum(
            who == answering for who in by_question.values()
        )
        for model in evaluation["by_model"]:
            check_model(
                model, [record for record in own if record["model_id"] == model["model_id"]]
            )


def check_means(
    model: dict[str, Any], own: list[dict[str, Any]], *, errors_as_wrong: bool = False
) -> None:
    (expected,) = naive_models(own, errors_as_wrong=errors_as_wrong).values()
    for name in ("records", "errors", "answers", "correct", "accuracy", "mean_score"):
        assert model[name] == getattr(expected, name)
    assert errors_as_wrong or model["questions_answered"] == expected.questions
    assert near_root(model["accuracy_standard_error"], expected.accuracy_variance)
    assert near_root(model["score_standard_error"], expected.score_variance)


def check_model(model: dict[str, Any], own: list[dict[str, Any]]) -> None:
    check_means(model, own)
    check_means(model | model["errors_as_wrong"] | {"answers": len(own)}, own, errors_as_wrong=True)
    assert model["questions"] == len({record["sample_hash"] for record in own})
    assert model["turns"] == sum(len(record.get("interactions", [None])) for record in own)
    calls = [
        turn.get("tool_calls", []) for record in own for turn in record.get("interactions", [])
    ]
    assert model["tool_calls"] == sum(map(len, calls))
    usages = [record["token_usage"] for record in own if "token_usage" in record]
    for name in ("input", "output", "total"):
        assert model["tokens"][name] == sum(usage[f"{name}_tokens"] for usage in usages)
    times = sorted(
        record["performance"]["latency_ms"]
        for record in own
        if "latency_ms" in record.get("performance", {})
    )
    assert model["latency_ms"]["records"] == len(times)
    if times:
        middle = times[(len(times) + 1) // 2 - 1]
        assert abs(model["latency_ms"]["p50"] - middle) <= middle / 128
    ids = sorted((isinstance(record["sample_id"], str), record["sample_id"]) for record in own)
    assert (model["first_sample_id"], model["last_sample_id"]) == (ids[0][1], ids[-1][1])


# Others read it


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards without unknown keys, which confuse readers that infer types from values."""
    folder = tmp_path_factory.mktemp("usual") / "in"
    generate(
        folder,
        records=examples(120, 300),
        seed=8,
        text="words",
        shards=3,
        compression="mixed",
        **{**EVERYTHING, "unknown_keys": 0.0},
    )
    return folder


@pytest.mark.parametrize("compression", ["zst", "gz", "none"])
def test_duckdb_reads_the_parts(compression: str, usual: Path, tmp_path: Path) -> None:
    """DuckDB finds every record by `read_json_auto` over the parts."""
    corpus = normalized(usual, tmp_path / "out", part_size=50_000, compression=compression)
    query = (
        "select count(*), count(distinct model_id), count(distinct evaluation_name) from "
        "read_json_auto(?)"
    )
    models = {json.loads(line)["model_id"] for line in corpus.lines}
    found = duckdb.execute(query, [str(tmp_path / "out" / "part-*.jsonl*")]).fetchone()
    assert found == (len(corpus.lines), len(models), len(corpus.summary["evaluations"]))


def test_pandas_and_pyarrow_read_the_parts(usual: Path, tmp_path: Path) -> None:
    """pandas and pyarrow find every record of every part."""
    corpus = normalized(usual, tmp_path / "out", part_size=50_000)
    ids = [json.loads(line)["model_id"] for line in corpus.lines]
    frames = [pd.read_json(part, lines=True, dtype=False) for part in corpus.parts]
    assert list(pd.concat(frames)["model_id"]) == ids
    # A score may be a number or a boolean, a sample_id a number or a string: of those columns
    # pyarrow wants one kind.
    options = pa_json.ParseOptions(
        pa.schema([("model_id", pa.string())]), unexpected_field_behavior="ignore"
    )
    tables = [pa_json.read_json(str(part), parse_options=options) for part in corpus.parts]
    assert pa.concat_tables(tables)["model_id"].to_pylist() == ids


# Real records


def test_real_records_make_a_corpus(real: Path, tmp_path: Path) -> None:
    """All are kept, sorted and valid, and the numbers of repeats and contradictions are right."""
    records = examples(2_638, 19_633)
    corpus = normalized(real if LONG else real / "gsm8k", tmp_path / "out")
    assert corpus.line_counts == {
        "lines": records,
        "kept": records,
        "duplicates": 0,
        "rejected": 0,
        "blank": 0,
    }
    again = fastrec.validate(tmp_path / "out" / "part-*.jsonl*")
    assert (again.valid, again.warnings) == (records, again.warnings)
    assert again.ok
    assert not again.codes.get("warn.sample_hash")
    found = duckdb.execute(
        "select count(*) from read_json_auto(?)", [str(tmp_path / "out" / "part-*.jsonl*")]
    ).fetchone()
    assert found == (records,)
    identities: Counter[tuple[Any, ...]] = Counter()
    for record in map(json.loads, corpus.lines):
        identities[
            tuple(
                str(record[key])
                for key in ("evaluation_id", "evaluation_name", "model_id", "sample_id")
            )
        ] += 1
    several = [count for count in identities.values() if count > 1]
    assert corpus.summary["repeats"]["identities"] == len(several)
    assert corpus.summary["repeats"]["records"] == sum(several)
    expected = leave_out(
        corpus.lines, FIELDS, same_run="keep", conflicts="keep", repeats="keep"
    ).summary
    assert {kind: corpus.summary[kind] for kind in expected} == expected
    for line in corpus.lines[::1_000]:
        record = json.loads(line)
        assert reference.is_valid(record)
        assert reference.same(record, reference.normal_record(record))
