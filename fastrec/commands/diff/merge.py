"""Merging two corpora over a range of positions: count added, removed and changed records, and compare questions.

1. Skip bytes that are the same in both corpora, without looking for lines. The lines of the last question are kept, in
   case it has more records.
2. Two lines with the same key match if the neighbours belong to another model; nothing is decoded for that. Otherwise
   the records of a question are collected from both corpora.
3. Of these, records that agree in the fields to compare by are compared: equal lines match, so do two records that have
   no other counterpart, and two of the same run. The others are repeats. All of them count in the question's means. If
   records name a metric, the question is compared for each metric by itself.
4. Compare matched records field by field.

Only differences are counted: the numbers of the other questions follow from the two summaries. Memory holds one buffer
per corpus and the records of one question.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from fastrec.commands.diff.document import Flip
from fastrec.commands.diff.questions import (
    OTHER_FIELDS,
    Changes,
    ModelName,
    Outcome,
    Rate,
    Scope,
    Value,
    compare_lines,
    count_answers,
    is_relabelled,
    name_of,
    rate_maker,
    value_of,
)
from fastrec.corpus.scan import (
    VERIFY_HINT,
    PartFile,
    Position,
    PositionOf,
    SplitHashes,
    key_mark,
    key_of,
    position_maker,
    read_head,
    skim_lines,
)
from fastrec.engine.base import collector_off
from fastrec.errors import CorpusError, FastrecError, shown
from fastrec.limits import current_limits
from fastrec.sorting.keys import FIELDS, METRIC
from fastrec.statistics.exact import to_double

_SHORTEST: Final = 1 << 9  # bytes: the search for the first difference stops here
_AFTER_MODEL: Final = key_mark("evaluation_name")
_AFTER_METRIC: Final = key_mark("sample_id")

Bounds = tuple[Position | None, Position | None]
"""The positions of a range: the first, and the first after it; None is no bound."""
_Pair = tuple[list[bytes], list[bytes]]


class _Reader:
    """Reads the lines of some parts whose positions are in a range, one buffer of whole lines at a time.

    The key or the position of the current line is read only on request, because most lines are the same in both corpora
    and are skipped.
    """

    def __init__(self, parts: Sequence[PartFile], bounds: Bounds, position_of: PositionOf) -> None:
        self._position_of = position_of
        self._buffers = self._read(parts, bounds)
        self.path = ""
        self._offset = 0  # of the buffer in the text of the part
        self.data = bytearray()  # whole lines; those from `start` to `end` are still to be read
        self.view = memoryview(self.data)  # to slice without copying
        self.start = self.end = 0
        self._key: bytes | None = None  # of the line at `start`, once it was read

    def _read(self, parts: Sequence[PartFile], bounds: Bounds) -> Iterator[bool]:
        """Read the next buffer with lines of the range at each step."""
        low, high = bounds
        before: Position | None = None
        for part in parts:
            self.path, self._offset = part.path, 0
            for data, size in skim_lines(part):
                self.data, self.view, self.start, self.end = data, memoryview(data), 0, size
                last = self.position(data.rfind(b"\n", 0, size - 1) + 1)
                first = before if before is not None and self._offset else self.position(0)
                if last < first or (before is not None and first < before):
                    raise self._error("is not sorted as the manifest says", 0)
                if low is not None and first < low:
                    self.start = size if last < low else self._find(low, size)
                if high is not None and last >= high:
                    self.end = self._find(high, size)
                if self.start < self.end:
                    yield True
                if self.end < size:
                    return
                before = last
                self._offset += size

    def _find(self, position: Position, end: int) -> int:
        """The start of the first line that is at a position or after it."""
        starts = [0]
        while (start := self.data.find(b"\n", starts[-1]) + 1) < end:
            starts.append(start)
        found = bisect_left(starts, position, key=self.position)
        return starts[found] if found < len(starts) else end

    def _error(self, reason: str, start: int) -> CorpusError:
        return CorpusError(self.path, f"{reason}, at byte {self._offset + start:,} of its text; {VERIFY_HINT}")

    def has_line(self) -> bool:
        """Whether there is a line at `start`; reads the next buffer if necessary."""
        return self.start < self.end or next(self._buffers, False)

    def key(self) -> bytes | None:
        """The key of the line at `start`; None at the end."""
        if self._key is None and self.has_line():
            self._key = key_of(self.data, self.start)
        return self._key

    def position(self, start: int) -> Position:
        try:
            return self._position_of(read_head(self.data, start))
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise self._error("has a line that is not a record in normal form", start) from exc

    def take(self) -> bytes:
        """Take the line at `start` without its newline, and go to the next one."""
        start, end = self.start, self.data.find(b"\n", self.start)
        self.skip_to(end + 1)
        return bytes(self.view[start:end])

    def skip_to(self, start: int) -> None:
        self.start, self._key = start, None


class _HeldLines:
    """The last lines that were skipped: those of one question, because more of its records may follow."""

    def __init__(self, reader: _Reader, most_bytes: int) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._lines: list[bytes] = []
        self._size = 0
        self._position: Position | None = None
        self.key = b""  # of the last line

    def hold(self, start: int, end: int) -> None:
        """Keep the lines of the last question between two offsets of the buffer."""
        data, view, position_at = self._reader.data, self._reader.view, self._reader.position
        begin = data.rfind(b"\n", start, end - 1) + 1 or start
        position = position_at(begin)
        lines = [bytes(view[begin : end - 1])]
        while begin > start:
            before = data.rfind(b"\n", start, begin - 1) + 1 or start
            if position_at(before) != position:
                break
            lines.append(bytes(view[before : begin - 1]))
            begin = before
        if begin > start or position != self._position:
            self._lines, self._size, self._position = [], 0, position
        self._size += sum(map(len, lines))
        self.key = key_of(lines[0])
        if self._size <= self._most_bytes or not self._lines:
            self._lines += reversed(lines)

    def at(self, position: Position) -> list[bytes]:
        if position != self._position:
            return []
        if self._size > self._most_bytes:
            raise _too_much(self._lines[0], self._most_bytes)
        return self._lines


def _too_much(line: bytes, most_bytes: int) -> FastrecError:
    head = read_head(line)
    return FastrecError(
        f"more than {most_bytes >> 20} MiB of records answer one question of {head.evaluation_name!r} by "
        f"{head.model_id!r}, too many to compare: make both corpora with `fastrec normalize "
        "--sort-by evaluation_name,model_id,sample_id`, and compare those"
    )


def _equal_bytes(old: _Reader, new: _Reader) -> int:
    """Count bytes that are equal in both buffers: all, or found by halving, since comparing runs in C."""
    begin, other = old.start, new.start
    size = min(old.end - begin, new.end - other)
    view, startswith = old.view, new.data.startswith
    if startswith(view[begin : begin + size], other):
        return size
    start = begin
    while size > _SHORTEST:
        size //= 2
        if startswith(view[start : start + size], other):
            start += size
            other += size
    return start - begin


class CompareTask(msgspec.Struct, frozen=True):
    old: Sequence[PartFile]
    new: Sequence[PartFile]
    bounds: Bounds
    fields: tuple[str, ...]  # of a position
    rest: tuple[str, ...]  # the other fields to compare by: they distinguish the records of one position
    by_metric: bool  # whether the records of one position may have several metrics
    scored: frozenset[Scope]  # what is compared by score; all else is compared by the share of right answers
    errors_as_wrong: bool
    read_all: bool  # whether to read the questions without a difference, too: the summaries do not have their numbers
    split: SplitHashes  # hashes of which each `sample_id` is a question
    examples: int

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(part.path) for part in (*self.old, *self.new))}"


@collector_off()
def compare_range(task: CompareTask) -> Changes:
    """Compare a range of two corpora. Runs in a worker."""
    merger = _Merger(task)
    try:
        merger.merge()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as exc:
        reason = f"or {shown(merger.old.path)} has a line that is not a record in normal form; {VERIFY_HINT}"
        raise CorpusError(merger.new.path, reason) from exc
    merger.changes.finish()
    return merger.changes


class _Merger:
    def __init__(self, task: CompareTask) -> None:
        self._task = task
        self._position_of = position_maker(task.fields)
        self.old = _Reader(task.old, task.bounds, self._position_of)
        self.new = _Reader(task.new, task.bounds, self._position_of)
        self._by_key = "evaluation_id" not in (*task.fields, *task.rest) and not task.read_all
        self._limits = current_limits()
        self._held = _HeldLines(self.old, self._limits.diff_position_bytes)
        self.changes = Changes(task.scored)
        self._models: dict[bytes, ModelName] = {}  # by the beginning of keys, up to the metric
        self._correctness, self._score = (
            rate_maker(scored=scored, errors_as_wrong=task.errors_as_wrong) for scored in (False, True)
        )

    def merge(self) -> None:
        old, new = self.old, self.new
        while True:
            if not self._task.read_all:
                self._skip_equal()
            key, other = old.key(), new.key()
            if key is None and other is None:
                return
            if key == other and self._by_key and key is not None:
                self._match_next(key)
            else:
                self._compare_position(min(reader.position(reader.start) for reader in (old, new) if reader.has_line()))

    def _skip_equal(self) -> None:
        """Skip lines that are the same in both corpora, many at a time."""
        old, new = self.old, self.new
        while old.has_line() and new.has_line():
            start, other = old.start, new.start
            end = old.data.find(b"\n", start) + 1
            if not new.data.startswith(old.view[start:end], other):
                return  # where every line differs, no more than a line is compared
            equal = _equal_bytes(old, new)
            # Equal bytes are equal lines, except for the incomplete line at their end.
            end = max(end, old.data.rfind(b"\n", start, start + equal) + 1)
            self._held.hold(start, end)
            old.skip_to(end)
            new.skip_to(other + end - start)

    def _match_next(self, key: bytes) -> None:
        """Match two records with the same key, unless other records may be at their position."""
        old, new = self.old, self.new
        first, second = old.take(), new.take()
        model = key[: key.find(_AFTER_MODEL) + len(_AFTER_MODEL)]
        follows = (old.key() or b"").startswith(model) or (new.key() or b"").startswith(model)
        if follows or self._held.key.startswith(model):
            self._compare_position(self._position_of(read_head(first)), [first], [second])
        elif values := self._compare(first, second, key):
            self._add_outcome(second, key, _outcome_of(*values))

    def _compare_position(self, position: Position, olds: Sequence[bytes] = (), news: Sequence[bytes] = ()) -> None:
        """Compare the records at a position: equal lines before, the given ones, and those that are yet to be read."""
        held, most_bytes = self._held.at(position), self._limits.diff_position_bytes
        olds, news = [*held, *olds], [*held, *news]
        for reader, lines in ((self.old, olds), (self.new, news)):
            size = sum(map(len, lines))
            while reader.has_line() and reader.position(reader.start) == position:
                lines.append(reader.take())
                size += len(lines[-1])
                if size > most_bytes:
                    raise _too_much(lines[0], most_bytes)
        for old, new in (
            _group(olds, news, partial(_fields_of, fields=(METRIC,))) if self._task.by_metric else [(olds, news)]
        ):
            if self._by_key and len(old) == len(new) == 1 and (key := key_of(new[0])) == key_of(old[0]):
                if values := self._compare(old[0], new[0], key):
                    self._add_outcome(new[0], key, _outcome_of(*values))
            elif self._task.split and self._is_split((new or old)[0]):
                for some in _group(old, new, partial(_fields_of, fields=("sample_id",))):
                    self._compare_question(*some)
            else:
                self._compare_question(old, new)

    def _is_split(self, line: bytes) -> bool:
        head = read_head(line)
        return (head.evaluation_name, head.metric(), head.sample_hash) in self._task.split

    def _compare_question(self, olds: Sequence[bytes], news: Sequence[bytes]) -> None:
        """Compare the records of a question, in groups of those that agree in all fields to compare by."""
        line = (news or olds)[0]
        key = key_of(line)
        rate = self._rate(line, key)
        equal = set(olds) & set(news)
        values = {each: value_of(each, rate) for each in {*olds, *news}}
        compared: _Pair = ([], [])
        for old, new in _group(olds, news, partial(_fields_of, fields=self._task.rest)):
            if old and new:
                compared[0].extend(old)
                compared[1].extend(new)
                self._match([line for line in old if line not in equal], [line for line in new if line not in equal])
            else:
                self._count("removed", old)
                self._count("added", new)
        sides = (olds, news, *compared)
        outcome = Outcome(*(count_answers([values[each] for each in lines]) for lines in sides))
        self._add_outcome((compared[1] or [line])[0], key, outcome)

    def _match(self, olds: Sequence[bytes], news: Sequence[bytes]) -> None:
        """Pair records of a group, each the only one of its run in both corpora; the others are repeats."""
        left: _Pair = ([], [])
        for old, new in _group(olds, news, partial(_fields_of, fields=FIELDS)):
            if len(old) == len(new) == 1:
                self._compare(old[0], new[0], key_of(new[0]))
            else:
                left[0].extend(old)
                left[1].extend(new)
        if len(left[0]) == len(left[1]) == 1:
            self._compare(left[0][0], left[1][0], key_of(left[1][0]))
        else:
            self._count("repeats_old", left[0])
            self._count("repeats_new", left[1])

    def _model(self, line: bytes, key: bytes) -> ModelName:
        known = key[: key.find(_AFTER_METRIC)]
        model = self._models.get(known)
        if model is None:
            head = read_head(line)
            model = self._models[known] = head.evaluation_name, head.metric(), head.model_id
        return model

    def _rate(self, line: bytes, key: bytes) -> Rate:
        scored = self._task.scored
        return self._score if scored and self._model(line, key)[:2] in scored else self._correctness

    def _compare(self, old: bytes, new: bytes, key: bytes) -> tuple[Value, Value] | None:
        """Count the differences of two matched records, and return their values; None if there are no differences."""
        paths, was, now = compare_lines(old, new, self._rate(new, key))
        if not paths:
            return None
        model, fields, kind = self._model(new, key), self.changes.fields, "changed"
        self.changes.counts[model][kind] += 1
        if is_relabelled(old, new, paths):
            kind = "relabelled"
            self.changes.counts[model][kind] += 1
        examples = self.changes.examples[kind]
        for path in paths:
            known = path in fields or len(fields) < self._limits.diff_fields
            fields[path if known else OTHER_FIELDS] += 1
        if len(examples) < self._task.examples:
            examples.append(name_of(new, paths))
        return was, now

    def _add_outcome(self, line: bytes, key: bytes, outcome: Outcome) -> None:
        """Count a question; `line` is one of its records: a compared one of NEW, if there is any."""
        model = self._model(line, key)
        self.changes.count(model, outcome)
        was, now = outcome.old_compared, outcome.new_compared
        if was == now or not (was.answers and now.answers) or (old := was.mean()) == (new := now.mean()):
            return
        examples = self.changes.examples[*model, "rose" if new > old else "fell"]
        if len(examples) < self._task.examples:
            name, means = name_of(line), {"old": to_double(old), "new": to_double(new)}
            examples.append(Flip(sample_id=name.sample_id, sample_hash=name.sample_hash, **means))

    def _count(self, kind: str, lines: Sequence[bytes]) -> None:
        """Count records of one model without a pair: `removed`, `added`, `repeats_old` or `repeats_new`."""
        if not lines:
            return
        self.changes.counts[self._model(lines[0], key_of(lines[0]))][kind] += len(lines)
        if kind == "repeats_new":
            return  # one example is enough for both corpora
        examples = self.changes.examples[kind.removesuffix("_old")]
        shown_lines = lines[:1] if kind == "repeats_old" else lines
        examples += map(name_of, shown_lines[: self._task.examples - len(examples)])


@lru_cache(maxsize=4_096, typed=True)
def _outcome_of(was: Value, now: Value) -> Outcome:
    """The outcome of a question with one record in each corpus."""
    old, new = count_answers([was]), count_answers([now])
    return Outcome(old, new, old, new)


def _fields_of(line: bytes, fields: Sequence[str]) -> tuple[Any, ...]:
    head = read_head(line)
    return tuple([bytes(head.sample_id) if field == "sample_id" else getattr(head, field) for field in fields])


def _group(olds: Sequence[bytes], news: Sequence[bytes], key: Callable[[bytes], Hashable]) -> Collection[_Pair]:
    groups: defaultdict[Hashable, _Pair] = defaultdict(lambda: ([], []))
    for side, lines in enumerate((olds, news)):
        for line in lines:
            groups[key(line)][side].append(line)
    return groups.values()
