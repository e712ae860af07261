"""The merge of two corpora over a range of places: what was added, removed, changed, and how verdicts flipped.

1. Stretches that are the same bytes in both are passed over, without finding their lines.
2. Where they differ, two lines of one key are partners, if the next ones are of another model: nothing is decoded for
   that. Else the places of both lines tell: a record only OLD has, only NEW has, or a place of both.
3. A place of both is settled: equal lines are partners; of the others those with the same fields to be compared by, if
   they are one on each side. Where several could be partners, those of the same run are; what is left is ambiguous.
4. Two partners that differ are compared field by field.

Counted is only what is not equal: how many pairs are, and how many of them are right, follows from the two summaries.
A task takes paths and gives back counts and a few examples. Memory holds a buffer of each corpus and the records of one
place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.commands.diff.changes import Changes, ModelChanges
from fastrec.commands.diff.document import Flip, RecordName
from fastrec.commands.diff.fields import compare_lines, is_correct
from fastrec.commands.diff.places import Place, evaluation_in, model_in, name_of, place_maker, read_head, read_key
from fastrec.commands.diff.side import ADVICE, PartFile, Reader
from fastrec.engine.collector import collector_off
from fastrec.errors import CorpusError, FastrecError, shown
from fastrec.sorting.keys import FIELDS

__all__ = ["OTHER_FIELDS", "RangeToCompare", "compare_range"]

OTHER_FIELDS: Final = "(other fields)"

_FIELDS: Final = 1_000  # paths that a task remembers: free-form objects can have any number of keys
_SHORTEST: Final = 1 << 9  # bytes that are compared at a time
_PLACE_BYTES: Final = 256 << 20


class RangeToCompare(msgspec.Struct, frozen=True):
    """What a worker is told."""

    old: tuple[PartFile, ...]
    new: tuple[PartFile, ...]
    low: Place | None
    high: Place | None
    fields: tuple[str, ...]
    """Of a place."""
    rest: tuple[str, ...]
    """What records of one place are told apart by."""
    examples: int

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(part.path) for part in (*self.old, *self.new))}"


@collector_off()
def compare_range(order: RangeToCompare) -> Changes:
    """Compare a range of two corpora. Runs in a worker."""
    return _Merger(order).run()


class _Merger:
    """The state of a task: two readers, and what was counted so far."""

    def __init__(self, order: RangeToCompare) -> None:
        place_of = place_maker(order.fields)
        self._old = Reader(order.old, order.low, order.high, place_of)
        self._new = Reader(order.new, order.low, order.high, place_of)
        self._place_of = place_of
        self._rest = order.rest
        self._by_key = "evaluation_id" not in (*order.fields, *order.rest)
        self._examples = order.examples
        self._changes = Changes()
        self._models: dict[bytes, ModelChanges] = {}  # by the beginning of keys

    def run(self) -> Changes:
        try:
            self._merge()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as exc:
            reason = f"or {shown(self._old.path)} holds a line that is not a record in normal form: {ADVICE}"
            raise CorpusError(self._new.path, reason) from exc
        return self._changes

    def _merge(self) -> None:
        old, new = self._old, self._new
        while True:
            self._skip_equal()
            key, other = old.key(), new.key()
            if key is None or other is None:
                break
            if key == other and self._by_key:
                self._settle(key)
                continue
            place, other_place = old.place(), new.place()
            assert place is not None
            assert other_place is not None
            if place == other_place:
                self._settle_place(place, [], [])
            elif place < other_place:
                self._remove(old.take())
            else:
                self._add(new.take())
        while old.has_line():
            self._remove(old.take())
        while new.has_line():
            self._add(new.take())

    def _skip_equal(self) -> None:
        """Pass over lines that are the same in both, without finding them."""
        old, new = self._old, self._new
        while old.has_line() and new.has_line():
            start, other = old.start, new.start
            end = old.data.find(b"\n", start) + 1
            if not new.data.startswith(old.view[start:end], other):
                return  # where every line differs, nothing but a line should be looked at
            equal = _equal_bytes(old, new)
            # Of bytes that are equal all but the line that was begun last are equal lines.
            end = max(end, old.data.rfind(b"\n", start, start + equal) + 1)
            old.skip_to(end)
            new.skip_to(other + end - start)

    def _settle(self, key: bytes) -> None:
        """Pair two records of one key, if it is plain to see that no others are of their place."""
        old, new = self._old, self._new
        first, second = old.take(), new.take()
        model = model_in(key)
        if (old.key() or b"").startswith(model) or (new.key() or b"").startswith(model):
            self._settle_place(self._place_of(read_head(first, 0)), [first], [second])
        else:
            self._pair(first, second, key)

    def _settle_place(self, place: Place, olds: list[bytes], news: list[bytes]) -> None:
        """Find partners among the records of a place, some of which were taken."""
        _gather(self._old, place, olds)
        _gather(self._new, place, news)
        equal = set(olds) & set(news)
        groups: defaultdict[Any, tuple[list[bytes], list[bytes]]] = defaultdict(lambda: ([], []))
        for side, lines in enumerate((olds, news)):
            for line in lines:
                if line not in equal:
                    groups[_fields(line, self._rest)][side].append(line)
        for some_olds, some_news in groups.values():
            self._match(some_olds, some_news)

    def _match(self, olds: list[bytes], news: list[bytes]) -> None:
        """Find partners among records that agree in all fields that are compared by."""
        if olds and news and len(olds) + len(news) > 2:
            olds, news = self._match_runs(olds, news)
        if len(olds) == len(news) == 1:
            self._pair(olds[0], news[0], read_key(news[0], 0))
        elif olds and news:
            self._leave_open(olds, news)
        else:
            for line in olds:
                self._remove(line)
            for line in news:
                self._add(line)

    def _match_runs(self, olds: list[bytes], news: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Pair records of the same run that are alone of it on both sides; return the others."""
        runs: defaultdict[Any, tuple[list[bytes], list[bytes]]] = defaultdict(lambda: ([], []))
        for side, lines in enumerate((olds, news)):
            for line in lines:
                runs[_fields(line, FIELDS)][side].append(line)
        left: tuple[list[bytes], list[bytes]] = ([], [])
        for some_olds, some_news in runs.values():
            if len(some_olds) == len(some_news) == 1:
                self._pair(some_olds[0], some_news[0], read_key(some_news[0], 0))
            else:
                left[0].extend(some_olds)
                left[1].extend(some_news)
        return left

    def _model(self, line: bytes, key: bytes) -> ModelChanges:
        known = evaluation_in(key)
        model = self._models.get(known)
        if model is None:
            head = read_head(line, 0)
            model = self._changes.models.setdefault((head.evaluation_name, head.model_id), ModelChanges())
            self._models[known] = model
        return model

    def _pair(self, old: bytes, new: bytes, key: bytes) -> None:
        paths, flip = compare_lines(old, new)
        if not paths:
            return
        model = self._model(new, key)
        model.counts.changed += 1
        self._count_fields(paths)
        if len(self._changes.examples.changed) < self._examples:
            self._changes.examples.changed.append(msgspec.structs.replace(name_of(new), fields=paths))
        if flip is not None:
            model.wrong_to_right += flip
            model.right_to_wrong += not flip
            flips = model.flips[flip]
            if len(flips) < self._examples:
                name = name_of(new)
                now: Any = "right" if flip else "wrong"
                flips.append(Flip(sample_id=name.sample_id, sample_hash=name.sample_hash, now=now))

    def _count_fields(self, paths: Sequence[str]) -> None:
        fields = self._changes.fields
        for path in paths:
            if path not in fields and len(fields) >= _FIELDS:
                path = OTHER_FIELDS
            fields[path] += 1

    def _remove(self, line: bytes) -> None:
        model = self._model(line, read_key(line, 0))
        model.counts.removed += 1
        model.correct_removed += is_correct(line)
        self._show(self._changes.examples.removed, line)

    def _add(self, line: bytes) -> None:
        model = self._model(line, read_key(line, 0))
        model.counts.added += 1
        model.correct_added += is_correct(line)
        self._show(self._changes.examples.added, line)

    def _leave_open(self, olds: list[bytes], news: list[bytes]) -> None:
        model = self._model(olds[0], read_key(olds[0], 0))
        model.counts.ambiguous_old += len(olds)
        model.counts.ambiguous_new += len(news)
        model.correct_removed += sum(map(is_correct, olds))
        model.correct_added += sum(map(is_correct, news))
        self._show(self._changes.examples.ambiguous, olds[0])

    def _show(self, examples: list[RecordName], line: bytes) -> None:
        if len(examples) < self._examples:
            examples.append(name_of(line))


def _equal_bytes(old: Reader, new: Reader) -> int:
    """Return how many bytes are equal at least: all, or by halving, since comparing runs in C."""
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


def _fields(line: bytes, fields: Sequence[str]) -> tuple[Any, ...]:
    """Return some fields of a head so that they can be looked up."""
    head = read_head(line, 0)
    return tuple([bytes(head.sample_id) if field == "sample_id" else getattr(head, field) for field in fields])


def _gather(reader: Reader, place: Place, lines: list[bytes]) -> None:
    """Take the lines that are left of a place."""
    size = 0
    while reader.place() == place:
        lines.append(reader.take())
        size += len(lines[-1])
        if size > _PLACE_BYTES:
            head = read_head(lines[0], 0)
            raise FastrecError(
                f"over {_PLACE_BYTES >> 20} MiB of records are of one sample of {head.model_id!r} in "
                f"{head.evaluation_name!r}, too much to compare at once: make both corpora with `fastrec normalize "
                "--sort-by evaluation_name,model_id,sample_id`, and compare those"
            )
