"""What the file of an index says: scopes, questions, and where their records are.

Facts about all models of a scope are in the file, those about a choice of models follow from their marks (`Choices`).
The ids that a query chooses are kept, so that the next page, and the questions before and after one, need no search.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fastrec.answers.marks import ANSWERS, Choices, Cut
from fastrec.answers.reading import Hit, Range
from fastrec.answers.table import Query, QuestionRow, Scope, Sort, Which
from fastrec.corpus.scan import decode_sample_id
from fastrec.errors import DamagedFileError
from fastrec.filters import matcher
from fastrec.statistics.repeats import ERROR, RIGHT, WRONG

_ROW_COLUMNS: Final = (
    "q.scope, q.id, q.models, q.right, q.score, q.errors, q.output_chars, q.input_chars, q.spread, a.sample_hash, "
    "a.excerpt, m.sample_ids, a.metadata"
)
_INTEGER: Final = re.compile("0|-?[1-9][0-9]*", re.ASCII)
_MOST_NAMES: Final = 1_000  # values in a statement
_SCOPE: Final = "<scope>"
_WHICH: Final[dict[Which, str]] = {
    "all": "",
    "all-wrong": f"q.kinds & {ANSWERS} = {WRONG}",
    "all-right": f"q.kinds & {ANSWERS} = {RIGHT}",
    "disagreement": "q.spread > 0",
    "metrics-differ": "EXISTS (SELECT 1 FROM marks o WHERE o.id = q.id AND o.flags != m.flags AND o.scope IN "
    "(SELECT s.id FROM scope s JOIN scope t ON t.id = <scope> AND t.models = s.models))",
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


def _ids_query(query: Query, table: str, found: str, scope: Scope) -> tuple[str, list[Any]]:
    """Return the SQL for the ids of the questions that a query chooses in a scope, and its values.

    `table` has the facts about the models that count, `found` the places of the text. The SQL has `<scope>` where the
    number of the scope belongs, so that it is the same text for most scopes.
    """
    tests = [f"q.scope = {_SCOPE}", "q.kinds > 0"]
    values: list[Any] = []
    if _WHICH[query.which]:
        tests.append(_WHICH[query.which])
    if query.outcomes:
        tests.append(f"q.kinds & {sum(_KINDS[outcome] for outcome in set(query.outcomes))}")
    for names, flag in ((query.right, RIGHT), (query.wrong, WRONG)):
        for name in names:
            if name not in scope.models:
                return f"SELECT {_SCOPE} AS id WHERE FALSE", []
            at = scope.models.index(name) + 1
            tests.append(f"substr(m.flags, {at}, 1) IN (x'{flag:02x}', x'{flag | ERROR:02x}')")
    for bound, sign in ((query.least_score, ">="), (query.most_score, "<=")):
        if bound is not None:
            tests.append(f"q.score {sign} ?")
            values.append(bound)
    if query.text:
        place = {"both": "", "input": " AND model < 0", "answers": " AND model >= 0"}[query.place]
        tests.append(f"q.id IN (SELECT id FROM {found}{place})")  # noqa: S608 - of ours
    for test, more in (_sample_id_test(query.sample_ids), _hash_test(query.hashes)):
        tests += [test] if test else []
        values += more
    text = " AND ".join(tests)
    tables = [f"{table} q"]
    tables += ["JOIN marks m ON m.scope = q.scope AND m.id = q.id"] if "m." in text else []
    value = f"{'-' * scope.lower_is_better}q.score" if scope.graded else "q.right / q.models"
    order = _ORDERS[query.sort].format(value=value)
    return f"SELECT q.id FROM {' '.join(tables)} WHERE {text} ORDER BY {order} q.id", values  # noqa: S608 - all ours


def _sample_id_test(patterns: Sequence[str]) -> tuple[str, list[bytes]]:
    """Return a test of ids, which uses an index if these are no patterns."""
    if not patterns:
        return "", []
    if _has_wildcards(patterns):
        return f"q.id IN (SELECT id FROM marks WHERE scope = {_SCOPE} AND has_sample_id(sample_ids))", []  # noqa: S608
    spelled = [one for pattern in patterns for one in _spelled_ids(pattern)]
    marks = ", ".join("?" * len(spelled))
    test = (
        f"q.id IN (SELECT id FROM marks WHERE sample_ids IN ({marks}) AND scope = {_SCOPE} "  # noqa: S608
        f"UNION SELECT id FROM several_ids WHERE sample_id IN ({marks}) AND scope = {_SCOPE})"
    )
    return test, [b"[" + one + b"]" for one in spelled] + spelled


def _hash_test(patterns: Sequence[str]) -> tuple[str, list[bytes]]:
    if not patterns:
        return "", []
    if _has_wildcards(patterns):
        return "has_hash((SELECT sample_hash FROM asked WHERE id = q.id))", []  # only those of the scope
    hashes = [pattern.encode(errors="surrogatepass") for pattern in patterns]
    return f"q.id IN (SELECT id FROM asked WHERE sample_hash IN ({', '.join('?' * len(hashes))}))", hashes  # noqa: S608


def _has_wildcards(patterns: Sequence[str]) -> bool:
    return len(patterns) > _MOST_NAMES or any(char in pattern for pattern in patterns for char in "*?[")


def _spelled_ids(text: str) -> list[bytes]:
    """Return how JSON spells the `sample_id` that a text stands for: a string, or an integer."""
    try:
        spelled = [msgspec.json.encode(text)]
    except UnicodeEncodeError:  # no record has such text
        return []
    return [*spelled, text.encode()] if _INTEGER.fullmatch(text) else spelled


def _sample_id_values(spelled: Sequence[bytes]) -> tuple[bytes, ...]:
    """The values of `_BY_SAMPLE_ID`."""
    ends = spelled[0], spelled[-1]  # the same, unless it may be an integer
    return *(b"[" + end + b"]" for end in ends), *ends


_NAME: Final = "CAST(a.sample_hash AS TEXT) || iif(a.sample_id IS NULL, '', '/' || CAST(a.sample_id AS TEXT))"
_OF_EACH: Final = "WITH chosen(number) AS (SELECT value FROM json_each(?)) SELECT ({}) FROM chosen"
_KEPT_QUERIES: Final = 16
_KEPT_SEARCHES: Final = 4
_BATCH: Final = 1_000
_CELLS: Final = 4_000_000  # questions × models to read at a time
_decode_ranges = msgspec.msgpack.Decoder(list[Range]).decode
_BY_SAMPLE_ID: Final = (
    "SELECT id, scope FROM marks WHERE sample_ids IN (?, ?) "
    "UNION SELECT id, scope FROM several_ids WHERE sample_id IN (?, ?)"
)
_NEIGHBOURS: Final = (  # of each hash
    "SELECT column1, (SELECT max(sample_hash) FROM asked WHERE sample_hash < column1), "
    "(SELECT min(sample_hash) FROM asked WHERE sample_hash > column1) FROM (VALUES {})"
)
_HASHES_WITH_ID: Final = (
    "SELECT m.sample_ids, sample_hash FROM marks m CROSS JOIN asked USING (id) WHERE m.sample_ids IN ({0}) "
    "UNION SELECT s.sample_id, sample_hash FROM several_ids s CROSS JOIN asked USING (id) WHERE s.sample_id IN ({0})"
)
_decode_scope = msgspec.json.Decoder(Scope).decode
_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_decode_ids = msgspec.json.Decoder(list[int | str]).decode
_decode_spelled = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Database:
    """The questions of an index. May be used by several threads, one at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lock = threading.RLock()
        self._kept: OrderedDict[Query, array[int]] = OrderedDict()
        self._choices = Choices()
        self._places: OrderedDict[tuple[str, str | None], str] = OrderedDict()  # by text and evaluation: a table
        self._searches = 0
        with self._use():
            rows = connection.execute("SELECT scope, range FROM scope ORDER BY id").fetchall()
            self.fields: list[tuple[str, str]] = connection.execute("SELECT key, value FROM field").fetchall()
            """The most frequent keys of metadata, with each of their values, the most frequent ones first."""
        self.scopes = [_decode_scope(scope) for scope, _ in rows]
        self._ranges = [distance for _, distance in rows]
        self._numbers = {(scope.evaluation_name, scope.metric): number for number, scope in enumerate(self.scopes)}

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection.

        Raises:
            DamagedFileError: The file is damaged, as SQLite finds. It is removed, so the next run builds it again.
        """
        with self._lock:
            try:
                yield self._connection
            except sqlite3.DatabaseError as exc:
                if type(exc) is not sqlite3.DatabaseError:  # a mistake of ours, or a full disk
                    raise
                with suppress(OSError):
                    self._path.unlink()
                reason = "this index of a corpus was removed; run the command again to rebuild it"
                raise DamagedFileError(str(self._path), reason) from exc

    def scope(self, query: Query) -> Scope | None:
        number = self._numbers.get((query.evaluation_name, query.metric))
        return None if number is None else self.scopes[number]

    def _number(self, query: Query) -> int:
        return self._numbers[query.evaluation_name, query.metric]

    def ids(self, query: Query) -> array[int]:
        number = self._numbers.get((query.evaluation_name, query.metric))
        if number is None:
            return array("q")
        with self._use() as connection:
            if query in self._kept:
                self._kept.move_to_end(query)
                return self._kept[query]
            (found,) = self._choose_ids(connection, [query])
            self._kept[query] = found
            while len(self._kept) > _KEPT_QUERIES:
                self._kept.popitem(last=False)
            return found

    def many_ids(self, queries: Sequence[Query]) -> list[array[int]]:
        """The ids that each of some queries of scopes chooses; they are not kept."""
        with self._use() as connection:
            return list(self._choose_ids(connection, queries))

    def _choose_ids(self, connection: sqlite3.Connection, queries: Iterable[Query]) -> Iterator[array[int]]:
        """Yield the ids that each query chooses. Queries in a row with the same SQL are one statement."""

        def sql_of(query: Query) -> tuple[str, list[Any], tuple[str, ...], tuple[str, ...]]:
            facts, places = self._facts(connection, query), self._found_in(query) if query.text else ""
            sql, values = _ids_query(query, facts, places, self.scopes[self._number(query)])
            return sql, values, query.sample_ids, query.hashes

        for (sql, values, sample_ids, hashes), some in groupby(queries, key=sql_of):
            if "has_sample_id" in sql:
                match_id = matcher(sample_ids)
                connection.create_function(
                    "has_sample_id", 1, lambda ids, match=match_id: any(map(match, map(str, _sample_ids(ids))))
                )
            if "has_hash" in sql:
                match_hash = matcher(hashes)
                connection.create_function("has_hash", 1, lambda found, match=match_hash: bool(match(found.decode())))
            # One text with all ids: stepping through a million rows in Python takes longer.
            sql = f"SELECT json_group_array(id) FROM ({sql})"  # noqa: S608 - all ours
            scopes = [self._number(query) for query in some]
            if sql.count(_SCOPE) == 1:  # a subquery that names the scope would run again for each question
                of_each = _OF_EACH.format(sql.replace(_SCOPE, "chosen.number"))
                rows = connection.execute(of_each, (str(scopes), *values)).fetchall()
            else:
                rows = [connection.execute(sql.replace(_SCOPE, str(scope)), values).fetchone() for scope in scopes]
            for (text,) in rows:
                yield array("q", _decode_numbers(text))

    def rows(self, query: Query, ids: Sequence[int]) -> list[QuestionRow]:
        if not ids:
            return []
        (rows,) = self.many_rows([(query, ids)])
        if query.text and self.has_found(query.text, query.evaluation_name):
            by_id = {row.number: row for row in rows}
            for row in rows:
                row.in_input, row.in_answers = False, 0
            places = self._found_in(query).replace(_SCOPE, str(self._number(query)))
            sql = (
                f"SELECT id, min(model) < 0, sum(answers) FROM {places} "  # noqa: S608 - of ours
                "AND id IN (SELECT value FROM json_each(?)) GROUP BY id"
            )
            with self._use() as connection:
                for one, in_input, answers in connection.execute(sql, (str(list(by_id)),)):
                    by_id[one].in_input, by_id[one].in_answers = bool(in_input), answers
        return rows

    def many_rows(self, chosen: Iterable[tuple[Query, Sequence[int]]]) -> list[list[QuestionRow]]:
        """The questions with these ids in the scope of each query, in the given order, as far as they are there."""
        found: list[list[QuestionRow]] = []
        with self._use() as connection:
            for facts, group in groupby(chosen, key=lambda one: self._facts(connection, one[0])):
                some = [(self._number(query), list(ids)) for query, ids in group]
                sql = (
                    f"SELECT {_ROW_COLUMNS}, {_NAME} FROM json_each(?) s CROSS JOIN json_each(s.value) i "  # noqa: S608
                    f"CROSS JOIN {facts} q ON q.scope = CAST(s.key AS INTEGER) AND q.id = i.value "
                    "CROSS JOIN asked a ON a.id = q.id CROSS JOIN marks m ON m.scope = q.scope AND m.id = q.id"
                )
                by_scope = ", ".join(f'"{number}": {ids}' for number, ids in some)
                rows = connection.execute(sql, (f"{{{by_scope}}}",)).fetchall()
                by_id = {row[:2]: self._row(row) for row in rows}
                found += [[by_id[number, one] for one in ids if (number, one) in by_id] for number, ids in some]
        return found

    def has_found(self, text: str, evaluation: str | None) -> bool:
        """Whether it is known where a text is: in an evaluation, or in all."""
        return any((text, one) in self._places for one in (None, evaluation))

    def keep_found(self, text: str, evaluation: str | None, hits: Iterable[Hit]) -> None:
        """Keep where a text is, in a temporary table, which SQLite writes to a file if it is large."""
        self._searches += 1
        name = f"temp.found_{self._searches}"
        with self._use() as connection:
            connection.execute(
                f"CREATE TABLE {name} (scope INTEGER, id INTEGER, model INTEGER, answers INTEGER, "
                "PRIMARY KEY (scope, id, model)) WITHOUT ROWID"
            )
            connection.execute("BEGIN")
            with connection:
                connection.executemany(
                    f"INSERT INTO {name} VALUES (?, ?, ?, ?) "  # noqa: S608 - a name of ours
                    "ON CONFLICT DO UPDATE SET answers = answers + excluded.answers",
                    self._found_rows(connection, hits),
                )
            self._places[text, evaluation] = name
            if len(self._places) > _KEPT_SEARCHES:
                connection.execute(f"DROP TABLE {self._places.popitem(last=False)[1]}")

    def _found_rows(self, connection: sqlite3.Connection, hits: Iterable[Hit]) -> Iterator[tuple[int, int, int, int]]:
        """Yield a row for each answer that has a text, and one with the model -1 for each input."""
        sql = (  # a cross join begins with the first table, where the hash finds few rows
            "SELECT a.id FROM asked a CROSS JOIN question q ON q.id = a.id AND q.scope = ? "
            "WHERE a.sample_hash = ? AND (a.sample_id IS NULL OR a.sample_id = ?)"
        )
        positions: dict[str, int] = {}
        last = -1
        for (name, metric, sample_hash, sample_id), some in groupby(hits, key=itemgetter(0, 1, 2, 3)):
            number = self._numbers[name, metric]
            if number != last:
                last, positions = number, {model: at for at, model in enumerate(self.scopes[number].models)}
            row = connection.execute(sql, (number, sample_hash.encode(), sample_id)).fetchone()
            for hit in some if row else ():
                if hit.in_input:
                    yield number, row[0], -1, 0
                if hit.in_answer:
                    yield number, row[0], positions[hit.model_id], 1

    def _found_in(self, query: Query) -> str:
        """Return what selects where the text of a query is, of models that count, as SQL with `<scope>`."""
        key = (query.text, None if (query.text, None) in self._places else query.evaluation_name)
        self._places.move_to_end(key)
        scope = self.scopes[self._number(query)]
        wanted = set(query.models)
        models = [-1, *(at for at, model in enumerate(scope.models) if model in wanted)]
        chosen = f" AND model IN (SELECT value FROM json_each('{models}'))" if query.models else ""  # noqa: S608
        return f"{self._places[key]} WHERE scope = {_SCOPE}{chosen}"

    def _row(self, row: tuple[Any, ...]) -> QuestionRow:
        number, place, models, right, score, errors, output_chars, input_chars, spread, hash_, excerpt, ids, *_ = row
        return QuestionRow(
            number=place,
            evaluation_name=self.scopes[number].evaluation_name,
            metric=self.scopes[number].metric,
            name=row[-1],
            sample_hash=hash_.decode(),
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
            metadata=_decode_metadata(row[-2]),
        )

    def find(self, text: str, limit: int = 1_000, shortest: int = 1) -> list[QuestionRow]:
        """Find questions by their `sample_hash`, or else by a `sample_id`, or else by the beginning of a hash.

        A question is listed once per metric. The beginning of a hash needs at least `shortest` characters.
        """
        spelled = _spelled_ids(text)
        if not text or not spelled:
            return []
        prefix = text.encode()
        searches: list[tuple[str, tuple[bytes, ...]]] = [
            ("SELECT id, NULL FROM asked WHERE sample_hash = ?", (prefix,)),
            (_BY_SAMPLE_ID, _sample_id_values(spelled)),
        ]
        if len(text) >= shortest:
            beyond = prefix + b"\xff"
            searches += [("SELECT id, NULL FROM asked WHERE sample_hash BETWEEN ? AND ?", (prefix, beyond))]
        by_scope: dict[int, set[int]] = {}
        with self._use() as connection:
            for sql, values in searches:
                for place, scope in connection.execute(f"{sql} ORDER BY id LIMIT ?", (*values, limit)):
                    for number in range(len(self.scopes)) if scope is None else [scope]:
                        by_scope.setdefault(number, set()).add(place)
                if by_scope:
                    break
        scopes = ((self.scopes[number], sorted(places)) for number, places in sorted(by_scope.items()))
        chosen = ((Query(evaluation_name=one.evaluation_name, metric=one.metric), ids) for one, ids in scopes)
        rows: list[QuestionRow] = []
        while some := list(islice(chosen, _BATCH)):
            rows.extend(chain.from_iterable(self.many_rows(some)))
        return sorted(rows, key=lambda row: row.number)[:limit]

    def prefixes_of(self, hashes: Iterable[str], shortest: int) -> dict[str, str]:
        """The shortest beginning of each `sample_hash`, of at least so many characters, that `find`s no other hash."""
        found = {one: one for one in hashes}
        encoded = sorted(one.encode() for one in found)  # neighbours are near each other in the file
        for start in range(0, len(encoded), _BATCH):
            some = encoded[start : start + _BATCH]
            with self._use() as connection:
                sql = _NEIGHBOURS.format(", ".join(["(?)"] * len(some)))
                rows = connection.execute(sql, some)
                waiting = {(text := one.decode()): _prefixes(text, shortest, *near) for one, *near in rows}
                while waiting:
                    tried = {one: prefix for one, prefixes in waiting.items() if (prefix := next(prefixes, None))}
                    with_id = _hashes_with_id(connection, tried.values())
                    taken = {one for one, prefix in tried.items() if with_id.get(prefix, {one}) != {one}}
                    found |= {one: prefix for one, prefix in tried.items() if one not in taken}
                    waiting = {one: waiting[one] for one in taken}
        return found

    def number_of(self, query: Query, name: str) -> int | None:
        """Find a question by its name; if the hash is split in another metric only, its first question here."""
        number = self._numbers.get((query.evaluation_name, query.metric))
        sql = "SELECT a.id FROM asked a CROSS JOIN question q ON q.id = a.id AND q.scope = ? WHERE a.sample_hash = ?"
        whole = name.encode(errors="surrogatepass")
        slashes = [at for at, byte in enumerate(whole) if byte == ord("/")]
        names = [(whole, None), *((whole[:at], whole[at + 1 :]) for at in slashes)]  # a hash or an id may have a slash
        with self._use() as connection:
            exact = (connection.execute(f"{sql} AND a.sample_id IS ?", (number, *one)).fetchone() for one in names)
            alike = (connection.execute(f"{sql} ORDER BY a.id", (number, one)).fetchone() for one, _ in names)
            return next((row[0] for row in chain(exact, alike) if row), None)

    def marks(self, query: Query, ids: Sequence[int], cut: Cut, *names: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the names of many questions at a time, in the given order, and some columns with marks of models."""
        number = self._number(query)
        columns = ", ".join([_NAME, *map(cut.column, names)])
        sql = (  # a cross join keeps the order of the first table
            f"SELECT {columns} FROM json_each(?) j "  # noqa: S608 - all ours
            "CROSS JOIN marks m ON m.scope = ? AND m.id = j.value CROSS JOIN asked a ON a.id = j.value"
        )
        step = max(min(_BATCH, _CELLS // len(self.scopes[number].models)), 1)
        for start in range(0, len(ids), step):
            some = str(list(ids[start : start + step]))
            with self._use() as connection:
                rows = connection.execute(sql, (some, number)).fetchall()
            yield list(zip(*rows, strict=True))

    def ranges(self, place: int) -> list[Range]:
        with self._use() as connection:
            row = connection.execute("SELECT ranges FROM asked WHERE id = ?", (place,)).fetchone()
        return _decode_ranges(row[0]) if row else []

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _facts(self, connection: sqlite3.Connection, query: Query) -> str:
        """Return the table of facts about the models of a query."""
        if not query.models:
            return "question"
        number = self._number(query)
        scope = self.scopes[number]
        wanted = set(query.models)
        chosen = tuple(at for at, model in enumerate(scope.models) if model in wanted)
        if len(chosen) == len(scope.models):
            return "question"
        return self._choices.facts(connection, number, chosen, graded=scope.graded)


_Opened = TypeVar("_Opened", bound=Database)


def open_database(path: Path, make: Callable[[Path, sqlite3.Connection], _Opened]) -> _Opened | None:
    """Open the file of an index; None if there is none, or if it is cut, damaged or no SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        if not pages or path.stat().st_size != pages * (1 << 16 if page_bytes == 1 else page_bytes):
            return None
        # An index never changes, so SQLite needs no locks.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return make(path, connection)
        except (DamagedFileError, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError):
            connection.close()
            return None
    except (OSError, sqlite3.Error):
        return None


def _prefixes(text: str, shortest: int, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield the beginnings of a hash that its neighbours do not have: no other hash has them either."""
    before, after = before or b"", after or b""
    for length in range(shortest, len(text)):
        prefix = text[:length].encode()
        if not before.startswith(prefix) and not after.startswith(prefix):
            yield text[:length]


def _hashes_with_id(connection: sqlite3.Connection, texts: Iterable[str]) -> dict[str, set[str]]:
    """The hashes of questions whose `sample_id` is one of some texts, by text."""
    spelled = {one: text for text in texts for one in _spelled_ids(text)}
    sql = _HASHES_WITH_ID.format(", ".join("?" * len(spelled)))
    found: dict[str, set[str]] = {}
    for one, sample_hash in connection.execute(sql, [*(b"[" + one + b"]" for one in spelled), *spelled]):
        found.setdefault(spelled[one.strip(b"[]")], set()).add(sample_hash.decode())
    return found


def _sample_ids(spelled: bytes) -> list[int | str]:
    try:
        return _decode_ids(spelled)
    except msgspec.MsgspecError:  # more digits than msgspec decodes
        return [decode_sample_id(one) for one in _decode_spelled(spelled)]
