"""Small pieces of pages: verdicts, numbers, bars, and texts that are cut if they are long."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from fastrec.answers.answer import Answer
from fastrec.answers.table import Outcome
from fastrec.answers.wording import NONE, latency_text, score_text, tokens_text
from fastrec.html import Exact, Html, joined, multiline, tag

__all__ = ["FIGURES", "SIGNS", "bar", "block", "facts", "figures", "hidden_fields", "short", "verdict"]

SIGNS: Final[dict[Outcome, str]] = {"right": "✓", "wrong": "✗", "mixed": "±", "error": "!", "none": "·"}
FIGURES: Final = ("score", "tokens", "latency")
_BAR: Final = 60


def verdict(outcome: Outcome) -> Html:
    """Make a badge: a sign, the word, and a colour."""
    return tag("span", tag("span", SIGNS[outcome], aria_hidden="true"), f" {outcome}", class_=f"verdict {outcome}")


def bar(share: float | None, class_: str = "share") -> Html:
    """Draw a share from 0 to 1; empty if there is none."""
    return Html("") if share is None else _bar(round(min(max(share, 0), 1) * _BAR), class_)


@lru_cache(maxsize=4 * _BAR)
def _bar(width: int, class_: str) -> Html:
    filled = tag("rect", class_="fill", width=width, height=8, rx=2)
    return tag("svg", filled, class_=f"bar {class_}", viewBox=f"0 0 {_BAR} 8", aria_hidden="true")


def short(text: str, most: int) -> str:
    """Put the beginning of a text on one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[:most].rstrip() + "…"


def hidden_fields(pairs: Iterable[tuple[str, str]]) -> Html:
    """Make the fields of a form that keep the state of the page."""
    return joined(*(tag("input", type="hidden", name=name, value=Exact(value)) for name, value in pairs))


def block(text: str, most: int | None, whole: str | None = None, *, class_: str = "text") -> Html:
    """Show a text with its line breaks, cut to some characters with a link to the whole text."""
    if most is None or len(text) <= most:
        return tag("div", multiline(text), class_=class_, dir="auto")
    note = f"… {len(text) - most:,} more characters"
    more = tag("a", note, href=whole, class_="more") if whole else tag("span", note, class_="more")
    return tag("div", multiline(text[:most]), more, class_=f"{class_} cut", dir="auto")


def figures(answer: Answer) -> tuple[str, str, str]:
    """Format score, tokens (of the input → of the output) and latency of an answer; empty if there is none."""
    numbers = (answer.input_tokens, answer.output_tokens)
    tokens = " → ".join(NONE if number is None else tokens_text(number) for number in numbers)
    latency = "" if answer.latency_ms is None else latency_text(answer.latency_ms)
    return score_text(answer.score), "" if numbers == (None, None) else tokens, latency


def facts(answer: Answer) -> Html:
    """Say score, tokens and latency of an answer in one line."""
    named = zip(FIGURES, figures(answer), strict=True)
    said = (tag("span", f"{name} ", tag("b", value)) for name, value in named if value)
    return tag("span", *said, class_="facts")
