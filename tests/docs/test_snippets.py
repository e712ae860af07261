"""All code blocks in README.md and docs/ work as printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest
import zstandard

from fastrec.cli import cli
from tests.docs import commands
from tests.docs.examples import Example, check_example
from tests.docs.reference import DOCS, ROOT
from tests.docs.running import RUNNERS, Scene, missing_tools
from tests.docs.snippets import (
    PAGES,
    Block,
    blocks_of,
    commands_of,
    is_alike,
    sections,
    updated_output,
)
from tests.sizes import few_of

SECTIONS = sections()
TOUR = "docs/notebook.md: "  # runs as a notebook, in test_notebook.py
NIGHTLY = "docs/deployment.md: A script that stops at a regression"  # has its own test

# All blocks that do not run, by page and first line, with the comment before the block that gives
# the reason.
NOT_RUN = {
    ("docs/import.md", "fastrec normalize records converted/ -o corpus --map eee"): (
        "skip, there are no records of another converter"
    ),
    (
        "docs/import.md",
        (
            "$ fastrec import wildbench -o wildbench-records --evaluation WildBench --model-column "
            "model_test --id-column session_id --question-by id --output-column model_output "
            "--score-column score --scale 1:10"
        ),
    ): "skip, it needs published files; a test runs the same where they are present",
    (
        "docs/import.md",
        (
            "cp alpaca_eval/src/alpaca_eval/leaderboards/data_AlpacaEval_2/"
            "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv alpaca_eval/results/"
        ),
    ): "skip, it needs a checkout of another repository; a test runs the same where its files are "
    "present",
    (
        "README.md",
        "make run                  # normalizes the demo shards into out/demo, and says what to try next",
    ): ("skip, it installs from the network, and `make test` runs this test"),
    (
        "docs/answers.md",
        "pip install '.[view]'                              # once, in a clone",
    ): "skip, it runs until it is stopped",
    ("docs/answers.md", "fastrec compare corpus --metric-pair exact_match judge"): (
        "skip, the records of the demo have no such metrics and no confidence"
    ),
    ("docs/deployment.md", "# dags/evaluations.py"): (
        "compile, the tests do not install Airflow; the function of the task runs above"
    ),
    (
        "docs/sharing.md",
        "hf upload evaleval/EEE_datastore store/data data --repo-type dataset --create-pr",
    ): ("skip, it needs an account"),
    ("docs/sharing.md", "pip install huggingface_hub '.[stores,parquet]'           # in a clone"): (
        "skip, it needs an account"
    ),
    (
        "docs/stores-and-clusters.md",
        "pip install '.[s3,dask]'                             # in a clone",
    ): ("skip, it needs a store and a cluster: `make cluster-demo` and a test run it"),
}


@pytest.mark.parametrize(
    "section",
    [
        one
        for one in SECTIONS
        if one != NIGHTLY and not one.startswith((TOUR, "docs/commands.md: fastrec "))
    ],
)
def test_the_blocks_of_a_section_work(section: str, tmp_path: Path) -> None:
    """The blocks of a section, run in order in one directory, print what the page says."""
    if missing := missing_tools(SECTIONS[section]):
        pytest.skip(f"needs {', '.join(missing)}")
    scene = Scene(tmp_path)
    for block in SECTIONS[section]:
        try:
            scene.run(block)
        except AssertionError as exc:
            raise AssertionError(f"{block.name}: {exc}") from exc


@pytest.mark.parametrize("name", few_of(cli.list_commands(click.Context(cli)), 8, "examples"))
def test_the_examples_of_a_command_work(name: str, tmp_path: Path) -> None:
    """Those in its help, of which docs/commands.md has the first ones."""
    if name in commands.NOT_RUN:
        pytest.skip(commands.NOT_RUN[name])
    text = "".join(f"{row}\n" for row in commands.examples(name))
    Scene(tmp_path).run(Block(DOCS / "commands.md", f"fastrec {name}", 1, "sh", text, ""))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "commands.md"], ids=lambda page: page.name
)
def test_a_page_can_be_followed_from_top_to_bottom(page: Path) -> None:
    """No command writes to an output that an earlier one has made, which would fail.

    `commands.md` is a reference.
    """
    made: set[str] = set()
    for block in blocks_of(page):
        for line in block.text.splitlines() if block.language in ("sh", "console") else ():
            if block.language == "console" and not line.startswith("$ "):
                continue  # output may name the next command
            found = re.search(r"\bfastrec .* (?:-o|--extract) ([^\s#/]+)", line)
            if found and "--overwrite" not in line:
                assert found[1] not in made, (
                    f"{block.name}: {found[1]} already exists for a reader: {line}"
                )
                made.add(found[1])


def test_the_list_of_blocks_that_do_not_run_is_complete() -> None:
    """Every block runs, or is in the list with a reason."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    assert {block.language for block in blocks} <= set(RUNNERS)
    marked = {
        (str(block.page.relative_to(ROOT)), block.first_line): block.directive
        for block in blocks
        if block.directive and not block.directive.startswith("exit ")
    }
    assert marked == NOT_RUN


def test_the_nightly_script_works_every_night(tmp_path: Path) -> None:
    """From the shards alone: the first two nights work.

    On the third one, a model is missing, and the script stops.
    """
    [script] = SECTIONS[NIGHTLY]
    scene = Scene(tmp_path)
    scene.provide("runs")
    path = str(scene.save(script, "script.sh"))
    latest = tmp_path / "latest"
    _set_date(scene, "monday")
    scene.must("bash", path)
    assert latest.readlink().name == "corpus-monday"
    _set_date(scene, "tuesday")
    scene.must("bash", path)
    assert latest.readlink().name == "corpus-tuesday"
    assert "0 added, 0 removed" in (tmp_path / "changes.md").read_text()
    for shard in (tmp_path / "runs").rglob("*.zst"):
        text = zstandard.ZstdDecompressor().decompressobj().decompress(shard.read_bytes())
        lines = [line for line in text.splitlines(keepends=True) if b'"other/model"' not in line]
        shard.write_bytes(zstandard.compress(b"".join(lines)))
    _set_date(scene, "wednesday")
    scene.must("bash", path, code=1)
    assert latest.readlink().name == "corpus-tuesday"
    assert sorted(path.name for path in tmp_path.glob("corpus-*")) == [
        "corpus-monday",
        "corpus-tuesday",
    ]
    assert (tmp_path / "candidate").exists()


def _set_date(scene: Scene, night: str) -> None:
    """Let the command `date` print a night in all formats."""
    program = scene.folder / "bin" / "date"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho {night}\n")
    program.chmod(0o755)
    scene.environment["PATH"] = f"{program.parent}{os.pathsep}{scene.environment['PATH']}"


# Tests of the test code


def block(language: str, text: str, directive: str = "") -> Block:
    return Block(ROOT / "README.md", "heading", 1, language, text, directive)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "false\ntrue\n"),
        ("sh", "false | true\n"),
        ("bash", "if true\n"),
        ("console", "$ echo a\nb\n"),
        ("console", "$ echo a; echo b\na\n"),
        ("python", "import fastrec\nfastrec.judge()\n"),
        ("toml", "[normalize]\nlevle = 3\n"),
        (
            "ini",
            (
                "[Service]\nWorkingDirectory=/srv/evals\nExecStart=/opt/fastrec/bin/fastrec verify "
                "nothing\n"
            ),
        ),
        ("crontab", "0 3 * * /bin/true\n"),
        ("crontab", "0 3 * * * echo 1%\n"),
        ("crontab", "0 3 * * * /bin/false\n"),
    ],
)
def test_a_block_that_fails_is_an_error(language: str, text: str, tmp_path: Path) -> None:
    """In every language, a block that fails or prints something else is an error."""
    with pytest.raises(AssertionError):
        Scene(tmp_path).run(block(language, text))


@pytest.mark.parametrize(
    "example",
    [
        Example(
            '{"evaluation": {"score": 1, "is_correct": true}}',
            '{"evaluation":{"score":2,"is_correct":true}}',
            [],
        ),
        Example('{"evaluation": {"score": NaN, "is_correct": true}}', "", []),
        Example('{"zz": 1}', "", ["json.syntax $: expected another"]),
    ],
)
def test_a_wrong_example_is_an_error(example: Example) -> None:
    """An example with a wrong normal form or wrong findings is an error."""
    with pytest.raises(AssertionError):
        check_example(example)


def test_output_may_differ_in_times_and_sizes() -> None:
    """Numbers with a unit may differ, a line `…` matches any lines, the rest is the same."""
    assert (
        is_alike("1 part, 2.0 kB in 0.10 s, 3 MB/s\n", "1 part, 3.1 MB in 2 s, 1,000 MB/s\n")
        is False
    )
    assert is_alike("1 part, 2.0 kB in 0.10 s, 3 MB/s\n", "1 part, 3.1 kB in 2 s, 1,000 MB/s\n")
    assert is_alike("a\n…\nb\n", "a\nx\ny\nb\n")
    assert is_alike("a\n…\n", "a\n")
    assert not is_alike("a\n…\nb\n", "a\nx\ny\n")
    assert not is_alike("2 parts\n", "3 parts\n")


def test_updates_keep_dots_and_times() -> None:
    assert updated_output("a\n…\nb\n", "a\nx\nc\n") == "a\n…\nc\n"
    assert updated_output("a\n", "b\nc\n") == "b\nc\n"
    assert updated_output("in 2 s\nold\n", "in 3 s\nnew\n") == "in 2 s\nnew\n"


def test_commands_and_their_output_are_separated() -> None:
    """A command starts with `$ ` and continues in lines that start with `> `."""
    assert commands_of("$ a\n> b\nc\n> d\n$ e\n") == [("a\nb\n", "c\n> d\n"), ("e\n", "")]
