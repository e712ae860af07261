"""Results become data frames: every result of a function has `to_pandas`, and a notebook shows it
as a table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import fastrec
from fastrec.notebook import Framed
from tests.docs.reference import ROOT
from tests.lazily import Library
from tests.samples import sample

pd: Any = Library("pandas")
NO_RESULTS = {"Verdict"}  # about one line


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with rejected lines and a removed model beside it."""
    folder = tmp_path_factory.mktemp("results")
    fastrec.generate(folder / "in", records=200, seed=2, shards=2, rejects=0.1, schema="0.3.0")
    fastrec.normalize(folder / "in", folder / "corpus", schema="0.3.0", track_sources=True)
    *_, last = fastrec.open(folder / "corpus").models
    fastrec.normalize(folder / "corpus", folder / "later", schema="0.3.0", exclude_model=last)
    return folder / "corpus"


def prices_in(folder: Path) -> Path:
    (folder / "prices.toml").write_text('["*"]\ninput = 1\noutput = 2\n')
    return folder / "prices.toml"


def question(corpus: Path) -> str:
    return fastrec.questions(corpus, limit=1).evaluations[0].questions[0].sample_hash


def damaged(corpus: Path, folder: Path) -> fastrec.Verification:
    fastrec.normalize(corpus, folder / "damaged", schema="0.3.0")
    (folder / "damaged" / "part-00000.columns").unlink()
    return fastrec.verify(folder / "damaged")


def cleaned(_: Path, folder: Path) -> fastrec.Cleaned:
    """Clean up after an interrupted run: its work lies beside the output."""
    (folder / ".out.fastrec-work").mkdir()
    return fastrec.clean(folder / "out")


MADE: dict[str, tuple[Callable[[Path, Path], Any], list[str]]] = {
    "Cleaned": (cleaned, ["path", "files", "bytes"]),
    "Comparison": (
        lambda corpus, _: fastrec.compare(corpus, *fastrec.open(corpus).models[:2]),
        ["evaluation_name"],
    ),
    "Difference": (
        lambda corpus, _: fastrec.diff(corpus, corpus.parent / "later"),
        ["evaluation_name", "metric", "model_id", "status", "points", "p", "counts.removed"],
    ),
    "Exported": (
        lambda corpus, folder: fastrec.export(corpus, folder / "csv", format="csv"),
        ["output", "rows"],
    ),
    "Generated": (
        lambda _, folder: fastrec.generate(folder / "in", records=5),
        ["lines", "text_bytes"],
    ),
    "Import": (
        lambda _, folder: fastrec.import_logs(ROOT / "corpora" / "logs", folder / "logs"),
        ["log", "harness", "records"],
    ),
    "Leaderboard": (lambda corpus, _: fastrec.leaderboard(corpus), ["model_id"]),
    "Calibrations": (
        lambda corpus, _: fastrec.calibration(corpus, confidence="evaluation.score"),
        ["evaluation_name", "metric", "model_id", "ece", "brier"],
    ),
    "Corrections": (
        lambda corpus, folder: fastrec.corrected(corpus, labels=empty_in(folder)),
        ["evaluation_name", "metric", "model_id", "raw", "corrected", "to_halve"],
    ),
    "Items": (
        lambda corpus, _: fastrec.items(corpus),
        ["evaluation_name", "metric", "sample_hash", "difficulty", "discrimination"],
    ),
    "Scored": (
        lambda corpus, _: fastrec.score(corpus, rule="exact", dry_run=True),
        ["evaluation_name", "rule", "model_id", "old", "new"],
    ),
    "Costs": (
        lambda corpus, folder: fastrec.costs(corpus, prices=prices_in(folder)),
        ["evaluation_name", "model_id", "cost", "cost_per_right"],
    ),
    "Overlap": (
        lambda corpus, _: fastrec.overlap(corpus),
        ["evaluation_name", "model_id", "other_model_id", "common"],
    ),
    "PairCheck": (
        lambda corpus, folder: bad_pairs(folder),
        ["code", "path", "message", "severity", "count"],
    ),
    "Questions": (
        lambda corpus, _: fastrec.questions(corpus),
        ["evaluation_name", "sample_hash", "right"],
    ),
    "Rejects": (lambda corpus, _: fastrec.rejects(corpus), ["code", "path", "count", "repairable"]),
    "Shown": (
        lambda corpus, _: fastrec.show(corpus, question(corpus)),
        [
            "evaluation_name",
            "sample_hash",
            "model_id",
            "answer",
            "metric",
            "outcome",
            "score",
            "source.line",
        ],
    ),
    "Stats": (
        lambda corpus, _: fastrec.stats(corpus),
        ["evaluation_name", "metric", "model_id", "accuracy"],
    ),
    "Summary": (
        lambda corpus, _: fastrec.open(corpus).summary,
        ["evaluation_name", "metric", "model_id", "accuracy", "tokens.input", "latency_ms.p50"],
    ),
    "Trend": (
        lambda corpus, _: fastrec.trend(corpus, corpus.parent / "later"),
        [
            "evaluation_name",
            "metric",
            "model_id",
            "corpus",
            "value",
            "change_difference",
            "significant",
        ],
    ),
    "Validation": (
        lambda corpus, _: fastrec.validate(corpus.parent / "in"),
        ["code", "path", "count"],
    ),
    "Verification": (damaged, ["file", "line", "kind", "message"]),
}


def empty_in(folder: Path) -> Path:
    (folder / "labels.jsonl").write_text("")
    return folder / "labels.jsonl"


def bad_pairs(folder: Path) -> fastrec.PairCheck:
    (folder / "a_samples.jsonl").write_bytes(msgspec.json.encode(sample()))
    return fastrec.check_pairs(folder)


def test_every_result_of_a_function_is_here() -> None:
    """Results are what public functions return."""
    results = set()
    for name in [*fastrec.__all__, "open"]:
        value = getattr(fastrec, name)
        if inspect.isfunction(value):
            returned = inspect.signature(value).return_annotation
            results.add(getattr(returned, "__name__", str(returned)))
    classes = {name for name in results if isinstance(getattr(fastrec, name, None), type)}
    classes |= {"Generated"}
    assert classes - NO_RESULTS - {"Corpus"} == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_a_result_becomes_a_data_frame(name: str, path: Path, tmp_path: Path) -> None:
    """Each row has the same columns, and a notebook shows a table."""
    make, columns = MADE[name]
    result = make(path, tmp_path)
    assert isinstance(result, Framed)
    assert type(result).__name__ == name
    frame = result.to_pandas()
    assert len(frame)
    assert [column for column in columns if column not in frame.columns] == []
    rows = result._rows()
    assert all(list(row) == list(rows[0]) for row in rows)
    page = result._repr_html_()
    assert f"<th>{columns[0]}</th>" in page or (name == "Leaderboard" and "<table" in page)


def test_a_notebook_names_the_compared_models(path: Path) -> None:
    a, b = fastrec.open(path).models[:2]
    page = fastrec.compare(path, a, b)._repr_html_()
    assert page.count(f"<td>{a}</td><td>{b}</td>") == page.count("<tr>") - 1


def test_no_rows_are_said(path: Path) -> None:
    assert "There are no rows" in fastrec.verify(path)._repr_html_()
    assert "There are no rows" not in fastrec.stats(path)._repr_html_()


def test_rows_of_a_trend(path: Path) -> None:
    """A row for each model and corpus, with the change since the one before."""
    frame = fastrec.trend([path, path.parent / "later"]).to_pandas()
    corpora = fastrec.open(path), fastrec.open(path.parent / "later")
    models = {corpus.path.rpartition("/")[2]: set(corpus.models) for corpus in corpora}
    assert {name: set(rows["model_id"]) for name, rows in frame.groupby("corpus")} == models
    assert frame[frame["corpus"] == "corpus"]["change_before"].isna().all()
    assert (frame[frame["corpus"] == "later"]["change_before"] == "corpus").all()


def test_rows_of_an_answer(path: Path) -> None:
    """A row for each verdict, with what the model said."""
    found = fastrec.show(path, question(path))
    rows = found.rows()
    assert len(rows) == sum(
        len(answer.verdicts) for one in found.questions for answer in one.answers
    )
    assert any(row["answer"] for row in rows)


def test_rows_of_a_summary(path: Path) -> None:
    names = ("evaluation_name", "metric", "model_id", "accuracy", "mean_score", "records")
    found, expected = (
        {tuple(row[name] for name in names) for row in result.rows()}
        for result in (
            fastrec.open(path).summary,
            fastrec.stats(path, metrics="all", no_ranks=True),
        )
    )
    assert found == expected
