"""Completion of names in the shell, by click's protocol: from the corpus at hand, and never an
error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

import fastrec
from fastrec.cli import cli
from fastrec.filters import Filters, make_filters
from fastrec.parameters import FILTERS
from tests.normalize.normalizing import write
from tests.running import run_here
from tests.samples import sample_of

MODELS = [
    "org/a",
    "org/b",
    "lab/c d",
    "lab/$(rm x)",
    "it's",
    "star*",
    "new\nline",
    "-dash",
    "é\u202e",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    names = [(model, evaluation) for model in MODELS for evaluation in ("mmlu", "math", "gsm8k")]
    records = [
        sample_of("0.3.0", model_id=model, evaluation_name=name, evaluation_result_id="acc")
        for model, name in names
    ]
    write(folder / "in.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(folder / "in.jsonl", folder / "corpus")
    return folder / "corpus"


def complete(monkeypatch: pytest.MonkeyPatch, *words: str, shell: str = "bash") -> list[str]:
    """Return what the shell offers for the last word."""
    monkeypatch.setenv("COMP_WORDS", "\n".join(["fastrec", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)) if shell == "bash" else words[-1])
    monkeypatch.setenv("_FASTREC_COMPLETE", f"{shell}_complete")
    kind = get_completion_class(shell)
    assert kind
    return kind(cli, {}, "fastrec", "_FASTREC_COMPLETE").complete().splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cat", "CORPUS", "--model", "org/"], ["org/a", "org/b"]),
        (["cat", "CORPUS", "--evaluation", "m"], ["math", "mmlu"]),
        (["cat", "CORPUS", "--metric", ""], ["acc"]),
        (["cat", "CORPUS", "--limit", "3", "--exclude-evaluation", "g"], ["gsm8k"]),
        (["stats", "CORPUS", "--exclude-model", "org/b"], ["org/b"]),
        (["export", "CORPUS", "--model", "org/a", "--model", "org"], ["org/a", "org/b"]),
        (["report", "CORPUS", "--wrong", "--model", "org"], ["org/a", "org/b"]),
        (["diff", "missing", "CORPUS", "--model", "org/b"], ["org/b"]),
        (["normalize", "CORPUS", "-o", "out", "--model", "org"], ["org/a", "org/b"]),
        (["questions", "CORPUS", "--model", "org"], ["org/a", "org/b"]),
        (["cat", "CORPUS", "--model", "none"], []),
        (["cat", "--model", "org"], []),
        (["cat", "missing", "--model", "org"], []),
        (["normalize", "CORPUS/part-00000.jsonl.zst", "--model", "org"], []),
        (["cat", "s3://bucket/corpus", "--model", "org"], []),
        (["cat", "/dev/null", "--model", ""], []),
        (["cat", "~nobody-like-this/x", "--model", ""], []),
        (["cat", "CORPUS", "--sample-id", ""], []),
    ],
)
def test_names_complete(
    words: list[str], expected: list[str], corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = complete(monkeypatch, *(word.replace("CORPUS", str(corpus)) for word in words))
    assert found == [f"plain,{name}" for name in expected]


def test_names_never_become_commands(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bash, a name is quoted, or not offered at all. Other shells quote by themselves."""
    found = complete(monkeypatch, "cat", str(corpus), "--model", "")
    assert found == ["plain,'lab/$(rm x)'", "plain,'lab/c d'", "plain,org/a", "plain,org/b"]
    in_fish = complete(monkeypatch, "cat", str(corpus), "--model", "", shell="fish")
    assert not [line for line in in_fish if "new" in line or "dash" in line]


@pytest.mark.parametrize(
    "summary", [b"", b"{", b"[]", b"\xff", b'{"evaluations": [1]}', b"[" * 5_000]
)
def test_a_damaged_summary_completes_nothing(
    summary: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "summary.json").write_bytes(summary)
    assert complete(monkeypatch, "cat", str(tmp_path), "--model", "") == []


def test_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "summary.json")
    assert complete(monkeypatch, "cat", str(tmp_path), "--model", "") == []


def test_completion_in_bash(corpus: Path) -> None:
    """The script that `fastrec completion bash` prints defines the function that bash calls."""
    script = f"""
        eval "$(fastrec completion bash)"
        COMP_WORDS=(fastrec cat {corpus} --model org/); COMP_CWORD=4
        _fastrec_completion fastrec
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=False, timeout=60, env=environment
    )
    if b"command not found" in done.stderr:
        pytest.skip("fastrec is not installed")
    assert (done.stdout.decode().split(), done.stderr) == (["org/a", "org/b"], b"")


def test_all_commands_have_the_same_filters() -> None:
    for name in (
        "cat",
        "compare",
        "diff",
        "export",
        "leaderboard",
        "normalize",
        "questions",
        "report",
        "show",
        "stats",
        "trend",
    ):
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command
        assert set(FILTERS) <= {one.name for one in command.params}, name


def test_filters_are_spelled_as_options() -> None:
    """As they can be typed in a shell."""
    filters = make_filters(model=["org/*", "it's"], sample_id=5, exclude_model="x y", wrong=True)
    assert (
        str(filters)
        == """--model 'org/*' --model 'it'"'"'s' --sample-id 5 --exclude-model 'x y' --wrong"""
    )
    assert (str(Filters()), bool(Filters())) == ("", False)


def test_many_filters_are_cut_in_a_message() -> None:
    """232 models do not fill a screen; a document has all of them."""
    filters = make_filters(model=[f"org/{number}" for number in range(232)], wrong=True)
    assert str(filters).endswith("--model org/4 (and 227 more) --wrong")
    assert filters.spelled().count("--model") == 232


@pytest.mark.each_value
@pytest.mark.parametrize("command", ["stats", "cat", "questions", "diff", "export", "normalize"])
@pytest.mark.parametrize("option", ["evaluation", "metric", "model"])
def test_a_name_in_another_case_is_suggested(command: str, option: str, tmp_path: Path) -> None:
    """A filter distinguishes upper and lower case.

    The message has the name that was meant, however many there are.
    """
    names = {"evaluation": "GSM8K", "metric": "Exact_Match", "model": "Org/Zeta-7B"}
    records = [
        sample_of(
            "0.3.0", evaluation_name="GSM8K", evaluation_result_id="Exact_Match", model_id=model
        )
        for model in ("Org/Zeta-7B", *(f"org/{number:03d}" for number in range(20)))
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    paths: dict[str, list[str]] = {
        "diff": ["corpus", "corpus"],
        "normalize": ["a.jsonl", "-o", "out"],
    }
    paths["export"] = ["corpus", "-o", "out.csv", "--format", "csv"]
    wanted = names[option].swapcase()
    done = run_here(command, *paths.get(command, ["corpus"]), f"--{option}", wanted, cwd=tmp_path)
    assert done.returncode == (0 if command == "cat" else 2)
    assert f"; did you mean '{names[option]}'?" in done.stderr.decode()


_SPLIT = """
printf '#!/bin/sh\\nprintf "%%s" "$COMP_WORDS" > words; printf "plain,f1:a=b@5\\nplain,other\\n"\\n' > ./fake
chmod +x ./fake
. ./script 2> /dev/null
COMP_LINE=$1; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_POINT=${#COMP_LINE} COMPREPLY=()
_fastrec_completion_of_names ./fake
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is missing")
@pytest.mark.parametrize(
    ("words", "joined", "offered"),
    [
        (["--metric", " ", "f1"], ["--metric", "f1"], "f1:a=b@5"),
        (["--metric", " ", "f1", ":"], ["--metric", "f1:"], "a=b@5"),
        (["--metric", " ", "f1", ":", "a"], ["--metric", "f1:a"], "a=b@5"),
        (["--metric", " ", "f1", ":", "a", "=", "b"], ["--metric", "f1:a=b"], "b@5"),
        (["--metric", " ", "f1", ":", "a", "=", "b", "@"], ["--metric", "f1:a=b@"], "@5"),
        (["--metric", "=", "f1", ":", "a"], ["--metric=f1:a"], "a=b@5"),
        (
            ["--model", " ", "x", ":", "y", "  ", "--metric", " ", "f1"],
            ["--model", "x:y", "--metric", "f1"],
            "f1:a=b@5",
        ),
        (["--metric", " ", ""], ["--metric", ""], "f1:a=b@5"),
    ],
)
def test_bash_completes_names_that_it_splits(
    words: list[str], joined: list[str], offered: str, tmp_path: Path
) -> None:
    """bash splits words at `:`, `=` and `@`.

    They reach fastrec in one piece; readline gets the rest of the name.
    """
    script = run_here("completion", "bash").stdout
    assert b"_fastrec_completion_of_names fastrec\n" in script
    (tmp_path / "script").write_bytes(script)
    line = "fastrec " + "".join(words)
    split = ["fastrec", *(word for word in words if not word.isspace())]
    done = subprocess.run(
        ["bash", "--norc", "-c", _SPLIT, "bash", line, *split],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert (tmp_path / "words").read_text().split("\n") == ["fastrec", *joined]
    assert done.stdout.splitlines() == [offered, "other"]
