"""Count the strings of a record: its keys, and the texts among its values.

The decoder silently keeps the last of two equal keys. A record with fewer strings than its line has lost a key.

The function is generated from the types of a record class, like those of `schema`: an object of a few fields is counted
in less time than one call takes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from keyword import iskeyword
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from fastrec.schemas.schema import compile_function
from fastrec.schemas.structs import Base

__all__ = ["compile_count_strings"]

_NULL: Final = type(None)
_STRINGS: Final[dict[frozenset[Any], str]] = {
    frozenset({float}): "0",
    frozenset({float, _NULL}): "0",
    frozenset({str}): "1",
    frozenset({str, _NULL}): "(0 if {0} is None else 1)",
    frozenset({str, float}): "(1 if type({0}) is str else 0)",
    frozenset({list[str]}): "len({0})",
    frozenset({list[str], _NULL}): "len({0} or ())",
    frozenset({list[str], str}): "(1 if type({0}) is str else len({0}))",
    frozenset({dict[str, str]}): "2 * len({0})",
    frozenset({dict[str, str], _NULL}): "2 * len({0} or ())",
}
"""By the types of a value, the expression for the number of its strings; `float` stands for all numbers."""


def compile_count_strings(record: type[Any]) -> Callable[[Any], int]:
    """Generate the function that counts the strings of a record of this class."""
    lines = ["def count_strings(record, UNSET=UNSET):", "    n = 0", *_counts(record, "record", 1), "    return n"]
    return compile_function("count_strings", lines, count_free=_count_free)


def _counts(struct: type[Any], name: str, depth: int) -> Iterator[str]:
    """Yield the lines of code that count the strings of the object in the variable `name`."""
    indent = "    " * depth
    always = 0  # strings that each object of this class has
    for field in msgspec.structs.fields(struct):
        kinds = frozenset(_alternatives(field.type)) - {UnsetType}
        child = f"{name}_{field.name}" if field.name.isascii() else f"{name}_"
        # A learned field may have the name of a keyword, or one that Python would normalize.
        is_plain = field.name.isascii() and not iskeyword(field.name)
        value = f"{name}.{field.name}" if is_plain else f"getattr({name}, {field.name!r})"
        objects = next((kind for kind in kinds if _struct_in(kind)), None)
        strings = "0" if objects else _STRINGS.get(kinds, "count_free({0})").format(child)
        if not field.required:
            yield (
                f"{indent}if ({child} := {value}) is not UNSET:"
                if objects or child in strings
                else f"{indent}if {value} is not UNSET:"
            )
            yield f"{indent}    n += 1 + {strings}"
        else:
            always += 1
            if strings.isdigit() and not objects:
                always += int(strings)
                continue
            yield f"{indent}{child} = {value}"
            if not objects:
                yield f"{indent}n += {strings}"
        if objects:
            yield from _object_counts(objects, child, depth)
    if always:
        yield f"{indent}n += {always}"


def _object_counts(kind: Any, name: str, depth: int) -> Iterator[str]:
    """Yield the lines of code that count the strings of the object or objects in a variable; it may be null."""
    indent = "    " * depth
    struct = _struct_in(kind)
    assert struct
    if struct is kind:
        yield f"{indent}if {name}:"
        yield from _counts(struct, name, depth + 1)
    elif inner := list(_counts(struct, f"{name}_item", depth + 1)):
        # If each of them has the same number of strings, nothing is looked at one by one.
        if len(inner) == 1:
            yield f"{indent}n += len({name} or ()) * {inner[0].split()[-1]}"
        else:
            yield f"{indent}for {name}_item in {name} or ():"
            yield from inner


def _struct_in(kind: Any) -> type[Base] | None:
    """Return the Struct if a type is one, or a list of one."""
    inner = get_args(kind)[0] if get_origin(kind) is list else kind
    return inner if isinstance(inner, type) and issubclass(inner, Base) else None


def _alternatives(hint: Any) -> Iterator[Any]:
    """Yield the types that a type is the union of, without their bounds."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for argument in get_args(hint):
            yield from _alternatives(argument)
    elif origin is Annotated:
        yield from _alternatives(get_args(hint)[0])
    elif origin is Literal:
        yield from map(type, get_args(hint))
    else:
        yield float if hint in (int, bool) else hint


def _count_free(value: Any) -> int:
    """Count the strings of a JSON value."""
    strings, values = 0, [value]
    for one in values:  # which grows meanwhile
        kind = type(one)  # half the time of `one.__class__`, since types vary from value to value
        if kind is str:
            strings += 1
        elif kind is dict:
            strings += len(one)
            values += one.values()
        elif kind is list:
            values += one
    return strings
