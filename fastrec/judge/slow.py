"""The slow path of the judge.

Decides about the lines that the fast path refuses, with every finding.

In this order: parse the line, validate it against the schema file, and try repairs if it is not
valid. The record is then upgraded, hashed and brought into normal form as plain dicts, and
filtered.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Struct
from stringzilla import count

from fastrec.judge.arbiter import judge_value, normal_form
from fastrec.judge.batch import (
    Batch,
    FilteredOut,
    HashReplaced,
    InvalidLine,
    RecordFilter,
    RepairedLine,
)
from fastrec.judge.findings import OTHER_TURNS, Errors, Finding, describe, label_code, warnings_of
from fastrec.judge.parse import parse, spell
from fastrec.judge.repair import LONGEST_TRIAL, NULL_ID, repair
from fastrec.judge.version_rules import (
    JudgeSettings,
    RulesByVersion,
    VersionRules,
    count_colons,
)
from fastrec.schemas.hashes import ABSENT, WRONG, References
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, contradicts_itself, names_metric
from fastrec.schemas.schema import JsonObject, Schema, UnknownKeys, build
from fastrec.schemas.upgrade import upgrade_value
from fastrec.schemas.v0_3_0 import has_new_null
from fastrec.schemas.view import REFUSALS

# From `input.raw`, `input.reference` and a `sample_hash` to the name of its recipe; None if there
# is none.
FindRecipe = Callable[[str, References, str], str | None]


class _Prepared(NamedTuple):
    """A valid record, upgraded and in normal form."""

    record: Any
    normal: JsonObject  # the same with its unknown keys
    unknown: UnknownKeys  # the unknown keys of the line by the path of their object
    label: str
    rules: VersionRules
    notes: list[str]
    recipe: str
    replaced: HashReplaced | None  # its `sample_hash` was wrong


class SlowPath(Struct):
    _settings: JudgeSettings
    _rules: RulesByVersion
    _judge_fast: Callable[[bytes, bytearray, int, int, VersionRules], Batch | None]
    _find_recipe: FindRecipe
    _filter: RecordFilter | None

    def judge(self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int) -> None:
        allowed = self._settings.repairs
        if NULL_ID.code in allowed and self._repair_null_id(raw, into, batch, line, offset):
            return
        value, flaws = parse(raw)
        judged = judge_value(value, flaws, self._rules.schema)
        schema = None
        changes = {}  # by repairs
        if not isinstance(judged, Errors):
            schema = judged[1]
        elif allowed or len(raw) <= LONGEST_TRIAL:
            schema, changes = repair(value, judged, self._rules.schema) or (None, {})
        problem = None
        is_newer_version = False
        if schema and allowed.issuperset(changes):
            problem = self._keep(value, schema, into, batch, line, repairs=changes)
            if not problem:
                return
            # The rule of `registry.DEFAULT_SCHEMA`.
            is_newer_version = schema is not DEFAULT_SCHEMA or names_metric(value)
        elif schema:
            problem = self._why_not_kept(value, schema)
        if not isinstance(judged, Errors):
            assert problem
            judged = Errors((problem,), {}, judged[1].name)
        is_guess = self._settings.target_is_guess
        is_kept = not problem or (problem.code == "version.newer" and is_guess)
        batch.rejected.append(
            InvalidLine(
                line,
                offset,
                judged.findings,
                raw,
                unlisted=judged.unlisted,
                version=judged.version,
                repairs=tuple(changes) if is_kept else (),
                is_newer_version=is_newer_version,
            )
        )

    def _repair_null_id(
        self, raw: bytes, into: bytearray, batch: Batch, line: int, offset: int
    ) -> bool:
        """Repair a line by the fast path, which judges it spelled anew without the null.

        False if `evaluation_result_id: null` is not all that is wrong with it. All lines of some
        producers have this mistake and no other, and the rest of the slow path takes five times as
        long for them.
        """
        schema = self._rules.schema
        if schema not in (None, NEWEST_SCHEMA):
            return False
        rules = self._rules.of(NEWEST_SCHEMA)
        try:
            record = rules.decoder.decode_null_id(raw)
        except REFUSALS:
            return False
        if count(spell(record), b":") != count_colons(raw):
            return False  # a key was dropped
        if not schema and not (record.messages.__class__ is list or has_new_null(record)):
            return False  # it may be a valid record of an earlier version as it is
        record.evaluation_result_id = UNSET
        judged = self._judge_fast(spell(record), into, line, offset, rules)
        if judged is None:
            return False
        if not judged.filtered_out:
            judged.slow = 1
            judged.notes[NULL_ID.code] += 1
            judged.repaired.append(RepairedLine.of(record, line, [NULL_ID]))
        batch += judged
        return True

    def _too_new(self, value: JsonObject, schema: Schema) -> Finding | None:
        """The error of a valid record that cannot have the target version.

        Its version is a later one, or it shows that the target was guessed wrong.
        """
        target = self._rules.target
        if target in (None, NEWEST_SCHEMA):
            return None
        names_unexpected_metric = self._settings.target_is_guess and names_metric(value)
        if schema is target and not names_unexpected_metric:
            return None
        actual = "one that names a metric" if schema is target else f"one of {schema.name}"
        problem = f"expected a record of {target.name}, found {actual}"
        return Finding(
            "version.newer", "$", f"{problem}: give --schema {NEWEST_SCHEMA.name} or auto"
        )

    def _prepare(self, value: JsonObject, schema: Schema) -> _Prepared | FilteredOut | Finding:
        """Upgrade a valid record, compute its hash and filter it.

        A finding says why it cannot be kept although it is valid.

        A record that is too new for the target counts for the choice of the target. So it is
        filtered as the record that it would be in the newest version.
        """
        too_new = self._too_new(value, schema)
        if too_new and not self._filter:
            return too_new
        target = NEWEST_SCHEMA if too_new else self._rules.target or schema
        prepared = self._upgrade(value, schema, target)
        wrong = prepared.replaced if self._settings.sample_hash == "verify" else None
        if self._filter:
            filtered_out = self._filter.filters_out(
                prepared.record, target, prepared.normal, any_hash=wrong is not None
            )
            if filtered_out:
                prepared.rules.decoder.learn(prepared.unknown)
                return filtered_out
        if wrong and not too_new:
            message = f"expected {wrong.computed}, found {describe(wrong.given)}"
            return Finding("hash.mismatch", "$.sample_hash", message)
        return too_new or prepared

    def _upgrade(self, value: JsonObject, schema: Schema, target: Schema) -> _Prepared:
        unknown: UnknownKeys = {}
        label = value["schema_version"]
        notes = [] if label in schema.labels else [label_code(label)]
        if label in schema.replaced_labels and "evaluation_result_id" not in value:
            value["schema_version"] = schema.label
        # by one version alone, it is any unknown key
        if not self._rules.schema and contradicts_itself(value):
            notes.append(OTHER_TURNS.code)
        if target is not schema:
            value, upgrades = upgrade_value(normal_form(value, schema.shape, unknown), schema)
            notes += upgrades
        rules = self._rules.of(schema, target)
        asked = value["input"]
        computed = rules.compute_hash(asked["raw"], asked["reference"])
        given = value.get("sample_hash")
        if given is None:
            recipe = ABSENT
        elif given == computed:
            recipe = target.recipe
        else:
            recipe = self._find_recipe(asked["raw"], asked["reference"], given) or WRONG
        if self._settings.sample_hash != "fill" or given is None:
            value["sample_hash"] = computed
        normal = normal_form(value, target.shape, unknown if target is schema else {})
        record = build(target.record, normal)
        replaced = None
        if given is not None and recipe == WRONG:
            replaced = HashReplaced.of(record, given, computed)
        return _Prepared(record, normal, unknown, label, rules, notes, recipe, replaced)

    def _why_not_kept(self, value: JsonObject, schema: Schema) -> Finding | None:
        """Why a valid record cannot be kept, as far as it is not filtered out."""
        if self._settings.sample_hash != "verify":
            return self._too_new(value, schema)
        prepared = self._prepare(value, schema)
        return prepared if isinstance(prepared, Finding) else None

    def _keep(
        self,
        value: JsonObject,
        schema: Schema,
        into: bytearray,
        batch: Batch,
        line: int,
        *,
        repairs: Mapping[str, Finding],
    ) -> Finding | None:
        """Add a valid record to the batch, or count it if it is filtered out.

        Return why it cannot be kept, if so. `repairs` has the repairs that made it valid.
        """
        prepared = self._prepare(value, schema)
        if isinstance(prepared, Finding):
            return prepared
        if isinstance(prepared, FilteredOut):
            batch.filtered_out[prepared] += 1
            return None
        record, normal, unknown, label, rules, notes, recipe, replaced = prepared
        batch.versions[rules.schema.name] += 1
        batch.notes.update(notes)
        if replaced:
            batch.replaced.append(replaced)
        if repairs:
            batch.notes.update(repairs.keys())
            batch.repaired.append(RepairedLine.of(record, line, repairs.values()))
        if self._settings.warnings:
            warnings = list(
                warnings_of(
                    record, rules.target, label, rules.schema, wrong_hash=replaced is not None
                )
            )
            if OTHER_TURNS.code in notes:
                warnings.append(OTHER_TURNS)
            batch.warnings += [(line, finding) for finding in warnings]
        batch.slow += 1
        rules.decoder.learn(unknown)
        if self._settings.normal or self._settings.records:
            batch.records.append(record)
            batch.numbers.append(line)
        if self._settings.normal:
            into += spell(normal)
            into.append(10)
            batch.recipe_names.append(recipe)
            batch.ends.append(len(into))
        return None
