"""Settings shared by all tests, and the real records where they lie beside the checkout."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import sys
import tempfile
import tomllib
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from fastrec.commands.generate import evaluation as words
from fastrec.commands.generate import text
from fastrec.normalize import options
from tests.sizes import LONG, WAYS, covering, examples, in_sample

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

ROOT = Path(__file__).parents[1]

# The same examples in every run, so that a red build is red again; FUZZ=1 looks for new ones.
settings.register_profile(
    "fastrec",
    deadline=None,
    max_examples=examples(6, 500),
    derandomize=not os.environ.get("FUZZ"),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)
settings.load_profile("fastrec")

# A shell ignores SIGINT for a command in the background, and so would all commands that the tests
# start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some say that nothing be compiled to files; hundreds of processes that compile it all again take a
# minute.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The phrases of one seed take 0.2 s. A program needs one seed, the tests take turns with a dozen.
words.phrase_tables = cache(text.phrase_tables.__wrapped__)


def _memory_for_files() -> Path | None:
    """A directory in memory for temporary files: creating one on a disk takes up to twenty times
    longer.

    The tests need up to 1 GB in it, and run programs from it.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(memory)
    free = found.f_bavail * found.f_frsize
    return None if free < 4 << 30 or found.f_flag & os.ST_NOEXEC else memory


if directory := _memory_for_files():
    os.environ["TMPDIR"] = str(directory)
    tempfile.tempdir = None  # look at the environment again


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of tests/sizes.py."""
    config.addinivalue_line(
        "markers", "each_value: try each value of each parameter, unless LONG_TESTS is set"
    )
    config.addinivalue_line(
        "markers", "imports_dask: run it last, since no later test can fork workers"
    )
    config.addinivalue_line("markers", "long_only: leave it out, unless LONG_TESTS is set")
    config.addinivalue_line(
        "markers", "pairwise: try each pair of values of two parameters, unless LONG_TESTS is set"
    )


def pytest_collection(session: pytest.Session) -> None:
    """Let each process of `--numprocesses` begin with files of its own.

    In a new clone all files have to be compiled. Processes that import them in the same order all
    compile each of them.
    """
    if worker := getattr(session.config, "workerinput", None):
        number = int(worker["workerid"].removeprefix("gw"))
        count = worker["workercount"]
        files = [
            path for name in session.config.args for path in sorted(Path(name).rglob("test_*.py"))
        ]
        for path in files[number::count]:
            with contextlib.suppress(
                Exception, pytest.skip.Exception
            ):  # collecting it says what is wrong
                importlib.import_module(
                    ".".join(path.resolve().relative_to(ROOT.resolve()).with_suffix("").parts)
                )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are too long for `make test`, and cases of tests with these marks that
    have nothing new.
    """
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in () if LONG else items:
        if ways := max(
            (WAYS[mark.name] for mark in item.iter_markers() if mark.name in WAYS), default=0
        ):
            groups.setdefault((item.nodeid.partition("[")[0], ways), []).append(item)
    left_out = set() if LONG else {item for item in items if item.get_closest_marker("long_only")}
    for (name, ways), group in groups.items():
        kept = covering(list(map(_values, group)), ways, name)
        left_out |= {item for number, item in enumerate(group) if number not in kept}
    left_out |= {item for item in items if not in_sample(item.nodeid)}
    items.sort(key=lambda item: item.get_closest_marker("imports_dask") is not None)
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


def _values(item: pytest.Item) -> dict[str, int]:
    """The value of each parameter of a test, as a number.

    Names in one `parametrize` are one parameter.
    """
    values: dict[str, object] = dict(item.callspec.params)  # type: ignore[attr-defined]
    together = {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        together |= {name.strip(): mark.args[0] for name in names}
    found: dict[str, int] = {}
    for name, value in values.items():
        key = str(together.get(name, name))
        found[key] = hash((found.get(key), id(value)))
    return found


def pytest_collection_finish() -> None:
    """Let the garbage collector skip the objects of all tests, which it would visit thousands of
    times, and come less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def pytest_unconfigure() -> None:
    """Let the interpreter free them in the end; some libraries complain otherwise."""
    gc.unfreeze()
    for error in _internal_errors[:1]:
        sys.stderr.write(f"The first internal error, again:\n{error[-_ERROR_CHARS:]}\n")


_internal_errors: list[str] = []
_ERROR_CHARS = 3_000


def pytest_internalerror(excrepr: object) -> None:
    """Keep errors of the test runner, to print the first one at the end: others follow from it."""
    _internal_errors.append(str(excrepr))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line what was skipped, and why, which says how to get it."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    if reasons:
        named = "; ".join(f"{number} × {reason}" for reason, number in reasons.most_common())
        terminalreporter.write_line(f"{len(reports)} skipped: {named}")


@pytest.fixture(scope="session", autouse=True)
def _no_flush_to_disk() -> Iterator[None]:
    """Leave out fsync in this process and its forks: it only matters after a power failure, and
    takes 5 ms each time.

    Tests that let it fail replace it again. Commands in processes of their own still call it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _state_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the list of published corpora in a temporary directory, not in that of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTREC_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _toml_is_parsed_once() -> Iterator[None]:
    """Parse the same TOML text once: each command looks for settings in our own pyproject.toml,
    which takes 3 ms.
    """
    pickled = cache(lambda text: pickle.dumps(tomllib.loads(text)))
    parsing = types.SimpleNamespace(loads=lambda text: pickle.loads(pickled(text)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastrec.toml_file.tomllib", parsing)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_memory_limit() -> Iterator[None]:
    """Let commands in this process set no memory limit: the test runner, which is much larger,
    would run out of memory.

    Commands in processes of their own still set it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastrec.cli.memory.limit_memory", lambda _jobs: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_job() -> Iterator[None]:
    """Run `normalize` in this process unless a test asks for more: injected faults reach it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "CORES", 1)
        yield


@pytest.fixture(autouse=True)
def _process_is_left_as_it_was() -> Iterator[None]:
    """Fail if a test leaves a limit, a signal handler or the working directory changed: later tests
    would suffer.
    """
    before = _process_state()
    yield
    assert _process_state() == before


def _process_state() -> dict[str, object]:
    state: dict[str, object] = {"directory": Path.cwd()}
    state |= {str(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if resource:
        limits = (
            resource.RLIMIT_AS,
            resource.RLIMIT_DATA,
            resource.RLIMIT_FSIZE,
            resource.RLIMIT_NOFILE,
        )
        state |= {f"limit {number}": resource.getrlimit(number) for number in limits}
    return state


@pytest.fixture(autouse=True)
def _forked_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork the workers of pools, as the command does, although the test runner has threads: 1 s
    less for each pool.

    Not where workers use libraries with threads of their own, nor where pools themselves are
    tested. Nor after a test has imported Dask, whose tblib pickles errors with their causes: forked
    workers would inherit it, and some fail.
    """
    can_fork = sys.platform == "linux" and sys.version_info < (3, 12) and "tblib" not in sys.modules
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # the fixture would restore what a test patches after `tmp_path` ends
        if can_fork and request.path.parent.name in FORKING and "export" not in request.path.name:
            patch.setattr("fastrec.engine.pool._has_one_thread", lambda: True)
        yield


FORKING = (
    "answers",
    "check_pairs",
    "cli",
    "commands",
    "corpus",
    "faults",
    "import_logs",
    "normalize",
    "summary",
)
REAL = ROOT.parent / "shared" / "real"


@pytest.fixture(scope="session")
def real() -> Path:
    """The directory of real evaluation records."""
    if not REAL.is_dir():
        pytest.skip("the real evaluation records are not beside this checkout")
    return REAL
