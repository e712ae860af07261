"""What a leaderboard has: its columns, rows and cells, and how it is printed."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fastrec.errors import counted
from fastrec.limits import current_limits
from fastrec.notebook import Rows, Tabular
from fastrec.statistics.bootstrap import DRAWS
from fastrec.statistics.intervals import OptionalInt, OptionalNumber
from fastrec.summary.document import ScopeNames
from fastrec.summary.present_ranking import rank_text
from fastrec.wording import cluster_in_words, even_scores, value_text

if TYPE_CHECKING:
    from fastrec.pages.html import Html


class Estimate(Struct):
    """A number with its 95 % interval, from the bootstrap."""

    #: The number.
    value: float
    #: Lower end of the interval.
    low: float
    #: Upper end of the interval.
    high: float


class BoardEvaluation(ScopeNames):
    """A column: an evaluation with its primary metric."""

    #: Metrics that the evaluation has and that judge answers.
    metrics: int
    #: Whether values are mean scores; otherwise they are accuracies.
    graded: bool
    #: Whether a lower score is better.
    lower_is_better: bool
    #: Its questions.
    questions: int
    #: Its weight in the mean; 0 if it does not count there.
    weight: float
    #: Its name, with the metric if it has several, and ↓ if lower is better.
    title: str


class BoardCell(Estimate, kw_only=True):
    """A model on an evaluation: the accuracy or mean score over questions that it answered."""

    #: Questions that it answered.
    questions: int
    #: Whether these are enough of the questions: `--min-coverage`. If not, nothing is computed from
    #: it.
    counts: bool
    #: Its best rank on the evaluation, as in `stats`; null if more than 2,000 models have enough
    #: answers.
    rank_best: OptionalInt = None
    #: Its worst rank.
    rank_worst: OptionalInt = None

    @property
    def colour(self) -> str:
        """A class of the style sheet."""
        from fastrec.pages.svg import heat_class  # noqa: PLC0415 - only pages need it

        return heat_class(self.value)


class BoardModel(Struct):
    """A row: a model. What is compared is compared within its group."""

    model_id: str
    #: Models of a group have answered the same evaluations; 1 is the group with the most
    #: evaluations. 0: none.
    group: int
    #: One for each evaluation; null without answers.
    cells: list[BoardCell | None]
    #: The weighted mean over the evaluations of its group whose values are in [0, 1] and better if
    #: higher.
    mean: Estimate | None = None
    #: The mean over evaluations of its rank among the models of its group; equal values share their
    #: mean rank. Null in a group of one, or of more than 2,000.
    mean_rank: Estimate | None = None
    #: The share of pairs of an evaluation and another model of the group in which it is ahead; a
    #: tie counts as half. Null in a group of one, or of more than 2,000.
    win_share: Estimate | None = None
    #: Its best rank by mean in its group that paired tests allow; null in a group of one, and
    #: after the first 2,000 of a group.
    rank_best: OptionalInt = None
    #: Its worst rank.
    rank_worst: OptionalInt = None


class Leaderboard(Tabular):
    """All models on the primary metrics of several evaluations."""

    #: The columns, by name.
    evaluations: list[BoardEvaluation]
    #: The rows: group by group, best mean first.
    models: list[BoardModel]
    #: Percent of the questions of an evaluation that a model must have answered for the evaluation
    #: to count.
    min_coverage: float
    #: Evaluations with fewer questions that a page leaves out.
    left_out: int = 0
    #: `--cluster`: intervals and tests are over clusters of questions with the same value of this
    #: field; null if they are over questions.
    cluster: str | None = None
    #: Files of the corpus that are missing or cut, by their sizes: what these numbers need is
    #: whole.
    damaged: list[str] = []

    def rows(self) -> Rows:
        """A row for each model, with a column for each number."""
        rows = []
        for model in self.models:
            row: dict[str, Any] = {
                "group": model.group,
                "rank_best": model.rank_best,
                "rank_worst": model.rank_worst,
                "model_id": model.model_id,
            }
            for name in ("mean", "mean_rank", "win_share"):
                row |= _flat(name, getattr(model, name))
            for evaluation, cell in zip(self.evaluations, model.cells, strict=True):
                row |= _flat(evaluation.title, cell, ("value", "low", "high", "questions"))
            rows.append(row)
        return rows

    def table(
        self, models: Sequence[BoardModel], digits: OptionalInt = None
    ) -> tuple[list[str], list[list[str]]]:
        """The headings and cells of some models, as text; columns that say nothing are left out."""
        columns = {
            "rank": [rank_text(model.rank_best, model.rank_worst) for model in models],
            "model": [model.model_id for model in models],
            "mean": [_estimate(model.mean, 100, "%", digits) for model in models],
            "mean rank": [_estimate(model.mean_rank, 1, "", digits) for model in models],
            "wins": [_estimate(model.win_share, 100, "%", digits) for model in models],
        }
        columns = {name: cells for name, cells in columns.items() if any(cells)}
        for at, evaluation in enumerate(self.evaluations):
            cells = [model.cells[at] for model in models]
            if any(cells):
                columns[evaluation.title] = _cell_texts(evaluation, cells, digits)
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def to_html(self, *, sortable: bool = False) -> "Html":
        """The tables as HTML. The script of `report` sorts `sortable`."""
        from fastrec.pages import render_macro  # noqa: PLC0415 - only pages need it

        return render_macro("leaderboard.html", "leaderboard", self, sortable=sortable)

    def to_page(self) -> "Html":
        from fastrec.pages import render_template  # noqa: PLC0415 - only pages need it

        return render_template("leaderboard_page.html", board=self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def positions(self) -> dict[str, int]:
        """The position of each evaluation, by its title."""
        return {evaluation.title: at for at, evaluation in enumerate(self.evaluations)}

    def groups(self) -> list[tuple[str, list[BoardModel]]]:
        groups = [list(models) for _, models in groupby(self.models, attrgetter("group"))]
        return [
            (f"{counted(models, 'model')} {self._about(models[0])}", models) for models in groups
        ]

    def _about(self, model: BoardModel) -> str:
        if number := sum(bool(cell and cell.counts) for cell in model.cells):
            return f"with {number:,} of {counted(self.evaluations, 'evaluation')}"
        share = f"{self.min_coverage:g}% of " if self.min_coverage else ""
        return f"without answers to {share}the questions of any evaluation: not ranked"

    def notes(self) -> list[str]:
        """What the numbers are, in a few lines."""
        lines = [
            f"mean: over evaluations; [95% interval] from {DRAWS:,} bootstrap draws of questions.",
            (
                "rank: the ranks by mean, or by the only evaluation, that paired tests allow "
                "(Holm). Models are compared within their table only."
            ),
            (
                "mean rank and wins: over evaluations; wins is the share of the other models that "
                "a model is ahead of."
            ),
        ]
        lines += cluster_in_words(self.cluster)
        if any(cell and not cell.counts for model in self.models for cell in model.cells):
            least = f"{self.min_coverage:g}% of the questions"
            lines.append(f"(in brackets): answers to less than {least}; does not count.")
        most = current_limits().compared_models
        if any(
            number and size > most
            for number, size in Counter(model.group for model in self.models).items()
        ):
            lines.append(
                f"tables of more than {most:,} models: ranks of the first {most:,}; no mean rank "
                "and wins."
            )
        if self.left_out:
            left = counted(self.left_out, "evaluation")
            lines.append(f"{left} with fewer questions left out; `fastrec leaderboard` has all.")
        if left_out := ", ".join(
            evaluation.title for evaluation in self.evaluations if not evaluation.weight
        ):
            lines.append(
                f"not in the mean (weight 0, scores beyond 0 and 1, or lower is better): {left_out}"
            )
        return lines


def _flat(
    name: str, estimate: Estimate | None, fields: Sequence[str] = ("value", "low", "high")
) -> dict[str, OptionalNumber]:
    """The fields of an estimate as columns: `name` is its value, `name.low` its lower end."""
    flat = {f"{name}.{field}": getattr(estimate, field, None) for field in fields}
    return {column.removesuffix(".value"): value for column, value in flat.items()}


def _estimate(estimate: Estimate | None, scale: float, unit: str, digits: OptionalInt) -> str:
    if not estimate:
        return ""
    ends = (estimate.value, estimate.low, estimate.high)
    decimals = 1 if digits is None else digits
    value, low, high = (f"{scale * end:.{decimals}f}" for end in ends)
    return f"{value}{unit} [{low}–{high}]"


def _cell_texts(
    evaluation: BoardEvaluation, cells: Sequence[BoardCell | None], digits: OptionalInt
) -> list[str]:
    """The cells of a column, with the same number of decimals.

    What counts in the mean has its unit.
    """
    values = [cell.value if cell else None for cell in cells]
    has_unit = not evaluation.graded or bool(evaluation.weight)
    texts = [value_text(value, graded=not has_unit, digits=digits) for value in values]
    if evaluation.graded and digits is None and any(abs(value or 0) >= 10 for value in values):
        texts = even_scores(values)
    return [
        f"({text})" if cell and not cell.counts else text
        for cell, text in zip(cells, texts, strict=True)
    ]
