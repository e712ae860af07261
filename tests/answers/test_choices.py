"""The marks of any choice of models are cut out of packed columns, and the facts are those of these models alone."""

from __future__ import annotations

import sqlite3
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.answers.marks import Choices, Cut, Marks, RecordMark, facts_of, mark, mean_length
from fastrec.statistics.repeats import ERROR, RIGHT, WRONG
from tests.sizes import examples

MODELS = 40
choices = st.sets(st.integers(0, MODELS - 1)).map(lambda chosen: tuple(sorted(chosen)))


@contextmanager
def database(rows: Sequence[Sequence[object]]) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE marks (scope, id, flags, shares, scores, lengths, outputs, numbers, trials)")
        connection.execute("CREATE TABLE asked (id INTEGER PRIMARY KEY, input_chars)")
        connection.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO asked VALUES (?, ?)", [(row[1], 300) for row in rows])
        yield connection


@given(choices)
def test_what_is_cut_has_the_marks_of_these_models(chosen: tuple[int, ...]) -> None:
    flags, scores = bytes(range(MODELS)), array("d", range(MODELS))
    with database([(0, 1, *Marks(flags, b"", scores.tobytes()))]) as connection:
        cut = Cut(chosen)
        columns = ", ".join(cut.column(name) for name in ("flags", "shares", "scores"))
        found, empty, packed = connection.execute(f"SELECT {columns} FROM marks m").fetchone()
    assert [found[at] for at in cut.models] == list(chosen)
    assert [array("d", packed)[at] for at in cut.models] == list(chosen)
    assert empty == b""
    pieces = cut.column("flags").count("substr(")
    assert pieces <= 8
    assert pieces == 8 or len(found) == len(chosen)


@settings(max_examples=examples(8, 160))
@given(st.integers(0, 1 << 30), st.lists(choices, min_size=1, max_size=6), st.booleans())
def test_facts_are_those_of_the_chosen_models(seed: int, several: list[tuple[int, ...]], graded: bool) -> None:
    random = Random(seed)
    packed = [_marks(random, random.choice([[0.0, 1.0], [0.0, 0.25, 1.0]])) for _ in range(4)]
    rows = [(7, 10 + at, *marks) for at, marks in enumerate(packed)]
    with database([*rows, (8, 9, *Marks(b"\1" * MODELS, b""))]) as connection:
        kept = Choices()
        for chosen in [*several, *several]:
            table = kept.facts(connection, 7, chosen, graded=graded)
            columns = connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
            assert columns == [
                (7, row[1], *facts_of(marks, chosen, graded=graded), length, 300)
                for row, marks in zip(rows, packed, strict=True)
                for length in [mean_length(marks.flags, marks.lengths, chosen)]
            ]


def test_the_mean_of_the_largest_doubles_is_one_of_them() -> None:
    largest = sys.float_info.max
    for score in (largest, -largest):
        marks = mark([(model, RIGHT, score, 0, 0, b"{}") for model in range(3)], 3)
        assert facts_of(marks, range(3), graded=True).score == score


def _marks(random: Random, scores: list[float]) -> Marks:
    """The marks of all models; some have no record, some several."""
    flags = [random.choice([0, RIGHT, WRONG, ERROR]) for _ in range(MODELS)]
    flags[0] = WRONG
    records: list[RecordMark] = [
        (at, flag, random.choice(scores), random.randrange(9), 0, b"{}")
        for at, flag in enumerate(flags)
        for _ in range(random.randint(1, 2))
        if flag
    ]
    if random.random() < 0.5:  # right and wrong
        records.append((0, RIGHT, 1.0, 5, 0, b"{}"))
    return mark(records, MODELS)
