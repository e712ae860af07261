"""One model on one evaluation: combine what the tasks counted with the two summaries."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fastrec.commands.diff.changes import Changes
from fastrec.commands.diff.document import Counts, ModelDifference, Status
from fastrec.commands.diff.plan import Corpus
from fastrec.commands.diff.questions import Compared, MismatchError, Totals, compare_questions
from fastrec.commands.diff.significance import adjust, paired_test
from fastrec.corpus.scan import VERIFY_HINT
from fastrec.errors import CorpusError, shown
from fastrec.summary.document import ModelSummary

__all__ = ["compare_models"]


def compare_models(
    old: Corpus, new: Corpus, changes: Changes, *, min_compared: float, errors_as_wrong: bool, all_read: bool
) -> list[ModelDifference]:
    """Compare all models on all evaluations; CorpusError if the numbers do not add up."""
    models = []
    for name in sorted(old.models.keys() | new.models.keys() | changes.outcomes.keys()):
        before, after = old.models.get(name), new.models.get(name)
        totals = tuple(Totals.of_summary(model, errors_as_wrong=errors_as_wrong) for model in (before, after))
        try:
            compared = compare_questions(totals, changes.outcomes[name], all_read=all_read)
            counts = _count_records(totals, changes.counts[name])
        except MismatchError:
            reason = f"its records of {name[1]!r} on {name[0]!r}, those of {shown(old.path)} and the two summaries"
            reason += f" do not add up: one of the corpora is damaged; {VERIFY_HINT}"
            raise CorpusError(new.path, reason) from None
        flips = [flip for kind in ("worse", "better") for flip in changes.examples[*name, kind]]
        enough = 100 * compared.questions >= Fraction(str(min_compared)) * compared.old_answered
        models.append(
            ModelDifference(
                evaluation_name=name[0],
                model_id=name[1],
                status=_status(before, after, compared, enough=enough),
                old_records=totals[0].records,
                new_records=totals[1].records,
                old_errors=before.errors if before else 0,
                new_errors=after.errors if after else 0,
                **_statistics(compared),
                counts=counts,
                flips=flips,
            )
        )
    tested = [(model, model.p) for model in models if model.p is not None]
    for (model, _), value in zip(tested, adjust([p for _, p in tested]), strict=True):
        model.p_adjusted = value
    return models


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


def _statistics(compared: Compared) -> dict[str, Any]:
    """Return the fields of a `ModelDifference` about its questions."""
    number, differences = compared.questions, compared.differences
    test, p = paired_test(differences, number, repeats=compared.repeats) if number else (None, None)
    gain = sum((difference * count for difference, count in differences.items()), Fraction())
    return {
        "old_questions": compared.old_questions,
        "new_questions": compared.new_questions,
        "old_answered": compared.old_answered,
        "questions": number,
        "old_accuracy": float(compared.old_means / number) if number else None,
        "new_accuracy": float(compared.new_means / number) if number else None,
        "points": float(100 * gain / number) if number else None,
        "worse": sum(count for difference, count in differences.items() if difference < 0),
        "better": sum(count for difference, count in differences.items() if difference > 0),
        "test": test,
        "p": p,
    }
