"""The web application: which page answers which address. Pages are made in threads, so they may wait for parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import PurePath
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from fastrec.answers.index import Index
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.commands.view.addresses import Addresses, PageState, state_of
from fastrec.commands.view.answer_page import answer_page, chosen_answer, record_text
from fastrec.commands.view.layout import Frame
from fastrec.commands.view.question_page import NO_MORE, question_page
from fastrec.commands.view.start_page import found_page, start_page
from fastrec.commands.view.table_page import table_page
from fastrec.corpus.documents import read_manifest
from fastrec.errors import FastrecError, shown
from fastrec.html import Html
from fastrec.storage import is_url, parent_and_name

__all__ = ["make_app"]

_TYPES: Final = {"page.css": "text/css", "page.js": "text/javascript"}
_Page = Callable[[Request], Response]


class _MissingError(Exception):
    """There is no such page; the message says why."""


class _Pages:
    """The pages of one corpus."""

    def __init__(self, index: Index) -> None:
        self._index = index
        corpus = index.corpus
        self._name = parent_and_name(corpus)[1] if is_url(corpus) else PurePath(corpus).name or corpus

    def frame(self, request: Request) -> Frame:
        return Frame(Addresses(request.scope["root_path"]), shown(self._name))

    def start(self, request: Request) -> Response:
        return _html(start_page(self.frame(request), self._index))

    def find(self, request: Request) -> Response:
        text = request.query_params.get("text", "").strip()
        found = self._index.find(text) if text else []
        if len(found) == 1:
            query = Query(evaluation_name=found[0].evaluation_name, metric=found[0].metric)
            address = self.frame(request).addresses.question(PageState(query=query), found[0].sample_hash)
            return RedirectResponse(address, 303)
        return _html(found_page(self.frame(request), text, found))

    def table(self, request: Request) -> Response:
        state, scope = self._state(request)
        frame = self.frame(request)
        if any(value == "" and key != "metric" for key, value in request.query_params.multi_items()):
            return RedirectResponse(frame.addresses.table(state), 303)  # a form sends empty fields, too
        return _html(table_page(frame, self._index, scope, state))

    def question(self, request: Request) -> Response:
        state, scope = self._state(request)
        page = question_page(self.frame(request), self._index, scope, state, self._row(request, state))
        return _html(page)

    def disagreement(self, request: Request) -> Response:
        state, _ = self._state(request)
        row = self._row(request, state)
        frame = self.frame(request)
        following = self._index.next_disagreement(state.query, row.sample_hash)
        if following is None:
            address = frame.addresses.question(state, row.sample_hash)
            return RedirectResponse(f"{address}#{NO_MORE}", 303)
        return RedirectResponse(frame.addresses.question(state, following.sample_hash), 303)

    def answer(self, request: Request) -> Response:
        state, _ = self._state(request)
        row = self._row(request, state)
        answer = chosen_answer(self._index, row, state)
        if answer is None:
            raise _MissingError("The model has no such answer to this question.")
        return _html(answer_page(self.frame(request), self._index, state, row, answer))

    def record(self, request: Request) -> Response:
        state, _ = self._state(request)
        answer = chosen_answer(self._index, self._row(request, state), state)
        if answer is None:
            raise _MissingError("The model has no such answer to this question.")
        return PlainTextResponse(record_text(answer))

    def _state(self, request: Request) -> tuple[PageState, Scope]:
        state = state_of(request.query_params.multi_items())
        query = state.query
        for scope in self._index.scopes:
            if (scope.evaluation_name, scope.metric) == (query.evaluation_name, query.metric):
                return state, scope
        raise _MissingError("This corpus has no such evaluation and metric.")

    def _row(self, request: Request, state: PageState) -> QuestionRow:
        row = self._index.row(state.query, request.path_params["hash"])
        if row is None:
            raise _MissingError("This evaluation has no such question.")
        return row

    def problem(self, request: Request, exc: Exception) -> Response:
        """Say what is wrong with the corpus or the address, without a traceback."""
        frame = self.frame(request)
        if isinstance(exc, HTTPException):
            return _html(frame.problem("There is no such page", str(exc.detail)), exc.status_code)
        if isinstance(exc, _MissingError):
            return _html(frame.problem("Nothing here", str(exc)), 404)
        if isinstance(exc, (FastrecError, OSError)) and _was_replaced(self._index):
            hint = f"Run `fastrec view {shown(self._index.corpus)}` again to see the new one."
            return _html(frame.problem("The corpus has changed since this server was started", hint), 500)
        if isinstance(exc, FastrecError):
            hint = f"`fastrec verify {shown(self._index.corpus)}` lists all problems of the corpus."
            return _html(frame.problem("The corpus cannot be read", str(exc), hint), 500)
        if isinstance(exc, OSError):
            return _html(frame.problem("The corpus cannot be read", _os_error(exc)), 500)
        said = f"{type(exc).__name__}: {exc}"
        return _html(frame.problem("Unexpected error", said, "This is a bug in fastrec. Please report it."), 500)


def _html(page: Html, status: int = 200) -> Response:
    return HTMLResponse(page.encode("utf-8", "backslashreplace"), status)


def _was_replaced(index: Index) -> bool:
    """Return whether there is another corpus now, in the place of the one of the index."""
    with suppress(FastrecError, OSError):
        return read_manifest(index.corpus) != index.manifest
    return False


def _os_error(exc: OSError) -> str:
    file = f"{shown(str(exc.filename))}: " if exc.filename else ""
    return f"{file}{exc.strerror or exc}"


def _file(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    data = files("fastrec.commands.view").joinpath(name).read_bytes()
    return Response(data, media_type=_TYPES[name])


def make_app(index: Index) -> Starlette:
    """Make the application; it must be mounted at a prefix, and guarded."""
    pages = _Pages(index)
    routes: dict[str, _Page] = {
        "/": pages.start,
        "/find": pages.find,
        "/questions": pages.table,
        "/question/{hash}": pages.question,
        "/disagreement/{hash}": pages.disagreement,
        "/answer/{hash}": pages.answer,
        "/record/{hash}": pages.record,
        **dict.fromkeys((f"/{name}" for name in _TYPES), _file),
    }
    problems = (HTTPException, _MissingError, FastrecError, OSError, Exception)
    app = Starlette(
        routes=[Route(path, page) for path, page in routes.items()],
        exception_handlers=dict.fromkeys(problems, pages.problem),
    )
    app.router.redirect_slashes = False
    return app
