"""`costs`: what the answers of models cost."""

import os
from typing import Unpack

from fastrec.answers.choosing import open_index, primary_queries
from fastrec.answers.costs import ModelCost, find_costs, read_prices
from fastrec.filters import FilterArguments, make_filters
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress


class Costs(Tabular):
    """What the answers of models cost."""

    #: By evaluation and model.
    costs: list[ModelCost]


def costs(
    corpus: AnyPath,
    *,
    prices: AnyPath,
    metrics: str = "judgements",
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Costs:
    """Compute what answers cost, at the prices of a file.

    Args:
        corpus: A directory or URL that `normalize` published.
        prices: A TOML file with the prices of models per million tokens.
        metrics: Which metrics may be primary if none is chosen by name: `judgements`, or `all`.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The prices are wrong, or a pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    by_name, by_record = make_filters(**filters).split()
    priced = read_prices(os.fspath(prices))
    index = open_index(corpus, by_record, jobs=jobs, progress=progress)
    return Costs(find_costs(index, priced, primary_queries(index, by_name, metrics)))
