"""Borders and cuts: exact sizes, parts within bounds, and cuts that only nearby changes move."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.sorting.cuts import (
    Border,
    BorderSizes,
    RegionSample,
    choose_cuts,
    part_size_for,
    prefix_maker,
    read_borders,
    write_borders,
)
from fastrec.sorting.keys import FIELDS, METRIC_FIELDS, key_maker
from fastrec.sorting.runs import Fence
from fastrec.storage import fingerprint
from tests.sizes import examples
from tests.sorting.test_keys import sample_ids, strings

PART = 100

# Borders

few = st.sampled_from(["", "a", "b", "a\0", "b\0", "\0", "a\0b"])
names = few | strings
metrics: st.SearchStrategy[str | UnsetType] = st.just(UNSET) | few
records = st.tuples(
    names, names, few, few, sample_ids | st.sampled_from([0, 1, 255, 0xFF00FF]), metrics
)
orders = st.permutations(FIELDS).map(tuple) | st.permutations(METRIC_FIELDS).map(tuple)


@settings(max_examples=examples(15, 500))
@given(
    st.lists(st.tuples(records, st.integers(1, 99)), max_size=20),
    orders,
    st.lists(st.integers(0, 20), max_size=4),
)
@example([(("a", "b", "", "", 0, UNSET), 1), (("a", "b\0", "", "", 0, UNSET), 2)], FIELDS, [])
def test_borders_hold_the_records_of_a_question(
    sized: list[tuple[tuple[object, ...], int]], order: tuple[str, ...], window_ends: list[int]
) -> None:
    """Records whose leading fields are equal, and no others, are from the prefix to the prefix and
    FF.
    """
    leading = order[: max(order.index("evaluation_name"), order.index("sample_hash")) + 1]
    make_key = key_maker(order)
    expected = Counter[tuple[object, ...]]()
    found = Counter[tuple[object, ...]]()
    keyed = []
    for values, size in sized:
        named = dict(zip(METRIC_FIELDS, values, strict=True))
        question = tuple((str(type(named[field])), named[field]) for field in leading)
        expected[question] += size
        keyed.append((make_key(SimpleNamespace(**named)), size, question))
    keyed.sort(key=lambda item: item[0])
    sizes = BorderSizes(order)
    for first, end in pairwise([0, *sorted(window_ends), len(keyed)]):
        sizes.add(
            [key for key, _, _ in keyed[first:end]], [size for _, size, _ in keyed[first:end]]
        )
    borders = sizes.borders
    assert borders == sorted(set(borders))
    for prefix, size in borders:
        inside = {question for key, _, question in keyed if prefix <= key < prefix + b"\xff"}
        assert len(inside) == 1
        found[inside.pop()] = size
    assert found == expected
    assert all(prefix_maker(leading)(key) in dict(borders) for key, _, _ in keyed)


def test_sizes_of_large_windows() -> None:
    """Borders with one record and with thousands are found, within a window and across windows."""
    rng = random.Random(1)
    counts = {b"e\0%06d\0" % number: rng.choice([1, 1, 2, 130, 3_000]) for number in range(100)}
    keys = [
        prefix + b"m%05d\0" % number for prefix, count in counts.items() for number in range(count)
    ]
    sizes = BorderSizes(FIELDS)
    for first in range(0, len(keys), 1_777):
        window = keys[first : first + 1_777]
        sizes.add(window, [3] * len(window))
    assert sizes.borders == [(prefix, 3 * count) for prefix, count in counts.items()]


@pytest.mark.parametrize("count", [0, 1, 4_096, 10_000])
def test_borders_are_read_as_written(tmp_path: Path, count: int) -> None:
    """A file of borders has all of them in order."""
    borders = [(b"e\0%06d\0" % number, number) for number in range(count)]
    path = str(tmp_path / "borders")
    file = write_borders(path, borders)
    assert (file.path, file.size) == (path, Path(path).stat().st_size)
    assert list(read_borders(path)) == borders


# Cuts

sizes = st.integers(1, 30) | st.sampled_from([1, 40, 50, 51, 75, 99, 100, 101, 150, 160, 300])
evaluations = st.lists(st.lists(sizes, min_size=1, max_size=30), min_size=1, max_size=12)
salts = st.integers(0, 10**6)


def borders_of(several: Sequence[Sequence[int]], salt: int = 0) -> list[Border]:
    """Make borders from the sizes of the questions of each evaluation.

    With another salt, they rank differently.
    """
    return [
        (b"e%03d-%d\0%04d\0" % (number, salt, question), size)
        for number, questions in enumerate(several)
        for question, size in enumerate(questions)
    ]


def by_splitting(borders: Sequence[Border], part: int) -> list[bytes]:
    """The definition of the cuts: split the range at the border of the lowest rank, and then both
    halves.
    """
    places = []
    position = 0
    last = b""
    for prefix, size in borders:
        name = prefix[: prefix.index(b"\0") + 1]
        key = prefix if name == last else name
        places.append((name == last, fingerprint(key), position, key))
        position = position + size
        last = name

    def split(low: int, high: int) -> list[bytes]:
        fit = [
            place for place in places if place[2] - low >= part / 2 and high - place[2] >= part / 2
        ]
        if high - low <= 1.5 * part or not fit:
            return []
        *_, middle, key = min(fit)
        return [*split(low, middle), key, *split(middle, high)]

    return split(0, position)


def chosen(borders: Sequence[Border], part: int = PART, limits: Limits = LIMITS) -> list[bytes]:
    with use_limits(limits):
        return choose_cuts(iter(borders), part, FIELDS)


def parts_of(borders: Sequence[Border], cuts: Sequence[bytes]) -> list[list[int]]:
    """The sizes of the questions of each part."""
    parts: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
    for prefix, size in borders:
        parts[bisect_right(cuts, prefix)].append(size)
    return parts


@settings(max_examples=examples(15, 500))
@given(evaluations, salts, st.sampled_from([1, 7, PART, 1_000]))
def test_cuts_split_ranges_at_the_lowest_rank(
    several: list[list[int]], salt: int, part: int
) -> None:
    """Cuts are those of a recursive split over all borders."""
    borders = borders_of(several, salt)
    assert chosen(borders, part) == by_splitting(borders, part)


@settings(max_examples=examples(15, 500))
@given(evaluations, salts)
def test_parts_are_within_bounds(several: list[list[int]], salt: int) -> None:
    """Parts have ½ to 2 × the part size, but for those with one question that is larger than the
    part size.
    """
    borders = borders_of(several, salt)
    parts = parts_of(borders, chosen(borders))
    for part in parts:
        assert sum(part) >= PART / 2 or len(parts) == 1
        assert sum(part) <= 1.5 * PART or sum(part) < max(part) + PART


large = st.lists(sizes, max_size=30).map(lambda some: [max(1, PART + 1 - sum(some)), *some])


@settings(max_examples=examples(15, 500))
@given(evaluations, evaluations, st.tuples(large, large), st.integers(0, 40), salts)
def test_changes_within_a_large_evaluation_move_no_cut_outside(
    earlier: list[list[int]],
    later: list[list[int]],
    contents: tuple[list[int], list[int]],
    shift: int,
    salt: int,
) -> None:
    """If it is larger than the part size before and after, all other cuts stay, also those where it
    begins or ends.

    The other evaluations may have any size. The questions of the large one may be others, also the
    first and the last.
    """

    def cuts_outside(name: bytes, borders: list[Border]) -> list[bytes]:
        changed = [
            *borders_of(earlier, salt),
            *borders,
            *((b"g" + prefix, size) for prefix, size in borders_of(later)),
        ]
        return [cut for cut in chosen(changed) if cut == name or not cut.startswith(name)]

    old, new = (
        [(b"f\0%04d\0" % number, size) for number, size in enumerate(some)] for some in contents
    )
    new = [(b"f\0%04d\0" % (int(prefix[2:6]) + shift), size) for prefix, size in new]
    assert cuts_outside(b"f\0", old) == cuts_outside(b"f\0", new)


@settings(max_examples=examples(15, 500))
@given(evaluations, st.lists(st.tuples(st.integers(0, 400), st.integers(1, 99)), max_size=5), salts)
def test_cuts_do_not_depend_on_regions(
    several: list[list[int]], splits: list[tuple[int, int]], salt: int
) -> None:
    """A border whose records are in several regions counts as one."""
    borders = borders_of(several, salt)
    expected = chosen(borders)
    for position, share in splits:
        prefix, size = borders[position % len(borders)]
        first = size * share // 100
        borders[position % len(borders) : position % len(borders) + 1] = [
            (prefix, first),
            (prefix, size - first),
        ]
    assert chosen(borders) == expected


@settings(max_examples=examples(15, 500))
@given(evaluations, salts, st.integers(1, 40), st.integers(1, 20))
def test_limits_make_parts_larger(
    several: list[list[int]], salt: int, most_borders: int, most_parts: int
) -> None:
    """Cuts are those of some larger part size: twice as large, or four times, and so on."""
    borders = borders_of(several, salt)
    sizes = [PART << times for times in range(20)]
    assert chosen(borders, limits=Limits(most_borders=most_borders)) in [
        by_splitting(borders, size) for size in sizes
    ]
    few_enough = (cuts for size in sizes if len(cuts := by_splitting(borders, size)) < most_parts)
    assert chosen(borders, limits=Limits(most_parts=most_parts)) == next(few_enough)


@settings(max_examples=examples(15, 500))
@given(evaluations, salts, st.sampled_from([PART, 101, 7]), st.integers(1, 30), st.integers(1, 20))
def test_small_corpora_have_smaller_parts(
    several: list[list[int]], salt: int, part: int, least_part: int, fewest_parts: int
) -> None:
    """The part size is halved while the corpus has less than some parts of it, and parts are not
    too small.
    """
    borders = borders_of(several, salt)
    expected = part
    total = sum(size for _, size in borders)
    while expected // 2 >= least_part and total < fewest_parts * expected:
        expected //= 2
    limits = Limits(least_part=least_part, fewest_parts=fewest_parts)
    assert chosen(borders, part, limits) == by_splitting(borders, expected)
    assert use_limits(limits)(part_size_for)(total, part) == expected


def test_few_borders_are_held() -> None:
    """About 6 borders per part are held, however many questions there are.

    With fewer, parts are larger.
    """
    borders = borders_of([[1] * 9_000] * 2)
    part = 900  # 18,000 questions in about 24 parts
    cuts = chosen(borders, part)
    assert cuts == by_splitting(borders, part)
    assert chosen(borders, part, Limits(most_borders=12 * 20)) == cuts
    fewer = chosen(borders, part, Limits(most_borders=4 * 20))
    assert fewer == by_splitting(borders, 2 * part)


def test_cuts_stay_when_all_questions_grow() -> None:
    """Most cuts stay if each question gets one more answer, and nearly all if one question in a
    thousand does.
    """
    rng = random.Random(4)
    borders = borders_of(
        [[rng.randint(1, 9) * 50 for _ in range(count)] for count in (5_000, 50, 700, 80, 3_000)]
    )
    cuts = chosen(borders, 20_000)
    assert len(cuts) > 90

    def moved(change: list[Border]) -> float:
        return 1 - len(set(cuts) & set(chosen(change, 20_000))) / len(cuts)

    assert moved([(prefix, size + size // 50) for prefix, size in borders]) < 0.1
    assert (
        moved(
            [
                (prefix, size + 10 * (number % 1_000 == 0))
                for number, (prefix, size) in enumerate(borders)
            ]
        )
        < 0.02
    )


def test_other_sort_orders() -> None:
    """A cut where the first sort field changes is at its value, also if that is an integer with
    NULs.
    """
    order = ("sample_id", *FIELDS[:4])
    make_key = key_maker(order)
    sizes = BorderSizes(order)
    for number in (0, 256, 65_536):
        for name in ("a", "b"):
            record = SimpleNamespace(
                sample_id=number,
                evaluation_name=name,
                sample_hash="h",
                model_id="m",
                evaluation_id="r",
            )
            sizes.add([make_key(record)], [PART])
    first_field = prefix_maker(order[:1])
    borders = sizes.borders
    cuts = choose_cuts(borders, PART, order)
    assert (
        cuts
        == [
            prefix if number % 2 else first_field(prefix)
            for number, (prefix, _) in enumerate(borders)
        ][1:]
    )


@pytest.mark.parametrize("borders", [[], [(b"a\0b\0", 10**6)]])
def test_nothing_to_cut(borders: list[Border]) -> None:
    """No record, or a single question, is never cut."""
    assert chosen(borders) == []


# Regions


def random_runs(
    rng: random.Random, count: int
) -> list[tuple[list[Fence], list[tuple[bytes, int]]]]:
    """Runs of random records: their fences, one in 8 records, and their keys with sizes."""
    runs = []
    for _ in range(count):
        low = rng.random() / 2
        spread = rng.random() / 2
        places = (
            int(10**8 * (low + spread * rng.random() ** 2)) for _ in range(rng.randint(1, 400))
        )
        items = [(b"%09d" % place, rng.randint(1, 1_000)) for place in sorted(places)]
        offsets = list(accumulate((size for _, size in items), initial=0))
        fences = [Fence(items[first][0], 0, offsets[first]) for first in range(0, len(items), 8)]
        runs.append((fences, items))
    return runs


@pytest.mark.each_value
@pytest.mark.parametrize("most", [1 << 17, 500])
@pytest.mark.parametrize("seed", range(5))
def test_regions_have_about_the_same_size(seed: int, most: int) -> None:
    """Regions hold at most about twice and at least about half of what they should."""
    runs = random_runs(random.Random(seed), 60)
    sample = RegionSample(most)
    for fences, items in runs:
        sample.add(fences, sum(size for _, size in items))
    everything = [item for _, items in runs for item in items]
    total = sum(size for _, size in everything)
    cuts = sample.cuts(total, total // 20)
    found = Counter[int]()
    for key, size in everything:
        found[bisect_right(cuts, key)] += size
    assert len(cuts) in (19, 20)
    assert min(found.values()) > total / 40
    assert max(found.values()) < total / 10


def test_regions_begin_at_given_keys_too() -> None:
    """The keys in `also` are cuts, whatever the runs are like."""
    sample = RegionSample()
    assert sample.cuts(0, 10) == []
    assert sample.cuts(0, 10, also=[b"b", b"a"]) == [b"a", b"b"]
    sample.add([], 7)
    sample.add([Fence(b"c", 0, 0)], 1)
    assert sample.cuts(100, 10, also=[b"b"]) == [b"b"]
    sample.add([Fence(b"a", 0, 0), Fence(b"e", 5, 50)], 100)
    assert sample.cuts(100, 50, also=[b"b"]) == [b"b", b"c"]
