"""The frame of every page (head, top bar, help about keys), and small pieces of pages: verdicts, numbers, texts.

Markdown in answers is made of our own elements: raw HTML, links and images stay text, so a page
loads nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fastrec.answers.reading import Answer
from fastrec.answers.table import Outcome
from fastrec.commands.view.addresses import Addresses
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, joined, multiline, tag
from fastrec.wording import NONE, SIGNS, cut_middle, latency_text, tokens_text

FIGURES: Final = ("score", "tokens", "latency")
MOST: Final = 1_000  # models or answers of a page: a browser shows no more at once
LONGEST_NAME: Final = 81  # characters; longer ones are cut in the middle
_BAR: Final = 60
_LONGEST: Final = 20_000  # characters; a longer text is shown as it is
_NAMES: Final = (
    "p",
    "ul",
    "ol",
    "li",
    "blockquote",
    "em",
    "strong",
    "s",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
)
_ELEMENTS: Final = {name: name for name in _NAMES} | dict.fromkeys(
    ("h1", "h2", "h3", "h4", "h5", "h6"), "h4"
)
_BREAKS: Final = {"softbreak": Html("<br>"), "hardbreak": Html("<br>"), "hr": Html("<hr>")}
_PLAIN: Final = {"paragraph_open", "paragraph_close", "text", "softbreak"}
_OFF: Final = (
    "html_block",
    "html_inline",
    "link",
    "image",
    "autolink",
    "reference",
    "code",
    "entity",
)
_parse = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(_OFF).parse


def verdict(outcome: Outcome) -> Html:
    return tag(
        "span",
        tag("span", SIGNS[outcome], aria_hidden="true"),
        f" {outcome}",
        class_=f"verdict {outcome}",
    )


def bar(share: float | None, class_: str = "share") -> Html:
    """Draw a share from 0 to 1; empty if there is none."""
    return Html("") if share is None else _bar(round(min(max(share, 0), 1) * _BAR), class_)


@lru_cache(maxsize=4 * _BAR)
def _bar(width: int, class_: str) -> Html:
    filled = tag("rect", class_="fill", width=width, height=8, rx=2)
    return tag("svg", filled, class_=f"bar {class_}", viewBox=f"0 0 {_BAR} 8", aria_hidden="true")


def name_filter(elements: str) -> Html:
    """Make a box that hides the elements whose models have other names; it needs the script."""
    box = {"placeholder": "filter models", "aria_label": "Filter models", "data_filter": elements}
    return tag("input", type="search", class_="scripted-only", **box)


def hidden_fields(pairs: Iterable[tuple[str, str]]) -> Html:
    """Make the fields of a form that keep the state of the page."""
    return joined(
        *(tag("input", type="hidden", name=name, value=Exact(value)) for name, value in pairs)
    )


def block(text: str, most: int | None, whole: str | None = None, *, class_: str = "text") -> Html:
    """Show a text with its line breaks, cut to some characters with a link to the whole text."""
    if most is None or len(text) <= most:
        return tag("div", multiline(text), class_=class_, dir="auto")
    note = f"… {len(text) - most:,} more characters"
    more = tag("a", note, href=whole, class_="more") if whole else tag("span", note, class_="more")
    return tag("div", multiline(text[:most]), more, class_=f"{class_} cut", dir="auto")


def folded(
    title: str, text: str, most: int | None, address: str | None, *, class_: str = "text"
) -> Html:
    size = tag("span", counted(len(text), "character"), class_="soft")
    return tag(
        "details",
        tag("summary", f"{title} ", size),
        block(text, most, address, class_=class_),
        class_="folded",
    )


def answer_text(text: str, most: int | None, whole: str | None, *, plain: bool) -> Html:
    """Show what a model said: rendered, unless the text is long, has no Markdown, or is wanted as it is."""
    rendered = None if plain or len(text) > min(_LONGEST, most or _LONGEST) else render(text)
    return rendered or block(text, most, whole)


def render(text: str) -> Html | None:
    """Make HTML from Markdown.

    None if there is nothing but paragraphs, or if words were lost (in large tables).
    """
    tokens = [
        one
        for token in _parse(text)
        for one in (token.children or () if token.type == "inline" else [token])
    ]
    kept = " ".join(f"{token.info} {token.content}" for token in tokens)
    words, kept_words = (Counter(re.findall(r"[^\W_]+|\0", one)) for one in (text, kept))
    if all(token.type in _PLAIN for token in tokens) or words != kept_words:
        return None
    return tag("div", *map(_markup, tokens), class_="text rendered", dir="auto")


def _markup(token: Token) -> Html:
    if token.type in _BREAKS or token.hidden:
        return _BREAKS.get(token.type, Html(""))
    if token.nesting:
        name = _ELEMENTS[token.tag]
        start = token.attrs.get("start")  # of a list; no other attribute is taken over
        return Html(
            f"</{name}>" if token.nesting < 0 else tag(name, start=start).removesuffix(f"</{name}>")
        )
    content = multiline(token.content)
    content = tag("code", content) if token.tag == "code" else content
    return tag("pre", content, title=token.info or None) if token.type == "fence" else content


def figures(answer: Answer, score: str) -> tuple[str, str, str]:
    """List the score, as it is spelled, tokens (input → output) and latency of an answer.

    Empty if there is none.
    """
    numbers = (answer.input_tokens, answer.output_tokens)
    tokens = " → ".join(NONE if number is None else tokens_text(number) for number in numbers)
    latency = "" if answer.latency_ms is None else latency_text(answer.latency_ms)
    return score, "" if numbers == (None, None) else tokens, latency


def facts(answer: Answer, score: str) -> Html:
    named = zip(FIGURES, figures(answer, score), strict=True)
    said = (tag("span", f"{name} ", tag("b", value)) for name, value in named if value)
    return tag("span", *said, class_="facts")


_KEYS: Final = (
    (("j", "n"), "next question, or next row of the table"),
    (("k", "p"), "previous question, or previous row of the table"),
    (("Enter",), "open the row"),
    (("[", "]"), "previous and next page of the table"),
    (("d",), "next question on which the models disagree"),
    (("h", "l"), "answer of the previous or next model; from a question, l opens the best one"),
    (("u",), "up: from the answer to the question, to the table, to all evaluations"),
    (("/",), "search"),
    (("e",), "next error in a transcript"),
    (("t",), "light or dark"),
    (("?",), "this help"),
)


class Frame:
    def __init__(self, addresses: Addresses, corpus: str, *, can_label: bool) -> None:
        self.addresses = addresses
        self.can_label = can_label
        self._corpus = corpus

    def page(
        self,
        title: str,
        trail: Sequence[tuple[str, str | None]],
        *body: Html,
        tools: Html | None = None,
    ) -> Html:
        """Make a page.

        `trail` has the names and addresses of the pages above it, and its own name.
        """
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{title} · {self._corpus} · fastrec"),
            tag("link", rel="stylesheet", href=self.addresses.plain("page.css")),
            # Not deferred: the chosen theme must be known before anything is drawn.
            tag("script", src=self.addresses.plain("page.js")),
        )
        theme = tag(
            "button",
            "◐",
            type="button",
            id="theme",
            title="Light or dark (t)",
            aria_label="Light or dark",
        )
        keys = tag(
            "button", "?", type="button", id="help-button", title="Keys (?)", aria_label="Keys"
        )
        buttons = tag("span", theme, keys, class_="scripted-only")
        bar = tag(
            "header", self._trail(trail), tag("div", tools, buttons, class_="tools"), class_="top"
        )
        skip = tag("a", "Skip to the content", href="#content", class_="skip")
        content = tag("main", *body, id="content")
        whole = tag("html", head, tag("body", skip, bar, content, _help()), lang="en")
        return joined(Html("<!doctype html>"), whole)

    def problem(self, title: str, *text: str) -> Html:
        body = tag(
            "section", tag("h1", title), *(tag("p", line) for line in text), class_="card problem"
        )
        return self.page(title, [], body)

    def _trail(self, trail: Sequence[tuple[str, str | None]]) -> Html:
        names = [
            (cut_middle(name, LONGEST_NAME), to)
            for name, to in [(self._corpus, self.addresses.plain()), *trail]
        ]
        up = max(
            (number for number, (_, address) in enumerate(names[:-1]) if address), default=None
        )
        items = [
            tag(
                "li",
                tag("a", name, href=address, data_key="u" if number == up else None)
                if address
                else name,
            )
            for number, (name, address) in enumerate(names)
        ]
        return tag("nav", tag("ol", *items), class_="trail", aria_label="Where you are")


def key_link(text: Child, key: str, address: str | None, **attributes: str) -> Html:
    """Make a link that a key follows; greyed if there is no address."""
    keys = tag("kbd", key.split(maxsplit=1)[0], aria_hidden="true")
    if address is None:
        return tag("span", text, " ", keys, class_="button off", **attributes)
    return tag("a", text, " ", keys, href=address, class_="button", data_key=key, **attributes)


def _help() -> Html:
    rows = [
        tag(
            "tr",
            tag("th", joined(*(tag("kbd", key) for key in keys)), scope="row"),
            tag("td", text),
        )
        for keys, text in _KEYS
    ]
    close = tag("form", tag("button", "Close", class_="button"), method="dialog")
    return tag(
        "dialog",
        tag("h2", "Keys"),
        tag("table", tag("tbody", *rows)),
        close,
        id="help",
        aria_label="Keys",
    )
