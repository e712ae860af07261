"""Questions that come in groups: passages, videos, templates, source documents.

Answers to questions of one group are not independent, so a standard error over questions is too
small. The standard error over clusters adds up the deviations within each cluster first. With one
question per cluster, it is the standard error over questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastrec.statistics.p_values import Array


def cluster_standard_error(values: Array, clusters: Sequence[int]) -> float | None:
    """The standard error of a mean over questions, each with the number of its cluster.

    √(C/(C−1) · Σ_c (Σ_{i∈c} (x_i − x̄))²) / n over C clusters and n questions. None with fewer than
    two clusters.

    >>> cluster_standard_error(np.array([1.0, 1, 0, 0]), [0, 0, 1, 1])
    0.5
    >>> cluster_standard_error(np.array([1.0, 1, 0, 0]), [0, 1, 2, 3])
    0.28867...
    """
    _, places = np.unique(np.asarray(clusters), return_inverse=True)
    number = int(places.max(initial=-1)) + 1
    if number < 2:
        return None
    deviations = np.bincount(places, weights=values - values.mean())
    total = float((deviations**2).sum())
    return math.sqrt(number / (number - 1) * total) / len(values)
