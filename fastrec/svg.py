"""Small charts as plain SVG, for the pages of `report` and `view`.

Colours come from the classes of shapes, so that the style of a page decides them for light and dark
themes. Text is HTML beside a drawing where the drawing is stretched to the width of the screen.
Many marks of one kind are one path: a plot of hundreds of models has a few kilobytes.

Charts have a caption, and a label for those who cannot see them. `answers.pictures` puts the
numbers of a chart behind it, as a table.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fastrec.errors import counted
from fastrec.html import Child, Html, each, html, joined, soft, tag
from fastrec.wording import cut_middle

WIDTH = 1000  # units of a drawing that is stretched to any width
_ROW = 20  # pixels of a row of a dot plot; as in the styles
_BAR = 60
_MOST_DOTS = 25  # results of a dot plot
_MOST_SPOTS = 100  # models of a scatter plot
_FRAME_WIDTH = 520  # of a scatter plot
_FRAME_HEIGHT = 280
_CHARACTER = 6.2  # the width of a character of a label

Point = tuple[int, int]


class Scale(NamedTuple):
    """Where values are in a drawing: from `start` for `low` to `end` for `high`."""

    low: float
    high: float
    end: float = 1.0
    start: float = 0.0

    def __call__(self, value: float) -> float:
        low, high, end, start = self
        # The halves keep huge doubles from overflowing.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        return start + min(max(share, 0.0), 1.0) * (end - start)


def short(number: float) -> str:
    return f"{number:.5g}"


def drawing(box: str, label: str, *shapes: Child, **attributes: str | int) -> Html:
    return tag("svg", *shapes, viewBox=box, **attributes, role="img", aria_label=label)


def stretched(height: int, label: str, *paths: Html | None) -> Html:
    """Make a drawing that is stretched to any width."""
    box = f"0 0 {WIDTH} {height}"
    return drawing(box, label, *paths, height=height, preserveAspectRatio="none")


def path(class_: str, steps: Iterable[str]) -> Html:
    return html('<path class="{}" d="{}"></path>', class_, "".join(steps))


def dots(class_: str, points: Iterable[Point]) -> Html:
    """Draw points as lines without a length, whose round ends keep their shape if stretched."""
    return path(class_, (f"M{x} {y}h0" for x, y in points))


def line(class_: str, x1: float, x2: float, y: float) -> Html:
    """Draw a horizontal line."""
    ends = (class_, short(x1), short(x2), y, y)
    return html('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"></line>', *ends)


def bar(class_: str, x: float, y: float, width: float, height: float) -> Html:
    numbers = map(short, (x, y, width, height))
    return html('<rect class="{}" x="{}" y="{}" width="{}" height="{}"></rect>', class_, *numbers)


def ends(*texts: str) -> Html:
    """Label the ends of an axis, and maybe its middle."""
    return html('<p class="ends">{}</p>', each("<span>{}</span>", texts))


def figure(caption: str, *content: Child) -> Html:
    return html("<figure><figcaption>{}</figcaption>{}</figure>", caption, joined(*content))


class Dot(NamedTuple):
    """A result with its name, its text and the ends of its interval."""

    name: str
    text: str
    value: float
    low: float
    high: float


def dot_chart(caption: str, results: Sequence[Dot], scale: Scale, low: str, high: str) -> Html:
    """Draw the first results as dots with intervals, below each other, with names beside them."""
    shown = results[:_MOST_DOTS]
    intervals = []
    points = []
    for number, dot in enumerate(shown):
        left, x, right = (round(scale(value)) for value in (dot.low, dot.value, dot.high))
        y = number * _ROW + _ROW // 2
        intervals.append(f"M{left} {y}H{right}")
        points.append((x, y))
    height = len(shown) * _ROW
    label = f"{caption}: {', '.join(f'{dot.name} {dot.text}' for dot in shown)}"
    grid = path("grid", (f"M{x} 0V{height}" for x in range(0, WIDTH + 1, WIDTH // 4)))
    drawn = stretched(height, label, grid, path("span", intervals), dots("spot", points))
    named = [(dot.name, cut_middle(dot.name), dot.text) for dot in shown]
    note = f"The first {len(shown)} of {len(results):,}; the table below has all."
    return figure(
        caption,
        html(
            '<div class="dots"><ol>{}</ol>{}</div>{}{}',
            each('<li title="{}"><span>{}</span><b>{}</b></li>', named),
            drawn,
            ends(low, high),
            soft(note) if len(shown) < len(results) else None,
        ),
    )


def histogram(caption: str, counts: Sequence[int], low: str, high: str, numbers: Html) -> Html:
    """Draw how many values are in each of some bins, above their numbers."""
    most = max(1, *counts)
    label = f"{caption}: {sum(counts):,} from {low} to {high}, at most {most:,} in one bar"
    shapes = []
    for at, count in enumerate(counts):
        height = 56 * count / most
        shapes.append(bar("fill", 10 * at + 1, 60 - height, 8, height))
    width = 10 * len(counts)
    axis = line("axis", 0, width, 60.5)
    box = f"0 0 {width} 61"
    drawn = drawing(box, label, *shapes, axis, class_="bars", preserveAspectRatio="none")
    return figure(caption, drawn, ends(low, high), numbers)


class Spot(NamedTuple):
    """A model in a scatter plot: `x` is its cost, latency or length, `y` its result."""

    name: str
    x: float
    y: float


def scatter(
    what: str,
    models: Sequence[Spot],
    spell_x: Callable[[float], str],
    spell_y: Callable[[float], str],
    *,
    lower: bool = False,
) -> Html:
    """Draw models with names, across on a logarithmic scale; empty for fewer than two.

    Filled circles are models that no other one beats in both. A name is left out where it would
    cover another; those of filled circles come first.
    """
    models = [model for model in models if model.x > 0][:_MOST_SPOTS]
    if len(models) < 2:
        return Html("")
    front = _front(models, lower=lower)
    models.sort(key=lambda model: model[1:] not in front)
    xs = [model.x for model in models]
    ys = [model.y for model in models]
    across = Scale(math.log(min(xs)), math.log(max(xs)), _FRAME_WIDTH)
    down = Scale(min(ys), max(ys), 0, _FRAME_HEIGHT)
    places = [(round(across(math.log(model.x))), round(down(model.y))) for model in models]
    taken = [(x - 5.0, x + 5.0, y) for x, y in places]
    shapes: list[Html | None] = []
    for model, (x, y) in zip(models, places, strict=True):
        title = f"{model.name}: {spell_y(model.y)}, {spell_x(model.x)}"
        class_ = None if model[1:] in front else "beaten"
        shapes.append(
            tag("circle", html("<title>{}</title>", title), cx=x, cy=y, r=5, class_=class_)
        )
        shapes.append(_label(cut_middle(model.name, 28), x, y, taken))
    caption = f"Result against {what}, {counted(len(models), 'model')}"
    axes = html(
        '<path class="axis" d="M-10 -10V290H530" fill="none"></path>'
        '<text x="-64" y="4">{}</text><text x="-64" y="284">{}</text>',
        spell_y(max(ys)),
        spell_y(min(ys)),
    )
    return figure(
        caption,
        drawing("-64 -16 604 312", caption, axes, *shapes, class_="scatter"),
        ends(spell_x(min(xs)), what, spell_x(max(xs))),
    )


def _front(models: Sequence[Spot], *, lower: bool) -> set[tuple[float, float]]:
    """The points that no other one beats: going right, each is better than all before."""
    sign = 1 if lower else -1
    best = math.inf
    front = set()
    for x, y in sorted((model.x, sign * model.y) for model in models):
        if y < best:
            best = y
            front.add((x, sign * y))
    return front


def _label(name: str, x: int, y: int, taken: list[tuple[float, float, int]]) -> Html | None:
    """Write a name right or left of its circle, where it covers nothing; None if it would.

    `taken` has the left end, the right end and the middle of circles and labels.
    """
    size = _CHARACTER * len(name)
    for left in (x + 9, x - 9 - size):
        right = left + size
        is_inside = 0 < left < right < _FRAME_WIDTH + 20
        covered = (
            start <= right and left <= end for start, end, middle in taken if abs(y - middle) <= 11
        )
        if is_inside and not any(covered):
            taken.append((left, right, y))
            text = '<text x="{}" y="{}" textLength="{}">{}</text>'
            return html(text, short(left), y + 4, short(size), name)
    return None


def reliability(label: str, bins: Iterable[tuple[float, float, float]]) -> Html:
    """Draw bins of answers: the share of all, the mean confidence, and the share of right ones."""
    circles = [
        html(
            '<circle cx="{}" cy="{}" r="{}"><title>confidence {:.1%}, right {:.1%}</title>'
            "</circle>",
            round(200 * confidence, 1),
            round(200 - 200 * accuracy, 1),
            round(3 + 7 * share**0.5, 1),
            confidence,
            accuracy,
        )
        for share, confidence, accuracy in bins
    ]
    axes = Html('<path class="axis" d="M0 0V200H200M0 200L200 0" fill="none"></path>')
    return joined(
        drawing("-12 -12 224 224", label, axes, *circles, class_="reliability"),
        ends("0%", "confidence, and share of right answers", "100%"),
    )


def share_bar(share: float | None, class_: str = "share") -> Html:
    """Draw a share from 0 to 1; empty if there is none."""
    return Html("") if share is None else _share_bar(round(Scale(0, 1, _BAR)(share)), class_)


@lru_cache(maxsize=4 * _BAR)
def _share_bar(width: int, class_: str) -> Html:
    return html(
        '<svg class="bar {}" viewBox="0 0 60 8" aria-hidden="true">'
        '<rect class="fill" width="{}" height="8" rx="2"></rect></svg>',
        class_,
        width,
    )


def heat_class(share: float) -> str:
    """The class of a cell of a heat map, by a share from 0 to 1."""
    return f"h{round(Scale(0, 1, 10)(share))}"
