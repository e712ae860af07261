"""The result of judging a chunk, and the filter of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Self

from msgspec import UNSET, Struct

from fastrec.filters import Filters
from fastrec.judge.findings import Finding, Findings, InvalidRecordError
from fastrec.judge.parse import parse, spell
from fastrec.schemas.registry import NEWEST_SCHEMA, Record
from fastrec.schemas.schema import JsonObject, Schema
from fastrec.schemas.view import NO_COUNTS

_MOST_NAMES = 100_000  # that a filter remembers


class FilteredOut(NamedTuple):
    """The names of a record that the filters remove."""

    evaluation_name: str
    metric: str  # empty if it has none
    model_id: str


class RecordFilter:
    """Filters valid records.

    Filters do not change the verdict: an invalid line is rejected whatever its fields say.
    """

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._can_match = lru_cache(_MOST_NAMES)(self._accepts)

    def _accepts(self, names: FilteredOut) -> bool:
        filters = self._filters
        return (
            filters.accepts_evaluation(names.evaluation_name)
            and filters.accepts_metric(names.metric)
            and filters.accepts_model(names.model_id)
        )

    def filters_out(
        self,
        record: Any,
        schema: Schema,
        values: JsonObject | None = None,
        *,
        any_hash: bool = False,
    ) -> FilteredOut | None:
        """Filter a record in the normal form of a version, such as the target; None if it matches.

        Its `input` may be the JSON text of that (`msgspec.Raw`). `values` are its values with all
        unknown keys, if it lacks some. With `any_hash`, its `sample_hash` does not matter.
        """
        metric = record.evaluation_result_id if schema is NEWEST_SCHEMA else UNSET
        names = FilteredOut(
            record.evaluation_name, "" if metric is UNSET else metric, record.model_id
        )
        filters = self._filters
        if (
            self._can_match(names)
            and filters.accepts_sample_id(record.sample_id)
            and filters.accepts_outcome(
                is_correct=record.evaluation.is_correct, has_error=bool(record.error)
            )
            and (any_hash or filters.accepts_hash(record.sample_hash))
        ):
            if not filters.where:
                return None
            given = parse(spell(record))[0] if values is None else values
            if filters.accepts_fields(given):
                return None
        return names


class InvalidLine(Struct, frozen=True):
    """A line that is not a valid record, or a record that is left out because of a conflict."""

    line: int  # number of the line, counted as the chunk's first line is
    offset: int | None  # offset of the line's first byte in the shard's text; None after a conflict
    findings: Findings  # the first errors, the most fundamental one first
    raw: bytes  # the line's exact bytes, without its newline
    truncated: bool = False  # the line was too long to be held: `raw` is only its head
    unlisted: dict[str, int] = {}  # by code, the number of further errors
    # The schema version whose errors these are; None if the line has no value, or after a
    # conflict.
    version: str | None = None
    # Codes of the repairs that would make the line a valid record that is kept; empty if there are
    # none.
    repairs: tuple[str, ...] = ()
    # The line is a valid record, perhaps after allowed repairs, and decides for the newest version
    # of a corpus.
    is_newer_version: bool = False

    def error(self, source: str | None = None) -> InvalidRecordError:
        """The exception that a function of the Python interface raises."""
        line = None if source is None else self.line
        return InvalidRecordError(self.findings, source, line, self.unlisted, self.version)


class HashReplaced(Struct, frozen=True):
    """A record whose `sample_hash` was wrong."""

    evaluation_name: str
    model_id: str
    sample_id: int | str
    given: str
    computed: str

    @classmethod
    def of(cls, record: Any, given: str, computed: str) -> Self:
        names = record.evaluation_name, record.model_id, record.sample_id
        return cls(*names, given, computed)

    def sort_key(self) -> tuple[str | bool | int, ...]:
        """Evaluation, model, sample; integers before strings."""
        sample = isinstance(self.sample_id, str), self.sample_id
        return self.evaluation_name, self.model_id, *sample, self.given, self.computed


class RepairedLine(Struct, frozen=True):
    """A line that is a valid record because it was repaired."""

    line: int
    evaluation_name: str
    model_id: str
    sample_id: int | str
    findings: Findings  # the first change of each repair, by code

    @classmethod
    def of(cls, record: Any, line: int, findings: Iterable[Finding]) -> Self:
        names = record.evaluation_name, record.model_id, record.sample_id
        return cls(line, *names, tuple(findings))


class Batch(Struct):
    """The judged lines of a chunk. `lines == valid + len(rejected) + blank + filtered`, always.

    If only verdicts were asked for, the lists with an item for each record are empty, except
    perhaps `records` and `numbers`.
    """

    lines: int = 0
    blank: int = 0
    # The valid records in the order of the lines. Unlike their normal forms, they may lack unknown
    # keys and inputs.
    records: list[Record] = []
    numbers: list[int] = []
    # End of each record's normal form, newline included, in the buffer of normal forms.
    ends: list[int] = []
    rejected: list[InvalidLine] = []
    warnings: list[tuple[int, Finding]] = []  # Each with the number of its line.
    versions: Counter[str] = NO_COUNTS  # records by schema version
    # By code, records with a label or turns of another version, and those that an upgrade or a
    # repair changed.
    notes: Counter[str] = NO_COUNTS
    # The recipe of each record's given `sample_hash`; ABSENT if none was given, WRONG if no recipe
    # gives it.
    recipe_names: list[str] = []
    replaced: list[HashReplaced] = []
    repaired: list[RepairedLine] = []
    # The names of the records that the filters remove; nothing else has these records.
    filtered_out: Counter[FilteredOut] = NO_COUNTS
    slow: int = 0  # valid records that took the slow path

    @property
    def valid(self) -> int:
        return self.versions.total()

    @property
    def filtered(self) -> int:
        return self.filtered_out.total()

    def count_recipes(self, counts: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str, str]]:
        """Add the numbers of records by evaluation_name, model_id and recipe."""
        evaluations = [record.evaluation_name for record in self.records]
        models = [record.model_id for record in self.records]
        # not by adding up two Counters, which is slower
        counts.update(zip(evaluations, models, self.recipe_names, strict=True))
        return counts

    def __iadd__(self, other: Batch) -> Self:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            value += getattr(other, name)  # lists grow in place
            setattr(self, name, value)
        return self
