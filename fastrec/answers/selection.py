"""Which records of a corpus count, and the scope of each.

    columns of a part ──▶ a mask of the records that match ──▶ the scope of each: evaluation, metric
    and group

Filters and groups are evaluated on columns, once for each distinct value. What has no column is
read from the text, but only of records that match everything else. With groups, each group is an
evaluation, whose name has the group (`where.grouped_name`), so all that is asked of evaluations can
be asked of groups.

A record is identified by its number: its position in the corpus, over all parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import msgspec
import numpy as np

from fastrec.answers.codes import (
    NO_NUMBERS,
    Array,
    CodedColumn,
    distinct_of,
    look_up,
    ranks_of,
    rows_of,
    split_records,
    used_codes,
)
from fastrec.corpus.column_filter import codes_of, match_columns, values_at
from fastrec.corpus.columns import METADATA, PartColumns, new_codes
from fastrec.corpus.reader import lines_of, open_columns, open_corpus, unmatched
from fastrec.corpus.scan import VERIFY_HINT, PartTask, decoding, run_on_parts
from fastrec.errors import CorpusError, NoMatchError, UsageError, counted, shown
from fastrec.filters import Filters, Strings, as_tuple
from fastrec.judge.parse import decoded, parse, spell
from fastrec.limits import current_limits
from fastrec.parameters import AnyPath
from fastrec.progress import Progress
from fastrec.sorting.keys import scope_of
from fastrec.sources.shard import shard_at
from fastrec.summary.present_choice import no_match
from fastrec.where import (
    GroupBy,
    ScopeName,
    group_values,
    grouped_name,
    number_of,
    parse_group,
    parse_path,
    values_of,
    with_edges,
)

_NO_FILTERS = Filters()
Read = TypeVar("Read")
Result = TypeVar("Result")


# The values of a field in some records; what stands for a value is what a record counts under
# (`group_values`).
Field = CodedColumn


class Members(NamedTuple):
    """The records of a part that count. With groups, a record may be there several times."""

    positions: Array  # in ascending order
    scopes: Array  # their positions in `Selection.scopes`


Groups = tuple[GroupBy, ...]


class Selection:
    """The records of a corpus that count. May be used by several threads."""

    def __init__(self, corpus: AnyPath, *, jobs: int = 1, progress: Progress | None = None) -> None:
        """Select all records; `jobs` and `progress` are for reading the text of records."""
        self._jobs = jobs
        self._progress = progress
        self.reader = open_corpus(corpus)
        self.corpus = self.reader.path
        self.manifest = self.reader.manifest
        self.summary = self.reader.summary
        self.parts = self.reader.parts
        # The number of the first record of each part, and of one after the last record.
        self.starts = np.cumsum([0, *(part.entry.records for part in self.parts)])
        self.scopes: list[ScopeName] = [
            (evaluation.evaluation_name, evaluation.metric)
            for evaluation in self.summary.evaluations
        ]
        self.is_whole = True
        # By number: the cluster of the question of a record, if questions come in clusters.
        self.clusters: Array | None = None
        self.notes: list[str] = []  # about these
        self.chosen: list[Members] = []  # by part; empty if all records count
        # The last columns that were read: a part may have hundreds of evaluations, which ask for
        # the same ones.
        self._read_column = lru_cache(8)(PartColumns.numbers)

    @property
    def has_split_hashes(self) -> bool:
        """Whether hashes of the corpus are split."""
        return any(evaluation.split_hashes for evaluation in self.summary.evaluations)

    def columns(self, part: int) -> PartColumns:
        """The columns of a part."""
        return self.reader.part_columns(part)

    def members(self, part: int) -> Members:
        """The records of a part that count."""
        return self.chosen[part] if self.chosen else self._all_members(part)

    def scope_codes(self, part: int) -> Array:
        """The position in `scopes` of each record of a part, or -1 if it does not count."""
        positions, scopes = self.members(part)
        codes = np.full(self.parts[part].entry.records, -1, dtype=np.int32)
        codes[positions] = scopes
        return codes

    def _all_members(self, part: int) -> Members:
        columns = self.columns(part)
        evaluations = columns.values("evaluation")
        metrics = columns.values("metric")
        codes = columns.numbers("evaluation"), columns.numbers("metric")
        first, place = distinct_of(*codes)
        pairs = rows_of(*(column[first] for column in codes))
        numbers = {name: number for number, name in enumerate(self.scopes)}
        try:
            scopes = [numbers[evaluations[name], metrics[metric]] for name, metric in pairs]
        except (KeyError, IndexError) as exc:
            reason = f"its columns have an evaluation that is not in the summary; {VERIFY_HINT}"
            raise CorpusError(self.parts[part].path, reason) from exc
        return Members(np.arange(len(place)), np.array(scopes, dtype=np.int32)[place])

    def numbers(self, part: int) -> Array:
        """The numbers of the records of a part that count."""
        if self.is_whole:
            return np.arange(self.starts[part], self.starts[part + 1])
        return self.members(part).positions + int(self.starts[part])

    def filtered(self, filters: Filters) -> Selection:
        """Select the records of the corpus that match some filters."""
        if not filters:
            return self
        chosen = []
        tasks = []
        for number, part in enumerate(self.parts):
            matching = match_columns(self.columns(number), filters)
            chosen.append(np.array(matching.positions, dtype=np.int64))
            if matching.to_read:
                to_read = np.array(matching.to_read, dtype=np.int64)
                tasks.append(_FilterTask(part, number, to_read, filters))
        for task, refused in self._run(_refused, tasks):
            chosen[task.number] = np.setdiff1d(chosen[task.number], refused)
        members = [
            Members(positions, self.members(part).scopes[positions])
            for part, positions in enumerate(chosen)
        ]
        return self._with_members(self.scopes, members)

    def grouped(self, groups: Groups) -> Selection:
        """Select the same records, with an evaluation for each group."""
        if not groups:
            return self
        scopes = new_codes()  # as tuples of the scope and the code of each group
        members = []
        models = set()  # of each scope
        for part, fields in self._fields(groups):
            positions, ungrouped = self.members(part)
            labels = [_labels(group, field) for group, field in zip(groups, fields, strict=True)]
            columns = [ungrouped, *(field.codes for field in fields)]
            first, place = distinct_of(*columns)
            keys = [  # of each combination of a scope and values
                list(product([scope], *map(list.__getitem__, labels, codes)))
                for scope, *codes in rows_of(*(column[first] for column in columns))
            ]
            known = look_up(scopes, chain.from_iterable(keys))
            sizes = np.array(list(map(len, keys)), dtype=np.int64)
            repeats = sizes[place]
            rows = np.repeat(np.arange(len(place)), repeats)
            # Where the keys of a record begin, among all keys and among these rows.
            begin = (np.cumsum(sizes) - sizes)[place] - (np.cumsum(repeats) - repeats)
            codes = known[begin[rows] + np.arange(len(rows))]
            members.append(Members(positions[rows], codes))
            models |= self._models_of(part, members[-1])
            _check_groups(groups, len(models))
        names = [
            (grouped_name(self.scopes[number][0], key), self.scopes[number][1])
            for number, *key in scopes
        ]
        return self._with_members(names, members)

    def set_clusters(self, field: str) -> None:
        """Put questions with the same value of a field into a cluster.

        A question has the value of its first record with one. Without any, it is a cluster of its
        own.

        Raises:
            NoMatchError: No record has the field.
        """
        group = GroupBy(parse_path(field))
        values = new_codes()
        look_up(values, [""])  # of records without the field
        codes = np.zeros(self.starts[-1], dtype=np.int64)  # of the values, by record
        for part, (own,) in self._fields((group,)):
            of_values = look_up(values, [group.code_of(first) for first, *_ in own.values])
            codes[self.numbers(part)] = of_values[own.codes]
        numbers = np.arange(len(codes))
        columns = [self.codes(name, numbers).codes for name in ("evaluation", "hash")]
        if self.has_split_hashes:
            others = ("sample_id", "metric", "model", "run")
            samples, *runs = (self.codes(name, numbers).codes for name in others)
            is_split = split_records(distinct_of(*columns), samples, *runs)
            columns.append(np.where(is_split, samples + 1, 0))
        _, place = distinct_of(*columns)
        known = np.zeros(place.max() + 1, dtype=np.int64)  # by question
        with_value = np.flatnonzero(codes)[::-1]
        known[place[with_value]] = codes[with_value]  # the first record is the last to be set
        if not known.any():
            raise NoMatchError(f"no record of {shown(self.corpus)} has the field {field}")
        alone = len(values) + np.arange(len(known))
        self.clusters = np.where(known > 0, known, alone)[place]
        if several := len(used_codes(place[(codes > 0) & (codes != known[place])])):
            text = f"{counted(several, 'question')} with several values of {field}"
            self.notes = [f"{text}: the first one counts"]

    def count_numbers(self, group: GroupBy) -> Counter[Any]:
        """Count the numbers of the field of a group."""
        counts = Counter[Any]()
        for _, (field,) in self._fields((group,)):
            records = np.bincount(field.codes, minlength=len(field.values))
            for values, count in zip(field.values, records.tolist(), strict=True):
                number = number_of(values[0]) if count else None
                if number is not None:
                    counts[number] += count
        return counts

    def number_parts(self, lowest: str, highest: str) -> range:
        """The numbers of the parts that may have records of evaluations between two names."""
        if self.manifest.sort_fields[0] != "evaluation_name":
            return range(len(self.parts))
        entries = [part.entry for part in self.parts]
        begin = sum(entry.last.evaluation_name < lowest for entry in entries)
        end = sum(entry.first.evaluation_name <= highest for entry in entries)
        return range(begin, end)

    def by_part(self, numbers: Array) -> Iterator[tuple[int, Array]]:
        """Split the numbers of records, in ascending order: a part, and positions in it."""
        bounds = np.searchsorted(numbers, self.starts).tolist()
        for part, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                yield part, numbers[begin:end] - self.starts[part]

    def lines(self, numbers: Array) -> Iterator[bytes]:
        """Read the lines of some records, given their numbers in ascending order."""
        for part, positions in self.by_part(numbers):
            yield from lines_of(self.parts[part], self.columns(part), positions.tolist())

    def read(self, numbers: Array, decode: Callable[[bytes], Read]) -> list[Read]:
        """Read something of the lines of some records, given their numbers in any order."""
        order = np.argsort(numbers, kind="stable")
        values = list(map(decode, self.lines(numbers[order])))
        return [values[rank] for rank in ranks_of(order).tolist()]

    def gather(self, name: str, numbers: Array) -> Array:
        """The values of a column in some records, given by number."""
        return self._collect(numbers, lambda columns, at: self._read_column(columns, name)[at])

    def codes(self, name: str, numbers: Array) -> CodedColumn:
        """A column in some records.

        Equal values of all parts have one code. Values of metadata are spelled in JSON, because 1,
        1.0 and true are equal.
        """
        values = new_codes()

        def collect(columns: PartColumns, positions: Array) -> Array:
            known = _dictionary(columns, name)
            codes = np.zeros(len(positions), dtype=np.uint8)
            if name in columns.frames:
                codes = columns.numbers(name)[positions]
            used = np.flatnonzero(np.bincount(codes, minlength=len(known)))
            new = np.zeros(len(known), dtype=np.int64)
            new[used] = look_up(values, [known[code] for code in used.tolist()])
            return new[codes]

        return CodedColumn(self._collect(numbers, collect), list(values))

    def _collect(self, numbers: Array, collect: Callable[[PartColumns, Array], Array]) -> Array:
        """Collect values of records, given by number, from the columns of their parts."""
        is_in_order = bool((numbers[1:] >= numbers[:-1]).all())
        order = slice(None) if is_in_order else np.argsort(numbers)
        collected = [
            collect(self.columns(part), positions)
            for part, positions in self.by_part(numbers[order])
        ]
        in_order = np.concatenate(collected) if collected else NO_NUMBERS
        if is_in_order:
            return in_order
        values = np.empty_like(in_order)
        values[order] = in_order
        return values

    def exact(self, name: str, numbers: Array) -> dict[int, int]:
        """The integers that the array of a column cannot hold, by position among the numbers."""
        exact = {
            int(self.starts[part]) + position: value
            for part, _ in self.by_part(np.sort(numbers))
            for position, value in self.columns(part).exact(name).items()
        }
        if not exact:
            return {}
        places = np.flatnonzero(np.isin(numbers, list(exact)))
        return {place: exact[int(numbers[place])] for place in places.tolist()}

    def _with_members(self, scopes: Sequence[ScopeName], members: Sequence[Members]) -> Selection:
        """Select other records, given the scope of each.

        Scopes without records are left out, the others are in order.
        """
        used = {number for own in members for number in used_codes(own.scopes).tolist()}
        kept = sorted(used, key=lambda number: scope_of(*scopes[number]))
        selection = copy(self)
        selection.is_whole = False
        selection.scopes = [scopes[number] for number in kept]
        new = np.empty(len(scopes), dtype=np.int32)
        new[kept] = np.arange(len(kept))
        selection.chosen = [own._replace(scopes=new[own.scopes]) for own in members]
        return selection

    def _fields(self, groups: Groups) -> Iterator[tuple[int, list[Field]]]:
        """Yield each part with the values of the field of each group in its records that count."""
        known = []
        tasks = []
        for number, part in enumerate(self.parts):
            positions = self.members(number).positions
            by_group = {group: self._field(number, group, positions) for group in groups}
            known.append({group: field for group, field in by_group.items() if field})
            if unread := [group for group in by_group if not by_group[group]]:
                tasks.append(_FieldTask(part, number, positions, unread))
        for task, fields in self._run(_read_fields, tasks):
            known[task.number] |= fields
        for number, fields in enumerate(known):
            yield number, [fields[group] for group in groups]

    def _field(self, part: int, group: GroupBy, positions: Array) -> Field | None:
        """The values of the field of a group in some records.

        None if lines have to be read, because of how values are spelled.
        """
        if not len(positions):
            return Field(positions, [])
        codes, spellings = codes_of(self.columns(part), group.path)
        if any(len(own) != 1 and not (own and group.bins) for own in spellings):
            return None
        values = [group_values(values_at(group.path, own[0])) for own in spellings]
        return Field(np.array(codes, dtype=np.int64)[positions], values)

    def _run(
        self, function: Callable[[_Task], Result], tasks: Sequence[_Task]
    ) -> Iterator[tuple[_Task, Result]]:
        """Run tasks that read lines; yield each with its result."""
        if tasks:
            results = run_on_parts(
                function, tasks, "read", jobs=self._jobs, progress=self._progress
            )
            yield from zip(tasks, results, strict=True)

    def _models_of(self, part: int, members: Members) -> set[tuple[int, str]]:
        """Each scope with its models, in a part."""
        columns = self.columns(part)
        of_models = columns.numbers("model")[members.positions]
        first = distinct_of(members.scopes, of_models).first
        names = columns.values("model")
        return {
            (scope, names[code]) for scope, code in rows_of(members.scopes[first], of_models[first])
        }


class How(TypedDict, total=False):
    """How records are selected, besides filters and groups."""

    cluster: str | None  # Questions with the same value of this field are a cluster.
    jobs: int  # processes to use if the text of records has to be read
    progress: Progress | None  # receives the progress of it


def parse_groups(fields: Strings) -> Groups:
    return tuple(map(parse_group, as_tuple("group_by", fields)))


def select(
    corpus: AnyPath,
    filters: Filters = _NO_FILTERS,
    groups: Groups = (),
    **how: Unpack[How],
) -> Selection:
    """Select the matching records of a corpus; with groups, each group is an evaluation."""
    (selection,) = select_same_bins([corpus], filters, groups, **how)
    return selection


def select_same_bins(
    corpora: Sequence[AnyPath],
    filters: Filters,
    groups: Groups,
    *,
    cluster: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Selection]:
    """Select the matching records of several corpora, not all of which may have none.

    The borders of bins follow from all of them. Questions with the same value of the field
    `cluster` are a cluster.
    """
    opened = [Selection(corpus, jobs=jobs, progress=progress) for corpus in corpora]
    check_known_fields(opened, filters, groups, cluster)
    matching = filter_selections(opened, filters)
    binned = []
    for group in groups:
        counts = Counter[Any]()
        if group.bins:
            for selection in matching:
                counts.update(selection.count_numbers(group))
            group = with_edges(group, counts)
        binned.append(group)
    grouped = [selection.grouped(tuple(binned)) for selection in matching]
    for selection in grouped:
        if cluster and selection.scopes:
            selection.set_clusters(cluster)
    return grouped


def filter_selections(selections: Sequence[Selection], filters: Filters) -> list[Selection]:
    """Select the matching records of several corpora, not all of which may have none."""
    matching = [selection.filtered(filters) for selection in selections]
    if filters and not any(selection.scopes for selection in matching):
        check_known_fields(selections[-1:], filters, nothing_matches=True)
        raise no_match(filters, selections[-1].summary.evaluations)
    return matching


def check_numbers(selection: Selection, numbers: Iterable[int]) -> Array:
    """The numbers of some records as an array.

    UsageError if they are not those of records, in ascending order.
    """
    array = numbers if isinstance(numbers, np.ndarray) else np.array(list(numbers))
    last = selection.starts[-1] - 1
    is_right = array.dtype.kind in "iu" and (array[1:] >= array[:-1]).all()
    if array.size and not (is_right and array[0] >= 0 and array[-1] <= last):
        raise UsageError(
            f"the numbers of records are integers from 0 to {last:,} in ascending order"
        )
    return array.astype(np.int64)


def has_column(columns: PartColumns, name: str) -> bool:
    """Whether a part has a column, or has no record with that key of metadata."""
    return name in columns.frames or columns.lacks(name.removeprefix(METADATA))


def _dictionary(columns: PartColumns, name: str) -> Sequence[Any]:
    """What the codes of a column stand for; values of metadata are spelled in JSON."""
    if not name.startswith(METADATA):
        return columns.values(name)
    if name not in columns.frames:
        return [b"null"]
    spelled = msgspec.json.decode(columns.content(f"values.{name}"), type=list[msgspec.Raw])
    return list(map(bytes, spelled))


class _PartTask(PartTask, frozen=True):
    number: int  # of the part
    positions: Array  # of the records to read


class _FilterTask(_PartTask, frozen=True):
    filters: Filters


class _FieldTask(_PartTask, frozen=True):
    groups: Sequence[GroupBy]


_Task = TypeVar("_Task", bound=_PartTask)


def _refused(task: _FilterTask) -> list[int]:
    """The positions of records that do not match. Runs in a worker."""
    columns = open_columns(task.part)
    return unmatched(task.part, columns, task.positions.tolist(), task.filters)


def _read_fields(task: _FieldTask) -> dict[GroupBy, Field]:
    """Collect fields. Runs in a worker."""
    codes: dict[GroupBy, list[int]] = {group: [] for group in task.groups}
    # By value, spelled as a list.
    values: dict[GroupBy, dict[bytes, int]] = {group: {} for group in task.groups}
    with decoding(task.part):
        for line in lines_of(task.part, open_columns(task.part), task.positions.tolist()):
            record = decoded(line)
            for group in task.groups:
                spelled = spell(list(values_of(record, group.path)))
                known = values[group]
                codes[group].append(known.setdefault(spelled, len(known)))
    return {
        group: Field(
            np.array(codes[group]), [group_values(parse(value)[0]) for value in values[group]]
        )
        for group in task.groups
    }


def _labels(group: GroupBy, field: Field) -> list[list[str]]:
    """By code of a field: the groups that a record belongs to."""
    return [
        sorted(set(map(group.code_of, values[:1] if group.bins else values)))
        for values in field.values
    ]


def _check_groups(groups: Groups, results: int) -> None:
    most = current_limits().group_results
    if results > most:
        fields = ", ".join(group.field for group in groups)
        raise UsageError(
            f"{fields} has too many values to group by: there are more than {most:,} results, "
            "each of a group, "
            "metric and model. Choose another field, FIELD:N for N bins of its numbers, or fewer "
            "records"
        )


def check_known_fields(
    selections: Sequence[Selection],
    filters: Filters,
    groups: Groups = (),
    cluster: str | None = None,
    *,
    nothing_matches: bool = False,
) -> None:
    """Raise a UsageError if a field is misspelt: no record of these corpora has it."""
    paths = [group.path for group in groups]
    if cluster:
        paths.append(parse_path(cluster))
    if filters.where or paths:
        from fastrec.normalize.inputs import check_fields  # noqa: PLC0415 - few conditions need it

        parts = [shard_at(part.path) for selection in selections for part in selection.parts]
        check_fields(
            parts,
            filters.where,
            paths,
            lacks=lambda key: all(selection.reader.lacks(key) for selection in selections),
            nothing_matches=nothing_matches,
        )
