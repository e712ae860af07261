"""The options of a run, and the sizes of buffers that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fastrec.corpus.writer import COMPRESSIONS
from fastrec.errors import UsageError, counted
from fastrec.filters import FilterArguments, Filters, as_tuple, field_names, make_filters
from fastrec.judge.findings import REPAIRS
from fastrec.judge.known_inputs import KNOWN_INPUT_BYTES
from fastrec.judge.repair import repair_codes
from fastrec.limits import LIMITS, Limits
from fastrec.schemas.hashes import HASHES
from fastrec.schemas.registry import DEFAULT_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC_FIELDS, sort_order
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES
from fastrec.summary.document import LineCounts

# @@ gate: The gate of `normalize`: a corpus that fails it is refused, and does not replace anything.
#
# It is refused if more lines were rejected than `max_rejects` allows, or if it has no records at all and would replace
# a corpus that has some. Without `max_rejects`, only the second rule holds.


class MaxRejects(NamedTuple):
    """How many lines may be rejected."""

    number: float
    is_share: bool  # the number is a percentage of all lines

    def allows(self, counts: LineCounts) -> bool:
        """Return whether not too many lines were rejected."""
        from fractions import Fraction  # noqa: PLC0415 - takes a millisecond, and is rarely needed

        limit = Fraction(str(self.number))  # exact: with doubles, 0.7 % of 1,000 lines are less than 7
        return counts.rejected <= (limit * counts.lines / 100 if self.is_share else limit)

    def __str__(self) -> str:
        return f"{self.number:.15g}{'%' if self.is_share else ''}"


class _OldCorpus(msgspec.Struct):
    """What the gate reads of the manifest of the corpus to be replaced."""

    records: int


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


def why_refused(counts: LineCounts, max_rejects: MaxRejects | None, old_manifest: bytes | None) -> str | None:
    """Return why a corpus must not be published, or None. `old_manifest` is of the corpus that it would replace."""
    if max_rejects and not max_rejects.allows(counts):
        rejected = f"{counts.rejected:,} of {counted(counts.lines, 'line')}"
        return f"{rejected} were rejected, and --max-rejects is {max_rejects}"
    if counts.kept or old_manifest is None:
        return None
    try:
        records = msgspec.json.decode(old_manifest, type=_OldCorpus).records
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "it has no records, and would replace a corpus whose manifest cannot be read"
    return f"it has no records, and would replace a corpus with {records:,}" if records else None


MEMORY_PER_JOB: Final = 512 << 20
_PART_BYTES: Final = 64 << 20

AUTO: Final = "auto"
"""The `schema` that follows from the content."""

_FIELDS: Final = {"hash": "hash_algorithm"}
"""Recorded options that have another name in `Options`."""

Choice = Literal["keep", "first", "reject"]
"""Which of several records to keep: all, the first in the sort order, or none."""

_ZSTD_LEVELS: Final = range(-7, 23)
_GZIP_LEVELS: Final = range(10)

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
RECORDED_IF_SET: Final = ("filters", "track_sources")
"""Options that it records if they are given."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to normalize. Only the first group of options influences the corpus."""

    schema: str = AUTO
    """The schema version of the corpus, or `auto`."""
    hash_algorithm: str = "sha256"
    sample_hash: Literal["replace", "fill", "verify"] = "replace"
    repair: tuple[str, ...] = ()
    """Codes of the repairs to make."""
    sort_by: tuple[str, ...] = ()
    same_run: Literal["keep", "ignore"] = "keep"
    conflicts: Choice = "keep"
    repeats: Choice = "keep"
    part_size: int = _PART_BYTES
    compression: str = "zst"
    level: int = 3
    max_line_bytes: int = MAX_LINE_BYTES
    max_window: int = MAX_WINDOW
    filters: Filters = Filters()
    """Only records that match these; all other lines are treated as ever."""
    track_sources: bool = False  # write the shard and the line of each record to a file beside its part

    jobs: int = 1
    engine: Literal["pool", "dask"] = "pool"
    scheduler: str | None = None  # address of a Dask scheduler; None starts a cluster on this machine
    memory: int | None = None  # memory limit in bytes for all jobs together; None is 512 MiB per job
    skip_bad_shards: bool = False
    max_rejects: int | float | str | None = None  # a number of lines or a percentage; None publishes in any case
    fresh: bool = False  # do not resume an interrupted run
    overwrite: bool = False
    incremental: bool = False  # keep work for the next run, and reuse what the last one kept
    check: Literal["stat", "content"] = "stat"  # how to tell whether a file changed since the last incremental run
    work_dir: str | None = None
    may_be_empty: bool = False  # make a corpus even if no record matches the filters
    limits: Limits = LIMITS
    """Bounds of the work. Only tests change them."""

    def __post_init__(self) -> None:
        for name in ("part_size", "level", "max_line_bytes", "max_window", "jobs", "memory"):
            value = getattr(self, name)
            if not isinstance(value, int) and (name, value) != ("memory", None):
                raise UsageError(f"{name} must be an integer, not {value!r}; sizes are in bytes")
        if self.jobs < 1:
            raise UsageError(f"jobs must be at least 1, not {self.jobs}")
        _one_of("engine", self.engine, ("pool", "dask"))
        if self.scheduler and self.engine != "dask":
            raise UsageError("a scheduler needs the engine dask: give --engine dask")
        _one_of("schema", self.schema, (*TARGETS, AUTO))
        _one_of("hash_algorithm", self.hash_algorithm, tuple(HASHES))
        _one_of("sample_hash", self.sample_hash, ("replace", "fill", "verify"))
        _one_of("same_run", self.same_run, ("keep", "ignore"))
        _one_of("conflicts", self.conflicts, ("keep", "first", "reject"))
        _one_of("repeats", self.repeats, ("keep", "first", "reject"))
        _one_of("compression", self.compression, COMPRESSIONS)
        _one_of("check", self.check, ("stat", "content"))
        if self.check == "content" and not self.incremental:
            raise UsageError("check content needs an incremental run: give --incremental, too")
        for code in self.repair:
            _one_of("repair", code, tuple(REPAIRS))
        for field in self.sort_by:
            _one_of("sort_by", field, METRIC_FIELDS)
            if self.schema != AUTO and field not in self.target.sort_fields:
                raise UsageError(f"sort_by: records of schema {self.schema} have no {field}")
        if self.part_size < 1 << 10:
            raise UsageError("part_size must be at least 1 KiB")
        if self.memory is not None and self.memory < 1 << 20:
            raise UsageError("memory must be at least 1 MiB: give a unit, as in 4GiB")
        _ = self.gate
        levels = {"zst": _ZSTD_LEVELS, "gz": _GZIP_LEVELS}.get(self.compression)
        if levels and self.level not in levels:
            raise UsageError(f"level must be from {levels[0]} to {levels[-1]} for {self.compression}, not {self.level}")

    @property
    def target(self) -> Schema:
        """The schema version of the corpus; the default one if it is not known yet."""
        return TARGETS.get(self.schema, DEFAULT_SCHEMA)

    def with_target(self, target: Schema) -> Options:
        """Return the options for a corpus of this version, which may lack some of the fields to sort by."""
        sort_by = tuple(field for field in self.sort_by if field in target.sort_fields)
        return msgspec.structs.replace(self, schema=target.name, sort_by=sort_by)

    @property
    def sort_fields(self) -> tuple[str, ...]:
        """All fields of the sort key, in order."""
        fields = self.target.sort_fields
        return sort_order((field for field in self.sort_by if field in fields), fields)

    @property
    def recorded(self) -> dict[str, object]:
        """The options that the manifest records."""
        given = [name for name in RECORDED_IF_SET if getattr(self, name)]
        recorded = {name: getattr(self, _FIELDS.get(name, name)) for name in (*RECORDED, *given)}
        if self.filters:
            filters = msgspec.structs.asdict(self.filters)
            recorded["filters"] = {name: value for name, value in filters.items() if value}
        return recorded

    @property
    def leaves_out(self) -> bool:
        """Whether contradictions or repeats are left out."""
        return (self.conflicts, self.repeats) != ("keep", "keep")

    @property
    def gate(self) -> MaxRejects | None:
        """How many rejected lines are allowed, if there is a limit."""
        return None if self.max_rejects is None else parse_max_rejects(self.max_rejects)

    @property
    def memory_per_job(self) -> int:
        """Memory limit of one process."""
        return MEMORY_PER_JOB if self.memory is None else self.memory // self.jobs

    @property
    def run_bytes(self) -> int:
        """Text and bookkeeping that a worker collects before it spills; sorting needs some more memory."""
        return min(max(self.memory_per_job // 5, 1 << 20), self.limits.run_bytes)

    @property
    def known_input_bytes(self) -> int:
        """Memory for known inputs; it stays occupied while a worker sorts."""
        return min(self.memory_per_job // 40, KNOWN_INPUT_BYTES)

    @property
    def large_run_bytes(self) -> int:
        """The same for a huge input, where fewer runs are worth more memory."""
        return max(min(self.memory_per_job // 5, 96 << 20), self.run_bytes)

    @property
    def window_bytes(self) -> int:
        """Bytes of a part merged at a time."""
        return min(max(self.memory_per_job // 32, 1 << 20), self.limits.window_bytes)

    def window_for(self, runs: int) -> int:
        """Bytes merged at a time from this many runs: more for many runs, so that reads do not become too small."""
        return max(self.window_bytes, min(runs * self.limits.read_bytes, self.memory_per_job // 8))

    @property
    def wide_window_bytes(self) -> int:
        """Bytes merged at a time from hundreds of runs, in as few reads as memory allows."""
        return max(self.window_bytes, min(self.memory_per_job // 4, self.limits.wide_window_bytes))

    @property
    def fan_in(self) -> int:
        """Runs that can be merged at a time without reads that are too small."""
        return max(self.memory_per_job // 4 // (self.limits.read_bytes // 4), 2)


def make_options(**given: Any) -> Options:
    """Make options from the arguments of `normalize`, which has the filters as arguments of their own.

    `hash` is a filter, unless it is the name of an algorithm: that was its meaning in earlier releases.
    """
    given["sort_by"] = field_names("sort_by", given.get("sort_by", ()))
    given["repair"] = repair_codes(field_names("repair", given.get("repair", ())))
    patterns = as_tuple("hash", given.pop("hash", ()))
    if algorithms := [one for one in patterns if one in HASHES]:
        given["hash_algorithm"] = algorithms[-1]
    given["hash"] = [one for one in patterns if one not in HASHES]
    filters = make_filters(**{name: given.pop(name) for name in FilterArguments.__annotations__ if name in given})
    return Options(**given, filters=filters)


def options_from(recorded: Mapping[str, object], **more: Any) -> Options:
    """Return the options that a manifest records, with some others.

    Raises:
        msgspec.ValidationError: A value has a wrong type.
        UsageError: A value is not allowed.
    """
    return msgspec.convert({_FIELDS.get(name, name): value for name, value in recorded.items()} | more, Options)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
