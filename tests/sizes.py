"""How many cases a test tries: a few with `make test`, all with `make test-long`.

`make test-long` sets LONG_TESTS=1. Without it, a test still tries every kind of case, but fewer
cases of each kind:

- `examples(few, many)` is a number: of hypothesis examples, of mutations, of kills.
- `few_of(cases, few, name)` takes some cases of a long list.
- `@pytest.mark.each_value` keeps so many cases of a parametrized test that each value of each
  parameter occurs.
- `@pytest.mark.pairwise` does so for each pair of values of two parameters.
- `@pytest.mark.long_only` leaves out a test whose kind of case others try, too.

`SAMPLE=16 make test` runs about every sixteenth test, others with each version of Python.

All choices depend on names and the version of Python only, so a red build is red again.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = bool(os.environ.get("LONG_TESTS"))
SAMPLE = int(os.environ.get("SAMPLE", "1"))
WAYS = {"each_value": 1, "pairwise": 2}
"""Marks of parametrized tests, and the number of parameters whose values are combined."""


def examples(few: int, many: int) -> int:
    """The number of examples to try."""
    return many if LONG else few


def in_sample(name: str) -> bool:
    """Whether a test is in the sample that SAMPLE asks for, with all its cases or none."""
    function = name.partition("[")[0]
    number = zlib.crc32(f"{sys.version_info.minor} {function}".encode())
    return number % SAMPLE == 0


def few_of(cases: Iterable[T], few: int, name: str) -> list[T]:
    """All cases, or a few of them in the same order: the first, the last, and others chosen by the
    name of the test.
    """
    every = list(cases)
    return every if LONG else chosen(every, few, name)


def chosen(every: Sequence[T], few: int, name: str) -> list[T]:
    """The first case, the last one, and some between them."""
    if len(every) <= few:
        return list(every)
    between = random.Random(name).sample(range(1, len(every) - 1), few - 2)
    return [every[place] for place in sorted([0, *between, len(every) - 1])]


def covering(cases: Sequence[Mapping[str, int]], ways: int, name: str) -> set[int]:
    """Choose cases so that each combination of values of so many parameters occurs that occurs in
    any case.

    A case has the number of the value of each parameter. Return the numbers of the chosen cases.
    """
    combinations = [
        set(itertools.combinations(sorted(case.items()), min(ways, len(case)))) for case in cases
    ]
    missing = set[tuple[tuple[str, int], ...]]().union(*combinations)
    order = random.Random(name).sample(range(len(cases)), len(cases))
    found = set[int]()
    while missing:
        best = max(order, key=lambda number: len(combinations[number] & missing))
        found.add(best)
        missing -= combinations[best]
    return found
