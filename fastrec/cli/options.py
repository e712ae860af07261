"""Commands and their options: types of values, shared options, and headings in help.

`shared("corpus", "filters", "jobs")` adds options that are defined here, so that an option has the
same help, type and default in every command.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.output import Output
from fastrec.errors import UsageError
from fastrec.parameters import CORES, FILTERS, OUTCOMES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], Any]


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of bytes: `65536`, `512M`, `2GiB`; K, M, G and T are powers of 1,024."""

    name = "size"
    _PATTERN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        match = self._PATTERN.fullmatch(str(value).strip())
        if not match:
            self.fail(
                f"{value!r} is not a size; use a number of bytes, or a unit: 512M, 2GiB", param, ctx
            )
        unit = 1024 ** (" KMGT".index(match[2].upper()) if match[2] else 0)
        return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


class Count(click.IntRange):
    name = "integer"  # click's own name would read "not a valid integer range" in a message


class Number(click.FloatRange):
    name = "number"


class Checked(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Text that a function accepts; the command gets it as it was given."""

    def __init__(self, name: str, check: Callable[[str], None]) -> None:
        self.name = name
        self._check = check

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            self._check(str(value))
        except UsageError as exc:
            self.fail(str(exc), param, ctx)
        return str(value)


def _check_repairs(names: str) -> None:
    from fastrec.filters import field_names
    from fastrec.judge.repair import repair_codes

    repair_codes(field_names("repair", names))


# The headings of help, and the options below each. Filters count only where a command has them all.
_OWN = "Options"
_FILTERS = "Filters"
_HEADINGS = {
    _OWN: (),  # of the command: every option that is not listed below
    _FILTERS: tuple(FILTERS),
    "Output": (
        "output", "format", "digits", "caption", "all", "raw_cells", "full", "overwrite", "quiet",
    ),
    "Running": ("jobs", "memory", "work_dir", "no_progress", "verbose", "help"),
    "Rarely needed": (
        "files_from", "max_line_bytes", "max_window", "part_size", "compression", "level", "engine",
        "scheduler", "trust", "judge", "check", "fresh",
    ),
}  # fmt: skip
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names}


def options_by_heading(
    command: click.Command, context: click.Context
) -> dict[str, list[click.Option]]:
    """Return the options of a command below the headings of its help, in their order."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    has_filters = FILTERS.keys() <= {option.name for option in options}
    by_heading: dict[str, list[click.Option]] = {heading: [] for heading in _HEADINGS}
    for option in options:
        name = option.opts[-1].removeprefix("--").replace("-", "_")
        heading = _HEADING_OF.get(name, _OWN)
        by_heading[_OWN if heading == _FILTERS and not has_filters else heading].append(option)
    return {heading: options for heading, options in by_heading.items() if options}


class Command(click.Command):
    """A command whose help lists its options under headings.

    It does not get the options about output, which are `Output`.
    """

    def invoke(self, ctx: click.Context) -> Any:
        given = {name: ctx.params.pop(name) for name in Output._fields if name in ctx.params}
        ctx.obj = Output(**given)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, options in options_by_heading(self, ctx).items():
            with formatter.section(heading):
                records = (option.get_help_record(ctx) for option in options)
                formatter.write_dl(list(filter(None, records)))


def command(short_help: str, cls: type[Command] = Command) -> Callable[[_Command], click.Command]:
    """Make a command, whose help is the docstring."""

    def make(function: _Command) -> click.Command:
        params: list[click.Parameter] = getattr(function, "__click_params__", [])
        if all(parameter.name != "verbose" for parameter in params):
            text = "With -vv, print a traceback for unexpected errors."
            verbose = click.Option(["-v", "--verbose"], count=True, expose_value=False, help=text)
            params.insert(0, verbose)  # click reverses their order
        return click.command(cls=cls, short_help=short_help)(function)

    return make


# Types of values, by the names that stand for them; others are text.
_TYPES: dict[str, click.ParamType] = {  # type: ignore[type-arg,unused-ignore]
    "N": Count(min=1),
    "FILE": click.Path(),
    "DIR": click.Path(),
    "PATH": click.Path(),
    "SIZE": Size(),
    "PERCENT": Number(0, 100),
    "SHARE": Number(0, 1),
    "P": Number(0, 1),
}


def option(usage: str, text: str, **more: Any) -> _Decorator:
    """Make an option that is spelled as in a usage line.

    `-j --jobs N`, `--split A B`, `--model PATTERN...` if it may be repeated, `--mix a|b` for a
    choice whose default is the first. A lower-case word is the parameter of the function.
    """
    words = usage.split()
    values = [word for word in words if word.isupper() or "|" in word]
    names = [word for word in words if word not in values]
    metavar = " ".join(values).removesuffix("...")
    settings: dict[str, Any] = {}
    if "|" in metavar:
        choices = metavar.split("|")
        settings = {"type": click.Choice(choices), "default": choices[0]}
    elif values:
        repeated = usage.endswith("...")
        settings = {"type": _TYPES.get(metavar), "metavar": metavar, "multiple": repeated}
        settings["nargs"] = len(values)
    settings |= more
    settings.setdefault("show_default", True if "default" in settings else None)
    return click.option(*names, help=text, **settings)


def flag(names: str, text: str, **more: Any) -> _Decorator:
    return option(names, text, is_flag=True, **more)


def choice_option(names: str, choices: Sequence[str], text: str, **more: Any) -> _Decorator:
    return option(f"{names} {'|'.join(choices)}", text, **more)


_FORMATS = {
    "text": "for people",
    "json": "for programs",
    "csv": "for spreadsheets",
    "markdown": "for a pull request",
    "github": "for annotations of a GitHub workflow",
    "latex": "for a paper",
    "html": "for a browser",
    "parquet": "for data frames, with -o",
}


def format_option(*formats: str) -> _Decorator:
    uses = ", ".join(f"{name} {_FORMATS[name]}" for name in formats)
    return option(f"--format output_format {'|'.join(formats)}", f"Output format: {uses}.")


def output_option(kind: str, text: str, **more: Any) -> _Decorator:
    return option(f"-o --output {kind}", text, **{"required": True} | more)


def shared(*names: str) -> _Decorator:
    """Add parameters that several commands have, in the order of their names."""
    return together(*(_SHARED[name] for name in names))


def together(*options: _Decorator) -> _Decorator:
    def add(function: _Command) -> _Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


# The shell completes names from the summary of the corpus in the command line. If there is none, or
# if it cannot be read at once, there are no completions: a shell must never wait, or show an error,
# because of a Tab.

_LARGEST = 64 << 20  # bytes of a summary that is read for completion
_MOST = 1000  # completions


def complete_names(
    kind: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes `evaluations`, `metrics` or `models`."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # While an option has no value, click may take the arguments before it for further ones.
        given: list[Any] = list(context.args)
        for value in context.params.values():
            given += value if isinstance(value, (list, tuple)) else [value]
        names: set[str] = set()
        for path in given:
            names.update(_names(path, kind) if isinstance(path, str) else ())
        words = [_word(name) for name in sorted(names) if name.startswith(incomplete)]
        return [CompletionItem(word) for word in words if word][:_MOST]

    return complete


def _names(corpus: str, kind: str) -> list[str]:
    """Return the names of one kind in the summary of a corpus.

    There are none without a summary, or if it is damaged.
    """
    import msgspec

    from fastrec.summary.present_choice import names_in

    with contextlib.suppress(OSError, ValueError, RuntimeError, msgspec.MsgspecError):
        path = Path(corpus).expanduser() / "summary.json"
        if path.is_file() and path.stat().st_size <= _LARGEST:
            return [name for name in getattr(names_in(path.read_bytes()), kind) if name]
    return []


_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_QUOTABLE = re.compile(r"[^'\\*?\[\]]+")


def _word(name: str) -> str:
    """Return a name as the shell can insert it; empty if it cannot.

    The script for bash inserts words as they are, so they are quoted here: a name must not become a
    command. The other shells quote by themselves.
    """
    if not name.isprintable() or name.startswith("-"):
        return ""
    if _PLAIN.fullmatch(name) or not os.environ.get("_FASTREC_COMPLETE", "").startswith("bash"):
        return name
    return f"'{name}'" if _QUOTABLE.fullmatch(name) else ""


def _filter_option(name: str) -> _Decorator:
    about = FILTERS[name]
    usage = f"--{name.replace('_', '-')}"
    if name in OUTCOMES:
        return flag(usage, about.help)
    complete = complete_names(about.names) if about.names else None
    return option(f"{usage} {about.metavar}...", about.help, shell_complete=complete)


_jobs = option(
    "-j --jobs N", "Number of processes. Small inputs always use one.", default=CORES,
    show_default="all cores", envvar="FASTREC_JOBS", show_envvar=True,
)  # fmt: skip
_no_progress = flag(
    "--no-progress", "Do not show progress on a terminal.", envvar="FASTREC_NO_PROGRESS",
    show_envvar=True,
)  # fmt: skip
_SHARED: dict[str, _Decorator] = {
    "corpus": click.argument("corpus", type=click.Path()),
    "paths": click.argument("paths", nargs=-1, type=click.Path()),
    "filters": together(*map(_filter_option, FILTERS)),
    "jobs": _jobs,
    "no_progress": _no_progress,
    "run": together(_jobs, _no_progress),
    "work_dir": option(
        "--work-dir PATH", "Directory or URL for temporary files and kept work.",
        envvar="FASTREC_WORK_DIR", show_envvar=True,
        show_default="next to the output; TMPDIR without one or in a store",
    ),
    "reading": together(
        option("--files-from FILE", "Read more paths from this file (- for stdin), one per line."),
        option("--max-line-bytes SIZE", "Longer lines are invalid.", default="1GiB"),
        option("--max-window SIZE", "Largest zstd window.", default="128MiB"),
    ),
    "raw_cells": flag(
        "--raw-cells",
        "CSV: do not put a single quote before text that a spreadsheet would take for a formula.",
    ),
    "tables": together(
        option(
            "--digits N",
            "Decimals of percentages in tables; scores have two more.",
            type=Count(0, 9), show_default="1",
        ),
        option("--caption TEXT", "Caption of tables in Markdown and LaTeX."),
    ),
    "quiet": flag("-q --quiet", "Print only results and errors."),
    "overwrite": flag("--overwrite", "Replace an existing output."),
    "full": flag("--full", "Show whole texts, all turns, reasoning, prompts and metadata."),
    "accuracy": flag("--accuracy", "Show the accuracy even where scores are other than 0 and 1."),
    "errors_as_wrong": flag(
        "--errors-as-wrong",
        "Count records with an error as wrong answers. By default they do not count.",
    ),
    "repeats_as": option(
        "--repeats-as HOW",
        "What several answers of a model to a question become: mean, pass@K (one of K is right), "
        "pass^K (all of K are), majority (of the extracted answers, or else of the outputs; a tie "
        "is wrong), or first. In stats also several K: pass^1..4.", default="mean",
    ),
    "lower_is_better": option(
        "--lower-is-better PATTERN...",
        "Metrics whose lower scores are better, besides those whose records say so: a pattern of "
        "metrics, evaluations, or EVALUATION/METRIC. May be repeated.",
    ),
    "metrics": option(
        "--metrics judgements|all",
        "Which metrics to show if --metric names none: those that judge answers, or also costs "
        "and bookkeeping.",
    ),
    "min_coverage": option(
        "--min-coverage PERCENT",
        "Rank only models that answered this percentage of the questions.", default=50.0,
    ),
    "p": option(
        "--p P", "Significance level: changes with a smaller p-value are more than chance.",
        default=0.05,
    ),
    "primary": option(
        "--primary EVALUATION=METRIC...",
        "The primary metric of an evaluation, if it is another than its records say; both may be "
        "patterns. May be repeated.",
    ),
    "prices": option(
        "--prices FILE",
        "Show what answers cost, at the prices per million tokens of this TOML file.",
    ),
    "confidence": option(
        "--confidence FIELD",
        "Compare the confidence of answers with how often they are right: a field such as "
        "metadata.confidence, or a metric; FIELD:100 if it is from 0 to 100.",
    ),
    "group_by": option(
        "--group-by FIELD...",
        "Also show each group of records with the same value of this field, such as "
        "metadata.subject; FIELD:4 makes 4 bins of numbers. May be repeated.",
    ),
    "cluster": option(
        "--cluster FIELD",
        "Compute standard errors, intervals and tests over clusters of questions with the same "
        "value of this field, such as metadata.passage, instead of over questions.",
    ),
    "hash_algorithm": option("--hash-algorithm sha256|xxh3_128", "Algorithm of sample_hash."),
    "repair": option(
        "--repair NAMES...",
        "Repair what known producers get wrong: all, or comma-separated names of repairs; may be "
        "repeated.", type=Checked("names", _check_repairs),
    ),
}  # fmt: skip
