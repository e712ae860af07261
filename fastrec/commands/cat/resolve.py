"""From filters to a selection: exact values where possible, because these are found without decoding the text.

Patterns and excludes of names become the names in the summary that match. Patterns of ids and hashes stay patterns:
their beginning can be searched for, up to the first special character.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fastrec.commands.cat.select import SPECIAL, Selection
from fastrec.filters import Filters
from fastrec.summary.document import Summary
from fastrec.summary.names import names_of

__all__ = ["needs_summary", "resolve"]

_KINDS: Final = ("evaluation", "metric", "model")


def needs_summary(filters: Filters) -> bool:
    """Return whether the names in the summary help to resolve filters."""
    return any(_is_open(filters, kind) for kind in _KINDS)


def resolve(filters: Filters, summary: Summary | None) -> Selection | None:
    """Return the selection of some filters; None if no record can match. Without a summary, names stay patterns."""
    outcomes = {name: getattr(filters, name) for name in ("right", "wrong", "errors")}
    exact: dict[str, Any] = {} if all(outcomes.values()) else outcomes
    rest: dict[str, Any] = {}
    for kind in _KINDS:
        if not _is_open(filters, kind):
            exact[kind] = getattr(filters, kind)
        elif summary is None:
            rest |= _only(filters, kind)
        else:
            names = getattr(names_of(summary.evaluations), f"{kind}s")
            accepts = getattr(filters, f"accepts_{kind}")
            found = tuple(name for name in names if accepts(name))
            if not found:
                return None
            if len(found) == len(names):
                continue
            if None in found:  # what is not there cannot be searched for
                rest |= _only(filters, kind)
            else:
                exact[kind] = found
    for kind in ("sample_id", "hash"):
        patterns = getattr(filters, kind)
        (rest if any(map(SPECIAL.search, patterns)) else exact)[kind] = patterns
    return Selection(**exact, rest=Filters(**rest))


def _is_open(filters: Filters, kind: str) -> bool:
    """Return whether other values match than those that are given. An empty metric means that there is none."""
    patterns: tuple[str, ...] = getattr(filters, kind)
    return bool(getattr(filters, f"exclude_{kind}", ())) or any(SPECIAL.search(one) for one in patterns) or (
        kind == "metric" and "" in patterns
    )  # fmt: skip


def _only(filters: Filters, kind: str) -> dict[str, tuple[str, ...]]:
    """Return the filters of one kind."""
    names = (kind, f"exclude_{kind}")
    return {name: value for name, value in msgspec.structs.asdict(filters).items() if name in names}
