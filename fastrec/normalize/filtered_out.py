"""Records that the filters remove: the names that they have, for the error if no record matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import msgspec

from fastrec.errors import NoMatchError
from fastrec.filters import Filters
from fastrec.judge.filtering import FilteredOut

__all__ = ["FilteredOutNames", "nothing_matches"]

_MOST: Final = 10  # names listed in the error


class FilteredOutNames(msgspec.Struct):
    """The first evaluations, metrics and models of records that are filtered out, sorted: one more than is listed."""

    evaluations: list[str] = msgspec.field(default_factory=list)
    metrics: list[str] = msgspec.field(default_factory=list)
    models: list[str] = msgspec.field(default_factory=list)

    def add(self, records: Iterable[FilteredOut]) -> None:
        """Add the names of some records."""
        found = list(records)
        self.evaluations = _first([*self.evaluations, *(one.evaluation_name for one in found)])
        self.metrics = _first([*self.metrics, *(one.metric for one in found if one.metric)])
        self.models = _first([*self.models, *(one.model_id for one in found)])

    def __iadd__(self, other: Self) -> Self:
        for name in self.__struct_fields__:
            setattr(self, name, _first([*getattr(self, name), *getattr(other, name)]))
        return self


def nothing_matches(filters: Filters, names: FilteredOutNames) -> NoMatchError:
    """Return the error if no record matches the filters; it lists what there is."""
    lists = [(kind, getattr(names, kind)) for kind in names.__struct_fields__]
    available = "; ".join(f"{kind}: {_some(found)}" for kind, found in lists if found)
    return NoMatchError(f"no record matches {filters}; {available or 'there are no records'}")


def _first(names: Iterable[str]) -> list[str]:
    return sorted(set(names))[: _MOST + 1]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MOST]) + (", …" if len(names) > _MOST else "")
