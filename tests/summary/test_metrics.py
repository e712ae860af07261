"""Metrics: each has its own numbers, questions and common questions, and no mean mixes two of them."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.cli import cli
from fastrec.errors import UsageError
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import Limits
from fastrec.schemas.registry import NEWEST_SCHEMA
from fastrec.sorting.keys import METRIC_FIELDS, KeyColumns, key_maker, key_splitter
from fastrec.statistics.intervals import score_interval
from fastrec.summary.census import census_of_part, count_questions
from fastrec.summary.document import LineCounts, Repairable, Repaired, SameRun, Summary
from fastrec.summary.part_statistics import Census
from fastrec.summary.present_ranking import facts_in_words
from fastrec.summary.rows import outcome_of, row_maker
from fastrec.summary.summarize import hash_counts, summarize
from fastrec.summary.tally import Tally
from fastrec.wording import titles_in
from tests.normalize.normalizing import Corpus, run_limited
from tests.running import make_page
from tests.samples import sample_of
from tests.sizes import examples
from tests.summary.naive import naive_models, near_root

VERSION = NEWEST_SCHEMA.name
METRICS = [f"metric-{number}" for number in range(8)]


def graded(metric: str | None, question: int, score: Any, **changes: Any) -> dict[str, Any]:
    """A record of the newest version, without an error."""
    record = sample_of(
        VERSION,
        evaluation_result_id=metric,
        sample_id=f"q-{question}",
        input={"raw": str(question), "reference": ["x"]},
        evaluation={"score": score, "is_correct": score > 0.5},
        sample_hash=None,
        error=None,
    )
    record |= changes
    return {key: value for key, value in record.items() if value is not None}


def corpus_of(folder: Path, records: Iterable[dict[str, Any]], **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    run_limited([folder / "a.jsonl"], folder / "corpus", {"schema": VERSION, **options})
    return folder / "corpus"


def eight_metrics() -> list[dict[str, Any]]:
    """Ten samples, each answered once by two models, and scored by eight metrics: number m has
    scores m and m + 1.
    """
    return [
        graded(metric, question, number + (question + len(model)) % 2, model_id=model)
        for number, metric in enumerate(METRICS)
        for question in range(10)
        for model in ("a", "bc")
    ]


def stats_command(*arguments: Any) -> str:
    result = CliRunner().invoke(cli, ["stats", *map(str, arguments)], terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.stdout


# A mean per metric


def test_eight_metrics_on_ten_samples_are_ten_questions(tmp_path: Path) -> None:
    """Not eighty questions, not ten conflicts; and the mean of each metric is its own."""
    corpus = corpus_of(tmp_path, eight_metrics())
    summary = Summary.from_json((corpus / "summary.json").read_bytes())
    assert (summary.schema, summary.line_counts.kept, summary.line_counts.duplicates) == (
        VERSION,
        160,
        0,
    )
    assert (summary.repeats.identities, summary.contradictions.identities) == (0, 0)
    assert [(one.evaluation_name, one.metric) for one in summary.evaluations] == [
        ("arithmetic", m) for m in METRICS
    ]
    assert [one.graded for one in summary.evaluations] == [False, *[True] * 7]
    for number, one in enumerate(summary.evaluations):
        assert (one.records, one.models, one.questions, one.questions_answered_by_all) == (
            20,
            2,
            10,
            10,
        )
        assert (one.ids_with_many_hashes, one.hashes_with_many_ids) == (0, 0)
        for model in one.by_model:
            assert (model.records, model.answers, model.questions, model.questions_answered) == (
                10,
                10,
                10,
                10,
            )
            assert model.mean_score == number + 0.5
            assert model.score_standard_error == pytest.approx((10 / 4 / 9 / 10) ** 0.5)
            assert model.tokens.total == 150
    assert list(map(titles_in(summary.evaluations), summary.evaluations)) == [
        f"arithmetic · {metric}" for metric in METRICS
    ]


@settings(max_examples=examples(9, 100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["e", "e\0", "f"]),
            st.sampled_from([None, "", "m", "m\0\1", "\0"]),
            st.sampled_from(["a", "b"]),
            st.integers(0, 3),
            st.sampled_from([0, 1, 1.0, 0.25, -2, 10**30]),
            st.sampled_from([None, None, "timeout"]),
        ),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
    st.permutations(METRIC_FIELDS),
)
@example([("e", None, "a", 0, 1, None), ("e", "m", "a", 0, 0.5, None)], 2, METRIC_FIELDS)
def test_metrics_agree_with_fractions(
    rows: list[tuple[Any, ...]], parts: int, order: tuple[str, ...]
) -> None:
    """However records are spread over parts and sorted, each metric has the numbers of a simple
    computation.
    """
    records = [
        graded(metric, question, score, evaluation_name=name, model_id=model, error=error)
        for name, metric, model, question, score, error in rows
    ]
    summary = summarized([records[first::parts] for first in range(parts)], order)
    plain = [
        record | {"evaluation_name": _name(record), "sample_hash": record["sample_id"]}
        for record in records
    ]
    for errors_as_wrong in (False, True):
        expected = naive_models(plain, errors_as_wrong=errors_as_wrong)
        for one in summary.evaluations:
            for model in one.by_model:
                numbers = model.errors_as_wrong if errors_as_wrong else model
                naive = expected.pop(((one.evaluation_name, one.metric), model.model_id))  # type: ignore[arg-type]
                assert (numbers.accuracy, numbers.mean_score) == (naive.accuracy, naive.mean_score)
                assert near_root(numbers.score_standard_error, naive.score_variance)
                assert (model.records, model.errors) == (naive.records, naive.errors)
        assert not expected
    for one in summary.evaluations:
        own = [
            record
            for record in plain
            if record["evaluation_name"] == (one.evaluation_name, one.metric)
        ]
        assert one.questions == len({record["sample_id"] for record in own})
        scores = {record["evaluation"]["score"] for record in own if "error" not in record}
        assert one.graded is (not scores <= {0, 1})


def test_the_summary_does_not_depend_on_how_it_was_made(tmp_path: Path) -> None:
    """Sort order, part size, partitions of the census, jobs and the order of lines change nothing."""
    rng = random.Random(8)
    records = [
        graded(
            rng.choice([None, "f1", "exact"]),
            rng.randrange(20),
            rng.choice([0, 1, 0.25]),
            model_id=model,
        )
        | {"evaluation_id": f"run-{rng.randrange(2)}", "evaluation_name": rng.choice("de")}
        for model in ("a", "b", "c")
        for _ in range(60)
    ]
    small = {"part_size": 8_192, "limits": Limits(census_fan_in=2, census_partitions=3)}
    ways: list[dict[str, Any]] = [
        {},
        {**small, "sort_by": ("evaluation_result_id", "sample_id")},
        {**small, "sort_by": ("model_id",), "jobs": 2},
    ]
    summaries = set()
    for number, way in enumerate(ways):
        rng.shuffle(records)
        summaries.add(
            (corpus_of(tmp_path / str(number), records, **way) / "summary.json").read_bytes()
        )
    assert len(summaries) == 1
    summary = Summary.from_json(summaries.pop())
    assert summary.line_counts.duplicates > 0
    assert [(one.evaluation_name, one.metric) for one in summary.evaluations] == [
        (name, metric) for name in "de" for metric in (None, "exact", "f1")
    ]
    assert fastrec.verify(tmp_path / "1" / "corpus").ok


def _name(record: dict[str, Any]) -> Any:
    return record["evaluation_name"], record.get("evaluation_result_id")


def summarized(parts: list[list[dict[str, Any]]], order: tuple[str, ...]) -> Summary:
    """The summary of records in several parts, without a run."""
    judge = Judge(JudgeSettings(schema=NEWEST_SCHEMA.name))
    key = key_maker(order)
    split = key_splitter(order)
    row_of = row_maker(NEWEST_SCHEMA)
    tally = Tally()
    lists = []
    for part in parts:
        batch = judge.judge_chunk(
            b"\n".join(msgspec.json.encode(record) for record in part), bytearray()
        )
        assert not batch.rejected
        fields = [split(key(record)) for record in batch.records]
        rows = [row_of(record, 0, 0) for record in batch.records]
        piece = Tally()
        piece.add(KeyColumns.of(fields), msgspec.msgpack.decode(msgspec.msgpack.encode(rows)))
        tally.add_packed(piece.packed())
        lists.append(census_of_part(KeyColumns.of(fields), list(map(outcome_of, rows)))[0])
    census = Census()
    census.questions = count_questions(sorted(chain(*lists)))
    lines = sum(map(len, parts))
    counts = LineCounts(lines=lines, kept=lines, duplicates=0, rejected=0, blank=0)
    return Summary(
        schema=NEWEST_SCHEMA.name,
        line_counts=counts,
        versions={},
        notes={},
        rejected_by_code={},
        repaired=Repaired(lines=0, by_code={}, examples=[]),
        repairable=Repairable(lines=0, by_code={}),
        same_run=SameRun(records=0, runs=[]),
        sample_hash=hash_counts("sha256", NEWEST_SCHEMA, {}, []),
        **summarize(tally, census, NEWEST_SCHEMA),
    )


# Graded scores


@pytest.mark.parametrize(
    ("scores", "errors", "expected"),
    [
        ([0, 1, 1.0, 0.0, -0.0], [], False),
        ([0.5], [], True),
        ([1, 1], [0.5], False),
        ([1, 0.25], [0.25, 0.75], True),
        ([-1], [], True),
        ([10**30], [], True),
        ([2**64 + 1], [1, 0], True),
        ([], [0.5], False),
    ],
)
def test_a_metric_is_graded_if_an_answer_has_a_score_other_than_0_and_1(
    scores: list[Any], errors: list[Any], expected: bool
) -> None:
    """A score of a record with an error says nothing, because it does not count."""
    records = [graded("m", number, score) for number, score in enumerate(scores)]
    records += [
        graded("m", -1 - number, score, error="timeout") for number, score in enumerate(errors)
    ]
    assert [one.graded for one in summarized([records], METRIC_FIELDS).evaluations] == [expected]


def test_graded_metrics_are_ranked_by_score(tmp_path: Path) -> None:
    """Accuracy is shown, and models are ranked by it, only if asked for."""
    # By is_correct, a is better; by score, b is.
    scores = {"a": [0.6, 0.6, 0.6, 0.0], "b": [1.0, 1.0, 0.4, 0.4]}
    records = [
        graded(metric, question, score if metric == "f1" else float(score > 0.5), model_id=model)
        for metric in ("exact", "f1")
        for model, own in scores.items()
        for question, score in enumerate(own)
    ]
    corpus = corpus_of(tmp_path, records)

    def best(**options: Any) -> list[tuple[str, str]]:
        return [
            (one.by, one.by_model[0].model_id)
            for one in fastrec.stats(corpus, **options).evaluations
        ]

    assert best() == [("accuracy", "a"), ("score", "b")]
    assert best(accuracy=True) == best()
    assert best(by="accuracy") == [("accuracy", "a"), ("accuracy", "a")]
    assert best(by="score", metric="f1") == [("score", "b")]
    exact, f1 = stats_command(corpus).split("\n\n")[:2]
    assert exact.splitlines()[0].startswith("arithmetic · exact: 8 records, 2 models, 4 questions")
    assert exact.splitlines()[1].split()[:6] == [
        "rank",
        "model",
        "n",
        "coverage",
        "accuracy",
        "95%",
    ]
    assert f1.splitlines()[1].split()[:6] == ["rank", "model", "n", "coverage", "score", "95%"]
    assert "accuracy" not in f1
    low, high = score_interval(0.7, (4 * 0.09 / 3 / 4) ** 0.5)
    assert f"0.7  {low:.4g} to {high:.4g}" in f1
    for option in (["--accuracy"], ["--by", "accuracy"]):
        assert "accuracy" in stats_command(corpus, "--metric", "f1", *option).splitlines()[1]
    markdown = stats_command(corpus, "--metric", "f1", "--format", "markdown")
    assert markdown.startswith("**arithmetic · f1**: 8 records")
    assert "accuracy |" not in markdown


def test_json_and_csv_have_both(tmp_path: Path) -> None:
    """And say whether a metric is graded.

    Columns of CSV that were there before keep their places.
    """
    corpus = corpus_of(
        tmp_path, [graded(metric, 1, 0.75) for metric in (None, "f1")] + [graded("f1", 2, 1)]
    )
    found = json.loads(stats_command(corpus, "--format", "json"))
    assert [
        (one["metric"], one["metrics"], one["graded"], one["by"]) for one in found["evaluations"]
    ] == [
        (None, 2, True, "score"),
        ("f1", 2, True, "score"),
    ]
    model = found["evaluations"][1]["by_model"][0]
    assert (model["accuracy"], model["mean_score"]) == (1.0, 0.875)
    assert [model["score_low"], model["score_high"]] == list(
        score_interval(0.875, model["score_standard_error"])
    )
    rows = list(csv.DictReader(io.StringIO(stats_command(corpus, "--format", "csv"))))
    assert list(rows[0])[:3] == ["evaluation_name", "rank", "model_id"]
    added = ["graded", "rank_best", "rank_worst", "unranked"]
    assert list(rows[0])[-7:] == ["score_low", "score_high", "metric", *added]
    assert [(row["metric"], row["graded"], row["accuracy"]) for row in rows] == [
        ("", "true", "1.0"),
        ("f1", "true", "1.0"),
    ]
    assert stats_command(corpus).startswith("arithmetic · (no metric): 1 record, ")


# Choosing, common questions


def test_metrics_are_chosen_by_patterns(tmp_path: Path) -> None:
    """The title names the metric if the evaluation has several, even if one of them is chosen."""
    records = [graded(metric, 1, 1) for metric in ("rouge-1", "rouge-l", "exact")]
    corpus = corpus_of(tmp_path, [*records, graded("exact", 1, 1, evaluation_name="other")])

    def chosen(**options: Any) -> list[str]:
        return [one.title for one in fastrec.stats(corpus, **options).evaluations]

    assert chosen() == [
        "arithmetic · exact",
        "arithmetic · rouge-1",
        "arithmetic · rouge-l",
        "other",
    ]
    assert chosen(metric="rouge*") == ["arithmetic · rouge-1", "arithmetic · rouge-l"]
    assert chosen(metric=["exact"], evaluation="other") == ["other"]
    with pytest.raises(
        UsageError,
        match=r"no metric of the chosen evaluations matches 'rouge\*'; available: exact$",
    ):
        fastrec.stats(corpus, metric="rouge*", evaluation="other")
    plain = corpus_of(tmp_path / "plain", [graded(None, 1, 1)])
    with pytest.raises(
        UsageError, match=r"matches 'x'; the records name no metric \(evaluation_result_id\)"
    ):
        fastrec.stats(plain, metric="x")


@pytest.mark.parametrize(
    "sort_by", [(), ("sample_hash",), ("evaluation_result_id",), ("sample_id",)]
)
def test_common_questions_are_those_of_a_metric(sort_by: tuple[str, ...], tmp_path: Path) -> None:
    """Records of a question alternate between metrics, and its records span parts.

    Each metric is counted alone.
    """
    rng = random.Random(4)
    records = [
        graded(
            metric, question, rng.choice([0, 0.5, 1]), model_id=model, evaluation_id=f"run-{trial}"
        )
        for question in range(12)
        for metric in ("f1", "exact")
        for model in ("a", "b", "c")
        for trial in range(2)
        if rng.random() < 0.8
    ]
    corpus = corpus_of(tmp_path, records, part_size=8_192, sort_by=sort_by)
    assert len(Corpus(corpus).parts) > 5
    found = fastrec.stats(corpus, common=True)
    assert [one.title for one in found.evaluations] == ["arithmetic · exact", "arithmetic · f1"]
    for one in found.evaluations:
        own = [record for record in records if record["evaluation_result_id"] == one.metric]
        answered = {}
        for record in own:
            answered.setdefault(record["sample_id"], set()).add(record["model_id"])
        common = {question for question, models in answered.items() if len(models) == 3}
        assert one.common_questions == len(common)
        assert 0 < len(common) < 12
        plain = [
            record | {"sample_hash": record["sample_id"]}
            for record in own
            if record["sample_id"] in common
        ]
        expected = naive_models(plain)
        for model in one.by_model:
            naive = expected["arithmetic", model.model_id]
            assert (model.records, model.questions, model.mean_score) == (
                naive.records,
                len(common),
                naive.mean_score,
            )
            assert near_root(model.score_standard_error, naive.score_variance)


# What is shown about a corpus


def test_facts_about_a_corpus(tmp_path: Path) -> None:
    """Versions, upgrades, labels, repeats and recipes are below the tables, in JSON, and on the
    page.
    """
    records = [
        graded("m", 1, 1, schema_version="0.2.1"),
        graded("m", 2, 1, evaluation_name="other"),
        sample_of("0.2.0", error=None, sample_hash=None, sample_id=7),
    ]
    corpus = corpus_of(
        tmp_path,
        [{key: value for key, value in one.items() if value is not None} for one in records],
    )
    found = fastrec.stats(corpus)
    facts = found.corpus
    assert (facts.schema, facts.versions, facts.upgraded) == (VERSION, {"0.2.0": 1, VERSION: 2}, 1)
    assert facts.notes["version.mismatch"] == 1
    assert facts.notes["upgrade.sample_id_number"] == 1
    assert (facts.recipe, facts.recipes) == (NEWEST_SCHEMA.recipe, {"absent": 3})
    lines = list(facts_in_words(facts))
    assert lines[0] == f"schema {VERSION}: 1 line upgraded; lines: 2 of {VERSION}, 1 of 0.2.0"
    assert "1 version.mismatch" in lines[1]
    assert stats_command(corpus).endswith("\n\n" + "\n".join(lines) + "\n")
    page = make_page(corpus).decode()
    for text in (
        "Schema versions",
        "with a label of another version",
        "upgrade.sample_id_number",
        "on 2 evaluations with",
    ):
        assert text in page


def test_recipes_of_hashes() -> None:
    """They are counted in total, and by evaluation and model.

    Verified is what some recipe gives.
    """
    recipes = {
        ("b", "m", "R4"): 3,
        ("a", "m", "R1"): 2,
        ("a", "m", "absent"): 1,
        ("a", "n", "wrong"): 4,
        ("b", "m", "R1"): 5,
    }
    found = hash_counts("sha256", NEWEST_SCHEMA, recipes, [])
    assert (found.recipe, found.verified, found.filled, found.replaced) == (
        NEWEST_SCHEMA.recipe,
        10,
        1,
        4,
    )
    assert list(found.by_recipe.items()) == [("R1", 7), ("R4", 3), ("absent", 1), ("wrong", 4)]
    assert [(one.evaluation_name, one.model_id, one.recipes) for one in found.by_model] == [
        ("a", "m", {"R1": 2, "absent": 1}),
        ("a", "n", {"wrong": 4}),
        ("b", "m", {"R1": 5, "R4": 3}),
    ]
