"""The options of a run: one list, from which everything else about options follows.

A field of `Options` says what it decides, in its annotation (`About`). From that follow

    settings     what kept work and interrupted work are compared by (`Options.settings_of`)
    trust        which corpora have lines as this run would make them (`Options.why_judged_again`)
    manifest     what it records (`Options.recorded`)
    commands     the options of `fastrec normalize`, with their help (`cli.normalize`)

The sizes of buffers follow from options, too.
"""

import enum
import os
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from fastrec.build import identity
from fastrec.corpus.writer import COMPRESSIONS
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, check_choice
from fastrec.filters import (
    FilterArguments,
    Filters,
    Paths,
    Strings,
    field_names,
    make_filters,
    several_paths,
)
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
from fastrec.normalize.task_settings import Choice, LineSettings, PartSettings
from fastrec.parameters import CORES, AnyPath, Names
from fastrec.schemas.hashes import HASHES
from fastrec.schemas.registry import DEFAULT_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC_FIELDS, sort_order
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES
from fastrec.summary.document import LineCounts, filled

MEMORY_PER_JOB = 512 << 20
# Memory of a worker that is not the text and the bookkeeping of a run.
_BESIDES_A_RUN = 160 << 20
FEW_FENCES = 32  # of a run that will be merged: a sample of its keys

AUTO = "auto"  # the `schema` that follows from the content


class Decides(enum.Enum):
    """What an option decides."""

    LINES = "how lines are judged, and so the bytes of the corpus"
    BYTES = "the bytes of the corpus, but not how lines are judged"
    NEITHER = "how, where and whether a corpus is made, but not its bytes"


# When the lines of a corpus need not be judged again: whatever the option was and is; if it is as
# the corpus was made; unless the corpus was made with `fill`; unless it is given now; unless it is
# smaller now than its default.
Trusted = Literal["always", "if the same", "unless it was fill", "unless given", "unless smaller"]


class About(Struct, frozen=True):
    """What an option means, besides its type and its default."""

    decides: Decides
    # A sentence for the command line; empty if several commands share it (`cli.options`).
    help: str = ""
    # If it decides how lines are judged: when the lines of a corpus need not be judged again.
    trusted: Trusted | None = None
    # Its values, the default first. A `Literal` has them as its type.
    choices: Names = ()
    is_size: bool = False  # Whether it is a number of bytes.
    # How the manifest records it, if it decides the bytes of the corpus: among the options, also
    # if it has its default; only if it differs from that; or in another field.
    recorded: Literal["always", "if given", "elsewhere"] = "if given"
    # Whether finished work is brought up to date with a new value, instead of being discarded.
    is_updated: bool = False


_lines = partial(About, Decides.LINES)
_bytes = partial(About, Decides.BYTES)
_neither = partial(About, Decides.NEITHER)


def _default_jobs() -> int:
    return CORES


class MaxRejects(NamedTuple):
    number: float
    is_share: bool  # the number is a percentage of all lines

    def allows(self, counts: LineCounts) -> bool:
        from fractions import Fraction  # noqa: PLC0415 - takes a millisecond, and is rarely needed

        # Exact: with doubles, 0.7 % of 1,000 lines are less than 7.
        limit = Fraction(str(self.number))
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


class Options(Struct, frozen=True, rename={"hash_algorithm": "hash"}):
    """How to normalize. Each field says what it decides.

    The names of fields in a manifest are those of the encoded form: `hash` is the algorithm.
    """

    schema: Annotated[
        str,
        _lines(
            "Schema version of the corpus; auto: 0.2.0 if all valid records are of that version "
            "and none names a metric, else 0.3.0.",
            "if the same",
            choices=(AUTO, *TARGETS),
            recorded="elsewhere",
        ),
    ] = AUTO
    hash_algorithm: Annotated[
        str,
        _lines("", "if the same", choices=tuple(HASHES), recorded="always"),
    ] = "sha256"
    sample_hash: Annotated[
        SampleHashMode,
        _lines(
            "If a record's sample_hash is wrong: replace it, keep it (fill), or reject the record "
            "(verify).",
            "unless it was fill",
            recorded="always",
        ),
    ] = "replace"
    repair: Annotated[Names, _lines("", "always", recorded="always")] = ()
    sort_by: Annotated[
        Names,
        _bytes(
            "Sort by these comma-separated fields first, then by the others.", recorded="elsewhere"
        ),
    ] = ()
    same_run: Annotated[
        Literal["keep", "ignore"],
        _bytes(
            "Records that are equal but for evaluation_id and schema_version: keep all, or drop "
            "all but the first as duplicates.",
            recorded="always",
        ),
    ] = "keep"
    conflicts: Annotated[
        Choice,
        _bytes(
            "Contradictions (records of one identity with the same output and different verdicts): "
            "keep all, keep the first, or reject all.",
            recorded="always",
        ),
    ] = "keep"
    repeats: Annotated[
        Choice,
        _bytes(
            "Repeats (other records of one identity, such as epochs): keep all, keep the first, or "
            "reject all.",
            recorded="always",
        ),
    ] = "keep"
    part_size: Annotated[
        int,
        _bytes(
            "Uncompressed text per part; a corpus of less than 8 such parts gets smaller ones, of "
            "at least 16 MiB.",
            is_size=True,
            recorded="always",
        ),
    ] = 64 << 20
    compression: Annotated[
        str, _bytes("Compression of the parts.", choices=COMPRESSIONS, recorded="always")
    ] = "zst"
    level: Annotated[int, _bytes("Compression level.", recorded="always")] = 3
    max_line_bytes: Annotated[int, _lines("", "always", is_size=True, recorded="always")] = (
        MAX_LINE_BYTES
    )
    max_window: Annotated[int, _lines("", "unless smaller", is_size=True)] = MAX_WINDOW
    filters: Annotated[Filters, _lines("", "always")] = Filters()
    track_sources: Annotated[
        bool,
        _bytes(
            "Also write the shard and line of each record, beside its part.",
            is_updated=True,
        ),
    ] = False
    map: Annotated[
        tuple[NameRule, ...],
        _lines(
            "Rename by a TOML file with [models], [evaluations] and [metrics], in which each line "
            'is "old" = "new"; a * matches anything. Or eee: names by Every Eval Ever become those '
            "of `fastrec import`. May be repeated.",
            "unless given",
        ),
    ] = ()
    keep_names: Annotated[
        bool,
        _lines(
            "With --map: keep the old names in metadata.original_model_id and the like.",
            "unless given",
        ),
    ] = False
    labels: Annotated[
        GivenFile | None,
        _lines(
            "Correct verdicts by JSON lines, such as `fastrec view --labels` writes. The verdict "
            "before stays in metadata.original_score and the like.",
            "unless given",
        ),
    ] = None
    fixes: Annotated[
        GivenFile | None,
        _lines(
            "Corrected lines: the file that `fastrec rejects --extract` wrote, edited.",
            "always",
        ),
    ] = None
    trust: Annotated[
        bool,
        _lines(
            "Do not judge the records of a corpus again, whoever published it. Broken lines stay.",
            "always",
            recorded="elsewhere",
        ),
    ] = False

    judge: Annotated[
        bool,
        _neither("Judge the records of a corpus again, even of your own."),
    ] = False
    strict_labels: Annotated[
        bool, _neither("Publish nothing if a label matches no record or several.")
    ] = False
    max_rejects: Annotated[
        int | float | str | None,
        _neither(
            "If more lines are rejected, put the corpus at OUTPUT.refused instead, and exit 1."
        ),
    ] = None
    check_secrets: Annotated[
        bool,
        _neither(
            "If metadata have what looks like a credential, put the corpus at OUTPUT.refused "
            "instead, and exit 1."
        ),
    ] = False
    skip_bad_shards: Annotated[
        bool, _neither("Publish without the shards that cannot be read.")
    ] = False
    allow_empty: Annotated[
        bool,
        _neither("Publish even if no line is valid, or no record matches the filters."),
    ] = False
    overwrite: Annotated[bool, _neither("")] = False
    incremental: Annotated[
        bool,
        _neither(
            "Keep work for the next run, and reuse what the last run kept: only new and changed "
            "shards are read, and only parts that change are written. `fastrec clean` removes kept "
            "work."
        ),
    ] = False
    check: Annotated[
        Literal["stat", "content"],
        _neither(
            "How --incremental tells whether a file has changed: by size, modification time and "
            "inode or ETag (stat), or by reading it (content)."
        ),
    ] = "stat"
    fresh: Annotated[bool, _neither("Do not reuse the work of earlier runs.")] = False
    work_dir: Annotated[str | None, _neither("")] = None
    jobs: Annotated[int, _neither("")] = msgspec.field(default_factory=_default_jobs)
    engine: Annotated[
        Literal["pool", "dask"],
        _neither("Where tasks run: local processes, or a Dask cluster."),
    ] = "pool"
    scheduler: Annotated[str | None, _neither("Address of the Dask scheduler.")] = None
    memory: Annotated[int | None, _neither("Total memory to use.", is_size=True)] = None

    def __post_init__(self) -> None:
        for name, about in OPTIONS.items():
            value = getattr(self, name)
            if about.choices:
                check_choice(name, value, about.choices)
            elif name in _INTEGERS and not isinstance(value, int) and value != DEFAULTS[name]:
                raise UsageError(f"{name} must be an integer, not {value!r}; sizes are in bytes")
        check_jobs(self.jobs)
        mistakes = (
            (
                self.scheduler and self.engine != "dask",
                "a scheduler needs the engine dask: give --engine dask",
            ),
            (
                self.keep_names and not self.map,
                "--keep-names needs --map, which changes names",
            ),
            (self.strict_labels and not self.labels, "--strict-labels needs --labels"),
            (
                self.trust and self.judge,
                "--trust and --judge contradict each other: give one of them",
            ),
            (
                self.check == "content" and not self.incremental,
                "check content needs an incremental run: give --incremental, too",
            ),
            (self.part_size < 1 << 10, "part_size must be at least 1 KiB"),
            (
                self.memory is not None and self.memory < 1 << 20,
                "memory must be at least 1 MiB: give a unit, as in 4GiB",
            ),
        )
        for is_wrong, message in mistakes:
            if is_wrong:
                raise UsageError(message)
        if self.max_rejects is not None:
            parse_max_rejects(self.max_rejects)
        for code in self.repair:
            check_choice("repair", code, tuple(REPAIRS))
        for field in self.sort_by:
            check_choice("sort_by", field, METRIC_FIELDS)
            if self.schema != AUTO and field not in self.target.sort_fields:
                raise UsageError(f"sort_by: records of schema {self.schema} have no {field}")
        levels = {"zst": range(-7, 23), "gz": range(10)}.get(self.compression)
        if levels and self.level not in levels:
            raise UsageError(
                f"level must be from {levels[0]} to {levels[-1]} for {self.compression}, not "
                f"{self.level}"
            )

    # What follows from the list of options

    @property
    def recorded(self) -> dict[str, object]:
        """The options that the manifest records."""
        recorded = {}
        for name, key in RECORDED.items():
            value = getattr(self, name)
            if OPTIONS[name].recorded == "if given" and value == DEFAULTS[name]:
                continue
            if isinstance(value, Filters):
                given = asdict(value).items()
                value = {field: patterns for field, patterns in given if patterns}
            elif isinstance(value, GivenFile):
                value = {"sha256": value.sha256}
            recorded[key] = value
        return recorded

    def settings_of(self, target: Schema) -> dict[str, str]:
        """Everything besides the records that decides the bytes of a corpus of this target.

        Values are as users write them. Finished work of other settings is not reused.
        """
        limits = current_limits()
        settings = identity() | {
            "cuts": f"{limits.most_borders} {limits.most_parts} {limits.fewest_parts} "
            f"{limits.least_part}"
        }
        for name, about in OPTIONS.items():
            if about.decides is not Decides.NEITHER and not about.is_updated:
                settings[name] = _spelled(getattr(self, name), about)
        settings["schema"] = f"auto ({target.name})" if self.schema == AUTO else target.name
        settings["sort_by"] = ",".join(self.sort_fields_of(target))
        if self.repair == tuple(REPAIRS):
            settings["repair"] = "all"
        return settings

    def why_judged_again(self, recorded: Mapping[str, object]) -> str:
        """Why the lines of a corpus with these recorded options are judged again.

        Empty if they need not be. The schema version is compared elsewhere.
        """
        for name, key in RECORDED.items():
            value = recorded.get(key)
            given = f"it was made with --{name.replace('_', '-')} {value}"
            rule = OPTIONS[name].trusted
            if rule == "if the same" and value != getattr(self, name):
                return f"{given}, and the new corpus is made with {getattr(self, name)}"
            if rule == "unless it was fill" and value == "fill":
                return f"{given}, so a sample_hash may be wrong"
        return ""

    @property
    def judges_all_lines(self) -> bool:
        """Whether lines of trusted corpora are judged, too: they change, or may be refused."""
        given = [name for name, about in OPTIONS.items() if about.trusted == "unless given"]
        return any(getattr(self, name) for name in given) or self.max_window < MAX_WINDOW

    @property
    def target(self) -> Schema:
        """The schema version of the corpus; the default one if it is not known yet."""
        return TARGETS.get(self.schema, DEFAULT_SCHEMA)

    @property
    def sort_fields(self) -> Names:
        return self.sort_fields_of(self.target)

    def sort_fields_of(self, target: Schema) -> Names:
        """The same for a corpus of this version, which may lack some of the fields to sort by."""
        fields = target.sort_fields
        return sort_order((field for field in self.sort_by if field in fields), fields)

    @property
    def gate(self) -> MaxRejects | None:
        return None if self.max_rejects is None else parse_max_rejects(self.max_rejects)

    @property
    def memory_per_job(self) -> int:
        return MEMORY_PER_JOB if self.memory is None else self.memory // self.jobs

    def line_settings(self, target: Schema) -> LineSettings:
        judge = JudgeSettings(
            target=target.name,
            target_is_guess=self.schema == AUTO,
            algorithm=self.hash_algorithm,
            sample_hash=self.sample_hash,
            repairs=frozenset(self.repair),
            filters=self.filters,
            # The memory stays occupied while a worker sorts.
            known_input_bytes=min(self.memory_per_job // 40, KNOWN_INPUT_BYTES),
        )
        return filled(LineSettings, self, judge=judge, sort_fields=self.sort_fields_of(target))

    @property
    def part_settings(self) -> PartSettings:
        return filled(PartSettings, self)

    # Sizes of buffers, which follow from the memory of a process

    @property
    def _small_run_bytes(self) -> int:
        return min(max(self.memory_per_job // 5, 1 << 20), current_limits().run_bytes)

    def run_bytes(self, text: int) -> int:
        """Text and bookkeeping that a worker collects before it spills; sorting needs some more.

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
        """Bytes merged at a time from this many runs.

        They are more for many runs, so that reads do not become too small.
        """
        limits = current_limits()
        window_bytes = min(max(self.memory_per_job // 32, 1 << 20), limits.window_bytes)
        return max(window_bytes, min(runs * limits.read_bytes, self.memory_per_job // 8))

    @property
    def fan_in(self) -> int:
        """Runs that can be merged at a time without reads that are too small."""
        limits = current_limits()
        most = self.memory_per_job // 4 // (limits.read_bytes // 4)
        return min(max(most, 2), limits.merge_fan_in)


def _about(annotation: Any) -> About:
    """What an annotation of `Options` says, with the choices of its type."""
    type_, about = get_args(annotation)
    assert isinstance(about, About)
    choices = about.choices or tuple(value for value in get_args(type_) if isinstance(value, str))
    return replace(about, choices=choices)


_ANNOTATIONS = get_type_hints(Options, include_extras=True)
_INTEGERS = {name for name, hint in _ANNOTATIONS.items() if get_args(hint)[0] in (int, int | None)}
# What each option means: one list for the command line, the manifest, reuse and trust.
OPTIONS = {name: _about(annotation) for name, annotation in _ANNOTATIONS.items()}
# The options that a manifest may record, with their names in it.
RECORDED = {
    name: key
    for name, key in zip(Options.__struct_fields__, Options.__struct_encode_fields__, strict=True)
    if OPTIONS[name].decides is not Decides.NEITHER and OPTIONS[name].recorded != "elsewhere"
}
DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Options)}


def _spelled(value: Any, about: About) -> str:
    """A value as users write it. Values that differ are spelled differently."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, GivenFile):
        return value.sha256
    if about.is_size:
        return spell_size(value)
    if isinstance(value, tuple):
        value = ",".join(
            each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in value
        )
    return str(value or "none")


def spell_size(size: int) -> str:
    """Spell a number of bytes with its largest unit.

    >>> spell_size(64 << 20), spell_size(1000)
    ('64MiB', '1000')
    """
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


class NormalizeArguments(FilterArguments, total=False):
    """The fields of `Options` and the filters, as arguments of a Python function.

    Type checkers need them spelled out; a test compares them with `Options`.
    """

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
    track_sources: bool
    map: Paths
    keep_names: bool
    labels: AnyPath | None
    fixes: AnyPath | None
    trust: bool
    judge: bool
    strict_labels: bool
    max_rejects: int | float | str | None
    check_secrets: bool
    skip_bad_shards: bool
    allow_empty: bool
    overwrite: bool
    incremental: bool
    check: Literal["stat", "content"]
    fresh: bool
    work_dir: str | None
    jobs: int
    engine: Literal["pool", "dask"]
    scheduler: str | None
    memory: int | None


def make_options(**given: Any) -> Options:
    """Make options from the arguments of `normalize`, which has the filters as arguments, too."""
    given["sort_by"] = field_names("sort_by", given.get("sort_by", ()))
    given["repair"] = repair_codes(field_names("repair", given.get("repair", ())))
    maps = several_paths("map", given.get("map", ()))
    given["map"] = tuple(rule for path in maps for rule in read_names(os.fspath(path)))
    if (path := given.pop("labels", None)) is not None:
        given["labels"] = GivenFile.at(os.fspath(path))
        read_labels(given["labels"])
    if (path := given.pop("fixes", None)) is not None:
        given["fixes"] = GivenFile.at(os.fspath(path), os.fspath(path) + PLACES)
        read_fixes(given["fixes"])
    names = given.keys() & FilterArguments.__annotations__.keys()
    filters = make_filters(**{name: given.pop(name) for name in names})
    return Options(**given, filters=filters)


def options_from(recorded: Mapping[str, object], **more: Any) -> Options:
    """The options that a manifest records, with some others.

    ValidationError or UsageError if a value is wrong.
    """
    return convert(dict(recorded) | more, Options)
