"""The leaderboard: all models on the primary metrics of several evaluations, and what their means rest on.

1. Choose the primary metric of each evaluation.
2. Add up values question by question: pair sums for the tests (`ranks`), and bundles for the bootstrap. A bundle is one
   question; of more than 10,000 questions, they are dealt to 10,000 bundles in turns, so that time is bounded.
3. Draw as many bundles as there are, with replacement, within each evaluation; 1,000 times, from a fixed seed. All
   models of an evaluation get the same draws.
4. Group models by the evaluations that they have answered. Only models of one group are compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from fastrec.answers.index import Index, choose_scopes
from fastrec.answers.ranks import Array, PairSums, blocks_of, pair_sums, rank_ranges, significant, significant_mean
from fastrec.answers.table import Query, Scope
from fastrec.corpus.manifest import read_summary
from fastrec.errors import UsageError, counted, listed
from fastrec.filters import Filters, matches_any
from fastrec.html import Html, joined, table, tag
from fastrec.notebook import Tabular
from fastrec.summary.document import ModelSummary, ScopeNames, filled
from fastrec.summary.present_ranking import rank_text
from fastrec.summary.significance import exact_mean, to_double
from fastrec.wording import NONE, even_scores, metrics_of, title_of, value_text

BUNDLES: Final = 10_000
DRAWS: Final = 1_000
_CELLS: Final = 4_000_000  # of a matrix of draws
_ENDS: Final = (2.5, 97.5)
_DIGITS: Final = 12
_MOST_DECIMALS: Final = 300  # that numpy can round to
_NAMES: Final = ("rank", "model")
_STYLE: Final = Html(
    "body{font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums;margin:2rem}"
    "table{border-collapse:collapse}.wide{overflow-x:auto}"
    "th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid #8884}.num{text-align:right}.soft{opacity:.7}"
)


class Estimate(msgspec.Struct):
    """A number with its 95 % interval, from the bootstrap."""

    value: float
    low: float
    high: float


class BoardEvaluation(ScopeNames, kw_only=True):
    """A column: an evaluation with its primary metric."""

    metrics: int
    """Metrics that the evaluation has and that judge answers."""
    graded: bool
    """Whether values are mean scores; otherwise they are accuracies."""
    lower_is_better: bool
    """Whether a lower score is better."""
    questions: int
    """Its questions."""
    weight: float
    """Its weight in the mean; 0 if it does not count there."""
    title: str
    """Its name, with the metric if it has several, and ↓ if lower is better."""


class BoardCell(Estimate, kw_only=True):
    """A model on an evaluation: accuracy, or mean score if the metric is graded, over questions that it answered."""

    questions: int
    """Questions that it answered."""
    counts: bool
    """Whether these are enough of the questions: `--min-coverage`. If not, nothing is computed from it."""
    rank_best: int | None = None
    """Its best rank on the evaluation, as in `stats`."""
    rank_worst: int | None = None
    """Its worst rank."""


class BoardModel(msgspec.Struct, kw_only=True):
    """A row: a model. What is compared is compared within its group."""

    model_id: str
    group: int
    """Models of a group have answered the same evaluations; 1 is the group with the most evaluations. 0: none."""
    cells: list[BoardCell | None]
    """One for each evaluation; null without answers."""
    mean: Estimate | None
    """The weighted mean over the evaluations of its group whose values are in [0, 1] and better if higher."""
    mean_rank: Estimate | None
    """The mean over evaluations of its rank among the models of its group; equal values share their mean rank."""
    win_share: Estimate | None
    """The share of pairs of an evaluation and another model of the group in which it is ahead; a tie counts as half."""
    rank_best: int | None = None
    """Its best rank by mean in its group that paired tests allow; null in a group of one."""
    rank_worst: int | None = None
    """Its worst rank."""


class Leaderboard(Tabular, kw_only=True):
    """All models on the primary metrics of several evaluations."""

    evaluations: list[BoardEvaluation]
    """The columns, by name."""
    models: list[BoardModel]
    """The rows: group by group, best mean first."""
    min_coverage: float
    """Percent of the questions of an evaluation that a model must have answered for the evaluation to count."""
    left_out: int = 0
    """Evaluations with fewer questions that a page leaves out."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model, with a column for each number."""
        found = []
        for model in self.models:
            row: dict[str, Any] = {"group": model.group, "rank_best": model.rank_best, "rank_worst": model.rank_worst}
            row["model_id"] = model.model_id
            for name in ("mean", "mean_rank", "win_share"):
                row |= _flat(name, getattr(model, name))
            for one, cell in zip(self.evaluations, model.cells, strict=True):
                row |= _flat(one.title, cell) | {f"{one.title}.questions": cell.questions if cell else None}
            found.append(row)
        return found

    def table(self, models: Sequence[BoardModel]) -> tuple[list[str], list[list[str]]]:
        """The headings and cells of some models, as text; columns that say nothing are left out."""
        columns = {
            "rank": [rank_text(model.rank_best, model.rank_worst) for model in models],
            "model": [model.model_id for model in models],
            "mean": [_estimate(model.mean, 100, "%") for model in models],
            "mean rank": [_estimate(model.mean_rank, 1, "") for model in models],
            "wins": [_estimate(model.win_share, 100, "%") for model in models],
        }
        used = [at for at, _ in enumerate(self.evaluations) if any(model.cells[at] for model in models)]
        cells = [_cell_texts(self.evaluations[at], [model.cells[at] for model in models]) for at in used]
        names = [name for name, column in columns.items() if any(column)]
        heads = names + [self.evaluations[at].title for at in used]
        return heads, [list(row) for row in zip(*(columns[name] for name in names), *cells, strict=True)]

    def to_html(self, link: Callable[[BoardEvaluation, str], str] | None = None, *, sortable: bool = False) -> Html:
        """The tables as HTML; `link` has the address of a cell's questions. The script of `report` sorts `sortable`."""
        used = {one.title: one for one in self.evaluations}

        def cell(model: BoardModel, head: str, text: str) -> Html:
            is_linked = head in used and text != NONE
            shown = tag("a", text, href=link(used[head], model.model_id)) if link and is_linked else text
            return tag("td", tag("span", shown)) if head in _NAMES else tag("td", shown, class_="num")

        made = []
        for title, models in self.groups():
            heads, rows = self.table(models)
            head = [tag("th", name, scope="col", class_=None if name in _NAMES else "num") for name in heads]
            body = [tag("tr", *map(partial(cell, model), heads, row)) for model, row in zip(models, rows, strict=True)]
            plain = tag(
                "div",
                tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="list board"),
                class_="wide",
            )
            made.append(table(title, heads, body, class_="board") if sortable else joined(tag("h3", title), plain))
        return joined(*made, *(tag("p", line, class_="soft") for line in self.notes()))

    def to_page(self) -> Html:
        head = joined(tag("meta", charset="utf-8"), tag("title", "Leaderboard"), tag("style", _STYLE))
        return Html("<!doctype html>" + tag("html", tag("head", head), tag("body", self.to_html()), lang="en"))

    def _repr_html_(self) -> str:
        return self.to_html()

    def groups(self) -> list[tuple[str, list[BoardModel]]]:
        by_number: dict[int, list[BoardModel]] = {}
        for model in self.models:
            by_number.setdefault(model.group, []).append(model)
        return [(f"{counted(len(some), 'model')} {self._about(some[0])}", some) for some in by_number.values()]

    def _about(self, model: BoardModel) -> str:
        if number := sum(bool(cell and cell.counts) for cell in model.cells):
            return f"with {number:,} of {counted(len(self.evaluations), 'evaluation')}"
        return f"without answers to {self.min_coverage:g}% of the questions of any evaluation: not ranked"

    def notes(self) -> list[str]:
        """What the numbers are, in a few lines."""
        lines = [
            f"mean: over evaluations; [95 % interval] from {DRAWS:,} bootstrap draws of questions.",
            "rank: the ranks by mean that paired tests allow (Holm). Models are compared within their table only.",
            "mean rank and wins: over evaluations; wins is the share of the other models that a model is ahead of.",
        ]
        if any(cell and not cell.counts for model in self.models for cell in model.cells):
            least = f"{self.min_coverage:g}% of the questions"
            lines.append(f"(in brackets): answers to less than {least}; does not count.")
        if self.left_out:
            left = counted(self.left_out, "evaluation")
            lines.append(f"{left} with fewer questions left out; `fastrec leaderboard` has all.")
        if left_out := ", ".join(one.title for one in self.evaluations if not one.weight):
            lines.append(f"not in the mean (weight 0, scores beyond 0 and 1, or lower is better): {left_out}")
        return lines


def _flat(name: str, one: Estimate | BoardCell | None) -> dict[str, float | None]:
    return {
        f"{name}{suffix}": getattr(one, field) if one else None
        for suffix, field in (("", "value"), (".low", "low"), (".high", "high"))
    }


def _estimate(one: Estimate | None, scale: float, unit: str) -> str:
    return f"{scale * one.value:.1f}{unit} [{scale * one.low:.1f}–{scale * one.high:.1f}]" if one else ""


def _cell_texts(evaluation: BoardEvaluation, cells: Sequence[BoardCell | None]) -> list[str]:
    """The cells of a column, with the same number of decimals."""
    values = [cell.value if cell else None for cell in cells]
    is_large = evaluation.graded and any(value is not None and abs(value) >= 10 for value in values)
    texts = even_scores(values) if is_large else [value_text(value, graded=evaluation.graded) for value in values]
    return [f"({text})" if cell and not cell.counts else text for cell, text in zip(cells, texts, strict=True)]


class _Column(NamedTuple):
    scope: Scope
    models: list[str]
    sums: PairSums
    values: Array  # the mean of each model
    answered: Array  # questions that each model answered
    draws: Array  # draws × models
    in_unit: bool  # whether all values are in [0, 1]


def choose_primary(scopes: Sequence[Scope], primary: Sequence[str]) -> list[Scope]:
    """Choose a metric of each evaluation: as EVALUATION=METRIC says, or as records say, or the first by name."""
    by_name: dict[str, list[Scope]] = {}
    for one in scopes:
        by_name.setdefault(one.evaluation_name, []).append(one)
    chosen = {name: next((one for one in some if one.primary), some[0]) for name, some in by_name.items()}
    for choice in primary:
        evaluation, equals, metric = choice.rpartition("=")
        names = [name for name in by_name if matches_any(name, [evaluation])]
        found = {
            name: one for name in names for one in reversed(by_name[name]) if matches_any(one.metric or "", [metric])
        }
        if not equals or not evaluation or not found:
            raise UsageError(f"--primary {choice!r} is no EVALUATION=METRIC of this corpus")
        chosen |= found
    return list(chosen.values())


def make_leaderboard(
    index: Index,
    filters: Filters | None = None,
    *,
    metrics: str = "judgements",
    primary: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    weight_by: str | None = None,
    min_coverage: float = 50.0,
    name_of: Callable[[str], str] = str,
    most: int | None = None,
) -> Leaderboard:
    """Compare the models of an index on the primary metrics of its evaluations, as far as their names match filters.

    `name_of` has other names of evaluations, for titles. With `most`, only so many evaluations, those with the most
    questions.
    """
    chosen = choose_scopes(index.scopes, filters or Filters(), metrics)
    models_of = {(scope.evaluation_name, scope.metric): query.models or scope.models for scope, query in chosen}
    scopes = choose_primary([scope for scope, _ in chosen], primary)
    known = sorted(name_of(one.evaluation_name) for one in scopes)
    if unknown := sorted((weights or {}).keys() - set(known)):
        raise UsageError(f"there is no evaluation {unknown[0]!r} to weight; evaluations: {listed(known)}")
    means = _means_of(index)
    largest = sorted(scopes, key=lambda one: -one.questions)[:most]
    left_out = len(scopes) - len(largest)
    scopes = [one for one in scopes if one in largest]
    numbers = metrics_of(scope for scope, _ in chosen)
    columns, evaluations = [], []
    for scope in scopes:
        columns.append(_column(index, scope, models_of[scope.evaluation_name, scope.metric], means))
        name, several = name_of(scope.evaluation_name), numbers[scope.evaluation_name]
        weight = float(scope.questions) if weight_by == "questions" else (weights or {}).get(name, 1.0)
        weight = weight if columns[-1].in_unit and not scope.lower_is_better else 0.0
        title = title_of(name, scope.metric, several, lower=scope.lower_is_better)
        names = {"evaluation_name": name, "title": title}
        evaluations.append(filled(BoardEvaluation, scope, **names, metrics=several, weight=weight))
    cells = [_cells(one, min_coverage) for one in columns]
    sets: dict[tuple[int, ...], list[str]] = {}
    for model in sorted({model for one in columns for model in one.models}):
        has = tuple(at for at, some in enumerate(cells) if model in some and some[model].counts)
        sets.setdefault(has, []).append(model)
    rows: list[BoardModel] = []
    ordered = sorted(sets.items(), key=lambda item: (-len(item[0]), -len(item[1]), item[0]))
    for number, (has, models) in enumerate(ordered, 1):
        group = _group([columns[at] for at in has], [evaluations[at].weight for at in has], models)
        made = [
            BoardModel(
                model_id=model,
                group=number if has else 0,
                cells=[some.get(model) for some in cells],
                **{name: found[at] for name, found in group.items()},
            )
            for at, model in enumerate(models)
        ]
        rows += sorted(made, key=_place)
    return Leaderboard(evaluations=evaluations, models=rows, min_coverage=min_coverage, left_out=left_out)


def _place(row: BoardModel) -> tuple[float, float, str]:
    return -row.mean.value if row.mean else 0.0, row.mean_rank.value if row.mean_rank else 0, row.model_id


_Means = dict[tuple[str, str | None, str], ModelSummary]  # by evaluation, metric and model


def _means_of(index: Index) -> _Means:
    """The exact means of the summary, rounded once: equal means are equal numbers, and those of all commands."""
    evaluations = read_summary(index.corpus, index.manifest).evaluations
    return {(one.evaluation_name, one.metric, model.model_id): model for one in evaluations for model in one.by_model}


def _column(index: Index, scope: Scope, models: Sequence[str], means: _Means) -> _Column:
    query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric)
    rows = min(scope.questions, BUNDLES)
    sums, counts = np.zeros((rows, len(models))), np.zeros((rows, len(models)))
    low, high, at = np.inf, -np.inf, 0

    def blocks() -> Any:
        nonlocal low, high, at
        for block in blocks_of(index, query, models, graded=scope.graded):
            answered = ~np.isnan(block)
            low, high = min(low, np.nanmin(block, initial=np.inf)), max(high, np.nanmax(block, initial=-np.inf))
            places = (at + np.arange(len(block))) % rows
            np.add.at(sums, places, np.where(answered, block, 0.0))
            np.add.at(counts, places, answered)
            at += len(block)
            yield block

    pairs = pair_sums(blocks(), len(models))
    with np.errstate(all="ignore"):
        values = sums.sum(axis=0) / counts.sum(axis=0)
    for at, model in enumerate(models):
        summed = means[scope.evaluation_name, scope.metric, model]
        mean = summed.mean_score if scope.graded else summed.accuracy
        if mean is not None:  # it may be beyond the range of doubles
            values[at] = mean
    draws = _draw(sums, counts, crc32(f"{scope.evaluation_name}\0{scope.metric or ''}".encode()))
    return _Column(scope, list(models), pairs, values, counts.sum(axis=0), draws, in_unit=bool(low >= 0 and high <= 1))


def _draw(sums: Array, counts: Array, seed: int) -> Array:
    """The means of models in each draw; NaN where a draw has no answer of a model."""
    random = np.random.default_rng([0, seed])
    bundles = len(sums)
    same = bool((counts == counts[:, :1]).all())  # all models have answered the same questions
    number = counts[:, :1] if same else counts
    found = []
    for start in range(0, DRAWS, step := max(_CELLS // max(bundles, 1), 1)):
        size = min(step, DRAWS - start)
        drawn = random.integers(0, bundles, (size, bundles)) + bundles * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * bundles).reshape(size, bundles).astype(np.float64)
        with np.errstate(all="ignore"):
            found.append((times @ sums) / (times @ number))
    return _rounded(np.concatenate(found))


def _rounded(draws: Array) -> Array:
    """Round means to 12 digits of the largest, so that sums of the same shares in another order are equal."""
    largest = float(np.nanmax(np.abs(draws), initial=0.0))
    if not 0 < largest < math.inf:
        return draws
    return np.round(draws, min(_DIGITS - math.ceil(math.log10(largest)), _MOST_DECIMALS))


def _cells(column: _Column, min_coverage: float) -> dict[str, BoardCell]:
    """The cells of an evaluation, with ranks among the models that have answered enough questions."""
    cells = {}
    for at, model in enumerate(column.models):
        if answered := int(column.answered[at]):
            low, high = np.nanpercentile(column.draws[:, at], _ENDS)
            counts = 100 * answered >= min_coverage * column.scope.questions
            cells[model] = BoardCell(
                value=float(column.values[at]), low=float(low), high=float(high), questions=answered, counts=counts
            )
    enough = [at for at, model in enumerate(column.models) if model in cells and cells[model].counts]
    if len(enough) > 1:
        better = significant(_some(column.sums, enough), lower=column.scope.lower_is_better)
        for at, (best, worst) in zip(enough, rank_ranges(better), strict=True):
            cell = cells[column.models[at]]
            cell.rank_best, cell.rank_worst = best, worst
    return cells


def _some(sums: PairSums, places: Sequence[int]) -> PairSums:
    chosen = np.ix_(places, places)
    matrices = {name: getattr(sums, name)[chosen] for name in ("questions", "total", "squares")}
    return sums._replace(**matrices)


def _group(columns: Sequence[_Column], weights: Sequence[float], models: Sequence[str]) -> dict[str, list[Any]]:
    names = ("mean", "mean_rank", "win_share", "rank_best", "rank_worst")
    found: dict[str, list[Any]] = {name: [None] * len(models) for name in names}
    if not columns:
        return found
    places = [[one.models.index(model) for model in models] for one in columns]
    both = [
        np.vstack([one.values[None, some], one.draws[:, some]]) for one, some in zip(columns, places, strict=True)
    ]  # the values themselves are the first row
    if total := sum(weights):
        exact = [Fraction(repr(weight)) for weight in weights]
        mean = sum((weight / total * one for weight, one in zip(weights, both, strict=True)), np.zeros_like(both[0]))
        for at in range(len(models)):
            values = [exact_mean(float(one[0, at])) for one in both]
            parts = (weight * value for weight, value in zip(exact, values, strict=True))
            mean[0, at] = to_double(sum(parts, Fraction()) / sum(exact))
        found["mean"] = _estimates(mean)
    if len(models) > 1:
        signs = [-1 if one.scope.lower_is_better else 1 for one in columns]
        wins = np.mean([_wins(sign * one) for sign, one in zip(signs, both, strict=True)], axis=0)
        found["mean_rank"] = _estimates(len(models) - wins)
        found["win_share"] = _estimates(wins / (len(models) - 1))
    if total and len(models) > 1:
        some = [(_some(one.sums, at), n) for one, at, n in zip(columns, places, weights, strict=True) if n]
        if len(some) == 1:  # the same test as in a table of this evaluation
            better = significant(some[0][0], lower=False)
        else:
            better = significant_mean([one for one, _ in some], [weight for _, weight in some])
        ranges = rank_ranges(better)
        found["rank_best"], found["rank_worst"] = (list(ends) for ends in zip(*ranges, strict=True))
    return found


def _wins(values: Array) -> Array:
    """How many other models each one is ahead of, in each row; a tie counts as half."""
    wins = np.empty_like(values)
    for at in range(values.shape[1]):
        own = values[:, at : at + 1]
        wins[:, at] = (own > values).sum(axis=1) + ((own == values).sum(axis=1) - 1) / 2
    return wins


def _estimates(rows: Array) -> list[Estimate]:
    """The estimates of all models: the first row has the values, the others are draws."""
    ends = np.nanpercentile(rows[1:], _ENDS, axis=0)
    return [Estimate(*map(float, one)) for one in zip(rows[0], *ends, strict=True)]
