"""The command line: the only place that prints or exits.

Each command imports its implementation when it runs.
"""

import atexit
import gc
import os
import signal
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import Any

import click

from fastrec._version import __version__
from fastrec.cli.console import allow_broken_pipe, print_error, print_stderr, safe
from fastrec.errors import NO_MEMORY, FastrecError, did_you_mean, is_out_of_memory, shown

# The commands under the headings of the help, each with its module in `fastrec.cli`.
COMMANDS = {
    "Make": {
        "normalize": "normalize",
        "import": "import_logs",
        "score": "results",
        "generate": "tools",
    },
    "Ask": {
        "stats": "stats",
        "leaderboard": "overviews",
        "questions": "overviews",
        "compare": "answers",
        "items": "results",
        "overlap": "results",
        "costs": "results",
        "calibration": "results",
        "corrected": "results",
        "sql": "forms",
    },
    "Over time": {"diff": "diff", "trend": "overviews"},
    "Look": {"show": "answers", "view": "forms", "report": "forms"},
    "Check": {
        "validate": "checks",
        "verify": "checks",
        "rejects": "checks",
        "check-pairs": "checks",
    },
    "Take out": {"cat": "answers", "export": "forms"},
    "Upkeep": {"clean": "tools", "schema": "tools", "completion": "tools"},
}

_MODULES = {name: module for commands in COMMANDS.values() for name, module in commands.items()}
_received: list[int] = []  # the signals that ended the command
_raised: list[weakref.ref[BaseException]] = []  # what the handlers raised, until `main` caught it
_BUG = "This is a bug in fastrec. Run the command again with -vv, and report the output."


def python_name(command: str) -> str:
    """Return the name of the function of a command; `import` is a keyword of Python.

    >>> python_name("verify"), python_name("check-pairs"), python_name("import")
    ('verify', 'check_pairs', 'import_logs')
    """
    return "import_logs" if command == "import" else command.replace("-", "_")


@contextmanager
def _handle_broken_pipes() -> Iterator[None]:
    """Ignore a broken pipe while help is printed, and report any other.

    click would exit 1 without a message.
    """
    try:
        yield
    except OSError as exc:
        if {"-h", "--help", "--version"} & set(sys.argv[1:]):
            with allow_broken_pipe():
                raise
            raise click.exceptions.Exit(0) from exc
        if isinstance(exc, BrokenPipeError):
            raise FastrecError(f"{exc.filename or 'a pipe'}: {exc.strerror}") from exc
        raise


class _Commands(click.Group):
    """The commands. The module of a command is imported when needed, so that the start is fast."""

    make_context = _handle_broken_pipes()(click.Group.make_context)
    invoke = _handle_broken_pipes()(click.Group.invoke)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"fastrec.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, python_name(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        from fastrec.cli.options import parameter_tables

        width = max(map(len, _MODULES))
        for heading, modules in COMMANDS.items():
            rows = [
                (name.ljust(width), parameter_tables(module)[python_name(name)]["summary"])
                for name, module in modules.items()
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        word = args[0]
        if word not in _MODULES and not word.startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(word, (*_MODULES, "--help"))
            hint = hint or f"; the commands are {', '.join(_MODULES)}"
            raise click.UsageError(f"there is no command {word!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fastrec")
@click.option(
    "--config", type=click.Path(), metavar="FILE", envvar="FASTREC_CONFIG", show_envvar=True,
    show_default="fastrec.toml, or [tool.fastrec] in pyproject.toml", help="Settings file.",
)  # fmt: skip
@click.pass_context
def cli(context: click.Context, config: str | None) -> None:
    """Turn piles of compressed JSONL evaluation records into one clean, sorted, comparable corpus.

    \b
    Examples:
      fastrec generate -n 2000 -o runs/      # make synthetic shards to try it on
      fastrec validate runs/                 # check every record in a directory
      fastrec normalize runs/ -o corpus      # make one clean, sorted corpus
      fastrec stats corpus                   # compare models on each evaluation
      fastrec questions corpus               # the hardest questions (or `view`)
      fastrec report corpus -o report.html   # show the corpus on one HTML page

    \b
    Settings, in fastrec.toml, or in pyproject.toml under [tool.fastrec]:
      jobs = 4                  # for every command that has this option
      [normalize]
      max-rejects = "0.1%"

    \b
    Environment:
      FASTREC_CONFIG            same as --config
      FASTREC_JOBS              same as --jobs
      FASTREC_MEMORY            same as --memory
      FASTREC_WORK_DIR          same as --work-dir
      FASTREC_ENGINE            same as --engine
      FASTREC_SCHEDULER         same as --scheduler
      FASTREC_NO_PROGRESS=1     same as --no-progress
      FASTREC_STATE             directory of the list of published corpora, and
                                of the history of sql
      NO_COLOR=1                no colours

    \b
    Exit codes:
      0     done
      1     done, but a check failed: lines were rejected or are invalid, a
            corpus was refused or is damaged, or a model regressed
      2     nothing done: the command line is wrong or names a missing file
      3     failed, nothing published: something could not be read or written
      130   interrupted; the next run reuses finished work
      143   terminated; the next run reuses finished work
    """
    if os.environ.get("NO_COLOR"):
        context.color = False
    if context.invoked_subcommand:
        from fastrec.cli.settings import read_settings

        context.default_map = read_settings(config, context)


class _WithoutPandas:
    """Keeps pyarrow from importing pandas where it is installed, which takes half a second.

    No command needs it.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("commands do without pandas", name=name)


def script() -> None:
    """Run the command line as a program of its own, and end the process.

    It ends without freeing all objects one by one, which takes as long as importing click. What
    modules have registered to be done at exit is done.
    """
    _open_closed_streams()
    # Allocations between two collections: with 700 or 50,000, collecting takes 10 % of the start.
    gc.set_threshold(200_000)
    # The library below numpy would have a thread for each core, which wait for work in a loop.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, _WithoutPandas)
    try:
        main()
    except SystemExit as exc:
        if not isinstance(exc.code, int):
            raise
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way
        code = exc.code
        try:
            sys.stdout.flush()
        except (OSError, ValueError) as problem:
            code = code or _fail(3, f"standard output: {problem}", problem)  # else it was reported
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _open_closed_streams() -> None:
    """Open the standard streams that are closed (`2>&-`), so that no other file gets their numbers.

    The first two have the wrong direction: reading from a closed stdin, and printing a result to a
    closed stdout, is an error. Messages to a closed stderr are lost.
    """
    for name, mode in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            # The lowest free number, which is that of the stream.
            number = os.open(os.devnull, mode)
            os.set_inheritable(number, True)
            direction = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, direction, encoding="utf-8"))  # noqa: SIM115 - it stays open


def main() -> None:
    """Run the command line.

    This is the only place that turns errors into messages and exit codes.
    """
    # A panic that runs out of memory while it prints a backtrace waits for ever.
    os.environ["RUST_BACKTRACE"] = "0"
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs ignore SIGINT
        signal.signal(signal.SIGINT, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # The terminal may not support all characters.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli(standalone_mode=False) or 0
    except click.ClickException as exc:
        code = _print_usage_error(exc)
    except (click.Abort, KeyboardInterrupt) as exc:
        code = _fail(130, "interrupted", exc.__cause__ or exc)
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
        if code == 128 + signal.SIGTERM:
            _fail(code, "terminated", exc)
    except FastrecError as exc:
        code = _fail(exc.exit_code, str(exc), exc)
    except Exception as exc:  # noqa: BLE001 - a bug, if it is none of these
        code = _fail(3, _problem(exc), exc)
        if {"-vv", "-vvv"} & set(sys.argv[1:]) and not isinstance(exc, (OSError, MemoryError)):
            import traceback

            traceback.print_exc()
    _set_signal_handlers(signal.SIG_IGN)  # nothing is left to stop, and the exit code is final
    if _received:  # the signal may have left anything half-done, so skip Python's cleanup at exit
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _problem(exc: Exception) -> str:
    """Describe an error of the operating system, lack of memory, or a bug."""
    file = ""
    if isinstance(exc, OSError) and isinstance(exc.filename, (str, bytes)):
        file = f"{shown(os.fsdecode(exc.filename))}: "
    if is_out_of_memory(exc):
        return f"{file}this {NO_MEMORY}"
    if isinstance(exc, OSError):
        return f"{file}{exc.strerror or exc}"
    return f"unexpected error: {type(exc).__name__}: {exc}\n{_BUG}"


def _fail(code: int, problem: str, error: BaseException) -> int:
    if _received:  # an interrupt can surface as another error, for example while a lock is taken
        code = 128 + _received[0]
        problem = "interrupted" if _received[0] == signal.SIGINT else "terminated"
    _set_signal_handlers(signal.SIG_DFL)
    print_error("\n".join([problem, *getattr(error, "__notes__", ())]))
    return code


def _print_usage_error(exc: click.ClickException) -> int:
    """Print click's message about the command line, with usage and hints, but escaped."""
    text = StringIO()
    exc.show(text)
    usage, has_error, problem = text.getvalue().rstrip("\n").rpartition("Error: ")
    if not has_error:  # without arguments, click shows only the help
        usage = problem
    for line in usage.splitlines():
        print_stderr(safe(line))
    if has_error:
        print_error(problem.replace("\n\t", "\n  "))
    return 2


def _set_signal_handlers(handler: signal.Handlers) -> None:
    """Replace our handlers, so that a late signal does not end in a traceback."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    _raised.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


class _Interrupted(KeyboardInterrupt):
    """Raised by Ctrl-C."""


class _Terminated(SystemExit):
    """Raised by SIGTERM.

    It runs every `finally` and `with`, which remove temporary files and stop workers.
    """


def _stop(signum: int, _frame: object) -> None:
    _received.append(signum)
    error = _Terminated(128 + signum) if signum == signal.SIGTERM else _Interrupted()
    if signum == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process at once
    _raised.append(weakref.ref(error, lambda _: _stop_again(signum)))
    try:
        raise error
    finally:
        del error  # else its traceback, which holds this frame, would keep it alive


def _stop_again(signum: int) -> None:
    """Stop a moment later: the exception was dropped.

    msgspec drops every exception while it builds a decoder.
    """
    signal.signal(signal.SIGALRM, lambda _number, frame: _stop(signum, frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
