"""From a query to SQL: which questions of a scope, in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.answers.marks import ERROR, RIGHT, WRONG
from fastrec.answers.table import Query, Sort, Which

__all__ = ["FACT_COLUMNS", "ids_query", "spelled_ids"]

FACT_COLUMNS: Final = "id, kinds, models, right, score, spread, errors, low, high, output_chars, input_chars"
_INTEGER: Final = re.compile("0|-?[1-9][0-9]*", re.ASCII)
_MOST_NAMES: Final = 1_000  # values in a statement
_ANSWERS: Final = RIGHT | WRONG
_WHICH: Final[dict[Which, str]] = {
    "all": "",
    "all-wrong": f"q.kinds & {_ANSWERS} = {WRONG}",
    "all-right": f"q.kinds & {_ANSWERS} = {RIGHT}",
    "disagreement": "q.spread > 0",
    "errors": f"q.kinds & {ERROR}",
}
_KINDS: Final = {"right": RIGHT, "wrong": WRONG, "error": ERROR}
_ORDERS: Final[dict[Sort, str]] = {
    "order": "",
    "hardest": "{value} ASC NULLS LAST,",
    "easiest": "{value} DESC NULLS LAST,",
    "disagreement": "q.spread DESC NULLS LAST,",
    "longest-input": "q.input_chars DESC,",
    "longest-output": "q.output_chars DESC NULLS LAST,",
    "errors": "q.errors DESC,",
}


def ids_query(query: Query, table: str, scope: int, models: Sequence[str], *, graded: bool) -> tuple[str, list[Any]]:
    """Return the SQL for the ids of the questions that a query chooses, and its values.

    Args:
        query: The query.
        table: The table with the facts about the models that count.
        scope: The number of the scope.
        models: The models of the scope.
        graded: Whether the score counts, and not the share of right answers.
    """
    tests, values = ["q.kinds > 0"], []  # type: tuple[list[str], list[Any]]
    if _WHICH[query.which]:
        tests.append(_WHICH[query.which])
    if query.outcomes:
        tests.append(f"q.kinds & {sum(_KINDS[outcome] for outcome in set(query.outcomes))}")
    for names, flag in ((query.right, RIGHT), (query.wrong, WRONG)):
        for name in names:
            if name not in models:
                return "SELECT 0 AS id WHERE 0", []
            at = models.index(name) + 1
            tests.append(f"substr(m.flags, {at}, 1) IN (x'{flag:02x}', x'{flag | ERROR:02x}')")
    for bound, sign in ((query.least_score, ">="), (query.most_score, "<=")):
        if bound is not None:
            tests.append(f"q.score {sign} ?")
            values.append(bound)
    if query.text:
        tests.append("instr(s.text, ?)")
        values.append(query.text.casefold().encode(errors="surrogatepass"))
    for test, more in (_sample_id_test(query.sample_ids, scope), _hash_test(query.hashes)):
        tests += [test] if test else []
        values += more
    text = " AND ".join(tests)
    tables = [f"{table} q"]
    tables += [f"JOIN marks m ON m.scope = {scope} AND m.id = q.id"] if "m." in text else []
    tables += ["JOIN search s ON s.id = q.id"] if query.text else []
    value = "q.score" if graded else "q.right / q.models"
    order = _ORDERS[query.sort].format(value=value)
    return f"SELECT q.id FROM {' '.join(tables)} WHERE {text} ORDER BY {order} q.id", values  # noqa: S608 - all ours


def _sample_id_test(patterns: Sequence[str], scope: int) -> tuple[str, list[bytes]]:
    """Return a test of ids, which uses an index if these are no patterns."""
    if not patterns:
        return "", []
    if _has_wildcards(patterns):
        return f"q.id IN (SELECT id FROM marks WHERE scope = {scope} AND has_sample_id(sample_ids))", []  # noqa: S608
    spelled = [one for pattern in patterns for one in spelled_ids(pattern)]
    marks = ", ".join("?" * len(spelled))
    test = (
        f"q.id IN (SELECT id FROM marks WHERE sample_ids IN ({marks}) AND scope = {scope} "  # noqa: S608
        f"UNION SELECT id FROM several_ids WHERE sample_id IN ({marks}) AND scope = {scope})"
    )
    return test, [b"[" + one + b"]" for one in spelled] + spelled


def _hash_test(patterns: Sequence[str]) -> tuple[str, list[bytes]]:
    if not patterns:
        return "", []
    if _has_wildcards(patterns):
        return "q.id IN (SELECT id FROM asked WHERE has_hash(sample_hash))", []
    hashes = [pattern.encode(errors="surrogatepass") for pattern in patterns]
    return f"q.id IN (SELECT id FROM asked WHERE sample_hash IN ({', '.join('?' * len(hashes))}))", hashes  # noqa: S608


def _has_wildcards(patterns: Sequence[str]) -> bool:
    return len(patterns) > _MOST_NAMES or any(char in pattern for pattern in patterns for char in "*?[")


def spelled_ids(text: str) -> list[bytes]:
    """Return how JSON spells the `sample_id` that a text stands for: a string, or an integer."""
    try:
        spelled = [msgspec.json.encode(text)]
    except UnicodeEncodeError:  # no record has such text
        return []
    return [*spelled, text.encode()] if _INTEGER.fullmatch(text) else spelled
