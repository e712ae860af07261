"""`rejects`: rejected lines are listed in groups, and extracted byte for byte to be fixed."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import fastrec
from fastrec.cli import cli
from fastrec.cli.checks import print_groups
from fastrec.commands.generate import Recipe, labelled_lines
from fastrec.commands.rejects import Rejects, rejects
from fastrec.corpus.rejects import decode_rejected
from fastrec.corpus.writer import ShardWriter
from fastrec.errors import CorpusError, ShardError, UsageError
from fastrec.judge.findings import CODES
from fastrec.limits import Limits, use_limits
from fastrec.schemas.registry import SCHEMAS
from fastrec.sources.shard import numbered_lines
from tests.running import run_command
from tests.samples import sample, sample_of

FILE = "rejects.jsonl.zst"


@cache
def labelled() -> list[tuple[str, bytes]]:
    """Lines with their kinds."""
    return list(
        labelled_lines(Recipe(records=300, seed=8, rejects=0.3, duplicates=0.1, blanks=0.05))
    )


def bad_lines(code: str | None = None) -> list[bytes]:
    """The rejected lines of the three shards, in the order of the rejects file."""
    shards = [labelled()[number::3] for number in range(3)]
    return [
        line
        for shard in shards
        for label, line in shard
        if label in CODES and code in (None, label)
    ]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with rejected lines of every code; do not change it."""
    directory = tmp_path_factory.mktemp("fresh")
    for number in range(3):
        text = b"".join(line + b"\n" for _, line in labelled()[number::3])
        (directory / f"{number}.jsonl").write_bytes(text)
    fastrec.normalize(sorted(directory.glob("*.jsonl")), directory / "corpus")
    return directory / "corpus"


@pytest.fixture
def corpus(fresh: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(fresh, tmp_path / "corpus"))


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """A corpus without rejected lines."""
    (tmp_path / "a.jsonl").write_text(json.dumps(sample()))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "clean")
    return tmp_path / "clean"


def extracted(corpus: Path, **options: Any) -> bytes:
    into = io.BytesIO()
    rejects(corpus, extract=into, **options)
    return into.getvalue()


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["rejects", *map(str, arguments)])


run = partial(run_command, "rejects")


# Listing


def test_groups_add_up_to_the_summary(fresh: Path) -> None:
    """Each line counts once, by its first error, as in the summary."""
    found = rejects(fresh)
    summary = json.loads((fresh / "summary.json").read_bytes())
    assert found.lines == summary["line_counts"]["rejected"] == len(bad_lines())
    assert found.codes == summary["rejected_by_code"]
    counts: Counter[str] = Counter()
    for group in found.groups:
        counts[group.code] += group.count
        assert group.severity == "error"
        assert len(group.locations) == min(group.count, 3)
    assert counts == found.codes


def test_locations_are_those_of_the_lines(fresh: Path) -> None:
    """The locations of a group are lines that were rejected with its code."""
    for group in rejects(fresh).groups:
        for location in group.locations:
            lines = Path(location.source).read_bytes().split(b"\n")
            assert lines[location.line - 1] in bad_lines(group.code)


@pytest.mark.parametrize(
    "codes", [["json.syntax"], ["schema.type", "json.utf8"], ["line.too_long"]]
)
def test_a_filter_by_code(fresh: Path, codes: list[str]) -> None:
    """Only lines of those codes are listed and extracted."""
    every = rejects(fresh)
    found = rejects(fresh, code=codes)
    assert found.groups == [group for group in every.groups if group.code in codes]
    assert found.codes == {code: count for code, count in every.codes.items() if code in codes}
    assert extracted(fresh, code=codes).count(b"\n") == found.lines


def test_an_unknown_code_is_a_usage_error(fresh: Path) -> None:
    """A mistyped code is an error, not an empty list."""
    with pytest.raises(
        UsageError, match=r"there is no code 'json.sintax'; did you mean 'json.syntax'"
    ):
        rejects(fresh, code=["json.sintax"])


def test_groups_beyond_the_limit_are_counted(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list is bounded, and says how many lines it leaves out."""
    found = use_limits(Limits(finding_groups=3))(rejects)(fresh)
    assert len(found.groups) == 3
    print_groups(found.groups, found.lines, "more lines")
    listed = sum(group.count for group in found.groups)
    assert f"… and {len(bad_lines()) - listed} more lines" in capsys.readouterr().out


# Extracting


def test_extracted_lines_are_the_bytes_that_were_read(fresh: Path) -> None:
    """All rejected lines are extracted, UTF-8 or not, in the order of sources and lines."""
    assert extracted(fresh) == b"".join(line + b"\n" for line in bad_lines())
    assert any(not line.isascii() for line in bad_lines("json.utf8"))


def test_carriage_returns_are_kept(tmp_path: Path) -> None:
    """A line that ends with CRLF keeps its carriage return."""
    (tmp_path / "a.jsonl").write_bytes(b"nonsense\r\n\rmore\n")
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    assert extracted(tmp_path / "corpus") == b"nonsense\r\n\rmore\n"


def test_extracting_and_normalizing_again_rejects_the_same(fresh: Path, tmp_path: Path) -> None:
    """Lines that were not fixed are rejected again, for the same reasons."""
    (tmp_path / "again.jsonl").write_bytes(extracted(fresh))
    summary = fastrec.normalize(tmp_path / "again.jsonl", tmp_path / "again", allow_empty=True)
    assert summary.rejected_by_code == rejects(fresh).codes
    assert extracted(tmp_path / "again") == extracted(fresh)


def test_fixed_lines_can_be_normalized(tmp_path: Path) -> None:
    """The intended use: extract, fix, and normalize with the rest."""
    records = [json.dumps(sample(sample_id=number)) for number in range(6)]
    (tmp_path / "a.jsonl").write_text("\n".join(records[:3] + [line[:-1] for line in records[3:]]))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    fixed = tmp_path / "fixed.jsonl"
    assert invoke(tmp_path / "corpus", "--code", "json.syntax", "--extract", fixed).exit_code == 0
    fixed.write_bytes(fixed.read_bytes().replace(b"\n", b"}\n"))
    summary = fastrec.normalize(
        [tmp_path / "corpus" / "part-00000.jsonl.zst", fixed], tmp_path / "again"
    )
    assert (summary.line_counts.kept, summary.line_counts.rejected) == (6, 0)


def test_a_line_that_was_too_long_is_reported_instead_of_extracted(tmp_path: Path) -> None:
    """Only its head was kept, so its location is reported."""
    source = tmp_path / "a.jsonl"
    source.write_bytes(b"nonsense\n" + b"x" * 5_000 + b"\nmore\n")
    fastrec.normalize(source, tmp_path / "corpus", max_line_bytes=4_000, allow_empty=True)
    done = invoke(tmp_path / "corpus", "--extract", "-")
    assert (done.exit_code, done.stdout) == (0, "nonsense\nmore\n")
    first, second = done.stderr.splitlines()
    assert (
        first
        == f"note: {source}:2 was too long to store, so it is not extracted; fix it in its shard"
    )
    assert second == "2 rejected lines"


@pytest.mark.parametrize("conflicts", ["first", "reject"])
def test_conflicts_are_extracted_as_records(tmp_path: Path, conflicts: str) -> None:
    """A record that was left out for a conflict is extracted in normal form."""
    lines = [json.dumps(sample(error=error)) for error in ("a", "b", "c")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", conflicts=conflicts)
    found = extracted(tmp_path / "corpus").splitlines()
    assert len(found) == (2 if conflicts == "first" else 3)
    assert all(fastrec.judge(line).valid for line in found)


# Damage


def test_a_truncated_rejects_file_is_an_error(corpus: Path) -> None:
    """A truncated file is never used in part."""
    data = (corpus / FILE).read_bytes()
    (corpus / FILE).write_bytes(data[:-3])
    with pytest.raises(ShardError, match="ends inside"):
        rejects(corpus)
    (corpus / FILE).unlink()
    with pytest.raises(ShardError, match="cannot be found"):
        rejects(corpus)


def test_an_invalid_rejected_line_is_an_error_with_its_number(corpus: Path) -> None:
    """The message names the file, the line and the reason."""
    with ShardWriter(str(corpus / FILE), "zst", 3) as writer:
        writer.write([b"{}\n"])
        writer.finish()
    with pytest.raises(
        CorpusError, match=r"rejects.jsonl.zst, line 1: not a rejected line: .*missing"
    ) as caught:
        rejects(corpus)
    assert caught.value.line == 1


# The command line


def test_text_is_like_that_of_validate(fresh: Path) -> None:
    """The list has groups with counts and locations, and a line with the counts by code."""
    done = invoke(fresh)
    assert (done.exit_code, done.stderr) == (0, "")
    group = rejects(fresh).groups[0]
    lines = done.stdout.splitlines()
    assert lines[0] == f"error {group.code}  {group.count} ×"
    assert lines[1] == f"    {group.path}: {group.message}"
    assert lines[2].startswith(f"    {group.locations[0].source}:{group.locations[0].line}")
    assert lines[-1].startswith(f"{len(bad_lines())} rejected lines: ")


def test_all_errors_of_a_line_are_listed(tmp_path: Path) -> None:
    """Nobody has to fix a line eight times: ten errors of a line are listed, and more are counted."""
    names = [
        "error",
        "evaluation_id",
        "evaluation_name",
        "metadata",
        "model_id",
        "performance",
        "sample_hash",
    ]
    names.append("token_usage")
    eight = {**sample("agentic"), **{name: number for number, name in enumerate(names, 1)}}
    turns = [{"turn_idx": "x", "role": number} for number in range(2)]
    fifteen = {
        **eight,
        "error": None,
        "sample_id": 1.5,
        "input": 9,
        "evaluation": 10,
        "interactions": turns,
    }
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [eight, eight, fifteen])))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    first, second = rejects(tmp_path / "corpus").groups
    assert [one.path for one in (first, *first.further)] == [f"$.{name}" for name in names]
    assert (first.count, {one.count for one in first.further}, first.unlisted) == (2, {2}, 0)
    assert (len(second.further), second.unlisted) == (9, 2)  # paths that differ in an index are one
    assert sum(one.count for one in second.further) == 11
    text = invoke(tmp_path / "corpus").stdout
    assert (
        "    also $.token_usage: expected an object or null, found the integer 8 [schema.type]  2 "
        "×\n" in text
    )


def test_json_is_one_document(fresh: Path) -> None:
    """`--format json` prints the result of the Python interface."""
    done = invoke(fresh, "--format", "json", "--code", "json.syntax", "--code", "schema.type")
    expected = rejects(fresh, code=["json.syntax", "schema.type"])
    assert msgspec.json.decode(done.stdout, type=Rejects) == expected


def test_a_corpus_without_rejected_lines(clean: Path, fresh: Path, tmp_path: Path) -> None:
    """The exit code is 0, and the extracted file is empty."""
    assert (invoke(clean).stdout, invoke(clean).exit_code) == ("no line was rejected\n", 0)
    assert (
        invoke(fresh, "--code", "line.too_long").stdout == "no line was rejected as line.too_long\n"
    )
    done = invoke(clean, "--extract", tmp_path / "fixed.jsonl")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no line was rejected\n")
    assert (tmp_path / "fixed.jsonl").read_bytes() == b""


def test_standard_output_gets_the_lines_and_nothing_else(fresh: Path) -> None:
    """`--extract -` writes the same bytes as to a file."""
    done = run(fresh, "--extract", "-")
    assert (done.returncode, done.stdout) == (0, extracted(fresh))
    assert done.stderr == b"%d rejected lines\n" % len(bad_lines())


def test_an_existing_file_is_not_overwritten(fresh: Path, tmp_path: Path) -> None:
    """It may have lines that were already fixed."""
    fixed = tmp_path / "fixed.jsonl"
    assert invoke(fresh, "--extract", fixed).stderr == (
        f"{len(bad_lines())} rejected lines written to {fixed}\n"
        f"note: correct the lines in their places, then: fastrec normalize … --fixes {fixed}\n"
    )
    fixed.write_bytes(b"fixed")
    done = run(fresh, "--extract", fixed)
    assert done.returncode == 2
    assert (
        done.stderr.decode()
        == f"error: {fixed} exists; choose a new file, so that nothing in it is lost\n"
    )
    assert fixed.read_bytes() == b"fixed"


def test_a_failed_extract_leaves_no_file(corpus: Path, tmp_path: Path) -> None:
    """If the rejects file cannot be read completely, no output file is left."""
    (corpus / FILE).write_bytes((corpus / FILE).read_bytes()[:-3])
    done = run(corpus, "--extract", tmp_path / "fixed.jsonl")
    assert done.returncode == 3
    assert b"ends inside" in done.stderr
    assert not (tmp_path / "fixed.jsonl").exists()


def test_wrong_usage_is_exit_code_2(fresh: Path, tmp_path: Path) -> None:
    """A missing corpus and an unknown code have clear messages."""
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(
        f"error: {tmp_path} is not a corpus: it holds no manifest.json\n"
    )
    done = run(fresh, "--code", "nonsense")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there is no code 'nonsense'" in done.stderr


def test_a_damaged_manifest_is_exit_code_3(corpus: Path) -> None:
    """The message has the file and the reason."""
    (corpus / "manifest.json").write_bytes(b"{")
    done = run(corpus)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: ")
    assert b"manifest.json: is not a manifest: " in done.stderr


def test_rejected_lines_cannot_control_the_terminal(tmp_path: Path) -> None:
    """Escape sequences are printed escaped; only an extract has the exact bytes."""
    line = json.dumps(sample(interaction_type="\x9b31m\u202e"), ensure_ascii=False).encode()
    (tmp_path / "a\x1b[31m.jsonl").write_bytes(line)
    fastrec.normalize(tmp_path / "a\x1b[31m.jsonl", tmp_path / "corpus", allow_empty=True)
    for output_format in ("text", "json"):
        text = invoke(tmp_path / "corpus", "--format", output_format).stdout
        assert not set(text) & set("\x1b\x9b\u202e")
    assert run(tmp_path / "corpus", "--extract", "-").stdout == line + b"\n"


def test_help_fits_a_terminal() -> None:
    """The help has examples, and lines of at most 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("arguments", [[], ["--format", "json"], ["--extract", "-"]])
def test_a_closed_pipe_is_not_an_error(fresh: Path, arguments: list[str]) -> None:
    """A closed pipe prints nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(fresh, *arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_rejected_line_stores_a_hundred_errors_and_counts_the_others(tmp_path: Path) -> None:
    """The line counts once.

    Its entry has the first errors, and the number of the others by code.
    """
    line = json.dumps(sample("multi_turn", interactions=[{}] * 400, model_id=0))
    (tmp_path / "a.jsonl").write_text(line)
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    ((_, stored),) = numbered_lines(str(tmp_path / "corpus" / FILE))
    rejected = decode_rejected(FILE, 1, stored)
    assert isinstance(rejected.errors, list)
    assert (rejected.code, len(rejected.errors), rejected.unlisted) == (
        "schema.type",
        100,
        {"schema.required": 701},
    )
    assert rejected.exact_bytes() == line.encode()
    assert rejects(tmp_path / "corpus").codes == {"schema.type": 1}


def test_groups_say_which_version_their_errors_are_of(tmp_path: Path) -> None:
    """A rejected line has the version that it comes closest to; a line without a value has none."""
    lines = [json.dumps(sample_of(version, "agentic", model_id=7)) for version in SCHEMAS]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, json.dumps(sample()), "{", ""]))
    fastrec.normalize([tmp_path / "a.jsonl"], tmp_path / "out", allow_empty=True)
    groups = rejects(tmp_path / "out").groups
    assert {(group.code, group.version) for group in groups} == {
        ("json.syntax", None),
        *(("schema.type", version) for version in SCHEMAS),
    }
    assert "error schema.type  1 ×, judged as 0.2.0-released\n" in invoke(tmp_path / "out").stdout
