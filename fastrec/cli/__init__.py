"""The command line: the only place that prints or exits. Each command is thin and imports its job when it runs."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import click

from fastrec._version import __version__
from fastrec.cli.console import print_error, reader_may_leave, safe, say
from fastrec.cli.settings import did_you_mean, read_settings
from fastrec.errors import FastrecError, shown

__all__ = ["cli", "main"]

_COMMANDS = (
    "normalize",
    "stats",
    "report",
    "diff",
    "cat",
    "export",
    "verify",
    "rejects",
    "validate",
    "schema",
    "generate",
    "completion",
)
_received: list[int] = []
"""The signals that ended the command."""
_DETAILS = {"-vv", "-vvv"}
_HELP = {"-h", "--help", "--version"}
_DEFECT = "It is a defect of fastrec. Run the command again with -vv, and report what it prints."


@contextlib.contextmanager
def _pipes_may_break() -> Iterator[None]:
    """Let whoever reads the help leave; of another broken pipe click would say nothing, and end with exit code 1."""
    try:
        yield
    except BrokenPipeError as exc:
        if not _HELP & set(sys.argv[1:]):
            raise FastrecError(f"{exc.filename or 'a pipe'}: {exc.strerror}") from exc
        with reader_may_leave():
            raise
        raise click.exceptions.Exit(0) from exc


class _Commands(click.Group):
    """The commands, in the order of their use; a wrong name is answered with one that is spelled alike.

    Each is a module of its own, which is loaded when it is asked for: ten lines are normalized in a fifth of a second.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"fastrec.cli.{cmd_name}"), cmd_name)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _pipes_may_break():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _pipes_may_break():
            return super().invoke(ctx)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
                hint = did_you_mean(args[0], _COMMANDS) or f": there are {', '.join(_COMMANDS)}"
                raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx) from exc
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fastrec")
@click.option("--config", type=click.Path(), metavar="FILE", envvar="FASTREC_CONFIG", show_envvar=True,
              show_default="fastrec.toml, or [tool.fastrec] in pyproject.toml", help="File with settings.")  # fmt: skip
@click.pass_context
def cli(context: click.Context, config: str | None) -> None:
    """Turn piles of compressed JSONL evaluation records into one clean, sorted, comparable corpus.

    \b
    Examples:
      fastrec generate -n 2000 -o runs/      # synthetic shards, to try it on
      fastrec validate runs/                 # check every record in a directory
      fastrec normalize runs/ -o corpus      # make one clean, sorted corpus
      fastrec stats corpus                   # compare models on each evaluation
      fastrec report corpus -o report.html   # show it all on one page

    \b
    Settings, in fastrec.toml, or in pyproject.toml under [tool.fastrec]:
      jobs = 4                  # for every command that has this option
      [normalize]
      max-rejects = "0.1%"

    \b
    Environment:
      FASTREC_CONFIG            as --config
      FASTREC_JOBS              as --jobs
      FASTREC_MEMORY            as --memory
      FASTREC_WORK_DIR          as --work-dir
      FASTREC_ENGINE            as --engine
      FASTREC_SCHEDULER         as --scheduler
      FASTREC_NO_PROGRESS=1     as --no-progress
      NO_COLOR=1                no colours

    \b
    Exit codes:
      0     done
      1     done, but lines were rejected or invalid, a corpus is damaged,
            or a model regressed
      2     nothing done: the command line is wrong, or names what is not there
      3     nothing published: something could not be read or written
      130   interrupted; what was finished is kept for the next run
      143   terminated; the same
    """
    if os.environ.get("NO_COLOR"):
        context.color = False
    if context.invoked_subcommand:
        loaders = {name: partial(cli.get_command, context, name) for name in _COMMANDS}
        context.default_map = read_settings(config, loaders)


def main() -> None:
    """Run the command line; every error of ours ends in a message and its exit code, here and nowhere else."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an old terminal cannot show all that we print
    try:
        code = cli(standalone_mode=False) or 0
    except click.ClickException as exc:
        code = _explain(exc)
    except (click.Abort, KeyboardInterrupt) as exc:
        code = _fail(130, "interrupted", exc.__cause__ or exc)
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
        if code == 128 + signal.SIGTERM:
            _fail(code, "terminated", exc)
    except FastrecError as exc:
        code = _fail(exc.exit_code, str(exc), exc)
    except OSError as exc:
        place = f"{shown(os.fsdecode(exc.filename))}: " if isinstance(exc.filename, (str, bytes)) else ""
        code = _fail(3, f"{place}{exc.strerror or exc}", exc)
    except MemoryError as exc:
        code = _fail(3, "there is not enough memory: try fewer --jobs", exc)
    except Exception as exc:  # noqa: BLE001 - a defect of ours; a traceback helps those who mend it, if they ask for it
        code = _fail(3, f"this should not happen: {type(exc).__name__}: {exc}\n{_DEFECT}", exc)
        if _DETAILS & set(sys.argv[1:]):
            import traceback

            traceback.print_exc()
    _heed_no_signals(signal.SIG_IGN)  # there is nothing left to stop, and the exit code is what came of it
    if _received:  # in the middle of anything, so what would be tidied up at the exit may be in disorder
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _fail(code: int, problem: str, error: BaseException) -> int:
    if _received:  # in the middle of a lock, say, the interrupt comes out as another error
        code, problem = 128 + _received[0], "interrupted" if _received[0] == signal.SIGINT else "terminated"
    _heed_no_signals(signal.SIG_DFL)
    print_error("\n".join([problem, *getattr(error, "__notes__", ())]))
    return code


def _explain(exc: click.ClickException) -> int:
    """Say what is wrong with the command line in click's words, usage and hints included, but nothing raw."""
    text = io.StringIO()
    exc.show(text)
    *usage, problem = text.getvalue().rstrip("\n").rsplit("Error: ", 1)
    if not usage:  # nothing was asked for, so it is the help that is shown
        for line in problem.split("\n"):
            say(safe(line))
        return 2
    for line in "".join(usage).split("\n")[:-1]:
        say(safe(line))
    print_error(problem.replace("\n\t", "\n  "))
    return 2


def _heed_no_signals(instead: signal.Handlers) -> None:
    """All is done: a signal from here on does not end in a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, instead)


def _terminate(signum: int, _frame: object) -> None:
    _received.append(signum)
    sys.exit(128 + signum)  # through every `finally` and `with`: no scratch files and no workers stay behind


def _interrupt(signum: int, _frame: object) -> None:
    _received.append(signum)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one does not wait for anything
    raise KeyboardInterrupt
