"""Find questions by a `sample_hash`, the beginning of one, or a `sample_id`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np

from fastrec.answers.codes import Array
from fastrec.answers.selection import Selection


def find_questions(
    selection: Selection, text: str, shortest: int, limit: int
) -> Iterator[tuple[int, Array]]:
    """Yield scopes with the numbers of records that have a hash, or else an id, or else a prefix.

    The beginning of a hash needs at least `shortest` characters. Of each scope and hash, the first
    `limit` are found.
    """
    by_kind: list[list[tuple[Array, Array]]] = [
        [],
        [],
        [],
    ]  # numbers and scopes, by hash, by id and by prefix
    for part in range(len(selection.parts)) if text else ():
        columns = selection.columns(part)
        hashes = columns.values("hash")
        exact = [code for code, value in enumerate(hashes) if value == text]
        alike = (
            [code for code, value in enumerate(hashes) if value.startswith(text)]
            if len(text) >= shortest
            else []
        )
        ids = [code for code, value in enumerate(columns.values("sample_id")) if str(value) == text]
        for found, name, codes in zip(
            by_kind, ("hash", "sample_id", "hash"), (exact, ids, alike), strict=True
        ):
            if codes:
                scopes = selection.scope_codes(part)
                places = np.flatnonzero(np.isin(columns.numbers(name), codes) & (scopes >= 0))
                names = [columns.numbers("hash"), columns.numbers("sample_id"), scopes]
                places = _without_repeats(places, [one[places] for one in names])[:limit]
                found.append((places + selection.starts[part], scopes[places]))
    for found in by_kind:
        if found:
            numbers = np.concatenate([one for one, _ in found])
            scopes = np.concatenate([one for _, one in found])
            for scope in np.unique(scopes).tolist():
                yield scope, numbers[scopes == scope]
            return


def _without_repeats(places: Array, names: list[Array]) -> Array:
    """Leave out places with the same names as the one before: a question may have many records."""
    differs = np.zeros(len(places), dtype=np.bool_)
    differs[:1] = True
    for some in names:
        differs[1:] |= some[1:] != some[:-1]
    return places[differs]


def shortest_prefixes(selection: Selection, hashes: Iterable[str], shortest: int) -> dict[str, str]:
    """The shortest beginning of each hash that no other hash has, and that is no id."""
    wanted = sorted(set(hashes))
    if not wanted:
        return {}
    before = dict.fromkeys(wanted, "")  # the nearest other hashes in order
    after: dict[str, str] = {}
    starts = {one[:shortest] for one in wanted}
    with_id: dict[
        str, set[str]
    ] = {}  # hashes by `sample_id`, of ids that begin as a wanted hash does
    for part in range(len(selection.parts)):
        columns = selection.columns(part)
        values = columns.values("hash")
        ordered = sorted(set(values))
        for one in wanted:
            at = bisect_left(ordered, one)
            if at:
                before[one] = max(before[one], ordered[at - 1])
            beyond = at + (at < len(ordered) and ordered[at] == one)
            if beyond < len(ordered):
                after[one] = min(after.get(one, ordered[beyond]), ordered[beyond])
        for code, value in enumerate(map(str, columns.values("sample_id"))):
            if value[:shortest] in starts:
                of_id = columns.numbers("hash")[columns.numbers("sample_id") == code]
                with_id.setdefault(value, set()).update(
                    values[at] for at in np.unique(of_id).tolist()
                )
    return {one: _prefix(one, shortest, before[one], after.get(one, ""), with_id) for one in wanted}


def _prefix(text: str, shortest: int, before: str, after: str, with_id: dict[str, set[str]]) -> str:
    for length in range(shortest, len(text)):
        prefix = text[:length]
        is_other = before.startswith(prefix) or after.startswith(prefix)
        if not is_other and with_id.get(prefix, {text}) == {text}:
            return prefix
    return text
