"""Means over questions: exact for any repeats and errors, and independent of how the corpus was
made.
"""

from __future__ import annotations

import json
import random
from itertools import chain
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.limits import Limits
from fastrec.sorting.keys import KeyColumns
from fastrec.summary.census import census_of_part, count_questions
from fastrec.summary.tally import Means, Outcome, Repeats, Totals, exact, means_of
from tests.normalize.normalizing import Corpus, run_limited
from tests.samples import sample
from tests.sizes import examples
from tests.summary.naive import NaiveModel, naive_models, near_root

scores = st.booleans() | st.sampled_from([0.1, 1 / 3, 0.5, 1e-300, -2.5]) | st.integers(-3, 3)
outcomes = st.tuples(st.booleans(), scores, st.sampled_from([False, False, True]))
answers = st.tuples(
    st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"1", b"2"]), outcomes
)


def totals(some: list[Outcome]) -> Totals:
    right = sum(correct and not error for correct, _, error in some)
    return Totals(
        len(some),
        right,
        sum(exact(one[1]) for one in some),
        sum(exact(one[1]) ** 2 for one in some),
    )


def as_record(question: bytes, outcome: Outcome) -> dict[str, Any]:
    correct, score, error = outcome
    evaluation = {"is_correct": correct, "score": score}
    names = {"evaluation_name": "e", "model_id": "m", "sample_hash": question.decode()}
    return {**names, "evaluation": evaluation, "error": "timeout" if error else None}


def check(found: Means, expected: NaiveModel) -> None:
    assert found.questions == expected.questions
    assert (found.accuracy, found.mean_score) == (expected.accuracy, expected.mean_score)
    assert near_root(found.accuracy_standard_error, expected.accuracy_variance)
    assert near_root(found.score_standard_error, expected.score_variance)


@given(st.lists(answers, min_size=1, max_size=25), st.integers(1, 4))
def test_means_agree_with_fractions(
    records: list[tuple[bytes, bytes, Outcome]], parts: int
) -> None:
    """However answers, errors and repeats are spread over parts, both readings are those of a
    simple computation.
    """
    lists = []
    for first in range(parts):
        part = records[first::parts]
        fields = [
            (b"e", question, b"m", evaluation_id, b"i") for question, evaluation_id, _ in part
        ]
        lists.append(census_of_part(KeyColumns.of(fields), [outcome for _, _, outcome in part])[0])
    repeats = count_questions(sorted(chain(*lists)))[b"e"].repeats.get(b"m", Repeats())
    plain = [as_record(question, outcome) for question, _, outcome in records]
    everything = [outcome for _, _, outcome in records]
    (expected,) = naive_models(plain).values()
    found = means_of(
        totals([one for one in everything if not one[2]]), repeats.without_errors, repeats.answers
    )
    check(found, expected)
    (expected,) = naive_models(plain, errors_as_wrong=True).values()
    check(means_of(totals(everything), repeats.without_errors, repeats.records), expected)


def trials(seed: int) -> list[dict[str, Any]]:
    """Records of three models: with one to four answers per question in several runs, with errors,
    with errors only.
    """
    rng = random.Random(seed)
    records = []
    for question in range(examples(30, 60)):
        for model, errors in (("a", 0.0), ("b", 0.4), ("c", 1.0)):
            for trial in range(rng.randint(1, 4)):
                right = rng.random() < 0.5
                records.append(
                    sample(
                        evaluation_id=f"run-{trial % 3}",
                        model_id=model,
                        sample_id=rng.choice([question, f"q-{question}"]),
                        input={"raw": str(question), "reference": "x"},
                        evaluation={
                            "score": rng.choice([right, rng.random(), 10**30]),
                            "is_correct": right,
                        },
                        error="timeout" if rng.random() < errors else None,
                    )
                )
    return records


def test_the_summary_depends_on_the_records_alone(tmp_path: Path) -> None:
    """Part size, sort order, jobs and partitions of the census change nothing, and fractions give
    the same numbers.
    """
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in trials(seed=3))
    )
    small: dict[str, Any] = {
        "part_size": 8_192,
        "limits": Limits(census_fan_in=2, census_partitions=3),
    }
    ways: list[dict[str, Any]] = [
        {},
        small,
        {**small, "sort_by": ("evaluation_id",)},
        {**small, "sort_by": ("sample_id", "model_id")},
        {"part_size": 8_192, "jobs": 2, "limits": Limits(small_input=0)},
    ]
    summaries = set()
    for number, way in enumerate(ways):
        run_limited([tmp_path / "a.jsonl"], tmp_path / str(number), way)
        summaries.add((tmp_path / str(number) / "summary.json").read_bytes())
    assert len(summaries) == 1
    corpus = Corpus(tmp_path / "1")
    assert len(corpus.parts) > 5
    records = [json.loads(line) for line in corpus.lines]
    (evaluation,) = corpus.summary["evaluations"]
    for errors_as_wrong in (False, True):
        expected = naive_models(records, errors_as_wrong=errors_as_wrong)
        for model in evaluation["by_model"]:
            numbers = model["errors_as_wrong"] if errors_as_wrong else model
            questions = model["questions" if errors_as_wrong else "questions_answered"]
            names = Means._fields[1:]
            check(
                Means(questions, *(numbers[name] for name in names)),
                expected["arithmetic", model["model_id"]],
            )
    assert [model["answers"] > model["questions_answered"] for model in evaluation["by_model"]] == [
        True,
        True,
        False,
    ]
    assert [model["accuracy"] is None for model in evaluation["by_model"]] == [False, False, True]


# Errors


def test_a_record_with_an_error_is_never_correct(tmp_path: Path) -> None:
    """It is no answer; with errors as wrong it is wrong, and has the score that was recorded."""
    right, failed = (
        sample(sample_id=number, error=error, evaluation={"score": 1.0, "is_correct": True})
        for number, error in ((1, None), (2, "timeout"))
    )
    failed["input"] = {"raw": "other", "reference": "x"}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(right)}\n{json.dumps(failed)}\n")
    summary = fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    (model,) = summary.evaluations[0].by_model
    assert (model.records, model.answers, model.errors, model.correct) == (2, 1, 1, 1)
    assert (model.questions, model.questions_answered) == (2, 1)
    assert (model.accuracy, model.mean_score) == (1.0, 1.0)
    assert (model.errors_as_wrong.accuracy, model.errors_as_wrong.mean_score) == (0.5, 1.0)
