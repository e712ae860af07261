"""The Python interface: its examples run, records keep every key, and errors can be pickled."""

from __future__ import annotations

import copy
import doctest
import hashlib
import importlib
import json
import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import UNSET

import fastrec
from fastrec import errors
from fastrec.errors import (
    BadShardsError,
    ClusterError,
    CorpusError,
    DamagedFileError,
    FastrecError,
    LockedError,
    LogError,
    NoMatchError,
    NothingValidError,
    PanicError,
    RefusedError,
    SecretsError,
    ShardError,
    ShardTruncatedError,
    TooManyResultsError,
    UsageError,
    WorkerDiedError,
)
from fastrec.judge.findings import Finding, InvalidRecordError
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS
from fastrec.schemas.upgrade import upgrade_value
from fastrec.sources.formats import Format
from tests import strategies
from tests.reference import normal_record
from tests.samples import sample, sample_of
from tests.sizes import examples
from tests.sources.compressing import compressed

KINDS = ["single_turn", "multi_turn", "agentic"]


def line_of(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


def normal_of(record: dict[str, Any]) -> bytes:
    """Return the normal form by the reference implementation."""
    return json.dumps(normal_record(record), ensure_ascii=False, separators=(",", ":")).encode()


def write(path: Path, *records: dict[str, Any] | bytes) -> Path:
    lines = [record if isinstance(record, bytes) else line_of(record) for record in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


# Examples


@pytest.mark.parametrize(
    "name",
    ["fastrec.api", "fastrec.schemas.hashes", "fastrec.judge.findings", "fastrec.cli.console"],
)
def test_the_examples_in_the_documentation_are_right(name: str) -> None:
    """The examples in docstrings run."""
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


# judge


@pytest.mark.parametrize("kind", KINDS)
def test_judge_returns_the_normal_form_of_a_valid_line(kind: str) -> None:
    """A valid line has a normal form and no errors.

    Str and bytes, with or without a newline, are the same.
    """
    record = sample(kind)
    line = line_of(record)
    verdicts = [
        fastrec.judge(spelled)
        for spelled in (line, line.decode(), line + b"\n", line + b"\r\n", bytearray(line))
    ]
    assert verdicts[0].valid
    assert verdicts[0].normal == normal_of(record)
    assert verdicts[0].errors == ()
    assert [warning.code for warning in verdicts[0].warnings] == ["warn.sample_hash"]
    assert all(verdict == verdicts[0] for verdict in verdicts)


def test_judge_lists_every_error_of_an_invalid_line() -> None:
    """The verdict on an invalid line has every error and no normal form."""
    record = sample(model_id=7, sample_id=None)
    del record["evaluation_id"]
    verdict = fastrec.judge(line_of(record))
    assert not verdict.valid
    assert verdict.normal == b""
    assert [(error.code, error.path) for error in verdict.errors] == [
        ("schema.type", "$.model_id"),
        ("schema.type", "$.sample_id"),
        ("schema.required", "$.evaluation_id"),
    ]
    assert {error.severity for error in verdict.errors} == {"error"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "a blank line"),
        ("\n", "a blank line"),
        (" \t\r\n", "a blank line"),
        ("{}\n{}", "2 lines"),
        ("\n\n{}\n", "3 lines"),
    ],
)
def test_judge_accepts_exactly_one_line(line: str, found: str) -> None:
    """A blank line and several lines are invalid."""
    verdict = fastrec.judge(line)
    assert [error.code for error in verdict.errors] == ["json.syntax"]
    assert verdict.errors[0].message.endswith(f"found {found}")


@pytest.mark.parametrize(
    ("line", "code"), [(b"\xff", "json.utf8"), ("\ud800", "json.utf8"), ("[", "json.syntax")]
)
def test_judge_never_raises(line: bytes | str, code: str) -> None:
    """Bytes that are not UTF-8 or not JSON give an invalid verdict."""
    assert fastrec.judge(line).errors[0].code == code


# decode and encode


@pytest.mark.parametrize("kind", KINDS)
def test_decode_returns_a_typed_record(kind: str) -> None:
    """Known fields are attributes; encoding the record gives the normal form."""
    given_record = sample(kind)
    record = fastrec.decode(line_of(given_record))
    assert isinstance(record, fastrec.Record)
    assert type(record) is fastrec.Record
    assert record.input.choices == ["41", "42"]
    assert record.token_usage.reasoning_tokens == 3
    assert record.sample_hash == hashlib.sha256(b"6 x 7 = ?42").hexdigest()
    assert fastrec.encode(record) == normal_of(given_record)


def with_unknown_keys() -> dict[str, Any]:
    """Make a record with an unknown key in every kind of object."""
    record = sample("agentic", extra={"b": 1, "a": [None]})
    for number, inner in enumerate(
        [
            record["input"],
            record["answer_attribution"][0],
            record["evaluation"],
            record["token_usage"],
            record["performance"],
            record["interactions"][0],
            record["interactions"][0]["tool_calls"][0],
        ]
    ):
        inner["extra"] = number
    return record


def test_decode_keeps_unknown_keys_at_every_level() -> None:
    """An unknown key becomes an attribute of its object, at every level."""
    given_record = with_unknown_keys()
    record = fastrec.decode(line_of(given_record))
    assert record.extra == {"a": [None], "b": 1}
    assert record.input.extra == 0
    assert record.answer_attribution[0].extra == 1
    assert record.evaluation.extra == 2
    assert record.token_usage.extra == 3
    assert record.performance.extra == 4
    assert record.interactions[0].extra == 5
    assert record.interactions[0].tool_calls[0].extra == 6
    assert fastrec.encode(record) == normal_of(given_record)
    output = fastrec.decode(line_of(sample(output={"raw": "x", "extra": 7}))).output
    assert output.extra == 7


def test_decode_does_not_depend_on_earlier_records() -> None:
    """A record has attributes for its own unknown keys only."""
    odd = line_of(sample(**{"my key": 1, "b key": 2}))
    before = fastrec.decode(odd)
    for number in range(20):
        fastrec.decode(line_of(sample(**{f"a key {number}": 0, f"extra_{number}": 0})))
    after = fastrec.decode(odd)
    assert (before.unknown_0, before.unknown_1) == (after.unknown_0, after.unknown_1) == (2, 1)
    assert not hasattr(after, "extra_0")
    assert type(fastrec.decode(line_of(sample()))) is fastrec.Record


@pytest.mark.parametrize(
    "key",
    ["metrics", "class", "_x", "__init__", "unknown_0", "é", "a b", "", "model_Id", "0", "mro"],
)
def test_unknown_keys_with_any_name_survive(key: str) -> None:
    """Keywords, attribute names and other strings survive decoding and encoding."""
    given_record = sample(**{key: {"x": 1}})
    assert fastrec.encode(fastrec.decode(line_of(given_record))) == normal_of(given_record)


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nb", "k" * 300])
def test_a_key_that_cannot_be_an_attribute_is_refused(key: str) -> None:
    """The error says what to do instead."""
    line = line_of(sample(**{key: 1}))
    assert fastrec.judge(line).valid
    with pytest.raises(
        FastrecError,
        match=r"cannot become an attribute; take the line's normal form from fastrec\.judge",
    ):
        fastrec.decode(line)


@settings(max_examples=examples(12, 450))
@given(strategies.records)
def test_encoding_a_decoded_record_gives_the_normal_form(record: dict[str, Any]) -> None:
    """For any valid record, `encode(decode(line))` is its normal form, unless a key cannot be an
    attribute.
    """
    line = line_of(record)
    normal = fastrec.judge(line).normal
    if '"' in "".join(keys_of(record)):
        with pytest.raises(FastrecError, match="cannot become an attribute"):
            fastrec.decode(line)
    else:
        assert fastrec.encode(fastrec.decode(line)) == normal
        assert fastrec.encode(fastrec.decode(normal)) == normal


KNOWN = {
    "input",
    "output",
    "interactions",
    "tool_calls",
    "answer_attribution",
    "evaluation",
    "token_usage",
    "performance",
}


def keys_of(value: Any) -> list[str]:
    """Yield the keys that become attributes: those of all objects but free-form ones."""
    if isinstance(value, list):
        return [key for item in value for key in keys_of(item)]
    if not isinstance(value, dict):
        return []
    return [*value, *(key for name in KNOWN & value.keys() for key in keys_of(value[name]))]


@pytest.mark.parametrize("digits", [25, 5_000])
def test_long_integers_survive(digits: int) -> None:
    """An integer of any length keeps its digits, with and without unknown keys, and is a number."""
    number = "7" * digits
    line = line_of(sample(sample_id="@", zz="@")).replace(b'"@"', number.encode())
    record = fastrec.decode(line)
    assert record.sample_id % 10 == 7
    assert fastrec.encode(record).count(number.encode()) == 2


def test_a_changed_record_can_be_encoded() -> None:
    """Assigned values are encoded, and `sample_hash` is computed again."""
    record = fastrec.decode(line_of(sample()))
    record.input.raw = "7 x 6?"
    record.metadata = {"b": 1, "a": {"d": 2, "c": 3}}
    record.error = None
    encoded = json.loads(fastrec.encode(record))
    assert encoded["sample_hash"] == fastrec.sample_hash("7 x 6?", "42")
    assert list(encoded["metadata"]) == ["a", "b"]
    assert "error" not in encoded


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        (lambda record: setattr(record, "model_id", 7), "schema.type", "$.model_id"),
        (
            lambda record: setattr(record, "interaction_type", "chat"),
            "schema.enum",
            "$.interaction_type",
        ),
        (
            lambda record: setattr(record.evaluation, "score", math.nan),
            "json.number",
            "$.evaluation.score",
        ),
        (
            lambda record: setattr(record.performance, "latency_ms", math.inf),
            "json.number",
            "$.performance.latency_ms",
        ),
        (
            lambda record: setattr(record, "metadata", {"a": [1, -math.inf]}),
            "json.number",
            "$.metadata.a[1]",
        ),
        (lambda record: setattr(record, "error", "\ud800"), "json.surrogate", "$.error"),
        (lambda record: setattr(record, "output", UNSET), "rule.single_turn_output", "$.output"),
        (lambda record: setattr(record, "metadata", nested(300)), "json.depth", "$"),
        (lambda record: setattr(record, "metadata", nested(100_000)), "json.depth", "$"),
    ],
)
def test_an_invalid_record_is_not_encoded(change: Any, code: str, path: str) -> None:
    """Encoding raises an error with every reason; NaN never becomes null."""
    record = fastrec.decode(line_of(sample()))
    change(record)
    with pytest.raises(InvalidRecordError) as caught:
        fastrec.encode(record)
    assert [(finding.code, finding.path) for finding in caught.value.findings] == [(code, path)]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_value_that_is_not_json_is_refused() -> None:
    """An object that is not a JSON value raises UsageError."""
    record = fastrec.decode(line_of(sample()))
    record.metadata = {"a": object()}
    with pytest.raises(UsageError, match="can only hold JSON values, found one of type object"):
        fastrec.encode(record)


@pytest.mark.parametrize("line", ["{}", b"\xff", "", "nonsense"])
def test_decode_raises_for_an_invalid_line(line: bytes | str) -> None:
    """InvalidRecordError is a ValueError too, and has the errors that `judge` lists."""
    with pytest.raises(InvalidRecordError) as caught:
        fastrec.decode(line)
    assert isinstance(caught.value, ValueError)
    assert caught.value.findings == fastrec.judge(line).errors
    assert caught.value.findings[0].message in str(caught.value)


# Schema versions


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", SCHEMAS)
def test_a_record_is_decoded_as_its_own_version(version: str, kind: str) -> None:
    """The Struct is that of the version, and encoding it gives its normal form."""
    line = line_of(sample_of(version, kind))
    verdict = fastrec.judge(line)
    assert (verdict.valid, verdict.version, verdict.notes) == (True, version, ())
    record = fastrec.decode(line)
    assert type(record) is SCHEMAS[version].record
    assert fastrec.encode(record) == verdict.normal


@pytest.mark.parametrize("version", SCHEMAS)
def test_unknown_keys_survive_in_every_version(version: str) -> None:
    """Objects below the root are open in all versions."""
    given_record = sample_of(version, "agentic")
    given_record["evaluation"]["extra"] = {"b": 1, "a": 2}
    line = line_of(given_record)
    record = fastrec.decode(line)
    assert record.evaluation.extra == {"a": 2, "b": 1}
    assert fastrec.encode(record) == fastrec.judge(line).normal


def test_a_record_can_be_judged_by_one_version() -> None:
    """`schema` names the version; errors say which version they are of."""
    line = line_of(sample_of("0.2.1"))
    assert fastrec.judge(line).version == "0.2.1"
    assert type(fastrec.decode(line, schema="0.3.0")) is SCHEMAS["0.3.0"].record
    verdict = fastrec.judge(line, schema="0.2.0")
    assert (verdict.valid, verdict.version) == (False, "0.2.0")
    assert verdict.errors[0].message == "expected a string, found an array of 1 item"
    with pytest.raises(UsageError, match=r"there is no schema version '0\.1'"):
        fastrec.judge(line, schema="0.1")


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", SCHEMAS)
def test_records_of_all_versions_can_be_upgraded(version: str, kind: str, tmp_path: Path) -> None:
    """`judge`, `decode` and `read` give the record in the newest version.

    The verdict has the codes.
    """
    line = line_of(sample_of(version, kind))
    verdict = fastrec.judge(line, upgrade=True)
    assert (verdict.valid, verdict.version) == (True, version)
    value, codes = upgrade_value(json.loads(line), SCHEMAS[version])
    assert verdict.notes == tuple(codes)
    assert {**json.loads(verdict.normal), "sample_hash": "00ff"} == value
    record = fastrec.decode(line, upgrade=True)
    assert type(record) is NEWEST_SCHEMA.record
    assert fastrec.encode(record) == verdict.normal
    assert fastrec.judge(verdict.normal, upgrade=True).normal == verdict.normal
    path = write(tmp_path / "a.jsonl", json.loads(line))
    assert [fastrec.encode(one) for one in fastrec.read(path, upgrade=True)] == [verdict.normal]


def test_read_yields_records_of_several_versions(tmp_path: Path) -> None:
    """Each record has the class of its own version, or of the one that all are judged by."""
    path = write(tmp_path / "a.jsonl", *(sample_of(version) for version in SCHEMAS))
    assert [type(record) for record in fastrec.read(path)] == [
        schema.record for schema in SCHEMAS.values()
    ]
    assert {type(record) for record in fastrec.read(path, upgrade=True)} == {NEWEST_SCHEMA.record}
    with pytest.raises(InvalidRecordError, match=r"line 1: .*\(judged as 0\.3\.0\)") as caught:
        list(fastrec.read(path, schema="0.3.0"))
    assert caught.value.version == "0.3.0"


def test_upgraded_records_have_their_own_unknown_keys_only(tmp_path: Path) -> None:
    """What the judge learned from other records is not seen in a record."""
    records = [sample("agentic", sample_id=number) for number in range(6)]
    for number, record in enumerate(records):
        record["token_usage"][f"extra_{number % 2}"] = number
    found = list(fastrec.read(write(tmp_path / "a.jsonl", *records), upgrade=True))
    assert [hasattr(record.token_usage, "extra_1") for record in found] == [False, True] * 3


def test_schemas_of_all_versions() -> None:
    """`schema` returns the file of a version; `schema_versions` lists them."""
    assert fastrec.schema() == SCHEMAS["0.2.0"].source.decode()
    for version in fastrec.schema_versions():
        assert fastrec.schema(version.name) == SCHEMAS[version.name].source.decode()
        assert set(version.labels) == SCHEMAS[version.name].labels
    with pytest.raises(UsageError, match=r"there is no schema version '0\.1'"):
        fastrec.schema("0.1")


# read and validate


def test_read_yields_the_records_of_shards_in_order(tmp_path: Path) -> None:
    """Files, directories and globs work, plain and compressed.

    Blank lines are skipped, unknown keys kept.
    """
    write(
        tmp_path / "a.jsonl",
        sample(sample_id=1),
        b"",
        sample(sample_id=2, extra="x"),
        sample(sample_id=3),
    )
    (tmp_path / "b.jsonl.zst").write_bytes(
        compressed(Format.ZSTD, line_of(sample("agentic", sample_id=4)))
    )
    for paths in (
        tmp_path,
        str(tmp_path),
        [tmp_path],
        f"{tmp_path}/*.jsonl*",
        [tmp_path / "a.jsonl", tmp_path / "b.jsonl.zst"],
    ):
        records = list(fastrec.read(paths))
        assert [record.sample_id for record in records] == [1, 2, 3, 4]
        assert [getattr(record, "extra", None) for record in records] == [None, "x", None, None]


def test_read_keeps_every_unknown_key_of_every_record(tmp_path: Path) -> None:
    """Each record has its own unknown keys, and encodes to its normal form."""
    given_records = [
        sample(sample_id=number, **{f"extra_{number % 9}": number}) for number in range(100)
    ]
    path = write(tmp_path / "a.jsonl", *given_records)
    records = list(fastrec.read(path))
    assert [fastrec.encode(record) for record in records] == [
        normal_of(record) for record in given_records
    ]
    assert [hasattr(record, "extra_3") for record in records] == [
        number % 9 == 3 for number in range(100)
    ]


def test_read_reports_the_location_of_an_invalid_line(tmp_path: Path) -> None:
    """The error has the shard and the line as attributes and in its message."""
    path = write(tmp_path / "a.jsonl", sample(), b"", {"nonsense": 1})
    with pytest.raises(InvalidRecordError) as caught:
        list(fastrec.read(path))
    assert (caught.value.source, caught.value.line) == (str(path), 3)
    assert str(caught.value).startswith(f"{path}, line 3: $.")


def test_read_names_the_shard_of_a_key_that_cannot_be_an_attribute(tmp_path: Path) -> None:
    """The message names the shard."""
    path = write(tmp_path / "a.jsonl", sample(), sample(**{'a"b': 1}))
    with pytest.raises(FastrecError, match="cannot become an attribute") as caught:
        list(fastrec.read(path))
    assert str(caught.value).startswith(f"{path}: ")


def test_read_raises_for_a_shard_that_cannot_be_read_whole(tmp_path: Path) -> None:
    """A truncated shard ends with an error."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(compressed(Format.GZIP, line_of(sample()))[:-4])
    with pytest.raises(ShardError, match=r"a\.jsonl\.gz"):
        list(fastrec.read(path))


def test_validate_returns_a_validation(tmp_path: Path) -> None:
    """The line counts of `fastrec.validate` add up."""
    found = fastrec.validate(write(tmp_path / "a.jsonl", sample(), {}, b""))
    assert isinstance(found, fastrec.Validation)
    assert (found.lines, found.valid, found.invalid, found.blank, found.ok) == (3, 1, 1, 1, False)


# sample_hash


@pytest.mark.parametrize(
    ("raw", "reference"), [("", ""), ("6 x 7?", "42"), ("Größe \U0001f600", "\u2028")]
)
def test_sample_hash_is_the_sha256_of_both_texts(raw: str, reference: str) -> None:
    """Lower-case hex SHA-256 of the UTF-8 of `raw + reference`; xxh3_128 on request."""
    assert (
        fastrec.sample_hash(raw, reference)
        == hashlib.sha256((raw + reference).encode()).hexdigest()
    )
    fast = fastrec.sample_hash(raw, reference, algorithm="xxh3_128")
    assert len(fast) == 32
    assert fast != fastrec.sample_hash(raw + "x", reference, algorithm="xxh3_128")


# Errors

FINDINGS = (Finding("schema.type", "$.model_id", "expected a string, found null"),)
SHARD_ERRORS = [
    ("dir/a.jsonl", "is cut"),
    ("a.jsonl", "is cut", 12_345),
    ("a\udcff\n.jsonl", "is cut", 0),
]
# By class; a subclass without a row uses that of its base class.
EXAMPLES = {
    FastrecError: [("it broke",)],
    UsageError: [("name a file",)],
    LockedError: [("out", "process 7 on earth"), ("a\udcff\n", "process 7 on earth")],
    WorkerDiedError: [("reading a.jsonl",)],
    PanicError: [("reading a.jsonl", "PyObject pointer is null")],
    RefusedError: [
        (
            "out",
            "out.refused",
            "3 of 3 lines were rejected",
            SimpleNamespace(line_counts=SimpleNamespace(rejected=3)),
        ),
        ("a\udcff", "b\n", "", SimpleNamespace(line_counts=SimpleNamespace(rejected=0))),
    ],
    ClusterError: [("tcp://here:8786", "there were no workers for 30 seconds")],
    InvalidRecordError: [
        (FINDINGS,),
        (FINDINGS, "a b.jsonl", 12),
        (FINDINGS, "a\udcff\n.jsonl", 3),
        (FINDINGS, "a", 3, {"schema.type": 2}, "0.3.0"),
    ],
    BadShardsError: [
        ([ShardTruncatedError("a.jsonl", "is cut", 7), ShardError("a\udcff\n.jsonl", "is cut")],)
    ],
    TooManyResultsError: [(5, "exam", ""), (1_000, "exam\udcff\n", "org/m")],
    NothingValidError: [("a.jsonl", 3, 2, [("json.syntax", 2)]), ("a\udcff\n.jsonl", 0, 0, [])],
    CorpusError: [
        ("out/manifest.json", "is not JSON"),
        ("a\udcff\n/rejects.jsonl.zst", "is not JSON", 3),
    ],
    LogError: [("logs/a.eval", "ends in the middle of a member"), ("a\udcff\n.eval", "is cut")],
    DamagedFileError: [("work/run-0.index", "it ends at byte 7"), ("a\udcff\n/part", "is missing")],
    ShardError: SHARD_ERRORS,
}
FAMILY = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, Exception)
]
FAMILY.append(InvalidRecordError)  # has findings, so it is defined beside them


def examples_of(error: type[Exception]) -> list[tuple[Any, ...]]:
    return next(EXAMPLES[base] for base in error.__mro__ if base in EXAMPLES)


def test_errors_are_one_family() -> None:
    """FastrecError is the base of all errors, and all of them are in one module but one."""
    assert all(issubclass(error, FastrecError) for error in FAMILY)
    assert {error.__name__ for error in FAMILY} == {
        "InvalidRecordError",
        *(name for name in vars(errors) if name.endswith("Error")),
    }
    assert {error: error.exit_code for error in FAMILY if error.exit_code != 3} == {
        UsageError: 2,
        NoMatchError: 2,
        RefusedError: 1,
        SecretsError: 1,
        InvalidRecordError: 1,
    }


@pytest.mark.parametrize(
    ("error", "arguments"), [(error, each) for error in FAMILY for each in examples_of(error)]
)
def test_every_error_can_be_pickled(error: type[Exception], arguments: tuple[Any, ...]) -> None:
    """Type, arguments, attributes and message survive pickling and copying, and the message is
    printable.
    """
    first = error(*arguments)
    for second in (pickle.loads(pickle.dumps(first)), copy.copy(first)):
        assert type(second) is error
        assert repr(second.args) == repr(
            first.args
        )  # of errors inside errors only their spelling can be compared
        assert repr(vars(second)) == repr(vars(first))
        assert str(second) == str(first)
    assert all(line.isprintable() for line in str(first).split("\n"))


def test_the_message_of_a_shard_error_is_complete() -> None:
    """It has the path, the reason and the offset; an unprintable path is quoted."""
    assert str(ShardError("a.jsonl", "is cut", 12_345)) == "a.jsonl: is cut at byte 12,345"
    assert ascii(str(ShardError("a\udcff\n.jsonl", "is cut"))) == ascii(
        r"'a\udcff\n.jsonl': is cut"
    )


def test_read_takes_the_filters_of_cat(tmp_path: Path) -> None:
    """The same records as `cat` prints, of shards of any version, too."""
    fastrec.generate(tmp_path / "in", records=80, seed=3, shards=2, schema="0.3.0")
    fastrec.normalize(tmp_path / "in", tmp_path / "corpus", schema="0.3.0", max_rejects=1000)
    models = sorted(one.model_id for one in fastrec.read(tmp_path / "corpus"))
    for filters in (
        {"model": models[0]},
        {"exclude_model": models[0], "wrong": True},
        {"where": ["response.characters>20", "!error?"]},
        {"errors": True},
        {"metric": "*"},
        {"evaluation": "no such"},
    ):
        lines = list(fastrec.cat(tmp_path / "corpus", **filters))  # type: ignore[arg-type]
        assert [
            fastrec.encode(one) for one in fastrec.read(tmp_path / "corpus", **filters)
        ] == lines  # type: ignore[arg-type]
        assert lines or filters == {"evaluation": "no such"}


def test_read_filters_records_of_each_version(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(sample_of(version) for version in SCHEMAS))
    assert len(list(fastrec.read(path, metric=""))) == len(
        list(fastrec.read(path, where="!evaluation_result_id?"))
    )
    assert [type(one) for one in fastrec.read(path, model="*")] == [
        schema.record for schema in SCHEMAS.values()
    ]


def test_read_refuses_wrong_filters_at_the_call(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", sample_of("0.3.0"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'modell'"):
        fastrec.read(path, modell="m")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="is not a condition"):
        fastrec.read(path, where="nonsense")
    with pytest.raises(UsageError, match=r"no record has the field metadata\.subjekt"):
        list(fastrec.read(path, where="metadata.subjekt=law"))
