"""The options of a run, and what follows from them: the settings of judge and corpus, and the sizes of buffers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fastrec.build import identity
from fastrec.corpus.writer import COMPRESSIONS
from fastrec.errors import UsageError, check_choice
from fastrec.filters import FilterArguments, Filters, Strings, as_tuple, field_names, make_filters
from fastrec.judge.findings import REPAIRS
from fastrec.judge.known_inputs import KNOWN_INPUT_BYTES
from fastrec.judge.repair import repair_codes
from fastrec.judge.version_rules import JudgeSettings, SampleHashMode
from fastrec.limits import current_limits
from fastrec.normalize.corrections import (
    PLACES,
    GivenFile,
    NameRule,
    read_fixes,
    read_labels,
    read_names,
)
from fastrec.parameters import CORES
from fastrec.schemas.hashes import HASHES
from fastrec.schemas.registry import DEFAULT_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC_FIELDS, sort_order
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES
from fastrec.summary.document import LineCounts

MEMORY_PER_JOB: Final = 512 << 20
_BESIDES_A_RUN: Final = (
    160 << 20
)  # memory of a worker that is not the text and the bookkeeping of a run
FEW_FENCES: Final = 32  # of a run that will be merged: a sample of its keys

AUTO: Final = "auto"  # the `schema` that follows from the content

Choice = Literal["keep", "first", "reject"]
"""Which of several records to keep: all, the first in the sort order, or none."""

RECORDED: Final = (
    "hash",
    "sample_hash",
    "repair",
    "same_run",
    "conflicts",
    "repeats",
    "part_size",
    "compression",
    "level",
    "max_line_bytes",
)
"""Options that the manifest records; `hash` is the algorithm of `sample_hash`."""
RECORDED_IF_SET: Final = ("filters", "track_sources", "map", "keep_names", "labels", "fixes")
"""Options that it records if they are given."""
_FIELDS: Final = {"hash": "hash_algorithm"}  # recorded options that have another name in `Options`

_ALLOWED: Final = {
    "engine": ("pool", "dask"),
    "schema": (*TARGETS, AUTO),
    "hash_algorithm": tuple(HASHES),
    "sample_hash": ("replace", "fill", "verify"),
    "same_run": ("keep", "ignore"),
    "conflicts": ("keep", "first", "reject"),
    "repeats": ("keep", "first", "reject"),
    "compression": COMPRESSIONS,
    "check": ("stat", "content"),
}


class MaxRejects(NamedTuple):
    number: float
    is_share: bool  # the number is a percentage of all lines

    def allows(self, counts: LineCounts) -> bool:
        from fractions import Fraction  # noqa: PLC0415 - takes a millisecond, and is rarely needed

        limit = Fraction(
            str(self.number)
        )  # exact: with doubles, 0.7 % of 1,000 lines are less than 7
        return counts.rejected <= (limit * counts.lines / 100 if self.is_share else limit)

    def __str__(self) -> str:
        return f"{self.number:.15g}{'%' if self.is_share else ''}"


def parse_max_rejects(value: float | str) -> MaxRejects:
    """Parse a number of lines, or a percentage of them.

    >>> parse_max_rejects(100), parse_max_rejects("0.5%")
    (MaxRejects(number=100.0, is_share=False), MaxRejects(number=0.5, is_share=True))
    """
    text = str(value)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"{text!r} is neither a number of lines nor a percentage such as 0.5%")
    if not number.is_integer() and not text.endswith("%"):
        raise UsageError(f"{text!r} is not a whole number of lines: did you mean {text}%?")
    return MaxRejects(number, text.endswith("%"))


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to normalize. Only the first group of options influences the corpus."""

    schema: str = AUTO
    hash_algorithm: str = "sha256"
    sample_hash: SampleHashMode = "replace"
    repair: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    same_run: Literal["keep", "ignore"] = "keep"
    conflicts: Choice = "keep"
    repeats: Choice = "keep"
    part_size: int = 64 << 20
    compression: str = "zst"
    level: int = 3
    max_line_bytes: int = MAX_LINE_BYTES
    max_window: int = MAX_WINDOW
    filters: Filters = Filters()
    """Only records that match these; all other lines are treated as ever."""
    map: tuple[NameRule, ...] = ()
    """Other names for models, evaluations and metrics."""
    keep_names: bool = False  # keep the name before in `metadata`
    labels: GivenFile | None = None  # corrected verdicts
    fixes: GivenFile | None = None  # corrected versions of rejected lines
    track_sources: bool = (
        False  # write the shard and the line of each record to a file beside its part
    )

    jobs: int = CORES
    engine: Literal["pool", "dask"] = "pool"
    scheduler: str | None = (
        None  # address of a Dask scheduler; None starts a cluster on this machine
    )
    memory: int | None = (
        None  # memory limit in bytes for all jobs together; None is 512 MiB per job
    )
    skip_bad_shards: bool = False
    max_rejects: int | float | str | None = (
        None  # a number of lines or a percentage; None publishes in any case
    )
    fresh: bool = False  # do not resume an interrupted run
    overwrite: bool = False
    incremental: bool = False  # keep work for the next run, and reuse what the last one kept
    check: Literal["stat", "content"] = (
        "stat"  # how to tell whether a file changed since the last incremental run
    )
    work_dir: str | None = None
    trust: bool = False  # take the records of corpora as they are, whoever has published them
    judge: bool = (
        False  # judge the records of all corpora, also of those that this user has published
    )
    strict_labels: bool = False  # publish nothing if a label matches no record or several
    allow_empty: bool = (
        False  # make a corpus even if no line is valid, or no record matches the filters
    )

    def __post_init__(self) -> None:
        for name in ("part_size", "level", "max_line_bytes", "max_window", "jobs", "memory"):
            value = getattr(self, name)
            if not isinstance(value, int) and (name, value) != ("memory", None):
                raise UsageError(f"{name} must be an integer, not {value!r}; sizes are in bytes")
        if self.jobs < 1:
            raise UsageError(f"jobs must be at least 1, not {self.jobs}")
        for name, allowed in _ALLOWED.items():
            check_choice(name, getattr(self, name), allowed)
        if self.scheduler and self.engine != "dask":
            raise UsageError("a scheduler needs the engine dask: give --engine dask")
        if self.keep_names and not self.map:
            raise UsageError("--keep-names needs --map, which changes names")
        if self.strict_labels and not self.labels:
            raise UsageError("--strict-labels needs --labels")
        if self.trust and self.judge:
            raise UsageError("--trust and --judge contradict each other: give one of them")
        if self.check == "content" and not self.incremental:
            raise UsageError("check content needs an incremental run: give --incremental, too")
        for code in self.repair:
            check_choice("repair", code, tuple(REPAIRS))
        for field in self.sort_by:
            check_choice("sort_by", field, METRIC_FIELDS)
            if self.schema != AUTO and field not in self.target.sort_fields:
                raise UsageError(f"sort_by: records of schema {self.schema} have no {field}")
        if self.part_size < 1 << 10:
            raise UsageError("part_size must be at least 1 KiB")
        if self.memory is not None and self.memory < 1 << 20:
            raise UsageError("memory must be at least 1 MiB: give a unit, as in 4GiB")
        _ = self.gate
        levels = {"zst": range(-7, 23), "gz": range(10)}.get(self.compression)
        if levels and self.level not in levels:
            raise UsageError(
                f"level must be from {levels[0]} to {levels[-1]} for {self.compression}, not "
                f"{self.level}"
            )

    @property
    def target(self) -> Schema:
        """The schema version of the corpus; the default one if it is not known yet."""
        return TARGETS.get(self.schema, DEFAULT_SCHEMA)

    @property
    def sort_fields(self) -> tuple[str, ...]:
        return self.sort_fields_of(self.target)

    def sort_fields_of(self, target: Schema) -> tuple[str, ...]:
        """The same for a corpus of this version, which may lack some of the fields to sort by."""
        fields = target.sort_fields
        return sort_order((field for field in self.sort_by if field in fields), fields)

    @property
    def recorded(self) -> dict[str, object]:
        given = [name for name in RECORDED_IF_SET if getattr(self, name)]
        recorded = {name: getattr(self, _FIELDS.get(name, name)) for name in (*RECORDED, *given)}
        if self.filters:
            filters = msgspec.structs.asdict(self.filters)
            recorded["filters"] = {name: value for name, value in filters.items() if value}
        for name in ("labels", "fixes"):
            if file := getattr(self, name):
                recorded[name] = {"sha256": file.sha256}
        return recorded

    def settings_of(self, target: Schema) -> dict[str, Any]:
        """Everything besides the records that determines the bytes of a corpus of this target.

        Records that were taken on trust may be broken, so a run that judges them does not reuse
        them.
        """
        limits = current_limits()
        recorded = self.recorded
        return {
            "build": identity(),
            "cuts": (
                limits.most_borders,
                limits.most_parts,
                limits.fewest_parts,
                limits.least_part,
            ),
            "schema": f"auto ({target.name})" if self.schema == AUTO else target.name,
            **{name: recorded[name] for name in RECORDED},
            "max_window": self.max_window,
            "sort_fields": self.sort_fields_of(target),
            "filters": str(self.filters) or "none",
            "map": [*self.map, self.keep_names] if self.map else "none",
            "labels": self.labels.sha256 if self.labels else "none",
            "fixes": self.fixes.sha256 if self.fixes else "none",
            "trust": "yes" if self.trust else "no",
        }

    @property
    def leaves_out(self) -> bool:
        return (self.conflicts, self.repeats) != ("keep", "keep")

    @property
    def changes_lines(self) -> bool:
        """Whether pass 1 changes lines in normal form."""
        return bool(self.map or self.labels)

    @property
    def gate(self) -> MaxRejects | None:
        return None if self.max_rejects is None else parse_max_rejects(self.max_rejects)

    @property
    def memory_per_job(self) -> int:
        return MEMORY_PER_JOB if self.memory is None else self.memory // self.jobs

    def for_judge(self, target: Schema) -> JudgeSettings:
        return JudgeSettings(
            target=target.name,
            target_is_guess=self.schema == AUTO,
            algorithm=self.hash_algorithm,
            sample_hash=self.sample_hash,
            repairs=frozenset(self.repair),
            filters=self.filters,
            known_input_bytes=min(
                self.memory_per_job // 40, KNOWN_INPUT_BYTES
            ),  # occupied while a worker sorts, too
        )

    # Sizes of buffers, which follow from the memory of a process

    @property
    def _small_run_bytes(self) -> int:
        return min(max(self.memory_per_job // 5, 1 << 20), current_limits().run_bytes)

    def run_bytes(self, text: int) -> int:
        """What a worker collects before it spills, text and bookkeeping; sorting needs some more memory.

        If there is much text, runs are larger: each part is gathered from all runs.
        """
        most = min(self.memory_per_job * 2 // 5, self.memory_per_job - _BESIDES_A_RUN)
        return max(self._small_run_bytes, min(text // current_limits().few_runs, most))

    @property
    def slice_bytes(self) -> int:
        """Text of the slices that tasks are made of.

        It does not depend on the input, so that work can be reused.
        """
        return min(current_limits().task_bytes, self._small_run_bytes)

    def slices_per_task(self, text: int) -> int:
        """How many slices make a task, and so a run: one if there is little text.

        >>> [Options().slices_per_task(text) for text in (10**9, 2 * 10**10, 10**11, 10**14)]
        [1, 3, 5, 46]
        """
        limits = current_limits()
        many = -(-text // (limits.most_tasks * limits.task_bytes))
        return max(self.run_bytes(text) // self._small_run_bytes, many)

    def most_fences(self, text: int) -> int:
        """Fences of a run that the driver holds, because it holds those of all runs."""
        return max(current_limits().most_fences * self.run_bytes(text) // max(text, 1), FEW_FENCES)

    def window_for(self, runs: int) -> int:
        """Bytes merged at a time from this many runs: more for many runs, so that reads do not become too small."""
        return max(
            self._window_bytes, min(runs * current_limits().read_bytes, self.memory_per_job // 8)
        )

    @property
    def _window_bytes(self) -> int:
        return min(max(self.memory_per_job // 32, 1 << 20), current_limits().window_bytes)

    @property
    def fan_in(self) -> int:
        """Runs that can be merged at a time without reads that are too small."""
        limits = current_limits()
        return min(
            max(self.memory_per_job // 4 // (limits.read_bytes // 4), 2), limits.merge_fan_in
        )


class NormalizeArguments(FilterArguments, total=False):
    """The options of `normalize` as arguments of a Python function: the fields of `Options`, and the filters."""

    schema: str
    hash_algorithm: str
    sample_hash: SampleHashMode
    repair: Strings
    sort_by: Strings
    same_run: Literal["keep", "ignore"]
    conflicts: Choice
    repeats: Choice
    part_size: int
    compression: str
    level: int
    max_line_bytes: int
    max_window: int
    map: str | os.PathLike[str] | None
    keep_names: bool
    labels: str | os.PathLike[str] | None
    fixes: str | os.PathLike[str] | None
    strict_labels: bool
    track_sources: bool
    jobs: int
    engine: Literal["pool", "dask"]
    scheduler: str | None
    memory: int | None
    skip_bad_shards: bool
    max_rejects: float | str | None
    fresh: bool
    overwrite: bool
    incremental: bool
    check: Literal["stat", "content"]
    work_dir: str | None
    trust: bool
    judge: bool
    allow_empty: bool


def make_options(**given: Any) -> Options:
    """Make options from the arguments of `normalize`, which has the filters as arguments of their own.

    `hash` is a filter, unless it is the name of an algorithm: that was its meaning in earlier
    releases.
    """
    given["sort_by"] = field_names("sort_by", given.get("sort_by", ()))
    given["repair"] = repair_codes(field_names("repair", given.get("repair", ())))
    path = given.pop("map", None)
    given["map"] = () if path is None else read_names(os.fspath(path))
    if (path := given.pop("labels", None)) is not None:
        given["labels"] = GivenFile.at(os.fspath(path))
        read_labels(given["labels"])
    if (path := given.pop("fixes", None)) is not None:
        given["fixes"] = GivenFile.at(os.fspath(path), os.fspath(path) + PLACES)
        read_fixes(given["fixes"])
    patterns = as_tuple("hash", given.pop("hash", ()))
    if algorithms := [one for one in patterns if one in HASHES]:
        given["hash_algorithm"] = algorithms[-1]
    given["hash"] = [one for one in patterns if one not in HASHES]
    filters = make_filters(
        **{name: given.pop(name) for name in FilterArguments.__annotations__ if name in given}
    )
    return Options(**given, filters=filters)


def options_from(recorded: Mapping[str, object], **more: Any) -> Options:
    """The options that a manifest records, with some others.

    ValidationError or UsageError if a value is wrong.
    """
    return msgspec.convert(
        {_FIELDS.get(name, name): value for name, value in recorded.items()} | more, Options
    )
