"""Checking one part: its checksum, every line, their order, and the statistics of its records.

    checksum of the file · judge every line, which must be its own normal form ──▶ order ──▶ tally ·
    census

The task also reads the sources of the part: one line per record, each with an input of the corpus
and one of its lines. The results are compared with the manifest. The census and the counts of the
part go to files, as in pass 2. Memory holds a chunk of text, and the keys and rows of one part.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise, repeat
from operator import lt
from typing import Any

from msgspec import Struct, to_builtins
from xxhash import xxh3_128

from fastrec.corpus.columns import ColumnsBuilder, PartColumns
from fastrec.corpus.manifest import (
    MANIFEST,
    Manifest,
    PartEntry,
    RejectsEntry,
    SideFileEntry,
    key_entry,
)
from fastrec.corpus.scan import PartTask
from fastrec.corpus.sources import decode_source, source_lines
from fastrec.errors import CorpusError, ShardError
from fastrec.judge.findings import describe, json_path
from fastrec.judge.judge import JudgedChunk, judge_of, judge_slice
from fastrec.judge.version_rules import JudgeSettings, SampleHashMode
from fastrec.normalize.options import Options
from fastrec.sorting.keys import KeyColumns, column_splitter, key_maker, key_splitter
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Slice, shard_at
from fastrec.storage import fingerprint, sha256_of_file
from fastrec.summary.part_statistics import PartCounts, write_statistics
from fastrec.summary.rows import outcome_of, row_maker
from fastrec.summary.same_run import ContradictionsByFields, contradictions_of
from fastrec.summary.tally import Tally

MOST_PROBLEMS = 20  # problems that are listed per file; further ones are only counted

ABSENT = object()
_SAYS = f"{MANIFEST} says"
_HAS = "the file has"


class Problem(Struct, frozen=True):
    """A problem: its file and line, its kind, and what is wrong."""

    #: Name in the corpus.
    file: str
    #: Its number, from 1; null if the problem concerns the whole file.
    line: int | None
    #: See docs/codes.md#problems-of-a-corpus.
    kind: str
    #: Which file says what, and what is true.
    message: str


def _spelled(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 64:
        return f"{value:,}"
    if isinstance(value, str) and len(value) <= 64:  # a checksum is short enough to be shown
        return value
    return "nothing" if value is ABSENT else describe(value)


class Problems(Struct):
    """The problems of one file, in bounded memory."""

    file: str
    count: int = 0
    listed: list[Problem] = []

    def add(self, kind: str, message: str, line: int | None = None) -> None:
        self.count += 1
        if len(self.listed) < MOST_PROBLEMS:
            self.listed.append(Problem(self.file, line, kind, message))

    def compare(  # noqa: PLR0917
        self, kind: str, what: str, said: Any, actual: Any, by: str = _SAYS, other: str = _HAS
    ) -> None:
        """Add a problem if two values of one thing differ: `what` it is, and who says which."""
        if said != actual:
            self.add(kind, f"{what}: {by} {_spelled(said)}, {other} {_spelled(actual)}")

    def compare_file(self, path: str, listed: PartEntry | SideFileEntry | RejectsEntry) -> None:
        size, digest = sha256_of_file(path)
        self.compare("file.bytes", "size", listed.bytes, size)
        self.compare("file.sha256", "SHA-256", listed.sha256, digest)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read the file in this block; it is a problem if it cannot be read to its end."""
        try:
            yield
        except ShardError as exc:
            self.add(
                "file.unreadable", str(ShardError("", exc.reason, exc.offset)).removeprefix(": ")
            )
        except OSError as exc:
            self.add("file.unreadable", f"cannot be read: {exc.strerror}")

    def __iter__(self) -> Iterator[Problem]:
        yield from sorted(self.listed, key=lambda problem: problem.line or 0)
        if hidden := self.count - len(self.listed):
            yield Problem(self.file, None, "more", f"{hidden:,} more problems in this file")


def differences(
    said: Any, actual: Any, steps: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs between two documents: its path, and both values."""
    if isinstance(said, list) and isinstance(actual, list) and len(said) == len(actual):
        said, actual = dict(enumerate(said)), dict(enumerate(actual))
    if isinstance(said, dict) and isinstance(actual, dict):
        for step in said | actual:
            values = said.get(step, ABSENT), actual.get(step, ABSENT)
            yield from differences(*values, (*steps, step))
    elif said != actual:
        yield json_path(steps), said, actual


class _CheckedSources(Struct):
    problems: Problems
    # By shard, the number of records and its lowest and highest line, each with the number of the
    # record.
    shards: dict[str, tuple[int, tuple[int, int], tuple[int, int]]]
    valid: bool  # whether the file was read to its end, and all lines are sources


def _check_sources(path: str, part: PartEntry) -> _CheckedSources:
    assert part.sources
    problems = Problems(part.sources.file)
    checked = _CheckedSources(problems, {}, valid=False)
    with problems.reading():
        problems.compare_file(path, part.sources)
        valid = True
        records = 0
        for records, line in source_lines(path):
            try:
                source = decode_source(path, records, line)
            except CorpusError as exc:
                valid = False
                problems.add("sources.entry", exc.reason, records)
                continue
            here = (source.line, records)
            count, lowest, highest = checked.shards.get(source.shard, (0, here, here))
            checked.shards[source.shard] = count + 1, min(lowest, here), max(highest, here)
        problems.compare("sources.records", "records", part.records, records)
        checked.valid = valid
    return checked


def check_inputs(checked: Sequence[_CheckedSources], manifest: Manifest) -> Iterator[Problem]:
    """Compare the sources of parts with the inputs in the manifest."""
    lines = Counter[str]()  # names that are not UTF-8 may be the same
    kept = Counter[str]()
    for entry in manifest.inputs:
        lines[entry.path] += entry.lines + entry.filtered
        kept[entry.path] += entry.kept
    records = Counter[str]()
    for sources in checked:
        problems = sources.problems
        for shard, (count, lowest, highest) in sources.shards.items():
            records[shard] += count
            if shard not in lines:
                message = f"expected an input of the corpus, found {shard!r}"
                problems.add("sources.shard", message, lowest[1])
                continue
            message = f"expected a line of {shard}, which has {lines[shard]:,}, found line"
            for line, number in {lowest, highest}:
                if not 1 <= line <= lines[shard]:
                    problems.add("sources.line", f"{message} {line:,}", number)
        yield from problems
    if len(checked) == len(manifest.parts) and all(sources.valid for sources in checked):
        problems = Problems(MANIFEST)
        for path, count in kept.items():
            problems.compare(
                "sources.kept", f"{path}: records", count, records[path], other="the sources have"
            )
        yield from problems


class CheckTask(PartTask, frozen=True):
    options: Options
    statistics: str  # path prefix of the files for the census and the counts
    columns: str | None  # path of the columns of the part; None if they are missing
    sources: str | None  # path of the sources of the part; None if there are none


class CheckedPart(Struct):
    problems: Problems  # those of the file as a whole
    in_lines: Problems
    text_bytes: int
    records: int
    first: bytes
    last: bytes
    # Whether it was read to its end and all lines are records, so that its statistics can be
    # compared.
    valid: bool
    columns: Problems | None
    sources: _CheckedSources | None


def check_part(task: CheckTask) -> CheckedPart:
    """Check one part. Runs in a worker."""
    entry = task.part.entry
    options = task.options
    problems = Problems(entry.file)
    in_lines = Problems(entry.file)
    lines = _LineChecker(options, in_lines)
    # A wrong hash is an error in a corpus, unless given hashes were to be left as they are.
    mode: SampleHashMode = "fill" if options.sample_hash == "fill" else "verify"
    rules = JudgeSettings(
        schema=options.schema, algorithm=options.hash_algorithm, sample_hash=mode, any_recipe=False
    )
    longest = max(entry.text_bytes, options.max_line_bytes)
    stats = ReadStats()
    text_digest = xxh3_128()
    is_read = False
    with in_lines.reading():
        problems.compare_file(task.part.path, entry)
        part = Slice(shard_at(task.part.path))
        for chunk in judge_slice(judge_of(rules), part, max_line_bytes=longest, stats=stats):
            text_digest.update(chunk.data)
            lines.check(chunk)
        is_read = True
    text_hash = text_digest.hexdigest()
    if stats.bom:
        in_lines.add(
            "line.form", "expected a record at the start of the file, found a byte order mark", 1
        )
    tally = Tally()
    tally.add(lines.keys, lines.rows)
    outcomes = list(map(outcome_of, lines.rows))
    counts = PartCounts(tally)
    write_statistics(task.statistics, counts, lines.keys, outcomes, lines.contradictions())
    records = len(lines.rows)
    valid = is_read and lines.valid
    if is_read:
        problems.compare("part.records", "records", entry.records, records)
        problems.compare("part.text_bytes", "bytes of text", entry.text_bytes, stats.text_bytes)
        problems.compare("part.text_xxh3_128", "xxh3 of text", entry.text_xxh3_128, text_hash)
        ends = (("first", lines.first), ("last", lines.last)) if records else ()
        for name, key in ends:
            listed = to_builtins(getattr(entry, name))
            read = to_builtins(key_entry(key, options.sort_fields))
            for path, *values in differences(listed, read):
                problems.compare(f"part.{name}", f"{name} key, {path}", *values)
    columns = None
    if task.columns and valid and text_hash == entry.text_xxh3_128:
        columns = _check_columns(task.columns, entry, lines.columns)
    return CheckedPart(
        problems,
        in_lines,
        stats.text_bytes,
        records,
        lines.first,
        lines.last,
        valid,
        columns,
        sources=_check_sources(task.sources, entry) if task.sources else None,
    )


def _check_columns(path: str, entry: PartEntry, builder: ColumnsBuilder) -> Problems:
    """Compare every column of a part with its records."""
    problems = Problems(entry.columns.file)
    with problems.reading():
        problems.compare_file(path, entry.columns)
        try:
            _compare_columns(PartColumns(path, entry.text_xxh3_128), builder, problems)
        except CorpusError as exc:
            problems.add("columns.unreadable", exc.reason)
    return problems


def _compare_columns(columns: PartColumns, builder: ColumnsBuilder, problems: Problems) -> None:
    unexpected = dict(columns.frames)
    for name, kind, expected in builder.contents():
        if unexpected.pop(name, None) is None:
            problems.add("columns.names", f"expected a column {name}, found none")
            continue
        content = columns.content(name)
        if content != expected:
            line = None
            if kind != "json":
                line = _same_bytes(content, expected) // int(kind[1:]) + 1
            message = f"the column {name} does not have the values of the records"
            problems.add("columns.values", message, line)
    for name in unexpected:
        problems.add("columns.names", f"found a column {name}, expected none")


def _same_bytes(text: bytes, other: bytes) -> int:
    """Return how many bytes two texts begin with in common, found by halving: slices are fast."""
    sizes = range(len(text))
    return bisect_left(sizes, True, key=lambda size: text[: size + 1] != other[: size + 1])


class _LineChecker:
    """Checks the lines of a part, chunk by chunk, and collects the keys and rows of its records."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self._key_of = key_maker(options.sort_fields)
        self._split = key_splitter(options.sort_fields)
        self._split_all = column_splitter(options.sort_fields)
        self._row_of = row_maker(options.target)
        self._problems = problems
        self.valid = True
        self.first = self.last = b""
        self._last_text = b""
        self.keys = KeyColumns()
        self.rows: list[Any] = []
        self.columns = ColumnsBuilder(options.target.label)
        self._repeated = b""  # the last key of several records
        self._texts: list[bytes] = []  # these records
        self._contradictions: ContradictionsByFields = {}

    def check(self, chunk: JudgedChunk) -> None:
        batch = chunk.batch
        places = pairwise([0, *batch.ends])
        texts = [bytes(chunk.normal[start:end]) for start, end in places]
        if batch.rejected or chunk.normal != chunk.data:
            self._find_bad_lines(chunk, texts)
        keys = [self._key_of(record) for record in batch.records]
        if not keys:
            return
        # Usually every key is greater than the one before. Only repeats have equal keys; then the
        # texts are compared.
        before = [self.last, *keys[:-1]]
        if not all(map(lt, before, keys)):
            self._check_order(list(zip(keys, texts, strict=True)), batch.numbers)
        self.first = self.first or keys[0]
        self.last = keys[-1]
        self._last_text = texts[-1]
        fields = self._split_all(keys)
        rows = list(map(self._row_of, batch.records, repeat(0), batch.numbers))
        self.columns.add(fields, rows, map(len, texts), map(fingerprint, texts))
        self.columns.add_metadata(map(memoryview, texts))
        self.keys += fields
        self.rows += rows

    def _check_order(self, records: Sequence[tuple[bytes, bytes]], numbers: Sequence[int]) -> None:
        add = self._problems.add
        pairs = pairwise([(self.last, self._last_text), *records])
        for ((low, previous), (high, text)), number in zip(pairs, numbers, strict=True):
            if low > high:
                message = (
                    "expected a key greater than that of the previous record, found a smaller one"
                )
                add("line.order", message, number)
            elif low == high:
                if high != self._repeated:
                    self._compare_repeats()
                    self._repeated = high
                    self._texts = [previous]
                self._texts.append(text)
                if text == previous:
                    message = "expected a new record, found a copy of the previous one"
                    add("line.duplicate", message, number)
                elif text < previous:
                    message = (
                        "expected text greater than that of the previous record with this "
                        "key, found smaller text"
                    )
                    add("line.order", message, number)

    def _compare_repeats(self) -> None:
        if numbers := contradictions_of(self._texts):
            self._contradictions[tuple(self._split(self._repeated))] = numbers

    def contradictions(self) -> ContradictionsByFields:
        """The contradictions of the part, by key fields, after all chunks were checked."""
        self._compare_repeats()
        return self._contradictions

    def _find_bad_lines(self, chunk: JudgedChunk, texts: Sequence[bytes]) -> None:
        """Report the lines of a chunk that are not their own normal form."""
        batch = chunk.batch
        add = self._problems.add
        for invalid in batch.rejected:
            self.valid = False
            finding = invalid.findings[0]
            add("line.invalid", f"{finding.path}: {finding.message} [{finding.code}]", invalid.line)
        # Unlike splitlines, it does not split at a carriage return.
        lines = BytesIO(chunk.data).readlines()
        seen = {invalid.line for invalid in batch.rejected} | set(batch.numbers)
        for number, line in enumerate(lines, chunk.line):
            if number not in seen:
                message = f"expected a record, found {len(line):,} bytes of white space"
                add("line.blank", message, number)
        for number, normal in zip(batch.numbers, texts, strict=True):
            line = lines[number - chunk.line]
            if line != normal:
                same = _same_bytes(line, normal)
                message = f"expected the normal form, found other text from byte {same:,}"
                add("line.form", f"{message} of the line", number)
