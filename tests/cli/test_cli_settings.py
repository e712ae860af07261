"""Settings from files and from the environment, and suggestions for misspelled words."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastrec.normalize import dry_run
from tests.normalize.normalizing import Corpus, write
from tests.normalize.test_failures import lines_of
from tests.running import run_here
from tests.samples import sample
from tests.systems import in_terminal, needs_script


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory with one shard and without FASTREC_ variables."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("FASTREC_"):
            monkeypatch.delenv(name)
    write(tmp_path / "in" / "a.jsonl", [*lines_of("a"), b"{"])


def fastrec(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = run_here(*arguments, environment=environment)
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def level(name: str = "out") -> int:
    """Return the compression level of the corpus."""
    return int(Corpus(Path(name)).manifest["options"]["level"])


def test_settings_file() -> None:
    """A table is for one command.

    Keys before all tables are for every command that has the option.
    """
    Path("fastrec.toml").write_text(
        'jobs = 1\n[normalize]\nlevel = 5\nmax-rejects = "100%"\nquiet = true\nsort-by = '
        '["model_id", "sample_id"]\n'
    )
    done = fastrec("normalize", "in", "-o", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert level() == 5
    assert Corpus(Path("out")).manifest["sort_fields"][:2] == ["model_id", "sample_id"]


def test_settings_in_pyproject() -> None:
    """`[tool.fastrec]` is used if there is no fastrec.toml; a broken pyproject.toml is ignored."""
    Path("pyproject.toml").write_text("[tool.fastrec.normalize]\nlevel = 6\n")
    fastrec("normalize", "in", "-o", "out")
    assert level() == 6
    Path("fastrec.toml").write_text("[normalize]\nlevel = 7\n")
    fastrec("normalize", "in", "-o", "seven")
    assert level("seven") == 7
    Path("fastrec.toml").unlink()
    Path("pyproject.toml").write_text("[tool.fastrec")
    assert fastrec("normalize", "in", "-o", "three").returncode == 1
    assert level("three") == 3


def test_precedence() -> None:
    """The command line overrides FASTREC_*, which overrides the file, which overrides the default."""
    Path("fastrec.toml").write_text('[normalize]\nwork-dir = "in/a.jsonl"\n')
    assert "in/a.jsonl" in fastrec("normalize", "in", "-o", "out").stderr
    assert fastrec("normalize", "in", "-o", "out", FASTREC_WORK_DIR="work").returncode == 1
    done = fastrec(
        "normalize", "in", "-o", "out2", "--work-dir", "work", FASTREC_WORK_DIR="in/a.jsonl"
    )
    assert done.returncode == 1


@pytest.mark.parametrize("patterns", ['"[xy]"', '["x", "y"]', '"[!z]"'])
def test_repeatable_option(patterns: str) -> None:
    """A string is one pattern, even with commas; a list is several."""
    write(Path("in/models.jsonl"), [json.dumps(sample(model_id=name)).encode() for name in "xyz"])
    Path("fastrec.toml").write_text(f"[stats]\nmodel = {patterns}\n")
    done = fastrec("stats", "in/models.jsonl", "--format", "json")
    (evaluation,) = json.loads(done.stdout)["evaluations"]
    assert [model["model_id"] for model in evaluation["by_model"]] == ["x", "y"]


def test_config_option() -> None:
    """`--config FILE` and FASTREC_CONFIG read settings from that file only."""
    Path("fastrec.toml").write_text("[normalize]\nlevel = 7\n")
    Path("night.toml").write_text("[normalize]\nlevel = 8\n")
    fastrec("--config", "night.toml", "normalize", "in", "-o", "out")
    assert level() == 8
    fastrec("normalize", "in", "-o", "again", FASTREC_CONFIG="night.toml")
    assert level("again") == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[normalize]\nlevle = 5\n",
            "`fastrec normalize` has no option 'levle'; did you mean 'level'?",
        ),
        ("jbos = 5\n", "no command has an option 'jbos'; did you mean 'jobs'?"),
        ("[normalise]\nlevel = 5\n", "there is no command 'normalise'; did you mean 'normalize'?"),
        ("[normalize\n", "the settings are not TOML"),
        (
            "[normalize]\nlevel = 'high'\n",
            "fastrec.toml: [normalize]: level: 'high' is not a valid integer\n",
        ),
        ("jobs = 2.5\n", "fastrec.toml, for normalize: jobs: '2.5' is not a valid integer\n"),
        (
            "jobs = true\n",
            "fastrec.toml, for normalize: jobs: expected a string or a number, found True\n",
        ),
        (
            "[stats]\nmodel = {a = 1}\n",
            "fastrec.toml: [stats]: model: expected a string or a number, found {'a': 1}\n",
        ),
        (
            "[normalize]\nquiet = 'no'\n",
            "fastrec.toml: [normalize]: quiet: expected true or false, found 'no'\n",
        ),
    ],
)
def test_wrong_settings(text: str, said: str) -> None:
    """An unknown key, an unknown command or a wrong value is reported with the file name."""
    Path("fastrec.toml").write_text(text)
    done = fastrec("normalize", "in", "-o", "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize("setting", ['scheduler = "tcp://localhost:1"', 'engine = "dask"'])
@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("fastrec.toml", ""),
        ("fastrec.toml", "[normalize]"),
        ("pyproject.toml", "[tool.fastrec.normalize]"),
    ],
)
def test_a_directory_cannot_choose_where_work_is_done(setting: str, file: str, table: str) -> None:
    """Whoever runs fastrec in the directory of somebody else does not connect to a scheduler of
    that person.
    """
    Path(file).write_text(f"{table}\n{setting}\n")
    done = fastrec("normalize", "in", "-o", "out")
    assert done.returncode == 2
    name = setting.split(maxsplit=1)[0]
    assert (
        f"{file}: a directory cannot choose the {name}: give --{name}, set FASTREC_{name.upper()}"
        in done.stderr
    )
    assert not Path("out").exists()


def test_a_named_file_may_choose_where_work_is_done() -> None:
    Path("own.toml").write_text('[normalize]\nengine = "pool"\nscheduler = "tcp://localhost:1"\n')
    done = fastrec("--config", "own.toml", "normalize", "in", "-o", "out")
    assert (done.returncode, done.stderr) == (
        2,
        "error: a scheduler needs the engine dask: give --engine dask\n",
    )


def test_missing_settings_file() -> None:
    """A file given with --config must exist."""
    done = fastrec("--config", "none.toml", "normalize", "in", "-o", "out")
    assert (done.returncode, done.stderr) == (
        2,
        "error: none.toml: the settings cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["normalise", "in"], "there is no command 'normalise'; did you mean 'normalize'?"),
        (["help"], "there is no command 'help'; did you mean '--help'?"),
        (["xyz"], "there is no command 'xyz'; the commands are normalize, "),
        (["normalize", "in", "--ouput", "out"], "--output"),
    ],
)
def test_suggestions(arguments: list[str], said: str) -> None:
    """A misspelled command or option is answered with the correct one."""
    done = fastrec(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """The script for each shell is printed, and completion lists commands."""
    script = fastrec("completion", shell)
    assert script.returncode == 0
    assert "_FASTREC_COMPLETE" in script.stdout
    words = {"COMP_WORDS": "fastrec norm", "COMP_CWORD": "norm" if shell == "fish" else "1"}
    asked = subprocess.run(
        [Path(sys.executable).with_name("fastrec")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **words, "_FASTREC_COMPLETE": f"{shell}_complete"},
        check=False,
    )
    assert "normalize" in asked.stdout


def test_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug ends in a message and exit code 3; -vv adds a traceback."""
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("fastrec.normalize.run"), "run", None)
        plain = fastrec("normalize", "in", "-o", "out")
    assert plain.returncode == 3
    assert "unexpected error: TypeError" in plain.stderr
    assert "Traceback" not in plain.stderr
    script = (
        "import sys; from fastrec.normalize import run as module; module.run = None; sys.argv[0] "
        "= 'fastrec'; "
        "from fastrec.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "normalize", "in", "-o", "out"]
    detailed = subprocess.run(
        [*command, "-vv"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" in detailed.stderr


@needs_script
def test_no_color_and_no_progress() -> None:
    """On a terminal NO_COLOR disables colours and FASTREC_NO_PROGRESS disables progress."""
    command = f"{sys.executable} -m fastrec normalize in -o out --overwrite"
    for environment, has_escape in (
        ({}, True),
        ({"NO_COLOR": "1", "FASTREC_NO_PROGRESS": "1"}, False),
    ):
        done = subprocess.run(
            in_terminal(command),
            capture_output=True,
            timeout=60,
            env={**os.environ, **environment},
            check=False,
        )
        assert (b"\x1b" in done.stdout) is has_escape


def test_interrupt_that_surfaces_as_another_error() -> None:
    """The exit code is that of the signal, even if the interrupt caused another error."""
    script = (
        "import os, signal, sys; from fastrec.normalize import run as module\n"
        "def run(*_, **__):\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt: raise RuntimeError('release unlocked lock') from None\n"
        "module.run = run; sys.argv[0] = 'fastrec'\n"
        "from fastrec.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "normalize", "in", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_incremental_runs_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings and the command line reach the options of a run.

    A wrong value is reported with its place.
    """
    seen = []
    monkeypatch.setattr(dry_run, "plan", lambda _paths, _out, options, **_: seen.append(options))
    monkeypatch.setattr("fastrec.cli.normalize._print_plan", lambda *_, **__: None)
    Path("fastrec.toml").write_text('[normalize]\nincremental = true\ncheck = "content"\n')
    assert fastrec("normalize", "in", "-o", "out", "--dry-run").returncode == 0
    assert fastrec("normalize", "in", "-o", "out", "--dry-run", "--check", "stat").returncode == 0
    Path("fastrec.toml").unlink()
    assert fastrec("normalize", "in", "-o", "out", "--dry-run", "--incremental").returncode == 0
    assert fastrec("normalize", "in", "-o", "out", "--dry-run").returncode == 0
    found = [(options.incremental, options.check) for options in seen]
    assert found == [(True, "content"), (True, "stat"), (True, "stat"), (False, "stat")]
    Path("fastrec.toml").write_text('[normalize]\ncheck = "time"\n')
    done = fastrec("normalize", "in", "-o", "out")
    assert done.returncode == 2
    assert "fastrec.toml: [normalize]: check: 'time' is not one of 'stat', 'content'" in done.stderr


def test_incremental_options_do_not_influence_the_corpus() -> None:
    """The manifest does not record them."""
    fastrec("normalize", "in", "-o", "out", "--incremental", "--check", "content")
    assert not {"incremental", "check"} & Corpus(Path("out")).manifest["options"].keys()


def test_a_setting_may_have_two_values() -> None:
    Path("fastrec.toml").write_text('[compare]\nmetric-pair = ["acc", "judge"]\n')
    fastrec("normalize", "in", "-o", "out")
    done = fastrec("compare", "out")
    assert "takes 2 values" not in done.stderr.casefold()
    assert "acc" in done.stderr
