"""The frame of every page (head, top bar, help about keys), and small pieces of pages."""

from collections.abc import Callable, Iterable, Sequence

from fastrec.answers.reading import Answer
from fastrec.answers.table import Outcome
from fastrec.commands.view.addresses import Addresses
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, details, each, html, joined, multiline, tag
from fastrec.svg import share_bar
from fastrec.wording import NONE, SIGNS, cut_middle, latency_text, tokens_text

AGAIN = Html('<meta http-equiv="refresh" content="1">')  # the browser asks again soon
MOST = 1_000  # models or answers of a page: a browser shows no more at once
LONGEST_NAME = 81  # characters; longer ones are cut in the middle


def verdict(outcome: Outcome, score: str, share: float | None) -> Html:
    """Show right or wrong, or the score of a graded metric and where it is on its scale."""
    if share is not None:
        return html('<span class="verdict scored">{}{}</span>', share_bar(share), score)
    return html(
        '<span class="verdict {outcome}"><span aria-hidden="true">{sign}</span> {outcome}</span>',
        outcome=outcome,
        sign=SIGNS[outcome],
    )


def name_filter(elements: str) -> Html:
    """Make a box that hides the elements whose models have other names; it needs the script."""
    return html(
        '<input type="search" class="scripted-only" placeholder="filter models" '
        'aria-label="Filter models" data-filter="{}">',
        elements,
    )


def hidden_fields(pairs: Iterable[tuple[str, str]]) -> Html:
    """Make the fields of a form that keep the state of the page."""
    exact = ((name, Exact(value)) for name, value in pairs)
    return each('<input type="hidden" name="{}" value="{}">', exact)


def block(
    text: str,
    most: int | None,
    whole: str | None = None,
    *,
    class_: str = "text",
    make: Callable[[str], Html] = multiline,
) -> Html:
    """Show a text with its line breaks, cut to some characters with a link to the whole text."""
    more = None
    if most is not None and len(text) > most:
        note = f"… {len(text) - most:,} more characters"
        more = tag("a" if whole else "span", note, href=whole or None, class_="more")
        class_ += " cut"
    return tag("div", make(text[:most]), more, class_=class_, dir="auto")


def folded(
    title: str, text: str, most: int | None, address: str | None, *, class_: str = "text"
) -> Html:
    summary = html('{} <span class="soft">{}</span>', title, counted(len(text), "character"))
    return details(summary, block(text, most, address, class_=class_), class_="folded")


def figures(answer: Answer) -> dict[str, str]:
    """The tokens (input → output) and latency of an answer; empty if there are none."""
    numbers = (answer.input_tokens, answer.output_tokens)
    tokens = " → ".join(NONE if number is None else tokens_text(number) for number in numbers)
    return {
        "tokens": "" if numbers == (None, None) else tokens,
        "latency": "" if answer.latency_ms is None else latency_text(answer.latency_ms),
    }


def facts(named: Iterable[tuple[str, object]]) -> Html:
    values = ((name, str(value)) for name, value in named)
    return html('<span class="facts">{}</span>', each("<span>{} <b>{}</b></span>", values))


def answer_facts(answer: Answer) -> Html:
    return facts((name, text) for name, text in figures(answer).items() if text)


_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>{title} · {corpus} · fastrec</title>"
    '<link rel="stylesheet" href="{style}">'
    # Not deferred: the chosen theme must be known before anything is drawn.
    '<script src="{script}"></script></head>'
    '<body><a href="#content" class="skip">Skip to the content</a>'
    '<header class="top"><nav class="trail" aria-label="Where you are"><ol>{trail}</ol></nav>'
    '<div class="tools">{tools}<span class="scripted-only">'
    '<button type="button" id="theme" title="Light or dark (t)" aria-label="Light or dark">◐'
    "</button>"
    '<button type="button" id="help-button" title="Keys (?)" aria-label="Keys">?</button>'
    "</span></div></header>"
    '<main id="content">{body}</main>'
    '<dialog id="help" aria-label="Keys"><h2>Keys</h2><table><tbody>{keys}</tbody></table>'
    '<form method="dialog"><button class="button">Close</button></form></dialog></body></html>'
)
_KEYS = {
    "j n": "next question, or next row of the table",
    "k p": "previous question, or previous row of the table",
    "Enter": "open the row",
    "[ ]": "previous and next page of the table",
    "d": "next question on which the models disagree",
    "h l": "answer of the previous or next model; from a question, l opens the best one",
    "u": "up: from the answer to the question, to the table, to all evaluations",
    "/": "search",
    "e": "next error in a transcript",
    "t": "light or dark",
    "?": "this help",
}


class Frame:
    def __init__(self, addresses: Addresses, corpus: str, *, can_label: bool) -> None:
        self.addresses = addresses
        self.can_label = can_label
        self._corpus = corpus

    def page(
        self,
        title: str,
        trail: Sequence[tuple[str, str | None]],
        *body: Child,
        tools: Html | None = None,
    ) -> Html:
        """Make a page.

        `trail` has the names and addresses of the pages above it, and its own name.
        """
        return html(
            _PAGE,
            title=title,
            corpus=self._corpus,
            style=self.addresses.plain("page.css"),
            script=self.addresses.plain("page.js"),
            trail=self._trail(trail),
            tools=tools,
            body=joined(*body),
            keys=_help(),
        )

    def problem(self, title: str, *text: str) -> Html:
        section = '<section class="card problem"><h1>{}</h1>{}</section>'
        return self.page(title, [], html(section, title, each("<p>{}</p>", text)))

    def searching(self, progress: str) -> Html:
        """Say how far the search for a text is, and link to a page that stops it."""
        return html(
            '<p class="soft">{}The texts are being read. {} '
            '<a href="{}" class="button">Stop</a></p>',
            AGAIN,
            progress,
            self.addresses.plain("stop"),
        )

    def _trail(self, trail: Sequence[tuple[str, str | None]]) -> list[Html]:
        pages = [(self._corpus, self.addresses.plain()), *trail]
        items = []
        for number, (name, address) in enumerate(pages):
            shown: Child = cut_middle(name, LONGEST_NAME)
            if address:
                key = "u" if number == len(pages) - 2 else None  # the page above this one
                shown = tag("a", shown, href=address, data_key=key)
            items.append(html("<li>{}</li>", shown))
        return items


def _help() -> Html:
    rows = ((each("<kbd>{}</kbd>", keys.split()), text) for keys, text in _KEYS.items())
    return each('<tr><th scope="row">{}</th><td>{}</td></tr>', rows)


def key_link(text: Child, key: str, address: str | None, **attributes: str) -> Html:
    """Make a link that a key follows; greyed if there is no address."""
    shown = html('{} <kbd aria-hidden="true">{}</kbd>', text, key.split(maxsplit=1)[0])
    if address is None:
        return tag("span", shown, class_="button off", **attributes)
    return tag("a", shown, href=address, class_="button", data_key=key, **attributes)
