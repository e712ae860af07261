"""From a query to SQL: which questions of a scope, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastrec.answers.marks import ERROR, RIGHT, WRONG
from fastrec.answers.table import Query, Sort, Which

__all__ = ["FACT_COLUMNS", "ids_query"]

FACT_COLUMNS: Final = "id, kinds, models, right, score, spread, errors, output_chars, low, high, input_chars"
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
                return "SELECT 0 WHERE 0", []
            at = models.index(name) + 1
            tests.append(f"substr(m.flags, {at}, 1) IN (x'{flag:02x}', x'{flag | ERROR:02x}')")
    for bound, sign in ((query.least_score, ">="), (query.most_score, "<=")):
        if bound is not None:
            tests.append(f"q.score {sign} ?")
            values.append(bound)
    if query.sample_ids:
        tests.append("has_sample_id(m.sample_ids)")
    if query.hashes:
        tests.append("has_hash(a.sample_hash)")
    if query.text:
        tests.append("instr(s.text, ?)")
        values.append(query.text.casefold().encode())
    tables = [f"{table} q"]
    if query.right or query.wrong or query.sample_ids:
        tables.append(f"JOIN marks m ON m.scope = {scope} AND m.id = q.id")
    if query.hashes:
        tables.append("JOIN asked a ON a.id = q.id")
    if query.text:
        tables.append("JOIN search s ON s.id = q.id")
    value = "q.score" if graded else "q.right / q.models"
    order = _ORDERS[query.sort].format(value=value)
    chosen = f"FROM {' '.join(tables)} WHERE {' AND '.join(tests)}"
    return f"SELECT q.id {chosen} ORDER BY {order} q.id", values
