"""Numbers about corpora whose hashes one metric splits, or whose names look like others."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from fastrec.errors import UsageError
from fastrec.statistics.items import discriminations
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here
from tests.samples import sample_of

MODELS = ("org/a", "org/b")


def split(number: int, model: str, sample: int, score: float, **more: Any) -> Record:
    """An answer to one of two questions with the same hash."""
    fields = {"sample_id": f"{number}-{sample}", "text": f"{model} {number} {sample}"} | more
    return answer("e", f"q{number}", model, score, **fields)


def test_answers_that_two_metrics_judge_are_paired_if_only_one_splits_the_hash(
    tmp_path: Path,
) -> None:
    """The second metric judged another `sample_id` of each model."""
    records = []
    for number in range(10):
        for model in MODELS:
            for sample in (0, 1):
                common = (number, model, sample, float(number % 2))
                records.append(split(*common, evaluation_result_id="exact"))
                if sample == (model == MODELS[1]):
                    records.append(split(*common, evaluation_result_id="judge"))
    corpus = make_corpus(tmp_path, records)
    [agreement] = fastrec.compare(corpus, metric_pair=["exact", "judge"]).agreement
    assert (agreement.answers, agreement.kappa) == (20, 1)
    assert (agreement.judged_by_first, agreement.judged_by_second) == (20, 0)


def test_a_cluster_is_that_of_all_records_of_a_hash(tmp_path: Path) -> None:
    """Models have other `sample_id`s; only the records of one of them name the cluster."""
    records = []
    for number in range(8):
        records.append(answer("e", f"q{number}", MODELS[0], number % 2, sample_id=f"a{number}"))
        passage = {"metadata": {"passage": str(number // 4)}, "sample_id": f"b{number}"}
        records.append(answer("e", f"q{number}", MODELS[1], number < 4, **passage))
    corpus = make_corpus(tmp_path, records)
    [compared] = fastrec.compare(corpus, *MODELS, cluster="metadata.passage").evaluations
    assert (compared.questions, compared.clusters) == (8, 2)


def test_flags_are_those_of_a_question_of_a_split_hash(tmp_path: Path) -> None:
    """Of two questions with the same hash, one is always wrong, and one always right."""
    records = [split(0, f"org/m{model}", sample, sample) for model in range(9) for sample in (0, 1)]
    records += [
        answer("e", f"other {number}", f"org/m{model}", (number + model) % 2)
        for model in range(9)
        for number in range(4)
    ]
    corpus = make_corpus(tmp_path, records)
    for flag, sample_id in (("all_wrong", "0-0"), ("all_right", "0-1")):
        [scope] = fastrec.questions(corpus, flag=flag).evaluations
        assert [row.sample_id for row in scope.questions] == [sample_id]


@pytest.mark.parametrize("begin", ["hash", "ab/cd"])
def test_a_trend_splits_hashes_with_slashes(tmp_path: Path, begin: str) -> None:
    """Only the second corpus splits them."""
    corpora = []
    for samples in (1, 2):
        folder = tmp_path / str(samples)
        folder.mkdir()
        records = [
            split(number, MODELS[0], sample, (number + samples) % 2, sample_hash=f"{begin}{number}")
            for number in range(6)
            for sample in range(samples)
        ]
        shard = folder / "in.jsonl"
        shard.write_text("".join(json.dumps(record) + "\n" for record in records))
        fastrec.normalize(shard, folder / "corpus", sample_hash="fill")
        corpora.append(folder / "corpus")
    [model] = fastrec.trend(corpora).evaluations[0].models
    assert model.changes[0].questions == 6


def test_evaluations_with_the_names_of_columns_keep_their_column(tmp_path: Path) -> None:
    """Of all columns that rows and tables have."""

    def corpus_with(folder: str, evaluations: Sequence[str]) -> Path:
        (tmp_path / folder).mkdir()
        return make_corpus(
            tmp_path / folder,
            [
                answer(name, f"{name} {number}", model, number < most)
                for name in evaluations
                for number in range(10)
                for model, most in zip(MODELS, (8, 4), strict=True)
            ],
        )

    plain = fastrec.leaderboard(corpus_with("plain", ["e", "f"]))
    text = run_here("leaderboard", tmp_path / "plain" / "corpus", "--format", "markdown").stdout
    header = next(line for line in text.decode().splitlines() if line.startswith("|"))
    names = {*header.replace(" (%)", "").strip("| ").split(" | "), *plain.to_pandas().columns}
    taken = sorted(name for name in names if not name.startswith(("e", "f")) and "." not in name)
    assert {"model", "mean", "mean rank", "wins", "rank", "model_id", "group"} <= {*taken}
    corpus = corpus_with("odd", taken)
    frame = fastrec.leaderboard(corpus).to_pandas()
    assert list(frame["model_id"]) == list(MODELS)
    assert list(frame["mean"]) == [0.8, 0.4]
    assert {f"{name}_1" for name in taken} <= set(frame.columns)
    text = run_here("leaderboard", corpus, "--format", "markdown").stdout.decode()
    assert all(f"| {model} " in text for model in MODELS)


def test_a_first_answer_with_an_error_has_its_own_score(tmp_path: Path) -> None:
    """As the mean has it: with the lowest score, an error would be the best answer."""
    scores = [9.0, 5.0, 5.0, 5.0]
    records = [answer("e", f"q{number}", MODELS[0], score) for number, score in enumerate(scores)]
    records[0]["error"] = "timeout"
    corpus = make_corpus(tmp_path, records)
    for repeats in ("mean", "first"):
        options = {"repeats_as": repeats, "errors_as_wrong": True, "lower_is_better": "e"}
        [model] = fastrec.stats(corpus, **options).evaluations[0].by_model
        assert model.mean_score == 6


def test_the_first_epoch_is_the_lowest_number(tmp_path: Path) -> None:
    """Also of numbers that were written as floats."""
    records = [
        answer("e", "q", MODELS[0], epoch == "2.0", metadata={"epoch": epoch})
        for epoch in ("10.0", "2.0", "3.0")
    ]
    corpus = make_corpus(tmp_path, records)
    [model] = fastrec.stats(corpus, repeats_as="first").evaluations[0].by_model
    assert model.mean_score == 1


def test_a_name_with_the_mark_of_groups_is_a_name(tmp_path: Path) -> None:
    name = "a\x1fb"
    records = [
        answer(name, f"q{number}", model, number < 5) for number in range(8) for model in MODELS
    ]
    corpus = make_corpus(tmp_path, records)
    [evaluation] = fastrec.stats(corpus).evaluations
    assert (evaluation.evaluation_name, evaluation.questions) == (name, 8)
    assert fastrec.leaderboard(corpus).evaluations[0].evaluation_name == name
    assert fastrec.compare(corpus, *MODELS).evaluations[0].questions == 8


def test_a_direction_may_name_a_metric_that_no_chosen_record_has(tmp_path: Path) -> None:
    """It may be a setting for all questions to a corpus."""
    records = [
        answer("e", f"q{number}", model, number % 2, evaluation_result_id="acc")
        for number in range(4)
        for model in MODELS
    ]
    records += [answer("f", "q", model, 3.5, evaluation_result_id="wer") for model in MODELS]
    corpus = make_corpus(tmp_path, records)
    options = {"lower_is_better": "wer", "where": "evaluation_name=e"}
    assert fastrec.stats(corpus, **options).evaluations[0].questions == 4
    assert fastrec.stats(corpus, lower_is_better="wer", evaluation="e", group_by="model_id")
    assert fastrec.trend([corpus, corpus], **options).evaluations
    with pytest.raises(UsageError, match="matches no metric"):
        fastrec.stats(corpus, lower_is_better="w", where="evaluation_name=e")


@pytest.mark.parametrize("detect", ["nan", "0", "-5", "inf", "101"])
def test_a_difference_to_detect_is_a_number_of_points(tmp_path: Path, detect: str) -> None:
    records = [answer("e", f"q{number}", model, 1) for number in range(4) for model in MODELS]
    corpus = make_corpus(tmp_path, records)
    done = run_here("compare", corpus, *MODELS, "--detect", detect)
    assert done.returncode == 2
    assert b"detect" in done.stderr
    with pytest.raises(UsageError, match="detect must be above 0"):
        fastrec.compare(corpus, *MODELS, detect=float(detect))


def test_a_model_with_errors_alone_is_in_the_table_of_models(tmp_path: Path) -> None:
    records = [answer("e", "q", MODELS[0], 1), answer("e", "q", MODELS[1], 0, error="timeout")]
    corpus = make_corpus(tmp_path, records)
    query = "select model, answers, questions, accuracy from models order by model"
    done = run_here("sql", corpus, query, "--format", "json")
    assert [tuple(row.values()) for row in json.loads(done.stdout)] == [
        (MODELS[0], 1, 1, 1.0),
        (MODELS[1], 0, 0, None),
    ]


def test_corrected_scores_are_on_the_scale_of_all_models(tmp_path: Path) -> None:
    """Also those of a model whose scores alone would be on a scale from 0 to 1."""
    records = []
    for number in range(100):
        records.append(answer("e", f"q{number}", MODELS[0], number % 10 + 1, sample_id=str(number)))
        records.append(answer("e", f"q{number}", MODELS[1], 1, sample_id=str(number)))
    corpus = make_corpus(tmp_path, records)
    label = {"evaluation": "e", "model": MODELS[1]}
    lines = [
        json.dumps(label | {"sample_id": str(number), "score": 3 + number % 2})
        for number in range(40)
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines))
    found = fastrec.corrected(corpus, labels=tmp_path / "labels.jsonl", model=MODELS[1])
    [model] = found.models
    assert model.corrected == pytest.approx(3.5)
    assert model.low is not None
    assert model.high is not None
    assert 2.5 < model.low < 3.5 < model.high < 4.5


@pytest.mark.parametrize("extra", [True, ["hi"], {"a": 1}, [{"role": "user", "content": "zzz"}]])
def test_an_unknown_key_is_no_conversation(tmp_path: Path, extra: Any) -> None:
    """Records of 0.2.0 may have any; in later versions, turns are called `messages`."""
    record = sample_of("0.2.0", messages=extra)
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus", schema="0.2.0")
    [question] = fastrec.show(tmp_path / "corpus", record["sample_id"]).questions
    [shown] = question.answers
    assert [turn.text for turn in shown.turns] == [record["output"]["raw"]]
    for output_format in ("text", "html"):
        done = run_here("show", tmp_path / "corpus", record["sample_id"], "--format", output_format)
        assert done.returncode == 0


def test_records_without_a_metric_and_with_an_empty_one_are_left_out(tmp_path: Path) -> None:
    """They are counted together."""
    records = [
        answer("e", "q", MODELS[0], 1),
        answer("e", "q", MODELS[1], 1),
        answer("e", "q", MODELS[1], 0, evaluation_result_id=""),
    ]
    corpus = make_corpus(tmp_path, records)
    counts = fastrec.normalize(corpus, tmp_path / "less", model=MODELS[0]).line_counts
    assert (counts.kept, counts.lines) == (1, 1)


def test_huge_token_counts_have_a_cost(tmp_path: Path) -> None:
    usage = {"input_tokens": 10**400, "output_tokens": 1, "total_tokens": 1}
    corpus = make_corpus(tmp_path, [answer("e", "q", MODELS[0], 1, token_usage=usage)])
    (tmp_path / "prices.toml").write_text('["*"]\ninput = 2.0\noutput = 8.0\n')
    done = run_here("costs", corpus, "--prices", tmp_path / "prices.toml")
    assert b"unexpected" not in done.stderr


def test_totals_of_groups_by_model_keep_the_name_of_the_model(tmp_path: Path) -> None:
    records = [answer("e", f"q{number}", model, 1) for number in range(3) for model in MODELS]
    corpus = make_corpus(tmp_path, records)
    frame = fastrec.stats(corpus, group_by=["model_id", "evaluation.score"]).to_pandas()
    assert list(frame["model_id"]) == [*MODELS, *MODELS]
    assert frame["evaluation.score"].isna().sum() == 2
    frame = fastrec.compare(corpus, *MODELS, group_by="evaluation_name").to_pandas()
    assert list(frame["evaluation_name"]) == ["e", "e"]


def test_equal_scores_have_no_correlation() -> None:
    """Rounded means do not make one of them."""
    random = np.random.default_rng(5)
    scores = random.random((24, 5))
    scores[:, 0] = 0.1
    scores[:, 1] = 0.5
    assert np.isnan(discriminations(scores)).tolist() == [True, True, False, False, False]


def test_metrics_that_differ_are_found_if_only_one_splits_the_hash(tmp_path: Path) -> None:
    records = []
    for number in range(3):
        records += [
            split(number, MODELS[0], sample, 1, evaluation_result_id="acc") for sample in (0, 1)
        ]
        records.append(split(number, MODELS[0], 0, 0, evaluation_result_id="judge"))
    index = open_index(make_corpus(tmp_path, records))
    for metric in ("acc", "judge"):
        query = Query(evaluation_name="e", metric=metric, which="metrics-differ")
        assert len(index.ids(query)) == 3


def test_a_question_is_found_beyond_a_thousand_others(tmp_path: Path) -> None:
    """All have the same `sample_id`."""
    records = [
        answer(
            f"e{number:02}", f"q{number}", MODELS[0], 1, sample_id="0", evaluation_result_id=name
        )
        for number in range(51)
        for name in (f"metric {metric}" for metric in range(20))
    ]
    corpus = make_corpus(tmp_path, records)
    [question] = fastrec.show(corpus, "0", evaluation="e50").questions
    assert question.evaluation_name == "e50"


def test_the_trend_of_a_report_has_its_filters_and_directions(tmp_path: Path) -> None:
    for night in (0, 1):
        folder = tmp_path / "nights" / str(night)
        folder.mkdir(parents=True)
        records = []
        for number in range(40):
            metadata = {"metadata": {"subject": "law" if number % 2 else "art"}}
            score = 2.0 + night * (number % 2) + number / 100
            for model in MODELS:
                named = {"evaluation_result_id": "loss", "sample_id": str(number)}
                records.append(answer("e", f"q{number}", model, score, **named, **metadata))
        shard = folder / "in.jsonl"
        shard.write_text("".join(json.dumps(record) + "\n" for record in records))
        fastrec.normalize(shard, tmp_path / "corpora" / str(night))
    corpora = tmp_path / "corpora"

    def changes(**options: Any) -> list[str]:
        page = tmp_path / "page.html"
        fastrec.report(corpora / "1", page, trend=corpora, overwrite=True, **options)
        [section] = re.findall(r"(?s)<h2[^>]*>Trend</h2>(.*?)</section>", page.read_text())
        rows = re.findall(r"(?s)<tr>(.*?)</tr>", section)
        return [
            re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in rows if MODELS[0] in row
        ]

    higher, lower = changes(), changes(lower_is_better="loss")
    assert higher
    assert lower
    assert higher != lower
    assert not any(" law" in row for row in changes(where="metadata.subject=art"))
    assert len(changes(where="metadata.subject=art")) < len(higher)


def test_a_list_of_questions_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [answer("e", f"q{number}", MODELS[0], 1) for number in range(3)])
    hashes = [json.loads(line)["sample_hash"] for line in fastrec.cat(corpus)][:2]
    file = tmp_path / "questions.txt"
    file.write_text("\ufeff" + "\n".join(hashes))
    assert len(list(fastrec.cat(corpus, questions=file))) == 2
