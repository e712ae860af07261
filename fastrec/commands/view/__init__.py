"""`view`: look at the questions and answers of a corpus in a browser.

Pages are rendered here and work without a script. The script adds keys, the theme, and search
within a transcript. The server listens on the loopback interface only, and writes nothing but
labels, if it has a file for them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from fastrec.answers.choosing import open_index
from fastrec.answers.costs import read_prices
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, need
from fastrec.filters import Strings, as_tuple
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.storage import is_url

if TYPE_CHECKING:
    from fastrec.commands.view.server import View


def view(
    corpus: AnyPath,
    *,
    port: int = 0,
    primary: Strings = (),
    lower_is_better: Strings = (),
    prices: AnyPath | None = None,
    labels: AnyPath | None = None,
    jobs: int = CORES,
    progress: Progress | None = None,
) -> View:
    """Open a corpus for a browser on this machine.

    >>> with view("corpus") as opened:  # doctest: +SKIP
    ...     print(opened.address)
    ...     opened.serve()

    Args:
        corpus: A directory or URL that `normalize` published.
        port: The port to listen on; by default a free one.
        primary: `EVALUATION=METRIC` for evaluations whose primary metric is another one; both may
            be patterns.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower
            scores are better.
        prices: Show on the page of a model what its answers cost, at the prices of this file.
        labels: A file for labels: with it, a button on each answer appends one, as `normalize
            --labels` reads it.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.

    Raises:
        UsageError: The directory is not a corpus, the port cannot be used, or a package is not
            installed.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    need("view", "starlette", "uvicorn")
    check_jobs(jobs)
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise UsageError(f"port must be an integer from 0 to 65535, not {port!r}")
    priced = {} if prices is None else read_prices(os.fspath(prices))
    index = open_index(corpus, lower_is_better=lower_is_better, jobs=jobs, progress=progress)
    if not is_url(index.corpus):  # of a store, each would be a request
        for number in range(len(index.selection.parts)):
            index.selection.columns(number)  # a damaged file is refused before the first page
    make: type[View] = import_module("fastrec.commands.view.server").View
    return make(
        index,
        port,
        as_tuple("primary", primary),
        priced,
        None if labels is None else os.fspath(labels),
    )
