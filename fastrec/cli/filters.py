"""The filter options that commands share, and the completion of names in the shell.

Names come from the summary of the corpus in the command line that is completed. If it has none, or if it cannot be
read at once, there are no completions: a shell must never wait, or show an error, because of a Tab.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fastrec.filters import Filters

__all__ = ["FILTER_PARAMETERS", "complete_names", "filter_options", "given_filters", "name_filter_options"]
__all__ += ["take_filters"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_LARGEST: Final = 64 << 20  # bytes of a summary that is read for completion
_MOST: Final = 1000  # completions

FILTER_PARAMETERS: Final = (
    "evaluation", "metric", "model", "sample_id", "hash", "exclude_evaluation", "exclude_model", "right", "wrong",
    "errors",
)  # fmt: skip
"""The parameters that `filter_options` adds."""


def filter_options(function: _Command) -> _Command:
    """Add the filters. The function gets one parameter for each of `FILTER_PARAMETERS`; see `take_filters`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def name_filter_options(function: _Command) -> _Command:
    """Add the filters by name only, for commands that work on summaries: evaluations, metrics and models."""
    for name, option in reversed(list(zip(FILTER_PARAMETERS, _OPTIONS, strict=True))):
        if name.removeprefix("exclude_") in ("evaluation", "metric", "model"):
            function = option(function)
    return function


def take_filters(options: dict[str, Any]) -> Filters:
    """Remove the filters from the parameters of a command, and return them as one value.

    Raises:
        UsageError: A pattern is not valid UTF-8.
    """
    from fastrec.filters import make_filters

    return make_filters(**{name: options.pop(name) for name in FILTER_PARAMETERS})


def given_filters(options: Mapping[str, Any]) -> bool:
    """Return whether any filter is given among the parameters of a command, which keep them."""
    return any(options[name] for name in FILTER_PARAMETERS)


def complete_names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes the names of one kind: `evaluations`, `metrics` or `models`."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = sorted({name for corpus in _corpora(context) for name in _names(corpus, kind)})
        words = [word for name in names if name.startswith(incomplete) and (word := _word(name))]
        return [CompletionItem(word) for word in words[:_MOST]]

    return complete


def _corpora(context: click.Context) -> Iterator[str]:
    """Yield what may be a corpus: the arguments of the command line that is completed."""
    # An option without its value, which is the one to complete, keeps click from naming the arguments before it.
    given = [context.params.get(one.name or "") for one in context.command.params if isinstance(one, click.Argument)]
    for value in [*given, *context.args]:
        values = value if isinstance(value, (list, tuple)) else [value]
        yield from (one for one in values if isinstance(one, str))


def _names(corpus: str, kind: str) -> list[str]:
    """Return the names of one kind in the summary of a corpus; none if there is no summary, or if it is damaged."""
    import msgspec

    from fastrec.summary.names import names_in

    with contextlib.suppress(OSError, ValueError, RuntimeError, msgspec.MsgspecError):
        path = Path(corpus).expanduser() / "summary.json"
        if path.is_file() and path.stat().st_size <= _LARGEST:
            return [name for name in getattr(names_in(path.read_bytes()), kind) if name]
    return []


_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
_QUOTABLE: Final = re.compile(r"[^'\\*?\[\]]+")


def _word(name: str) -> str:
    """Return a name as the shell can insert it; empty if it cannot.

    The script for bash inserts words as they are, so they are quoted here: a name must not become a command. The other
    shells quote by themselves.
    """
    if not name.isprintable() or name.startswith("-"):
        return ""
    if _PLAIN.fullmatch(name) or not os.environ.get("_FASTREC_COMPLETE", "").startswith("bash"):
        return name
    return f"'{name}'" if _QUOTABLE.fullmatch(name) else ""


def _pattern_option(name: str, text: str, kind: str | None = None, metavar: str = "PATTERN") -> Any:
    complete = complete_names(kind) if kind else None
    return click.option(name, multiple=True, metavar=metavar, help=text, shell_complete=complete)


_OPTIONS: Final = (
    _pattern_option("--evaluation", "Only records whose evaluation_name matches, such as 'mmlu*'. Options with a "
                    "PATTERN may be repeated; one match is enough.", "evaluations"),
    _pattern_option("--metric", "Only records whose evaluation_result_id matches.", "metrics"),
    _pattern_option("--model", "Only records whose model_id matches, such as 'org/*'.", "models"),
    _pattern_option("--sample-id", 'Only records whose sample_id matches; 5 matches the integer 5 and the string "5".'),
    _pattern_option("--hash", "Only records whose sample_hash matches: all answers to a question."),
    _pattern_option("--exclude-evaluation", "Leave out records whose evaluation_name matches.", "evaluations"),
    _pattern_option("--exclude-model", "Leave out records whose model_id matches.", "models"),
    click.option("--right", is_flag=True, help="Only right answers. Of --right, --wrong and --errors, one is enough."),
    click.option("--wrong", is_flag=True, help="Only wrong answers."),
    click.option("--errors", is_flag=True, help="Only records with an error, which are neither right nor wrong."),
)  # fmt: skip
