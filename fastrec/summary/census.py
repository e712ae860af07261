"""The census: the questions of an evaluation, who answered them, and ids with other hashes.

A question is a `sample_hash` within an evaluation, or a `sample_id` of it if the hash is split
(`keys.is_split`). Each part writes two sorted lists of census rows. After merging the lists of all
parts, comparing neighbours is enough to count everything:

    by hash       models per question, repeats, hashes with several ids
    by sample_id  ids with several hashes, identities with repeats and contradictions

Every record of an identity with several records counts once: as a contradiction if it contradicts
another one, else as a repeat. So an identity may count as both, and the records add up.

The lists of many parts are partitioned before they are counted:

    few parts ──▶ merge and count all lists
    many parts ──▶ partition the lists of groups of parts ──▶ merge and count each partition

Rows end with bytes. Lists are sorted and merged by the first three values of their rows. Rows whose
first two values are equal are in one partition, so counts of partitions add up.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from fastrec.engine.base import Engine
from fastrec.errors import TooManyResultsError
from fastrec.limits import current_limits, in_batches
from fastrec.schemas.view import NO_COUNTS, empty_by_key
from fastrec.sorting.files import ViewsWriter, read_blocks
from fastrec.sorting.keys import KeyColumns, is_split, split_scope
from fastrec.storage import FileDigest, fingerprint, join, storage_of
from fastrec.summary.rows import Sums
from fastrec.summary.tally import Outcome, Repeats, RepeatsByModel, add_repeats

_BLOCK_BYTES = 64 << 10
_ROW_BYTES = 128  # of a row besides its last value, about

Row = tuple[Any, ...]
Counted = TypeVar("Counted")


class CountTask(Struct, frozen=True):
    prefixes: list[str]
    rule: Any  # what else the task needs to know
    group: int

    def __str__(self) -> str:
        return f"counting the census of {len(self.prefixes):,} lists"


class _PartitionTask(Struct, frozen=True):
    prefixes: list[str]
    names: tuple[str, ...]
    target: str
    partitions: int

    def __str__(self) -> str:
        return f"partitioning the census of {len(self.prefixes):,} parts"


def write_rows(path: str, rows: Iterable[Row], *, compressed: bool = False) -> FileDigest:
    return _write_rows([path], rows, lambda _: 0, compressed=compressed)[0]


def _write_rows(
    paths: Sequence[str],
    rows: Iterable[Row],
    choose: Callable[[Row], int],
    *,
    compressed: bool = False,
) -> list[FileDigest]:
    """Write each row to the file that `choose` says, in small blocks, because a merge holds one."""
    waiting: list[list[Row]] = [[] for _ in paths]
    sizes = [0] * len(paths)
    with ExitStack() as stack:
        files = [stack.enter_context(ViewsWriter(path, compressed=compressed)) for path in paths]
        for row in rows:
            number = choose(row)
            block = waiting[number]
            block.append(row)
            sizes[number] += len(row[-1]) + _ROW_BYTES
            if sizes[number] >= _BLOCK_BYTES:
                files[number].write_block(block)
                waiting[number] = []
                sizes[number] = 0
        for file, block in zip(files, waiting, strict=True):
            if block:
                file.write_block(block)
    return [
        FileDigest(path, file.size, file.hash()) for path, file in zip(paths, files, strict=True)
    ]


def count_lists(
    count: Callable[[CountTask], Counted],
    rule: Any,
    groups: Sequence[Sequence[str]],
    names: tuple[str, ...],
    *,
    directory: str,
    engine: Engine,
) -> Iterator[tuple[int, Counted]]:
    """Count the lists of each group of parts; yield the number of a group and what to add up.

    The path of a list is a prefix of a group, a hyphen and one of the `names`. `rule` is what
    else `count` needs to know. Partitions are written to `directory`.
    """
    at_once = current_limits().census_fan_in
    partitions = current_limits().census_partitions
    tasks = []
    for group, prefixes in enumerate(groups):
        lists = [list(prefixes)]
        if len(prefixes) > at_once:
            several = (
                _PartitionTask(
                    list(batch),
                    names,
                    join(directory, f"partition-{group:05d}-{number:05d}"),
                    partitions,
                )
                for number, batch in enumerate(in_batches(prefixes, at_once))
            )
            targets = engine.in_order(_partition, several)
            lists = [[f"{target}-{at:03d}" for target in targets] for at in range(partitions)]
        tasks += [CountTask(listed, rule, group) for listed in lists]
    for at, counted in engine.run(count, tasks):
        task = tasks[at]
        yield task.group, counted
        if len(groups[task.group]) > at_once:
            storage_of(directory).remove(
                *(f"{prefix}-{name}" for prefix in task.prefixes for name in names)
            )


def _partition(task: _PartitionTask) -> str:
    target = f"{task.target}-{secrets.token_hex(4)}"
    for name in task.names:
        paths = [f"{target}-{number:03d}-{name}" for number in range(task.partitions)]
        rows = merge_lists(task.prefixes, name)
        _write_rows(paths, rows, lambda row: fingerprint(row[0] + b"\0" + row[1]) % task.partitions)
    return target


def merge_lists(prefixes: Iterable[str], name: str) -> Iterator[Any]:
    lists = (chain.from_iterable(read_blocks(f"{prefix}-{name}")) for prefix in prefixes)
    return merge(*lists, key=itemgetter(0, 1, 2))


IDENTITY_EXAMPLES = 100

# evaluation_name; sample_hash and sample_id (or the other way round); numbers of models, of models
# with an answer, of identities and of records; and packed lists, which are only unpacked if there
# may be several records of a model or of an identity: models, evaluation_ids, outcomes and, by
# sample_id, numbers of contradictions, if there are any.
CensusRow = tuple[bytes, bytes, bytes, int, int, int, int, bytes]

# For each record of a key, which contradiction it belongs to; None if it contradicts no other.
Numbers = Sequence[int | None]
NumbersByKey = Mapping[tuple[bytes, ...], Numbers]  # by key fields

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(
    tuple[list[bytes], list[bytes], list[Any], list[int | None]]
).decode

_Key = tuple[bytes, bytes, bytes]
# model_id, evaluation_id and outcome of each record of a key.
_Records = tuple[list[bytes], list[bytes], list[Outcome]]


def census_of_part(
    keys: KeyColumns,
    outcomes: list[Outcome],
    contradictions: NumbersByKey | None = None,
) -> tuple[list[CensusRow], list[CensusRow]]:
    """Build the census rows of records, by hash and by sample_id.

    Contradictions are given by key fields.
    """
    records: dict[_Key, _Records] = {}
    scopes = keys.scopes
    hashes = keys.hashes
    sample_ids = keys.sample_ids
    models = keys.models
    evaluation_ids = keys.evaluation_ids
    for first, end in keys.groups():
        key = scopes[first], hashes[first], sample_ids[first]
        group = models[first:end], evaluation_ids[first:end], outcomes[first:end]
        known = records.setdefault(key, group)
        if known is not group:
            known[0].extend(group[0])
            known[1].extend(group[1])
            known[2].extend(group[2])
    rows = [(*key, *_counts(*columns), _pack((*columns, ()))) for key, columns in records.items()]
    by_hash = sorted(rows)
    if contradictions:
        affected = {
            (evaluation, hash_, sample_id) for evaluation, hash_, _, _, sample_id in contradictions
        }
        rows = [
            (*row[:7], _numbered(row[:3], records[row[:3]], contradictions))
            if row[:3] in affected
            else row
            for row in rows
        ]
    by_id = [
        (evaluation, sample_id, sample_hash, *rest)
        for evaluation, sample_hash, sample_id, *rest in rows
    ]
    return by_hash, sorted(by_id)  # type: ignore[arg-type]


def _counts(
    models: list[bytes], evaluation_ids: list[bytes], outcomes: list[Outcome]
) -> tuple[int, int, int, int]:
    """The numbers of models, of models with an answer, of identities and of records."""
    count = len(models)
    if count == 1:
        return 1, int(not outcomes[0][2]), 1, 1
    answering = {model for model, (_, _, error) in zip(models, outcomes, strict=True) if not error}
    identities = set(zip(models, evaluation_ids, strict=True))
    return len(set(models)), len(answering), len(identities), count


def _numbered(key: _Key, records: _Records, contradictions: NumbersByKey) -> bytes:
    """Pack records with the contradiction that each of them belongs to."""
    evaluation, sample_hash, sample_id = key
    runs = list(zip(*records[:2], strict=True))
    numbers = {
        run: iter(contradictions.get((evaluation, sample_hash, *run, sample_id), ()))
        for run in runs
    }
    return _pack((*records, [next(numbers[run], None) for run in runs]))


class QuestionCounts(Sums):
    questions: int = 0
    # By number of models that have records of a question: how many questions have so many.
    by_models: dict[int, int] = NO_COUNTS
    by_answering: dict[int, int] = NO_COUNTS  # the same for answers
    repeats: RepeatsByModel = empty_by_key(Repeats)
    hashes_with_many_ids: int = 0
    split_hashes: int = 0
    ids_with_many_hashes: int = 0


QuestionsByScope = dict[bytes, QuestionCounts]

# evaluation, sample_id, model and evaluation_id, encoded as in sort keys.
IdentityFields = tuple[bytes, bytes, bytes, bytes]


class Identity(NamedTuple):
    """An identity with several records of a kind."""

    fields: IdentityFields
    records: int
    hashes: list[bytes]


class SeveralRecords(Struct, frozen=True):
    """An identity with several records."""

    fields: IdentityFields
    # By sample_hash, which contradiction each record belongs to; None if it contradicts no
    # other.
    numbers: dict[bytes, list[int | None]]

    def identity(self, *, contradicting: bool) -> Identity:
        """The identity with its records that contradict another one, or with the others."""
        records = {
            hash_: sum((number is not None) is contradicting for number in numbers)
            for hash_, numbers in self.numbers.items()
        }
        hashes = sorted(hash_ for hash_, count in records.items() if count)
        return Identity(self.fields, sum(records.values()), hashes)

    def key_fields(self, *, without_contradictions: bool) -> list[tuple[bytes, ...]]:
        """The fields of its keys in order, perhaps without keys of contradictions only."""
        evaluation, sample_id, model, evaluation_id = self.fields
        return [
            (evaluation, hash_, model, evaluation_id, sample_id)
            for hash_, numbers in sorted(self.numbers.items())
            if None in numbers or not without_contradictions
        ]


def count_questions(by_hash: Iterable[CensusRow]) -> QuestionsByScope:
    """Count the questions of each evaluation.

    Refuse too many evaluations.
    """
    most = current_limits().most_results
    counted: QuestionsByScope = defaultdict(QuestionCounts)
    for evaluation, evaluation_rows in groupby(by_hash, key=itemgetter(0)):
        counts = counted[evaluation]
        if len(counted) > most:
            raise TooManyResultsError(most, split_scope(evaluation)[0], "")
        for _, group in groupby(evaluation_rows, key=itemgetter(1)):
            rows = list(group)
            _, _, _, models, answering, _, count, _ = rows[0]
            if len(rows) == 1 and models == count:
                counts.questions += 1
                counts.by_models[models] += 1
                counts.by_answering[answering] += 1
                continue
            samples = [list(same) for _, same in groupby(rows, key=itemgetter(2))]
            counts.hashes_with_many_ids += len(samples) > 1
            runs = (
                (run, row[2]) for row in rows for run in zip(*_unpack(row[7])[:2], strict=True)
            )  # and their ids
            split = len(samples) > 1 and is_split(runs)
            counts.split_hashes += split
            for question in samples if split else [rows]:
                records = chain.from_iterable(
                    zip(*_unpack(row[7])[:3:2], strict=True) for row in question
                )
                answers_of = add_repeats(counts.repeats, records)
                counts.questions += 1
                counts.by_models[len(answers_of)] += 1
                counts.by_answering[sum(map(bool, answers_of.values()))] += 1
    return counted


def find_several(by_id: Iterable[CensusRow], counted: QuestionsByScope) -> Iterator[SeveralRecords]:
    """Yield identities with several records.

    Ids with several hashes are added to `counted`.
    """
    for (evaluation, sample_id), group in groupby(by_id, key=itemgetter(0, 1)):
        rows = list(group)
        counted[evaluation].ids_with_many_hashes += len({row[2] for row in rows}) > 1
        *_, identities, records, _ = rows[0]
        if len(rows) == 1 and identities == records:
            continue
        by_identity = defaultdict[tuple[bytes, bytes], Any](lambda: defaultdict(list))
        for row in rows:
            models, evaluation_ids, _, numbers = _unpack(row[7])
            numbers = numbers or [None] * len(models)
            for model, evaluation_id, number in zip(models, evaluation_ids, numbers, strict=True):
                by_identity[model, evaluation_id][row[2]].append(number)
        for (model, evaluation_id), by_hash in sorted(by_identity.items()):
            if sum(map(len, by_hash.values())) > 1:
                yield SeveralRecords((evaluation, sample_id, model, evaluation_id), by_hash)
