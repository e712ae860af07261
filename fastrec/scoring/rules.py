"""Rules that score stored answers: files of them, rules that ship with fastrec, and verdicts.

[[rule]]
name = "json_number"             the metric
evaluation = "gsm*"              filters, by the names of their options
extract = { json = "answer" }    where the answer is (extract.py)
clean = ["currency"]             what to remove from it and from references (compare.py)
compare = "number"               how to compare them; tolerance = 0.001
missing = "wrong"                what counts if nothing can be extracted: wrong, or error
"""

from collections.abc import Sequence
from functools import lru_cache
from pkgutil import get_data
from typing import Any, Literal, NamedTuple

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from fastrec.errors import UsageError, shown
from fastrec.filters import Filters, make_filters
from fastrec.scoring.compare import cleaner_of, comparison_of, is_number
from fastrec.scoring.extract import Extract, extractor_of
from fastrec.toml_file import parse_toml, read_toml


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """How to score some records."""

    name: str  # The metric.
    extract: Extract | list[Extract] = "whole"
    clean: list[str] = []
    compare: Literal["equal", "number", "choice", "contains"] = "equal"
    tolerance: float = 0.0
    missing: Literal["wrong", "error"] = "wrong"
    filters: Filters = Filters()


def read_rules(path: str) -> list[Rule]:
    """Read a file of rules; UsageError if it cannot be read or understood."""
    return _rules_in(read_toml(path, "the rules"), path)


def _rules_in(document: dict[str, Any], path: str) -> list[Rule]:
    tables = document.pop("rule", None)
    if document or not isinstance(tables, list) or not tables:
        raise UsageError(f"{shown(path)}: expected tables [[rule]], and nothing else")
    rules = []
    for number, table in enumerate(tables, start=1):
        given = {name: table.pop(name) for name in Filters.__struct_fields__ if name in table}
        try:
            rule = convert(table, Rule)
            rule = replace(rule, filters=make_filters(**given))
            Scorer(rule)
        except (ValidationError, UsageError) as exc:
            raise UsageError(f"{shown(path)}, rule {number}: {exc}") from exc
        rules.append(rule)
    return rules


_LONGEST_NUMBER = 100  # characters of a reference that is nothing but a number


class Verdict(NamedTuple):
    extracted: str | None
    is_right: bool


class Scorer:
    """Applies a rule to texts."""

    def __init__(self, rule: Rule) -> None:
        """Prepare a rule; UsageError if it does not make sense."""
        self.rule = rule
        self._extract = extractor_of(rule.extract)
        self._clean = cleaner_of(rule.clean)
        self._agrees = comparison_of(rule.compare, rule.tolerance)
        # The answers of all models to a question follow each other.
        self._value_of = lru_cache(maxsize=256)(self._reference_value)

    def score(self, text: str, references: Sequence[str], choices: Sequence[str]) -> Verdict:
        """Extract the answer of a text, and tell whether it agrees with any reference."""
        extracted = self._extract(text)
        if extracted is None:
            return Verdict(None, is_right=False)
        value = self._clean(extracted)
        options = [self._clean(choice) for choice in choices]
        wanted = map(self._value_of, references)
        is_right = any(self._agrees(value, reference, options) for reference in wanted)
        return Verdict(extracted, is_right)

    def _reference_value(self, reference: str) -> str:
        """The clean value of a reference, which may be a whole solution like an answer."""
        if self.rule.compare == "number" and len(reference) <= _LONGEST_NUMBER:
            whole = self._clean(reference)
            if is_number(whole):
                return whole
        extracted = self._extract(reference)
        return self._clean(reference if extracted is None else extracted)


_SHIPPED_FILE = "shipped.toml"
_shipped = parse_toml(get_data("fastrec.scoring", _SHIPPED_FILE) or b"", _SHIPPED_FILE, "the rules")
# The rules that ship with fastrec.
SHIPPED = {rule.name: rule for rule in _rules_in(_shipped, _SHIPPED_FILE)}


def shipped_rule(name: str) -> Rule:
    if name not in SHIPPED:
        raise UsageError(f"there is no rule {name!r}; the rules are {', '.join(SHIPPED)}")
    return SHIPPED[name]
