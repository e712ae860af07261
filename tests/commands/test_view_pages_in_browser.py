"""Pages about models and groups, and a saved question, in a real browser: links, forms, a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastrec.commands.view.server import View
from tests.commands import test_report_in_browser as report
from tests.commands.test_view_in_browser import Watched, follow
from tests.commands.test_view_pages import LONG, of_models
from tests.commands.viewing import (
    HOSTILE,
    agent_record,
    hostile_records,
    make_corpus,
    metric_records,
    plain_records,
    serving,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = report.pytestmark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    records = [*plain_records(), agent_record(), *hostile_records(), *metric_records()]
    for record in records[:6]:
        record["metadata"] = {"subject": "law"}
    with serving(make_corpus(tmp_path_factory.mktemp("viewed"), records)) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with report.started_browser() as running:
        yield running


@pytest.fixture(scope="module")
def watched(browser: Browser, server: View) -> Watched:
    return Watched(browser, server.address)


@pytest.fixture
def open_page(watched: Watched, server: View) -> Iterator[Any]:
    """Open a page; check that it logged nothing, and requested nothing from elsewhere."""
    yield lambda path, **options: watched.open(path.removeprefix("/"), **options)
    assert watched.said == []
    assert all(url.startswith(server.address) for url in watched.requests)
    watched.requests.clear()


def test_from_a_model_to_a_pair_to_a_question(open_page: Any) -> None:
    """By links and by the form; a question opens with the answers of both models."""
    page = open_page(of_models("model", "org/a"))
    assert page.locator("h1").inner_text() == "org/a"
    assert page.locator("svg").count() >= 1
    page.check("input[name=model][value='org/b']")
    follow(page, "button >> text=Compare")
    assert page.locator("h1").inner_text() == "Two models"
    table = page.locator('table[aria-label="Results on common questions"]')
    assert table.locator("tbody tr").count() == 3
    follow(page, 'table[aria-label^="Questions on which A"] tbody a')
    assert page.locator(".cards h3 a").all_inner_texts()[:2] == ["org/b", "org/a"]


def test_groups(open_page: Any) -> None:
    """A field is chosen in the form; a group has a page of its own, with pictures."""
    page = open_page("/group")
    page.fill("input[name=by]", "metadata.subject")
    follow(page, "button >> text=Group")
    assert page.locator("h1").inner_text() == "Groups by metadata.subject"
    follow(page, "nav.tabs >> text=law")
    assert page.locator("h1").inner_text() == 'metadata.subject=="law"'
    assert page.locator(".dots li").count() == 3


def test_contrast(open_page: Any) -> None:
    """At least 4.5 to 1, as WCAG requires, in both themes."""
    for path in (of_models("model", "org/a"), "/group"):
        page = report.unfold(open_page(path))
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            contrast, element = page.evaluate(report.CONTRAST)
            assert contrast >= 4.5, element


def test_phone(open_page: Any) -> None:
    """Only tables, which scroll in their frames, are wider than the screen."""
    for model in (LONG, HOSTILE[0]):
        page = open_page(of_models("model", model), width=400)
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert page.evaluate("window.hacked") is None


def test_saved_file(open_page: Any, browser: Browser, tmp_path: Path) -> None:
    """Opened without a server: answers unfold, and nothing is loaded or run."""
    page = open_page("/questions?evaluation=agents")
    address = page.locator(".row-link").first.get_attribute("href").replace("/question/", "/save/")
    with page.expect_download() as download:
        page.evaluate("address => { location.href = address; }", address)
    file = tmp_path / "question.html"
    download.value.save_as(file)
    opened = report.Opened(browser.new_page(viewport={"width": 400, "height": 800}))
    opened.page.goto(file.as_uri())
    assert opened.page.locator("h1").inner_text() == "agents, sample task-1"
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 400
    assert opened.page.get_by_text("It is 42, says the needle").is_visible()
    opened.page.click("text=Call of search >> nth=0")
    assert opened.page.get_by_text("Error: no network").is_visible()
    contrast, element = opened.page.evaluate(report.CONTRAST)
    assert contrast >= 4.5, element
    assert opened.said == []
    assert opened.requests == [file.as_uri()]
