"""One model on one evaluation and metric: combine what the tasks counted with the two summaries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, Final

from fastrec.commands.diff.changes import Changes, ModelName, Scope
from fastrec.commands.diff.document import Counts, ModelDifference, Status
from fastrec.commands.diff.plan import Corpus
from fastrec.commands.diff.questions import Compared, MismatchError, Totals, compare_questions
from fastrec.corpus.scan import VERIFY_HINT
from fastrec.errors import CorpusError, shown
from fastrec.summary.document import ModelSummary
from fastrec.summary.significance import adjust, paired_test, to_double

__all__ = ["compare_models"]

_FELL_ROSE: Final = ("fell", "rose")
_ROSE_FELL: Final = ("rose", "fell")


def compare_models(
    old: Corpus,
    new: Corpus,
    changes: Changes,
    *,
    lower_is_better: Collection[Scope],
    min_compared: float,
    errors_as_wrong: bool,
    all_read: bool,
) -> list[ModelDifference]:
    """Compare all models on all evaluations and metrics; CorpusError if the numbers do not add up."""
    models = []
    graded = old.graded | new.graded
    for name in sorted(old.models.keys() | new.models.keys() | changes.read.keys(), key=_position):
        evaluation, metric, model_id = name
        before, after = old.models.get(name), new.models.get(name)
        scored = (evaluation, metric) in changes.scored
        lower = scored and (evaluation, metric) in lower_is_better
        totals = tuple(
            Totals.of_summary(model, errors_as_wrong=errors_as_wrong, scored=scored) for model in (before, after)
        )
        try:
            compared = compare_questions(totals, changes.read_of(name), all_read=all_read)
            counts = _count_records(totals, changes.counts[name])
        except MismatchError:
            of = repr(evaluation) if metric is None else f"{evaluation!r} by the metric {metric!r}"
            reason = f"its records of {model_id!r} on {of}, those of {shown(old.path)} and the two summaries"
            reason += f" do not add up: one of the corpora is damaged; {VERIFY_HINT}"
            raise CorpusError(new.path, reason) from None
        flips = [flip for kind in (_ROSE_FELL if lower else _FELL_ROSE) for flip in changes.examples[*name, kind]]
        enough = 100 * compared.questions >= Fraction(str(min_compared)) * compared.old_answered
        models.append(
            ModelDifference(
                evaluation_name=evaluation,
                metric=metric,
                model_id=model_id,
                graded=(evaluation, metric) in graded,
                measure="score" if scored else "accuracy",
                lower_is_better=lower,
                status=_status(before, after, compared, enough=enough),
                old_records=totals[0].records,
                new_records=totals[1].records,
                old_errors=before.errors if before else 0,
                new_errors=after.errors if after else 0,
                **_statistics(compared, scored=scored, lower=lower),
                counts=counts,
                flips=flips,
            )
        )
    tested = [(model, model.p) for model in models if model.p is not None]
    for (model, _), value in zip(tested, adjust([p for _, p in tested]), strict=True):
        model.p_adjusted = value
    return models


def _position(name: ModelName) -> tuple[str, bool, str, str]:
    """Sort by evaluation, then by metric, records without one first, then by model."""
    evaluation, metric, model_id = name
    return evaluation, metric is not None, metric or "", model_id


def _status(before: ModelSummary | None, after: ModelSummary | None, compared: Compared, *, enough: bool) -> Status:
    if not before or not after:
        return "missing" if before else "new"
    if not compared.old_answered:
        return "unanswered"
    return "compared" if enough else "incomplete"


def _count_records(totals: tuple[Totals, ...], counts: Mapping[str, int]) -> Counts:
    """Add the number of unchanged pairs to what the tasks counted: both corpora must have the same number of pairs."""
    kinds = {name: counts.get(name, 0) for name in Counts.__struct_fields__ if name != "unchanged"}
    pairs = totals[0].records - kinds["removed"] - kinds["repeats_old"]
    if pairs != totals[1].records - kinds["added"] - kinds["repeats_new"] or kinds["changed"] > pairs:
        raise MismatchError
    return Counts(unchanged=pairs - kinds["changed"], **kinds)


def _statistics(compared: Compared, *, scored: bool, lower: bool) -> dict[str, Any]:
    """Return the fields of a `ModelDifference` about its questions; `lower` says whether a lower score is better."""
    number, read = compared.questions, compared.read
    gain = read.gain()
    worse, better = (read.rose, read.fell) if lower else (read.fell, read.rose)
    test, p = (
        paired_test(
            read.differences, number, total=gain, squares=read.squares(), binary=not (scored or compared.repeats)
        )
        if number
        else (None, None)
    )
    means = [
        to_double(total / number) if number and total is not None else None
        for total in (compared.old_means, compared.new_means)
    ]
    unused = [None, None]
    accuracies, scores = (unused, means) if scored else (means, unused)
    return {
        "old_questions": compared.old_questions,
        "new_questions": compared.new_questions,
        "old_answered": compared.old_answered,
        "questions": number,
        "old_accuracy": accuracies[0],
        "new_accuracy": accuracies[1],
        "old_score": scores[0],
        "new_score": scores[1],
        "points": to_double((-100 if lower else 100) * gain / number) if number else None,
        "worse": worse,
        "better": better,
        "test": test,
        "p": p,
    }
