"""Comparing two corpora: agreement with an independent implementation, repeats, and damaged
corpora.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.commands.diff import Difference, diff, plan
from fastrec.commands.diff.fields import OTHER_FIELDS, compare_records, split_object
from fastrec.commands.generate import Recipe, lines
from fastrec.errors import CorpusError, ShardError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.sources.formats import COLUMNS_MAGIC
from tests.commands.comparing import BY, KINDS, corpus_of, differing, found, reference, spelled
from tests.samples import sample
from tests.sizes import examples
from tests.strategies import free, records

MANY = 10**6

# Few names, so that many records have the same key, and nested copies of the keys that lines are
# split at.
DECOYS = {
    "answer_attribution": [{"evaluation": {"score": 1, "is_correct": True}}],
    "model_id": "x",
    "evaluation_id": "y",
}
UNKNOWN = st.dictionaries(
    st.sampled_from(["zz", "a b", "é", "model_id2"]),
    st.sampled_from([1, 1.0, True, None, [DECOYS]]),
)


def _record(name: str, model: str, sample_id: Any, run: str, raw: str) -> dict[str, Any]:
    return sample(
        evaluation_name=name, model_id=model, sample_id=sample_id, evaluation_id=run, error=None
    ) | {"input": {"raw": raw, "reference": ""}}


plain_records = st.builds(
    _record,
    st.sampled_from(["e", "f"]),
    st.sampled_from(["m", "n", 'ö"\\\0']),
    st.sampled_from([1, "1", 2, "x", 10**30]),
    st.sampled_from(["run/1", "run/2"]),
    st.sampled_from(["p", "q"]),
)


def copied(value: Any) -> Any:
    """A deep copy; integers may be of any size."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _set(record: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        record = record.setdefault(step, {})
    record[last] = value


EDITS = st.one_of(
    st.tuples(st.just("evaluation.is_correct"), st.booleans()),
    st.tuples(st.just("evaluation.is_correct"), st.booleans()),
    st.tuples(st.just("evaluation.score"), st.sampled_from([0, 0.0, False, 1, 1.0, True, 0.25])),
    st.tuples(st.just("evaluation_id"), st.sampled_from(["run/2", "run/3"])),
    st.tuples(st.just("output.raw"), st.sampled_from(["a", 'b,"answer_attribution":[{', "ü\n"])),
    st.tuples(st.just("output.zz"), free),
    st.tuples(st.just("performance.latency_ms"), st.sampled_from([1, 1.0, 2, None])),
    st.tuples(
        st.just("metadata"),
        st.sampled_from([{}, DECOYS, {"a": DECOYS}, {"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}]),
    ),
    st.tuples(st.just("answer_attribution"), st.sampled_from([[]])),
    st.tuples(st.just("schema_version"), st.sampled_from(["instance_level_eval_0.2.0", "other"])),
    st.tuples(st.just("unknown"), st.sampled_from([DECOYS, [DECOYS], 1, 1.0])),
    st.tuples(st.just("error"), st.sampled_from([None, "", "x", "y"])),
)


@st.composite
def edited(draw: Any, base: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records, but some are missing, some changed, some in several versions."""
    result = []
    for record in base:
        for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2]))):
            version = copied(record)
            for path, value in draw(
                st.sampled_from([0, 0, 1, 3]).flatmap(
                    lambda n: st.lists(EDITS, min_size=n, max_size=n)
                )
            ):
                _set(version, path, value)
            result.append(version)
    return result


@st.composite
def nights(draw: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of two corpora with repeats, some of them in both."""
    base = draw(st.lists(plain_records, max_size=12))
    return draw(edited(base)), draw(edited(base)) + draw(st.lists(plain_records, max_size=2))


CHOICES = [
    ((), BY),
    ((), ("evaluation_name", "sample_hash", "model_id")),
    ((), ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id")),
    (("model_id",), BY),
    (("sample_id",), BY),
    (
        ("evaluation_id", "sample_id"),
        ("evaluation_name", "sample_hash", "model_id", "evaluation_id", "sample_id"),
    ),
    (("evaluation_name", "model_id", "sample_id"), ("evaluation_name", "model_id", "sample_id")),
    (("evaluation_name", "model_id", "sample_id"), BY),
]


@settings(max_examples=examples(6, 140))
@given(
    nights(),
    st.sampled_from(CHOICES),
    st.sampled_from([7, 900, 5_000, 1 << 18]),
    st.sampled_from([1 << 10, 1 << 14]),
)
def test_the_result_agrees_with_loading_both_corpora(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    choice: Any,
    block_bytes: int,
    part_size: int,
) -> None:
    """Counts, fields, accuracies and p-values agree with the stdlib, whatever the sort order and
    the ranges.
    """
    order, by = choice
    limits = Limits(skim_bytes=block_bytes, diff_range_records=1)
    with tempfile.TemporaryDirectory() as folder:
        old, new = (
            corpus_of(records, Path(folder, name), sort_by=order, part_size=part_size)
            for name, records in zip(("old", "new"), both, strict=True)
        )
        for options in ({}, {"errors_as_wrong": True}, {"accuracy": True}):
            difference = use_limits(limits)(diff)(old, new, by=by, **options, examples=MANY)
            assert found(difference) == reference(old, new, by, **options)
            check_totals(difference)


# The same with records that name a metric

METRICS = st.sampled_from([None, "acc", "acc", "f1", 'ö"\\\0'])
LATER_CHOICES = [
    ((), BY),
    ((), BY),
    ((), ("evaluation_name", "sample_hash", "model_id")),
    (("evaluation_result_id",), BY),
    (
        ("evaluation_name", "model_id", "evaluation_result_id", "sample_id"),
        ("evaluation_name", "model_id", "sample_id"),
    ),
    (("evaluation_name", "model_id", "sample_id"), BY),
    (
        (),
        (
            "evaluation_name",
            "sample_hash",
            "model_id",
            "evaluation_id",
            "sample_id",
            "evaluation_result_id",
        ),
    ),
]


def later(record: dict[str, Any], metric: str | None) -> dict[str, Any]:
    """The record in the latest schema version."""
    record = copied(record)
    record["evaluation"]["zz"] = record.pop("unknown", None)
    record["evaluation"]["score"] = float(record["evaluation"]["score"])
    record["metadata"] = {key: json.dumps(value) for key, value in record["metadata"].items()}
    record["input"]["reference"] = [record["input"]["reference"]]
    for key in ("raw", "reasoning_trace"):
        record["output"][key] = [record["output"][key]]
    named = {"sample_id": str(record["sample_id"]), "schema_version": "0.3.0"}
    return record | named | ({} if metric is None else {"evaluation_result_id": metric})


@st.composite
def nights_with_metrics(draw: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The records of two corpora, some scored by several metrics, and some by other ones in the
    second.
    """
    metrics = draw(st.lists(METRICS, min_size=1, max_size=3, unique=True))
    return tuple(  # type: ignore[return-value]
        [
            later(record, metric)
            for record in records
            for metric in draw(
                st.sampled_from([metrics, metrics, metrics, metrics[:1], [draw(METRICS)]])
            )
        ]
        for records in draw(nights())
    )


@settings(max_examples=examples(5, 80))
@given(
    nights_with_metrics(),
    st.sampled_from(LATER_CHOICES),
    st.sampled_from([900, 5_000, 1 << 18]),
)
def test_the_result_agrees_with_loading_both_corpora_with_metrics(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]], choice: Any, block_bytes: int
) -> None:
    """Each metric is compared by itself, whatever the sort order, and a graded one by its scores."""
    order, by = choice
    limits = Limits(skim_bytes=block_bytes, diff_range_records=1)
    with tempfile.TemporaryDirectory() as folder:
        old, new = (
            corpus_of(records, Path(folder, name), sort_by=order, schema="0.3.0")
            for name, records in zip(("old", "new"), both, strict=True)
        )
        for options in ({}, {"errors_as_wrong": True}, {"accuracy": True}):
            difference = use_limits(limits)(diff)(old, new, by=by, **options, examples=MANY)
            assert found(difference) == reference(old, new, by, **options)
            check_totals(difference)


def check_totals(difference: Difference) -> None:
    """Every record of both corpora is counted, and the lists are as long as the counts say."""
    counts = difference.counts
    pairs = counts.unchanged + counts.changed
    assert difference.old.records == pairs + counts.removed + counts.repeats_old
    assert difference.new.records == pairs + counts.added + counts.repeats_new
    for name in counts.__struct_fields__:
        assert getattr(counts, name) == sum(
            getattr(model.counts, name) for model in difference.models
        )
    for kind in ("added", "removed", "changed"):
        assert len(getattr(difference.examples, kind)) == getattr(counts, kind)
    for model in difference.models:
        assert len(model.flips) == model.worse + model.better
        assert (model.points is None) is (model.p_adjusted is None) is (model.questions == 0)
        assert model.questions <= min(model.old_answered, model.new_questions)


@settings(max_examples=examples(8, 240))
@given(records, records)
def test_the_fields_of_two_records_that_differ_are_found(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    """The paths agree with a walk over both records, in which 1 and 1.0 differ."""
    lines = [fastrec.judge(json.dumps(record)).normal for record in (old, new)]
    paths = compare_records(*map(split_object, lines))
    wanted = differing(*map(spelled, lines)) - {"$.evaluation_id"}
    assert set(paths) == wanted
    assert len(paths) == len(wanted)


# The result


def records_of(models: str = "mn", samples: int = 40, **changes: Any) -> list[dict[str, Any]]:
    """Models that answered the same samples, right or wrong at random."""
    dice = random.Random(3)
    return [
        sample(model_id=f"org/{model}", sample_id=number, error=None, **changes)
        | {"input": {"raw": f"question {number}", "reference": "42"}}
        | {"evaluation": {"score": 1.0, "is_correct": dice.random() < 0.7}}
        for model in models
        for number in range(samples)
    ]


def worsened(
    records: list[dict[str, Any]], count: int, model: str = "org/m"
) -> list[dict[str, Any]]:
    """The same a night later; `count` right answers of a model are wrong now."""
    later = copied(records)
    right = [
        record
        for record in later
        if record["model_id"] == model and record["evaluation"]["is_correct"]
    ]
    for record in right[:count]:
        record["evaluation"] = {"score": 0.0, "is_correct": False}
    for record in later:
        record["evaluation_id"] = "eval/2"
    return later


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `old` and `new`, made once."""
    folder = tmp_path_factory.mktemp("made")
    corpus_of(records_of(), folder / "old")
    corpus_of(worsened(records_of(), 9), folder / "new")
    return folder


@pytest.fixture
def old(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "old", tmp_path / "old"))


@pytest.fixture
def new(made: Path, tmp_path: Path) -> Path:
    """Nine right answers of one model became wrong: a loss of 22.5 points with p = 2/512."""
    return Path(shutil.copytree(made / "new", tmp_path / "new"))


def test_a_new_evaluation_id_is_no_change(old: Path, tmp_path: Path) -> None:
    """It differs every night."""
    difference = diff(old, corpus_of(worsened(records_of(), 0), tmp_path / "same"))
    assert msgspec.to_builtins(difference.counts) == dict.fromkeys(KINDS, 0) | {"unchanged": 80}
    assert difference.fields == []
    assert difference.parts_skipped == 0


def test_parts_with_the_same_text_are_not_read(old: Path) -> None:
    """So damage to them is not noticed."""
    for part in old.glob("part-*.jsonl*"):
        part.write_bytes(bytes(part.stat().st_size))
    difference = diff(old, old)
    assert difference.counts.unchanged == difference.old.records == 80
    assert difference.parts_skipped == len(list(old.glob("part-*.jsonl*")))
    assert [model.old_accuracy for model in difference.models] == [
        model.new_accuracy for model in difference.models
    ]


def test_examples_are_bounded_and_counted(old: Path, new: Path) -> None:
    """Lists have at most `examples` items; counts are complete."""
    model = diff(old, new, examples=2).models[0]
    assert (len(model.flips), model.worse) == (2, 9)
    assert {(flip.old, flip.new) for flip in model.flips} == {(1, 0)}
    none = diff(old, new, examples=0)
    assert (none.models[0].flips, none.examples.changed) == ([], [])


def test_a_changed_record_is_listed_with_its_fields(old: Path, new: Path) -> None:
    """With the name of the record in NEW."""
    changed = diff(old, new).examples.changed
    assert len(changed) == 9
    assert all(name.fields == ["$.evaluation.score", "$.evaluation.is_correct"] for name in changed)
    assert {(name.evaluation_id, name.model_id) for name in changed} == {("eval/2", "org/m")}


def test_fields_beyond_the_limit_are_counted_together(old: Path, tmp_path: Path) -> None:
    """Free-form objects may have any number of keys, but memory stays bounded."""
    limits = Limits(diff_fields=3, diff_range_records=10**9)
    later = [record | {f"key{number}": 1} for number, record in enumerate(records_of())]
    fields = use_limits(limits)(diff)(old, corpus_of(later, tmp_path / "later")).fields
    assert [(field.path, field.records) for field in fields if not field.path.startswith("$")] == [
        (OTHER_FIELDS, 77)
    ]
    assert len(fields) == 4


def trials(
    verdicts: str, run: str = "r", question: int = 0, **changes: Any
) -> list[dict[str, Any]]:
    """Records of one identity: a right answer for each `+`, a wrong one for each `-`, and an error
    for each `!`.
    """
    return [
        sample(model_id="org/m", sample_id=question, evaluation_id=run, **changes)
        | {
            "input": {"raw": f"question {question}", "reference": "42"},
            "error": "timeout" if verdict == "!" else None,
        }
        | {"output": {"raw": f"trial {number} of {run}"}}
        | {"evaluation": {"score": float(verdict == "+"), "is_correct": verdict == "+"}}
        for number, verdict in enumerate(verdicts)
    ]


def nights_of(folder: Path, *questions: tuple[str, str]) -> tuple[Path, Path]:
    """Two corpora; for each question, the trials in the old one and in the new one."""
    olds, news = (
        [
            record
            for number, both in enumerate(questions)
            for record in trials(both[side], run, number)
        ]
        for side, run in enumerate(("old", "new"))
    )
    return corpus_of(olds, folder / "old"), corpus_of(news, folder / "new")


def test_repeats_are_compared_by_the_mean_of_their_question(tmp_path: Path) -> None:
    """Four trials of each question with new outputs: no pairs, but the loss is found, and
    significant.
    """
    pair = nights_of(
        tmp_path, *[("+++-", "++--")] * 5, *[("++--", "+---")] * 2, ("----", "----"), ("+", "+")
    )
    difference = diff(*pair, fail_on=0.5)
    model = difference.models[0]
    assert (difference.counts.repeats_old, difference.counts.repeats_new) == (32, 32)
    assert (model.counts.unchanged + model.counts.changed, len(difference.examples.repeats)) == (
        1,
        8,
    )
    assert (model.questions, model.worse, model.better) == (9, 7, 0)
    assert model.old_accuracy == pytest.approx((5 * 0.75 + 2 * 0.5 + 1) / 9)
    assert model.points == pytest.approx(100 * -7 * 0.25 / 9)
    assert (model.test, model.p) == ("mcnemar", 2 / 2**7)
    assert [failure.reason for failure in difference.failures] == ["regressed"]


def test_a_corpus_with_another_number_of_repeats_is_compared(tmp_path: Path) -> None:
    """A question has the same weight, whatever the number of its records."""
    model = diff(*nights_of(tmp_path, ("+", "+-"), ("+-+", "-"), ("-", "-"))).models[0]
    assert (model.questions, model.worse, model.test) == (3, 2, "t")
    assert model.points == pytest.approx(100 * (-1 / 2 - 2 / 3) / 3)


@pytest.mark.parametrize("skim_bytes", [900, 1 << 18])
def test_an_equal_record_counts_in_the_mean_of_its_question(
    tmp_path: Path, skim_bytes: int
) -> None:
    """Also if it is in a part that is the same in both corpora, or in another buffer than its
    repeats.
    """
    other = trials("+" * 9, evaluation_name="an earlier evaluation")
    common = [record for number in range(3) for record in trials("+" * 7, question=number)]
    nights = {
        "old": [*other, *common, *trials("+++", "s", 1)],
        "new": [*other, *common, *trials("--", "s", 1)],
    }
    pair = [corpus_of(records, tmp_path / name) for name, records in nights.items()]
    difference = use_limits(Limits(skim_bytes=skim_bytes))(diff)(*pair)
    model = difference.models[1]
    assert difference.parts_skipped > 0
    assert (model.questions, model.points) == (3, pytest.approx(100 * (7 / 9 - 1) / 3))
    assert (model.old_accuracy, model.new_accuracy) == (1, pytest.approx((2 + 7 / 9) / 3))
    assert [(flip.old, flip.new) for flip in model.flips] == [(1, 7 / 9)]


def test_repeats_of_the_same_run_are_paired(tmp_path: Path) -> None:
    """If each run has one record per question, its fields are compared with those of the same run."""
    pair = [
        corpus_of([*trials("+", "a", 0), *trials(verdict, "b", 0)], tmp_path / name)
        for name, verdict in (("old", "+"), ("new", "-"))
    ]
    difference = diff(*pair)
    assert (
        difference.counts.unchanged,
        difference.counts.changed,
        difference.counts.repeats_old,
    ) == (1, 1, 0)
    assert difference.models[0].points == -50


@pytest.mark.parametrize(
    ("was", "now", "compared", "points", "as_wrong"),
    [
        ("+", "!", 0, None, -100),
        ("!", "!", 0, None, 0),
        ("+!", "+", 1, 0, 50),
        ("++", "+!", 1, 0, -50),
    ],
)
def test_a_record_with_an_error_is_no_answer(  # noqa: PLR0917
    tmp_path: Path, was: str, now: str, compared: int, points: float | None, as_wrong: float
) -> None:
    """A question with errors only cannot be compared.

    With `errors_as_wrong`, an error is a wrong answer.
    """
    pair = nights_of(tmp_path, (was, now))
    model = diff(*pair).models[0]
    assert (model.questions, model.points, model.old_questions) == (compared, points, 1)
    assert (model.old_errors, model.new_errors) == (was.count("!"), now.count("!"))
    model = diff(*pair, errors_as_wrong=True).models[0]
    assert (model.questions, model.points) == (1, as_wrong)


def test_samples_of_one_run_with_one_hash_are_different_questions(tmp_path: Path) -> None:
    """They are paired by sample_id, and each counts."""
    pair = [
        corpus_of(
            [
                record | {"sample_id": f"0/{number}"}
                for number, record in enumerate(trials(verdicts, run))
            ],
            tmp_path / run,
        )
        for run, verdicts in (("old", "++-"), ("new", "+--"))
    ]
    model = diff(*pair).models[0]
    assert (model.questions, model.counts.changed, model.counts.repeats_old, model.test) == (
        3,
        3,
        0,
        "mcnemar",
    )
    assert model.points == pytest.approx(-100 / 3)


def test_a_sample_with_two_hashes_is_one_question_if_one_of_them_is_split(tmp_path: Path) -> None:
    """If samples are compared, split hashes make no difference."""
    order = ("evaluation_name", "model_id", "sample_id")
    both = [_record("e", "m", 1, "r", raw) for raw in "pq"]
    records = [*both, *(_record("e", "n", number, "r", "q") for number in (1, 2))]
    old, new = (corpus_of(records, tmp_path / name, sort_by=order) for name in ("old", "new"))
    models = diff(old, new, by=order).models
    assert [(model.model_id, model.questions, model.old_records) for model in models] == [
        ("m", 1, 2),
        ("n", 2, 2),
    ]


def test_a_flip_has_the_hash_of_a_record_that_was_compared(tmp_path: Path) -> None:
    """If samples are compared, another record of the sample may have another hash, and no
    counterpart.
    """
    order = ("evaluation_name", "model_id", "sample_id")
    other = {"input": {"raw": "another question 13", "reference": "42"}}
    old, new = trials("+", "old"), [*trials("-", "new"), trials("+", "other")[0] | other]
    pair = [
        corpus_of(some, tmp_path / name, sort_by=order)
        for name, some in (("old", old), ("new", new))
    ]
    compared, added = (
        json.loads(fastrec.judge(json.dumps(record)).normal)["sample_hash"] for record in new
    )
    assert added < compared
    model = diff(*pair).models[0]
    assert ([flip.sample_hash for flip in model.flips], model.counts.added) == ([compared], 1)


def test_an_evaluation_that_is_only_in_one_corpus_is_added_or_removed(
    old: Path, tmp_path: Path
) -> None:
    """It has no pairs, and so no accuracy and no p-value."""
    other = corpus_of(records_of("m", 2, evaluation_name="other"), tmp_path / "other")
    difference = diff(old, other)
    assert (difference.counts.removed, difference.counts.added) == (80, 2)
    assert [model.status for model in difference.models] == ["missing", "missing", "new"]
    assert all(model.new_accuracy is None and model.p is None for model in difference.models)


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_corpora_may_have_different_compressions(
    old: Path, tmp_path: Path, compression: str
) -> None:
    """Only the text matters; parts with equal text are skipped."""
    twin = corpus_of(records_of(), tmp_path / "twin", compression=compression)
    assert diff(old, twin).parts_skipped == len(list(twin.glob("part-*.jsonl*")))
    later = corpus_of(worsened(records_of(), 3), tmp_path / "later", compression=compression)
    assert diff(old, later).counts.changed == 3


def test_an_empty_corpus_can_be_compared(old: Path, tmp_path: Path) -> None:
    """All records are added or removed; two empty corpora are equal."""
    empty = corpus_of([], tmp_path / "empty")
    assert diff(empty, old).counts.added == diff(old, empty).counts.removed == 80
    assert diff(empty, empty).models == []


def test_jobs_do_not_change_the_result(tmp_path: Path) -> None:
    """One process and two give the same document, for generated corpora with all kinds of changes."""
    recipe = Recipe(
        records=150, seed=5, conflicts=0.1, unknown_keys=0.2, mix="single_turn", text="words"
    )
    every = list(lines(recipe))
    dice = random.Random(1)
    flip = {
        b'"is_correct":true': b'"is_correct":false',
        b'"is_correct": true': b'"is_correct": false',
    }
    for name, some in (("old", every), ("new", [line for line in every if dice.random() < 0.9])):
        if name == "new":
            for was, now in flip.items():
                some = [line.replace(was, now) if dice.random() < 0.6 else line for line in some]
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(some))
        fastrec.normalize(tmp_path / f"{name}.jsonl", tmp_path / name, part_size=1 << 15)
    limits = Limits(small_input=0)
    one, two = (
        use_limits(limits)(diff)(tmp_path / "old", tmp_path / "new", jobs=jobs, examples=MANY)
        for jobs in (1, 2)
    )
    one.seconds = two.seconds = 0
    assert one == two
    assert len(list((tmp_path / "old").glob("part-*.jsonl*"))) > 6
    assert one.counts.changed > 30
    assert found(one) == reference(tmp_path / "old", tmp_path / "new")


def test_samples_with_one_prompt_are_compared_in_any_order(tmp_path: Path) -> None:
    """Their lines have another order in NEW, because each corpus has two runs, with other samples."""
    records = [record | {"input": {"raw": "", "reference": ""}} for record in records_of("m")]
    old = [record | {"evaluation_id": f"old/{record['sample_id'] // 20}"} for record in records]
    new = [
        record | {"evaluation_id": f"new/{2 - record['sample_id'] // 20}", "error": "x"}
        for record in records
    ]
    difference = diff(
        corpus_of(old, tmp_path / "old"), corpus_of(new, tmp_path / "new"), examples=MANY
    )
    assert (difference.counts.changed, difference.models[0].old_questions) == (40, 40)
    assert {name.sample_id for name in difference.examples.changed} == set(range(40))
    assert found(difference) == reference(tmp_path / "old", tmp_path / "new")


def test_only_lines_that_differ_are_read(old: Path, tmp_path: Path) -> None:
    """If a model is gone, none: names and numbers of its records are in the columns."""
    fastrec.normalize(old, tmp_path / "gone", exclude_model="org/m")
    wanted = diff(old, tmp_path / "gone")
    for part in [*old.glob("part-*.jsonl*"), *(tmp_path / "gone").glob("part-*.jsonl*")]:
        part.unlink()
    difference = diff(old, tmp_path / "gone")
    difference.seconds = wanted.seconds
    assert difference == wanted
    assert (difference.counts.removed, difference.counts.unchanged) == (40, 40)


# Corpora that cannot be compared


def edit_manifest(corpus: Path, **fields: Any) -> None:
    path = corpus / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_different_sort_orders_are_refused(old: Path, tmp_path: Path) -> None:
    """The command in the message makes the corpora comparable."""
    other = corpus_of(worsened(records_of(), 2), tmp_path / "other", sort_by=("model_id",))
    with pytest.raises(UsageError, match="have different sort orders") as caught:
        diff(old, other)
    command = str(caught.value).split("`")[1].replace("NEW", str(tmp_path / "again"))
    subprocess.run([sys.executable, "-m", *command.split()], check=True, capture_output=True)
    assert diff(old, tmp_path / "again").counts.changed == 2


@pytest.mark.parametrize(
    ("starts", "most", "cuts"),
    [
        ([], 10, []),
        ([0, 0], 10, []),
        ([0, 0, 5], 20, [5]),
        ([0, 5, 10, 15], 20, [10]),
        ([0, 5, 10, 15], 1, [5, 10, 15]),
        ([15, 0, 5, 0, 5], 30, [5]),
    ],
)
def test_ranges_begin_where_parts_begin(starts: list[int], most: int, cuts: list[int]) -> None:
    """They have few records, and at least one part; all parts here have ten records."""
    parts = [((b"%03d" % start,), 10) for start in sorted(starts)]
    assert plan._cuts(parts, most) == [(b"%03d" % cut,) for cut in cuts]


def test_a_sort_order_that_separates_matches_is_refused(tmp_path: Path) -> None:
    """Sorted by run, records of the same sample are far apart.

    The message has a command that helps.
    """
    pair = [
        corpus_of(records_of(), tmp_path / name, sort_by=("evaluation_id",)) for name in ("a", "b")
    ]
    with pytest.raises(
        UsageError, match="cannot be compared by evaluation_name, sample_hash, model_id, sample_id"
    ) as caught:
        diff(*pair)
    assert (
        f"fastrec normalize {pair[0]} -o OLD --sort-by evaluation_name,model_id,sample_id"
        in str(caught.value)
    )


def test_different_hash_algorithms_are_refused(old: Path, tmp_path: Path) -> None:
    """Their sample_hashes never agree. Without sample_hash the corpora can be compared."""
    other = corpus_of(records_of(), tmp_path / "other", hash_algorithm="xxh3_128")
    with pytest.raises(
        UsageError,
        match=r"has sha256 hashes and .* has xxh3_128 hashes: .* --hash-algorithm sha256",
    ):
        diff(old, other)
    by = ("evaluation_name", "model_id", "sample_id")
    pair = [
        corpus_of(records_of(), tmp_path / algorithm, hash_algorithm=algorithm, sort_by=by)
        for algorithm in ("sha256", "xxh3_128")
    ]
    assert [field.path for field in diff(*pair, by=by).fields] == ["$.sample_hash"]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ((), "not by nothing"),
        (("evaluation_name", "model_id"), "at least one of sample_hash and sample_id"),
        (("model_id", "sample_id"), "not by model_id, sample_id"),
        ((*BY, "score"), "cannot be compared by 'score'; the fields are evaluation_name"),
    ],
)
def test_invalid_fields_are_refused(old: Path, by: tuple[str, ...], message: str) -> None:
    """Matched records must agree in evaluation, model and sample."""
    with pytest.raises(UsageError, match=message):
        diff(old, old, by=by)


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": 0},
        {"examples": -1},
        {"p": 2},
        {"fail_on": -1},
        {"fail_on": float("nan")},
        {"min_compared": 101},
        {"min_compared": float("nan")},
        {"p_adjust": "holm"},
    ],
)
def test_invalid_numbers_are_refused(old: Path, options: dict[str, Any]) -> None:
    """They raise UsageError."""
    with pytest.raises(UsageError):
        diff(old, old, **options)


def test_different_versions_of_fastrec_give_a_notice(old: Path, new: Path) -> None:
    """Their normal forms might differ."""
    assert diff(old, new).notices == []
    edit_manifest(new, fastrec="9.9.9")
    assert "fastrec 9.9.9 made NEW" in diff(old, new).notices[0]


def cut(corpus: Path) -> None:
    part = corpus / "part-00000.jsonl.zst"
    part.write_bytes(part.read_bytes()[:-3])


def swap(corpus: Path) -> None:
    first, second = sorted(corpus.glob("part-*.jsonl*"))[:2]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def claim_another_order(corpus: Path) -> None:
    """List the parts in the wrong order."""
    parts = json.loads((corpus / "manifest.json").read_text())["parts"]
    edit_manifest(corpus, parts=parts[::-1])


def name_a_part_elsewhere(corpus: Path) -> None:
    """Name a part in another directory, which must not be read."""
    parts = json.loads((corpus / "manifest.json").read_text())["parts"]
    edit_manifest(corpus, parts=[{**parts[0], "file": "../part"}, *parts[1:]])


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (cut, ShardError, "part-00000.jsonl.zst: ends inside the zstd frame"),
        (
            lambda corpus: (corpus / "part-00000.jsonl.zst").unlink(),
            ShardError,
            "part-00000.jsonl.zst: cannot be found",
        ),
        (swap, CorpusError, "fastrec verify"),
        (claim_another_order, CorpusError, "does not list its parts in sort order"),
        (
            lambda corpus: (corpus / "summary.json").unlink(),
            CorpusError,
            "summary.json: is missing",
        ),
        (
            lambda corpus: (corpus / "summary.json").write_text("{}"),
            CorpusError,
            "is not a summary",
        ),
        (
            lambda corpus: (corpus / "summary.json").write_bytes(
                (corpus / "summary.json").read_bytes() + b" "
            ),
            CorpusError,
            "is not the one that manifest.json names",
        ),
        (
            lambda corpus: (corpus / "manifest.json").write_text("{}"),
            CorpusError,
            "is not a manifest",
        ),
        (lambda corpus: edit_manifest(corpus, format=99), CorpusError, "its format is 99"),
        (lambda corpus: edit_manifest(corpus, schema="1.0"), CorpusError, "have schema 1.0"),
        (
            lambda corpus: edit_manifest(corpus, sort_fields=["model_id"]),
            CorpusError,
            "sort_fields must name evaluation_name",
        ),
        (name_a_part_elsewhere, CorpusError, "names a file outside the corpus"),
        (
            lambda corpus: (corpus / "manifest.json").unlink(),
            UsageError,
            "is not a corpus: it holds no manifest.json",
        ),
        (shutil.rmtree, UsageError, "is not a corpus: there is no such directory"),
    ],
)
def test_damage_is_reported(
    old: Path, new: Path, damage: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    """In either corpus: with the file and the reason, never a wrong result."""
    damage(new)
    for pair in ((old, new), (new, old)):
        with pytest.raises(error, match=message):
            diff(*pair)


def drop_a_part(corpus: Path) -> None:
    """List one part less than the summary counts."""
    parts = json.loads((corpus / "manifest.json").read_text())["parts"]
    edit_manifest(corpus, parts=parts[1:])


def columns_of(corpus: Path) -> Path:
    return corpus / "part-00000.columns"


def drop_a_frame(corpus: Path) -> None:
    """Write the columns without their last frame, and a header that does not list it."""
    content = columns_of(corpus).read_bytes()
    begin = len(COLUMNS_MAGIC) + 4
    end = begin + int.from_bytes(content[len(COLUMNS_MAGIC) : begin], "little")
    header = msgspec.json.decode(zstandard.decompress(content[begin:end]))
    del header["frames"][-1]
    shorter = zstandard.compress(msgspec.json.encode(header))
    columns_of(corpus).write_bytes(
        COLUMNS_MAGIC + len(shorter).to_bytes(4, "little") + shorter + content[end:]
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop_a_frame, "part-00000.columns: is damaged: its column exact"),
        (lambda corpus: columns_of(corpus).unlink(), "part-00000.columns: is missing"),
        (lambda corpus: columns_of(corpus).write_bytes(b""), "part-00000.columns: is damaged"),
        (
            lambda corpus: columns_of(corpus).write_bytes(columns_of(corpus).read_bytes()[:-300]),
            "part-00000.columns: is damaged",
        ),
        (
            lambda corpus: columns_of(corpus).write_bytes(
                (corpus / "part-00001.columns").read_bytes()
            ),
            "part-00000.columns: is damaged: it belongs to another part",
        ),
        (drop_a_part, "its records of 'org/.' on 'arithmetic' and its summary do not add up"),
    ],
)
def test_damaged_columns_are_reported(
    old: Path, new: Path, damage: Callable[[Path], Any], message: str
) -> None:
    """With the file, also if no line would have been read."""
    shutil.copytree(old, old.with_name("same"))
    damage(new)
    damage(old)
    for pair in (
        (old.with_name("same"), old),
        (old.with_name("same"), new),
        (new, old.with_name("same")),
    ):
        with pytest.raises(CorpusError, match=message):
            diff(*pair)


def test_every_damaged_byte_of_columns_is_reported_or_makes_no_difference(
    old: Path, new: Path
) -> None:
    """A wrong number would be worse than an error."""
    wanted = found(diff(old, new))
    intact = columns_of(new).read_bytes()
    errors = []
    for place in range(0, len(intact), max(len(intact) // examples(10, 200), 1)):
        damaged = bytearray(intact)
        damaged[place] ^= 0x41
        columns_of(new).write_bytes(damaged)
        try:
            numbers = found(diff(old, new))
        except CorpusError as exc:
            errors.append(str(exc))
        else:
            assert numbers == wanted
    assert len(errors) > 3
    assert all("part-00000.columns" in message for message in errors)


def rewrite(corpus: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the text of the first part, and update its size in the manifest."""
    path = corpus / "part-00000.jsonl"
    data = change(path.read_bytes())
    path.write_bytes(data)
    parts = json.loads((corpus / "manifest.json").read_text())["parts"]
    parts[0] |= {"text_bytes": len(data), "bytes": len(data)}
    edit_manifest(corpus, parts=parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "does not end with a newline"),
        (lambda data: b"", "is not the file that the manifest describes"),
        (
            lambda data: data.replace(b'"is_correct":true', b'"is_correct":"no"', 1),
            "does not have the line that its columns describe, at byte",
        ),
        (
            lambda data: b"".join(reversed(data.splitlines(keepends=True))),
            "does not have the line that its columns describe, at byte 0 of its text",
        ),
        (
            lambda data: b"".join(data.splitlines(keepends=True)[1:]),
            "does not have the line that its columns describe, at byte 0 of its text",
        ),
    ],
)
def test_a_changed_text_is_reported(
    old: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    """Even if the manifest was updated: each line that is read must have its fingerprint."""
    other = corpus_of(worsened(records_of(), 2), tmp_path / "other", compression="none")
    rewrite(other, change)
    with pytest.raises(CorpusError, match=message):
        diff(old, other)
