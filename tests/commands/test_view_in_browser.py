"""`view` in a real browser: all pages, filters, keys, themes, a phone, no script, and hostile
records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import pytest

from fastrec.commands.view.server import View
from tests.commands import test_report_in_browser as report
from tests.commands.viewing import (
    Client,
    agent_record,
    hostile_records,
    make_corpus,
    metric_records,
    plain_records,
    serving,
)  # fmt: skip
from tests.sizes import LONG

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = report.pytestmark
PHONE = 390


CALCULATION = "2*14 = <<2*14=28>>28, x**2 and **bold words**:\n```py\na * b\n```\n|a|b|\n|-|-|\n|1|2|\n#### 28"


def many_answers() -> list[dict[str, Any]]:
    """A question that 30 models answer at length, the last one with Markdown."""
    (base, *_) = plain_records()
    changes = {
        "evaluation_name": "many",
        "evaluation_id": "many/1",
        "output": {"raw": "word " * 1_000},
    }
    models = [f"org/m{number:02}" for number in range(30)]
    answers: list[dict[str, Any]] = [{**base, **changes, "model_id": model} for model in models]
    answers[-1]["output"] = {"raw": CALCULATION}
    return answers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    records = [
        *plain_records(),
        agent_record(),
        *many_answers(),
        *hostile_records(),
        *metric_records(),
    ]
    with serving(make_corpus(tmp_path_factory.mktemp("viewed"), records, "<i>corpus")) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The installed browser; none is downloaded."""
    with report.started_browser() as running:
        yield running


class Watched:
    """Opens pages, and keeps what they log and request."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._plain: Page | None = None  # one for all tests: a new one takes as long as ten clicks
        self.said: list[str] = []
        self.requests: list[str] = []

    def open(self, path: str = "", *, width: int = 1280, **options: Any) -> Page:
        page = self._plain if width == 1280 and not options else None
        if page is None:
            context = self._browser.new_context(viewport={"width": width, "height": 800}, **options)
            context.set_default_timeout(5_000)
            page = context.new_page()
            page.on("console", lambda message: self.said.append(message.text))
            page.on("pageerror", lambda error: self.said.append(str(error)))
            page.on("request", lambda request: self.requests.append(request.url))
        if width == 1280 and not options:
            self._plain = page
        page.goto(self._address + path)
        return page


@pytest.fixture(scope="module")
def watched(browser: Browser, server: View) -> Watched:
    return Watched(browser, server.address)


@pytest.fixture
def open_page(watched: Watched, server: View) -> Iterator[Any]:
    """Open the first page.

    Check at the end that nothing was logged, and that every request was to the server.
    """
    yield watched.open
    assert [text for text in watched.said if "404 (Not Found)" not in text] == []
    assert all(url.startswith(server.address) for url in watched.requests)
    watched.said.clear()
    watched.requests.clear()


def follow(page: Page, selector: str) -> None:
    """Click something that opens another page, and wait for it."""
    with page.expect_navigation():
        page.click(selector)


def press(page: Page, key: str) -> None:
    """Press a key that opens another page, and wait for it."""
    with page.expect_navigation():
        page.keyboard.press(key)


def open_question(page: Page, sample_id: str, evaluation: str = "sums") -> None:
    follow(page, f".row-link >> text={evaluation}")
    follow(page, f".row-link:has(.id:text-is('{sample_id}'))")


def ids(page: Page) -> list[str]:
    return page.locator(".questions .id").all_inner_texts()


def test_from_the_first_page_to_an_answer(open_page: Any) -> None:
    """Evaluation, table, question, answer, record; and back up by the trail."""
    page = open_page()
    assert page.title() == "Overview · <i>corpus · fastrec"
    assert page.locator(".scopes tbody tr").count() == 10
    follow(page, ".row-link >> text=sums")
    assert page.locator("h1").inner_text() == "sums"
    assert sorted(ids(page)) == ["q0", "q1", "q2", "q3", "q4"]
    row = page.locator(".questions tr", has_text="q2")
    assert row.locator("td.num").all_inner_texts()[:2] == ["67%", "0.94"]
    with page.expect_navigation():
        row.locator("td.num").nth(4).click(force=True)  # anywhere in the row
    assert page.locator("h1").inner_text() == "q2"
    assert "2 x 7 = ?" in page.locator(".asked").inner_text()
    assert page.locator(".choices li").all_inner_texts() == ["41", "42 ✓ reference"]
    assert page.locator(".glance a.dot").count() == 3
    assert page.locator(".answer h3 a").all_inner_texts() == [
        "org/a",
        "org/c",
        "org/b",
    ]  # the best first
    follow(page, ".answer h3 >> text=org/b")
    assert page.locator("h1").inner_text() == "org/b"
    assert "org/b says" in page.locator(".turn.assistant").inner_text()
    follow(page, "text=The record as JSON")
    assert page.inner_text("body").startswith('{\n  "schema_version"')
    page.go_back()
    follow(page, ".trail >> text=q2")
    follow(page, ".trail >> text=sums")
    assert len(ids(page)) == 5


def test_filters(open_page: Any) -> None:
    """The form filters, its state is in the address, and a reload keeps both."""
    page = open_page()
    follow(page, ".row-link >> text=sums")
    page.select_option("select[name=right]", "org/a")
    page.select_option("select[name=wrong]", "org/b")
    follow(page, "text=Apply")
    assert sorted(ids(page)) == ["q2"]
    assert page.inner_text("#matches") == "1 question"
    assert urlsplit(page.url).query == "evaluation=sums&right=org%2Fa&wrong=org%2Fb"
    page.reload()
    assert sorted(ids(page)) == ["q2"]
    assert page.input_value("select[name=wrong]") == "org/b"
    follow(page, "text=Reset")
    page.select_option("select[name=which]", "disagreement")
    page.click("text=Models that count")
    page.check(".checks >> text=org/a")
    page.check(".checks >> text=org/c")
    follow(page, "text=Apply")
    assert sorted(ids(page)) == ["q4"]
    assert "Models that count: 2 of 3" in page.inner_text(".filters")
    follow(page, "text=Reset")
    page.fill("input[name=least]", "0.5")
    page.fill("input[name=most]", "0.9")
    press(page, "Enter")
    assert len(ids(page)) == 3
    page.fill("input[name=text]", "no such text")
    press(page, "Enter")
    assert page.inner_text("#matches") == "0 questions"
    follow(page, "text=Show all questions")
    assert len(ids(page)) == 5


def test_sort(open_page: Any) -> None:
    page = open_page()
    follow(page, ".row-link >> text=sums")
    head = page.locator("thead th", has_text="Right")
    assert ids(page)[0] == "q1"
    assert head.get_attribute("aria-sort") == "ascending"
    follow(page, "thead th >> text=Right")
    assert ids(page)[0] == "q0"
    assert head.get_attribute("aria-sort") == "descending"


def test_differences(open_page: Any) -> None:
    """Two chosen answers are shown side by side, then with their differences.

    The address keeps it.
    """
    page = open_page()
    open_question(page, "q2")
    page.check("[aria-label='Choose org/a']")
    page.check("[aria-label='Choose org/b']")
    follow(page, "text=Side by side")
    assert page.locator(".answer").count() == 2
    follow(page, "button >> text=Differences")
    assert page.locator("mark.left").all_inner_texts() == ["a", "14"]
    assert page.locator("mark.right").all_inner_texts() == ["b", "15"]
    boxes = [card.bounding_box() for card in page.locator(".answer").all()]
    assert boxes[0]["y"] == boxes[1]["y"]
    page.reload()
    assert page.locator("mark").count() == 4
    press(page, "k")  # the choice stays for other questions
    assert "show=org%2Fa&show=org%2Fb" in page.url
    follow(page, "text=All answers")
    assert page.locator("mark").count() == 0


def test_keys_in_the_table(open_page: Any) -> None:
    page = open_page()
    follow(page, ".row-link >> text=sums")
    order = ids(page)
    for key in "jnkj":
        page.keyboard.press(key)
    focused = page.evaluate("document.activeElement.querySelector('.id').innerText")
    assert focused == order[1]
    page.keyboard.press("/")
    page.keyboard.type("jk 3 x")  # letters are text now
    assert page.input_value("input[name=text]") == "jk 3 x"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    assert "next question on which the models disagree" in page.inner_text("#help")
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    page.keyboard.press("k")
    press(page, "Enter")
    assert "/question/" in page.url


def test_keys_between_questions(open_page: Any) -> None:
    """Next, previous and next disagreement follow the order and the filters of the table.

    U leads up.
    """
    page = open_page("questions?evaluation=sums&sort=hardest")
    order = ids(page)
    follow(page, ".row-link >> nth=0")
    assert page.locator(".button.off").all_inner_texts() == ["← Previous k"]
    seen = [page.inner_text("h1")]
    for key in ("j", "n", "k", "p"):
        press(page, key)
        seen.append(page.inner_text("h1"))
    assert seen == [order[0], order[1], order[2], order[1], order[0]]
    press(page, "d")
    assert page.inner_text("h1") in {"q2", "q3", "q4"}
    page.reload()
    assert page.inner_text("h1") in {"q2", "q3", "q4"}
    press(page, "u")
    assert ids(page) == order


def test_keys_between_models(open_page: Any) -> None:
    page = open_page("questions?evaluation=sums")
    follow(page, ".row-link >> nth=0")
    follow(page, ".glance a.dot >> nth=0")
    for key, model in (("l", "org/b"), ("l", "org/c"), ("h", "org/b")):
        press(page, key)
        assert page.inner_text("h1") == model
    press(page, "j")
    assert page.inner_text("h1") == "org/b"


def test_transcript(open_page: Any) -> None:
    """Reasoning and long results are folded; search unfolds what it finds.

    E goes from error to error.
    """
    page = open_page()
    open_question(page, "task-1", "agents")
    follow(page, "text=Transcript: 8 turns, 3 tool calls")
    thought = page.get_by_text("secret thought")
    assert not thought.is_visible()
    page.click("summary >> text=Reasoning")
    assert thought.is_visible()
    assert "6 x 7" in page.locator(".call .arguments").first.inner_text()
    assert "Error: no network" in page.locator(".call.failed").first.inner_text()
    folded = page.locator("details:has-text('needle')").last
    assert folded.get_attribute("open") is None
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    assert page.inner_text("#hits") == "1 of 201"
    assert folded.get_attribute("open") is not None
    assert page.evaluate("CSS.highlights.get('hits').size") == 201
    page.keyboard.press("Shift+Enter")
    assert page.inner_text("#hits") == "201 of 201"
    page.keyboard.press("Escape")
    for error in ("#error-1", "#error-2", "#error-1"):
        page.keyboard.press("e")
        assert urlsplit(page.url).fragment == error[1:]
        assert 0 < page.locator(error).bounding_box()["y"] < 800


def test_many_answers(open_page: Any) -> None:
    """A list with two lines for each answer, which unfolds.

    A long answer is cut, with a link to the whole.
    """
    page = open_page()
    open_question(page, "q0", "many")
    rows = page.locator(".answer-list .answer")
    assert rows.count() == 30
    boxes = [rows.nth(3).locator(part).bounding_box() for part in ("summary", ".who", ".excerpt")]
    assert boxes[0]["height"] < 50
    assert boxes[1]["y"] < boxes[2]["y"]
    assert boxes[2]["width"] > 0.85 * boxes[0]["width"]  # no columns beside it
    rows.nth(3).locator("summary").click()
    with page.expect_navigation():
        rows.nth(3).locator("text=more characters").click()
    assert page.inner_text("h1") == "org/m03"
    assert len(page.inner_text(".turn")) > 4_900


def test_an_answer_is_shown_to_the_character(open_page: Any) -> None:
    """Only marks of Markdown are hidden, and a box shows them, on the next page too."""
    page = open_page()
    open_question(page, "q0", "many")
    follow(page, ".glance a.dot[title^='org/m29']")
    text = page.locator(".turn.assistant .text")
    assert text.text_content() == CALCULATION
    lines = [line.strip() for line in text.inner_text().split("\n") if line.strip()]
    assert lines == [
        "2*14 = <<2*14=28>>28, x**2 and bold words:",
        "py",
        "a * b",
        "a\tb",
        "1\t2",
        "#### 28",
    ]
    assert text.locator("b").all_inner_texts() == ["bold words"]
    page.check("#marks")
    assert "**bold words**:" in text.inner_text()
    page.reload()
    assert "|-" in text.inner_text()
    page.uncheck("#marks")


def test_the_first_page(open_page: Any) -> None:
    """Evaluations come first; a table has ten rows until all are wanted or names are filtered."""
    page = open_page()
    heads = page.locator("h1").all_inner_texts()
    assert heads == ["Evaluations and metrics", "Leaderboard"]
    rows = page.locator(".ten:has(a:text-is('org/m00')) tbody tr")
    visible = rows.locator("visible=true")
    assert rows.count() == 30
    assert visible.count() == 10
    # All names are on one line.
    assert all(row.bounding_box()["height"] < 40 for row in visible.all())
    page.check(".ten:has(a:text-is('org/m00')) .all input")
    assert visible.count() == rows.count()
    page.uncheck(".ten:has(a:text-is('org/m00')) .all input")
    page.fill("[data-filter]", "org/m2")
    assert visible.count() == 10
    assert page.locator("a[href$='/model?model=org%2Fm29']").is_visible()


def test_search(open_page: Any) -> None:
    """A phrase is found from the first page, counted by model, and marked in tables and answers."""
    page = open_page()
    page.fill(".find input", "B SAYS that")
    press(page, "Enter")
    assert page.locator(".found tbody tr").all_inner_texts() == ["text\tsums\tin 5 records"]
    follow(page, ".found .row-link")
    assert page.locator(".phrase tbody tr").first.inner_text() == "org/b\t5 of 6\t83.3%"
    row = page.locator(".questions tbody tr").first
    assert "in 1 answer" in row.inner_text()
    assert row.bounding_box()["height"] < 50
    marked = "[...CSS.highlights.get('hits')].map((range) => range.toString())"
    follow(page, ".questions .row-link >> nth=0")
    assert page.evaluate(marked) == ["b says that"]
    follow(page, ".glance a.dot[title^='org/b']")
    assert page.evaluate(marked) == ["b says that"]
    assert page.input_value("#within") == "B SAYS that"
    assert page.inner_text("#hits") == "1 of 1"


def test_models_are_filtered_by_name(open_page: Any) -> None:
    """On a question with its answers, folded ones too, and in the leaderboard.

    `l` opens the first answer.
    """
    page = open_page()
    page.fill("[data-filter]", "org/m0")
    assert page.locator(".board tbody tr:visible").count() == 10
    open_question(page, "q3")
    assert not page.get_by_text("out of memory").is_visible()
    page.fill("[data-filter]", "ORG/C")
    assert page.locator(".answer:visible h3 a").all_inner_texts() == ["org/c"]
    assert page.get_by_text("out of memory").is_visible()
    assert page.locator(".glance .squares a:visible").count() == 1
    page.keyboard.press("Escape")
    press(page, "l")
    assert page.inner_text("h1") == "org/b"


def test_a_label(browser: Browser, tmp_path: Path) -> None:
    """The button works with what a browser really sends, and without a script."""
    file = tmp_path / "labels.jsonl"
    with serving(make_corpus(tmp_path, plain_records()), labels=file) as opened:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(opened.address)
        open_question(page, "q1")
        follow(page, ".answer h3 >> text=org/b")
        page.fill("[name=reason]", "same <number>")
        follow(page, "text=Judged wrongly: it is right")
        assert "label: right, same <number>" in page.inner_text(".said")
        follow(page, "text=The verdict was right: it is wrong")
        assert "label: wrong" in page.inner_text(".said")
        context.close()
    assert [json.loads(line)["is_correct"] for line in file.read_text().splitlines()] == [
        True,
        False,
    ]


def test_metrics(open_page: Any) -> None:
    """Answers are right or wrong only where they are judged so; else they have a score."""
    page = open_page()
    follow(page, ".row-link >> text=graded")
    assert page.locator("select[name=right]").is_visible()
    follow(page, ".tabs >> text=f1")
    assert not page.locator("select[name=right]").is_visible()
    assert page.locator("tbody td.num").first.inner_text() == "0.5"
    follow(page, ".row-link")
    assert page.locator(".glance a.dot").all_inner_texts() == ["0.75", "0.25"]
    assert page.locator(".answer .verdict").all_inner_texts() == ["0.75", "0.25"]
    widths = [bar.bounding_box()["width"] for bar in page.locator(".verdict .fill").all()]
    assert widths[0] == pytest.approx(3 * widths[1])
    follow(page, ".tabs >> text=accuracy")
    assert "1 of 2 models right" in page.inner_text(".asked")
    assert page.locator(".answer .verdict").all_inner_texts() == ["✓ right", "✗ wrong"]


# Both themes are tried whichever comes first.
@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long_only), "dark"])
def test_themes(open_page: Any, scheme: str) -> None:
    """Text can be read in both themes; the choice stays for other pages and after a reload."""
    page = open_page(color_scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    own = page.evaluate(background)
    addresses = [
        page.url,
        *page.locator(".row-link").evaluate_all("all => all.slice(0, 2).map((one) => one.href)"),
    ]
    follow(page, ".row-link >> text=sums")
    follow(page, ".row-link:has(.id:text-is('q3'))")
    page.check("[aria-label='Choose org/a']")
    page.click("summary >> text=1 answer with an error")
    page.check("[aria-label='Choose org/c']")
    follow(page, "button >> text=Differences")
    addresses.append(page.url)
    addresses.append(page.locator(".glance a.dot").nth(0).evaluate("one => one.href"))
    for address in addresses:
        page.goto(address)
        page.evaluate(
            "document.querySelectorAll('details').forEach((folded) => { folded.open = true; })"
        )
        backgrounds = []
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            backgrounds.append(page.evaluate(background))
            contrast, element = page.evaluate(report.CONTRAST)
            assert contrast >= 4.5, element
        assert backgrounds[scheme == "dark"] == own != backgrounds[scheme != "dark"]
        page.emulate_media(color_scheme=scheme)
    page.click("#theme")
    switched = page.evaluate(background)
    assert switched != own
    page.reload()
    assert page.evaluate(background) == switched
    page.keyboard.press("t")
    assert page.evaluate(background) == own


def hostile_tables(server: View) -> list[str]:
    """The addresses of the tables of hostile evaluations."""
    first = Client(server.address).page("/")
    tables = dict.fromkeys(re.findall(r'href="([^"]*/questions[^"]*)" class="row-link"', first))
    return [unescape(one) for one in tables if not re.search("=(sums|agents|many|graded)", one)]


def hostile_addresses(server: View) -> list[str]:
    """For each of these evaluations a question, and an answer to it."""
    client = Client(server.address)
    addresses = []
    for table in hostile_tables(server):
        question = unescape(re.findall(r'href="([^"]*/question/[^"]*)"', client.page(table))[0])
        answers = re.findall(r'href="([^"]*/answer/[^"]*)" class="model', client.page(question))
        addresses += [question, unescape(answers[-1])]  # the transcript has most kinds of text
    return addresses


def test_hostile_records(open_page: Any, server: View) -> None:
    """No script from a record runs, nothing is loaded, and every text can be read, on a phone too.

    `make test` opens a page of each evaluation, and each kind of page; `make test-long` all of
    them.
    """
    page = open_page(width=PHONE)
    addresses = [*hostile_tables(server), *hostile_addresses(server)]
    assert len(addresses) == 5 * 3
    if not LONG:
        addresses = [
            addresses[0],
            addresses[1],
            addresses[5 + 2 * 2],
            addresses[5 + 2 * 3],
            addresses[5 + 2 * 4 + 1],
        ]
    for address in addresses:
        page.goto(urljoin(server.address, address))
        page.evaluate(
            "document.querySelectorAll('details').forEach((folded) => { folded.open = true; })"
        )
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == 1
        assert (
            page.locator(
                "img, iframe, style, [onmouseover], [onfocus], a[href^=javascript]"
            ).count()
            == 0
        )
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE, address


def test_hostile_names_in_forms(open_page: Any, server: View) -> None:
    """A model can be chosen by its name, whatever characters it has."""
    page = open_page()
    tables = [table for table in hostile_tables(server) if "%22" in table or "%5C" in table]
    assert len(tables) == 2
    for table in tables:
        page.goto(urljoin(server.address, table))
        page.click("summary")
        page.locator(".checks input").last.check()
        follow(page, "text=Apply")
        assert page.locator(".checks input").last.is_checked()
        assert "Models that count: 1 of 3" in page.inner_text(".filters")
        assert (
            page.locator(".questions tbody td").first.inner_text() == "0%"
        )  # only the third model is wrong
        assert page.evaluate("window.hacked") is None


def test_phone(open_page: Any) -> None:
    """Nothing is wider than the screen, and everything is there."""
    page = open_page(width=PHONE)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == PHONE
    assert page.locator("thead th", has_text="mean rank").first.is_visible()
    page.goto(f"{page.url}questions?evaluation=sums&text=says")
    assert page.evaluate(wide) == PHONE
    heads = page.locator("thead th:visible").all_inner_texts()
    assert heads[:4] == ["Model", "Answers with the text", "Share", "Question"]
    assert page.locator(".phrase th").nth(3).bounding_box()["width"] > 100
    follow(page, ".trail a")
    for selector in (".row-link >> text=sums", ".row-link >> nth=0", ".glance a.dot >> nth=0"):
        follow(page, selector)
        assert page.evaluate(wide) == PHONE
    page.goto(page.url.split("/answer/")[0] + "/")
    open_question(page, "task-1", "agents")
    follow(page, "text=Transcript:")
    assert page.evaluate(wide) == PHONE
    assert page.locator("#within").is_visible()


def test_questions_have_room_beside_their_metadata(browser: Browser, tmp_path: Path) -> None:
    """With four columns of metadata, whatever the width of the window."""
    keys = ("subject", "subset", "level", "source")
    records = [
        record | {"metadata": {key: f"{key}_of_{record['sample_id']}" for key in keys}}
        for record in plain_records()
    ]
    with serving(make_corpus(tmp_path, records)) as opened:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        for width in (710, 800, 990, 1010, 1190, 1210, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(f"{opened.address}questions?evaluation=sums")
            question = page.locator(".questions tbody th").first
            assert question.bounding_box()["width"] > 120, width
            assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator(".questions thead .meta:visible").count() == len(keys)
        context.close()


def test_without_script(open_page: Any) -> None:
    """Everything but keys, themes and search within a page works."""
    page = open_page(java_script_enabled=False)
    assert not page.locator("#theme").is_visible()
    follow(page, ".row-link >> text=sums")
    page.select_option("select[name=which]", "all-wrong")
    follow(page, "text=Apply")
    assert ids(page) == ["q1"]
    follow(page, ".row-link >> nth=0")
    page.check("[aria-label='Choose org/a']")
    page.check("[aria-label='Choose org/b']")
    follow(page, "button >> text=Differences")
    assert page.locator("mark").count() == 2
    page.goto(page.url.split("/question/")[0] + "/")
    open_question(page, "task-1", "agents")
    follow(page, "text=Transcript:")
    assert not page.locator("#within").is_visible()
    page.click("summary >> text=Reasoning")
    assert page.get_by_text("secret thought").is_visible()
    page.click("text=Go to the first")
    page.click("text=next error ↓")
    assert urlsplit(page.url).fragment == "error-2"


def test_wrong_address(open_page: Any, server: View, browser: Browser) -> None:
    """Without the token there is only a hint."""
    context = browser.new_context()
    page = context.new_page()
    page.goto("/".join(server.address.split("/")[:3]) + "/")
    assert "Open the address that `fastrec view` has printed" in page.inner_text("body")
    context.close()
    page = open_page("question/00?evaluation=sums")
    assert "This evaluation has no such question." in page.inner_text("main")
    assert Path(urlsplit(page.url).path).name == "00"
