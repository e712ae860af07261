"""Statistics of models, from a summary, from shards and on common questions, compared with simple
counting.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import fastrec
from fastrec.cli import cli
from fastrec.cli.stats import stats as stats_command
from fastrec.commands.generate import Recipe, lines
from fastrec.commands.stats import stats
from fastrec.errors import CorpusError, FastrecError, UsageError, counted
from fastrec.limits import Limits, use_limits
from fastrec.sources.formats import Format
from fastrec.summary.present_ranking import RANKINGS, Stats, about, facts_in_words, legend
from tests.normalize.normalizing import Corpus, without_long, write
from tests.running import run_command
from tests.samples import sample
from tests.sources.compressing import compressed
from tests.summary.naive import naive_models, near_root

RECIPE = Recipe(records=500, seed=5, duplicates=0.2, conflicts=0.05, rejects=0.05)
HOSTILE = '</script>\x1b[31m|\u202e\n`=1,2"'


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards with duplicates, conflicts and invalid lines; read-only."""
    folder = tmp_path_factory.mktemp("shards")
    made = without_long(lines(RECIPE), 3_000)
    for number in range(3):
        write(folder / f"{number}.jsonl", made[number::3], Format.ZSTD if number else Format.PLAIN)
    return folder


@pytest.fixture(scope="module")
def corpus(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their corpus, with parts so small that questions span two parts; read-only."""
    output = tmp_path_factory.mktemp("made") / "corpus"
    fastrec.normalize(shards, output, part_size=20_000)
    assert len(list(output.glob("part-*.jsonl*"))) > 5
    return output


@pytest.fixture(scope="module")
def common_results(corpus: Path) -> Stats:
    """The results on common questions of the corpus."""
    return stats(corpus, common=True)


@pytest.fixture
def copy(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the corpus, to be damaged."""
    return Path(shutil.copytree(corpus, tmp_path / "copy"))


def corpus_of(folder: Path, *records: dict[str, Any], **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "a.jsonl", [json.dumps(record).encode() for record in records])
    fastrec.normalize(folder / "a.jsonl", folder / "corpus", **options)
    return folder / "corpus"


def answer(model: str, question: int, correct: bool = True, **changes: Any) -> dict[str, Any]:
    evaluation = {"score": float(correct), "is_correct": correct}
    changes = {"evaluation": evaluation, "sample_id": question, "error": None} | changes
    return sample(model_id=model, input={"raw": str(question), "reference": "x"}, **changes)


def numbers(found: Stats) -> dict[tuple[str, str], Any]:
    """All numbers by evaluation and model, apart from ranks, which depend on the other models."""
    none = {"rank_best": None, "rank_worst": None, "unranked": ""}
    return {
        (one.evaluation_name, model.model_id): msgspec.structs.replace(model, **none)
        for one in found.evaluations
        for model in one.by_model
    }


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["stats", *map(str, arguments)])


run = partial(run_command, "stats")


# Counting


def test_corpus_is_read_from_its_summary(copy: Path) -> None:
    """The parts are not needed."""
    before = stats(copy)
    for part in copy.glob("part-*.jsonl*"):
        part.unlink()
    after = stats(copy)
    assert after.evaluations == before.evaluations
    assert after.damaged == sorted(
        str(copy / f"part-{at:05}.jsonl.zst") for at in range(len(after.damaged))
    )
    summary = json.loads((copy / "summary.json").read_bytes())
    assert [one.evaluation_name for one in before.evaluations] == [
        one["evaluation_name"] for one in summary["evaluations"]
    ]
    assert len(numbers(before)) == sum(one["models"] for one in summary["evaluations"])


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("jobs", [1, 2])
def test_shards_equal_their_corpus(shards: Path, corpus: Path, common: bool, jobs: int) -> None:
    """Duplicates count once, invalid lines do not count, and shards are not changed."""
    before = sorted(path.name for path in shards.iterdir())
    assert stats(shards, common=common, jobs=jobs) == stats(corpus, common=common)
    assert sorted(path.name for path in shards.iterdir()) == before


def test_several_corpora_are_counted_as_one(tmp_path: Path) -> None:
    """A record that is in both counts once."""
    first = corpus_of(tmp_path / "1", answer("a", 1), answer("a", 2))
    second = corpus_of(tmp_path / "2", answer("a", 2), answer("a", 3, correct=False))
    (model,) = numbers(stats([first, second])).values()
    assert (model.records, model.correct, model.questions, model.coverage) == (3, 2, 3, 1.0)


def test_temporary_files_are_removed(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After success and after failure."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stats(shards, common=True)
    broken = write(tmp_path.parent / f"{tmp_path.name}.jsonl", [b"x"], Format.ZSTD)
    broken.write_bytes(broken.read_bytes()[:-2])
    with pytest.raises(FastrecError):
        stats([shards, broken])
    assert not list(tmp_path.iterdir())
    stats(shards, work_dir=tmp_path / "work")
    assert not list((tmp_path / "work").iterdir())


def on_common_questions(
    corpus: Path, pattern: str, *, errors_as_wrong: bool
) -> list[dict[str, Any]]:
    """The records of some models on questions that all of them that have answers have answered."""
    records = [json.loads(line) for line in Corpus(corpus).lines]
    records = [record for record in records if fnmatchcase(record["model_id"], pattern)]
    answered: dict[tuple[str, str], set[str]] = defaultdict(set)
    answering: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if errors_as_wrong or not record.get("error"):
            answering[record["evaluation_name"]].add(record["model_id"])
            answered[record["evaluation_name"], record["sample_hash"]].add(record["model_id"])
    return [
        record
        for record in records
        if answered[record["evaluation_name"], record["sample_hash"]]
        == answering[record["evaluation_name"]]
        != set()
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("errors_as_wrong", [False, True])
@pytest.mark.parametrize(("pattern", "jobs"), [("*", 1), ("*7b", 1), ("*1*", 2), ("org-3/*", 1)])
def test_common_questions(corpus: Path, pattern: str, jobs: int, errors_as_wrong: bool) -> None:
    """Equal to simple counting, with one and two processes, for questions that span two parts too."""
    limits = Limits(small_input=0)
    options: dict[str, Any] = {"model": [pattern], "errors_as_wrong": errors_as_wrong}
    found = numbers(use_limits(limits)(stats)(corpus, common=True, jobs=jobs, **options))
    records = on_common_questions(corpus, pattern, errors_as_wrong=errors_as_wrong)
    check_models(found, records, errors_as_wrong=errors_as_wrong)
    for key, model in found.items():
        own = [
            record for record in records if (record["evaluation_name"], record["model_id"]) == key
        ]
        assert model.tokens.total == sum(
            record.get("token_usage", {}).get("total_tokens", 0) for record in own
        )
        assert model.latency_ms.records == sum(
            "latency_ms" in record.get("performance", {}) for record in own
        )


def check_models(
    found: dict[tuple[str, str], Any],
    records: list[dict[str, Any]],
    *,
    errors_as_wrong: bool = False,
) -> None:
    """Compare the numbers of models with those of a simple computation over all records."""
    expected = naive_models(records, errors_as_wrong=errors_as_wrong)
    assert found.keys() == expected.keys()
    for key, model in found.items():
        naive = expected[key]
        exact = ("records", "errors", "answers", "questions", "correct", "accuracy", "mean_score")
        assert {name: getattr(model, name) for name in exact} == {
            name: getattr(naive, name) for name in exact
        }
        assert near_root(model.accuracy_standard_error, naive.accuracy_variance)
        assert near_root(model.score_standard_error, naive.score_variance)


@pytest.mark.parametrize(
    "order", [("model_id",), ("sample_hash",), ("evaluation_name", "model_id")]
)
def test_common_questions_in_another_sort_order(
    shards: Path, common_results: Stats, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Questions need not be adjacent."""
    fastrec.normalize(shards, tmp_path / "other", part_size=20_000, sort_by=order)
    assert stats(tmp_path / "other", common=True) == common_results


def test_given_hashes_are_kept(tmp_path: Path) -> None:
    """In a corpus made with `--sample-hash fill` the given hashes identify questions."""
    records = [
        answer(model, question, sample_hash="same", evaluation_id=str(question))
        for model in "ab"
        for question in (1, 2)
    ]
    corpus = corpus_of(tmp_path, *records, sample_hash="fill", sort_by=("model_id",))
    (evaluation,) = stats(corpus, common=True).evaluations
    assert (evaluation.questions, evaluation.common_questions) == (1, 1)
    assert [model.records for model in evaluation.by_model] == [2, 2]


def test_no_common_questions(tmp_path: Path) -> None:
    """The output says that there is no common question, and what to do."""
    corpus = corpus_of(tmp_path, answer("a", 1), answer("b", 2))
    (evaluation,) = stats(corpus, common=True).evaluations
    assert (evaluation.common_questions, evaluation.by_model, evaluation.chosen) == (0, [], 2)
    for output_format in ("text", "markdown"):
        done = invoke(corpus, "--common", "--format", output_format)
        assert (done.exit_code, "no question was answered by all of them" in done.stdout) == (
            0,
            True,
        )


def test_coverage_counts_questions(tmp_path: Path) -> None:
    """A question that was answered twice counts once."""
    again = answer("a", 1, correct=False, evaluation_id="again")
    corpus = corpus_of(tmp_path, answer("a", 1), again, answer("b", 1), answer("b", 2))
    found = numbers(stats(corpus))
    a = found["arithmetic", "a"]
    b = found["arithmetic", "b"]
    assert (a.records, a.questions, a.coverage) == (2, 1, 0.5)
    assert (b.records, b.questions, b.coverage) == (2, 2, 1.0)


@pytest.mark.parametrize("errors_as_wrong", [False, True])
def test_all_records(corpus: Path, errors_as_wrong: bool) -> None:
    """Means, standard errors and counts are those of a simple computation over all records."""
    found = numbers(stats(corpus, errors_as_wrong=errors_as_wrong))
    assert any(model.errors for model in found.values())
    assert any(model.answers > model.questions for model in found.values())
    check_models(
        found, [json.loads(line) for line in Corpus(corpus).lines], errors_as_wrong=errors_as_wrong
    )


def test_huge_token_counts(tmp_path: Path) -> None:
    """The sum is exact, and a mean that is too large for a double is None."""
    huge = 10**400
    usage = {"input_tokens": huge, "output_tokens": 0, "total_tokens": huge}
    corpus = corpus_of(tmp_path, answer("a", 1, token_usage=usage))
    (model,) = numbers(stats(corpus, by="tokens")).values()
    assert (model.tokens.total, model.tokens_per_record) == (huge, None)


# Choosing and ranking


def test_cli_lists_all_rankings() -> None:
    """The command line has its own list, so that help imports nothing."""
    (option,) = (one for one in stats_command.params if one.name == "by")
    assert list(RANKINGS) == list(option.type.choices)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("by", "value"),
    [
        ("accuracy", lambda model: 1 if model.accuracy is None else -model.accuracy),
        ("score", lambda model: 1 if model.mean_score is None else -model.mean_score),
        ("coverage", lambda model: -model.coverage),
        ("errors", lambda model: model.errors / model.records),
        (
            "tokens",
            lambda model: (
                float("inf") if model.tokens_per_record is None else model.tokens_per_record
            ),
        ),
        (
            "latency",
            lambda model: float("inf") if model.latency_ms.p50 is None else model.latency_ms.p50,
        ),
        ("model", lambda model: model.model_id),
    ],
)
def test_ranking(corpus: Path, by: str, value: Any) -> None:
    """Best first, models without a number last, ties by accuracy, or by score if it is graded."""
    found = stats(corpus, by=by)
    assert numbers(found) == numbers(stats(corpus))
    for evaluation in stats(corpus, by=by, min_coverage=0).evaluations:
        assert evaluation.by == by
        ties = [
            model.mean_score if evaluation.graded else model.accuracy
            for model in evaluation.by_model
        ]
        ranks = [
            (value(model), -(tie or 0))
            for model, tie in zip(evaluation.by_model, ties, strict=True)
        ]
        assert ranks == sorted(ranks)
    assert {evaluation.graded for evaluation in found.evaluations} == {False, True}


def test_patterns(corpus: Path) -> None:
    """A name must match any pattern of its kind."""
    everything = numbers(stats(corpus))
    found = numbers(stats(corpus, evaluation=["trivia*", "*desk"], model=["*7b", "org-1/*"]))
    assert found == {
        (name, model): value
        for (name, model), value in everything.items()
        if (name.startswith("trivia") or name.endswith("desk"))
        and (model.endswith("7b") or model.startswith("org-1/"))
    }
    assert 0 < len(found) < len(everything)


def test_name_with_brackets_matches_itself(tmp_path: Path) -> None:
    """Even if its brackets mean something else in a pattern."""
    corpus = corpus_of(tmp_path, answer("m[1]", 1), answer("m1", 1))
    assert [model for _, model in numbers(stats(corpus, model=["m[1]"]))] == ["m1", "m[1]"]
    assert [model for _, model in numbers(stats(corpus, model=["m[[]1]"]))] == ["m[1]"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"model": ["org-1/*", "nobody"]},
            "no model matches 'nobody'; available: org-0/model-1b, ",
        ),
        (
            {"evaluation": ["nothing*"]},
            r"no evaluation matches 'nothing\*'; available: booking_agent, ",
        ),
        ({"by": "beauty"}, "by must be one of accuracy, score, .*, not 'beauty'"),
    ],
)
def test_unknown_names(corpus: Path, options: dict[str, Any], said: str) -> None:
    """A pattern that matches nothing is a usage error that lists the available names."""
    with pytest.raises(UsageError, match=said):
        stats(corpus, **options)


# Output


def test_table_output(corpus: Path) -> None:
    """One line per model under the heading of its evaluation, without colours."""
    done = invoke(corpus, "--evaluation", "trivia_choice")
    lines = done.stdout.splitlines()
    (evaluation,) = stats(corpus, evaluation=["trivia_choice"]).evaluations
    errors = f"{counted(evaluation.errors, 'error')}, " if evaluation.errors else ""
    assert lines[0].startswith(
        f"trivia_choice: {evaluation.records} records, {errors}{evaluation.models} models, "
    )
    assert lines[0].endswith(
        f"{evaluation.questions} questions, {evaluation.common_questions} answered by all models"
    )
    assert lines[1].split()[:6] == [
        "rank",
        "model",
        "questions",
        "answers",
        "answers/question",
        "coverage",
    ]
    blank = lines.index("")
    unranked = next(
        number for number, line in enumerate(lines) if line.strip().startswith("not ranked:")
    )
    ranked, others = (
        [one for one in evaluation.by_model if bool(one.rank) is is_ranked]
        for is_ranked in (True, False)
    )
    rows = [line.split() for line in lines[2:unranked]]
    assert [row[:2] for row in rows[: len(ranked)]] == [[one.rank, one.model_id] for one in ranked]
    assert [row[0] for row in rows[len(ranked) :]] == [one.model_id for one in others]
    assert (len(rows), unranked) == (len(evaluation.by_model), blank - 1)
    found = stats(corpus, evaluation=["trivia_choice"])
    assert lines[blank + 1 :] == [*legend(found), "", *facts_in_words(found.corpus)]
    assert max(map(len, legend(stats(corpus)))) < 80
    assert f"{evaluation.by_model[0].accuracy:.1%}" in lines[2]
    assert "\x1b" not in run(corpus).stdout.decode()


def test_empty_columns_are_left_out(tmp_path: Path) -> None:
    """An evaluation without latencies, errors or repeats has no columns for them."""
    plain = {
        key: value
        for key, value in answer("a", 1).items()
        if key not in {"performance", "token_usage"}
    }
    done = invoke(corpus_of(tmp_path, plain))
    head = done.stdout.splitlines()[1].split()
    assert head == ["model", "n", "coverage", "accuracy", "95%", "interval", "score"]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model `a` answers two questions four times each, `b` once and with an error, `c` has errors
    only; read-only.
    """
    records = [
        answer("a", number % 2, correct=number < 6, evaluation_id=f"run-{number}")
        for number in range(8)
    ]
    records += [answer("b", 0), answer("b", 1, correct=True, error="timeout")]
    records += [answer("c", number, correct=False, error="refused") for number in range(2)]
    return corpus_of(tmp_path_factory.mktemp("failing"), *records)


def test_errors_do_not_count(failing: Path) -> None:
    """A model without answers has no accuracy and is last; with errors as wrong, it is wrong."""
    (evaluation,) = stats(failing).evaluations
    assert [(model.model_id, model.accuracy, model.mean_score, model.answers) for model in evaluation.by_model] == [
        ("b", 1.0, 1.0, 1), ("a", 0.75, 0.75, 8), ("c", None, None, 0),
    ]  # fmt: skip
    assert (
        evaluation.errors,
        evaluation.chosen,
        evaluation.answering,
        evaluation.common_questions,
    ) == (3, 3, 2, 1)
    assert (
        about(evaluation)
        == "12 records, 3 errors, 3 models, 2 questions, 1 answered by all 2 models with answers"
    )
    (evaluation,) = stats(failing, errors_as_wrong=True).evaluations
    assert [(model.model_id, model.accuracy, model.mean_score, model.answers) for model in evaluation.by_model] == [
        ("a", 0.75, 0.75, 8), ("b", 0.5, 1.0, 2), ("c", 0.0, 0.0, 2),
    ]  # fmt: skip
    assert (evaluation.errors, evaluation.answering, evaluation.common_questions) == (3, 3, 2)
    shown = invoke(failing, "--model", "c").stdout
    assert "errors: records with an error." in shown
    assert "95% interval" not in shown  # neither in the table, nor in the legend


def test_common_questions_are_those_of_models_with_answers(failing: Path) -> None:
    """A model without answers does not make every question uncommon; its errors are still shown."""
    (evaluation,) = stats(failing, common=True).evaluations
    assert evaluation.common_questions == 1
    found = {
        model.model_id: (model.answers, model.errors, model.accuracy)
        for model in evaluation.by_model
    }
    assert found == {"a": (4, 0, 0.75), "b": (1, 0, 1.0), "c": (0, 1, None)}
    (evaluation,) = stats(failing, common=True, model=["c"]).evaluations
    assert (evaluation.common_questions, evaluation.by_model) == (0, [])
    assert "every record has an error" in invoke(failing, "--common", "--model", "c").stdout


@pytest.mark.parametrize("options", [[], ["--common"], ["--errors-as-wrong"]])
def test_errors_and_repeats_are_shown(failing: Path, options: list[str]) -> None:
    """In tables, Markdown and CSV. The legend says how errors count."""
    for output_format in ("text", "markdown"):
        text = invoke(failing, "--format", output_format, *options).stdout
        assert all(
            name in text
            for name in ("questions", "answers", "answers/question", "errors", "95% interval")
        )
        assert ("–" in {cell.strip("| ") for cell in text.split()}) is (
            "--errors-as-wrong" not in options
        )
        assert "A question with several answers counts once, with the mean of its answers." in text
        assert ("They count as wrong" in text) is ("--errors-as-wrong" in options)
    rows = {
        row["model_id"]: row
        for row in csv.DictReader(io.StringIO(invoke(failing, "--format", "csv", *options).stdout))
    }
    assert (rows["c"]["accuracy"] == "") is ("--errors-as-wrong" not in options)
    assert int(rows["c"]["errors"]) > 0
    assert (
        float(rows["a"]["accuracy_low"])
        < float(rows["a"]["accuracy"])
        < float(rows["a"]["accuracy_high"])
    )
    assert rows["a"]["answers_per_question"] == "4.0"


def test_standard_errors_are_over_questions(tmp_path: Path) -> None:
    """Four equal answers to each question tell as much as one: the error and the interval do not
    shrink.
    """
    once = [answer("a", number, correct=number % 3 == 0) for number in range(30)]
    four_times = [
        {**record, "evaluation_id": f"run-{trial}"} for record in once for trial in range(4)
    ]
    (single,) = numbers(stats(corpus_of(tmp_path / "1", *once))).values()
    (repeated,) = numbers(stats(corpus_of(tmp_path / "4", *four_times))).values()
    assert (single.answers, repeated.answers, repeated.questions) == (30, 120, 30)
    for name in (
        "accuracy",
        "accuracy_standard_error",
        "accuracy_low",
        "accuracy_high",
        "score_standard_error",
    ):
        assert getattr(repeated, name) == pytest.approx(getattr(single, name))


def test_a_summary_of_another_format(copy: Path) -> None:
    """The message says which format it is, and what to do."""
    summary = json.loads((copy / "summary.json").read_bytes())
    (copy / "summary.json").write_text(json.dumps(summary | {"format": 3}))
    with pytest.raises(
        CorpusError, match=r"its format is 3, and this version of fastrec reads 4\. Normalize again"
    ):
        stats(copy)
    assert any("its format is 3" in problem.message for problem in fastrec.verify(copy).problems)
    done = run(copy)
    assert done.returncode == 3
    assert done.stderr.endswith(b"reads 4. Normalize again\n")  # nothing says that it is damaged


def test_json_output(corpus: Path) -> None:
    """`--format json` prints the result of the Python function."""
    done = invoke(corpus, "--format", "json", "--by", "latency", "--common")
    assert msgspec.json.decode(done.stdout, type=Stats) == stats(corpus, by="latency", common=True)


def test_a_model_that_is_elsewhere_is_found(tmp_path: Path) -> None:
    """If a model has no records of the chosen evaluations, the message names evaluations that it
    has records of.
    """
    names = [("a", "x"), *((f"b{number:02d}", "org/y") for number in range(12))]
    records = [sample(evaluation_name=evaluation, model_id=model) for evaluation, model in names]
    write(tmp_path / "a.jsonl", [json.dumps(record).encode() for record in records])
    with pytest.raises(UsageError) as caught:
        stats(tmp_path / "a.jsonl", evaluation=["a"], model=["x", "org/*"])
    assert str(caught.value) == (
        "no model of the chosen evaluations matches 'org/*'; available: x. It matches models of "
        "other evaluations: "
        "b00, b01, b02, b03, b04, b05, b06, b07, b08, b09 and 2 more"
    )


def test_csv_has_no_formulas(tmp_path: Path) -> None:
    """A name that a spreadsheet would evaluate has a single quote in front, unless raw cells are
    asked for.
    """
    record = sample(
        model_id="=m",
        evaluation_name="-e",
        evaluation={"score": -1, "is_correct": False},
        error=None,
    )
    write(tmp_path / "a.jsonl", [json.dumps(record).encode()])
    for options, mark in (([], "'"), (["--raw-cells"], "")):
        (row,) = csv.DictReader(
            io.StringIO(invoke(tmp_path / "a.jsonl", "--format", "csv", *options).stdout)
        )
        assert [row["evaluation_name"], row["model_id"], row["mean_score"]] == [
            f"{mark}-e",
            f"{mark}=m",
            "-1.0",
        ]


def test_csv_output(corpus: Path) -> None:
    """One row per evaluation and model, with full precision; unknown values are empty."""
    rows = list(csv.DictReader(io.StringIO(invoke(corpus, "--format", "csv").stdout)))
    found = numbers(stats(corpus))
    assert [(row["evaluation_name"], row["model_id"]) for row in rows] == list(found)
    for row, model in zip(rows, found.values(), strict=True):
        assert float(row["accuracy"]) == model.accuracy
        assert int(row["total_tokens"]) == model.tokens.total
        assert (row["latency_ms_p50"] == "") is (model.latency_ms.p50 is None)
    assert rows[0]["rank"] == "1"


def test_markdown_output(corpus: Path) -> None:
    """Every row has as many cells as the heading."""
    done = invoke(corpus, "--format", "markdown", "--evaluation", "trivia_choice")
    title, blank, *table = done.stdout.splitlines()
    del table[table.index("") :]  # the legend
    assert title.startswith(r"**trivia\_choice**: ")
    assert blank == ""
    assert len({line.count("|") for line in table}) == 1


@pytest.mark.parametrize("output_format", ["text", "json", "csv", "markdown"])
def test_record_text_is_escaped(tmp_path: Path, output_format: str) -> None:
    """Escape sequences, line breaks and direction marks are escaped; in Markdown, HTML too."""
    corpus = corpus_of(tmp_path, answer(HOSTILE, 1, evaluation_name=HOSTILE))
    text = invoke(corpus, "--format", output_format).stdout
    assert not set(text) & set("\x1b\u202e")
    if output_format == "markdown":
        assert "</script>" not in text
        table = text.splitlines()[2:]
        assert len({line.count("|") - line.count(r"\|") for line in table[: table.index("")]}) == 1
    if output_format == "csv":
        _, row = csv.reader(io.StringIO(text))
        assert row[2] == HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e").replace(
            "\n", r"\n"
        )


def test_statistics_of_nothing_are_exit_code_1(tmp_path: Path) -> None:
    """A corpus and shards without a record: the message says so in every format, and a script
    notices.
    """
    corpus = corpus_of(tmp_path, allow_empty=True)
    (tmp_path / "blank.jsonl").write_text("\n\n")
    for paths in ([corpus], [tmp_path / "blank.jsonl"]):
        for options in (
            [],
            ["--common", "--format", "csv"],
            ["--format", "json", "--quiet"],
            ["--format", "markdown"],
        ):
            done = invoke(*paths, *options)
            assert (done.exit_code, done.stderr.splitlines()[-1]) == (
                1,
                "error: there are no records",
            )
    assert invoke(corpus, "--common", "--format", "csv").stdout.count("\n") == 1
    with pytest.raises(UsageError, match="no model matches 'a'; there are no models"):
        stats(corpus, model=["a"])


def test_notice_about_lines_that_repairs_would_keep(tmp_path: Path) -> None:
    """Invalid lines of known producers need not be lost."""
    records = [answer("m", 1), answer("m", 2, evaluation={"score": "1", "is_correct": True})]
    write(tmp_path / "a.jsonl", [*(json.dumps(record).encode() for record in records), b"{"])
    notices: list[str] = []
    stats(tmp_path / "a.jsonl", notice=notices.append)
    assert notices == [
        "2 of 3 lines are invalid and do not count",
        "`fastrec normalize --repair all` would keep 1 of them",
    ]


def test_notice_about_invalid_lines(shards: Path) -> None:
    """Printed on stderr, but not with --quiet."""
    done = run(shards, "--format", "json")
    assert b"lines are invalid and do not count" in done.stderr
    assert json.loads(done.stdout)["by"] == "accuracy"
    assert run(shards, "-q").stderr == b""


@pytest.mark.parametrize(
    "output_format",
    [
        "text",
        "json",
        *(pytest.param(name, marks=pytest.mark.long_only) for name in ("csv", "markdown")),
    ],
)
def test_closed_pipe(corpus: Path, output_format: str) -> None:
    """A closed pipe prints no error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(corpus, "--format", output_format, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_fits_100_columns() -> None:
    """Help has examples and fits into 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


# Bad input


def test_damaged_summary(copy: Path) -> None:
    """A truncated, changed or missing summary is an error that names the file and says what to do."""
    summary = copy / "summary.json"
    whole = summary.read_bytes()
    summary.write_bytes(whole[:-30])
    with pytest.raises(CorpusError, match=r"summary.json: is not a summary: .* Normalize again"):
        stats(copy)
    summary.write_bytes(whole.replace(b'"correct": 1', b'"correct": 2', 1))
    with pytest.raises(
        CorpusError, match=r"is not the one that manifest.json names: run fastrec verify"
    ):
        stats(copy)
    summary.unlink()
    with pytest.raises(CorpusError, match=r"summary.json: is missing: normalize again"):
        stats(copy)


def test_damaged_columns(copy: Path) -> None:
    """Columns that are damaged or gone are an error; texts are not read."""
    columns = copy / "part-00003.columns"
    whole = columns.read_bytes()
    for damage in (whole[:200], b"", whole[:20] + bytes(8) + whole[28:], b"x" + whole[1:]):
        columns.write_bytes(damage)
        with pytest.raises(CorpusError, match=r"part-00003\.columns: is damaged: .*"):
            stats(copy, common=True)
    shutil.copy(copy / "part-00004.columns", columns)
    with pytest.raises(
        CorpusError, match=r"part-00003\.columns: is damaged: it belongs to another part"
    ):
        stats(copy, common=True)
    columns.unlink()
    with pytest.raises(CorpusError, match=r"part-00003\.columns: is missing"):
        stats(copy, common=True)
    columns.write_bytes(whole)
    (copy / "part-00003.jsonl.zst").write_bytes(b"")
    assert stats(copy, common=True).evaluations


def test_corpus_without_manifest(copy: Path) -> None:
    """Its parts are read as shards, with the same result; but now the lines of the parts are the
    input.
    """
    expected = stats(copy)
    (copy / "manifest.json").unlink()
    (copy / "rejects.jsonl.zst").unlink()
    found = stats(copy)
    assert found.corpus.recipes == {"R1": sum(one.records for one in found.evaluations)}
    assert msgspec.structs.replace(found, corpus=expected.corpus) == expected


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing"], 2, "missing: cannot be found"),
        ([], 2, "no input: name files"),
        (["empty"], 2, "the directory has no *.jsonl* files"),
        (
            ["cut.jsonl.zst"],
            3,
            "error: 1 shard could not be read completely, so there are no statistics:\n  cut.",
        ),
        (["good.jsonl", "--by", "beauty"], 2, "'accuracy', 'score'"),
        (["good.jsonl", "--format", "xml"], 2, "'text', 'json', 'csv', 'markdown'"),
        (
            ["good.jsonl", "--model", "nobody"],
            2,
            "error: no model matches 'nobody'; available: org/model\n",
        ),
        (["good.jsonl", "--jobs", "0"], 2, "--jobs"),
        (["good.jsonl", "--work-dir", "good.jsonl"], 3, "good.jsonl: File exists"),
        (["broken"], 3, "broken/manifest.json: is not a manifest: "),
    ],
)
def test_errors_and_exit_codes(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    """2: the command line is wrong; 3: failed. The message is on stderr, and stdout is empty."""
    good = json.dumps(sample()).encode()
    write(tmp_path / "good.jsonl", [good])
    (tmp_path / "cut.jsonl.zst").write_bytes(compressed(Format.ZSTD, good)[:-5])
    for name in ("empty", "broken"):
        (tmp_path / name).mkdir()
    (tmp_path / "broken" / "manifest.json").write_bytes(b"{")
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr.decode()
