"""The bootstrap: means in many draws of questions, and intervals with 95 % of them."""

from math import ceil, inf, log10

import numpy as np

from fastrec.statistics.p_values import Array

DRAWS = 1_000
_CELLS = 4_000_000  # of a matrix of draws
_ENDS = (0.025, 0.975)
_DIGITS = 12
_MOST_DECIMALS = 300  # that numpy can round to


def draw_means(sums: Array, counts: Array, seed: int) -> Array:
    """The means of models in each draw; NaN where a draw has no answer of a model.

    Given are sums and numbers of values, bundles of questions × models. A draw has as many bundles
    as there are.
    """
    random = np.random.default_rng([0, seed])
    bundles = len(sums)
    known: dict[bytes, int] = {}  # Many models have answered the same questions.
    of_model = [known.setdefault(column.tobytes(), len(known)) for column in counts.T]
    number = counts[:, np.unique(of_model, return_index=True)[1]]
    means = []
    step = max(_CELLS // max(bundles, 1), 1)
    for start in range(0, DRAWS, step):
        size = min(step, DRAWS - start)
        drawn = random.integers(0, bundles, (size, bundles))
        drawn += bundles * np.arange(size)[:, None]
        times = (
            np.bincount(drawn.ravel(), minlength=size * bundles)
            .reshape(size, bundles)
            .astype(np.float64)
        )
        with np.errstate(all="ignore"):
            means.append((times @ sums) / (times @ number)[:, of_model])
    return _rounded(np.concatenate(means))


def _rounded(draws: Array) -> Array:
    """Round means to 12 digits of the largest, so that the order of sums does not matter."""
    largest = float(np.nanmax(np.abs(draws), initial=0.0))
    if not 0 < largest < inf:
        return draws
    return np.round(draws, min(_DIGITS - ceil(log10(largest)), _MOST_DECIMALS))


def interval_ends(draws: Array) -> Array:
    """The ends of the 95 % intervals of all models; NaN are draws without an answer of a model."""
    ordered = np.sort(draws, axis=0)  # NaN comes last
    last = np.count_nonzero(~np.isnan(draws), axis=0) - 1
    models = np.arange(len(last))
    ends = []
    for share in _ENDS:
        place, rest = np.divmod(last * share, 1)
        low = ordered[place.astype(np.intp), models]
        high = ordered[np.minimum(place.astype(np.intp) + 1, last), models]
        with np.errstate(invalid="ignore"):
            step = high - low
            ends.append(np.where(rest < 0.5, low + step * rest, high - step * (1 - rest)))
    return np.array(ends)
