"""`--map`: other names for models, evaluations and metrics, from a TOML file.

    [models]
    "OpenAI/gsm8k-6B" = "openai/gsm8k-6b"     a name
    "org_*" = "org/*"                         a pattern: each * stands for what that of the old name matched

Names are changed behind the judge, so verdicts, filters and examples in the summary are about the names of the input.
Of several rules for a name, an exact one decides, else the first one that matches.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastrec.errors import UsageError, shown
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC

_FIELDS: Final = {"models": "model_id", "evaluations": "evaluation_name", "metrics": METRIC}
_MOST_NAMES: Final = 100_000  # that are remembered


class NameRule(NamedTuple):
    section: str  # models, evaluations or metrics
    old: str
    new: str

    def __str__(self) -> str:
        return f'{self.section}: "{self.old}"'


def read_names(path: str) -> tuple[NameRule, ...]:
    """Read the rules of a file; UsageError if it cannot be read or understood."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:  # not UTF-8, or not TOML
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UsageError(f"the map {shown(path)} cannot be read: {reason}") from exc
    rules: list[NameRule] = []
    for section, names in document.items():
        if section not in _FIELDS or not isinstance(names, dict):
            known = ", ".join(f"[{name}]" for name in _FIELDS)
            raise UsageError(f"the map {shown(path)} has {section}: expected {known}")
        for old, new in names.items():
            if not isinstance(new, str) or new.count("*") > old.count("*"):
                problem = "no more * than in the old name" if isinstance(new, str) else "a name in quotes"
                raise UsageError(f"the map {shown(path)}, [{section}] {old!r}: expected {problem}, found {new!r}")
            rules.append(NameRule(section, old, new))
    return tuple(rules)


class Renamer:
    """Changes the names of judged records, and counts the lines by rule."""

    counts: Counter[str]

    def __init__(self, rules: Sequence[NameRule], target: Schema, *, keep_names: bool) -> None:
        self._keep_names = keep_names
        self._exact = {(_FIELDS[rule.section], rule.old): rule for rule in rules}
        self._patterns = [
            (_FIELDS[rule.section], re.compile("(.*)".join(map(re.escape, rule.old.split("*"))), re.DOTALL), rule)
            for rule in rules
            if "*" in rule.old
        ]
        self._fields = [field for field in _FIELDS.values() if field in target.sort_fields]
        self._known: dict[tuple[str, ...], list[tuple[str, str, NameRule]]] = {}

    def change_of(self, record: Any) -> list[tuple[str, str, NameRule]]:
        """The fields whose names change, each with its new name and the rule."""
        names = tuple(getattr(record, field) for field in self._fields)
        changes = self._known.get(names)
        if changes is None:
            found = ((field, self._new_name(field, name)) for field, name in zip(self._fields, names, strict=True))
            changes = [(field, *new) for field, new in found if new]
            if len(self._known) < _MOST_NAMES:
                self._known[names] = changes
        return changes

    def apply(self, changes: list[tuple[str, str, NameRule]], record: Any, value: dict[str, Any]) -> bool:
        for field, new, rule in changes:
            if self._keep_names and value[field] != new:
                value.setdefault("metadata", {}).setdefault(f"original_{field}", value[field])
            value[field] = new
            setattr(record, field, new)
            self.counts[str(rule)] += 1
        return True

    def _new_name(self, field: str, name: Any) -> tuple[str, NameRule] | None:
        if rule := self._exact.get((field, name)):
            return rule.new, rule
        for of, pattern, rule in self._patterns if isinstance(name, str) else ():  # a metric may be absent
            if of == field and (match := pattern.fullmatch(name)):
                groups = iter(match.groups())
                return re.sub(r"\*", lambda _: next(groups), rule.new), rule  # noqa: B023 - used at once
        return None


def unused_rules(rules: Sequence[NameRule], counts: Counter[str]) -> list[str]:
    """A notice about the rules that matched no record; none if all did."""
    unused = [str(rule) for rule in rules if not counts[str(rule)]]
    return [f"--map: no record has these names: {', '.join(unused)}"] if unused else []
