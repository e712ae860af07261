"""Values that were written with `str`: versions up to 0.10 write lists and dicts as text, such as `[(-1.5, False)]`."""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any, Final

__all__ = ["value_of"]

_NAMES: Final = {"nan": math.nan, "inf": math.inf, "NaN": math.nan, "Infinity": math.inf}
_NAMES_OF_JSON: Final = {"null": None, "true": True, "false": False}


def value_of(text: Any) -> Any:
    """Return the value that a text spells in Python; the text itself if it spells none, other values as they are.

    Arrays and tensors are their values: `array([1.5, nan])`, `np.float64(0.5)`, `tensor(3)`.

    >>> value_of("[(-1.5, False), (-inf, True)]"), value_of("plain text"), value_of("{'em': np.float64(0.5)}")
    ([[-1.5, False], [-inf, True]], 'plain text', {'em': 0.5})
    """
    if not isinstance(text, str) or text[:1] not in "[{(-0123456789NTFn\"'":
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text that is no value
            tree = ast.parse(text, mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return text


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(_known(key))): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.Name(id=name) if name in _NAMES_OF_JSON:
            return _NAMES_OF_JSON[name]
        case ast.Call(args=[first, *_]):  # array(…), np.float64(…), tensor(…, dtype=…)
            return _value(first)
    raise ValueError("not a value")


def _known(key: ast.expr | None) -> ast.expr:
    if key is None:  # `{**other}`
        raise ValueError("not a value")
    return key
