"""What an index knows: scopes, questions, and where their records are.

Facts about all models of a scope are in the file, those about a choice of models follow from the marks (`choices`).

The ids that a query chooses are kept, so that the next page, and the questions before and after one, need no search.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fastrec.answers.choices import Choices, Cut
from fastrec.answers.index_file import IndexFile
from fastrec.answers.queries import FACT_COLUMNS, ids_query, spelled_ids
from fastrec.answers.reading import Range
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.corpus.line_head import decode_sample_id
from fastrec.filters import matcher

__all__ = ["Database"]

_KEPT_QUERIES: Final = 16
_BATCH: Final = 1_000
_decode_ranges = msgspec.msgpack.Decoder(list[Range]).decode
_BY_SAMPLE_ID: Final = (
    "SELECT id, scope FROM marks WHERE sample_ids IN (?, ?) "
    "UNION SELECT id, scope FROM several_ids WHERE sample_id IN (?, ?)"
)
_OTHERS: Final = (
    "SELECT 1 FROM asked WHERE sample_hash BETWEEN ? AND ? AND sample_hash != ? "  # noqa: S608 - all ours
    f"UNION ALL SELECT 1 FROM ({_BY_SAMPLE_ID}) f JOIN asked a ON a.id = f.id WHERE a.sample_hash != ? LIMIT 1"
)
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_decode_ids = msgspec.json.Decoder(list[int | str]).decode
_decode_spelled = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Database:
    """The questions of an index. May be used by several threads, one at a time."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._kept: OrderedDict[Query, array[int]] = OrderedDict()
        self._choices = Choices()
        with file.use() as connection:
            rows = connection.execute(
                "SELECT evaluation_name, metric, questions, models, graded, range FROM scope ORDER BY id"
            ).fetchall()
        self.scopes = [
            Scope(
                evaluation_name=name.decode(),
                metric=None if metric is None else metric.decode(),
                questions=questions,
                models=tuple(msgspec.json.decode(models)),
                graded=bool(graded),
            )
            for name, metric, questions, models, graded, _ in rows
        ]
        self._ranges = [row[-1] for row in rows]
        self._numbers = {(scope.evaluation_name, scope.metric): number for number, scope in enumerate(self.scopes)}

    def scope(self, query: Query) -> Scope | None:
        """Return the scope of a query; None if there is none."""
        number = self._numbers.get((query.evaluation_name, query.metric))
        return None if number is None else self.scopes[number]

    def ids(self, query: Query) -> array[int]:
        """Return the ids of the questions that a query chooses, in its order."""
        number = self._numbers.get((query.evaluation_name, query.metric))
        if number is None:
            return array("q")
        with self._file.use() as connection:
            if query in self._kept:
                self._kept.move_to_end(query)
                return self._kept[query]
            scope = self.scopes[number]
            sql, values = ids_query(query, self._facts(connection, query), number, scope.models, graded=scope.graded)
            if "has_sample_id" in sql:
                connection.create_function("has_sample_id", 1, _id_test(query.sample_ids))
            if "has_hash" in sql:
                connection.create_function("has_hash", 1, _hash_test(query.hashes))
            # One text with all ids: stepping through a million rows in Python takes longer.
            (text,) = connection.execute(f"SELECT json_group_array(id) FROM ({sql})", values).fetchone()  # noqa: S608
            found = array("q", _decode_numbers(text))
            self._kept[query] = found
            while len(self._kept) > _KEPT_QUERIES:
                self._kept.popitem(last=False)
            return found

    def rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        """Return the rows of some questions, in the given order."""
        if not ids:
            return []
        number = self._numbers[query.evaluation_name, query.metric]
        columns = ", ".join(f"q.{column}" for column in FACT_COLUMNS.split(", "))
        with self._file.use() as connection:
            facts = self._facts(connection, query)
            found = connection.execute(
                f"SELECT {columns}, a.sample_hash, a.excerpt, m.sample_ids FROM {facts} q "  # noqa: S608 - of ours
                "JOIN asked a ON a.id = q.id JOIN marks m ON m.id = q.id AND m.scope = ? "
                "WHERE q.id IN (SELECT value FROM json_each(?))",
                (number, _spelled(ids)),
            ).fetchall()
        by_id = {row[0]: self._row(number, row) for row in found}
        return [by_id[one] for one in ids if one in by_id]

    def _row(self, number: int, row: tuple[Any, ...]) -> QuestionRow:
        place, _, models, right, score, spread, errors, _, _, output_chars, input_chars, *texts = row
        sample_hash, excerpt, ids = texts
        scope = self.scopes[number]
        return QuestionRow(
            number=place,
            evaluation_name=scope.evaluation_name,
            metric=scope.metric,
            sample_hash=sample_hash.decode(),
            sample_id=_sample_ids(ids)[0],
            excerpt=excerpt.decode(),
            models=models,
            right=right,
            share=right / models if models else None,
            mean_score=score,
            disagreement=None if spread is None else min(spread / self._ranges[number], 1.0),
            errors=errors,
            input_chars=input_chars,
            output_chars=output_chars,
        )

    def find(self, text: str, limit: int, shortest: int) -> list[QuestionRow]:
        """Return questions by their hash, or else by a sample_id, or else by the beginning of a hash."""
        spelled = spelled_ids(text)
        if not text or not spelled:
            return []
        first, last = spelled[0], spelled[-1]  # the same, unless it may be an integer
        prefix = text.encode()
        searches: list[tuple[str, tuple[bytes, ...]]] = [
            ("SELECT id, NULL FROM asked WHERE sample_hash = ?", (prefix,)),
            (_BY_SAMPLE_ID, (b"[" + first + b"]", b"[" + last + b"]", first, last)),
        ]
        if len(text) >= shortest:
            beyond = prefix + b"\xff"
            searches += [("SELECT id, NULL FROM asked WHERE sample_hash BETWEEN ? AND ?", (prefix, beyond))]
        with self._file.use() as connection:
            for sql, values in searches:
                found = connection.execute(f"{sql} ORDER BY id LIMIT ?", (*values, limit)).fetchall()
                if found:
                    return self._found(found)[:limit]
        return []

    def prefix_of(self, sample_hash: str, shortest: int) -> str:
        """Return the beginning of a hash, as short as possible, that finds no question with another hash."""
        whole = sample_hash.encode()
        with self._file.use() as connection:
            for length in range(shortest, len(sample_hash)):
                text = sample_hash[:length]
                ids = spelled_ids(text)
                alone, prefix = [b"[" + one + b"]" for one in (ids[0], ids[-1])], text.encode()
                values = (prefix, prefix + b"\xff", whole, *alone, ids[0], ids[-1], whole)
                if not connection.execute(_OTHERS, values).fetchone():
                    return text
        return sample_hash

    def _found(self, found: Sequence[tuple[int, int | None]]) -> list[QuestionRow]:
        """Return the rows of questions in some scopes, or in all that have them."""
        by_scope: dict[int, set[int]] = {}
        for place, scope in found:
            for number in range(len(self.scopes)) if scope is None else [scope]:
                by_scope.setdefault(number, set()).add(place)
        rows = [
            row
            for number, places in sorted(by_scope.items())
            for row in self.rows(self._all_of(number), sorted(places))
        ]
        return sorted(rows, key=lambda row: row.number)

    def _all_of(self, number: int) -> Query:
        scope = self.scopes[number]
        return Query(evaluation_name=scope.evaluation_name, metric=scope.metric)

    def number_of(self, query: Query, sample_hash: str) -> int | None:
        """Return the id of a question of a scope; None if there is none."""
        number = self._numbers.get((query.evaluation_name, query.metric))
        sql = "SELECT a.id FROM asked a JOIN question q ON q.id = a.id AND q.scope = ? WHERE a.sample_hash = ?"
        with self._file.use() as connection:
            row = connection.execute(sql, (number, sample_hash.encode(errors="surrogatepass"))).fetchone()
        return None if row is None else row[0]

    def marks(self, query: Query, ids: Sequence[int], cut: Cut, *names: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the hashes of many questions at a time, in the given order, and some columns with marks of models."""
        number = self._numbers[query.evaluation_name, query.metric]
        columns = ", ".join(["CAST(a.sample_hash AS TEXT)", *map(cut.column, names)])
        sql = (  # a cross join keeps the order of the first table
            f"SELECT {columns} FROM json_each(?) j "  # noqa: S608 - all ours
            "CROSS JOIN marks m ON m.scope = ? AND m.id = j.value CROSS JOIN asked a ON a.id = j.value"
        )
        for start in range(0, len(ids), _BATCH):
            some = _spelled(ids[start : start + _BATCH])
            with self._file.use() as connection:
                rows = connection.execute(sql, (some, number)).fetchall()
            yield list(zip(*rows, strict=True))

    def first_disputed(self, query: Query, ids: Sequence[int]) -> int | None:
        """Return the first of some questions on which the models of a query disagree."""
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            with self._file.use() as connection:
                facts = self._facts(connection, query)
                sql = f"SELECT id FROM {facts} WHERE spread > 0 AND id IN (SELECT value FROM json_each(?))"  # noqa: S608
                disputed = {row[0] for row in connection.execute(sql, (_spelled(some),))}
            if disputed:
                return next(place for place in some if place in disputed)
        return None

    def ranges(self, place: int) -> list[Range]:
        """Return where the records of a question are."""
        with self._file.use() as connection:
            row = connection.execute("SELECT ranges FROM asked WHERE id = ?", (place,)).fetchone()
        return _decode_ranges(row[0]) if row else []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _facts(self, connection: sqlite3.Connection, query: Query) -> str:
        """Return the table, or what selects from it, with the facts about the models of a query."""
        number = self._numbers[query.evaluation_name, query.metric]
        scope = self.scopes[number]
        wanted = set(query.models)
        chosen = tuple(at for at, model in enumerate(scope.models) if model in wanted)
        if not query.models or len(chosen) == len(scope.models):
            return f"(SELECT {FACT_COLUMNS} FROM question WHERE scope = {number})"  # noqa: S608 - a number of ours
        return self._choices.facts(connection, number, chosen, graded=scope.graded)


def _spelled(ids: Sequence[int]) -> str:
    return str(list(ids))


def _id_test(patterns: tuple[str, ...]) -> Callable[[bytes], bool]:
    match = matcher(patterns)
    return lambda ids: any(map(match, map(str, _sample_ids(ids))))


def _hash_test(patterns: tuple[str, ...]) -> Callable[[bytes], bool]:
    match = matcher(patterns)
    return lambda sample_hash: match(sample_hash.decode()) is not None


def _sample_ids(spelled: bytes) -> list[int | str]:
    try:
        return _decode_ids(spelled)
    except msgspec.MsgspecError:  # more digits than msgspec decodes
        return [decode_sample_id(one) for one in _decode_spelled(spelled)]
