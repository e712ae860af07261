"""The Python interface for single records and for reading shards.

It uses the same judge as the commands.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Unpack

from msgspec import MsgspecError, Struct, to_builtins

from fastrec.errors import FastrecError, shown
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.judge.arbiter import normal_form
from fastrec.judge.batch import Batch, InvalidLine, RecordFilter
from fastrec.judge.findings import NOTES, Finding, Findings, InvalidRecordError, first_errors
from fastrec.judge.judge import Judge, JudgedChunk, judge_slice
from fastrec.judge.parse import MAX_DEPTH, flaws_in, parse, spell
from fastrec.judge.version_rules import JudgeSettings
from fastrec.normalize.inputs import check_fields
from fastrec.parameters import Names, Paths, path_names
from fastrec.schemas.registry import (
    DEFAULT_SCHEMA,
    NEWEST_SCHEMA,
    SCHEMAS,
    TARGETS,
    AnyRecord,
    schema_named,
    schema_of,
)
from fastrec.schemas.schema import Schema, UnknownKeys, build
from fastrec.schemas.view import json_decoder
from fastrec.schemas.widen import can_widen, widen
from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Slice


class Verdict(Struct, frozen=True):
    """The verdict of the judge on a line."""

    valid: bool
    normal: bytes  # The record's normal form, without a newline; empty if the line is not valid.
    errors: Findings  # The reasons why the line is not valid, at most a hundred.
    warnings: Findings  # Likely mistakes in a valid record.
    unlisted: dict[str, int] = {}  # By code, the number of errors beyond those in `errors`.
    # The schema version of the record, before an upgrade; or the one whose errors these are, if
    # the line has any.
    version: str | None = None
    notes: Names = ()  # Codes of what an upgrade lost or may confuse.


class SchemaVersion(Struct, frozen=True):
    """A schema version that fastrec reads."""

    name: str  # The name, as in `schema=`.
    about: str  # What it is.
    labels: Names  # The values of `schema_version` that name it.
    # Whether a corpus can have this version; `normalize` upgrades records of other versions.
    is_target: bool


def judge(line: bytes | str, *, schema: str = "auto", upgrade: bool = False) -> Verdict:
    """Judge one line.

    `auto` tells the version of a record by its shape; the name of a version judges by that version
    alone. With `upgrade`, the normal form is that of the record in the newest version.

    >>> verdict = judge('{"schema_version": "x", "model_id": 7}')
    >>> verdict.valid
    False
    >>> print(verdict.errors[0].code, verdict.errors[0].path, verdict.errors[0].message)
    schema.type $.model_id expected a string, found the integer 7
    >>> verdict.version
    '0.3.0'
    """
    batch, normal = _judged(line, schema, upgrade)
    if batch.rejected:
        invalid = batch.rejected[0]
        return Verdict(False, b"", invalid.findings, (), invalid.unlisted, invalid.version)
    (version,) = +batch.versions
    notes = sorted(code for code in batch.notes if code in NOTES)
    warnings = tuple(finding for _, finding in batch.warnings)
    return Verdict(True, normal, (), warnings, version=version, notes=tuple(notes))


def decode(line: bytes | str, *, schema: str = "auto", upgrade: bool = False) -> AnyRecord:
    """Decode one line into a record of its version, unknown keys included.

    `schema` and `upgrade` are as in `judge`.

    The record is in normal form: `sample_hash` is filled in, and nulls that mean the same as
    absence are gone. An unknown key becomes an attribute of its object. A key that is not a Python
    identifier (`my key`) becomes `unknown_0`, `unknown_1`, …, numbered by its position among the
    unknown keys.

    >>> line = (
    ...     '{"schema_version": "instance_level_eval_0.2.0", "evaluation_id": "e", "run": 3,'
    ...     ' "model_id": "org/m",'
    ...     ' "evaluation_name": "sums", "sample_id": 1, "interaction_type": "single_turn",'
    ...     ' "input": {"raw": "6 x 7?", "reference": "42"}, "output": {"raw": "42"},'
    ...     ' "answer_attribution": [],'
    ...     ' "evaluation": {"score": 1.0, "is_correct": true}}'
    ... )
    >>> record = decode(line)
    >>> record.model_id, record.evaluation.score, record.run
    ('org/m', 1.0, 3)
    >>> record.output.raw = "It is 42"
    >>> encode(record).decode()[-53:]
    '"evaluation":{"score":1.0,"is_correct":true},"run":3}'

    An upgraded record has no unknown keys at its root; they are in `metadata`, as text.

    >>> upgraded = decode(line, upgrade=True)
    >>> upgraded.schema_version, upgraded.sample_id, upgraded.input.reference, upgraded.metadata
    ('0.3.0', '1', ['42'], {'run': '3'})

    Raises:
        InvalidRecordError: The line is not a valid record.
        FastrecError: The line is valid, but has a key that cannot become an attribute, for example
            one with a quote.
    """
    batch, normal = _judged(line, schema, upgrade)
    if batch.rejected:
        raise batch.rejected[0].error()
    return _record(normal, schema_of(batch.records[0]))


def encode(record: AnyRecord) -> bytes:
    """Encode a record in the normal form of its version, without a newline.

    `sample_hash` is computed again.

    Raises:
        InvalidRecordError: The record is not valid.
        UsageError: A value of the record is not a JSON value.
    """
    verdict = judge(spelled(record), schema=schema_of(record).name)
    if not verdict.valid:
        raise InvalidRecordError(verdict.errors, unlisted=verdict.unlisted, version=verdict.version)
    return verdict.normal


def read(
    paths: Paths,
    *,
    schema: str = "auto",
    upgrade: bool = False,
    **filters: Unpack[FilterArguments],
) -> Iterator[AnyRecord]:
    """Read the records of shards or of a corpus in order, if they match every filter.

    Args:
        paths: Files, directories and globs.
        schema: As in `judge`: without it, each record is of its own version.
        upgrade: As in `judge`.
        **filters: Only records that match these (`FilterArguments`), in the version that they are
            yielded in.

    Raises:
        InvalidRecordError: A line is not a valid record, whether it matches or not; the error has
            its location.
        UsageError: A filter is wrong, or nothing matches because no record has the field of a
            condition.
        FastrecError: A record has a key that cannot become an attribute, see `decode`.
        ShardError: A shard cannot be read completely; do not use the records that came before.
    """
    chosen = make_filters(**filters)  # now, so that a misspelled filter is refused at the call
    return _read(path_names(paths), _judge(schema, upgrade), chosen, upgraded=upgrade)


def _read(
    paths: Sequence[str], judge: Judge, filters: Filters, *, upgraded: bool
) -> Iterator[AnyRecord]:
    shards, _ = find_shards(paths)
    check_fields(shards, filters.where)
    wanted = RecordFilter(filters) if filters else None
    is_empty = True
    for shard in shards:
        for judged in judge_slice(judge, Slice(shard)):
            for record in _records(judged, shard.path, wanted, upgraded=upgraded):
                is_empty = False
                yield record
    if is_empty:
        check_fields(shards, filters.where, nothing_matches=True)


def schema(version: str | None = None) -> str:
    """Return the JSON Schema of a record, as published.

    Without a version, it is the one that fastrec began with.

    >>> '"evaluation_result_id"' in schema("0.3.0"), '"evaluation_result_id"' in schema()
    (True, False)
    """
    return (DEFAULT_SCHEMA if version is None else schema_named(version)).source.decode()


def schema_versions() -> tuple[SchemaVersion, ...]:
    """List the schema versions that fastrec reads, the oldest first.

    >>> [(version.name, version.is_target) for version in schema_versions()]
    [('0.2.0', True), ('0.2.0-released', False), ('0.2.1', False), ('0.3.0', True)]
    """
    return tuple(
        SchemaVersion(name, definition.about, tuple(sorted(definition.labels)), name in TARGETS)
        for name, definition in SCHEMAS.items()
    )


def _records(
    judged: JudgedChunk, source: str, wanted: RecordFilter | None, *, upgraded: bool
) -> Iterator[AnyRecord]:
    batch = judged.batch
    for invalid in batch.rejected:
        raise invalid.error(source)
    start = 0
    for record, end in zip(batch.records, batch.ends, strict=True):
        # A record of the slow path lacks its unknown keys, and a widened class has the unknown keys
        # of other records.
        record_schema = schema_of(record)
        line = bytes(judged.normal[start : end - 1])
        is_plain = not batch.slow and not upgraded and type(record) is record_schema.record
        if not wanted or not wanted.filters_out(record, record_schema, parse(line)[0]):
            yield record if is_plain else _record(line, record_schema, source)
        start = end


@lru_cache(maxsize=2 * (len(SCHEMAS) + 1))
def _judge(schema: str, upgrade: bool) -> Judge:
    target = NEWEST_SCHEMA.name if upgrade else None
    return Judge(JudgeSettings(schema=schema, target=target, warnings=True, known_input_bytes=0))


def _judged(line: bytes | str, schema: str, upgrade: bool) -> tuple[Batch, bytes]:
    """Judge one line; return its normal form without the newline."""
    data = (
        line.encode(errors="surrogatepass") if isinstance(line, str) else bytes(line)
    ).removesuffix(b"\n")
    out = bytearray()
    batch = _judge(schema, upgrade).judge_chunk(data, out)
    if batch.lines != 1 or batch.blank:
        actual = "a blank line" if batch.lines == batch.blank else f"{batch.lines} lines"
        finding = Finding(
            "json.syntax", "$", f"expected one JSON object on one line, found {actual}"
        )
        return Batch(lines=1, rejected=[InvalidLine(1, 0, (finding,), data)]), b""
    return batch, bytes(out[:-1])


@lru_cache(maxsize=len(SCHEMAS))
def _plain_decoder(schema: Schema) -> Callable[[bytes], AnyRecord]:
    return json_decoder(schema.record)


def spelled(record: Any) -> bytes:
    """Encode a record, or another value, that a caller has made.

    Refuse values that JSON cannot represent.
    """
    try:
        line = spell(record)
    except UnicodeEncodeError:
        line = b""
    except RecursionError as exc:
        finding = Finding(
            "json.depth", "$", f"expected at most {MAX_DEPTH} levels of nesting, found more"
        )
        raise InvalidRecordError((finding,)) from exc
    # The encoder writes NaN and the infinities as null: text without a null has none of them.
    if not line or b"null" in line:
        errors = first_errors(flaws_in(to_builtins(record, enc_hook=str)))
        if errors.findings:
            raise InvalidRecordError(errors.findings, unlisted=errors.unlisted)
    return line


def _record(normal: bytes, schema: Schema, source: str = "") -> AnyRecord:
    """Build a record of a version from its normal form, with fields for its unknown keys."""
    with suppress(MsgspecError, RecursionError):
        return _plain_decoder(schema)(normal)
    unknown: UnknownKeys = {}
    value = normal_form(parse(normal)[0], schema.shape, unknown)
    for key in (key for keys in unknown.values() for key in keys if not can_widen(key)):
        raise FastrecError(
            f"{f'{shown(source)}: ' if source else ''}the record is valid, but its key {key!r} "
            "cannot become an "
            "attribute; take the line's normal form from fastrec.judge"
        )
    keys_by_path = tuple((path, tuple(sorted(keys))) for path, keys in sorted(unknown.items()))
    record: AnyRecord = build(_class_for(schema, keys_by_path), value)
    return record


@lru_cache(maxsize=64)
def _class_for(schema: Schema, unknown: tuple[tuple[str, Names], ...]) -> type[Any]:
    return widen(schema.record, dict(unknown))
