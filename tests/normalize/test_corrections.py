"""`normalize --labels` corrects verdicts, and `--fixes` replaces rejected lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.errors import FastrecError, UsageError
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from tests.faults.failing import contents
from tests.normalize.normalizing import audited, write
from tests.samples import question, sample_of

VERSIONS = ["0.2.0", "0.2.0-released", "0.2.1", "0.3.0"]


def line(version: str, model: str, number: int = 1, **changes: Any) -> bytes:
    record = sample_of(
        version, model_id=model, sample_id=f"q{number}", evaluation_name="sums", **changes
    )
    record["input"]["raw"] = question(number)["raw"]
    record["evaluation"] |= {"score": 0.0, "is_correct": False}
    del record["sample_hash"]
    return json.dumps(record).encode()


def label(**fields: Any) -> dict[str, Any]:
    return {"evaluation": "sums", "model": "a"} | fields


def write_labels(path: Path, *labels: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in labels), encoding="utf-8")
    return path


def records_of(corpus: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in audited(corpus).lines]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_label_changes_one_verdict_and_nothing_else(tmp_path: Path, version: str) -> None:
    """By hash, by its first characters or by sample_id.

    The verdict before and the reason are in `metadata`.
    """
    shard = write(
        tmp_path / "in.jsonl", [line(version, model, at) for model in "ab" for at in range(3)]
    )
    fastrec.normalize(shard, tmp_path / "plain")
    plain = records_of(tmp_path / "plain")
    wanted = [one for one in plain if one["model_id"] == "a"]
    labels = write_labels(
        tmp_path / "labels.jsonl",
        label(
            question=wanted[0]["sample_hash"],
            is_correct=True,
            reason="same number",
            by="me",
            at="2026-11-17",
        ),
        label(question=wanted[1]["sample_hash"][:8], score=0.25),
        label(sample_id=wanted[2]["sample_id"], score=1, is_correct=False),
    )
    result = run([shard], tmp_path / "out", make_options(labels=labels))
    verdicts = [
        ({"score": 1.0, "is_correct": True}, {"original_score": "0.0", "original_is_correct": "false",
         "label_reason": "same number", "label_by": "me", "label_at": "2026-11-17"}),
        ({"score": 0.25}, {"original_score": "0.0"}),
        ({"score": 1.0}, {"original_score": "0.0"}),
    ]  # fmt: skip
    for record, (verdict, metadata) in zip(wanted, verdicts, strict=True):
        record["evaluation"] |= verdict
        record["metadata"] = dict(sorted((record.get("metadata", {}) | metadata).items()))
    assert records_of(tmp_path / "out") == plain
    assert fastrec.verify(tmp_path / "out").ok
    counts = result.summary.labels
    assert counts
    assert (counts.labels, counts.changed, counts.confirmed) == (3, 3, 0)
    assert not any("label" in notice for notice in result.notices)


def test_the_same_bytes_from_shards_a_corpus_or_in_a_night_and_twice(tmp_path: Path) -> None:
    lines = [line("0.3.0", model, at) for model in "ab" for at in range(5)]
    shard = write(tmp_path / "in.jsonl", lines)
    fastrec.normalize(shard, tmp_path / "corpus")
    labels = write_labels(
        tmp_path / "labels.jsonl", label(sample_id="q1", is_correct=True, reason="é")
    )
    run([tmp_path / "corpus"], tmp_path / "trusted", make_options(labels=labels))
    run([tmp_path / "corpus"], tmp_path / "judged", make_options(labels=labels, judge=True))
    run([tmp_path / "corpus"], tmp_path / "night", make_options(labels=labels, incremental=True))
    assert (
        contents(tmp_path / "trusted")
        == contents(tmp_path / "judged")
        == contents(tmp_path / "night")
    )
    run([shard], tmp_path / "shards", make_options(labels=labels))
    assert audited(tmp_path / "trusted").lines == audited(tmp_path / "shards").lines
    again = run([tmp_path / "trusted"], tmp_path / "again", make_options(labels=labels))
    assert audited(tmp_path / "again").lines == audited(tmp_path / "shards").lines
    assert again.summary.labels
    assert again.summary.labels.confirmed == 1
    write_labels(
        labels, label(sample_id="q1", is_correct=True), label(sample_id="q2", is_correct=True)
    )
    run(
        [tmp_path / "corpus"],
        tmp_path / "night",
        make_options(labels=labels, incremental=True, overwrite=True),
    )
    assert sum(one.evaluation.is_correct for one in fastrec.read(tmp_path / "night")) == 2


def test_the_last_label_wins_and_others_are_reported(tmp_path: Path) -> None:
    """Duplicate lines are one record; two epochs are several, unless the label names the trial."""
    epochs = [line("0.2.1", "a", 2, metadata={"epoch": str(epoch)}) for epoch in (1, 2)]
    shard = write(tmp_path / "in.jsonl", [line("0.2.1", "a"), line("0.2.1", "a"), *epochs])
    labels = write_labels(
        tmp_path / "labels.jsonl",
        label(sample_id="q1", is_correct=False),
        label(sample_id="q1", is_correct=True),
        label(sample_id="q2", trial={"epoch": "2"}, is_correct=True),
        label(sample_id="q9", is_correct=True),
    )
    result = run([shard], tmp_path / "out", make_options(labels=labels))
    found = {
        (one["sample_id"], one["metadata"].get("epoch")): one["evaluation"]
        for one in records_of(tmp_path / "out")
    }
    assert {name for name, verdict in found.items() if verdict["is_correct"]} == {
        ("q1", None),
        ("q2", "2"),
    }
    counts = result.summary.labels
    assert counts
    assert (counts.superseded, counts.changed, counts.unmatched, counts.ambiguous) == (1, 2, 1, 0)
    assert any("1 label without a record: line 4" in notice for notice in result.notices)
    write_labels(labels, label(sample_id="q2", is_correct=True))
    result = run([shard], tmp_path / "both", make_options(labels=labels))
    assert result.summary.labels
    assert result.summary.labels.ambiguous == 1
    message = (
        r"strict-labels: 0 labels without a record and 1 with several records; .* Correct "
        r".*labels\.jsonl"
    )
    with pytest.raises(FastrecError, match=message):
        run([shard], tmp_path / "strict", make_options(labels=labels, strict_labels=True))
    assert not (tmp_path / "strict").exists()


def test_labels_have_the_names_after_a_map(tmp_path: Path) -> None:
    (tmp_path / "names.toml").write_text('[models]\nA = "a"')
    labels = write_labels(tmp_path / "labels.jsonl", label(sample_id="q1", is_correct=True))
    shard = write(tmp_path / "in.jsonl", [line("0.3.0", "A")])
    result = run(
        [shard], tmp_path / "out", make_options(labels=labels, map=tmp_path / "names.toml")
    )
    assert result.summary.labels
    assert result.summary.labels.changed == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"evaluation": "sums", "model": "a", "is_correct": true}',
            "neither a `question` nor a `sample_id`",
        ),
        (
            '{"evaluation": "sums", "model": "a", "question": "5", "score": 1}',
            "fewer than 6 characters",
        ),
        (
            '\n{"evaluation": "sums", "model": "a", "sample_id": 1, "score": "1"}',
            "line 2 is not a label",
        ),
        (
            '{"evaluation": "sums", "model": "a", "sample_id": 1, "scores": 1}',
            "unknown field `scores`; labels have the keys evaluation, model, question, sample_id, ",
        ),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_of_labels_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "labels.jsonl").write_text(text)
    with pytest.raises(UsageError) as caught:
        make_options(labels=tmp_path / "labels.jsonl")
    assert reason in str(caught.value)
    with pytest.raises(UsageError, match="needs --labels"):
        make_options(strict_labels=True)


@given(st.data())
def test_fixed_lines_are_kept_as_if_they_had_been_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The corpus has the records of shards with the corrected lines; line counts add up."""
    path = tmp_path_factory.mktemp("fixes")
    good = [line("0.2.1", "a", at) for at in range(6)]
    broken = data.draw(st.sets(st.integers(0, 5), min_size=1), label="broken")
    fixed = data.draw(st.sets(st.sampled_from(sorted(broken))), label="fixed")
    lines = [b"{" + one if at in broken else one for at, one in enumerate(good)]
    lines.insert(data.draw(st.integers(0, 6), label="duplicate at"), good[0])
    (path / "runs").mkdir()
    cut = data.draw(st.integers(1, len(lines)), label="cut")
    for name, some in (("x.jsonl", lines[:cut]), ("y.jsonl", lines[cut:])):
        (path / "runs" / name).write_bytes(b"".join(one + b"\n" for one in some))
    fastrec.normalize(path / "runs", path / "first", allow_empty=True)
    fastrec.rejects(path / "first", extract=path / "fix.jsonl")
    extracted = (path / "fix.jsonl").read_bytes().splitlines()
    assert sorted(extracted) == sorted(b"{" + good[at] for at in broken)
    corrected = [one[1:] if good.index(one[1:]) in fixed else one for one in extracted]
    (path / "fix.jsonl").write_bytes(b"\n".join(corrected) + b"\n")
    result = run(
        [path / "runs"], path / "out", make_options(fixes=path / "fix.jsonl", allow_empty=True)
    )
    expected = {good[at] for at in range(6) if at in fixed or at not in broken} | {good[0]}
    fastrec.normalize(write(path / "right.jsonl", sorted(expected)), path / "right")
    assert audited(path / "out").lines == audited(path / "right").lines
    assert fastrec.verify(path / "out").ok
    assert result.summary.line_counts.rejected == len(broken - fixed)
    counts = result.summary.fixes
    assert counts
    assert (counts.given, counts.fixed, counts.rejected, counts.unmatched) == (
        len(fixed),
        len(fixed),
        0,
        0,
    )


def test_a_correction_of_a_record_that_options_left_out_is_reported(tmp_path: Path) -> None:
    """It is valid, so there is nothing to fix at its place."""
    one = line("0.2.1", "a", 0)
    other = one.replace(b'"is_correct": false', b'"is_correct": true')
    assert other != one
    shard = write(tmp_path / "in.jsonl", [one, other, line("0.2.1", "a", 1)])
    fastrec.normalize(shard, tmp_path / "corpus", conflicts="reject")
    fix = tmp_path / "fix.jsonl"
    fastrec.rejects(tmp_path / "corpus", extract=fix)
    lines = fix.read_bytes().splitlines()
    assert len(lines) == 2
    fix.write_bytes(b"".join(text.replace(b"true", b"false") + b"\n" for text in lines))
    result = run([shard], tmp_path / "out", make_options(fixes=fix, conflicts="reject"))
    assert result.summary.fixes
    assert (result.summary.fixes.given, result.summary.fixes.unmatched) == (2, 2)
    assert any("2 corrected lines" in notice for notice in result.notices)


def test_an_editor_may_end_all_lines_with_a_carriage_return(tmp_path: Path) -> None:
    """A line that is otherwise unchanged is no fix."""
    good = [line("0.2.1", "a", at) for at in range(2)]
    shard = write(tmp_path / "in.jsonl", [b"{" + good[0], b"{" + good[1]])
    fastrec.normalize(shard, tmp_path / "corpus", allow_empty=True)
    fix = tmp_path / "fix.jsonl"
    fastrec.rejects(tmp_path / "corpus", extract=fix)
    fix.write_bytes(fix.read_bytes().replace(b"{" + good[0], good[0]).replace(b"\n", b"\r\n"))
    counts = run([shard], tmp_path / "out", make_options(fixes=fix)).summary.fixes
    assert counts
    assert (counts.given, counts.fixed, counts.rejected) == (1, 1, 0)


def test_a_fix_that_is_wrong_or_without_a_line_is_reported(tmp_path: Path) -> None:
    good = [line("0.2.1", "a", at) for at in range(3)]
    shard = write(tmp_path / "in.jsonl", [b"{" + good[0], b"{" + good[1], good[2]])
    fastrec.normalize(shard, tmp_path / "corpus")
    fix = tmp_path / "fix.jsonl"
    fastrec.rejects(tmp_path / "corpus", extract=fix)
    fix.write_bytes(b"[]\n" + good[1] + b"\n")
    result = run([shard], tmp_path / "out", make_options(fixes=fix))
    assert result.summary.fixes
    assert result.summary.fixes.rejected == result.summary.fixes.fixed == 1
    group = fastrec.rejects(tmp_path / "out").groups[0]
    assert "in line 1 of the fixes" in group.message
    assert fastrec.rejects(tmp_path / "out", extract=tmp_path / "again.jsonl").lines == 1
    assert (tmp_path / "again.jsonl").read_bytes() == b"{" + good[0] + b"\n"
    write(tmp_path / "in.jsonl", [good[2], b"{" + good[0], b"{" + good[1]])
    moved = run([shard], tmp_path / "moved", make_options(fixes=fix))
    assert moved.summary.fixes
    assert moved.summary.fixes.unmatched == 2
    assert any("2 corrected lines" in notice for notice in moved.notices)
    fix.write_bytes(good[1])
    with pytest.raises(UsageError, match="keep each line in its place"):
        make_options(fixes=fix)
    Path(f"{fix}.places.jsonl").unlink()
    with pytest.raises(
        UsageError, match=r"places\.jsonl cannot be read: .*`fastrec rejects --extract` writes it"
    ):
        make_options(fixes=fix)
