"""The result of judging a chunk: records, invalid lines, warnings, and line counts that add up."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import UNSET

from fastrec.filters import Filters
from fastrec.judge.findings import Finding
from fastrec.schemas.hashes import ABSENT
from fastrec.schemas.registry import DEFAULT_SCHEMA, Record
from fastrec.schemas.schema import Schema

# @@ filtering: Filter valid records. The judge applies the filters at two points.
#
# 1. As soon as a line is a valid record of some version: by its names and its outcome. A record that is filtered out here
#    is not upgraded, hashed or encoded, and its `sample_hash` is not verified.
# 2. When its `sample_hash` is known, which depends on the target.
#
# Filters do not change the verdict about a line: an invalid line is rejected whatever its fields say.
#
# A record of a later version than the target counts for the choice of the target (`normalize.targets`). So it is filtered
# as the record that it would be in the newest version, where its metric may come from an unknown key.

_METRIC: Final = "evaluation_result_id"
_MOST_KNOWN: Final = 100_000  # names whose verdicts are remembered


class FilteredOut(NamedTuple):
    """The names of a record that the filters remove."""

    evaluation_name: str
    metric: str
    """Empty if it has none."""
    model_id: str


class RecordFilter:
    """Filters records of all versions, as Structs on the fast path and as dicts on the slow one."""

    def __init__(self, filters: Filters, target: Schema) -> None:
        self._filters = filters
        self._target = target
        self._known: dict[FilteredOut, bool] = {}
        self.chooses_hashes: Final = bool(filters.hash)
        """Whether `filters_out_hash` and `filters_out_normal` can return anything but None."""

    def has_metrics(self, schema: Schema) -> bool:
        """Return whether records of a version may have a metric in the corpus."""
        return not (schema is DEFAULT_SCHEMA and self._target is DEFAULT_SCHEMA)

    def filters_out(self, record: Any, has_metrics: bool) -> FilteredOut | None:
        """Filter a record by names and outcome; None if it stays. `has_metrics` is that of its version."""
        return self._filters_out(
            record.evaluation_name,
            getattr(record, _METRIC, UNSET) if has_metrics else UNSET,
            record.model_id,
            record.sample_id,
            is_correct=record.evaluation.is_correct,
            error=record.error,
        )

    def filters_out_value(self, value: dict[str, Any], schema: Schema) -> FilteredOut | None:
        """Do the same with a valid record of a version, as it was parsed."""
        sample_id = value["sample_id"]
        return self._filters_out(
            value["evaluation_name"],
            value.get(_METRIC) if self.has_metrics(schema) else UNSET,
            value["model_id"],
            int(sample_id) if type(sample_id) is float else sample_id,  # 1.0 is an integer in JSON Schema
            is_correct=value["evaluation"]["is_correct"],
            error=value.get("error", UNSET),
        )

    def _filters_out(
        self, evaluation: str, metric: Any, model: str, sample_id: int | str, *, is_correct: bool, error: Any
    ) -> FilteredOut | None:
        filters, names = self._filters, FilteredOut(evaluation, metric if isinstance(metric, str) else "", model)
        stays = self._known.get(names)
        if stays is None:
            stays = (
                filters.accepts_evaluation(evaluation)
                and filters.accepts_metric(names.metric)
                and filters.accepts_model(model)
            )
            if len(self._known) < _MOST_KNOWN:
                self._known[names] = stays
        if (
            stays
            and filters.accepts_sample_id(sample_id)
            and filters.accepts_outcome(is_correct=is_correct, has_error=error is not UNSET and bool(error))
        ):
            return None
        return names

    def filters_out_hash(self, record: Any) -> FilteredOut | None:
        """Filter a record by its `sample_hash`; None if it stays."""
        if self._filters.accepts_hash(record.sample_hash):
            return None
        metric = getattr(record, _METRIC, UNSET)
        return FilteredOut(record.evaluation_name, metric if isinstance(metric, str) else "", record.model_id)

    def filters_out_normal(self, normal: dict[str, Any]) -> FilteredOut | None:
        """Do the same with a normal form."""
        if self._filters.accepts_hash(normal["sample_hash"]):
            return None
        metric = normal.get(_METRIC)  # in 0.2.0, an unknown key of any type
        return FilteredOut(normal["evaluation_name"], metric if isinstance(metric, str) else "", normal["model_id"])


_evaluation_name: Final = attrgetter("evaluation_name")
_model_id: Final = attrgetter("model_id")


class InvalidLine(msgspec.Struct, frozen=True):
    """A line that is not a valid record, with every reason; or a record that is left out because of a conflict."""

    line: int
    """Number of the line, counted as the chunk's first line is."""
    offset: int | None
    """Offset of the line's first byte in the shard's text; None after a conflict."""
    findings: tuple[Finding, ...]
    """The first errors, the most fundamental one first."""
    raw: bytes
    """The line's exact bytes, without its newline."""
    truncated: bool = False
    """The line was too long to be held: `raw` is only its head."""
    unlisted: dict[str, int] = {}
    """By code, the number of further errors."""
    version: str | None = None
    """The schema version whose errors these are; None if the line has no value, or after a conflict."""
    repairs: tuple[str, ...] = ()
    """Codes of the repairs that would make the line a valid record that is kept; empty if there are none."""
    is_newer_version: bool = False
    """Allowed repairs make the line a valid record of a later version than the default one, but it is not kept."""


class HashReplaced(msgspec.Struct, frozen=True):
    """A record whose `sample_hash` was wrong."""

    evaluation_name: str
    model_id: str
    sample_id: int | str
    given: str
    computed: str

    def sort_key(self) -> tuple[str | bool | int, ...]:
        """Return the key to sort by: evaluation, model, sample; integers before strings."""
        sample = isinstance(self.sample_id, str), self.sample_id
        return self.evaluation_name, self.model_id, *sample, self.given, self.computed


class RepairedLine(msgspec.Struct, frozen=True):
    """A line that is a valid record because it was repaired."""

    line: int
    evaluation_name: str
    model_id: str
    sample_id: int | str
    findings: tuple[Finding, ...]
    """The first change of each repair, by code."""


class Batch(msgspec.Struct):
    """The judged lines of a chunk. `lines == valid + len(rejected) + blank + filtered`, always.

    If only verdicts were asked for, the lists with an item for each record are empty, except perhaps `records` and
    `numbers`.
    """

    lines: int = 0
    blank: int = 0
    records: list[Record] = msgspec.field(default_factory=list)
    """The valid records in the order of the lines. Unlike their normal forms, they may lack unknown keys and inputs."""
    numbers: list[int] = msgspec.field(default_factory=list)
    """Line number of each record."""
    ends: list[int] = msgspec.field(default_factory=list)
    """End of each record's normal form, newline included, in the buffer of normal forms."""
    rejected: list[InvalidLine] = msgspec.field(default_factory=list)
    warnings: list[tuple[int, Finding]] = msgspec.field(default_factory=list)
    """Warnings, each with the number of its line."""
    versions: Counter[str] = msgspec.field(default_factory=Counter)
    """Records by schema version."""
    notes: Counter[str] = msgspec.field(default_factory=Counter)
    """By code, records with a label of another version, and records that were changed by an upgrade or a repair."""
    recipe_names: list[str] = msgspec.field(default_factory=list)
    """The recipe of each record's given `sample_hash`; ABSENT if none was given, WRONG if no recipe gives it."""
    replaced: list[HashReplaced] = msgspec.field(default_factory=list)
    """Records whose `sample_hash` was wrong."""
    repaired: list[RepairedLine] = msgspec.field(default_factory=list)
    """Records that were repaired."""
    filtered_out: Counter[FilteredOut] = msgspec.field(default_factory=Counter)
    """The names of the records that the filters remove; nothing else has these records."""
    slow: int = 0
    """Valid records that took the slow path."""

    @property
    def valid(self) -> int:
        """Number of valid records."""
        return self.versions.total()

    @property
    def filtered(self) -> int:
        """Number of records that the filters remove."""
        return self.filtered_out.total()

    @property
    def verified(self) -> int:
        """Records whose `sample_hash` is right by some recipe."""
        return len(self.recipe_names) - self.filled - len(self.replaced)

    @property
    def filled(self) -> int:
        """Records without a `sample_hash`."""
        return self.recipe_names.count(ABSENT)

    @property
    def recipes(self) -> Counter[tuple[str, str, str]]:
        """Number of records by evaluation_name, model_id and recipe."""
        columns = [*map(_evaluation_name, self.records)], [*map(_model_id, self.records)], self.recipe_names
        # The records of a chunk are mostly of one evaluation, model and recipe. Comparing them with the first takes
        # half of the time of counting them.
        if self.records and all(values.count(values[0]) == len(self.records) for values in columns):
            return Counter({(columns[0][0], columns[1][0], columns[2][0]): len(self.records)})
        return Counter(zip(*columns, strict=True))

    def __iadd__(self, other: Batch) -> Self:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            value += getattr(other, name)  # lists grow in place
            setattr(self, name, value)
        return self
