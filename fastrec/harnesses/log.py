"""The interface between `import` and the harnesses: what a log is, and what is read of it.

    files ── role_of ──▶ found files ── logs_of ──▶ logs ── plan ──▶ slices ── samples ──▶ samples

1. `harnesses.toml` tells what a file is by its first HEAD_BYTES, decompressed: by its content,
   never by its name. Where patterns do not tell it, as in a zip archive, `role_of(head, path) ->
   str | None` does.
2. `logs_of(files) -> Grouped` groups files into logs. A log is one run of one task by one model,
   and becomes one shard.
3. `plan(log) -> LogPlan` reads what a log says about the run and its aggregates, and cuts the
   samples into slices.
4. `samples(log, run, log_slice) -> Iterator[Sample | str]` reads a slice. A text says why a sample
   is left out. Slices of one log may be read at the same time.

A harness with small logs has `read(log) -> Reading` instead of the last two: they are one slice.

All run in workers. The last two raise LogError if a log is damaged, or ShardError if a file cannot
be read.

A harness never guesses a score and never writes: `convert` turns samples into records, for all
harnesses alike. What harnesses share:

    files        ranges of bytes, whole files, JSON documents, rows of JSON, Parquet
    values       JSON as Python writes it, numbers, texts, objects and lists of any value
    choices      multiple choice by log-likelihood
    json_array   a document with one long array, in bounded memory
    transcripts  the question in a prompt, conversations with tool calls, trajectories in ATIF
    below        files by role and folder, logs by name, results by run, figures of pass@k,
                 plans, answers in a single turn, samples with every metric, extracted answers,
                 tokens
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, Struct, UnsetType

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.values import (
    JsonObject,
    OptionalInt,
    OptionalNumber,
    OptionalText,
    Texts,
    as_object,
    number_of,
    spelled,
)
from fastrec.schemas.newest import (
    AnswerAttribution,
    Input,
    Message,
    Output,
    Performance,
    TokenUsage,
)
from fastrec.storage import base_name, parent_of

_T = TypeVar("_T")
_K = TypeVar("_K")

HEAD_BYTES = 1 << 16  # how much of a file `role_of` gets to see


class FoundFile(Struct, frozen=True):
    path: str
    size: int
    role: str  # what it contains, in the words of its harness: for example `samples` or `results`


Files = Sequence[FoundFile]


class Log(Struct, frozen=True):
    """A log as discovery found it; small and picklable."""

    harness: str
    path: str  # the file or directory that messages name it by
    # All files that it is read from. Their contents, in this order, identify the log.
    files: tuple[FoundFile, ...]
    # the task, if the files of several tasks are grouped by it; else `plan` finds it
    task: str = ""
    columns: Any = None  # what the columns of a table mean
    in_path: Texts = {}  # what the path of a table says, by the names of a pattern

    @property
    def paths(self) -> Texts:
        """The paths of the files by role."""
        return {file.role: file.path for file in self.files}

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class BadLog(Struct, frozen=True):
    """A log that cannot be imported."""

    #: A file or directory.
    path: str
    #: What is wrong with it.
    reason: str


class Grouped(Struct):
    logs: list[Log] = []
    bad: list[BadLog] = []  # files that lack the others of their log
    others: list[str] = []  # files of the harness that are not needed

    @property
    def used(self) -> set[str]:
        return {file.path for log in self.logs for file in log.files}

    @contextmanager
    def collecting_bad(self) -> Iterator[None]:
        """Collect what cannot be read."""
        try:
            yield
        except (LogError, ShardError) as exc:
            self.bad.append(BadLog(exc.path, exc.reason))


OTHER = "other"  # the role of files that no log needs


FilesByRole = defaultdict[str, list[FoundFile]]


def lists_by(key_of: Callable[[_T], _K], items: Iterable[_T]) -> defaultdict[_K, list[_T]]:
    """Lists of items that have the same key."""
    lists = defaultdict(list)
    for item in items:
        lists[key_of(item)].append(item)
    return lists


by_role = partial(lists_by, attrgetter("role"))


def by_folder(files: Iterable[FoundFile], **levels: int) -> dict[str, FilesByRole]:
    """The files below each folder, by role; `levels` says of roles how far below, if not one."""
    folders: dict[str, FilesByRole] = {}
    for file in files:
        folder = file.path
        for _ in range(levels.get(file.role, 1)):
            folder = parent_of(folder)
        folders.setdefault(folder, defaultdict(list))[file.role].append(file)
    return folders


def logs_by_name(
    harness: str,
    files: Iterable[FoundFile],
    names_in: Callable[[FoundFile], Iterable[str]],
    beside: Callable[[FoundFile], Sequence[FoundFile]] = lambda _: (),
) -> Grouped:
    """A log for each name in each file, such as a model, with the files that it needs besides."""
    grouped = Grouped()
    for file in files:
        with grouped.collecting_bad():
            for name in dict.fromkeys(names_in(file)):
                grouped.logs.append(Log(harness, file.path, (file, *beside(file)), name))
    return grouped


_DATE = r"(\d{4}-\d\d-\d\dT\d\d)[-:_](\d\d)[-:_](\d\d(?:\.\d+)?)"


def date_in(path: str) -> str:
    """The last date in the name of a file, with colons; empty if there is none.

    >>> date_in("out/samples_mmlu_pro_2024-11-28T01-02-03.456789.jsonl.zst")
    '2024-11-28T01:02:03.456789'
    """
    dates = re.findall(_DATE, base_name(path))
    return ":".join(dates[-1]) if dates else ""


class Run(NamedTuple):
    """The results of a run, of which the samples of each task are files of their own."""

    file: FoundFile
    results: Any
    date: str


def runs_in(files: Iterable[FoundFile], read: Callable[[str], Any], grouped: Grouped) -> list[Run]:
    runs = []
    for file in by_role(files)["results"]:
        with grouped.collecting_bad():
            runs.append(Run(file, read(file.path), date_in(file.path)))
    return runs


def in_groups(items: Iterable[_T], size_of: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """Items in groups, each of which ends where its sizes add up to `most`."""
    group = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= most:
            yield group
            group = []
            size = 0
    if group:
        yield group


class RunInfo(Struct, frozen=True):
    """What all records of a log have in common."""

    task: str  # becomes `evaluation_name`
    model: str  # becomes `model_id`
    # the run's own start time as the log spells it; with task and model it is the `evaluation_id`
    started: str
    version: str = ""
    metadata: Texts = {}  # added to the metadata of all records
    # Metrics of which the log says so; `kinds` knows others by name.
    lower_is_better: frozenset[str] = frozenset()
    scales: dict[str, tuple[float, float]] = {}  # the lowest and highest score, by metric

    @property
    def evaluation_id(self) -> str:
        """The identity of the run: the same whenever the log is imported."""
        return f"{self.task}/{self.model}/{self.started}"


class Aggregate(Struct, frozen=True):
    """A mean that the log states, to be recomputed from the records."""

    metric: str  # the `evaluation_result_id` of the records that it is the mean of
    name: str  # what the log calls it
    value: float
    samples: OptionalInt = None  # the number of scores that it is the mean of, if the log says it
    # What makes one score of those of several epochs (`REDUCERS`); empty if it is a mean of all.
    reducer: str = ""


# Means to compare, and of other figures, why they are not compared.
Figures = tuple[list[Aggregate], Texts]

_MOST_DIGITS = 9  # of a k that makes sense


def pass_at_k(metric: str, stated: Any, prefix: str = "") -> list[Aggregate]:
    """The figures of an object with keys like `pass@2`, or `2`; other keys are skipped."""
    figures = []
    for name, value in as_object(stated).items():
        k = name.removeprefix("pass@")
        number = number_of(value)
        if k.isdecimal() and len(k) < _MOST_DIGITS and number is not None:
            figures.append(Aggregate(metric, f"{prefix}pass@{k}", number, reducer=f"pass_at_{k}"))
    return figures


class LogPlan(Struct, frozen=True):
    run: RunInfo
    # What `samples` gets: small, picklable, and about 16 MB of text each. They depend on the log
    # only. By default, the log is read as a whole.
    slices: Sequence[Any] = (None,)
    aggregates: Sequence[Aggregate] = ()
    # aggregates that are not means of scores, each with the reason
    not_compared: Texts = {}
    expected_samples: OptionalInt = None
    notes: Sequence[str] = ()  # what a user should know, for example that the run did not finish
    left_out: dict[str, int] = {}  # samples that have no record, counted by reason
    # Columns that a table lacks, each with what to say if all tables lack it.
    absent: Texts = {}


def plan_of(
    task: str, model: str, started: str, metadata: JsonObject, version: str = "", **others: Any
) -> LogPlan:
    """Plan a log; `others` are further fields of the plan."""
    return LogPlan(
        run=RunInfo(
            task=task,
            model=model,
            started=started,
            version=version,
            metadata=spelled(metadata),
        ),
        **others,
    )


class Score(Struct, gc=False):
    """One score of a sample: it becomes one record."""

    metric: str  # `evaluation_result_id`: metric and variant, like `acc` or `exact_match:strict`
    value: OptionalNumber  # a finite number, or None if there is none
    # If there is no number: why. Becomes the record's `error`.
    problem: str = ""
    # What was extracted for this metric; None: as the sample says.
    answers: list[AnswerAttribution] | None = None
    # What the model said, where that depends on the metric; None: as the sample says.
    output: Output | None = None
    metadata: Texts = {}  # added to the sample's metadata, for example the filter
    fields: JsonObject = {}  # metadata of the score in the log, as `Sample.fields`


class Sample(Struct, gc=False):
    """One sample of a log: what was asked, what the model did, and its scores."""

    sample_id: OptionalText  # None: the first digits of its hash
    input: Input
    scores: list[Score]  # if there is none, the record says that the sample is not scored
    output: Output | None = None  # what the model said, if the interaction has a single turn
    messages: list[Message] | None = None  # the whole transcript otherwise
    interaction_type: str = "single_turn"
    answers: list[AnswerAttribution] = []
    num_turns: int | UnsetType = UNSET
    tool_calls: int | UnsetType = UNSET
    token_usage: TokenUsage | None = None
    performance: Performance | None = None
    error: str = ""  # what went wrong with the sample itself; it is the error of all its records
    # What the harness says about the sample, under names of fastrec: see `metadata.py`.
    metadata: Texts = {}
    # Metadata of the sample in the log, under its own names: the user chooses which are kept.
    fields: JsonObject = {}
    unread: Sequence[str] = ()  # fields that the log has for this sample, and that no record holds
    # the run of this sample, if a table has several; None: that of the log
    run: RunInfo | None = None


def answer_to(
    asked: str,
    expected: list[str],
    said: list[str],
    formatted: str | UnsetType = UNSET,
    **others: Any,
) -> Sample:
    """A sample with an answer in a single turn; `others` are its further fields."""
    return Sample(
        input=Input(raw=asked, formatted=formatted, reference=expected),
        output=Output(raw=said),
        **others,
    )


# A small log: what it says about its run, and its samples, which are read when they are needed.
Samples = Iterable[Sample | str]  # a text says why a sample is left out
Reading = tuple[LogPlan, Samples]

NOT_SCORED = "the log has no score for this sample"


def with_every_metric(samples: Samples) -> list[Sample | str]:
    """Give samples without a score an error for each metric that other samples have."""
    all_samples = list(samples)
    whole = [sample for sample in all_samples if isinstance(sample, Sample)]
    metrics = dict.fromkeys(score.metric for sample in whole for score in sample.scores)
    for sample in whole:
        if sample.error or not sample.scores:
            known = {score.metric for score in sample.scores}
            sample.scores += [
                Score(metric, None, NOT_SCORED) for metric in metrics if metric not in known
            ]
    return all_samples


_MANY = 1 << 53


def tokens_of(read: Any, written: Any) -> TokenUsage | None:
    """The tokens of prompt and answer; None unless both are numbers and make sense."""
    numbers = [number for number in map(number_of, (read, written)) if number is not None]
    if len(numbers) < 2 or not 0 <= min(numbers) <= max(numbers) < _MANY:
        return None
    asked, said = map(round, numbers)
    return TokenUsage(input_tokens=asked, output_tokens=said, total_tokens=asked + said)


def extracted(
    text: str, method: str, turn: int = 0, source: str = "output.raw"
) -> AnswerAttribution:
    """The answer that a filter or scorer extracted from what the model said."""
    return AnswerAttribution(
        turn_idx=turn,
        source=source,
        extracted_value=text,
        extraction_method=method,
        is_terminal=True,
    )
