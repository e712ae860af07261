"""Key fields as columns: the same fields as those of each key alone, whatever the keys hold."""

from __future__ import annotations

import random
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from fastrec.sorting.keys import (
    FIELDS,
    METRIC_FIELDS,
    KeyColumns,
    column_splitter,
    key_maker,
    key_splitter,
)
from tests.sizes import examples

ORDERS = [FIELDS, METRIC_FIELDS, ("model_id", *(field for field in FIELDS if field != "model_id"))]

# Strings that look like marks, prefixes of each other, and parts of other fields.
words = st.sampled_from(["", "a", "b", "ab", "a\0", "a\0b", "\0", "\3a", "\3", "a\3b", "\1", "é"])
ids = st.sampled_from(["a", "b", "", "a\0", "\3a"]) | st.sampled_from(
    [0, 5, -1, -256, -65_282, 2**64]
)
metrics = st.sampled_from([UNSET, "", "a", "f1"])


def few(values: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=1, max_size=most, unique=True)


def key_of(order: tuple[str, ...], values: tuple[Any, ...]) -> bytes:
    return key_maker(order)(SimpleNamespace(**dict(zip(METRIC_FIELDS, values, strict=True))))


def rows(columns: KeyColumns) -> list[tuple[bytes, ...]]:
    lists = (
        columns.scopes,
        columns.hashes,
        columns.models,
        columns.evaluation_ids,
        columns.sample_ids,
    )
    return list(zip(*lists, strict=True))


def check(keys: list[bytes], order: tuple[str, ...]) -> None:
    split = key_splitter(order)
    columns = column_splitter(order)(keys)
    assert rows(columns) == [tuple(split(key)) for key in keys]
    groups = list(columns.groups())
    assert [position for first, end in groups for position in range(first, end)] == list(
        range(len(keys))
    )
    for first, end in groups:
        same = zip(
            columns.scopes[first:end],
            columns.hashes[first:end],
            columns.sample_ids[first:end],
            strict=True,
        )
        assert len(set(same)) == 1


several = st.tuples(few(words), few(words), few(words, 12), few(words), few(ids), few(metrics))
models = list("abcdefghijkl")


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=examples(8, 500))
@given(values=several, rng=st.randoms(use_true_random=False))
@example(
    values=(["e"], ["h", "i"], models, ["r"], ["a"], [UNSET]), rng=None
)  # all have answered both questions
@example(values=(["e"], ["h", "i"], models, ["r"], ["a", "b"], [UNSET]), rng=None)
@example(values=(["e"], ["h", "i"], models, ["r"], [-65_282], ["f1"]), rng=None)
@example(
    values=(["a"], ["a"], ["a", "b", "c", "a\3a"], ["a", "a\3a", "b"], ["a"], [UNSET]), rng=None
)
def test_columns_are_the_fields_of_each_key(
    values: tuple[list[Any], ...], rng: random.Random | None, order: tuple[str, ...]
) -> None:
    """Sorted keys, with gaps and with repeated keys.

    Keys of a damaged corpus may also be in another order.
    """
    keys = sorted(key_of(order, one) for one in product(*values))
    check(keys, order)
    if rng:
        some = [key for key in keys if rng.random() < 0.9 for _ in range(rng.choice([1, 1, 1, 2]))]
        check(some, order)
        rng.shuffle(some)
        check(some, order)


def test_columns_can_be_added() -> None:
    """Columns of two lists of keys, one after the other, are those of both."""
    keys = [key_of(FIELDS, ("e", "h", f"m{number:02d}", "r", "a", UNSET)) for number in range(30)]
    split = column_splitter()
    columns = split(keys[:13])
    columns += split(keys[13:])
    assert rows(columns) == rows(split(keys))
    assert columns.ends == [13, 30]
    assert len(columns) == 30


@pytest.mark.parametrize("order", [FIELDS, METRIC_FIELDS])
def test_many_keys_of_one_question_share_their_values(order: tuple[str, ...]) -> None:
    """A question with a million answers is in one part, so each of its records must need little
    memory.
    """
    metric = "f1" if order is METRIC_FIELDS else UNSET
    keys = sorted(
        key_of(order, ("e", "h", f"m{number % 3}", "run", "q", metric)) for number in range(1_200)
    )
    check(keys, order)
    columns = column_splitter(order)(keys)
    for column in (
        columns.scopes,
        columns.hashes,
        columns.models,
        columns.evaluation_ids,
        columns.sample_ids,
    ):
        assert len(set(map(id, column))) <= 3
