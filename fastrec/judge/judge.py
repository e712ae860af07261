"""The judge: turns a chunk of lines into records in normal form and invalid lines.

The fast path, for each line: decode into Structs (types, bounds, required and unknown keys, UTF-8, numbers), check the
conditional rules, compute `sample_hash`, drop nulls, encode. A line that fails a step goes to the slow path, which
decides. So the fast path may refuse too much, but never accepts too much.

A shard is nearly always of one schema version, so a line is decoded as the version of the line before. If that fails,
the other versions are tried before the slow path.

The decoder misses one flaw: of two equal keys it silently keeps the last. Each dropped key drops a colon, so the judge
compares the number of colons in a chunk and in its normal form, once per chunk and at memory speed. Only if they differ
does it compare line by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET
from stringzilla import count, find

from fastrec.judge.arbiter import judge_value, normal_form
from fastrec.judge.batch import Batch, HashReplaced, InvalidLine, RepairedLine
from fastrec.judge.findings import Errors, Finding, describe
from fastrec.judge.lanes import REFUSALS, Lane, Lanes
from fastrec.judge.null_id import NULL_ID, is_only_later, without_null_id
from fastrec.judge.parse import parse, spell
from fastrec.judge.repair import LONGEST_TRIAL, repair
from fastrec.judge.warnings import label_code, warnings_of
from fastrec.schemas.fast_upgrade import upgrade_record
from fastrec.schemas.recipes import ABSENT, WRONG, RecipeFinder
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, Record
from fastrec.schemas.schema import Schema
from fastrec.schemas.shape import build
from fastrec.schemas.upgrade import upgrade_value

__all__ = ["Judge", "SampleHashMode"]

SampleHashMode = Literal["replace", "fill", "verify"]

_GIANT: Final = 16 << 20
_ROOM: Final = 6  # bytes of memory per byte of a chunk: up to four per character, and copies


class _Prepared(NamedTuple):
    """A record of the slow path that can be kept."""

    normal: dict[str, Any]
    unknown: dict[str, set[str]]
    """The unknown keys of the line by the path of their object."""
    label: str
    """The `schema_version` of the line."""
    lane: Lane
    target: Schema
    notes: list[str]
    given: str | None
    computed: str
    recipe: str


class Judge:
    """Judges lines. Make one per process: it learns the unknown keys of its input, and decoders do not pickle."""

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        target: Schema | None = None,
        algorithm: str = "sha256",
        sample_hash: SampleHashMode = "replace",
        warnings: bool = False,
        fill: bool = True,
        any_recipe: bool = True,
        repairs: frozenset[str] = frozenset(),
        is_guess: bool = False,
    ) -> None:
        """Make a judge that computes `sample_hash` with `algorithm`.

        It judges by the version `schema`, or else by the version of each record, told by its shape. Records are
        upgraded to the version `target`; without it, each keeps its version.

        `sample_hash` says what to do with a wrong one. Without `fill` a missing one is not computed: judging is faster,
        but normal forms may lack the field. Without `any_recipe` a hash by another recipe is wrong.

        `repairs` are the codes of repairs that may be made. With `is_guess`, the target becomes the newest version as
        soon as there is a record of a later version: such a record counts as one that repairs would keep.
        """
        self._schema = schema
        self._target = target
        self._mode = sample_hash
        self._warnings = warnings
        self._fill = fill
        self._repairs = repairs
        self._is_guess = is_guess
        self._find_recipe = RecipeFinder().find if any_recipe else _no_recipe
        self._encode_into = msgspec.json.Encoder(order="deterministic").encode_into
        self._lanes = Lanes(schema, target, algorithm)
        self._lane = self._lanes.first

    def judge_chunk(self, data: bytes, into: bytearray, *, line: int = 1, offset: int = 0) -> Batch:
        """Judge a chunk of whole lines and append the normal form of each record, newline included, to `into`.

        `line` is the number of the first line, and `offset` is where the chunk begins in the shard's text.
        """
        start = len(into)
        if len(data) > _GIANT:
            # The decoder crashes when memory runs out. So allocate what it may need, untouched, and free it at once: if
            # there is not enough, this raises MemoryError.
            bytearray(_ROOM * len(data))
        batch, balanced = self._judge_fast(data, into, line, offset)
        if balanced:
            return batch
        # A key was dropped somewhere in the chunk. Compare line by line: lines with a difference take the slow path,
        # which sees duplicate keys.
        del into[start:]
        batch = Batch()
        position = 0
        while position < len(data):
            end = data.find(b"\n", position) + 1 or len(data)
            location = line + batch.lines, offset + position
            start = len(into)
            judged, balanced = self._judge_fast(data[position:end], into, *location)
            if not balanced:
                del into[start:]
                judged = Batch(lines=1)
                self._judge_slow(data[position:end].removesuffix(b"\n"), into, judged, *location)
            batch += judged
            position = end
        return batch

    def _judge_fast(self, data: bytes, into: bytearray, line: int, offset: int) -> tuple[Batch, bool]:
        """Judge a chunk; return also whether the colons balance, which means that no key was dropped.

        This is the hottest loop of fastrec. It is one long function because a call per record costs more than most of
        its steps. It passes views into the chunk to the decoder, which saves a copy of every line.
        """
        batch = Batch()
        records, numbers, ends, recipes = batch.records, batch.numbers, batch.ends, batch.recipe_names
        encode_into, mode, with_warnings, fill = self._encode_into, self._mode, self._warnings, self._fill
        schema, decoder, sure_labels, claims, follows_rules, target, drop_nulls, compute_hash, own_recipe = self._lane
        decode = decoder.decode
        view = memoryview(data)
        size = len(data)
        start = len(into)
        next_newline = data.find
        next_null = find(data, b"null") % (size + 1)  # -1 becomes size: after every line
        excess = 0  # colons that the input has more than the output for good reason
        number = position = counted = 0
        while position < size:
            end = next_newline(b"\n", position)
            if end < 0:
                end = size
            try:
                record = decode(view[position:end])
                label = record.schema_version
                is_sure = label in sure_labels
                valid = follows_rules(record) and (is_sure or claims(record))
            except REFUSALS:
                valid = False
            if not valid and (found := self._lanes.decode(view[position:end], self._lane)):
                fast = len(records) - batch.slow
                batch.versions[schema.name] += fast - counted
                counted = fast
                self._lane, record = found
                schema, decoder, sure_labels, claims, follows_rules, target, drop_nulls, compute_hash, own_recipe = (
                    self._lane
                )
                decode = decoder.decode
                label = record.schema_version
                is_sure = label in sure_labels
                valid = True
            if target is not schema and valid:
                balance, length = excess, len(into)
                record, upgrades = self._upgraded(record, view[position:end], schema)
                valid = record is not None
            if valid:
                asked = record.input
                given = record.sample_hash
                if given is UNSET or given is None:
                    recipe = ABSENT
                    if fill:
                        excess -= given is UNSET
                        record.sample_hash = compute_hash(asked.raw, asked.reference)
                elif given == (computed := compute_hash(asked.raw, asked.reference)):
                    recipe = own_recipe
                else:
                    recipe = self._find_recipe(asked.raw, asked.reference, given) or WRONG
                    if recipe == WRONG:
                        if mode == "verify":
                            valid = False
                        else:
                            batch.replaced.append(_replaced(record, given, computed))
                    if mode != "fill":
                        record.sample_hash = computed
            if valid:
                if with_warnings:
                    for finding in warnings_of(record, target, label, schema, wrong_hash=recipe == WRONG):
                        batch.warnings.append((line + number, finding))
                if next_null < end:
                    excess += drop_nulls(record)
                    next_null = find(data, b"null", end) % (size + 1)
                encode_into(record, into, -1)
                if not is_sure and label not in schema.labels:
                    batch.notes[label_code(label)] += 1
                if target is not schema:
                    batch.notes.update(upgrades)
                    excess = balance + _colons(view[position:end]) - count(memoryview(into)[length:], b":")
                into.append(10)
                records.append(record)
                recipes.append(recipe)
                numbers.append(line + number)
                ends.append(len(into))
            else:
                raw = bytes(view[position:end])
                length = len(into)
                self._judge_slow(raw, into, batch, line + number, offset + position)
                excess += _colons(raw) - count(memoryview(into)[length:], b":")
                decode = decoder.decode  # it may know more keys now
            position = end + 1
            number += 1
        batch.lines = number
        batch.versions[schema.name] += len(records) - batch.slow - counted
        return batch, _colons(data) - count(memoryview(into)[start:], b":") == excess

    def _upgraded(self, record: Any, line: memoryview, schema: Schema) -> tuple[Any, list[str]]:
        """Upgrade a record to the target, and list the codes of lossy steps; None if the slow path has to do it."""
        if self._target is not NEWEST_SCHEMA or count(spell(record), b":") != _colons(line):
            return None, []  # the record is too new, or a key was dropped
        return upgrade_record(record, schema) or (None, [])

    def _judge_slow(self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int) -> None:
        """Judge one line by the slow path and add the result to the batch."""
        if not raw.strip(b" \t\r"):
            batch.blank += 1
            return
        if NULL_ID.code in self._repairs and self._repair_null_id(raw, into, batch, line, offset):
            return
        value, flaws = parse(raw)
        judged = judge_value(value, flaws, self._schema)
        if not isinstance(judged, Errors):
            prepared = self._prepare(*judged)
            if isinstance(prepared, Finding):
                batch.rejected.append(InvalidLine(line, offset, (prepared,), raw, version=judged[1].name))
            else:
                self._add(prepared, into, batch, line)
            return
        repairs: tuple[str, ...] = ()
        is_later = False
        if self._repairs or len(raw) <= LONGEST_TRIAL:
            repaired = repair(value, judged, self._schema)
            if repaired:
                is_allowed = self._repairs.issuperset(repaired.repairs)
                is_prepared = is_allowed or self._mode == "verify"
                tried = self._prepare(value, repaired.schema) if is_prepared else self._too_new(repaired.schema)
                if is_allowed and isinstance(tried, _Prepared):
                    self._add(tried, into, batch, line, repaired.repairs)
                    return
                problem = tried.code if isinstance(tried, Finding) else None
                is_later = is_allowed and repaired.schema is not DEFAULT_SCHEMA
                if problem is None or (problem == "version.newer" and self._is_guess):
                    repairs = tuple(repaired.repairs)
        findings, unlisted, version = judged
        batch.rejected.append(
            InvalidLine(
                line, offset, findings, raw, unlisted=unlisted, version=version, repairs=repairs, is_later=is_later
            )
        )

    def _repair_null_id(self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int) -> bool:
        """Repair a line by the fast path if `evaluation_result_id: null` is all that is wrong with it.

        All lines of some producers have this mistake, so it is worth a fast path (`null_id`). Return False if the
        slow path has to judge the line.
        """
        if self._schema is not None and self._schema is not NEWEST_SCHEMA:
            return False
        lane = self._lanes.of(NEWEST_SCHEMA)
        cut = without_null_id(raw, lane.decoder.decode)
        if cut is None:
            return False
        try:
            record = lane.decoder.decode(cut)
        except REFUSALS:
            return False
        if record.evaluation_result_id is not UNSET or not lane.follows_rules(record):
            return False  # the line has the key twice, or another mistake
        if self._schema is None and not is_only_later(record):
            return False  # it may be a valid record of an earlier version as it is
        start, before = len(into), self._lane
        self._lane = lane
        judged, balanced = self._judge_fast(cut, into, line, offset)
        self._lane = before
        if not balanced or judged.rejected:
            del into[start:]
            return False
        (record,) = judged.records
        judged.lines, judged.slow = 0, 1
        judged.notes[NULL_ID.code] += 1
        judged.repaired.append(
            RepairedLine(line, record.evaluation_name, record.model_id, record.sample_id, (NULL_ID,))
        )
        batch += judged
        return True

    def _too_new(self, schema: Schema) -> Finding | None:
        """Return the error of a valid record of a later version than the target, if it is one."""
        target = self._target
        if target is None or target is schema or target is NEWEST_SCHEMA:
            return None
        problem = f"expected a record of {target.name}, found one of {schema.name}"
        return Finding("version.newer", "$", f"{problem}: give --schema {NEWEST_SCHEMA.name} or auto")

    def _prepare(self, value: dict[str, Any], schema: Schema) -> _Prepared | Finding:
        """Upgrade a valid record and compute its hash, or say why it cannot be kept although it is valid."""
        target = self._target or schema
        unknown: dict[str, set[str]] = {}
        label = value["schema_version"]
        notes = [] if label in schema.labels else [label_code(label)]
        if problem := self._too_new(schema):
            return problem
        if target is not schema:
            value, upgrades = upgrade_value(normal_form(value, schema.shape, unknown), schema)
            notes += upgrades
        lane = self._lanes.of(schema)
        asked = value["input"]
        computed = lane.compute_hash(asked["raw"], asked["reference"])
        given = value.get("sample_hash")
        recipe = ABSENT
        if given is not None:
            is_own = given == computed
            recipe = lane.recipe if is_own else self._find_recipe(asked["raw"], asked["reference"], given) or WRONG
        if self._mode == "verify" and recipe == WRONG:
            return Finding("hash.mismatch", "$.sample_hash", f"expected {computed}, found {describe(given)}")
        if self._mode != "fill" or given is None:
            value["sample_hash"] = computed
        normal = normal_form(value, target.shape, unknown if target is schema else {})
        return _Prepared(normal, unknown, label, lane, target, notes, given, computed, recipe)

    def _add(
        self,
        prepared: _Prepared,
        into: bytearray,
        batch: Batch,
        line: int,
        repairs: Mapping[str, Finding] | None = None,
    ) -> None:
        """Add a record of the slow path to the batch; `repairs` has the repairs that made it valid."""
        normal, unknown, label, lane, target, notes, given, computed, recipe = prepared
        record = build(target.record, normal)
        names = record.evaluation_name, record.model_id, record.sample_id
        batch.versions[lane.schema.name] += 1
        batch.notes.update(notes)
        batch.recipe_names.append(recipe)
        if given is not None and recipe == WRONG:
            batch.replaced.append(_replaced(record, given, computed))
        if repairs:
            batch.notes.update(repairs.keys())
            batch.repaired.append(RepairedLine(line, *names, tuple(repairs.values())))
        if self._warnings:
            warnings = warnings_of(record, target, label, lane.schema, wrong_hash=recipe == WRONG)
            batch.warnings += [(line, finding) for finding in warnings]
        into += spell(normal)
        into.append(10)
        batch.records.append(record)
        batch.numbers.append(line)
        batch.ends.append(len(into))
        batch.slow += 1
        if unknown:
            lane.decoder.learn(unknown)


def _no_recipe(_raw: str, _reference: str | list[str], _given: str) -> str | None:
    return None


def _colons(text: bytes | memoryview) -> int:
    """Count the colons of JSON text, including escaped ones."""
    colons: int = count(text, b":")
    if find(text, b"\\u003") >= 0:
        colons += count(text, b"\\u003a") + count(text, b"\\u003A")
    return colons


def _replaced(record: Record, given: str, computed: str) -> HashReplaced:
    return HashReplaced(record.evaluation_name, record.model_id, record.sample_id, given, computed)
