"""Repair records that known producers get wrong. A repair changes only values that the schema refuses.

1. Choose the version that the record comes closest to.
2. Repairs of whole records: turns beside an output, scores that are no numbers.
3. Walk the record along the schema document of that version. The first repair that fits changes a value that the
   version does not allow. If none does, the record is left to its errors.
4. Judge the record again.

Each value has one repair that fits it, so the repairs that a record needs do not depend on which of them are allowed.
Repairs change the record in place: a copy of a large record takes as much memory again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fastrec.errors import UsageError
from fastrec.judge.arbiter import is_valid
from fastrec.judge.codes import REPAIRS
from fastrec.judge.findings import Errors, Finding, describe, json_path
from fastrec.judge.parse import flaws_in
from fastrec.judge.places import Place, places_of
from fastrec.judge.repair_table import LEFT_OUT, NOT_FITTING, RECORD_REPAIRS, VALUE_REPAIRS, NotRepairableError
from fastrec.schemas.schema import Schema
from fastrec.schemas.versions import closest_version, version_of

__all__ = ["LONGEST_TRIAL", "Repaired", "repair", "repair_codes"]

LONGEST_TRIAL: Final = 16 << 20
"""Longer lines are only repaired if that is asked for; nobody counts whether they could be."""

_ADDRESSED: Final = frozenset(
    {
        "json.number",
        "schema.type",
        "schema.one_of",
        "rule.single_turn_interactions",
        "rule.single_turn_messages",
        "rule.multi_turn_output",
    }
)
_PREFIX: Final = "repair."


class Repaired(NamedTuple):
    """What became of a repaired record."""

    schema: Schema
    """The version of the record, which is valid now."""
    repairs: dict[str, Finding]
    """By code, the first change of each repair: where and what."""


def repair_codes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the codes of repairs that are given by name, with or without the prefix; `all` stands for all of them.

    >>> repair_codes(["nan_score", "repair.null"])
    ('repair.null', 'repair.nan_score')

    Raises:
        UsageError: There is no such repair.
    """
    codes: set[str] = set()
    for name in names:
        code = _PREFIX + name.removeprefix(_PREFIX)
        if name != "all" and code not in REPAIRS:
            known = ", ".join(code.removeprefix(_PREFIX) for code in REPAIRS)
            raise UsageError(f"there is no repair {name!r}; give all, or some of {known}")
        codes.update(REPAIRS if name == "all" else [code])
    return tuple(code for code in REPAIRS if code in codes)


def repair(value: Any, errors: Errors, schema: Schema | None = None) -> Repaired | None:
    """Repair a value with these errors, in place; None if it is not valid afterwards, by any version or by `schema`."""
    if not isinstance(value, dict) or not _is_addressed(errors):
        return None
    closest = schema or closest_version(value)
    repairs = _Repairs(closest)
    try:
        repairs.repair_record(value)
    except NotRepairableError:
        return None
    if "json.number" in (finding.code for finding in errors.findings) and next(iter(flaws_in(value)), None):
        return None
    found = version_of(value, is_valid) if schema is None else schema if is_valid(value, schema) else None
    return Repaired(found, dict(sorted(repairs.made.items()))) if found and repairs.made else None


def _is_addressed(errors: Errors) -> bool:
    """Return whether there are repairs for all kinds of errors; if not, there is no need to try."""
    codes = {finding.code for finding in errors.findings} | errors.unlisted.keys()
    return _ADDRESSED.issuperset(codes)


class _Repairs:
    """The repairs of one record."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._steps: list[str | int] = []
        self.made: dict[str, Finding] = {}

    def repair_record(self, record: dict[str, Any]) -> None:
        for code, change in RECORD_REPAIRS.items():
            if changed := change(record, self._schema):
                self.made[code] = Finding(code, *changed)
        self._repair_children(record, places_of(self._schema))

    def _repair_children(self, value: Any, place: Place) -> None:
        """Repair the fields or items of a value whose own type is allowed."""
        if isinstance(value, dict):
            for name, field in place.fields.items():
                if name in value and type(value[name]) not in field.plain:
                    self._repair_child(value, name, field)
            if place.entries:
                for name, child in value.items():
                    if type(child) not in place.entries.plain and name not in place.fields:
                        self._repair_child(value, name, place.entries)
        elif isinstance(value, list) and place.items:
            for index, child in enumerate(value):
                if type(child) not in place.items.plain:
                    self._repair_child(value, index, place.items)

    def _repair_child(self, parent: Any, step: str | int, place: Place) -> None:
        child = parent[step]
        self._steps.append(step)
        if place.allows(child):
            self._repair_children(child, place)
        else:
            changed = self._changed(child, place)
            if changed is LEFT_OUT:
                del parent[step]
            else:
                parent[step] = changed
        self._steps.pop()

    def _changed(self, value: Any, place: Place) -> Any:
        for code, (change, result) in VALUE_REPAIRS.items():
            changed = change(value, place)
            if changed is not NOT_FITTING:
                if code not in self.made:
                    message = f"{describe(value)} {result}"
                    self.made[code] = Finding(code, json_path(self._steps), message)
                return changed
        raise NotRepairableError
