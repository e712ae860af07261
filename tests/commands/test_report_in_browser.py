"""The page of a corpus in a real browser: it opens, sorts, searches, prints, and can be read by everyone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import fastrec
from fastrec.commands.report import write_report
from tests.commands.test_report import MARKUP, ROOT, hostile_corpus
from tests.samples import sample

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"there is no browser: none of {', '.join(NAMES)} is installed"
)

# The worst contrast of a text on the page with what is behind it, and whose it is. A canvas reads colours of any kind.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const bytes = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known.set(colour, Array.from(canvas.getImageData(0, 0, 1, 1).data));
    }
    return known.get(colour);
  };
  const light = (colour) => {
    const linear = (v) => v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = bytes(colour).map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (bytes(colour)[3] === 255) return colour;
    }
    return "white";
  };
  let worst = [99, ""];
  for (const element of document.body.querySelectorAll("*")) {
    const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.matches("script")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 200)];
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser that is there; none is downloaded."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the corpus that ships with the project."""
    folder = tmp_path_factory.mktemp("page")
    fastrec.normalize(ROOT / "corpora" / "demo", folder / "demo")
    write_report(folder / "demo", folder / "report.html")
    return folder / "report.html"


class Opened:
    """A page, what it said to the console, and what it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture
def open_page(browser: Browser, report: Path) -> Iterator[Any]:
    """Open a page, by default that of the demo on a desk; in the end it has said nothing and asked for nothing else."""
    contexts, pages = [], []

    def opened(path: Path = report, *, width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        one = Opened(context.new_page())
        pages.append((one, path.as_uri()))
        one.page.goto(path.as_uri())
        return one.page

    yield opened
    for one, address in pages:
        assert one.said == []
        assert one.requests == [address]
    for context in contexts:
        context.close()


def column(page: Page, table: str, number: int) -> list[str]:
    """The texts of a column, rows that are not shown left out."""
    cells = page.locator(f'table[aria-label^="{table}"] tbody tr:visible > :nth-child({number})')
    return [text.strip() for text in cells.all_text_contents()]


def test_it_opens(open_page: Any) -> None:
    """With its name, a section for everything, and neither errors nor requests."""
    page = open_page()
    assert page.title() == "demo: fastrec report"
    titles = page.locator("h2").all_inner_texts()
    assert titles == page.locator("nav a").all_inner_texts()
    assert {"Line counts", "Evaluations × models", "Distributions", "Rejected lines", "Inputs"} <= set(titles)
    page.click("nav >> text=Rejected lines")
    assert page.locator("h2 >> text=Rejected lines").bounding_box()["y"] < 200


def test_columns_sort(open_page: Any) -> None:
    """By number, the largest first, then the smallest; by text the other way round; how is there for all to hear."""
    page = open_page()
    table = page.locator('table[aria-label^="trivia_choice"]')
    before = column(page, "trivia_choice", 1)
    head = table.locator("thead th").nth(3)
    head.locator("button").click()
    largest_first = [int(text) for text in column(page, "trivia_choice", 4)]
    assert largest_first == sorted(largest_first, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert [int(text) for text in column(page, "trivia_choice", 4)] == sorted(largest_first)
    assert head.get_attribute("aria-sort") == "ascending"
    table.locator("thead button").nth(0).click()
    assert column(page, "trivia_choice", 1) == sorted(before)
    assert head.get_attribute("aria-sort") is None


def test_cells_without_a_number_come_last(open_page: Any) -> None:
    """Whichever way a column is sorted."""
    page = open_page()
    head = page.locator('table[aria-label^="Accuracy"] thead th', has_text="booking_agent").locator("button")
    for _ in range(2):
        head.click()
        cells = column(page, "Accuracy", 2)
        numbers = [cell for cell in cells if cell != "–"]
        assert 0 < len(numbers) < len(cells)
        assert cells == numbers + ["–"] * (len(cells) - len(numbers))


def test_the_search_box_filters(open_page: Any) -> None:
    """Rows that hold all words stay, with what they stand in; an empty box brings everything back."""
    page = open_page()
    everything = page.locator("tbody tr:visible").count()
    page.fill("#search", "TRIVIA  model-13b")
    assert column(page, "trivia_choice", 1) == ["org-3/model-13b"]
    assert not page.locator('table[aria-label^="word_problems"]').is_visible()
    assert not page.locator("h2 >> text=Tokens").is_visible()
    assert page.locator("nav a:visible").all_inner_texts() == page.locator("h2:visible").all_inner_texts()
    shown = page.locator("tbody tr:visible").count()
    assert page.inner_text("#matches").startswith(f"{shown} of ")
    page.fill("#search", "json.utf8")
    assert page.locator("text=Examples of json.utf8").is_visible()
    page.fill("#search", "no such thing")
    assert page.locator("tbody tr:visible").count() == 0
    page.fill("#search", "")
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = false; })")
    assert page.locator("tbody tr:visible").count() == everything
    assert page.inner_text("#matches") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Any, scheme: str) -> None:
    """At least 4.5 to 1, as the guidelines for accessible content ask, in both schemes, and after switching."""
    page = open_page(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        contrast, element = page.evaluate(CONTRAST)
        assert contrast >= 4.5, element
        page.click("#theme")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_drawings_and_fields_have_names(open_page: Any) -> None:
    """Every drawing says what it shows or repeats what stands beside it; levels of headings follow each other."""
    page = open_page()
    for drawing in page.locator("svg").all():
        if drawing.get_attribute("aria-hidden") != "true":
            assert drawing.get_attribute("role") == "img"
            assert len(drawing.get_attribute("aria-label") or "") > 10
    assert page.get_by_label("Search").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1
    assert page.locator("button, a, input").evaluate_all("all => all.every((one) => one.innerText || one.labels)")


def test_a_phone_is_wide_enough(open_page: Any) -> None:
    """Nothing but tables, in frames of their own, is wider than the screen."""
    page = open_page(width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("#search").bounding_box()["width"] > 100
    assert page.locator("#theme").bounding_box()["y"] == pytest.approx(
        page.locator("#search").bounding_box()["y"], abs=8
    )


def test_it_prints(open_page: Any) -> None:
    """Without tools, with what is folded away, and light."""
    page = open_page(color_scheme="dark")
    assert page.pdf().startswith(b"%PDF")
    assert page.locator("details:not([open])").count() == 0
    page.emulate_media(media="print")
    assert not page.locator(".tools").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


def test_it_can_be_read_without_a_script(open_page: Any) -> None:
    """Everything is there but the tools."""
    page = open_page(java_script_enabled=False)
    assert page.locator("tbody tr").count() > 100
    assert not page.locator(".tools").is_visible()


def test_hostile_records_stay_text(open_page: Any, tmp_path: Path) -> None:
    """No script of theirs runs, nothing is loaded, and their names can be read, searched and sorted."""
    (tmp_path / "in").mkdir()
    write_report(hostile_corpus(tmp_path / "in"), tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", width=390)
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert page.get_by_text(MARKUP, exact=True).first.is_visible()
    page.fill("#search", "</script><script>")
    assert page.locator("tbody tr:visible").count() > 0
    for button in page.locator("thead button:visible").all():
        button.click()
    assert page.evaluate("window.hacked") is None
    page.fill("#search", "")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_many_evaluations_are_seen_side_by_side(open_page: Any, tmp_path: Path) -> None:
    """However long their names: a heat map of many columns is as wide as its numbers, and still sorts."""
    names = [f"collection_of_many_tasks/a_task_with_a_long_name_{number}" for number in range(12)]
    lines = [json.dumps(sample(evaluation_name=name, model_id=f"org/model-{m}")) for name in names for m in range(3)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "many")
    write_report(tmp_path / "many", tmp_path / "many.html")
    page = open_page(tmp_path / "many.html")
    heads = page.locator('table[aria-label^="Accuracy"] thead th')
    boxes = [heads.nth(number).bounding_box() for number in range(13)]
    assert max(box["x"] + box["width"] for box in boxes) <= 1280
    assert max(box["height"] for box in boxes) < 300
    heads.nth(12).locator("button").click()
    assert heads.nth(12).get_attribute("aria-sort") == "descending"
