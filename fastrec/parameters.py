"""Parameters that commands share: one list of filters for the command line, Python and docs.

`FilterArguments` lists the filters. The command line has an option for each
(`cli/parameters/filters.toml`), Python functions take them as keyword arguments
(`**filters: Unpack[FilterArguments]`), and `fastrec.filters.Filters` has a field for each. This
module imports nothing heavy, because `--help` needs it.
"""

import os
from collections.abc import Callable, Iterable
from typing import TypedDict

Strings = str | Iterable[str]
Names = tuple[str, ...]  # several values of an argument or option, as click gives them
AnyPath = str | os.PathLike[str]
Paths = AnyPath | Iterable[AnyPath]
Notice = Callable[[str], None]  # receives notices for the user

# The processors that this process may use: the default of `jobs`.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def path_names(paths: Paths) -> list[str]:
    """The paths of an argument, which are one or several, as strings."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [os.fspath(path) for path in given]


class FilterArguments(TypedDict, total=False):
    """The filters as arguments of a Python function; a name takes one pattern or several."""

    evaluation: Strings
    metric: Strings
    model: Strings
    sample_id: int | str | Iterable[int | str]
    hash: Strings
    questions: Strings
    exclude_evaluation: Strings
    exclude_model: Strings
    right: bool
    wrong: bool
    errors: bool
    where: Strings


FILTERS = tuple(FilterArguments.__annotations__)
OUTCOMES = ("right", "wrong", "errors")  # the filters that are on or off
# The filters by name, for commands that work on summaries.
NAME_FILTERS = ("evaluation", "metric", "model", "exclude_evaluation", "exclude_model")
