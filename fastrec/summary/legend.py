"""What the numbers of a comparison of models mean, in words."""

from __future__ import annotations

from fastrec.errors import counted
from fastrec.summary.ranking import EvaluationStats, Stats

__all__ = ["about", "has_repeats", "legend"]


def about(evaluation: EvaluationStats) -> str:
    """Describe an evaluation in one line."""
    some = evaluation.chosen < evaluation.models
    counts = [counted(evaluation.records, "record")]
    if evaluation.errors:
        counts.append(counted(evaluation.errors, "error"))
    counts.append(f"{f'{evaluation.chosen:,} of ' if some else ''}{counted(evaluation.models, 'model')}")
    counts.append(counted(evaluation.questions, "question"))
    if not evaluation.answering:
        counts.append("no answers")
    elif evaluation.common_questions is not None:
        everyone = f"all {'these ' if some else ''}models"
        if evaluation.answering < evaluation.chosen:
            several = evaluation.answering > 1
            everyone = f"all {evaluation.answering:,} models with answers" if several else "the one model with answers"
        counts.append(f"{evaluation.common_questions:,} answered by {everyone}")
    return ", ".join(counts)


def has_repeats(evaluation: EvaluationStats) -> bool:
    """Return whether a model has several answers to a question."""
    return any(model.answers > model.questions for model in evaluation.by_model)


def legend(stats: Stats) -> list[str]:
    """Explain the numbers that are shown, in a few short lines."""
    if not any(evaluation.by_model for evaluation in stats.evaluations):
        return []
    lines = []
    answered = [evaluation for evaluation in stats.evaluations if evaluation.answering]
    if any(map(stats.shows_accuracy, answered)):
        lines.append("95% interval: the range of accuracies that agree with the answers (Wilson).")
        lines.append("±: one standard error of the mean score. Both are computed over questions.")
    if not all(map(stats.shows_accuracy, answered)):
        lines.append("Where scores are other than 0 and 1, the score counts; --accuracy shows both.")
        lines.append("95% interval of a score: 1.96 standard errors over questions on each side.")
    if any(map(has_repeats, stats.evaluations)):
        lines.append("A question with several answers counts once, with the mean of its answers.")
    if any(evaluation.errors for evaluation in stats.evaluations):
        if stats.errors_as_wrong:
            lines.append("errors: records with an error. They count as wrong, with the score that they have.")
        else:
            lines.append("errors: records with an error. They do not count for accuracy and score;")
            lines.append("--errors-as-wrong counts them as wrong answers.")
    return lines
