"""Find questions by a `sample_hash`, the beginning of one, or a `sample_id`."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import commonprefix
from typing import Any

import numpy as np

from fastrec.answers.codes import Array, distinct_of, used_codes
from fastrec.answers.selection import Selection


def find_questions(
    selection: Selection, text: str, shortest: int, limit: int, wanted: Array
) -> Iterator[tuple[int, Array]]:
    """Yield scopes with the numbers of records that have a hash, or else an id, or else a prefix.

    The beginning of a hash needs at least `shortest` characters. Of each part, the first `limit`
    questions are found.
    """
    if not text:
        return
    tests: list[tuple[str, Callable[[Any], bool]]] = [
        ("hash", lambda value: value == text),
        ("sample_id", lambda value: str(value) == text),
    ]
    if len(text) >= shortest:
        tests.append(("hash", lambda value: value.startswith(text)))
    by_test: list[list[tuple[Array, Array]]] = [[] for _ in tests]
    for part in range(len(selection.parts)):
        columns = selection.columns(part)
        values = {name: columns.values(name) for name in ("hash", "sample_id")}
        for (name, is_match), matches in zip(tests, by_test, strict=True):
            codes = [code for code, value in enumerate(values[name]) if is_match(value)]
            if codes:
                is_found = np.isin(columns.numbers(name), codes)
                matches.append(_first_records(selection, part, is_found, limit, wanted))
    for matches in by_test:
        if matches:
            numbers, scopes = np.hstack(matches)
            for scope in used_codes(scopes).tolist():
                yield scope, numbers[scopes == scope]
            return


def _first_records(
    selection: Selection, part: int, is_found: Array, limit: int, wanted: Array
) -> tuple[Array, Array]:
    """The numbers of the first records of some questions of a part, and their scopes."""
    columns = selection.columns(part)
    scopes = selection.scope_codes(part)
    places = np.flatnonzero(is_found & np.isin(scopes, wanted))
    keys = columns.numbers("hash"), columns.numbers("sample_id"), scopes
    first = distinct_of(*(codes[places] for codes in keys)).first
    places = np.sort(places[first])[:limit]
    return places + selection.starts[part], scopes[places]


def shortest_prefixes(selection: Selection, hashes: Iterable[str], shortest: int) -> dict[str, str]:
    """The shortest beginning of each hash that no other hash has, and that is no id.

    It has at least `shortest` characters.
    """
    ordered = sorted(set(hashes))
    least = dict.fromkeys(ordered, shortest)  # characters
    starts = {sample_hash[:shortest] for sample_hash in ordered}
    with_id = defaultdict[str, set[str]](set)  # hashes by id, of ids that begin as a hash does
    for part in range(len(selection.parts) if least else 0):
        columns = selection.columns(part)
        values = columns.values("hash")
        for value in values:
            if value[:shortest] in starts:
                # Beyond its neighbours, hashes have no more in common with it than with these.
                at = bisect_left(ordered, value)
                for neighbour in ordered[max(at - 1, 0) : at + 2]:
                    if neighbour != value:
                        common = len(commonprefix([value, neighbour]))  # noqa: RUF071 - no paths
                        least[neighbour] = max(least[neighbour], common + 1)
        for code, sample_id in enumerate(map(str, columns.values("sample_id"))):
            if sample_id[:shortest] in starts:
                of_id = columns.numbers("hash")[columns.numbers("sample_id") == code]
                with_id[sample_id].update(values[at] for at in used_codes(of_id).tolist())
    return {name: _prefix(name, length, with_id) for name, length in least.items()}


def _prefix(sample_hash: str, least: int, with_id: Mapping[str, set[str]]) -> str:
    for length in range(least, len(sample_hash)):
        prefix = sample_hash[:length]
        if with_id.get(prefix, {sample_hash}) == {sample_hash}:
            return prefix
    return sample_hash
