"""Every command and snippet of README.md and docs/ works as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Example, check_example
from tests.docs.reference import ROOT
from tests.docs.running import RUNNERS, Scene, missing_tools
from tests.docs.snippets import PAGES, Block, blocks_of, commands_of, is_alike, sections

SECTIONS = sections()

# Blocks that are not run, by page and first line. Each says why in a comment before it; this is the whole list.
NOT_RUN = {
    (
        "README.md",
        "make run     # normalizes the corpus that ships with the project into out/demo, prints what is in it",
    ): ("skip, it sets up an environment from the network, and `make test` is what runs this test"),
    ("README.md", "python3 -m venv /opt/fastrec && /opt/fastrec/bin/pip install '.[parquet]'"): (
        "skip, it installs from the network"
    ),
    ("README.md", "# dags/evaluations.py"): (
        "compile, Airflow is not among what the tests install; what the task does is run above"
    ),
    ("README.md", "pip install 'fastrec[s3,dask]'"): (
        "skip, it needs a store and a cluster: `make cluster-demo` runs it, and so does a test"
    ),
}


@pytest.mark.parametrize("section", SECTIONS)
def test_what_a_section_shows_works(section: str, tmp_path: Path) -> None:
    """The blocks of a section, run in order in a directory of its own, do what the page says."""
    if missing := missing_tools(SECTIONS[section]):
        pytest.skip(f"there is no {', '.join(missing)}")
    scene = Scene(tmp_path)
    for block in SECTIONS[section]:
        try:
            scene.run(block)
        except AssertionError as exc:
            raise AssertionError(f"{block.name}: {exc}") from exc


def test_the_list_of_what_is_not_run_is_complete() -> None:
    """No block escapes unseen: each is of a language that is run, or listed here with its reason."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    assert {block.language for block in blocks} <= set(RUNNERS)
    marked = {
        (str(block.page.relative_to(ROOT)), block.first_line): block.order
        for block in blocks
        if block.order and not block.order.startswith("exit ")
    }
    assert marked == NOT_RUN


# The harness itself


def block(language: str, text: str, order: str = "") -> Block:
    return Block(ROOT / "README.md", "heading", 1, language, text, order)


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
        ("ini", "[Service]\nWorkingDirectory=/srv/evals\nExecStart=/opt/fastrec/bin/fastrec verify nothing\n"),
        ("crontab", "0 3 * * /bin/true\n"),
        ("crontab", "0 3 * * * echo 1%\n"),
        ("crontab", "0 3 * * * /bin/false\n"),
    ],
)
def test_what_does_not_work_is_found(language: str, text: str, tmp_path: Path) -> None:
    """A block that fails, or prints something else, is an error in every language."""
    with pytest.raises(AssertionError):
        Scene(tmp_path).run(block(language, text))


@pytest.mark.parametrize(
    "example",
    [
        Example('{"evaluation": {"score": 1, "is_correct": true}}', '{"evaluation":{"score":2,"is_correct":true}}', []),
        Example('{"evaluation": {"score": NaN, "is_correct": true}}', "", []),
        Example('{"zz": 1}', "", ["json.syntax $: expected another"]),
    ],
)
def test_examples_that_are_not_true_are_found(example: Example) -> None:
    """An example with another normal form, or other findings, is an error."""
    with pytest.raises(AssertionError):
        check_example(example)


def test_output_is_compared_but_for_times_and_sizes() -> None:
    """Numbers with a unit vary; a line of dots stands for any lines; all else must be the same."""
    assert is_alike("1 part, 2.0 kB in 0.10 s, 3 MB/s\n", "1 part, 3.1 MB in 2 s, 1,000 MB/s\n") is False
    assert is_alike("1 part, 2.0 kB in 0.10 s, 3 MB/s\n", "1 part, 3.1 kB in 2 s, 1,000 MB/s\n")
    assert is_alike("a\n…\nb\n", "a\nx\ny\nb\n")
    assert is_alike("a\n…\n", "a\n")
    assert not is_alike("a\n…\nb\n", "a\nx\ny\n")
    assert not is_alike("2 parts\n", "3 parts\n")


def test_commands_are_told_from_what_they_print() -> None:
    """A command begins with `$ ` and may go on in lines with `> `."""
    assert commands_of("$ a\n> b\nc\n> d\n$ e\n") == [("a\nb\n", "c\n> d\n"), ("e\n", "")]
