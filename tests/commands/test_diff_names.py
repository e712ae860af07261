"""`diff` says which metrics look like the same under other names, and how to rename them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fastrec
from tests.commands.comparing import corpus_of
from tests.samples import question, sample_of

SAME = "these look like the same metrics under other names"

Names = tuple[str, str | None]


def corpus(
    path: Path, *names: Names, model: str = "org/m", right: int = 3, error: str | None = None
) -> Path:
    """Five questions, of which so many are answered right, for each evaluation and metric."""
    records = []
    for evaluation, metric in names:
        for number in range(5):
            record: dict[str, Any] = sample_of(
                "0.3.0",
                evaluation_name=evaluation,
                evaluation_result_id=metric,
                model_id=model,
                sample_id=str(number),
                error=error,
                evaluation={"score": float(number < right), "is_correct": number < right},
            )
            record["input"] |= {"raw": question(number)["raw"]}
            del record["sample_hash"]
            if metric is None:
                del record["evaluation_result_id"]
            records.append(record)
    return corpus_of(records, path, schema="0.3.0")


def notices(old: Path, new: Path, **options: Any) -> list[str]:
    return [text for text in fastrec.diff(old, new, **options).notices if SAME in text]


@pytest.mark.parametrize(
    ("imported", "converted"),
    [
        (("gsm8k", "exact_match:strict-match"), ("gsm8k/strict-match", "exact_match:strict-match")),
        (("arc", "match"), ("arc", "match:accuracy")),
    ],
)
def test_names_of_another_converter(tmp_path: Path, imported: Names, converted: Names) -> None:
    """The line of the note joins them, whatever the scores."""
    old = corpus(tmp_path / "old", imported)
    new = corpus(tmp_path / "new", converted, right=4)
    named = " · ".join(map(str, converted))
    assert notices(old, new) == [f"{SAME}: {named}; normalize both with --map eee"]
    assert len(notices(new, old)) == 1
    for corpus_path in (old, new):
        renamed = corpus_path.with_name(f"{corpus_path.name}-renamed")
        fastrec.normalize(corpus_path, renamed, map="eee")
    joined = fastrec.diff(tmp_path / "old-renamed", tmp_path / "new-renamed")
    assert joined.counts.unchanged + joined.counts.changed == 5
    assert not joined.notices


def test_scores_that_are_all_the_same_tell_nothing(tmp_path: Path) -> None:
    old = corpus(tmp_path / "old", ("sums", "exact"), right=0)
    assert not notices(old, corpus(tmp_path / "new", ("sums", "another"), right=0))


def test_names_with_the_same_scores(tmp_path: Path) -> None:
    """The note has the exact line of the map."""
    old = corpus(tmp_path / "old", ("sums", "exact"), ("sums", "other"))
    new = corpus(tmp_path / "new", ("sums", 'the "exact"'), ("sums", "other"))
    (notice,) = notices(old, new)
    line = re.fullmatch(rf"{SAME}; for the file .*, below \[metrics\]: (.*)", notice)
    assert line
    (tmp_path / "names.toml").write_text(f"[metrics]\n{line[1]}\n")
    fastrec.normalize(new, tmp_path / "renamed", map=tmp_path / "names.toml")
    assert fastrec.diff(old, tmp_path / "renamed").counts.unchanged == 10


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("sums", "another"), {"right": 4}),
        (("sums", "another"), {"model": "org/another"}),
        (("others", "exact"), {}),
        (("sums", None), {}),
        (("sums", "exact"), {"right": 4}),
        (("sums", "another"), {"error": "timeout"}),
        (("sums", "another"), {"right": 5}),
    ],
)
def test_other_metrics_are_not_named(tmp_path: Path, names: Names, options: dict[str, Any]) -> None:
    """Other scores, models or evaluations; no metric, the same metric, or no answers."""
    old = corpus(tmp_path / "old", ("sums", "exact"))
    assert not notices(old, corpus(tmp_path / "new", names, **options))
