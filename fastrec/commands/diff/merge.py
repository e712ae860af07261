"""Merging two corpora over a range of positions: count added, removed and changed records, and flipped verdicts.

1. Skip bytes that are the same in both corpora, without looking for lines.
2. Two lines with the same key match if the next lines belong to another model; nothing is decoded for that. Otherwise
   the positions of both lines decide: the record is only in OLD, only in NEW, or the position is in both.
3. At a position of both, equal lines match. Of the others, two records match if they agree in the fields to compare by
   and no other record does. If several do, those of the same run match. The rest is ambiguous.
4. Compare matched records field by field.

Only differences are counted: the number of unchanged pairs, and how many of them are correct, follow from the two
summaries. Memory holds one buffer per corpus and the records of one position.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import msgspec

from fastrec.commands.diff.document import Flip, RecordName
from fastrec.commands.diff.fields import compare_lines, is_correct
from fastrec.commands.diff.reader import Bounds, Reader, equal_bytes
from fastrec.corpus.line_head import Position, key_mark, key_of, position_maker, read_head
from fastrec.corpus.scan import VERIFY_HINT, PartFile
from fastrec.engine.base import collector_off
from fastrec.errors import CorpusError, shown
from fastrec.limits import Limits
from fastrec.sorting.keys import FIELDS
from fastrec.summary.document import json_safe

__all__ = ["OTHER_FIELDS", "Changes", "CompareTask", "compare_range"]

OTHER_FIELDS: Final = "(other fields)"

_AFTER_MODEL: Final = key_mark("evaluation_name")
_AFTER_EVALUATION: Final = key_mark("sample_id")

_Lines = Collection[bytes]
_Pair = tuple[list[bytes], list[bytes]]


class CompareTask(msgspec.Struct, frozen=True):
    """A range of positions to compare."""

    old: Sequence[PartFile]
    new: Sequence[PartFile]
    bounds: Bounds
    fields: tuple[str, ...]
    """The fields of a position."""
    rest: tuple[str, ...]
    """The other fields to compare by: they distinguish the records of one position."""
    examples: int
    limits: Limits

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(part.path) for part in (*self.old, *self.new))}"


class Changes(msgspec.Struct):
    """The result of a task; unchanged pairs are not counted."""

    counts: dict[tuple[str, str], Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    """By evaluation_name and model_id: `right_to_wrong`, `wrong_to_right` and all of `Counts` except `unchanged`. Also
    `correct_old` and `correct_new`: unmatched records that are correct."""
    fields: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str | tuple[str, ...], list[Any]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """By kind of change, its first records. By evaluation_name, model_id and verdict in NEW, the first flips."""

    def add(self, other: Changes, examples: int) -> None:
        """Add the counts of a later range."""
        for model, counts in other.counts.items():
            self.counts[model].update(counts)
        self.fields.update(other.fields)
        for kind, records in other.examples.items():
            self.examples[kind] += records[: examples - len(self.examples[kind])]


@collector_off()
def compare_range(task: CompareTask) -> Changes:
    """Compare a range of two corpora. Runs in a worker."""
    merger = _Merger(task)
    try:
        merger.merge()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as exc:
        reason = f"or {shown(merger.old.path)} has a line that is not a record in normal form; {VERIFY_HINT}"
        raise CorpusError(merger.new.path, reason) from exc
    return merger.changes


class _Merger:
    """The state of a task: two readers, and the counts so far."""

    def __init__(self, task: CompareTask) -> None:
        self._task = task
        self._position_of = position_maker(task.fields)
        self.old = Reader(task.old, task.bounds, self._position_of, task.limits)
        self.new = Reader(task.new, task.bounds, self._position_of, task.limits)
        self._by_key = "evaluation_id" not in (*task.fields, *task.rest)
        self.changes = Changes()
        self._models: dict[bytes, tuple[str, str]] = {}  # by the beginning of keys, up to evaluation_name

    def merge(self) -> None:
        """Read both corpora to the end of the range."""
        old, new = self.old, self.new
        while True:
            self._skip_equal()
            key, other = old.key(), new.key()
            if key is None or other is None:
                break
            if key == other and self._by_key:
                self._match_next(key)
                continue
            position, other_position = old.position(old.start), new.position(new.start)
            if position == other_position:
                self._match_position(position, [], [])
            elif position < other_position:
                self._count("removed", [old.take()])
            else:
                self._count("added", [new.take()])
        while old.has_line():
            self._count("removed", [old.take()])
        while new.has_line():
            self._count("added", [new.take()])

    def _skip_equal(self) -> None:
        """Skip lines that are the same in both corpora, many at a time."""
        old, new = self.old, self.new
        while old.has_line() and new.has_line():
            start, other = old.start, new.start
            end = old.data.find(b"\n", start) + 1
            if not new.data.startswith(old.view[start:end], other):
                return  # where every line differs, no more than a line is compared
            equal = equal_bytes(old, new)
            # Equal bytes are equal lines, except for the incomplete line at their end.
            end = max(end, old.data.rfind(b"\n", start, start + equal) + 1)
            old.skip_to(end)
            new.skip_to(other + end - start)

    def _match_next(self, key: bytes) -> None:
        """Match two records with the same key, unless other records may be at their position."""
        old, new = self.old, self.new
        first, second = old.take(), new.take()
        model = key[: key.find(_AFTER_MODEL) + len(_AFTER_MODEL)]
        if (old.key() or b"").startswith(model) or (new.key() or b"").startswith(model):
            self._match_position(self._position_of(read_head(first)), [first], [second])
        else:
            self._compare(first, second, key)

    def _match_position(self, position: Position, olds: list[bytes], news: list[bytes]) -> None:
        """Match the records of a position: the given ones, and those that the readers are still to read."""
        for reader, lines in ((self.old, olds), (self.new, news)):
            reader.take_position(position, lines, self._task.limits.diff_position_bytes)
        equal = set(olds) & set(news)
        for group in _group(olds, news, self._task.rest, equal):
            left: _Pair = ([], [])
            several = all(group) and sum(map(len, group)) > 2
            for old, new in _group(*group, FIELDS) if several else [group]:
                if len(old) == len(new) == 1:  # the only one of its run in both corpora
                    self._match(old, new)
                else:
                    left[0].extend(old)
                    left[1].extend(new)
            self._match(*left)

    def _match(self, olds: Sequence[bytes], news: Sequence[bytes]) -> None:
        """Compare one record with one; without a counterpart records are added or removed, else ambiguous."""
        if len(olds) == len(news) == 1:
            self._compare(olds[0], news[0], key_of(news[0]))
        elif olds and news:
            self._count("ambiguous_old", olds)
            self._count("ambiguous_new", news)
        else:
            self._count("removed", olds)
            self._count("added", news)

    def _model(self, line: bytes, key: bytes) -> tuple[str, str]:
        known = key[: key.find(_AFTER_EVALUATION)]
        model = self._models.get(known)
        if model is None:
            head = read_head(line)
            model = self._models[known] = head.evaluation_name, head.model_id
        return model

    def _compare(self, old: bytes, new: bytes, key: bytes) -> None:
        """Count the differences of two matched records."""
        paths, flip = compare_lines(old, new)
        if not paths:
            return
        model, most = self._model(new, key), self._task.examples
        counts, fields, examples = self.changes.counts[model], self.changes.fields, self.changes.examples
        counts["changed"] += 1
        for path in paths:
            known = path in fields or len(fields) < self._task.limits.diff_fields
            fields[path if known else OTHER_FIELDS] += 1
        if len(examples["changed"]) < most:
            examples["changed"].append(_name_of(new, paths))
        if flip is not None:
            counts["wrong_to_right" if flip else "right_to_wrong"] += 1
            now: Literal["right", "wrong"] = "right" if flip else "wrong"
            if len(examples[*model, now]) < most:
                name = _name_of(new)
                examples[*model, now].append(Flip(sample_id=name.sample_id, sample_hash=name.sample_hash, now=now))

    def _count(self, kind: str, lines: Sequence[bytes]) -> None:
        """Count unmatched records of one model: `removed`, `added`, `ambiguous_old` or `ambiguous_new`."""
        if not lines:
            return
        counts = self.changes.counts[self._model(lines[0], key_of(lines[0]))]
        counts[kind] += len(lines)
        counts["correct_old" if kind in ("removed", "ambiguous_old") else "correct_new"] += sum(map(is_correct, lines))
        if kind == "ambiguous_new":
            return  # one example is enough for both corpora
        examples = self.changes.examples[kind.removesuffix("_old")]
        shown_lines = lines[:1] if kind == "ambiguous_old" else lines
        examples += map(_name_of, shown_lines[: self._task.examples - len(examples)])


def _group(olds: _Lines, news: _Lines, fields: Sequence[str], left_out: _Lines = ()) -> Collection[_Pair]:
    """Group the records of both corpora by some fields of their heads."""
    groups: defaultdict[Any, _Pair] = defaultdict(lambda: ([], []))
    for side, lines in enumerate((olds, news)):
        for line in lines:
            if line not in left_out:
                head = read_head(line)
                values = [bytes(head.sample_id) if field == "sample_id" else getattr(head, field) for field in fields]
                groups[tuple(values)][side].append(line)
    return groups.values()


def _name_of(line: bytes, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
    head = read_head(line)
    return RecordName(
        evaluation_name=head.evaluation_name,
        model_id=head.model_id,
        sample_id=json_safe(head.decoded_sample_id()),
        sample_hash=head.sample_hash,
        evaluation_id=head.evaluation_id,
        fields=fields,
    )
