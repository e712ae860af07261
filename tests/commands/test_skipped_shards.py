"""A corpus that lacks shards says so in every place where its numbers are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import fastrec
from fastrec.cli import cli
from fastrec.corpus.manifest import skipped_lines
from tests.running import make_page
from tests.samples import sample

SAID = "incomplete: 1 shard could not be read and was skipped:\n  "
"""The message, up to the name of the shard."""


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two shards, one of which cannot be read.

    Its name has a character of Markdown and one of HTML.
    """
    folder = tmp_path_factory.mktemp("shards")
    (folder / "good.jsonl").write_text(json.dumps(sample()))
    (folder / "bad<*.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    return [folder / "good.jsonl", folder / "bad<*.jsonl.zst"]


@pytest.fixture(scope="module")
def corpus(shards: list[Path]) -> Path:
    """A corpus that lacks one of two shards; read-only."""
    output = shards[0].parent / "corpus"
    fastrec.normalize(shards, output, skip_bad_shards=True)
    return output


@pytest.fixture(scope="module")
def whole(shards: list[Path]) -> Path:
    """A corpus that lacks nothing; read-only."""
    output = shards[0].parent / "whole"
    fastrec.normalize(shards[0], output)
    return output


def invoke(*arguments: object) -> Result:
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code == 0
    return done


def test_normalize_ends_with_the_skipped_shards(shards: list[Path], tmp_path: Path) -> None:
    done = invoke("normalize", *shards, "-o", tmp_path / "corpus", "--skip-bad-shards")
    closing, *rest = done.stderr.splitlines(keepends=True)[-3:]
    assert closing.startswith("1 line: 1 kept")
    assert "".join(rest).startswith(f"{SAID}{shards[1]}: ")
    done = invoke(
        "normalize",
        *shards,
        "-o",
        tmp_path / "corpus",
        "--skip-bad-shards",
        "--overwrite",
        "--quiet",
    )
    assert done.stderr == "".join(rest), "what cron mails"


@pytest.mark.parametrize("options", [[], ["--common"], ["--format", "markdown"]])
def test_stats_begin_with_the_skipped_shards(
    corpus: Path, whole: Path, shards: list[Path], options: list[str]
) -> None:
    """On stdout, where the numbers are, even with --quiet."""
    text = invoke("stats", corpus, "-q", *options).stdout
    first, second, blank = text.splitlines()[:3]
    assert first == SAID.splitlines()[0]
    assert second.startswith("- " if options[1:] else f"  {shards[1]}: ")
    assert (r"bad&lt;\*" if options[1:] else "bad<*") in second
    assert not blank
    assert invoke("stats", whole, *options).stdout == "\n".join([*text.splitlines()[3:], ""])


@pytest.mark.parametrize("output_format", ["csv", "json"])
def test_documents_stay_documents(
    corpus: Path, whole: Path, shards: list[Path], output_format: str
) -> None:
    """The message is on stderr; JSON has a field."""
    done = invoke("stats", corpus, "--format", output_format)
    assert done.stderr.startswith(f"{SAID}{shards[1]}: ")
    if output_format == "json":
        (reason,) = json.loads(done.stdout)["skipped"]
        assert reason.startswith(f"{shards[1]}: ")
    else:
        assert done.stdout == invoke("stats", whole, "--format", "csv").stdout
    assert invoke("stats", corpus, "--format", output_format, "-q").stderr == ""
    assert invoke("stats", whole, "--format", output_format).stderr == ""


def test_verify_ends_with_the_skipped_shards(corpus: Path, whole: Path, shards: list[Path]) -> None:
    """The corpus is OK, and incomplete."""
    text = invoke("verify", corpus).stdout
    assert text.startswith("OK: 1 part, 1 record")
    assert f"\n{SAID}{shards[1]}: " in text
    assert len(json.loads(invoke("verify", corpus, "--format", "json").stdout)["skipped"]) == 1
    assert "incomplete" not in invoke("verify", whole).stdout


def test_the_page_begins_with_the_skipped_shards(corpus: Path, whole: Path) -> None:
    """And counts shards and lines correctly."""
    page = make_page(corpus).decode()
    header = page[page.index("<header>") : page.index("</header>")]
    assert "incomplete: 1 shard could not be read and was skipped:" in header
    assert "bad&lt;*.jsonl.zst: " in header
    assert "1 of 2 shards read" in page
    assert "Every line of the shards that were read is counted once" in page
    page = make_page(whole).decode()
    assert "incomplete" not in page
    assert "1 of 1 shard read" in page
    assert "Every line is counted once" in page


def test_an_export_says_what_it_lacks(corpus: Path, tmp_path: Path, shards: list[Path]) -> None:
    """In its README and as a notice."""
    done = fastrec.export(corpus, tmp_path / "tables", format="csv")
    assert done.notices[0].startswith(f"{SAID.replace(chr(10) + '  ', ' ')}{shards[1]}: ")
    assert done.notices[0] in (tmp_path / "tables" / "README.md").read_text()


def test_many_skipped_shards_are_counted() -> None:
    """A message has at most 22 lines."""
    lines = skipped_lines([f"{number}: is empty" for number in range(1_021)])
    assert lines[0] == "incomplete: 1,021 shards could not be read and were skipped:"
    assert lines[20:] == ["  19: is empty", "  … and 1,001 more, listed in manifest.json"]


def test_diff_says_which_corpus_lacks_shards(corpus: Path, whole: Path, shards: list[Path]) -> None:
    """A shard that was skipped may be why records are missing."""
    assert fastrec.diff(whole, whole).notices == []
    for name, found in (("OLD", fastrec.diff(corpus, whole)), ("NEW", fastrec.diff(whole, corpus))):
        said = f"{name} is incomplete: 1 shard could not be read and was skipped: {shards[1]}: "
        assert [notice.startswith(said) and "\n" not in notice for notice in found.notices] == [
            True
        ]
