"""Questions that come in groups: passages, videos, templates, source documents.

Answers to questions of one group are not independent, so a standard error over questions is too
small. The standard error over clusters adds up the deviations within each cluster first. With one
question per cluster, it is the standard error over questions.
"""

from collections.abc import Iterable
from math import isfinite

import numpy as np

from fastrec.statistics.p_values import Array


def cluster_errors(
    blocks: Iterable[tuple[Array, Array]], means: Array
) -> list[tuple[float | None, float]]:
    """The standard errors of means of models over clusters, and effective numbers of questions.

    Given are blocks of values, questions × models, each with the clusters of its questions: in
    order, none in two blocks. NaN is a question without an answer.

    The standard error is √(C/(C−1) · Σ_c (Σ_{i∈c} (x_i − x̄))²) / n over C clusters and n questions;
    None with fewer than two clusters. The effective number is that of independent questions which
    tell as much if those of a cluster always agree: n² / Σ_c m_c² for m_c questions of a cluster.
    It is C if all clusters have the same size, and less if not.

    >>> values = np.array([[1.0], [1], [0], [0]])
    >>> cluster_errors([(values, np.array([0, 0, 1, 1]))], np.array([0.5]))
    [(0.5, 2.0)]
    >>> cluster_errors([(values, np.array([0, 1, 2, 3]))], np.array([0.5]))
    [(0.28867..., 4.0)]
    """
    clusters, questions, sizes, squares = np.zeros((4, len(means)))
    with np.errstate(all="ignore"):
        for values, of_questions in blocks:
            starts = np.flatnonzero(np.diff(of_questions, prepend=-1))
            deviations = np.add.reduceat(np.nan_to_num(values - means), starts)
            counts = np.add.reduceat(~np.isnan(values), starts, dtype=np.float64)
            clusters += (counts > 0).sum(axis=0)
            questions += counts.sum(axis=0)
            sizes += (counts**2).sum(axis=0)
            squares += (deviations**2).sum(axis=0)
        errors = np.sqrt(clusters / (clusters - 1) * squares) / questions
        effective = questions**2 / sizes
    known = [error if isfinite(error) else None for error in errors.tolist()]
    return list(zip(known, effective.tolist(), strict=True))
