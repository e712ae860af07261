"""Functions that run for every record, generated from a schema's Structs and rules.

The generated code is what one would write by hand for one version: attribute by attribute, without loops over field
names. That makes it as fast as hand-written code, and a new version gets it for free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import UNSET

from fastrec.schemas.shape import Shape

__all__ = ["Rule", "compile_drop_nulls", "compile_follows_rules"]


class Rule(NamedTuple):
    """A conditional rule of a schema: what records of some interaction types must have or lack."""

    code: str
    """The code of the finding if a record breaks the rule."""
    types: tuple[str, ...]
    """The interaction types that the rule applies to."""
    field: str
    """The field that the rule is about."""
    message: str
    """The rule in a sentence."""
    test: str
    """A Python expression over `record` that is true if a record of the right types follows the rule."""


def compile_follows_rules(rules: Sequence[Rule]) -> Callable[[Any], bool]:
    """Generate the function that says whether a record follows all rules; rules of equal types must be adjacent."""
    lines = ["def follows_rules(record):", "    kind = record.interaction_type"]
    for types, group in groupby(rules, key=lambda rule: rule.types):
        tests = " and ".join(f"({rule.test})" for rule in group)
        lines += [f"    if kind {f'== {types[0]!r}' if len(types) == 1 else f'in {types!r}'}:"]
        lines += [f"        return True if {tests} else False"]
    return _compile("follows_rules", [*lines, "    return True"])


def compile_drop_nulls(shape: Shape) -> Callable[[Any], int]:
    """Generate the function that unsets every optional field that is null, and returns how many there were."""
    body = list(_null_checks(shape, "record", 1))
    return _compile("drop_nulls", ["def drop_nulls(record):", "    dropped = 0", *body, "    return dropped"])


def _null_checks(shape: Shape, name: str, depth: int) -> Iterator[str]:
    """Give the lines that check the fields of the object in the variable `name`."""
    indent = "    " * depth
    for field in shape.fields.values():
        value, child = f"{name}.{field.name}", f"{field.name}_{depth}"
        if field.drops_null:
            yield f"{indent}if {value} is None:"
            yield f"{indent}    {value} = UNSET"
            yield f"{indent}    dropped += 1"
        inner = list(_null_checks(field.shape, child, depth + 1)) if field.shape else []
        if inner:
            head = f"for {child} in {value} or ()" if field.is_list else f"if {child} := {value}"
            yield f"{indent}{'el' if field.drops_null and not field.is_list else ''}{head}:"
            yield from inner


def _compile(name: str, lines: Sequence[str]) -> Callable[[Any], Any]:
    namespace: dict[str, Any] = {"UNSET": UNSET}
    exec("\n".join(lines), namespace)  # noqa: S102 - the source comes from our own classes and rules
    function: Callable[[Any], Any] = namespace[name]
    return function
