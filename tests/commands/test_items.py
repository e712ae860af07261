"""`fastrec items`: flags and statistics of questions, compared with a plain computation."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fastrec
from fastrec.answers.items import EvaluationItems
from fastrec.answers.near_duplicates import near_duplicates
from fastrec.commands.items import items
from fastrec.errors import UsageError
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here
from tests.statistics.test_items import simulate

PLANTED = 3
QUESTIONS = 60
MODELS = 40


def _records() -> Iterator[Record]:
    """The first questions have a wrong key; 50 is right by all models, 51 wrong by all."""
    right = simulate(MODELS, QUESTIONS, PLANTED, seed=11)
    right[:, 50] = 1
    right[:, 51] = 0
    for model in range(MODELS):
        for question in range(QUESTIONS):
            is_right = bool(right[model, question])
            # Of a wrong key, models that are judged wrong gave the true answer.
            value = "key" if is_right else "truth"
            yield answer(
                "exam",
                f"What is the value of number {question} in this list of all numbers?",
                f"org/m{model:02d}",
                float(is_right),
                sample_id=f"q{question}",
                answer_attribution=[
                    {
                        "turn_idx": 0,
                        "source": "output.raw",
                        "extracted_value": value,
                        "extraction_method": "test",
                        "is_terminal": True,
                    }
                ],
            )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("items"), _records())


def test_a_model_with_several_answers_agrees_once(tmp_path: Path) -> None:
    """Of 40 models in three epochs, the stronger half are 20."""
    records = [
        record | {"metadata": {"epoch": epoch}}
        for record in _records()
        for epoch in ("1", "2", "3")
    ]
    (found,) = items(make_corpus(tmp_path, records)).evaluations
    first = found.questions[0]
    assert first.agreed_value == "truth"
    assert MODELS / 4 < first.agreed_by <= MODELS / 2


@pytest.fixture(scope="module")
def exam(corpus: Path) -> EvaluationItems:
    (found,) = items(corpus).evaluations
    return found


def test_flags(exam: EvaluationItems) -> None:
    by_flag = {
        flag: {question.sample_ids[0] for question in exam.questions if flag in question.flags}
        for flag in ("suspected_key", "all_right", "all_wrong")
    }
    assert by_flag["all_right"] == {"q50"}
    assert by_flag["all_wrong"] == {"q51"}
    assert by_flag["suspected_key"] <= {f"q{number}" for number in range(PLANTED)}
    assert by_flag["suspected_key"]
    assert exam.flags["suspected_key"] == len(by_flag["suspected_key"])


def test_suspected_keys_come_first_with_what_strong_models_say(exam: EvaluationItems) -> None:
    first = exam.questions[0]
    assert "suspected_key" in first.flags
    assert first.references == ["yes"]
    assert first.agreed_value == "truth"
    assert first.agreed_by > MODELS / 4


def test_difficulty_and_discrimination_are_those_of_a_plain_reading(
    corpus: Path, exam: EvaluationItems
) -> None:
    scores: dict[str, dict[str, float]] = {}
    for record in map(json.loads, fastrec.cat(corpus)):
        scores.setdefault(record["sample_hash"], {})[record["model_id"]] = record["evaluation"][
            "score"
        ]
    models = sorted(next(iter(scores.values())))
    for question in exam.questions:
        own = [scores[question.sample_hash][model] for model in models]
        assert question.difficulty == pytest.approx(1 - statistics.mean(own))
        others = [
            statistics.mean(
                values[model] for name, values in scores.items() if name != question.sample_hash
            )
            for model in models
        ]
        if question.discrimination is None:
            assert len(set(own)) == 1
        else:
            expected = statistics.correlation(own, others)
            assert question.discrimination == pytest.approx(expected)


def test_errors_are_read_as_scores_are(exam: EvaluationItems, tmp_path: Path) -> None:
    """If lower is better, 0 is right, 1 is wrong, and a question is as difficult as its mean."""
    errors = [
        record | {"evaluation": {"score": 1 - record["evaluation"]["score"], "is_correct": False}}
        for record in _records()
    ]
    errors += [answer("small", "q", model, 0.1) for model in ("org/a", "org/b")]
    corpus = make_corpus(tmp_path, errors)
    found, small = items(corpus, lower_is_better=["exam", "small"]).evaluations
    assert found.flags == exam.flags
    assert found.reliability == pytest.approx(exam.reliability)
    for ours, theirs in zip(found.questions, exam.questions, strict=True):
        for name in ("difficulty", "discrimination", "p_wrong_key"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-12)
        assert (ours.sample_hash, ours.flags) == (theirs.sample_hash, theirs.flags)
    assert small.questions[0].difficulty == 0.1


def test_scores_on_another_scale(exam: EvaluationItems, tmp_path: Path) -> None:
    """Scores from 0 to 100 have the flags and difficulties of the same scores from 0 to 1."""
    percent = [
        record
        | {"evaluation": {**record["evaluation"], "score": 100 * record["evaluation"]["score"]}}
        for record in _records()
    ]
    [found] = items(make_corpus(tmp_path, percent)).evaluations
    assert found.flags == exam.flags
    for ours, theirs in zip(found.questions, exam.questions, strict=True):
        assert (ours.sample_hash, ours.flags) == (theirs.sample_hash, theirs.flags)
        assert ours.difficulty == pytest.approx(theirs.difficulty, abs=1e-12)


@pytest.mark.parametrize("command", ["items", "overlap"])
def test_a_corpus_without_records(command: str, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    fastrec.normalize(tmp_path / "empty.jsonl", tmp_path / "corpus", allow_empty=True)
    done = run_here(command, str(tmp_path / "corpus"))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"note: there are no records\n"


def test_too_few_models_are_said(corpus: Path) -> None:
    (found,) = items(corpus, model=[f"org/m{number:02d}" for number in range(7)]).evaluations
    assert found.too_few_models
    assert found.reliability is None
    assert all(question.p_wrong_key is None for question in found.questions)
    assert found.questions[0].difficulty >= 0


def test_a_subset_is_part_of_the_questions(corpus: Path, exam: EvaluationItems) -> None:
    (found,) = items(corpus, subset=10, seed=3).evaluations
    assert found.subset is not None
    assert len(set(found.subset.questions)) == 10
    assert set(found.subset.questions) <= {question.sample_hash for question in exam.questions}
    (again,) = items(corpus, subset=10, seed=3).evaluations
    assert again == found
    with pytest.raises(UsageError, match="no evaluation has a subset of 60"):
        items(corpus, subset=60)
    with pytest.raises(UsageError, match="at least 1"):
        items(corpus, subset=0)


def test_near_duplicates_differ_in_few_words() -> None:
    words = [f"word{number}" for number in np.random.default_rng(0).permutation(60)]
    text = " ".join(words)
    changed = " ".join([*words[:-1], "other"])
    texts = [text, "something else altogether", changed, text.upper() + "!", "", ""]
    assert near_duplicates(texts) == {0: [2, 3], 2: [0, 3], 3: [0, 2]}


def test_each_of_many_equal_texts_has_near_duplicates() -> None:
    """Not all of them are listed: that would take quadratic time."""
    duplicates = near_duplicates(["the same question again"] * 1_000)
    assert len(duplicates) == 1_000
    assert sum(map(len, duplicates.values())) < 10_000


def test_rows_become_a_data_frame(corpus: Path) -> None:
    frame = items(corpus).to_pandas()
    assert len(frame) == QUESTIONS
    assert {"evaluation_name", "sample_hash", "difficulty", "p_wrong_key"} <= set(frame.columns)


def test_the_command_lists_suspected_keys_and_writes_a_subset(corpus: Path, tmp_path: Path) -> None:
    """The file of a subset is a filter of other commands."""
    chosen = tmp_path / "subset.txt"
    done = run_here("items", corpus, "--subset", "10", "-o", chosen)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert "exam: 60 questions, 40 models" in text
    assert "truth (" in text
    assert "1 question that all models get right" in text
    hashes = [line for line in chosen.read_text().splitlines() if not line.startswith("#")]
    assert len(hashes) == 10
    again = ("items", corpus, "--subset", "10", "-o", chosen, "--seed", "1")
    done = run_here(*again)
    assert done.returncode == 2
    assert b"subset.txt exists; choose another file, or add --overwrite" in done.stderr
    assert chosen.read_text().splitlines()[1:] == hashes
    assert run_here(*again, "--overwrite").returncode == 0
    hashes = chosen.read_text().splitlines()[1:]
    (stats,) = fastrec.stats(corpus, questions=chosen).evaluations
    assert stats.questions == 10
    lines = list(fastrec.cat(corpus, questions=str(chosen)))
    assert {json.loads(line)["sample_hash"] for line in lines} == set(hashes)
    fastrec.normalize(corpus, tmp_path / "small", questions=chosen)
    assert list(fastrec.cat(tmp_path / "small")) == lines


def test_a_file_of_questions_must_be_readable(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the questions .*missing\.txt cannot be read"):
        fastrec.stats(corpus, questions=tmp_path / "missing.txt")
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n\n")
    with pytest.raises(UsageError, match="there is no question in"):
        fastrec.stats(corpus, questions=empty)
    other = tmp_path / "other.txt"
    other.write_text("abc\n")
    with pytest.raises(UsageError, match="no question of the file matches --hash"):
        fastrec.stats(corpus, questions=other, hash="x*")


def test_some_models_agree_as_in_a_corpus_of_their_own(corpus: Path, tmp_path: Path) -> None:
    """What strong models say is counted among the chosen models, whatever their position."""
    chosen = [f"org/m{model:02d}" for model in range(4, MODELS)]
    own = make_corpus(tmp_path, (record for record in _records() if record["model_id"] in chosen))
    (found,) = items(corpus, model=chosen).evaluations
    (expected,) = items(own).evaluations
    assert found.questions[0].agreed_value == "truth"
    assert [(item.agreed_value, item.agreed_by) for item in found.questions] == [
        (item.agreed_value, item.agreed_by) for item in expected.questions
    ]


@pytest.mark.parametrize("flag", ["suspected_key", "all_right", "all_wrong"])
def test_questions_are_filtered_by_flag(corpus: Path, exam: EvaluationItems, flag: str) -> None:
    (table,) = fastrec.questions(corpus, flag=flag).evaluations
    expected = {item.sample_hash for item in exam.questions if flag in item.flags}
    assert {question.sample_hash for question in table.questions} == expected
    assert all(flag in (question.flags or ()) for question in table.questions)
    assert table.total == len(expected)


@pytest.mark.parametrize("lower", [False, True])
def test_flags_of_a_graded_metric_go_by_scores(tmp_path: Path, lower: bool) -> None:
    """`--wrong-by all` goes by verdicts, which are wrong below 0.5 here."""
    scores = {"none": (0, 0), "low": (0, 0.25), "high": (0.75, 1), "full": (1, 1)}
    records = [
        answer("e", asked, f"m{model}", score)
        for asked, own in scores.items()
        for model, score in enumerate(own)
    ]
    made = make_corpus(tmp_path, records)
    (found,) = items(made, lower_is_better="e" if lower else ()).evaluations
    flags = {item.sample_ids[0]: item.flags for item in found.questions}
    ends = ["all_right", "all_wrong"] if lower else ["all_wrong", "all_right"]
    assert [flags[f"id of {asked}"] for asked in scores] == [ends[:1], [], [], ends[1:]]
    (table,) = fastrec.questions(made, wrong_by="all").evaluations
    assert {question.sample_id for question in table.questions} == {"id of none", "id of low"}


def test_no_question_has_the_flag(corpus: Path) -> None:
    (table,) = fastrec.questions(corpus, flag="near_duplicate").evaluations
    assert table.questions == []
    with pytest.raises(UsageError, match="flag must be one of suspected_key"):
        fastrec.questions(corpus, flag="wrong")
    done = run_here("questions", corpus, "--flag", "all_right", "--flag", "all_wrong")
    assert b"all_wrong" in done.stdout


def test_a_report_shows_keys_to_check(corpus: Path, exam: EvaluationItems, tmp_path: Path) -> None:
    fastrec.report(corpus, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Questions whose key may be wrong" in page
    assert exam.questions[0].sample_hash[:12] in page
    assert f"truth ({exam.questions[0].agreed_by})" in page
