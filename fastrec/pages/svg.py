"""Small charts as plain SVG, for the pages of `report` and `view`.

Here is where their marks are; `templates/charts.html` draws them. Charts have a caption, and a
label for those who cannot see them.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple

from fastrec.pages import render_macro
from fastrec.pages.html import Html
from fastrec.wording import cut_middle

WIDTH = 1000  # units of a drawing that is stretched to any width
_MOST_SPOTS = 100  # models of a scatter plot
_FRAME_WIDTH = 520  # of a scatter plot
_FRAME_HEIGHT = 280
_CHARACTER = 6.2  # the width of a character of a label


class Scale(NamedTuple):
    """Where values are in a drawing: from `start` for `low` to `end` for `high`."""

    low: float
    high: float
    end: float = 1.0
    start: float = 0.0

    def __call__(self, value: float) -> float:
        low, high, end, start = self
        # The halves keep huge doubles from overflowing.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.5
        return start + min(max(share, 0.0), 1.0) * (end - start)


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
    lower: bool,
) -> Html:
    """Draw models with names, across on a logarithmic scale; empty for fewer than two.

    Filled circles are models that no other one beats in both. A name is left out where it would
    cover another; those of filled circles come first.
    """
    models = [model for model in models if model.x > 0][:_MOST_SPOTS]
    if len(models) < 2:
        return Html("")
    sign = 1 if lower else -1
    beaten = {
        model
        for model in models
        for other in models
        if other.x <= model.x and sign * other.y <= sign * model.y and other[1:] != model[1:]
    }
    models.sort(key=beaten.__contains__)
    xs = [model.x for model in models]
    ys = [model.y for model in models]
    across = Scale(log(min(xs)), log(max(xs)), _FRAME_WIDTH)
    down = Scale(min(ys), max(ys), 0, _FRAME_HEIGHT)
    places = [(round(across(log(model.x))), round(down(model.y))) for model in models]
    taken = [(x - 5.0, x + 5.0, y) for x, y in places]
    spots = []
    for model, (x, y) in zip(models, places, strict=True):
        name = cut_middle(model.name, 28)
        size = _CHARACTER * len(name)
        left = _label(size, x, y, taken)
        spots.append(
            {
                "x": x,
                "y": y,
                "title": f"{model.name}: {spell_y(model.y)}, {spell_x(model.x)}",
                "is_beaten": model in beaten,
                "label": "" if left is None else name,
                "label_left": left,
                "label_size": size,
            }
        )
    ends = (spell_y(min(ys)), spell_y(max(ys)), spell_x(min(xs)), spell_x(max(xs)))
    return render_macro("charts.html", "scatter", what, spots, *ends)


def _label(size: float, x: int, y: int, taken: list[tuple[float, float, int]]) -> float | None:
    """Where a name right or left of its circle begins, if it covers nothing there; else None.

    `taken` has the left end, the right end and the middle of circles and labels.
    """
    for left in (x + 9, x - 9 - size):
        right = left + size
        is_inside = 0 < left < right < _FRAME_WIDTH + 20
        covered = (
            start <= right and left <= end for start, end, middle in taken if abs(y - middle) <= 11
        )
        if is_inside and not any(covered):
            taken.append((left, right, y))
            return left
    return None


def heat_class(share: float) -> str:
    """The class of a cell of a heat map, by a share from 0 to 1."""
    return f"h{round(Scale(0, 1, 10)(share))}"
