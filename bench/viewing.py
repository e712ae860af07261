"""Contenders of the set `view`: compare all models of a corpus; and serve pages of it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from bench.job import Job

if TYPE_CHECKING:  # the other contenders do without these imports
    from fastrec.answers.question_table import QuestionTable
    from fastrec.answers.table import Scope

__all__ = ["Ranking", "Viewing"]

_ROWS: Final = 1_000
# between the questions that are asked for: they are in many parts, and at all places of them
_STEP: Final = 37


class Ranking:
    """Makes the leaderboard of a corpus."""

    label = "fastrec leaderboard"
    leaves_out = ""

    def run(self, job: Job) -> None:
        """Make it."""
        from fastrec.commands.leaderboard import leaderboard  # noqa: PLC0415

        leaderboard(job.inputs[0], jobs=job.jobs)


class Viewing:
    """Starts the server of `fastrec view`, and asks it for pages: a kind of page, and how many of them."""

    label = "fastrec view"
    leaves_out = "a browser"

    def run(self, job: Job) -> None:
        """Ask for all pages, one after the other."""
        from fastrec.commands.view import view  # noqa: PLC0415

        kind, number = job.options
        corpus = job.inputs[0]
        paths = [""] if kind == "start" else _paths(corpus, kind, int(number))
        with view(corpus, jobs=job.jobs) as opened:
            thread = threading.Thread(target=opened.serve)
            thread.start()
            try:
                for path in paths:
                    _ask(opened.address, path)
            finally:
                opened.stop()
                thread.join()


def _ask(address: str, path: str) -> None:
    parts = urlsplit(address)
    assert parts.hostname
    with closing(http.client.HTTPConnection(parts.hostname, parts.port)) as connection:
        connection.request("GET", f"{parts.path}{path}")
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.status
        assert answer.read()


def _paths(corpus: str, kind: str, number: int) -> list[str]:
    from fastrec.answers.choosing import open_index  # noqa: PLC0415

    return list(
        islice({"table": _tables, "question": _questions}[kind](open_index(corpus)), number)
    )


def _tables(index: QuestionTable) -> Iterator[str]:
    """Tables of the evaluation with the most questions, in all orders."""
    from fastrec.answers.table import SORTS  # noqa: PLC0415

    scope = max(index.scopes, key=lambda scope: scope.questions)
    for page, sort in enumerate(cycle(SORTS)):
        chosen = ["all", "disagreement"][page // len(SORTS) % 2]
        yield f"questions?{_parameters(scope, sort=sort, size=str(_ROWS), which=chosen)}"


def _questions(index: QuestionTable) -> Iterator[str]:
    """Questions of the evaluation with the most models."""
    from fastrec.answers.table import Query  # noqa: PLC0415

    scope = max(index.scopes, key=lambda scope: len(scope.models))
    rows = index.page(
        Query(evaluation_name=scope.evaluation_name, metric=scope.metric), limit=_ROWS
    ).rows
    for number in range(0, _STEP * _ROWS, _STEP):
        yield f"question/{rows[number % len(rows)].sample_hash}?{_parameters(scope)}"


def _parameters(scope: Scope, **more: str) -> str:
    metric = {} if scope.metric is None else {"metric": scope.metric}
    return urlencode({"evaluation": scope.evaluation_name, **metric, **more})
