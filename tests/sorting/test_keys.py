"""Sort keys: their bytes compare like the fields, for every sort order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastrec.schemas.v0_2_0 import Evaluation, Input, Output, Record
from fastrec.sorting.keys import (
    FIELDS,
    join_key,
    key_maker,
    key_splitter,
    sample_id_of,
    sort_order,
    text_of,
)

Fields = tuple[str, str, str, str, int | str]

# What could be taken for an end mark, for an escape, for a tag, or would sort differently in
# UTF-16.
tricky = st.text(
    st.sampled_from([*"\0\1\2\3\x7f\xffab", "\uffff", "\U00010000", "\U0010ffff"]), max_size=4
)
strings = tricky | st.text(max_size=4)
EDGES = [0, 1, 2**8, 2**16, 2**31, 2**32, 2**63, 2**64, 10**30, 10**5000, int("ff00" * 20, 16)]
edges = st.builds(
    lambda edge, off, sign: sign * (edge + off),
    st.sampled_from(EDGES),
    st.integers(-2, 2),
    st.sampled_from([-1, 1]),
)
sample_ids = st.integers() | edges | strings | st.sampled_from(["7", "-7", ""])
fields = st.tuples(strings, strings, strings, strings, sample_ids)
orders = st.permutations(FIELDS).map(tuple)


def record(values: Fields) -> Record:
    name, sample, model, run, sample_id = values
    return Record(
        schema_version="",
        evaluation_id=run,
        model_id=model,
        evaluation_name=name,
        sample_id=sample_id,
        sample_hash=sample,
        interaction_type="single_turn",
        input=Input(raw="", reference=""),
        output=Output(raw=""),
        answer_attribution=[],
        evaluation=Evaluation(score=1, is_correct=True),
    )


def place(values: Fields, order: tuple[str, ...]) -> tuple[Any, ...]:
    """What to compare instead of a key: integers by value and before strings, strings by code
    point.
    """
    named = dict(zip(FIELDS, values, strict=True))
    sample_id = named["sample_id"]
    named["sample_id"] = (1, 0, sample_id) if isinstance(sample_id, str) else (0, sample_id, "")
    return tuple(named[field] for field in order)


@given(st.lists(fields, min_size=2, max_size=12), orders)
@example(
    [
        ("a", "", "", "", "x"),
        ("a\0", "", "", "", "x"),
        ("a\0\0", "", "", "", "x"),
        ("a\1", "", "", "", "x"),
    ],
    FIELDS,
)
def test_keys_compare_like_the_fields(several: list[Fields], order: tuple[str, ...]) -> None:
    """Sorting by key sorts by the fields, and keys are equal only if all fields are."""
    key = key_maker(order)
    keys = {values: key(record(values)) for values in several}
    assert sorted(several, key=keys.__getitem__) == sorted(
        several, key=lambda values: place(values, order)
    )
    assert len(set(keys.values())) == len({place(values, order) for values in several})


@given(st.lists(sample_ids, min_size=2, max_size=20))
def test_integers_compare_by_value_and_before_strings(several: list[int | str]) -> None:
    """Integer ids sort by value, however long, negative ones too."""
    key = key_maker()

    def key_of(sample_id: int | str) -> bytes:
        return key(record(("", "", "", "", sample_id)))

    expected = sorted(one for one in several if isinstance(one, int))
    expected += sorted(one for one in several if isinstance(one, str))
    assert sorted(several, key=key_of) == expected


@given(fields, orders)
@example(("", "", "", "", ""), FIELDS)
@example(("\0", "\0\0", "", "\0\xff", "\0"), FIELDS)
@example(("a", "b", "c", "d", 0x00FF00FF), FIELDS)
@example(("a", "b", "c", "d", -(10**5000)), ("sample_id", *FIELDS[:-1]))
def test_a_key_can_be_split_and_joined(values: Fields, order: tuple[str, ...]) -> None:
    """Splitting a key gives its fields in the default order, and joining them gives the key."""
    key = key_maker(order)(record(values))
    *spelled, sample_id = key_splitter(order)(key)
    assert (*map(text_of, spelled), sample_id_of(sample_id)) == values
    assert join_key([*spelled, sample_id], order) == key
    # The default order has a quicker way to its keys: it spells the same.
    assert join_key([*spelled, sample_id]) == key_maker()(record(values))


@pytest.mark.parametrize("length", range(6))
def test_a_sort_order_is_completed_by_the_default(length: int) -> None:
    """The given fields come first, each once, and the others follow in the default order."""
    for named in permutations(FIELDS, length):
        order = sort_order([*named, *named])
        assert order[:length] == named
        assert list(order[length:]) == [field for field in FIELDS if field not in named]
