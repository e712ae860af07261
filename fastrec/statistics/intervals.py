"""95 % intervals of single means: an accuracy, or a mean score."""

from math import isfinite, sqrt

Z = 1.959963984540054  # 97.5 % of a normal distribution lie below


# None: there is nothing to compute it from.
OptionalNumber = float | None
OptionalInt = int | None
Interval = tuple[OptionalNumber, OptionalNumber]  # its lower and upper end


def wilson_interval(
    accuracy: OptionalNumber,
    standard_error: OptionalNumber,
    questions: int,
    answers: int,
    least: OptionalNumber = None,
) -> Interval:
    """The Wilson interval of an accuracy with a confidence of 95 %.

    With one answer per question, n is the number of questions. Several answers to a question tell
    more than one, but less than answers to as many questions. So n is then the number of questions
    with one answer each that would give the same variance over questions: at least `questions`, and
    at most `answers`. Questions that come in clusters tell less: then it is at least `least`.

    >>> wilson_interval(0.5, 0.05, questions=101, answers=101)
    (0.40429..., 0.59570...)
    """
    if accuracy is None:
        return None, None
    p = accuracy
    n = float(questions if least is None else least)
    variance = p * (1 - p)
    if answers > n and standard_error is not None and variance > 0:
        # A standard error is estimated with questions - 1 in the denominator, the variance of
        # single answers without.
        own = standard_error**2 * (questions - 1)
        n = min(max(questions * variance / own, n), answers) if own else answers
    z2 = Z**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * sqrt(variance / n + z2 / (4 * n * n))
    # Rounding must not move an end to the wrong side of 0, of 1 or of the accuracy itself.
    return max(min(middle - half, p), 0.0), min(max(middle + half, p), 1.0)


def score_interval(mean: OptionalNumber, standard_error: OptionalNumber) -> Interval:
    """The 95 % interval of a mean score: the mean ± 1.96 standard errors over questions.

    A score has any scale, so nothing better is known about its distribution than that a mean of
    many is nearly normal.

    >>> score_interval(0.5, 0.1)
    (0.304..., 0.695...)
    """
    if mean is None or standard_error is None:
        return None, None
    low, high = mean - Z * standard_error, mean + Z * standard_error
    return low if isfinite(low) else None, high if isfinite(high) else None
