"""`Corpus.columns` and `Corpus.lines`: they have what a plain reading of the lines gives, over all
parts.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.corpus.columns import COLUMNS
from fastrec.errors import NoMatchError, UsageError
from tests.corpus.plain_columns import CODED, decode, long_integers, plain_numbers, spell
from tests.lazily import Library
from tests.normalize.normalizing import Corpus, normalized, write
from tests.samples import question, sample
from tests.sizes import examples
from tests.strategies import free_objects, records

pd: Any = Library("pandas")


def made(count: int = 90) -> list[dict[str, Any]]:
    """Records of several evaluations; some have no metadata, no tokens, or numbers that no array
    holds.
    """
    found = []
    for number in range(count):
        record = sample(sample_id=number if number % 5 else f"s{number}", model_id=f"m{number % 4}")
        record["error"] = "" if number % 11 else "timeout"
        record["evaluation"]["is_correct"] = number % 4 > 1
        record["evaluation_name"] = ("law", "art", "zoo")[number % 3]
        record["input"]["raw"] = question(number // 4)["raw"]
        record["metadata"] = (
            {"level": (1, 1.0, True, "1", None, [1])[number % 6]} if number % 7 else {}
        )
        record["metadata"]["subject"] = "abc"[number % 3]
        record["evaluation"]["score"] = 2**60 + number if number % 10 == 3 else number / 8
        record["token_usage"] = {
            "input_tokens": 2**64 + number,
            "output_tokens": 1,
            "total_tokens": 7,
        }
        if number % 2:
            del record["token_usage"]
        found.append(record)
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("arrays"), made()).path


def corpus_of(folder: Path, records: list[dict[str, Any]], **options: Any) -> Corpus:
    lines = [json.dumps(record).encode() for record in records]
    return normalized(
        write(folder / "in.jsonl", lines), folder / "corpus", **{"part_size": 12_000, **options}
    )


def check(columns: fastrec.Columns, lines: list[bytes]) -> None:
    """Compare columns with the lines of the corpus."""
    chosen = [lines[number] for number in columns.number]
    plain = [decode(line) for line in chosen]
    for name, expected in plain_numbers(plain, [line + b"\n" for line in chosen]).items():
        exact = columns.exact.get(name, {})
        for at, (value, number) in enumerate(zip(expected, columns[name].tolist(), strict=True)):
            if value is None:
                assert math.isnan(number)
            else:
                assert exact.get(at, number) == value, name
    metrics = any("evaluation_result_id" in record for record in plain)
    for name, field in CODED.items():
        expected = [record.get(field) if metrics or name != "metric" else None for record in plain]
        check_codes(columns[name], expected)
    for name in columns:
        if name.startswith("metadata."):
            expected = [
                (record.get("metadata") or {}).get(name.removeprefix("metadata."))
                for record in plain
            ]
            check_codes(columns[name], expected)


def check_codes(column: fastrec.CodedColumn, expected: list[Any]) -> None:
    assert list(map(spell, column.decoded())) == list(map(spell, expected))
    assert len(set(map(spell, column.values))) == len(column.values)
    assert sorted(set(column.codes.tolist())) == list(range(len(column.values)))


def test_columns_of_a_corpus(path: Path) -> None:
    """All columns of all records, with one code for a value wherever it is."""
    corpus = fastrec.open(path)
    plain = Corpus(path)
    assert len(corpus.parts) > 3
    columns = corpus.columns()
    assert list(columns) == [*COLUMNS, "metadata.level", "metadata.subject"]
    assert columns.number.tolist() == list(range(len(plain.lines)))
    check(columns, plain.lines)
    assert (
        {"score", "input_tokens", "total_tokens"} >= set(columns.exact) >= {"score", "input_tokens"}
    )
    assert columns["correct"].dtype == columns["error"].dtype == np.bool_
    assert (
        len(columns["metadata.level"].values) == 6
    )  # 1, 1.0 and true are different values, null and none are not


def test_columns_of_evaluations_and_of_other_filters(path: Path) -> None:
    corpus = fastrec.open(path)
    plain = Corpus(path)
    filters: list[tuple[dict[str, Any], Any]] = [
        ({"evaluation": "law"}, lambda one: one["evaluation_name"] == "law"),
        ({"model": ["m1", "m2"], "wrong": True}, lambda one: one["model_id"] in ("m1", "m2")),
        ({"where": "metadata.subject=b"}, lambda one: one["metadata"]["subject"] == "b"),
        ({"where": "input.raw~7"}, lambda one: "7" in one["input"]["raw"]),
    ]
    for given_filters, matches in filters:
        columns = corpus.columns(**given_filters)
        expected = [number for number, line in enumerate(plain.lines) if matches(decode(line))]
        if "wrong" in given_filters:
            outcomes = {at: (decode(plain.lines[at])["evaluation"]["is_correct"], decode(plain.lines[at])["error"])
                        for at in expected}  # fmt: skip
            expected = [at for at, outcome in outcomes.items() if outcome == (False, "")]
        assert columns.number.tolist() == expected
        if expected:
            check(columns, plain.lines)
    assert corpus.columns("model", evaluation="law", model="m1")["model"].values == ["m1"]
    with pytest.raises(NoMatchError):
        corpus.columns(evaluation="none")


def test_columns_of_parts(path: Path) -> None:
    """In bounded memory: one part after another, with filters, too."""
    corpus = fastrec.open(path)
    plain = Corpus(path)
    for filters in ({}, {"model": "m3"}):
        whole = corpus.columns(**filters)
        parts = [corpus.columns(parts=[part], **filters) for part in range(len(corpus.parts))]
        assert np.concatenate([part.number for part in parts]).tolist() == whole.number.tolist()
        for part in parts:
            check(part, plain.lines)
        last = corpus.columns("model", "score", parts=range(1, 3), **filters)
        assert last.number.tolist() == [
            number for part in parts[1:3] for number in part.number.tolist()
        ]
    assert len(corpus.columns(parts=()).number) == 0
    assert corpus.columns("model", parts=()).to_pandas().empty
    with pytest.raises(UsageError, match="there is no part 99; the corpus has"):
        corpus.columns(parts=[0, 99])


def test_a_part_whose_records_do_not_match_is_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = fastrec.open(path)
    matching = corpus.columns("score", sample_id=1)
    (number,) = matching.number.tolist()
    read = []
    part_columns = type(corpus).part_columns
    monkeypatch.setattr(
        type(corpus),
        "part_columns",
        lambda self, part: read.append(part) or part_columns(self, part),
    )
    assert corpus.columns("score", "hash", sample_id=1).number.tolist() == [number]
    assert len(set(read)) == 1


@settings(max_examples=examples(6, 500))
@given(
    plain=st.lists(records, min_size=1, max_size=6),
    free=st.lists(free_objects, min_size=1, max_size=6),
)
def test_columns_of_random_records(
    plain: list[dict[str, Any]],
    free: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever the records are, columns over parts have what a plain reading gives."""
    also = [
        sample(sample_id=str(number), metadata=metadata) for number, metadata in enumerate(free)
    ]
    with long_integers():
        corpus = corpus_of(tmp_path_factory.mktemp("arrays"), [*plain, *also], part_size=1_024)
        check(fastrec.open(corpus.path).columns(), corpus.lines)


def test_a_column_that_is_not_there(path: Path) -> None:
    corpus = fastrec.open(path)
    with pytest.raises(
        UsageError, match="there is no column 'scores'; the columns are evaluation, "
    ):
        corpus.columns("scores")
    assert corpus.columns("metadata.none")["metadata.none"].values == [None]
    with pytest.raises(TypeError, match="modell"):
        corpus.columns(modell="m1")


def test_a_key_with_too_many_values_has_no_column(tmp_path: Path) -> None:
    """It is left out of all columns, and asking for it is an error that says why.

    Never a wrong value.
    """
    records = [
        sample(sample_id=str(number), metadata={"id": f"x{number}", "few": "a"})
        for number in range(600)
    ]
    corpus = fastrec.open(corpus_of(tmp_path, records, part_size=10**9).path)
    assert "metadata.few" in corpus.columns()
    assert "metadata.id" not in corpus.columns()
    with pytest.raises(
        UsageError, match=r"part-00000.*: metadata\.id has too many values, or too long ones"
    ):
        corpus.columns("metadata.id")


def test_an_empty_corpus(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", [b"{}"])
    fastrec.normalize(
        tmp_path / "in.jsonl", tmp_path / "corpus", max_rejects="100%", allow_empty=True
    )
    corpus = fastrec.open(tmp_path / "corpus")
    columns = corpus.columns()
    assert list(columns) == list(COLUMNS)
    assert columns.to_pandas().shape == (0, len(COLUMNS))
    assert list(corpus.lines([])) == []


def test_lines_by_number(path: Path) -> None:
    corpus = fastrec.open(path)
    plain = Corpus(path)
    for numbers in ([0], [3, 3, 50, len(plain.lines) - 1], range(len(plain.lines)), []):
        assert list(corpus.lines(numbers)) == [plain.lines[number] for number in numbers]
    columns = corpus.columns("score", evaluation="zoo")
    low = columns.number[columns["score"] < 3]
    scores = [decode(line)["evaluation"]["score"] for line in corpus.lines(low)]
    assert sorted(scores) == [
        number / 8 for number in range(24) if number % 3 == 2 and number % 10 != 3
    ]


@pytest.mark.parametrize("numbers", [[-1], [10**6], [0.5], [True], np.array([True, False])])
def test_what_is_no_number_of_a_record(path: Path, numbers: Any) -> None:
    """A mask is none, too."""
    with pytest.raises(UsageError, match="the numbers of records are integers from 0 to 89"):
        fastrec.open(path).lines(numbers)


def test_numbers_must_ascend(path: Path) -> None:
    with pytest.raises(UsageError, match="ascending order"):
        fastrec.open(path).lines([5, 4])


def test_to_pandas(path: Path) -> None:
    """Texts are categories; values of metadata that are no texts stay what they are."""
    columns = fastrec.open(path).columns()
    frame = columns.to_pandas()
    assert list(frame.columns) == list(columns)
    assert frame.index.tolist() == columns.number.tolist()
    assert frame["model"].dtype == "category"
    assert frame["model"].tolist() == columns["model"].decoded().tolist()
    assert frame["metric"].isna().all()
    assert frame["metadata.subject"].dtype == "category"
    assert list(map(spell, frame["metadata.level"])) == list(
        map(spell, columns["metadata.level"].decoded())
    )
    assert frame["sample_id"].tolist() == columns["sample_id"].decoded().tolist()
    answers = frame[~frame["error"] & (frame["evaluation"] == "law")]
    rows = fastrec.stats(path, evaluation="law").rows()
    expected = {row["model_id"]: row["mean_score"] for row in rows}
    assert answers.groupby("model", observed=True)["score"].mean().to_dict() == pytest.approx(
        expected
    )
