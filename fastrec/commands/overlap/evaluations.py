"""Evaluations that have questions in common.

Evaluations share a question if the `sample_hash` is the same, or the input but for white space. Of
each question, one line is read.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec import Raw, Struct
from xxhash import xxh3_128_digest

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.judge.parse import decoded
from fastrec.schemas.view import view, view_decoder
from fastrec.summary.document import SampleId

_EXAMPLES = 3


class SharedExample(Struct):
    """A question that two evaluations have, as each of them names it."""

    #: In the first evaluation.
    sample_id: SampleId
    #: Its hash there.
    sample_hash: str
    #: In the second.
    other_sample_id: SampleId
    #: Its hash there.
    other_sample_hash: str


class SharedQuestions(Struct):
    """Questions that two evaluations have in common."""

    #: The one whose name comes first.
    evaluation_name: str
    #: The other one.
    other_evaluation_name: str
    #: Questions with the same `sample_hash`.
    hashes: int = 0
    #: Questions with the same `input.raw` but for white space.
    inputs: int = 0
    #: The first of these.
    examples: list[SharedExample] = []


_decode = view_decoder(evaluation_name=str, sample_id=Raw, sample_hash=str, input=view(raw=str))


class _Question(NamedTuple):
    evaluation: str
    sample_hash: str
    sample_id: SampleId
    text: bytes  # the digest of the input


def find_shared(index: QuestionTable, queries: Sequence[Query]) -> list[SharedQuestions]:
    """Compare all pairs of evaluations; those with the most questions in common come first."""
    # By hash or text, and by evaluation: the first such question.
    groups: dict[str | bytes, dict[str, _Question]] = {}
    for question in _questions(index, queries):
        for key in (question.sample_hash, question.text):
            groups.setdefault(key, {}).setdefault(question.evaluation, question)
    shared: dict[tuple[str, str], SharedQuestions] = {}
    for key, group in groups.items():
        for names in combinations(sorted(group), 2):
            pair = shared.setdefault(names, SharedQuestions(*names))
            if isinstance(key, str):
                pair.hashes += 1
                continue
            pair.inputs += 1
            if len(pair.examples) < _EXAMPLES:
                first, second = map(group.__getitem__, names)
                pair.examples.append(
                    SharedExample(
                        first.sample_id, first.sample_hash, second.sample_id, second.sample_hash
                    )
                )
    return sorted(
        shared.values(),
        key=lambda pair: (
            -pair.inputs,
            -pair.hashes,
            pair.evaluation_name,
            pair.other_evaluation_name,
        ),
    )


def _questions(index: QuestionTable, queries: Sequence[Query]) -> Iterator[_Question]:
    """Yield the questions of evaluations, each hash once per evaluation."""
    numbers: dict[tuple[str, str], int] = {}  # of the first record, by evaluation and hash
    for query in queries:
        table = index.table(query)
        first = table.number[table.first].tolist()
        for question in index.ids(query).tolist():
            name = query.evaluation_name, table.hashes[question]
            numbers.setdefault(name, first[question])
    for line in index.selection.lines(np.unique(list(numbers.values()))):
        record = _decode(line)
        text = " ".join(record.input.raw.split())
        digest = xxh3_128_digest(text.encode(errors="surrogatepass"))
        sample_id = decoded(record.sample_id)
        yield _Question(record.evaluation_name, record.sample_hash, sample_id, digest)
