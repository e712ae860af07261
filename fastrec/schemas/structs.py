"""What the Structs of all schema versions share: their base class, the types of common fields, and labels."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NewType, Union, get_args, get_origin

from msgspec import Meta, Struct


def _json_value(levels: int) -> Any:
    """Build the type of a JSON value with at most this many levels of nesting.

    Each level is wrapped in a NewType. Otherwise `typing` walks the levels as a tree that doubles with each level.
    """
    scalar = None | bool | int | float | str
    value: Any = scalar
    for level in range(levels):
        value = NewType(f"Free{level}", scalar | list[value] | dict[str, value])  # type: ignore[misc,no-redef]
    return value


# The value of a free-form object. `Any` would accept every depth; this type sends deeper values to the slow path, which
# counts levels exactly. It costs the decoder no time.
if TYPE_CHECKING:
    Free = Any
else:
    Free = _json_value(6)

Count = Annotated[int, Meta(ge=0)]
PositiveCount = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]


class Base(Struct, forbid_unknown_fields=True, gc=False):
    """The base of every object of a record.

    - `forbid_unknown_fields`: otherwise the decoder skips an unknown key without checking its bytes, and drops it.
    - `gc=False`: a record holds only strings, numbers and containers of them, never a cycle. Untracked objects save
      the garbage collector a walk over millions of them.
    - `kw_only` is not inherited, so each class sets it: required and optional fields are mixed in schema order.
    """


def rewrite_hint(hint: Any, replace: Callable[[Any], Any]) -> Any:
    """Replace types inside a type; `replace` returns the same object for a type that stays."""
    if (replaced := replace(hint)) is not hint:
        return replaced
    arguments = get_args(hint)
    rewritten = tuple(rewrite_hint(argument, replace) for argument in arguments)
    if all(new is old for new, old in zip(rewritten, arguments, strict=True)):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        return functools.reduce(operator.or_, rewritten)
    return get_origin(hint)[rewritten]


# Labels are what producers write into `schema_version`. The schema allows any string there, and producers use both
# spellings of each version, so a label proves nothing. But one that names no version, or another version than the one
# that the record follows, is a likely mistake.


def labels_of(*versions: str) -> frozenset[str]:
    """The labels of published versions: each version, with and without the prefix.

    >>> sorted(labels_of("0.2.0"))
    ['0.2.0', 'instance_level_eval_0.2.0']
    """
    return frozenset(prefix + version for version in versions for prefix in ("", "instance_level_eval_"))


LABELS: Final = labels_of("0.0.1", "0.2.0", "0.2.1", "0.2.2", "0.2.3", "0.3.0")
"""The labels of all published versions, whether or not fastrec can judge records by them."""
