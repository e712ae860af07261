r"""`cat`: print the lines of a corpus in order, byte for byte: all of them, or those that match.

1. Turn filters into a selection: exact values where possible, because these are found without
   decoding the text. Patterns and excludes of names become the names in the summary that match.
   Patterns of ids and hashes stay patterns.
2. Choose the parts that can hold a matching record, by the first and last keys in the manifest
   (`SortRange`).
3. Search them (`Finder`). If the matching records are contiguous, or there is little text, this
   process does it. Otherwise one task per part writes what it finds to a file, and the files are
   copied out in order.

Lines that contain a *needle* are candidates: a wanted field, with its value and the key of the next
field.

    {"schema_version":…,"evaluation_id":…,"model_id":…,"evaluation_name":…,"sample_id":…,"sample_hash":…,"interaction_…
                                         \__ needle of a model __________/

The decoded head of a candidate decides. Apart from these, mostly only the head of the last line in
each buffer is decoded, to see if a match can follow.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final, Unpack

import msgspec
from stringzilla import count

from fastrec.corpus.manifest import PartEntry
from fastrec.corpus.reader import open_corpus
from fastrec.corpus.scan import (
    VERIFY_HINT,
    LineHead,
    Order,
    PartTask,
    Position,
    key_mark,
    lines_with,
    position_maker,
    read_head,
    run_in_order,
    skim_lines,
)
from fastrec.corpus.sources import (
    decode_source,
    line_begin,
    need_sources,
    source_lines,
    sources_file,
)
from fastrec.engine import check_jobs, jobs_for
from fastrec.errors import CorpusError, FastrecError, UsageError
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.judge.parse import parse
from fastrec.limits import current_limits
from fastrec.normalize.inputs import check_fields
from fastrec.sorting.keys import METRIC
from fastrec.sources.shard import Shard, shard_at
from fastrec.summary.document import Summary
from fastrec.summary.present_choice import names_of

_SPECIAL: Final = re.compile(r"[*?\[]")  # the characters that make a name a pattern
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_HEXADECIMAL: Final = re.compile(r"-?0x[0-9a-f]+")
_ERROR: Final = b'},"error":"'  # the field before `error` is always an object
_CORRECT: Final = b'"is_correct":'
_MOST_NAMES: Final = 16  # more needles than this are slower than decoding every head
_RAREST_FIRST: Final = ("sample_hash", "sample_id", METRIC, "model_id", "evaluation_name")
_KINDS: Final = ("evaluation", "metric", "model")
# searching is 4 times faster than other work on text, so a pool pays only for 4 times as much
_SPEED: Final = 4


class Selection(Filters, frozen=True, kw_only=True):
    """What a record must match: outcomes, and exact values instead of patterns."""

    rest: Filters = Filters()
    """Patterns that a record must match, too: of ids and hashes, and of unknown names."""

    def values(self) -> dict[str, tuple[int | str, ...]]:
        """The values that match, by field of the head; fields without a filter are left out."""
        values: dict[str, tuple[int | str, ...]] = {
            "evaluation_name": self.evaluation,
            METRIC: self.metric,
            "sample_hash": self.hash,
            "model_id": self.model,
            "sample_id": (*map(int, filter(_INTEGER.fullmatch, self.sample_id)), *self.sample_id),
        }
        return {name: allowed for name, allowed in values.items() if allowed}


class SortRange:
    """Where matching records can be in the sort order."""

    def __init__(self, selection: Selection, sort_fields: Sequence[str]) -> None:
        wanted: dict[str, Sequence[Any]] = {**selection.values()}
        if "sample_id" in wanted:  # a position has integers before strings
            wanted["sample_id"] = [(isinstance(value, str), value) for value in wanted["sample_id"]]
        if METRIC in wanted:  # it has records without a metric before all others
            wanted[METRIC] = [(True, value) for value in wanted[METRIC]]
        self._sort_fields = tuple(sort_fields)
        self._is_impossible = not wanted.keys() <= {*sort_fields}
        self._position_of = position_maker(sort_fields)
        self._allowed = [wanted.get(field) for field in sort_fields]
        leading = self._allowed[: len(wanted)]
        is_exact = not (selection.chooses_outcomes or selection.rest)
        self.is_contiguous = is_exact and all(values and len(values) == 1 for values in leading)
        """Whether the matching records are exactly those of one stretch of the corpus."""
        self.can_end_early = any(self._allowed[:2])
        """Whether checking for the last possible match is worth its time."""

    def may_be_in(self, part: PartEntry) -> bool:
        if self._is_impossible:  # records of this schema version have no metrics
            return False
        first = list(self._position_of(part.first))
        # The manifest has huge integers as hexadecimal strings. They sort after all integers, which
        # is harmless for a last key, but wrong for a first one.
        sample_id = part.first.sample_id
        if isinstance(sample_id, str) and _HEXADECIMAL.fullmatch(sample_id):
            first[self._sort_fields.index("sample_id")] = ()
        return _overlaps(self._allowed, tuple(first), self._position_of(part.last))

    def may_follow(self, head: LineHead, part: PartEntry) -> bool:
        """Whether a matching record may be at a line of a part or after it."""
        return _overlaps(self._allowed, self._position_of(head), self._position_of(part.last))


def _overlaps(
    allowed: Sequence[Sequence[Any] | None], low: Position | None, high: Position | None
) -> bool:
    """Whether a position from `low` to `high` can have allowed values.

    A field without any may have all.

    A bound is None if the fields before this one have already passed it.
    """
    if not allowed or (low is None and high is None):
        return True
    values = allowed[0]
    rest = allowed[1:]
    if values is None:
        if low and high and low[0] == high[0]:
            return _overlaps(rest, low[1:], high[1:])
        return low is None or high is None or low[0] < high[0]
    return any(
        _overlaps(
            rest,
            low[1:] if low and value == low[0] else None,
            high[1:] if high and value == high[0] else None,
        )
        for value in values
        if (low is None or value >= low[0]) and (high is None or value <= high[0])
    )


class _Evaluation(msgspec.Struct):
    is_correct: bool


class _Outcome(msgspec.Struct):
    evaluation: _Evaluation
    error: str = ""


_decode_outcome = msgspec.json.Decoder(_Outcome).decode


class Finder:
    """Finds matching lines in text.

    Raises MsgspecError if a candidate is not a line in normal form.
    """

    def __init__(self, selection: Selection) -> None:
        wanted = selection.values()
        spelled = {field: [_spell(value) for value in values] for field, values in wanted.items()}
        self._sample_ids = spelled.get("sample_id")
        self._texts = [
            (field, frozenset(values)) for field, values in wanted.items() if field != "sample_id"
        ]
        self._selection = selection
        self._rest = selection.rest
        self._needles = _needles(spelled, selection)

    def lines(self, data: bytearray, end: int) -> Iterator[bytes]:
        """Yield the matching lines of a buffer, with their newlines."""
        candidates = lines_with(data, self._needles, end) if self._needles else _lines_of(data, end)
        for first, beyond in candidates:
            if self.matches(data, first, beyond):
                yield bytes(memoryview(data)[first:beyond])

    def matches(self, data: bytearray, start: int, end: int) -> bool:
        head = read_head(data, start)
        rest = self._rest
        return (
            all(getattr(head, field) in texts for field, texts in self._texts)
            and (self._sample_ids is None or bytes(head.sample_id) in self._sample_ids)
            and (not rest or self._accepts(head))
            and (not self._selection.chooses_outcomes or self._accepts_outcome(data, start, end))
            and (
                not rest.where or rest.accepts_fields(parse(bytes(memoryview(data)[start:end]))[0])
            )
        )

    def _accepts(self, head: LineHead) -> bool:
        rest = self._rest
        return (
            rest.accepts_evaluation(head.evaluation_name)
            and rest.accepts_metric(head.metric())
            and rest.accepts_model(head.model_id)
            and rest.accepts_hash(head.sample_hash)
            and (not rest.sample_id or rest.accepts_sample_id(head.decoded_sample_id()))
        )

    def _accepts_outcome(self, data: bytearray, start: int, end: int) -> bool:
        record = _decode_outcome(memoryview(data)[start:end])
        return self._selection.accepts_outcome(
            is_correct=record.evaluation.is_correct, has_error=bool(record.error)
        )


def _lines_of(data: bytearray, end: int) -> Iterator[tuple[int, int]]:
    """Yield where each line of a buffer begins and ends, newline included."""
    first = 0
    while first < end:
        beyond = data.find(b"\n", first, end) + 1
        yield first, beyond
        first = beyond


def _needles(spelled: Mapping[str, Sequence[bytes]], selection: Selection) -> list[bytes]:
    """What every matching line has one of; empty if nothing is worth searching for.

    Of a pattern of ids or hashes, the beginning is searched for, up to the first special character.
    """
    patterns = {"sample_hash": selection.rest.hash, "sample_id": selection.rest.sample_id}
    for field in _RAREST_FIRST:
        mark = key_mark(field)[1:]
        values = spelled.get(field, ())
        if values and (len(values) <= _MOST_NAMES or field in patterns):
            # Up to the start of the next field. Quotes in a string are escaped, so this rarely
            # occurs elsewhere.
            return [mark + value + b',"' for value in values]
        plain = [_SPECIAL.split(pattern, maxsplit=1)[0] for pattern in patterns.get(field, ())]
        if plain and all(plain):
            starts = [_spell(text)[:-1] for text in plain]
            if field == "sample_id":  # it may be a number, without a quote
                starts += [start[1:] for start in starts]
            return [mark + start for start in starts]
    if selection.right and selection.wrong:
        return []
    needles = [_ERROR] if selection.errors else []
    if selection.right or selection.wrong:
        needles.append(_CORRECT + (b"true" if selection.right else b"false"))
    return needles


def _spell(value: int | str) -> bytes:
    try:
        return str(value).encode() if isinstance(value, int) else msgspec.json.encode(value)
    except UnicodeEncodeError as exc:
        raise UsageError(f"no record can have the value {value!r}: it is not valid UTF-8") from exc


def _resolve(filters: Filters, summary: Summary | None) -> Selection | None:
    """Make the selection of some filters; None if no record can match.

    Without a summary, names stay patterns.
    """
    exact: dict[str, Any] = {}
    rest: dict[str, Any] = {"where": filters.where}
    if not (filters.right and filters.wrong and filters.errors):
        exact = {name: getattr(filters, name) for name in ("right", "wrong", "errors")}
    for kind in _KINDS:
        if not _is_open(filters, kind):
            exact[kind] = getattr(filters, kind)
            continue
        names = getattr(names_of(summary.evaluations), f"{kind}s") if summary else ()
        matching = tuple(filter(getattr(filters, f"accepts_{kind}"), names))
        if summary and not matching:
            return None
        if summary and None not in matching:  # what is not there cannot be searched for
            exact[kind] = matching if len(matching) < len(names) else ()
        elif len(matching) < len(names) or not summary:
            given = msgspec.structs.asdict(filters)
            rest |= {name: given[name] for name in given if name.removeprefix("exclude_") == kind}
    for kind in ("sample_id", "hash"):
        patterns = getattr(filters, kind)
        target = rest if any(map(_SPECIAL.search, patterns)) else exact
        target[kind] = patterns
    return Selection(**exact, rest=Filters(**rest))


def _is_open(filters: Filters, kind: str) -> bool:
    """Whether other values match than those that are given.

    An empty metric means that there is none.
    """
    patterns: tuple[str, ...] = getattr(filters, kind)
    has_patterns = any(map(_SPECIAL.search, patterns)) or (kind == "metric" and "" in patterns)
    return has_patterns or bool(getattr(filters, f"exclude_{kind}", ()))


def _label(
    path: str, sources: Iterator[tuple[int, bytes]], data: bytearray, end: int, text: bytes
) -> bytes:
    """Add sources to the matching lines of the next buffer of a part.

    `text` has these lines, without others.

    No two lines of a part are the same, so a line is found in the buffer by its text.
    """
    records = data.count(b"\n", 0, end)
    numbered = list(islice(sources, records))
    if len(numbered) < records:
        raise CorpusError(path, f"has fewer lines than its part has records; {VERIFY_HINT}")
    if not text:
        return b""
    lines = enumerate(bytes(memoryview(data)[:end]).split(b"\n"))
    labelled = []
    for wanted in text.removesuffix(b"\n").split(b"\n"):
        at = next(at for at, line in lines if line == wanted)
        source = decode_source(path, *numbered[at])
        labelled.append(line_begin(source.shard) + b'%d,"record":%b}\n' % (source.line, wanted))
    return b"".join(labelled)


def cat(
    corpus: str | os.PathLike[str],
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int = 1,
    **filters: Unpack[FilterArguments],
) -> Iterator[bytes]:
    """Yield the lines of a corpus in order, without newlines.

    All records, or only those that match every filter.

    Args:
        corpus: A directory that `normalize` published.
        limit: Stop after this many lines.
        source: Yield `{"source": …, "line": …, "record": {…}}` instead: the shard and the line that
            a record comes from, and the record, byte for byte. The corpus needs `normalize
            --track-sources`.
        jobs: Processes to use if every part has to be searched.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, it does not have the sources of its records, or
            another argument is invalid.
        CorpusError: The manifest, a line or a source is not what fastrec writes.
        ShardError: A part cannot be read.
    """
    chosen = make_filters(**filters)  # now, so that a misspelled filter is refused at the call
    blocks = cat_blocks(corpus, chosen, limit=limit, source=source, jobs=jobs)
    return (line for block in blocks for line in block.removesuffix(b"\n").split(b"\n"))


def cat_blocks(
    corpus: str | os.PathLike[str],
    filters: Filters,
    *,
    limit: int | None = None,
    source: bool = False,
    jobs: int = 1,
) -> Iterator[bytes]:
    """Yield the text of the matching lines in blocks of whole lines; see `cat`."""
    check_jobs(jobs)
    if limit is not None and limit < 1:
        raise UsageError(f"the limit must be at least one line, not {limit}")
    reader = open_corpus(corpus)
    manifest = reader.manifest
    if source:
        need_sources(reader.path, manifest)
    summary = None
    if any(_is_open(filters, kind) for kind in _KINDS):
        # Without a summary, every line is looked at.
        with contextlib.suppress(FastrecError, OSError):
            summary = reader.summary
    selection = _resolve(filters, summary)
    if selection is None:
        return iter(())
    wanted = SortRange(selection, manifest.sort_fields)
    tasks = []
    for part in reader.parts:
        if wanted.may_be_in(part.entry):
            sources = sources_file(reader.path, part.entry) if source else ""
            tasks.append(_SearchTask(part, selection, manifest.sort_fields, limit, sources=sources))
    blocks = _search(tasks, 1 if wanted.is_contiguous else jobs)
    if filters.where:
        blocks = _with_known_fields(blocks, [shard_at(task.part.path) for task in tasks], filters)
    return blocks if limit is None else _first_lines(blocks, limit)


def _with_known_fields(
    blocks: Generator[bytes], parts: Sequence[Shard], filters: Filters
) -> Generator[bytes]:
    """Yield all blocks.

    UsageError if there are none because a condition is about a field that no record has.
    """
    check_fields(parts, filters.where)
    is_empty = True
    with closing(blocks):
        for block in blocks:
            is_empty = False
            yield block
    if is_empty:
        check_fields(parts, filters.where, nothing_matches=True)


class _SearchTask(PartTask, frozen=True):
    selection: Selection
    sort_fields: tuple[str, ...]
    limit: int | None  # no more lines than this are needed
    output: str = ""  # the file for the matching lines, if a worker searches the part
    sources: str = ""  # the file with the sources of the part, if they are wanted


def _search(tasks: Sequence[_SearchTask], jobs: int) -> Generator[bytes]:
    text_bytes = sum(task.part.entry.text_bytes for task in tasks) // _SPEED
    # With a limit, the first part often has all the lines that are needed.
    alone = jobs_for(text_bytes, len(tasks), jobs) == 1
    here = len(tasks) if alone else int(tasks[0].limit is not None)
    for task in tasks[:here]:
        yield from _matching_text(task)
    if here == len(tasks):
        return
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        rest = [
            msgspec.structs.replace(task, output=f"{scratch}/{n}")
            for n, task in enumerate(tasks[here:])
        ]
        with closing(run_in_order(_search_part, rest, text_bytes=text_bytes, jobs=jobs)) as done:
            for task in done:
                with open(task.output, "rb") as file:  # noqa: PTH123
                    while block := file.read(current_limits().cat_block_bytes) + file.readline():
                        yield block
                Path(task.output).unlink()


def _search_part(task: _SearchTask) -> _SearchTask:
    """Write the matching lines of one part to a file. Runs in a worker."""
    with open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        text = _matching_text(task)
        file.writelines(text if task.limit is None else _first_lines(text, task.limit))
    return task


def _matching_text(task: _SearchTask) -> Generator[bytes]:
    """Yield the matching lines of one part, until no match can follow.

    Where every line of a buffer matches, yield the whole buffer.
    """
    wanted = SortRange(task.selection, task.sort_fields)
    finder = Finder(task.selection)
    sources = source_lines(task.sources) if task.sources else None
    order = Order(task.part, task.sort_fields)
    for data, end in skim_lines(task.part):
        last = data.rfind(b"\n", 0, end - 1) + 1
        try:
            # Two heads of each buffer, because decoding all of them would take longer than copying
            # the text.
            last_head = read_head(data, last)
            order.check(read_head(data))
            order.check(last_head)
            ends = (0, last) if wanted.is_contiguous else ()
            if ends and all(finder.matches(data, start, end) for start in ends):
                text = bytes(memoryview(data)[:end])
            else:
                text = b"".join(finder.lines(data, end))
            if sources:
                text = _label(task.sources, sources, data, end, text)
            if text:
                yield text
            if wanted.can_end_early and not wanted.may_follow(last_head, task.part.entry):
                return
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            reason = f"has a line that is not a record in normal form: {exc}; {VERIFY_HINT}"
            raise CorpusError(task.part.path, reason) from exc
    order.end(task.part.entry.last)


def _first_lines(blocks: Generator[bytes], limit: int) -> Generator[bytes]:
    """Yield the first lines of some blocks, then close the generator that they come from."""
    with closing(blocks):
        for block in blocks:
            lines = count(block, b"\n")
            if lines >= limit:
                yield block[: len(block) - len(block.split(b"\n", limit)[limit])]
                return
            limit -= lines
            yield block
