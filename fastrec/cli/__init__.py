"""The command line: the only place that prints or exits.

Each command imports its implementation when it runs.

Settings are defaults of options. They are in `fastrec.toml`, or in `pyproject.toml` under
`[tool.fastrec]`, in the current directory. A table has the settings of one command; settings
outside of tables are for every command that has the option. The command line overrides the
environment (FASTREC_JOBS and others), which overrides the settings. A file that the user has not
named may come with somebody else's directory, so it cannot choose where the work is done.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import weakref
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from fastrec._version import __version__
from fastrec.cli.console import allow_broken_pipe, print_error, print_stderr, safe
from fastrec.errors import NO_MEMORY, FastrecError, UsageError, is_out_of_memory, shown


def _read_settings(path: str | None, context: click.Context) -> dict[str, dict[str, Any]]:
    """Read the settings.

    Return for each command the values of its parameters, as click expects its defaults.
    """
    file, found = _find(path)
    if not found:  # the commands need not be imported
        return {}
    group = context.command
    assert isinstance(group, click.Group)
    options = {
        name: _options(group.get_command(context, name)) for name in group.list_commands(context)
    }
    tables = {key: value for key, value in found.items() if isinstance(value, dict)}
    shared = {key: value for key, value in found.items() if key not in tables}
    if path is None:
        for table in (shared, *tables.values()):
            _check_trust(file, table)
    _check(file, tables, options, "there is no command")
    _check(
        file, shared, {key for some in options.values() for key in some}, "no command has an option"
    )
    for command, table in tables.items():
        _check(file, table, options[command], f"`fastrec {command}` has no option")
    return {
        command: {
            some[key].name or "": _value(location, key, value, some[key])
            for location, table in (
                (file, shared),
                (f"{file}: [{command}]", tables.get(command, {})),
            )
            for key, value in table.items()
            if key in some
        }
        for command, some in options.items()
    }


def _check(file: str, names: Iterable[str], known: Collection[str], problem: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{file}: {problem} {name!r}{_did_you_mean(name, known)}")


def _check_trust(file: str, names: Collection[str]) -> None:
    """Refuse settings that only the user may choose."""
    for name in ("engine", "scheduler"):
        if name in names:
            raise UsageError(
                f"{file}: a directory cannot choose the {name}: give --{name}, set "
                f"FASTREC_{name.upper()}, or name a "
                "settings file with --config"
            )


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests a known word with a similar spelling.

    Empty if there is none.
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _find(path: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name of the settings file and its content; empty if there is no such file."""
    if path is None and Path("fastrec.toml").exists():
        path = "fastrec.toml"
    if path is not None:
        return shown(path), _read(path)
    if Path("pyproject.toml").exists():
        try:
            tool = _read("pyproject.toml").get("tool", {})
        except UsageError:
            return "", {}  # other tools report a broken pyproject.toml
        if isinstance(tool, dict) and isinstance(tool.get("fastrec"), dict):
            return "[tool.fastrec] in pyproject.toml", tool["fastrec"]
    return "", {}


def _read(path: str) -> dict[str, Any]:
    from fastrec.toml_file import read_toml

    return read_toml(path, "the settings")


def _options(command: click.Command | None) -> dict[str, click.Option]:
    """Return the options of a command by long name, without dashes."""
    options = (
        [option for option in command.params if isinstance(option, click.Option)] if command else []
    )
    return {name[2:]: option for option in options for name in option.opts if name.startswith("--")}


def _value(location: str, key: str, value: Any, option: click.Option) -> Any:
    """Return a value as click expects it from the command line; an error names its location."""
    if option.is_flag != isinstance(value, bool) or isinstance(value, dict):
        expected = "true or false" if option.is_flag else "a string or a number"
        raise UsageError(f"{location}: {key}: expected {expected}, found {value!r}")
    if option.is_flag:
        return value
    if isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))
    given = value if isinstance(value, list) else [value]
    try:
        for one in given:
            option.type(str(one), option, None)
    except click.BadParameter as exc:
        raise UsageError(f"{location}: {key}: {exc.message.rstrip('.')}") from exc
    return tuple(map(str, given)) if option.multiple else str(value)


_COMMANDS = (
    "normalize", "import", "stats", "leaderboard", "view", "report", "diff", "trend", "questions", "show", "compare",
    "overlap", "costs", "calibration",
    "cat", "sql", "export", "verify", "rejects", "validate",
    "check-pairs", "clean", "schema", "generate", "completion",
)  # fmt: skip
_MODULES = {
    **dict.fromkeys(("calibration", "costs", "overlap"), "overlap"),
    **dict.fromkeys(("cat", "compare", "show"), "answers"),
    **dict.fromkeys(("leaderboard", "questions", "trend"), "overviews"),
    **dict.fromkeys(("check_pairs", "rejects", "validate", "verify"), "checks"),
    **dict.fromkeys(("clean", "completion", "generate", "schema"), "tools"),
    **dict.fromkeys(("export", "report", "sql", "view"), "forms"),
    "import_logs": "normalize",
}  # the others are in modules of their own
_received: list[int] = []  # the signals that ended the command
_raised: list[weakref.ref[BaseException]] = []  # what the handlers raised, until `main` caught it
_BUG = "This is a bug in fastrec. Run the command again with -vv, and report the output."


def python_name(command: str) -> str:
    """Return the name of the function of a command.

    >>> python_name("verify"), python_name("check-pairs"), python_name("import")
    ('verify', 'check_pairs', 'import_logs')
    """
    return (
        "import_logs" if command == "import" else command.replace("-", "_")
    )  # `import` is a keyword of Python


@contextlib.contextmanager
def _handle_broken_pipes() -> Iterator[None]:
    """Ignore a broken pipe while help is printed, and report any other: click would exit 1 without a message."""
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
    """The commands in the order of the help.

    Each is a module that is imported when needed: the start is fast.
    """

    make_context = _handle_broken_pipes()(click.Group.make_context)
    invoke = _handle_broken_pipes()(click.Group.invoke)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        name = python_name(cmd_name)
        command: click.Command = getattr(
            import_module(f"fastrec.cli.{_MODULES.get(name, name)}"), name
        )
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            hint = _did_you_mean(args[0], _COMMANDS) or f"; the commands are {', '.join(_COMMANDS)}"
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fastrec")
@click.option("--config", type=click.Path(), metavar="FILE", envvar="FASTREC_CONFIG", show_envvar=True,
              show_default="fastrec.toml, or [tool.fastrec] in pyproject.toml", help="Settings file.")  # fmt: skip
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
        context.default_map = _read_settings(config, context)


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
    gc.set_threshold(
        50_000
    )  # allocations between two collections; with 700, they take 10 % of the start
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
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _open_closed_streams() -> None:
    """Open the standard streams that are closed (`2>&-`), so that no other file gets their numbers.

    The first two have the wrong direction: reading from a closed stdin, and printing a result to a
    closed stdout, is an error. Messages to a closed stderr are lost.
    """
    for name, mode in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            number = os.open(
                os.devnull, mode
            )  # the lowest free number, which is that of the stream
            os.set_inheritable(number, True)
            direction = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, direction, encoding="utf-8"))  # noqa: PTH123, SIM115 - it is no path


def main() -> None:
    """Run the command line.

    This is the only place that turns errors into messages and exit codes.
    """
    os.environ["RUST_BACKTRACE"] = (
        "0"  # a panic that runs out of memory while it prints a backtrace waits for ever
    )
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs ignore SIGINT
        signal.signal(signal.SIGINT, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # the terminal may not support all characters
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
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _problem(exc: Exception) -> str:
    """Describe an error that is not of our family: of the operating system, lack of memory, or a bug."""
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
    text = io.StringIO()
    exc.show(text)
    usage, found, problem = text.getvalue().rstrip("\n").rpartition("Error: ")
    for line in (
        usage if found else problem
    ).splitlines():  # without arguments click shows only the help
        print_stderr(safe(line))
    if found:
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
    """Stop a moment later: the exception was dropped. msgspec drops every exception while it builds a decoder."""
    signal.signal(signal.SIGALRM, lambda _number, frame: _stop(signum, frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
