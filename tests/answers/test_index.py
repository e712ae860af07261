"""The index of a corpus says what its records say, whatever their order, and however they are cut
into parts.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fastrec.answers.choosing import open_index
from fastrec.answers.question_table import ITEM_FLAGS, QuestionTable
from fastrec.answers.table import PLACES, SORTS, Query, QuestionRow, Which
from fastrec.answers.values import value_rows
from fastrec.corpus.columns import PartColumns
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.where import values_of
from tests.answers import small
from tests.answers.naive import Naive, length_of, right_of
from tests.samples import sample_of
from tests.sizes import examples
from tests.timing import grows_linearly

MODELS = ["org/a", "org/b", "org/c", 'weird "[x]\u2028']
HASHES = ["00", "00ff", "0a", "ff\u00e9", "f"]
RAWS = ["6 x 7?", "Straße  nach\nKÖLN\u2028ja", '\\\\ "q" \t \x00 \x1b', "x" * 700, ""]
ORDERS: list[tuple[str, ...]] = [
    (),
    ("sample_hash",),
    ("model_id",),
    ("sample_id", "evaluation_name"),
    ("evaluation_id",),
]
SCORES = {"binary": [0, 1, 0.0, 1.0], "graded": [0, 0.25, 0.5, 1.0, -2, 3.125]}

KINDS = [kind for kind in get_args(Which) if kind not in ITEM_FLAGS]  # test_items has the others


@st.composite
def records(draw: Any, version: str) -> dict[str, Any]:
    """A record of one of few questions, models and metrics."""
    kind = draw(st.sampled_from(["single_turn", "single_turn", "multi_turn", "agentic"]))
    record = sample_of(version, kind)
    question = draw(st.integers(0, 4))
    name = draw(st.sampled_from(["arithmetic", "facts"]))
    raw = RAWS[question]
    reference = draw(st.sampled_from(["42", "Größe", "a\0b"])) if question == 4 else "42"
    record["input"] = {
        "raw": raw,
        "reference": reference if version == "0.2.0" else [reference, "or"],
    }
    if draw(st.booleans()):  # unknown keys that look like the fields of the record
        record["input"]["zz"] = {
            "a": 1,
            "output": {"raw": "no"},
            "answer_attribution": [],
            "evaluation": {"score": 9},
        }
    if draw(st.booleans()):
        record["answer_attribution"] = [
            {**record["answer_attribution"][0], "zz": {"a": 1, "evaluation": {"score": 9}}}
        ]
    text = draw(st.sampled_from(["", "42", 'It\'s "42"\n\\o/ \\\\u00e9 é', "\x01\x02", "y" * 300]))
    if kind == "single_turn":
        record["output"] = {
            "raw": text if version == "0.2.0" else [text, text][: draw(st.integers(1, 2))]
        }
        if draw(st.booleans()):
            record["output"]["zz"] = {"a": 1, "answer_attribution": [1]}
    graded = name == "facts"
    # A run has one id of a question: others are questions of their own (test_split_questions).
    runs = {"run-1": question, "run-2": "q-9" if question % 2 else 10**30}
    if version == "0.3.0":
        runs = {"run-1": f"q-{question}", "run-2": "q-9"}
    evaluation_id = draw(st.sampled_from(sorted(runs)))
    record |= {
        "evaluation_name": name,
        "sample_hash": HASHES[question],
        "sample_id": runs[evaluation_id],
        "model_id": draw(st.sampled_from(MODELS)),
        "evaluation_id": evaluation_id,
        "error": draw(st.sampled_from([None, None, "", "boom"])),
    }
    score = draw(st.sampled_from(SCORES["graded" if graded else "binary"]))
    record["evaluation"] = {"score": score, "is_correct": draw(st.booleans())}
    if version == "0.3.0":
        record.pop("evaluation_result_id")
        metric = draw(st.sampled_from([None, "accuracy", "f1"]))
        record |= {"evaluation_result_id": metric} if metric else {}
    return record


@st.composite
def corpora(draw: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Some records, and options to normalize them with."""
    version = draw(st.sampled_from(["0.2.0", "0.3.0"]))
    found = draw(st.lists(records(version), min_size=1, max_size=24))
    options = {
        "sort_by": draw(st.sampled_from(ORDERS)),
        "part_size": 1 << draw(st.sampled_from([10, 11, 20])),
    }
    return found, {**options, "schema": version, "sample_hash": "fill"}


@st.composite
def queries(draw: Any, scopes: list[tuple[str, str | None]]) -> Query:
    name, metric = draw(st.sampled_from(scopes))
    some = st.lists(st.sampled_from(MODELS), max_size=2, unique=True).map(tuple)
    rarely = st.integers(0, 3).flatmap(lambda number: some if number == 0 else st.just(()))
    return Query(
        evaluation_name=name,
        metric=metric,
        models=draw(some),
        which=draw(st.sampled_from(["all", *KINDS])),
        outcomes=draw(
            st.lists(st.sampled_from(["right", "wrong", "error"]), max_size=2).map(tuple)
        ),
        right=draw(rarely),
        wrong=draw(rarely),
        least_score=draw(st.sampled_from([None, None, None, 0.0, 0.5])),
        most_score=draw(st.sampled_from([None, None, None, 0.25, 1.0])),
        text=draw(
            st.sampled_from(
                [
                    "",
                    "",
                    "",
                    "strasse",
                    "köln",
                    "6 X",
                    "GRÖSSE",
                    "or",
                    "x" * 600,
                    "\x00",
                    '"42"\n\\O',
                    "É",
                    "y",
                ]
            )
        ),
        place=draw(st.sampled_from(PLACES)),
        sample_ids=draw(st.sampled_from([(), (), (), ("q-9",), ("q-[0-4]", "1*"), ("3",)])),
        hashes=draw(st.sampled_from([(), (), (), ("00*",), ("ff\u00e9", "0a")])),
        sort=draw(st.sampled_from(SORTS)),
    )


def check_row(row: QuestionRow, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert getattr(row, name) == (
            pytest.approx(value) if isinstance(value, float) else value
        ), name


def check_query(index: QuestionTable, naive: Naive, query: Query) -> None:
    """The right questions in the right order, with the right values and neighbours."""
    page = index.page(query, limit=1_000)
    rows = page.rows
    chosen = naive.chosen(query)
    assert sorted(row.sample_hash for row in rows) == sorted(chosen)
    assert page.total == len(rows)
    for row in rows:
        check_row(row, naive.row(query, row.sample_hash))
    scope = query.evaluation_name, query.metric
    value = "mean_score" if naive.graded(scope) else "share"
    columns = {
        "hardest": value,
        "easiest": value,
        "longest-input": "input_chars",
        "longest-output": "output_chars",
    }
    column = columns.get(query.sort, query.sort)
    sign = 1 if query.sort == "hardest" else -1
    keys = [
        (getattr(row, column, 0) is None, sign * (getattr(row, column, 0) or 0), row.number)
        for row in rows
    ]
    assert keys == sorted(keys)
    if query.sort == "order":
        assert [row.sample_hash for row in rows] == chosen
    assert index.page(query, 1, 2).rows == rows[1:3]
    for at, row in enumerate(rows):
        assert index.row(query, row.sample_hash) == row
        before = rows[at - 1] if at else None
        assert index.neighbours(query, row.sample_hash) == (
            before,
            rows[at + 1] if at + 1 < len(rows) else None,
        )
        disputed = [later for later in rows[at + 1 :] if later.disagreement]
        assert index.next_disagreement(query, row.sample_hash) == (
            disputed[0] if disputed else None
        )
    check_values(index, naive, query, rows)


def check_values(index: QuestionTable, naive: Naive, query: Query, rows: list[QuestionRow]) -> None:
    scope = query.evaluation_name, query.metric
    asked = [*reversed(MODELS), "unknown"]
    values = value_rows(index, query, asked)
    assert list(values) == [row.sample_hash for row in rows]
    for row in rows:
        means = naive.means(naive.of(scope, row.sample_hash, ()), naive.value_of(scope))
        assert list(values[row.sample_hash]) == [
            means.get(model) and pytest.approx(means[model]) for model in asked
        ]
        models = naive.models(scope)
        expected = {model: naive.outcome(scope, row.sample_hash, model) for model in models}
        found = index.outcomes(query, row.sample_hash)
        assert {model: outcome for model, (outcome, _) in found.items()} == expected
        assert {model: value for model, (outcome, value) in found.items() if model in means} == {
            model: pytest.approx(mean) for model, mean in means.items()
        }


def check_answers(index: QuestionTable, naive: Naive, row: QuestionRow) -> None:
    """All records of the question and metric, byte for byte."""
    scope = row.evaluation_name, row.metric
    expected = [
        line
        for line, one in zip(naive.lines, naive.records, strict=True)
        if one in naive.of(scope, row.sample_hash, ())
    ]
    answers = index.answers(row)
    assert [answer.line for answer in answers] == expected
    for answer in answers:
        record = json.loads(answer.line)
        outcome = "error" if record.get("error") else "right" if right_of(record) else "wrong"
        assert (answer.outcome, answer.metric, answer.sample_id) == (
            outcome,
            row.metric,
            record["sample_id"],
        )
        assert (answer.model_id, answer.evaluation_id) == (
            record["model_id"],
            record["evaluation_id"],
        )
        assert (answer.score, answer.error) == (
            record["evaluation"]["score"],
            record.get("error", ""),
        )
        assert (answer.input_tokens, answer.output_tokens, answer.latency_ms) == (10, 5, 12.5)
    assert [answer.line for answer in index.answers(row, MODELS[:1])] == [
        line for line in expected if json.loads(line)["model_id"] == MODELS[0]
    ]


# Shrinking a corpus would take minutes.
@settings(max_examples=examples(5, 160), phases=(Phase.explicit, Phase.generate))
@given(corpora(), st.data())
def test_the_index_says_what_the_records_say(
    corpus: tuple[list[dict[str, Any]], dict[str, Any]], data: Any
) -> None:
    found, options = corpus
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in found))
        run([str(folder / "in.jsonl")], folder / "out", Options(**options))
        naive = Naive(folder / "out")
        limits = Limits(skim_bytes=1 << data.draw(st.sampled_from([6, 12, 18])))
        index = open_index(folder / "out")
        with use_limits(limits):
            scopes = naive.scopes()
            assert [(scope.evaluation_name, scope.metric) for scope in index.scopes] == scopes
            assert [list(scope.models) for scope in index.scopes] == [
                naive.models(scope) for scope in scopes
            ]
            assert [scope.graded for scope in index.scopes] == [
                naive.graded(scope) for scope in scopes
            ]
            for scope in index.scopes:
                page = index.page(Query(evaluation_name=scope.evaluation_name, metric=scope.metric))
                assert page.total == scope.questions
                check_answers(index, naive, page.rows[-1])
            for _ in range(4):
                check_query(index, naive, data.draw(queries(scopes)))


def test_lengths_are_counted_in_characters(tmp_path: Path) -> None:
    """Whatever JSON makes of them: escapes, quotes, surrogate pairs, other keys."""
    texts = [
        "",
        "a",
        "é",
        "😀",
        '"',
        "\\",
        "\\\\",
        '\\"',
        '","',
        '\\","',
        "\\u0041",
        "\x00\x1f\x7f",
        "\n\r\t",
        "a\\",
        "u" * 9,
    ]
    texts += [one + other for one in texts for other in texts]
    found = []
    for number, text in enumerate(texts):
        record = sample_of("0.2.0", sample_id=number, error=None)
        record["input"]["raw"] = f"{number}"
        record["output"] = {"raw": text} | ({"reasoning_trace": text} if number % 3 == 0 else {})
        found.append(record)
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in found))
    run([str(tmp_path / "in.jsonl")], tmp_path / "out", Options())
    naive = Naive(tmp_path / "out")
    index = open_index(tmp_path / "out")
    rows = index.page(Query(evaluation_name="arithmetic"), limit=len(texts)).rows
    assert [row.output_chars for row in rows] == [length_of(record) for record in naive.records]


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_the_length_of_an_answer_is_that_of_where(version: str, tmp_path: Path) -> None:
    """Only what the model said counts, not the turns of users and tools.

    A single turn has only an output.
    """
    turns = {
        "user": "a long question " * 9,
        "assistant": 'It\'s "42" é',
        "tool": "rows of a table " * 9,
    }
    found = []
    for kind in ("single_turn", "multi_turn", "agentic"):
        record = sample_of(version, kind, sample_id=kind, error=None)
        record["input"]["raw"] = kind
        name = "interactions" if version == "0.2.0" else "messages"
        if kind == "single_turn":
            record["output"] = {"raw": "42" if version == "0.2.0" else ["4", "2"]}
            if version == "0.2.0":
                record["messages"] = [{"role": "assistant", "content": "said elsewhere"}, "no turn"]
        else:
            said = [{"role": role, "content": text} for role, text in turns.items()] * 2
            record[name] = [{"turn_idx": at, **turn} for at, turn in enumerate(said)]
        found.append(record)
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in found))
    run([str(tmp_path / "in.jsonl")], tmp_path / "out", Options())
    index = open_index(tmp_path / "out")
    (scope,) = index.scopes
    query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, sort="longest-output")
    lengths = {row.sample_id: row.output_chars for row in index.page(query).rows}
    by_where = {
        one["sample_id"]: next(values_of(one, ("response", "characters")))
        for one in Naive(tmp_path / "out").records
    }
    assert lengths == by_where
    assert list(lengths)[-1] == "single_turn"


def test_the_columns_of_many_evaluations_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many scopes there are: neighbours are loaded together."""
    answers = (
        small.answer(f"exam {n}", f"asked {k}", m, 1.0)
        for n in range(40)
        for k in range(3)
        for m in "ab"
    )
    corpus = small.make_corpus(tmp_path, answers)
    read = Counter[str]()
    numbers = PartColumns.numbers

    def counted(columns: PartColumns, name: str) -> Any:
        read[name] += 1
        return numbers(columns, name)

    monkeypatch.setattr(PartColumns, "numbers", counted)
    index = open_index(corpus)
    queries = [
        Query(evaluation_name=scope.evaluation_name, sort="hardest") for scope in index.scopes
    ]
    pages = index.pages(queries, limit=2)
    assert read["score"] == read["hash"] == read["input_characters"] == 1
    assert len(index.find(pages[0].rows[0].sample_hash)) == 40
    assert pages == [index.page(query, limit=2) for query in queries]
    assert {page.total for page in pages} == {3}


@pytest.mark.parametrize(
    "chosen",
    [
        {"models": ("b",)}, {"right": ("a",)}, {"wrong": ("nobody",)}, {"which": "metrics-differ"}, {"hashes": ("*",)},
        {"sample_ids": ("id of asked 1",)}, {"sample_ids": ("*2",)}, {"text": "says 1"}, {"least_score": 0.5},
    ],
)  # fmt: skip
def test_many_pages_are_the_pages_of_each_scope(chosen: dict[str, Any], tmp_path: Path) -> None:
    scores = [
        (n, k, m, (n + k + ord(m)) % 3 / (1 + n % 2))
        for n in range(12)
        for k in range(3)
        for m in "abc"
    ]
    corpus = small.make_corpus(
        tmp_path, (small.answer(f"exam {n}", f"asked {k}", m, s) for n, k, m, s in scores)
    )
    index = open_index(corpus)
    queries = [Query(evaluation_name=f"exam {n}", **chosen) for n in range(12)]
    assert list(index.pages(queries, limit=2)) == [index.page(query, limit=2) for query in queries]


def test_the_work_per_listed_question_does_not_grow_with_their_number(tmp_path: Path) -> None:
    corpus = small.make_corpus(
        tmp_path, (small.answer("exam", f"asked {n}", "m", 1.0) for n in range(4_000))
    )
    index = open_index(corpus)
    assert grows_linearly(lambda size: index.page(Query(evaluation_name="exam"), limit=size), 500)
