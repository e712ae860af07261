"""Find questions by a `sample_hash`, the beginning of one, or a `sample_id`."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from os.path import commonprefix

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
    by_kind: dict[str, list[tuple[Array, Array]]] = {"hash": [], "sample_id": [], "prefix": []}
    for part in range(len(selection.parts)):
        columns = selection.columns(part)
        hashes = list(enumerate(columns.values("hash")))
        ids = enumerate(columns.values("sample_id"))
        matching = {
            "hash": [code for code, value in hashes if value == text],
            "sample_id": [code for code, value in ids if str(value) == text],
            "prefix": [
                code for code, value in hashes if len(text) >= shortest and value.startswith(text)
            ],
        }
        for kind, codes in matching.items():
            if codes:
                scopes = selection.scope_codes(part)
                of_hash = columns.numbers("hash")
                of_id = columns.numbers("sample_id")
                is_match = np.isin(of_id if kind == "sample_id" else of_hash, codes)
                places = np.flatnonzero(is_match & np.isin(scopes, wanted))
                # A question may have many records.
                first = distinct_of(*(column[places] for column in (of_hash, of_id, scopes))).first
                places = np.sort(places[first])[:limit]
                by_kind[kind].append((places + selection.starts[part], scopes[places]))
    for matches in by_kind.values():
        if matches:
            numbers, scopes = map(np.concatenate, zip(*matches, strict=True))
            for scope in used_codes(scopes).tolist():
                yield scope, numbers[scopes == scope]
            return


def shortest_prefixes(selection: Selection, hashes: Iterable[str], shortest: int) -> dict[str, str]:
    """The shortest beginning of each hash that no other hash has, and that is no id.

    It has at least `shortest` characters.
    """
    ordered = sorted(set(hashes))
    least = dict.fromkeys(ordered, shortest)  # characters
    starts = {sample_hash[:shortest] for sample_hash in ordered}
    with_id: dict[str, set[str]] = {}  # hashes by id, of ids that begin as a hash does
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
                own = with_id.setdefault(sample_id, set())
                own.update(values[at] for at in used_codes(of_id).tolist())
    return {
        sample_hash: _prefix(sample_hash, length, with_id) for sample_hash, length in least.items()
    }


def _prefix(sample_hash: str, least: int, with_id: dict[str, set[str]]) -> str:
    for length in range(least, len(sample_hash)):
        prefix = sample_hash[:length]
        if with_id.get(prefix, {sample_hash}) == {sample_hash}:
            return prefix
    return sample_hash
