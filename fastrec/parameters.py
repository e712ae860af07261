"""Parameters that commands share: one list of filters for the command line, Python and docs.

`FilterArguments` lists the filters. The command line makes an option of each, Python functions take
them as keyword arguments (`**filters: Unpack[FilterArguments]`), and `fastrec.filters.Filters` has
a field for each. This module imports nothing heavy, because `--help` needs it.
"""

import os
from collections.abc import Callable, Iterable
from typing import Annotated, NamedTuple, TypedDict, get_type_hints

Strings = str | Iterable[str]
AnyPath = str | os.PathLike[str]
Paths = AnyPath | Iterable[AnyPath]
Notice = Callable[[str], None]  # receives notices for the user

# The processors that this process may use: the default of `jobs`.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def path_names(paths: Paths) -> list[str]:
    """The paths of an argument, which are one or several, as strings."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [os.fspath(path) for path in given]


class Filter(NamedTuple):
    """What a filter means."""

    help: str
    names: str = ""  # Which names of a summary it is matched with: evaluations, metrics or models.
    metavar: str = "PATTERN"


class FilterArguments(TypedDict, total=False):
    """The filters as arguments of a Python function; a name takes one pattern or several."""

    evaluation: Annotated[
        Strings,
        Filter(
            "Only records whose evaluation_name matches, such as 'mmlu*'. Options with a PATTERN "
            "may be repeated; one match is enough.",
            "evaluations",
        ),
    ]
    metric: Annotated[
        Strings, Filter("Only records whose evaluation_result_id matches.", "metrics")
    ]
    model: Annotated[
        Strings, Filter("Only records whose model_id matches, such as 'org/*'.", "models")
    ]
    sample_id: Annotated[
        int | str | Iterable[int | str],
        Filter('Only records whose sample_id matches; 5 matches the integer 5 and the string "5".'),
    ]
    hash: Annotated[
        Strings, Filter("Only records whose sample_hash matches: all answers to a question.")
    ]
    questions: Annotated[
        Strings,
        Filter(
            "Only questions whose sample_hash is a line of this file, such as `fastrec items "
            "--subset` writes.",
            metavar="FILE",
        ),
    ]
    exclude_evaluation: Annotated[
        Strings, Filter("Leave out records whose evaluation_name matches.", "evaluations")
    ]
    exclude_model: Annotated[Strings, Filter("Leave out records whose model_id matches.", "models")]
    right: Annotated[
        bool,
        Filter(
            "Only right answers. If several of --right, --wrong and --errors are given, any may "
            "match."
        ),
    ]
    wrong: Annotated[bool, Filter("Only wrong answers.")]
    errors: Annotated[
        bool, Filter("Only records with an error, which are neither right nor wrong.")
    ]
    where: Annotated[
        Strings,
        Filter(
            "Only records with such a field: 'metadata.subject=law', "
            "'token_usage.total_tokens>500', 'output.raw~sorry' (contains), 'error?' (is there), "
            "'!error?' (is not). May be repeated; all must hold.",
            metavar="CONDITION",
        ),
    ]


_TYPES = get_type_hints(FilterArguments, include_extras=True)
FILTERS: dict[str, Filter] = {name: kind.__metadata__[0] for name, kind in _TYPES.items()}
# The filters that are on or off.
OUTCOMES = tuple(name for name, kind in _TYPES.items() if kind.__origin__ is bool)
# The filters by name, for commands that work on summaries.
NAME_FILTERS = tuple(name for name, about in FILTERS.items() if about.names)
