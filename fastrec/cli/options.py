"""Types of option values, and the options that several commands share."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import cleandoc
from pathlib import Path, PurePosixPath
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import print_notice
from fastrec.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# A scheduler such as Slurm, systemd, Docker or Kubernetes limits the memory of a control group. The
# group of this process may have no limit of its own and be inside a group that has one, so the
# smallest limit on the way up counts. There are two versions of control groups, and a machine may
# have both:
#
#     /proc/self/cgroup                   0::/job_7/step_0        version 2
#                                         4:memory:/job_7         version 1
#     /proc/self/mountinfo                where the groups are mounted, and which group is the root of the mount
#     /sys/fs/cgroup/job_7/memory.max     the limit: a number of bytes, or `max`

_LEAST_MEMORY: Final = 1 << 30
_LIMITS: Final = {
    "cgroup2": "memory.max",
    "cgroup": "memory.limit_in_bytes",
}  # files, by the type of the file system
_USUAL_MOUNTS: Final = (
    ("cgroup2", "/", "/sys/fs/cgroup"),
    ("cgroup2", "/", "/sys/fs/cgroup/unified"),
    ("cgroup", "/", "/sys/fs/cgroup/memory"),
)


def limit_memory(jobs: int) -> None:
    """Limit this process and its workers to equal shares of 90 % of the memory that they may use.

    A line that needs more ends in a MemoryError that names its shard. Without the limit, the
    machine would swap, or the system would kill a worker.
    """
    try:
        import resource

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        cap = max(min(total, cgroup_limit() or total) * 9 // 10 // jobs, _LEAST_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (cap if hard < 0 else min(cap, hard), hard))
    except (ImportError, OSError, ValueError):  # the system has no such limits
        return


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """Return the smallest limit of the control group of this process and of the groups around it.

    None if none is set.

    `root` is the root of the file system; tests pass another one.
    """
    groups: dict[
        str, str
    ] = {}  # of this process, that can limit memory, by the type of their file system
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            groups["cgroup2" if number == "0" else "cgroup"] = path
    limits: list[int] = []
    for kind, top, mount in _mounts(root):
        if kind not in groups:
            continue
        place = root / mount.lstrip("/")
        group = PurePosixPath(groups[kind])
        is_outside = ".." in group.parts or not group.is_relative_to(top)  # as in some containers
        inside = PurePosixPath() if is_outside else group.relative_to(top)
        for group in (inside, *inside.parents):
            # There is no number if the group is not visible here, or if its limit is `max`.
            limits += [
                int(line) for line in _lines(place / group / _LIMITS[kind]) if line.isdecimal()
            ]
    return min(limits, default=None)


def _mounts(root: Path) -> Sequence[tuple[str, ...]]:
    """List where groups are mounted: type of the file system, the group at the root of the mount, the directory."""
    found = []
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            # Octal escapes such as \040 stand for spaces and the like.
            paths = [
                re.sub(r"\\([0-7]{3})", lambda one: chr(int(one[1], 8)), path)
                for path in before.split(" ")
            ]
            found.append((kind, *paths[3:5]))
    return found or _USUAL_MOUNTS


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or no such group
        return []


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
    name = "integer"  # that of `click.IntRange` would be in errors: "not a valid integer range"


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


def command(
    short_help: str,
    *,
    ok: str = "done",
    check: str = "",
    usage: str = "the command line is wrong",
    failure: str = "",
    interrupted: str = "",
) -> Callable[[_Command], click.Command]:
    """Make a command.

    Its help is the docstring, with the meaning of the exit codes before the examples.

    A docstring that has the exit codes stays as it is.
    """
    codes = {"0": ok, "1": check, "2": usage, "3": failure, "130": interrupted}

    def make(function: _Command) -> click.Command:
        help_text = cleandoc(function.__doc__ or "")
        if "Exit codes:" not in help_text:
            spell = partial(fill, width=78, subsequent_indent=" " * 8)
            rows = [
                spell(text, initial_indent=f"  {code:<6}") for code, text in codes.items() if text
            ]
            help_text = help_text.replace(
                "\b\nExamples:", "\n".join(["\b\nExit codes:", *rows, "", "\b\nExamples:"])
            )
        made = click.command(short_help=short_help, help=help_text)(function)
        text = "With -vv, print a traceback for unexpected errors."
        made.params.append(
            click.Option(["-v", "--verbose"], count=True, expose_value=False, help=text)
        )
        return made

    return make


def option(names: str, text: str, **more: Any) -> _Decorator:
    """Make an option.

    Of its names, separated by spaces, the one without dashes is the parameter of the function.
    """
    if "default" in more:
        more.setdefault("show_default", True)
    return click.option(*names.split(), help=text, **more)


def flag(names: str, text: str, **more: Any) -> _Decorator:
    return option(names, text, is_flag=True, **more)


def choice_option(names: str, choices: Sequence[str], text: str, **more: Any) -> _Decorator:
    """Make an option with fixed values; the first is the default."""
    return option(names, text, type=click.Choice(choices), default=choices[0], **more)


def format_option(*formats: str, text: str = "Output format.") -> _Decorator:
    return choice_option("--format output_format", formats, text)


def shared(*names: str) -> _Decorator:
    """Add parameters that several commands have, in the order of their names."""
    return together(*(_SHARED[name] for name in names))


def together(*options: _Decorator) -> _Decorator:
    def add(function: _Command) -> _Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _cores() -> int:
    from fastrec.limits import all_cores

    return all_cores()


def prepare_reading(jobs: int, paths: Sequence[str] = ()) -> None:
    """Limit memory.

    Tell a user whose terminal is read as standard input, since the command seems to hang.
    """
    if "-" in paths and sys.stdin is not None and sys.stdin.isatty():
        print_notice("reading from this terminal: type or paste lines, and end with Ctrl-D")
    limit_memory(jobs)


# The shell completes names from the summary of the corpus in the command line. If there is none, or
# if it cannot be read at once, there are no completions: a shell must never wait, or show an error,
# because of a Tab.

_LARGEST: Final = 64 << 20  # bytes of a summary that is read for completion
_MOST: Final = 1000  # completions


def given_filters(options: Mapping[str, Any]) -> bool:
    from fastrec.filters import Filters

    return any(options[name] for name in Filters.__struct_fields__)


def complete_names(
    kind: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes the names of one kind: `evaluations`, `metrics` or `models`."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # An option without its value, which is the one to complete, keeps click from naming the
        # arguments before it.
        arguments = [
            one.name or "" for one in context.command.params if isinstance(one, click.Argument)
        ]
        given = [*map(context.params.get, arguments), *context.args]
        corpora = [
            one
            for value in given
            for one in (value if isinstance(value, (list, tuple)) else [value])
        ]
        names = sorted(
            {name for one in corpora if isinstance(one, str) for name in _names(one, kind)}
        )
        words = [word for name in names if name.startswith(incomplete) and (word := _word(name))]
        return [CompletionItem(word) for word in words[:_MOST]]

    return complete


def _names(corpus: str, kind: str) -> list[str]:
    """Return the names of one kind in the summary of a corpus.

    None if there is no summary, or if it is damaged.
    """
    import msgspec

    from fastrec.summary.present_choice import names_in

    with contextlib.suppress(OSError, ValueError, RuntimeError, msgspec.MsgspecError):
        path = Path(corpus).expanduser() / "summary.json"
        if path.is_file() and path.stat().st_size <= _LARGEST:
            return [name for name in getattr(names_in(path.read_bytes()), kind) if name]
    return []


_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
_QUOTABLE: Final = re.compile(r"[^'\\*?\[\]]+")


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


def pattern_option(name: str, text: str, kind: str | None = None) -> _Decorator:
    complete = complete_names(kind) if kind else None
    return option(name, text, multiple=True, metavar="PATTERN", shell_complete=complete)


_FILTERS: Final = (
    pattern_option("--evaluation", "Only records whose evaluation_name matches, such as 'mmlu*'. "
"Options with a "
                    "PATTERN may be repeated; one match is enough.", "evaluations"),
    pattern_option("--metric", "Only records whose evaluation_result_id matches.", "metrics"),
    pattern_option("--model", "Only records whose model_id matches, such as 'org/*'.", "models"),
    pattern_option("--sample-id", 'Only records whose sample_id matches; 5 matches the integer 5 '
'and the string "5".'),
    pattern_option("--hash", "Only records whose sample_hash matches: all answers to a question."),
    pattern_option("--exclude-evaluation", "Leave out records whose evaluation_name matches.", "evaluations"),
    pattern_option("--exclude-model", "Leave out records whose model_id matches.", "models"),
    flag("--right", "Only right answers. If several of --right, --wrong and --errors are given, "
"any may match."),
    flag("--wrong", "Only wrong answers."),
    flag("--errors", "Only records with an error, which are neither right nor wrong."),
    option("--where", "Only records with such a field: 'metadata.subject=law', "
"'token_usage.total_tokens>500', "
           "'output.raw~sorry' (contains), 'error?' (is there), '!error?' (is not). May be "
"repeated; all must hold.",
           multiple=True, metavar="CONDITION"),
)  # fmt: skip
_jobs: Final = option("-j --jobs", "Number of processes. Small inputs always use one.", type=Count(min=1), metavar="N",
                      envvar="FASTREC_JOBS", show_envvar=True, default=_cores, show_default="all cores")  # fmt: skip
_no_progress: Final = flag("--no-progress", "Do not show progress on a terminal.",
                           envvar="FASTREC_NO_PROGRESS", show_envvar=True)  # fmt: skip
_SHARED: Final[dict[str, _Decorator]] = {
    "corpus": click.argument("corpus", type=click.Path()),
    "paths": click.argument("paths", nargs=-1, type=click.Path()),
    "filters": together(*_FILTERS),
    "jobs": _jobs,
    "no_progress": _no_progress,
    "run": together(_jobs, _no_progress),
    "reading": together(
        option("--files-from", "Read more paths from this file (- for stdin), one per line.",
               type=click.Path(), metavar="FILE"),
        option("--max-line-bytes", "Longer lines are invalid.", type=Size(), default="1GiB"),
        option("--max-window", "Largest zstd window.", type=Size(), default="128MiB"),
    ),
    "findings_format": format_option(
        "text", "json", "github", text="Output format; github prints annotations of a GitHub "
"workflow."
    ),
    "json": flag("--json as_json", "Print the result as JSON on stdout."),
    "raw_cells": flag("--raw-cells", "CSV: do not put a single quote before text that a "
"spreadsheet would take for a "
                      "formula."),
    "accuracy": flag("--accuracy", "Show the accuracy even where scores are other than 0 and 1."),
    "errors_as_wrong": flag("--errors-as-wrong", "Count records with an error as wrong answers. "
"By default they do "
                            "not count."),
    "repeats_as": option("--repeats-as", "What several answers of a model to a question become: "
"mean, pass@K (one of K "
                         "is right), pass^K (all of K are), majority (of the extracted answers, "
"or else of the "
                         "outputs; a tie is wrong), or first.", metavar="HOW", default="mean"),
    "lower_is_better": option("--lower-is-better", "Metrics whose lower scores are better, "
"besides those whose records "
                              "say so: a pattern of metrics, evaluations, or EVALUATION/METRIC. "
"May be repeated.",
                              multiple=True, metavar="PATTERN"),
    "metrics": choice_option("--metrics", ["judgements", "all"], "Which metrics to show if "
"--metric names none: those "
                             "that judge answers, or also costs and bookkeeping."),
    "min_coverage": option("--min-coverage", "Rank only models that answered this percentage of "
"the questions.",
                           type=Number(min=0, max=100), default=50.0, metavar="PERCENT"),
    "primary": option("--primary", "The primary metric of an evaluation, if it is another than "
"its records say; both "
                      "may be patterns. May be repeated.", multiple=True, metavar="EVALUATION=METRIC"),
    "prices": option("--prices", "Show what answers cost, at the prices per million tokens of "
"this TOML file.",
                     type=click.Path(), metavar="FILE"),
    "group_by": option("--group-by", "Also show each group of records with the same value of this "
"field, such as "
                       "metadata.subject; FIELD:4 makes 4 bins of numbers. May be repeated.",
                       multiple=True, metavar="FIELD"),
    "repair": option("--repair", "Repair what known producers get wrong: all, or comma-separated "
"names of repairs; may "
                     "be repeated.", type=Checked("names", _check_repairs), multiple=True, metavar="NAMES"),
}  # fmt: skip
