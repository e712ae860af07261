"""The local server: the guard of every request, which page answers which address, and the socket.

The guard sees a request before anything else does:

1. The Host header must name this server: another web site may let its own name point to 127.0.0.1
   (DNS rebinding).
2. Only GET and HEAD: the server changes nothing. With `--labels`, also POST of a label.
3. The first part of the path must be the token of this start, which other users and web sites do
   not know.
4. A POST must come from a page of this server, as the browser says in Origin and Sec-Fetch-Site.

Every response, an error too, has headers that forbid scripts, styles and requests other than our
own, framing, and storing. Pages are made in threads, so they may wait for parts.
"""

import os
import re
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from importlib.resources import files
from itertools import chain, islice
from typing import Any, Self
from urllib.parse import quote

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as HttpScope
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastrec.answers.board import Leaderboard
from fastrec.answers.choosing import open_index, primary_queries
from fastrec.answers.costs import Prices
from fastrec.answers.leaderboard import make_leaderboard
from fastrec.answers.pictures import evaluations_html
from fastrec.answers.question_html import question_file
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.ranks import add_ranks
from fastrec.answers.selection import parse_groups
from fastrec.answers.shown import read_question
from fastrec.answers.table import Page, Query, Scope
from fastrec.commands.view.addresses import PageState, Pairs, Site, state_of
from fastrec.commands.view.answer_page import LabelFile, answer_page, new_label, record_text
from fastrec.commands.view.group_page import group_page, group_results
from fastrec.commands.view.model_page import model_page
from fastrec.commands.view.pair_page import pair_page
from fastrec.commands.view.question_page import (
    NO_MORE,
    Asked,
    NumberedAnswer,
    numbered,
    question_page,
)
from fastrec.commands.view.table_page import found_page, start_page, table_page
from fastrec.commands.view.work import Background, WorkingError
from fastrec.corpus.manifest import read_manifest
from fastrec.errors import FastrecError, UsageError, counted, listed, shown
from fastrec.filters import Filters, make_filters
from fastrec.judge.parse import decoded
from fastrec.normalize.corrections import Labeller, is_about
from fastrec.pages import render_template
from fastrec.pages.html import Html
from fastrec.storage import last_name
from fastrec.summary.present_choice import choose
from fastrec.summary.present_ranking import Stats, facts_of, rank

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "same-origin",  # without a referrer, browsers send no Origin either
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class _Guard:
    """Passes requests for this server, with its token, to an application below `/TOKEN`."""

    def __init__(self, app: ASGIApp, token: str, port: int, *, can_label: bool) -> None:
        self._app = app
        self._can_label = can_label
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self._hosts |= {"127.0.0.1", "localhost"}

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":  # else a web socket: not one of ours
            app = self._refused(scope) or self._app
            await app({**scope, "root_path": f"/{self._token.decode()}"}, receive, send)

    def _refused(self, scope: HttpScope) -> Response | None:
        """The answer to a request that is refused."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        method = scope["method"]
        token, slash, page = scope["path"][1:].encode("utf-8", "replace").partition(b"/")
        allowed = "POST" if self._can_label and page.startswith(b"label/") else "GET, HEAD"
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refusal(403, "This server answers only to 127.0.0.1 and localhost.")
        if method not in allowed.split(", "):
            methods = allowed.replace(", ", " and ")
            reason = f"This server only shows things: it answers {methods}."
            return _refusal(405, reason, allow=allowed)
        if not secrets.compare_digest(token, self._token):
            return _refusal(403, "The address lacks the right token.")
        is_own = headers.getlist("origin") == [f"http://{hosts[0].lower()}"]
        is_same_site = headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if method == "POST" and not (is_own and is_same_site):
            return _refusal(403, "Labels come from pages of this server only.")
        return None if slash else _refusal(404, "There is no such page.")


class _Protocol(H11Protocol):
    """HTTP as uvicorn speaks it.

    What it refuses itself, such as a request without a Host, has our headers, too.
    """

    def send_400_response(self, msg: str) -> None:
        headers = {"content-type": "text/plain; charset=utf-8", "connection": "close", **HEADERS}
        for event in (
            h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()


def _refusal(status: int, reason: str, **headers: str) -> Response:
    return HTMLResponse(render_template("view/refusal.html", reason=reason), status, headers)


_TYPES = {"page.css": "text/css", "page.js": "text/javascript"}


class _MissingError(Exception):
    """There is no such page; the message says why."""


_KEPT = 4  # indexes of matching records
_NEAREST = 5  # names that a message suggests
_OTHER_SERVER = re.compile(r"https?://(?:127\.0\.0\.1|localhost):\d+/[\w-]+/(.*)", re.DOTALL)
_LINES = 256  # of a block that is sent


def _stats_of(index: QuestionTable) -> Stats:
    """What pages about models need of matching records."""
    stats = rank(choose(index.evaluations, metrics="all"), facts_of(index.selection.summary))
    add_ranks(stats.evaluations, index)
    return stats


class _Pages:
    def __init__(
        self,
        index: QuestionTable,
        prices: Prices,
        labels: LabelFile | None,
        root: str,
    ) -> None:
        self._index = index
        self._labels = labels
        self._prices = prices
        self.background = Background()
        self._opened = lru_cache(_KEPT)(self._open)
        self._stats = lru_cache(_KEPT)(_stats_of)
        self._site = Site(root, shown(last_name(index.corpus)), can_label=labels is not None)

    def start(self, _request: Request) -> Response:
        board = None
        with suppress(WorkingError):
            board = self._board
        return _html(start_page(self._site, self._index, board))

    @cached_property
    def _board(self) -> Leaderboard:
        """The leaderboard, which is computed when it is first asked for."""
        board: Leaderboard = self.background.result(
            None,
            lambda progress: make_leaderboard(self._index, most=_COLUMNS),
        )
        return board

    def stop(self, request: Request) -> Response:
        self.background.stop()
        return self.start(request)

    def find(self, request: Request) -> Response:
        text = request.query_params.get("text", "").strip()
        if elsewhere := _OTHER_SERVER.fullmatch(text):
            return RedirectResponse(self._site.plain(elsewhere[1]), 303)
        if not text:
            return self.start(request)
        questions = self._index.find(text)
        if len(questions) == 1:
            return RedirectResponse(self._site.question(questions[0]), 303)
        progress = ""
        try:
            self.background.result(text, partial(self._index.phrases.search, text))
        except WorkingError as exc:
            progress = str(exc)
        return _html(found_page(self._site, self._index, text, questions, progress))

    def questions(self, request: Request) -> Response:
        state, scope = self._state(request)
        if any(not value for _, value in _parameters(request)):
            # A form sends empty fields, too.
            return RedirectResponse(self._site.table(state), 303)
        page = Page(total=0, rows=[])
        problem = ""
        try:
            first = (state.page - 1) * state.size
            page = self._index_of(state.query).page(state.query, first, state.size)
        except UsageError as exc:  # a condition is wrong, or no record matches it
            problem = str(exc)
        html = table_page(self._site, self._index, scope, state, page, problem=problem)
        return _html(html, 400 if problem else 200)

    def download(self, request: Request) -> Response:
        """Send the records of the questions of a table, of the models that count."""
        query = self._state(request)[0].query
        index = self._index_of(query)
        text = _blocks(index.selection.lines(index.numbers_of(query)))
        # A part that cannot be read is mostly noticed here, so that a page can say so.
        first = next(text, b"")
        headers = {"content-disposition": 'attachment; filename="records.jsonl"'}
        return StreamingResponse(
            chain([first], text), media_type="application/x-ndjson", headers=headers
        )

    def question(self, request: Request) -> Response:
        return _html(question_page(self._asked(request), self._read_labels()))

    def disagreement(self, request: Request) -> Response:
        asked = self._asked(request)
        following = asked.questions.next_disagreement(asked.state.query, asked.row.name)
        address = asked.to(name=following.name) if following else f"{asked.to()}#{NO_MORE}"
        return RedirectResponse(address, 303)

    def answer(self, request: Request) -> Response:
        asked = self._asked(request)
        return _html(answer_page(asked, self._answer(asked)))

    def record(self, request: Request) -> Response:
        return PlainTextResponse(record_text(self._answer(self._asked(request))))

    def save(self, request: Request) -> Response:
        """Send a question as one file, with all of its answers or with those of some models."""
        site, index, scope, state, row = self._asked(request)
        queries = [
            query_of(other)
            for other in index.scopes
            if other.evaluation_name == scope.evaluation_name
        ]
        models = [chosen.model for chosen in state.show]
        question = read_question(index, queries, row.name, make_filters(), models)
        if not question:
            raise _MissingError("None of these models has an answer to this question.")
        name = f"question-{row.sample_hash[:12]}.html".encode("ascii", "replace").decode()
        headers = {"content-disposition": f'attachment; filename="{quote(name)}"'}
        return HTMLResponse(question_file([question], site.corpus), headers=headers)

    def model(self, request: Request) -> Response:
        query = state_of(_parameters(request)).query
        index = self._opened(query.where)
        self._check_models(index, query.models, 1)
        page = model_page(
            self._site,
            index,
            self._stats(index),
            self._board,
            model=query.models[0],
            confidence=request.query_params.get("confidence", "").strip(),
            prices=self._prices,
        )
        return _html(page)

    def pair(self, request: Request) -> Response:
        query = state_of(_parameters(request)).query
        index = self._index_of(query)
        self._check_models(index, query.models, 2)
        return _html(pair_page(self._site, index, query))

    def group(self, request: Request) -> Response:
        """Show groups by a field, and intervals over clusters of it; without a field, pictures."""
        where = state_of(_parameters(request)).query.where
        by = request.query_params.get("by", "").strip()
        index = self._opened(where, by)
        shown: dict[str, Any] = {}
        if not by:
            shown["pictures"] = evaluations_html(index, self._stats(index))
        for group in parse_groups((by,) if by else ()):
            shown |= group_results(self._site, index, group, where)
            if not group.bins:
                clusters = make_leaderboard(self._opened(where, cluster=by), most=_COLUMNS)
                clusters.cluster = by
                shown["clusters"] = clusters
        return _html(group_page(self._site, self._index, by, where, **shown))

    def _check_models(self, index: QuestionTable, models: Sequence[str], number: int) -> None:
        """Check that an address names so many models, and that all of them are known."""
        if len(models) != number:
            about = counted(number, "model")
            raise _MissingError(
                f"This page is about {about}, not {len(models)}. Go back and choose {about}."
            )
        for model in models:
            if model not in index.models:
                near = get_close_matches(model, index.models, _NEAREST, 0.0)
                raise _MissingError(f"There is no model {model!r}. The nearest: {listed(near)}.")

    async def label(self, request: Request) -> Response:
        form = bytearray()
        async for chunk in request.stream():
            form += chunk
            if len(form) > _LONGEST_LABEL:
                return _refusal(413, f"A label has at most {_LONGEST_LABEL:,} bytes.")
        return await run_in_threadpool(self._append_label, request, bytes(form))

    def _append_label(self, request: Request, form: bytes) -> Response:
        asked = self._asked(request)
        shown = self._answer(asked)
        assert self._labels  # otherwise, the guard has refused it
        label = new_label(asked.row, shown, form)
        # Conditions and the metric of the page hide records that the label may be about, too.
        rows = [
            row
            for row in self._index.find(asked.row.sample_hash)
            if row.evaluation_name == label.evaluation
        ]
        answers = chain(*(self._index.answers(row, (label.model,)) for row in rows))
        if sum(is_about(label, decoded(answer.line)) for answer in answers) > 1:
            raise UsageError("No label can tell this answer from others of its model")
        self._labels.add(label)
        return RedirectResponse(asked.answer(shown.name), 303)

    def _read_labels(self) -> Labeller | None:
        return self._labels.read() if self._labels else None

    def _answer(self, asked: Asked) -> NumberedAnswer:
        """The answer that an address names."""
        ends = asked.questions.scale(asked.state.query)
        for wanted in asked.state.show[:1]:
            answers = asked.questions.answers(asked.row, (wanted.model,))
            for answer in numbered(answers, ends, self._read_labels()):
                if answer.name == wanted:
                    return answer
        raise _MissingError("The model has no such answer to this question.")

    def _state(self, request: Request) -> tuple[PageState, Scope]:
        """The state of a page, and the scope that it names."""
        state = state_of(_parameters(request))
        scope = self._index.scope(state.query)
        if not scope:
            raise _MissingError("This corpus has no such evaluation and metric.")
        return state, scope

    def _asked(self, request: Request) -> Asked:
        """The question that an address names."""
        state, scope = self._state(request)
        index = self._index_of(state.query)
        row = index.row(state.query, request.path_params["name"])
        if not row:
            raise _MissingError("This evaluation has no such question.")
        return Asked(self._site, index, scope, state, row)

    def _index_of(self, query: Query) -> QuestionTable:
        """The questions of the records that match the conditions of a query."""
        index = self._opened(query.where)
        if query.text:
            search = partial(index.phrases.search, query.text, query.evaluation_name)
            self.background.result(query, search)
        return index

    def _open(
        self, where: tuple[str, ...], by: str = "", cluster: str | None = None
    ) -> QuestionTable:
        """Open the records that match conditions, in groups or clusters."""
        if not where and not by and cluster is None:
            return self._index
        filters = make_filters(where=where)  # refuses what is no condition
        groups = parse_groups((by,) if by else ())
        reader = self._index.selection.reader
        match = partial(open_index, reader, filters, groups, cluster=cluster)
        index: QuestionTable = self.background.result((where, by, cluster), match)
        index.direct_like(self._index)
        return index

    def problem(self, request: Request, exc: Exception) -> Response:
        """Say what is wrong with the corpus or the address, without a traceback."""
        if isinstance(exc, WorkingError):
            return _html(self._site.page("searching", "Searching", progress=str(exc)))
        status, title, *text = self._explain(exc, is_label=request.method == "POST")
        return _html(self._site.page("problem", title, text=text), status)

    def _explain(self, exc: Exception, *, is_label: bool) -> tuple[Any, ...]:
        """The status, the title and the text of the page about an error."""
        corpus = shown(self._index.corpus)
        match exc:
            case HTTPException():
                return exc.status_code, "There is no such page", str(exc.detail)
            case _MissingError():
                return 404, "Nothing here", str(exc)
            case UsageError():
                return 400, "This cannot be used", str(exc)
            case FastrecError() | OSError() if _was_replaced(self._index):
                title = "The corpus has changed since this server was started"
                return 500, title, f"Run `fastrec view {corpus}` again to see the new one."
            case FastrecError():
                hint = f"`fastrec verify {corpus}` lists all problems of the corpus."
                return 500, "The corpus cannot be read", str(exc), hint
            case OSError():
                title = "The label cannot be written" if is_label else "The corpus cannot be read"
                file = f"{shown(str(exc.filename))}: " if exc.filename else ""
                return 500, title, f"{file}{exc.strerror or exc}"
        hint = "This is a bug in fastrec. Please report it."
        return 500, "Unexpected error", f"{type(exc).__name__}: {exc}", hint


def _parameters(request: Request) -> Pairs:
    return request.query_params.multi_items()


def _blocks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text of lines in blocks."""
    while block := list(islice(lines, _LINES)):
        yield b"\n".join([*block, b""])


def _html(page: Html, status: int = 200) -> Response:
    return HTMLResponse(page.encode("utf-8", "backslashreplace"), status)


def _was_replaced(index: QuestionTable) -> bool:
    """Whether there is another corpus now, in its place."""
    with suppress(FastrecError, OSError):
        return read_manifest(index.corpus) != index.manifest
    return False


def _file(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    data = files("fastrec.commands.view").joinpath(name).read_bytes()
    return Response(data, media_type=_TYPES[name])


def _make_app(pages: _Pages) -> Starlette:
    """Make the application; it must be mounted at a prefix, and guarded."""
    tables = (
        pages.find,
        pages.stop,
        pages.questions,
        pages.download,
        pages.model,
        pages.pair,
        pages.group,
    )
    of_questions = (pages.question, pages.disagreement, pages.answer, pages.record, pages.save)
    routes = [
        Route("/", pages.start),
        Route("/label/{name:path}", pages.label, methods=["POST"]),
        *(Route(f"/{page.__name__}", page) for page in tables),
        *(Route(f"/{page.__name__}/{{name:path}}", page) for page in of_questions),
        *(Route(f"/{name}", _file) for name in _TYPES),
    ]
    problems = (HTTPException, _MissingError, WorkingError, FastrecError, OSError, Exception)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(problems, pages.problem))
    app.router.redirect_slashes = False
    return app


_HOST = "127.0.0.1"
_COLUMNS = 24  # evaluations in the leaderboard
_LONGEST_LABEL = 1 << 14  # bytes
_LONGEST_REQUEST = 4 << 20  # bytes of a request's head: an address may name hundreds of models


class View:
    """A corpus that is ready to be looked at.

    It accepts connections at once, and answers them in `serve`.
    """

    # Where a browser finds it. Whoever knows the address can read the corpus on this machine.
    address: str

    def __init__(
        self,
        index: QuestionTable,
        port: int,
        primary: Sequence[str],
        prices: Prices,
        labels: str | None,
    ) -> None:
        file = None if labels is None else LabelFile(labels)
        chosen = primary_queries(index, Filters(), "judgements", primary)
        index.prefer({(query.evaluation_name, query.metric) for query in chosen})
        token = secrets.token_urlsafe(24)
        self._pages = _Pages(index, prices, file, f"/{token}")
        self._socket = _listen(port)
        port = self._socket.getsockname()[1]
        self.address = f"http://{_HOST}:{port}/{token}/"
        config = uvicorn.Config(
            _Guard(_make_app(self._pages), token, port, can_label=labels is not None),
            http=_Protocol,
            headers=list(HEADERS.items()),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=_LONGEST_REQUEST,
        )
        self._server = uvicorn.Server(config)

    def serve(self) -> None:
        """Answer requests until `stop` is called, or until a signal.

        Its handler runs when the server has stopped.
        """
        self._server.run([self._socket])

    def stop(self) -> None:
        self._server.should_exit = True

    def close(self) -> None:
        self._pages.background.stop()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listen(port: int) -> socket.socket:
    """Open a socket that only this machine can reach."""
    try:
        return socket.create_server((_HOST, port))
    except OSError as exc:
        reason = os.strerror(exc.errno or 0)
        raise UsageError(
            f"port {port} cannot be used: {reason}; give another --port, or none"
        ) from exc
