"""The reference answers of a sample.

lm-eval writes the target with `str`. If a task has several references (triviaqa, nq_open, squad), they are one text in
the syntax of Python: `['Paris', 'City of Paris']`.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

__all__ = ["references_of"]


def references_of(target: Any, *, may_be_list: bool = False) -> list[str]:
    """Return the references of a target.

    `may_be_list` says that the task can have several: the document has a list, or `doc_to_target` is a template, whose
    result lm-eval itself reads as a list if it is in brackets. The text of any other target is one reference.

    >>> references_of("['a', 'b']", may_be_list=True), references_of("['a', 'b']"), references_of(None)
    (['a', 'b'], ["['a', 'b']"], [])
    """
    if target.__class__ is str:
        return (_listed(target) if may_be_list and target.startswith("[") else None) or [target]
    if target is None:
        return []
    if isinstance(target, list):
        return [text for one in target for text in references_of(one)]
    return [str(target)]


def _listed(text: str) -> list[str] | None:
    """Return the items of a list that `str` wrote; None if it is no list of texts and numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text that is no list
            items = ast.literal_eval(text)
        if isinstance(items, list) and all(isinstance(item, str | int | float) for item in items):
            texts = list(map(str, items))
            "".join(texts).encode()  # fails for escaped lone surrogates
            return texts if str(items) == text else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    return None
