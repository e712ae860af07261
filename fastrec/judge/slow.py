"""The slow path of the judge: decides about the lines that the fast path refuses, with every finding.

In this order: parse the line, validate it against the schema file, and try repairs if it is not valid. The record is
then upgraded, hashed and brought into normal form as plain dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from fastrec.judge.arbiter import judge_value, normal_form
from fastrec.judge.batch import Batch, FilteredOut, HashReplaced, InvalidLine, RecordFilter, RepairedLine
from fastrec.judge.findings import Errors, Finding, describe
from fastrec.judge.parse import parse, spell
from fastrec.judge.repair import LONGEST_TRIAL, NULL_ID, is_only_later, repair, without_null_id
from fastrec.judge.version_rules import REFUSALS, Lane, Lanes
from fastrec.judge.warnings import label_code, warnings_of
from fastrec.schemas.hashes import ABSENT, WRONG
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema, build
from fastrec.schemas.upgrade import upgrade_value

SampleHashMode = Literal["replace", "fill", "verify"]

FindRecipe = Callable[[str, str | list[str], str], str | None]
"""From `input.raw`, `input.reference` and a `sample_hash` to the name of its recipe; None if there is none."""

JudgeFast = Callable[[bytes, bytearray, int, int, Lane], Batch | None]
"""The fast path for one line of a version; None if it refuses the line."""


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


class SlowPath:
    """Judges lines one by one; `Judge` explains the options."""

    def __init__(
        self,
        lanes: Lanes,
        judge_fast: JudgeFast,
        find_recipe: FindRecipe,
        *,
        schema: Schema | None,
        target: Schema | None,
        mode: SampleHashMode,
        warnings: bool,
        normal: bool,
        records: bool,
        repairs: frozenset[str],
        is_guess: bool,
        record_filter: RecordFilter | None = None,
    ) -> None:
        self._lanes = lanes
        self._judge_fast = judge_fast
        self._find_recipe = find_recipe
        self._schema = schema
        self._target = target
        self._mode = mode
        self._warnings = warnings
        self._normal = normal
        self._records = records
        self._repairs = repairs
        self._is_guess = is_guess
        self._filter = record_filter

    def judge(self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int) -> None:
        """Judge one line and add the result to the batch."""
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
            elif isinstance(prepared, FilteredOut):
                batch.filtered_out[prepared] += 1
            else:
                self._add(prepared, into, batch, line)
            return
        repairs: tuple[str, ...] = ()
        is_newer_version = False
        if self._repairs or len(raw) <= LONGEST_TRIAL:
            repaired = repair(value, judged, self._schema)
            if repaired:
                is_allowed = self._repairs.issuperset(repaired.repairs)
                is_prepared = is_allowed or self._mode == "verify"
                tried = self._prepare(value, repaired.schema) if is_prepared else self._too_new(repaired.schema)
                if is_allowed and isinstance(tried, _Prepared):
                    self._add(tried, into, batch, line, repaired.repairs)
                    return
                if is_allowed and isinstance(tried, FilteredOut):
                    batch.filtered_out[tried] += 1
                    return
                problem = tried.code if isinstance(tried, Finding) else None
                is_newer_version = is_allowed and repaired.schema is not DEFAULT_SCHEMA
                if problem is None or (problem == "version.newer" and self._is_guess):
                    repairs = tuple(repaired.repairs)
        findings, unlisted, version = judged
        batch.rejected.append(
            InvalidLine(
                line,
                offset,
                findings,
                raw,
                unlisted=unlisted,
                version=version,
                repairs=repairs,
                is_newer_version=is_newer_version,
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
        judged = self._judge_fast(cut, into, line, offset, lane)
        if judged is None:
            return False
        if judged.filtered_out:
            batch += judged
            return True
        judged.slow = 1
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

    def _prepare(self, value: dict[str, Any], schema: Schema) -> _Prepared | Finding | FilteredOut:
        """Upgrade a valid record and compute its hash, or say why it cannot be kept although it is valid."""
        if self._filter and (filtered_out := self._filter.filters_out_value(value, schema)):
            unknown: dict[str, set[str]] = {}
            normal_form(value, schema.shape, unknown)
            self._learn(unknown, schema)
            return filtered_out
        chooses_hashes = self._filter and self._filter.chooses_hashes
        problem = self._too_new(schema)
        if problem and not chooses_hashes:
            return problem
        target = NEWEST_SCHEMA if problem else self._target or schema
        prepared = self._prepare_for(target, value, schema)
        if isinstance(prepared, _Prepared) and self._filter and chooses_hashes:
            filtered_out = self._filter.filters_out_normal(prepared.normal)
            if filtered_out:
                self._learn(prepared.unknown, schema)
                return filtered_out
        return problem or prepared

    def _learn(self, unknown: dict[str, set[str]], schema: Schema) -> None:
        """Let the fast path decode the unknown keys of a record that is filtered out, in those that follow."""
        if unknown:
            self._lanes.of(schema).decoder.learn(unknown)

    def _prepare_for(self, target: Schema, value: dict[str, Any], schema: Schema) -> _Prepared | Finding:
        """Upgrade a valid record to a version."""
        unknown: dict[str, set[str]] = {}
        label = value["schema_version"]
        notes = [] if label in schema.labels else [label_code(label)]
        if target is not schema:
            value, upgrades = upgrade_value(normal_form(value, schema.shape, unknown), schema)
            notes += upgrades
        lane = self._lanes.of(schema, target)
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
        if given is not None and recipe == WRONG:
            batch.replaced.append(HashReplaced(*names, given, computed))
        if repairs:
            batch.notes.update(repairs.keys())
            batch.repaired.append(RepairedLine(line, *names, tuple(repairs.values())))
        if self._warnings:
            warnings = warnings_of(record, target, label, lane.schema, wrong_hash=recipe == WRONG)
            batch.warnings += [(line, finding) for finding in warnings]
        batch.slow += 1
        if unknown:
            lane.decoder.learn(unknown)
        if self._normal or self._records:
            batch.records.append(record)
            batch.numbers.append(line)
        if self._normal:
            into += spell(normal)
            into.append(10)
            batch.recipe_names.append(recipe)
            batch.ends.append(len(into))
