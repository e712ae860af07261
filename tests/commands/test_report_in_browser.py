"""The report in a real browser: opening, sorting, searching, printing, accessibility."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fastrec
from tests.commands.test_report import MARKUP, ROOT, corpus_of, hostile_corpus, marked
from tests.lazily import Library
from tests.samples import sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The shell takes a third of the time of a whole browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

NO_BROWSER = (
    "there is no browser: install Chromium (Debian: apt-get install chromium-headless-shell)"
)

# `.ci/run` sets the variable: without a browser, these tests fail there.
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("NEED_BROWSER"), reason=NO_BROWSER
)

# The lowest contrast between a text and its background, and its element. A canvas converts colours
# of any notation.
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
    """The installed browser; none is downloaded."""
    with started_browser() as running:
        yield running


@contextmanager
def started_browser() -> Iterator[Browser]:
    assert CHROMIUM, NO_BROWSER
    with Library("playwright.sync_api").sync_playwright() as playwright:
        arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report about the demo corpus."""
    folder = tmp_path_factory.mktemp("page")
    fastrec.normalize(ROOT / "corpora" / "demo", folder / "demo")
    fastrec.report(folder / "demo", folder / "report.html")
    return folder / "report.html"


class Opened:
    """A page, its console messages and its requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture(scope="module")
def plain(browser: Browser) -> Opened:
    """A page without options for all tests: a new one takes as long as ten clicks."""
    return Opened(browser.new_context(viewport={"width": 1280, "height": 900}).new_page())


@pytest.fixture
def open_page(browser: Browser, report: Path, plain: Opened) -> Iterator[Any]:
    """Open a page, and check at the end that it logged nothing and requested nothing else."""
    contexts = []
    pages = []

    def opened(path: Path = report, *, width: int = 1280, **options: Any) -> Page:
        one = plain
        if width != 1280 or options or plain in [used for used, _ in pages]:
            context = browser.new_context(viewport={"width": width, "height": 900}, **options)
            contexts.append(context)
            one = Opened(context.new_page())
        one.said.clear()
        one.requests.clear()
        pages.append((one, path.as_uri()))
        one.page.goto(path.as_uri())
        return one.page

    yield opened
    for one, address in pages:
        assert one.said == []
        assert one.requests == [address]
    for context in contexts:
        context.close()


def unfold(page: Page) -> Page:
    page.evaluate(
        "document.querySelectorAll('details').forEach((folded) => { folded.open = true; })"
    )
    return page


def column(page: Page, table: str, number: int) -> list[str]:
    """Return the texts of a column, without hidden rows."""
    cells = page.locator(f'table[aria-label^="{table}"] tbody tr:visible > :nth-child({number})')
    return [text.strip() for text in cells.all_text_contents()]


def test_open(open_page: Any) -> None:
    """It has a title and all sections, without errors or requests."""
    page = open_page()
    assert page.title() == "demo: fastrec report"
    titles = page.locator("h2").all_inner_texts()
    assert titles == page.locator("nav a").all_inner_texts()
    assert {
        "Line counts",
        "Evaluations",
        "Rejected lines",
        "Inputs",
    } <= set(titles)
    page.click("nav >> text=Rejected lines")
    assert page.locator("h2 >> text=Rejected lines").bounding_box()["y"] < 200


def test_first_screens(open_page: Any) -> None:
    """Four screens show the most important sections; a link unfolds another one."""
    page = open_page()
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
    # The first table has 12 models, the second one 2; more than 15 would be too many.
    assert page.locator(".board tbody tr:visible").count() == 14
    assert page.locator("svg:visible").count() == 4
    assert not page.locator('table[aria-label^="trivia_choice"]').is_visible()
    page.click("nav >> text=Rejected lines")
    assert page.locator('table[aria-label^="Rejected lines"]').is_visible()


def test_sort(open_page: Any) -> None:
    """Numbers sort largest first, then smallest first; text the other way round.

    Aria-sort says which.
    """
    page = unfold(open_page())
    table = page.locator('table[aria-label^="trivia_choice"]')
    before = column(page, "trivia_choice", 1)
    head = table.locator("thead th").nth(6)
    head.locator("button").click()
    largest_first = [int(text) for text in column(page, "trivia_choice", 7)]
    assert largest_first == sorted(largest_first, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert [int(text) for text in column(page, "trivia_choice", 7)] == sorted(largest_first)
    assert head.get_attribute("aria-sort") == "ascending"
    table.locator("thead button").nth(0).click()
    assert column(page, "trivia_choice", 1) == sorted(
        before, key=lambda name: list(map(int, re.findall(r"\d+", name)))
    )
    assert head.get_attribute("aria-sort") is None


def test_empty_cells_sort_last(open_page: Any) -> None:
    """In both directions."""
    page = unfold(open_page())
    table = page.locator('table[aria-label^="trivia_choice"]')
    head = table.locator("thead th", has_text="errors").locator("button")
    for _ in range(2):
        head.click()
        cells = column(page, "trivia_choice", 6)
        numbers = [cell for cell in cells if cell]
        assert 0 < len(numbers) < len(cells)
        assert cells == numbers + [""] * (len(cells) - len(numbers))


def test_search(open_page: Any) -> None:
    """Rows that contain all words stay visible; an empty box shows everything again."""
    page = open_page()
    everything = page.locator("tbody tr:visible").count()
    page.fill("#search", "TRIVIA  org-3/model-13b")
    assert column(page, "trivia_choice", 1) == ["org-3/model-13b"]
    assert not page.locator('table[aria-label^="word_problems"]').is_visible()
    assert not page.locator("h2 >> text=Inputs").is_visible()
    assert (
        page.locator("nav a:visible").all_inner_texts()
        == page.locator("h2:visible").all_inner_texts()
    )
    shown = page.locator("tbody tr:visible").count()
    assert page.inner_text("#matches").startswith(f"{shown} of ")
    page.fill("#search", "json.utf8")
    assert page.locator("text=Examples of json.utf8").is_visible()
    page.fill("#search", "no such thing")
    assert page.locator("tbody tr:visible").count() == 0
    page.fill("#search", "")
    page.evaluate(
        "document.querySelectorAll('details').forEach((folded) => { folded.open = false; })"
    )
    assert page.locator("tbody tr:visible").count() == everything
    assert page.inner_text("#matches") == ""


# Both themes are tried whichever comes first.
@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long_only), "dark"])
def test_contrast(open_page: Any, scheme: str) -> None:
    """At least 4.5 to 1, as WCAG requires, in both themes and after switching."""
    page = unfold(open_page(color_scheme=scheme))
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        contrast, element = page.evaluate(CONTRAST)
        assert contrast >= 4.5, element
        page.click("#theme")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_labels_and_headings(open_page: Any) -> None:
    """Every chart has a label or is hidden from screen readers; heading levels are not skipped."""
    page = open_page()
    attributes = (
        "all => all.map((one) => ['aria-hidden', 'role', 'aria-label'].map((name) => "
        "one.getAttribute(name)))"
    )
    drawings = page.locator("svg").evaluate_all(attributes)
    assert drawings
    for hidden, role, label in drawings:
        if hidden != "true":
            assert role == "img"
            assert len(label or "") > 10
    assert page.get_by_label("Search").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1
    assert page.locator("button, a, input").evaluate_all(
        "all => all.every((one) => one.textContent || one.labels)"
    )


def test_phone(open_page: Any) -> None:
    """Only tables, which scroll in their frames, are wider than the screen."""
    page = open_page(width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("#search").bounding_box()["width"] > 100
    assert page.locator("#theme").bounding_box()["y"] == pytest.approx(
        page.locator("#search").bounding_box()["y"], abs=8
    )


def test_print(open_page: Any) -> None:
    """Printed without tools, with details unfolded, in the light theme."""
    page = open_page(color_scheme="dark")
    assert page.pdf().startswith(b"%PDF")
    assert page.locator("details:not([open])").count() == 0
    page.emulate_media(media="print")
    assert not page.locator(".tools").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    # Chromium does not repeat the head of a table on the next page if it has the box of a button.
    head = page.locator("table:not(.turned) thead button").first
    assert head.evaluate("one => getComputedStyle(one).display") == "contents"


def test_without_script(open_page: Any) -> None:
    """Everything except the tools is visible."""
    page = open_page(java_script_enabled=False)
    assert page.locator("tbody tr").count() > 100
    assert not page.locator(".tools").is_visible()
    page.locator("summary", has_text=re.compile("^trivia_choice$")).click()
    page.locator("details[open] summary", has_text="Numbers").last.click()
    assert page.locator('table[aria-label^="trivia_choice"]').is_visible()


@pytest.fixture(scope="module")
def trend(report: Path) -> Path:
    """A report with the results over three corpora."""
    folder = report.parent
    for night, marks in {"n1": "+" * 12, "n2": "+" * 12, "n3": "-" * 12}.items():
        corpus_of(folder, night, marked({"falls": marks, "steady": "+-" * 6}))
    nights = [folder / name for name in ("n1", "n2", "n3")]
    fastrec.report(nights[-1], folder / "trend.html", trend=nights)
    return folder / "trend.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_plots_and_questions(open_page: Any, trend: Path, width: int) -> None:
    """Plots keep within their cards, names are beside their dots, and questions can be read and
    searched.
    """
    page = unfold(open_page(trend, width=width))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for card in (".pictures figure", ".trend"):
        outer = page.locator(card).first.bounding_box()
        inner = page.locator(f"{card} svg").first.bounding_box()
        assert inner["width"] > 100
        assert outer["x"] < inner["x"] < inner["x"] + inner["width"] < outer["x"] + outer["width"]
    names = [item.bounding_box()["y"] for item in page.locator(".dots").first.locator("li").all()]
    height = page.locator(".dots svg").first.bounding_box()["height"]
    assert names[1] - names[0] == 20 == height / len(names)
    assert page.locator(".ring").count() == 1
    text = page.locator(".question .text").first
    assert text.text_content().endswith("?\nThink.")
    assert text.evaluate("one => getComputedStyle(one).whiteSpace") == "pre-wrap"
    page.fill("#search", "reference-3")
    assert page.locator(".question:visible").count() == 1
    assert page.locator(".trend:visible").count() == 0


def test_contrast_of_plots_and_questions(open_page: Any, trend: Path) -> None:
    """At least 4.5 to 1, in both themes."""
    page = unfold(open_page(trend))
    for _ in range(2):
        contrast, element = page.evaluate(CONTRAST)
        assert contrast >= 4.5, element
        page.click("#theme")


def test_hostile_records(open_page: Any, tmp_path: Path) -> None:
    """No script from a record runs, nothing is loaded, and names can be read, searched and sorted."""
    (tmp_path / "in").mkdir()
    fastrec.report(hostile_corpus(tmp_path / "in"), tmp_path / "report.html")
    page = unfold(open_page(tmp_path / "report.html", width=390))
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


def test_many_evaluations(open_page: Any, tmp_path: Path) -> None:
    """A leaderboard with long names scrolls in its frame, and it still sorts."""
    names = [f"collection_of_many_tasks/a_task_with_a_long_name_{number}" for number in range(12)]
    lines = [
        json.dumps(sample(evaluation_name=name, model_id=f"org/model-{m}", error=None))
        for name in names
        for m in range(3)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "many")
    fastrec.report(tmp_path / "many", tmp_path / "many.html")
    page = unfold(open_page(tmp_path / "many.html"))
    heads = page.locator(".board thead th")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    heads.last.locator("button").click()
    assert heads.last.get_attribute("aria-sort") == "descending"
