"""`view` as a server: what it refuses, its headers, its addresses, and what its pages say."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from html import escape, unescape
from html.parser import HTMLParser
from itertools import chain, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.phrases import find_phrase
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import SORTS, Query
from fastrec.commands.view import question_page as question_page_module
from fastrec.commands.view import table_page
from fastrec.commands.view.addresses import (
    LARGEST_PAGE,
    AnswerName,
    PageState,
    Site,
    name_of,
    name_text,
    state_of,
    state_pairs,
)
from fastrec.commands.view.differences import differences
from fastrec.commands.view.server import HEADERS
from fastrec.errors import UsageError
from fastrec.pages.html import exact, multiline
from fastrec.progress import Progress
from tests.commands.viewing import (
    HOSTILE,
    Client,
    agent_record,
    hostile_records,
    make_corpus,
    metric_records,
    plain_records,
    serving,
)  # fmt: skip
from tests.sizes import examples

NAMES = st.one_of(st.text(min_size=1), st.sampled_from(HOSTILE), st.text("\\x0123u\n", min_size=1))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain questions, a transcript and hostile records; read-only."""
    records = [*plain_records(), agent_record(), *hostile_records()]
    return make_corpus(tmp_path_factory.mktemp("viewed"), records)


@pytest.fixture(scope="module")
def client(corpus: Path) -> Iterator[Client]:
    with serving(corpus) as opened:
        yield Client(opened.address)


def links_in(page: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"#]+)', page)]


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


# What is refused


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("{}/", "GET", {}, 200),
        ("{}/", "HEAD", {}, 200),
        ("{}/", "GET", {"Host": "localhost:{port}"}, 200),
        ("{}/", "GET", {"Host": "LOCALHOST:{port}"}, 200),
        ("{}/", "GET", {"Host": "evil.example:{port}"}, 403),
        ("{}/", "GET", {"Host": "evil.example"}, 403),
        ("{}/", "GET", {"Host": "127.0.0.1"}, 403),
        ("{}/", "GET", {"Host": "127.0.0.1:1"}, 403),
        ("{}/", "GET", {"Host": "127.0.0.1:{port}.evil.example"}, 403),
        ("{}/", "GET", {"Host": ""}, 403),
        ("{}/", "GET", {"X-Forwarded-Host": "evil.example"}, 200),
        ("{}/", "POST", {}, 405),
        ("{}/", "PUT", {}, 405),
        ("{}/", "DELETE", {}, 405),
        ("{}/", "OPTIONS", {}, 405),
        ("{}/", "TRACE", {}, 405),
        ("{}", "GET", {}, 404),
        ("{}/no-such-page", "GET", {}, 404),
        ("{}/../../etc/passwd", "GET", {}, 404),
        ("{}/page.html", "GET", {}, 404),
        ("{}/__init__.py", "GET", {}, 404),
        ("/", "GET", {}, 403),
        ("/favicon.ico", "GET", {}, 403),
        ("/page.css", "GET", {}, 403),
        ("//{}/", "GET", {}, 403),
        ("/{wrong}/", "GET", {}, 403),
        ("/{short}/", "GET", {}, 403),
        ("/%c3%a9/", "GET", {}, 403),
    ],
)
def test_what_is_refused(
    client: Client, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    """Only GET and HEAD, to this host, with the token.

    Every response has all headers, and none names the server.
    """
    values = {"port": client.port, "wrong": secrets.token_urlsafe(24), "short": client.prefix[1:-1]}
    given_headers = {
        name.replace("_", "-"): value.format(**values) for name, value in headers.items()
    }
    found, named, body = client.send(path.format(client.prefix, **values), method, **given_headers)
    assert found == status, body
    assert HEADERS.items() <= named.items()
    assert "server" not in named
    assert named["content-type"] == "text/html; charset=utf-8"
    assert (body == "") == (method == "HEAD")
    if status == 403:
        assert "Open the address that `fastrec view` has printed" in body
        assert client.prefix[1:] not in body
    if status == 405:
        assert named["allow"] == "GET, HEAD"


def test_a_request_without_host_is_refused(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(f"GET {client.prefix}/ HTTP/1.0\r\n\r\n".encode())
        assert connection.recv(1_000).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


def test_it_listens_on_loopback_only(corpus: Path) -> None:
    """The token is new at every start, and cannot be guessed."""
    with fastrec.view(corpus) as first, fastrec.view(corpus) as second:
        assert first._socket.getsockname()[0] == "127.0.0.1"
        assert first.address.startswith("http://127.0.0.1:")
        tokens = {one.address.split("/")[3] for one in (first, second)}
    assert len(tokens) == 2
    assert all(len(token) >= 32 for token in tokens)


@pytest.mark.parametrize("port", [-1, 65536, True, "80"])
def test_wrong_port(corpus: Path, port: Any) -> None:
    with pytest.raises(UsageError, match="port must be an integer from 0 to 65535"):
        fastrec.view(corpus, port=port)


def test_a_port_that_is_used(corpus: Path) -> None:
    with (
        fastrec.view(corpus) as first,
        pytest.raises(UsageError, match="give another --port, or none"),
    ):
        fastrec.view(corpus, port=int(first.address.split("/")[2].split(":")[1]))


def test_files(client: Client) -> None:
    """The style and the script are small, have their types, and name no other host."""
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
        status, headers, body = client.send(f"{client.prefix}/{name}")
        assert (status, headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", body)
        assert body.count("\n") < 250


# Addresses

QUERIES = st.builds(
    Query,
    evaluation_name=NAMES,
    metric=st.none() | st.text(),
    models=st.lists(NAMES, max_size=2, unique=True).map(tuple),
    which=st.sampled_from(["all", "all-wrong", "all-right", "disagreement", "errors"]),
    right=st.lists(NAMES, max_size=2, unique=True).map(tuple),
    wrong=st.lists(NAMES, max_size=1).map(tuple),
    least_score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    most_score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    text=st.text(),
    place=st.sampled_from(["both", "input", "answers"]),
    where=st.lists(st.text(min_size=1), max_size=2, unique=True).map(tuple),
    sample_ids=st.lists(NAMES, max_size=1).map(tuple),
    sort=st.sampled_from(SORTS),
)
PLACES = st.builds(
    PageState,
    query=QUERIES,
    page=st.integers(1, 10**6),
    size=st.integers(1, LARGEST_PAGE),
    show=st.lists(st.builds(AnswerName, NAMES, st.integers(1, 999)), max_size=3, unique=True).map(
        tuple
    ),
    differences=st.booleans(),
    whole=st.booleans(),
)


@settings(max_examples=examples(11, 200))
@given(PLACES)
def test_an_address_has_the_whole_state(state: PageState) -> None:
    """Parameters lead back to the state, and have only characters that forms and addresses keep."""
    pairs = state_pairs(state)
    assert state_of(pairs) == state
    assert all(value.isprintable() for key, value in pairs if key not in ("text", "where"))


@given(NAMES)
def test_names(name: str) -> None:
    assert name_of(name_text(name)) == name
    assert name_text(name).isprintable()


PARAMETERS = st.sampled_from(["evaluation", "metric", "page", "size", "least", "sort", "show"])


@given(st.lists(st.tuples(PARAMETERS, st.text())))
def test_any_parameters_are_read(pairs: list[tuple[str, str]]) -> None:
    """Wrong values are ignored, and what is understood is stable."""
    state = state_of(pairs)
    assert state_of(state_pairs(state)) == state
    assert 1 <= state.size <= LARGEST_PAGE


@pytest.mark.parametrize(
    "text", ["\\", "\\x4", "\\uD800", "\\U00110000", "\\2", "\\\\2", "a\\2", "a\\\\2", "a\\\\\\2"]
)
def test_names_with_backslashes(text: str) -> None:
    """A backslash of a name is never taken for the number of an answer."""
    for chosen in (AnswerName(text), AnswerName(text, 2)):
        state = PageState(query=Query(evaluation_name="e"), show=(chosen,))
        assert state_of(state_pairs(state)).show == (chosen,)


# Pages


def table(client: Client, **filters: Any) -> list[str]:
    """The sample ids of a table."""
    page = client.page("/questions?" + urlencode({"evaluation": "sums"} | filters, doseq=True))
    return re.findall(r'<span class="id"[^>]*>(.*?)</span>', page)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "q0 q1 q2 q3 q4"),
        ({"which": "all-right"}, "q0"),
        ({"which": "all-wrong"}, "q1"),
        ({"which": "disagreement"}, "q2 q3 q4"),
        ({"which": "errors"}, "q3"),
        ({"right": "org/a", "wrong": "org/b"}, "q2"),
        ({"model": ["org/a", "org/c"], "which": "all-right"}, "q0 q2"),
        ({"text": "3 X 7"}, "q3"),
        ({"text": "says THAT", "in": "answers", "model": "org/c", "which": "all-right"}, "q0 q2"),
        ({"text": "after all"}, "q4"),
        ({"text": "after all", "in": "input"}, ""),
        ({"where": "output.raw~after all"}, "q4"),
        ({"where": ["evaluation.score=1", "model_id=org/c"], "which": "all-right"}, "q0 q2"),
        ({"least": "0.4", "most": "0.9"}, "q2 q3 q4"),
        ({"id": "q[12]"}, "q1 q2"),
        ({"text": "no such text"}, ""),
        ({"which": "nonsense", "sort": "nonsense", "page": "x", "least": "many"}, "q0 q1 q2 q3 q4"),
    ],
)
def test_filters(client: Client, filters: dict[str, Any], expected: str) -> None:
    assert sorted(table(client, **filters)) == expected.split()


def test_conditions_stay_in_links_and_in_the_form(client: Client) -> None:
    """The pages of a question have only the answers that match, and lead to others that do."""
    page = client.page("/questions?evaluation=sums&where=evaluation.score%3D0&text=says")
    assert page.count('name="where"') == 2
    assert 'value="evaluation.score=0"' in page
    assert "in 3 answers" in page
    address = next(one for one in links_in(page) if "/question/" in one)
    shown = client.page(address)
    assert "where=evaluation.score%3D0" in address
    assert not re.search("says that the answer to question . is (0|7|14|21|28)<", shown)
    assert [client.send(one)[0] for one in links_in(shown) if "/answer/" in one][:1] == [200]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("nonsense", "&#x27;nonsense&#x27; is not a condition"),
        ("metadata.subjekt=law", "no record has the field metadata.subjekt"),
        ("evaluation.score>7", "no record matches"),
        ("<b>?", "is not a condition"),
    ],
)
def test_a_wrong_condition_is_shown_in_the_page(client: Client, condition: str, said: str) -> None:
    """With the form, so that it can be corrected."""
    page = client.page(
        "/questions?" + urlencode({"evaluation": "sums", "where": condition}), status=400
    )
    assert said in page
    assert f'value="{escape(condition)}"' in page
    assert "<b>?" not in page
    sample_hash = links_in(client.page("/questions?evaluation=sums"))
    path = next(one for one in sample_hash if "/question/" in one)
    assert "This cannot be used" in client.page(
        f"{path}&" + urlencode({"where": condition}), status=400
    )


def test_pages_stay_small_with_many_models(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of models there is no list of them: their ids are typed, and only some
    answers are shown.
    """
    for module in (question_page_module, table_page):
        monkeypatch.setattr(module, "MOST", 2)
    page = client.page("/questions?evaluation=sums&right=org/a&model=org/a&model=org/b")
    assert "org/c" not in page
    assert page.count('name="model"') == 3
    assert re.findall('<input[^>]*name="right"[^>]*value="([^"]*)"', page) == ["org/a"]
    assert sorted(table(client, model=["org/a", "org/c"], which="all-right", right="org/c")) == [
        "q0",
        "q2",
    ]
    shown = client.page(
        next(
            one
            for one in links_in(client.page("/questions?evaluation=sums"))
            if "/question/" in one
        )
    )
    assert "and 1 more" in shown
    assert "These are the first 2 answers" in shown
    assert "org/c says" not in shown


def test_sort_and_paging(client: Client) -> None:
    assert table(client, sort="hardest")[0] == "q1"
    assert table(client, sort="easiest")[0] == "q0"
    whole = table(client)
    assert [table(client, size=2, page=page) for page in (1, 2, 3, 4)] == [
        whole[:2],
        whole[2:4],
        whole[4:],
        [],
    ]
    page = client.page("/questions?evaluation=sums&size=2&page=2")
    assert "3–4 of 5 questions" in page
    assert "There are fewer pages" in client.page("/questions?evaluation=sums&page=2")


def test_no_more_disagreement(client: Client) -> None:
    """The link leads back to the question, with a note."""
    last = table(client, which="disagreement")[-1]
    address = client.send(f"{client.prefix}/find?text={last}")[1]["location"]
    status, headers, _ = client.send(address.replace("/question/", "/disagreement/"))
    assert (status, headers["location"]) == (303, f"{address}#no-more")


def test_empty_fields_of_the_form_are_left_out(client: Client) -> None:
    """The address after Apply has only what was chosen."""
    path = f"{client.prefix}/questions?evaluation=sums&text=&which=all&right=&wrong=org%2Fa&least=&most="
    status, headers, _ = client.send(path)
    assert (status, headers["location"]) == (
        303,
        f"{client.prefix}/questions?evaluation=sums&wrong=org%2Fa",
    )


def test_every_link_works(client: Client) -> None:
    """All pages that can be reached from the first one are there, whatever the names in the records
    are.
    """
    seen: set[str] = set()
    waiting = [f"{client.prefix}/"]
    kinds: dict[str, int] = {}
    while waiting:
        address = waiting.pop()
        kind = address.partition("?")[0].split("/")[2]
        if address in seen or kinds.get(kind, 0) > 20:
            continue
        kinds[kind] = kinds.get(kind, 0) + 1
        seen.add(address)
        status, headers, body = client.send(address)
        assert status in (200, 303), (address, body)
        if status == 200 and headers["content-type"].startswith("text/html"):
            assert all(link.startswith(client.prefix) for link in links_in(body))
            waiting += links_in(body)
    assert {kind for kind, pages in kinds.items() if pages > 20} >= {
        "question",
        "answer",
        "record",
        "questions",
    }


def test_hostile_text_is_text(client: Client) -> None:
    """No element and no attribute on any page comes from a record."""
    allowed = {"on", "style", "src", "srcdoc", "formaction"}
    bodies: dict[str, str] = {}

    def links_on(addresses: list[str]) -> list[str]:
        """Read each of these pages once, and return the links on them."""
        for address in addresses:
            if address not in bodies and not address.endswith((".css", ".js")):
                status, _, bodies[address] = client.send(address)
                assert status == 200, address
        links = (links_in(bodies.get(address, "")) for address in addresses)
        return list(dict.fromkeys(chain.from_iterable(links)))

    starts = links_on([f"{client.prefix}/"])
    links_on(starts)
    questions = [
        link
        for link in links_on([link for link in starts if "/questions?" in link])
        if "/question/" in link
    ]
    answers = [link for link in links_on(questions) if "/answer/" in link]
    links_on(answers)
    for body in bodies.values():
        for name, attributes in Elements(body).found:
            assert name not in ("img", "iframe", "object", "embed", "base", "style")
            assert not any(key.startswith("on") or key in allowed - {"src"} for key in attributes)
            assert ("src" in attributes) == (name == "script")
            assert not (attributes.get("href") or "").startswith("javascript:")
        assert "\u202e" not in body
        assert "\x1b" not in body
        assert "\0" not in body
        assert "\u2028" not in body
    assert len(answers) > 10


def test_question_that_is_not_there(client: Client) -> None:
    for path in (
        "/question/00?evaluation=sums",
        "/questions?evaluation=none",
        "/questions",
        "/answer/00",
    ):
        assert "<h1>Nothing here</h1>" in client.page(path, 404)


def test_find(client: Client) -> None:
    """A question is found by its id or its hash; one that is found alone is opened."""
    status, headers, _ = client.send(f"{client.prefix}/find?text=q2")
    assert status == 303
    sample_hash = re.search("/question/([0-9a-f]+)", headers["location"])[1]  # type: ignore[index]
    assert (
        client.send(f"{client.prefix}/find?text={sample_hash[:12]}")[1]["location"]
        == headers["location"]
    )
    assert "<h1>0 found</h1>" in client.page("/find?text=no-such-question")
    assert client.page("/find?text=") == client.page("/")


def found_in(client: Client, text: str) -> list[tuple[str, str, str]]:
    rows = re.findall("<tr>(.*?)</tr>", client.page(f"/find?text={quote(text)}"))
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]
    plain = [tuple(re.sub("<[^>]*>", "", cell) for cell in row) for row in cells]
    return [row for row in plain if len(row) == 3][1:]  # type: ignore[misc]


def test_find_searches_everything(client: Client) -> None:
    """Models, evaluations, questions, and texts of questions and answers."""
    assert found_in(client, "ORG/A")[0] == ("model", "org/a", "")
    assert found_in(client, "leaderboard") == []
    sums = ("evaluation", "sums", "5 questions")
    assert [row for row in found_in(client, "sums") if row[0] == "evaluation"] == [sums]
    phrase = "Org/B says that the answer to question 4"
    assert found_in(client, phrase) == [("text", "sums", "in 1 record")]
    page = client.page(f"/find?text={quote(phrase)}")
    (link,) = (link for link in links_in(page) if "/questions" in link)
    assert "in 1 answer" in client.page(link)


def test_phrases_by_model(client: Client) -> None:
    """How many answers of each model have a text, the largest share first."""
    page = client.page("/questions?evaluation=sums&text=org/b+says")
    table = re.findall('<table class="list phrase">(.*?)</table>', page)[0]
    assert re.findall(">(org/.)<", table) == ["org/b", "org/a", "org/c"]
    assert re.findall("[0-9]+ of [0-9]+", table) == ["5 of 6", "0 of 5", "0 of 5"]
    assert "83.3%" in table
    assert "list phrase" not in client.page("/questions?evaluation=sums&text=org/b&in=input")


def test_a_long_search_says_how_far_it_is_and_can_be_stopped(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other pages do not wait for it. A stopped search begins again if it is asked for."""
    monkeypatch.setattr("fastrec.commands.view.work._PATIENCE", 0.05)
    go_on = threading.Event()
    seen: list[str] = []

    def slow(*arguments: Any, progress: Progress, **options: Any) -> Any:
        progress.start("search", 8_000_000)
        progress.advance(2_000_000, 1, 0)
        go_on.wait(5)
        try:
            progress.advance(6_000_000, 1, 0)
        except BaseException as exc:
            seen.append(type(exc).__name__)
            raise
        return find_phrase(*arguments, progress=progress, **options)

    monkeypatch.setattr("fastrec.answers.phrases.find_phrase", slow)
    address = f"{client.prefix}/questions?evaluation=sums&text=slowly"
    for path in (address, f"{client.prefix}/find?text=slowly+found"):
        body = client.send(path)[2]
        assert '<meta http-equiv="refresh" content="1">' in body
        assert "2 of 8 MB are read." in body
    assert 'http-equiv="refresh"' not in client.page("/questions?evaluation=sums")
    stop = next(link for link in links_in(body) if "/stop" in link)
    assert "Leaderboard" in client.page(stop)
    go_on.set()
    deadline = time.monotonic() + 10
    while 'http-equiv="refresh"' in client.page(address) or len(seen) < 2:
        assert time.monotonic() < deadline
    assert seen == ["CancelledError", "CancelledError"]
    assert "0 questions" in client.page(address)


def hash_of(corpus: Path, sample_id: str) -> str:
    (line, *_) = fastrec.cat(corpus, sample_id=sample_id)
    return str(json.loads(line)["sample_hash"])


def test_question(client: Client, corpus: Path) -> None:
    """It has the input, the reference, the choices, and each answer with its verdict and figures."""
    page = client.page(f"/question/{hash_of(corpus, 'q2')}?evaluation=sums")
    assert page.count('<article class="card answer') == 3
    assert [*re.findall(r'class="verdict (\w+)', page)] == ["right", "right", "wrong"]
    assert re.findall(r'<a href="[^"]*" class="model" title="([^"]*)">', page) == [
        "org/a",
        "org/c",
        "org/b",
    ]
    assert "2 of 3 models right (67%)" in page
    assert "tokens <b>10 → 5</b>" in page
    assert "latency <b>12.5 ms</b>" in page
    assert '<span class="note"> ✓ reference</span>' in page
    assert "Prompt as formatted" in page


def test_several_answers_of_a_model(client: Client, corpus: Path) -> None:
    """Each has its own card, page and record."""
    here = hash_of(corpus, "q4")
    page = client.page(f"/question/{here}?evaluation=sums")
    assert page.count('<article class="card answer') == 4
    assert re.findall(r'title="(org/b: .*?)" aria-label=".*?">(.*?)<', page) in (
        [("org/b: right, wrong", "✓✗")],
        [("org/b: wrong, right", "✗✓")],
    )
    texts = [
        client.page(f"/answer/{here}?evaluation=sums&show={quote(show)}")
        for show in ("org/b", "org/b\\2")
    ]
    assert ["It is 28 after all" in text for text in texts].count(True) == 1
    assert ["answer 1 of 2" in texts[0], "answer 2 of 2" in texts[1]] == [True, True]
    assert re.findall(r'class="repeat">(.*?)<', page) == ["answer 1 of 2", "answer 2 of 2"]
    assert re.findall(r'aria-label="Choose (org/b.*?)"', page) == [
        "org/b answer 1 of 2",
        "org/b answer 2 of 2",
    ]
    other = re.findall(r'Answers of this model: .*?href="([^"]*)"', texts[0])
    assert client.page(unescape(other[0])) == texts[1]
    client.page(f"/answer/{here}?evaluation=sums&show={quote('org/b')}%5C3", 404)


def test_differences(client: Client, corpus: Path) -> None:
    """Two chosen answers have marks where they differ; without two, the page says what to do."""
    here = f"/question/{hash_of(corpus, 'q2')}?evaluation=sums&differences=1&show=org/a"
    page = client.page(f"{here}&show=org/b")
    assert '<mark class="left">' in page
    assert '<mark class="right">' in page
    assert page.count("<article") == 2
    assert "Choose two answers" in client.page(here)


def test_transcript(client: Client, corpus: Path) -> None:
    """Roles, folded reasoning, calls with arguments and results, and links from error to error."""
    page = client.page(f"/answer/{hash_of(corpus, 'task-1')}?evaluation=agents&show=org/a")
    assert re.findall(r'<b class="role">(\w+)', page) == [
        "system",
        "user",
        "assistant",
        "assistant",
        "assistant",
    ]
    assert re.search(r"<details[^>]*><summary>Reasoning.*?secret thought", page)
    assert page.count("needle " * 200) == 1
    assert [*re.findall(r'id="(error-[12])"', page)] == ["error-1", "error-2"]
    assert "2 tool calls end with an error" in page
    record = client.page(f"/record/{hash_of(corpus, 'task-1')}?evaluation=agents&show=org/a")
    assert record.startswith('{\n  "schema_version"')


def test_sources(tmp_path: Path) -> None:
    """If the corpus has tracked it, an answer says which line of which shard it comes from."""
    make_corpus(tmp_path, plain_records())
    fastrec.normalize(tmp_path / "corpus.jsonl", tmp_path / "tracked", track_sources=True)
    with serving(tmp_path / "tracked") as opened:
        page = Client(opened.address).page(
            f"/answer/{hash_of(tmp_path / 'tracked', 'q1')}?evaluation=sums&show=org/b"
        )
    assert re.search(r"source <code>[^<]*corpus\.jsonl, line 5</code>", page)


def test_metrics(tmp_path: Path) -> None:
    """A page links to the same in other metrics; of a graded one it shows scores."""
    with serving(make_corpus(tmp_path, metric_records())) as opened:
        client = Client(opened.address)
        start = client.page("/")
        assert start.count("/questions?evaluation=graded") == 4  # the list, and two cells below it
        page = client.page("/questions?evaluation=graded&metric=f1")
        assert "Scores are graded" in page
        assert "0.5" in page
        other = next(link for link in links_in(page) if "metric=accuracy" in link)
        assert "Scores are graded" not in client.page(other)
        client.page("/questions?evaluation=graded", 404)


def test_many_answers_and_long_texts(tmp_path: Path) -> None:
    """Many answers are a list; long texts are cut, with a link to the whole.

    The page stays small.
    """
    (base, *_) = plain_records()
    records = [
        {**base, "model_id": f"org/m{number}", "output": {"raw": "long " * 4_000}}
        for number in range(40)
    ]
    records = [{**one, "input": {"raw": "word " * 10_000, "reference": "42"}} for one in records]
    corpus = make_corpus(tmp_path, records)
    with serving(corpus) as opened:
        client = Client(opened.address)
        here = hash_of(corpus, "q0")
        page = client.page(f"/question/{here}?evaluation=sums")
        assert page.count('<details><summary class="grid">') == 40
        assert len(page) < 120_000
        assert "… 44,000 more characters" in page
        assert len(client.page(f"/question/{here}?evaluation=sums&whole=1")) > 50_000
        answer = client.page(f"/answer/{here}?evaluation=sums&show=org/m3")
        assert "long " * 4_000 in answer


def test_damaged_corpus(corpus: Path, tmp_path: Path) -> None:
    """If a part is damaged or gone after the start, pages say so, without a traceback."""
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    with serving(copy) as opened:
        client = Client(opened.address)
        path = f"/question/{hash_of(corpus, 'q1')}?evaluation=sums"
        client.page(path)
        for part in copy.glob("part-*.jsonl*"):
            part.write_bytes(b"\0" * part.stat().st_size)
        page = client.page(path, 500)
        assert "<h1>The corpus cannot be read</h1>" in page
        assert "part-00000.jsonl.zst" in page
        for part in copy.glob("part-*.jsonl*"):
            part.unlink()
        page = client.page(path, 500)
        assert "<h1>The corpus cannot be read</h1>" in page
        assert "Traceback" not in page
        assert "part-00000" in client.page(
            "/questions?evaluation=sums", 500
        )  # it shows the beginnings of questions


def test_a_bug_is_a_page(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unexpected error is a readable page, and nothing is printed."""

    def fail(*_: Any) -> None:
        raise RuntimeError("<b>unexpected</b>")

    monkeypatch.setattr(QuestionTable, "page", fail)
    page = client.page("/questions?evaluation=sums", 500)
    assert "RuntimeError: &lt;b&gt;unexpected&lt;/b&gt;" in page
    assert HEADERS.items() <= client.send(f"{client.prefix}/questions?evaluation=sums")[1].items()
    assert capfd.readouterr() == ("", "")


def test_corpus_in_a_store(corpus: Path) -> None:
    """A URL works like a directory."""
    fsspec.filesystem("memory").put(str(corpus), "/viewed/corpus", recursive=True)
    with serving("memory://viewed/corpus") as opened:
        client = Client(opened.address)
        assert "<title>Overview · corpus · fastrec</title>" in client.page("/")
        assert "org/a says" in client.page(f"/question/{hash_of(corpus, 'q1')}?evaluation=sums")


def test_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n")
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "empty", allow_empty=True)
    with serving(tmp_path / "empty") as opened:
        assert "This corpus has no records." in Client(opened.address).page("/")


# Text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", 'a<span class="hidden-char">\\r</span>b'),
        ("\0\x1b", '<span class="hidden-char">\\x00\\x1b</span>'),
        ("<b>\u202e", '&lt;b&gt;<span class="hidden-char">\\u202e</span>'),
        ("\u2028", '<span class="hidden-char">\\u2028</span>'),
        (
            "👨\u200d👩\u200d👧 \u0646\u200c\u0647 e\u0301 \xa0",
            "👨\u200d👩\u200d👧 \u0646\u200c\u0647 e\u0301 \xa0",
        ),
    ],
)
def test_text_with_line_breaks(text: str, expected: str) -> None:
    """Invisible characters are shown; joiners, which languages need, stay."""
    assert multiline(text) == expected


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    shown = multiline(text)
    assert Elements(shown).found == [("span", {"class": "hidden-char"})] * shown.count("<span")
    ((_, attributes),) = Elements(f'<input value="{exact(text)}">').found
    assert (
        attributes["value"] == text.replace("\r\n", "\n").replace("\r", "\n")
        or "\0" in text
        or "\r" in text
    )


FEW_WORDS = st.lists(st.sampled_from("abc ."), max_size=30).map("".join)


@given(FEW_WORDS, FEW_WORDS)
def test_pieces_make_both_texts(left: str, right: str) -> None:
    """The pieces of a comparison give both texts again; equal and different pieces take turns."""
    pieces = differences(left, right)
    assert "".join(one for one, _ in pieces) == left
    assert "".join(other for _, other in pieces) == right
    equal = [one == other for one, other in pieces]
    assert all(one != other for one, other in pairwise(equal))
    assert left != right or all(equal)


def test_long_texts_are_compared_in_bounded_time() -> None:
    left, right = "a b c " * 100_000, "b a d " * 100_000
    assert differences(left, right)
    assert Site("/t", "corpus", can_label=False).plain() == "/t/"


# The command


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_command(corpus: Path, tmp_path: Path, signum: int, code: int) -> None:
    """It prints the address, opens a browser, and ends cleanly."""
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\nprintf %s "$1" > "$0.opened"\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "fastrec", "view", corpus]
    environment = os.environ | {"BROWSER": f"{browser} %s", "DISPLAY": ":0"}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        assert process.stdout
        assert process.stderr
        address = process.stdout.readline().strip()
        assert "Leaderboard" in Client(address).page("/")
        opened = tmp_path / "browser.opened"
        until = time.monotonic() + 10
        while not (opened.exists() and opened.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        assert opened.read_text() == address
        process.send_signal(signum)
        assert process.wait(10) == code
        assert process.stdout.read() == ""
        said = process.stderr.read()
    assert said == ("note: ended\n" if code == 0 else "error: terminated\n")


def test_corpus_that_was_replaced(corpus: Path, tmp_path: Path) -> None:
    """A page never shows answers of another corpus: it says that the corpus has changed."""
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    with serving(copy) as opened:
        client = Client(opened.address)
        path = f"/question/{hash_of(corpus, 'q1')}?evaluation=sums"
        client.page(path)
        records = [{**record, "output": {"raw": "another answer"}} for record in plain_records()]
        make_corpus(tmp_path, records, "other")
        shutil.rmtree(copy)
        shutil.copytree(tmp_path / "other", copy)
        page = client.page(path, 500)
        assert "another answer" not in page
        assert "<h1>The corpus has changed since this server was started</h1>" in page
        shutil.rmtree(copy)
        assert "<h1>The corpus cannot be read</h1>" in client.page(path, 500)


def test_a_request_without_a_host_is_answered_with_all_headers(client: Client) -> None:
    """HTTP itself demands a Host, so the library refuses such a request before our guard sees it."""
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = connection.makefile("rb").read().lower()
    assert answer.startswith(b"http/1.1 400")
    for name, value in HEADERS.items():
        assert f"{name}: {value}\r\n".lower().encode() in answer
