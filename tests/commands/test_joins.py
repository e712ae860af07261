"""`overlap` of models and of hashes agrees with an independent implementation, and says what keeps
models apart.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from hashlib import sha256
from itertools import combinations, product

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.commands.generate import Recipe, labelled_lines, lines
from fastrec.commands.overlap.joins import REASONS, Asked, EvaluationJoins, count_joins, digests_of
from fastrec.limits import Limits, use_limits
from fastrec.schemas.hashes import ABSENT, RECIPES, WRONG
from tests.normalize.normalizing import Corpus
from tests.running import run_command
from tests.sizes import examples
from tests.timing import grows_linearly


def one_line(model, sample_id, raw, reference, *, metric=None, evaluation="quiz", **fields):
    """A line of the newest version."""
    record = {
        "schema_version": "0.3.0",
        "evaluation_id": f"{evaluation}/{model}",
        "model_id": model,
        "evaluation_name": evaluation,
        "sample_id": sample_id,
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": ["?"]},
        "answer_attribution": [],
        "evaluation": {"score": 1, "is_correct": True},
        **fields,
    }
    if metric:
        record["evaluation_result_id"] = metric
    return json.dumps(record).encode()


def corpus_of(some, folder, **options):
    folder.mkdir(exist_ok=True)
    (folder / "shard.jsonl").write_bytes(b"\n".join(some))
    fastrec.normalize(folder / "shard.jsonl", folder / "corpus", **options)
    return folder / "corpus"


def difference(one, other):
    """What keeps two questions apart; each has a prompt and references."""
    if one == other:
        return "hash"
    (prompt, references), (other_prompt, other_references) = (
        ("".join(raw.split()), ["".join(text.split()) for text in texts])
        for raw, texts in (one, other)
    )
    if references == other_references:
        return "white_space" if prompt == other_prompt else "prompt"
    return "reference" if prompt == other_prompt else "prompt_and_reference"


def brute_force(asked):
    """All numbers of one evaluation; `asked` has (hash, id, texts, metric) for each model."""
    found = {}
    for (model, mine), (other, others) in combinations(sorted(asked.items()), 2):
        reasons = dict.fromkeys(REASONS, 0)
        ids = {row[1] for row in mine} & {row[1] for row in others}
        for sample in ids:
            first, second = ([row for row in rows if row[1] == sample] for rows in (mine, others))
            if {row[0] for row in first} & {row[0] for row in second}:
                continue
            texts = [difference(one[2], two[2]) for one, two in product(first, second)]
            reasons[min(texts, key=list(REASONS).index)] += 1
        common = {row[0] for row in mine} & {row[0] for row in others}
        scored = {row[::3] for row in mine} & {row[::3] for row in others}
        numbers = [len({row[0] for row in rows}) for rows in (mine, others)]
        found[model, other] = [
            *numbers,
            len(common),
            len(dict(scored)),
            len(ids),
            sum(reasons.values()),
            *reasons.values(),
        ]
    return found


def found_pairs(joins):
    """The numbers of all pairs of models, as the CSV table has them."""
    found = {}
    for row in joins.rows():
        _, model, other, *numbers = row.values()
        if model > other:
            model, other, numbers = other, model, [numbers[1], numbers[0], *numbers[2:]]
        assert (model, other) not in found
        found[model, other] = numbers
    return found


def asked_by_evaluation(corpus):
    """What every model was asked, for each evaluation, read with the standard library."""
    asked = defaultdict(lambda: defaultdict(set))
    for line in Corpus(corpus).lines:
        record = json.loads(line)
        references = record["input"]["reference"]
        texts = (
            record["input"]["raw"],
            tuple([references] if isinstance(references, str) else references),
        )
        row = record["sample_hash"], record["sample_id"], texts, record.get("evaluation_result_id")
        asked[record["evaluation_name"]][record["model_id"]].add(row)
    return asked


# Counting, on any questions


questions = st.sets(
    st.tuples(*map(st.sampled_from, (range(6), range(3), (None, "a")))), max_size=8
)  # question, id, metric
TEXTS = [
    ("a b", ("x",)),
    ("ab", ("x",)),
    ("ab", (" x",)),
    ("ab", ("y",)),
    ("c", ("x",)),
    ("c", ("z",)),
    ("ab", ("x",)),
]


@given(st.lists(questions, min_size=1, max_size=5), st.permutations(range(len(TEXTS))))
@settings(max_examples=examples(18, 300))
def test_pairs_agree_with_a_simple_implementation(sets, order):
    """Whatever models were asked under whatever ids, also several questions of one id, or one under
    several ids.
    """
    names = [f"m{number}" for number in range(len(sets))]
    texts = [TEXTS[number] for number in order]
    plain = {
        name: {(question, sample, texts[question], metric) for question, sample, metric in some}
        for name, some in zip(names, sets, strict=True)
    }
    rows = [
        (question, sample, model, metric == "a")
        for model, some in enumerate(sets)
        for question, sample, metric in some
    ]
    joins = joins_of(names, rows, [digests_of(raw, list(references)) for raw, references in texts])
    assert found_pairs(joins) == brute_force(plain)
    hashes = [{row[0] for row in rows} for rows in plain.values()]
    ids = [{row[1] for row in rows} for rows in plain.values()]
    assert (joins.questions, joins.common) == (
        len(set.union(*hashes)),
        len(set.intersection(*hashes)),
    )
    assert (joins.ids, joins.common_ids) == (len(set.union(*ids)), len(set.intersection(*ids)))
    assert sorted(model for group in joins.groups for model in group.models) == names
    for pair in joins.pairs:
        assert {reason: min(count, 3) for reason, count in pair.reasons.items()} == {
            reason: len(examples) for reason, examples in pair.examples.items()
        }


def joins_of(names, rows, digests):
    """The joins of models, given rows of question, sample, model and metric."""
    codes = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    used, questions = np.unique(codes[0], return_inverse=True)
    samples, ids = np.unique(codes[1], return_inverse=True)
    found = count_joins(
        names,
        [str(sample).encode() for sample in samples.tolist()],
        Asked(questions, ids, codes[2], codes[3]),
        np.array(digests, dtype=np.uint64)[used],
    )
    return EvaluationJoins(evaluation_name="quiz", metrics=[None], **found)


def test_many_models():
    """Two hundred models with hundreds of questions take time in proportion, and their document
    stays small.
    """
    names = [f"m{number:03}" for number in range(200)]

    def joins_with(samples):
        rows = [
            (2 * sample + model % 2, sample, model, 0)
            for sample in range(samples)
            for model in range(200)
        ]
        return joins_of(names, rows, [digests_of("even", "r"), digests_of("odd", "r")] * samples)

    assert grows_linearly(joins_with, 125)
    joins = joins_with(500)
    assert [len(group.models) for group in joins.groups] == [100, 100]
    assert [(pair.common, pair.reasons) for pair in joins.pairs] == [(0, {"prompt": 500})]
    assert len(found_pairs(joins)) == 200 * 199 // 2


def test_ids_of_several_questions():
    """Ids that many questions share, as those of the subjects of one evaluation, do not take much
    longer.
    """
    names = [f"m{number:02}" for number in range(40)]

    def joins_with(subjects, samples=100):
        rows = []
        digests = []
        for subject, sample in product(range(subjects), range(samples)):
            rows += [
                (len(digests) + model % 2, sample, model, 0)
                for model in range(40)
                if model != (7 * sample + subject) % 40
            ]
            digests += [digests_of(f"{kind} {subject}", "r") for kind in range(2)]
        return joins_of(names, rows, digests)

    assert grows_linearly(joins_with, 3)
    joins = joins_with(20)
    assert len(joins.groups) == 40
    assert {tuple(pair.reasons.items()) for pair in joins.pairs} == {(), (("prompt", 100),)}


# Whole corpora


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A corpus of all versions, in parts so small that questions span two of them; read-only."""
    some = lines(
        Recipe(
            records=250, seed=6, schema="mixed", duplicates=0.05, conflicts=0.1, mix="single_turn"
        )
    )
    return corpus_of(some, tmp_path_factory.mktemp("mixed"), schema="0.3.0", part_size=20_000)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory):
    some = lines(Recipe(records=150, seed=6, conflicts=0.1, warnings=0.1))
    return corpus_of(some, tmp_path_factory.mktemp("oldest"), sample_hash="fill", part_size=20_000)


@pytest.mark.parametrize("name", ["mixed", "oldest"])
def test_corpora(name, request):
    """The numbers are those of the records, for each evaluation; one process and two agree."""
    corpus = request.getfixturevalue(name)
    joins = fastrec.overlap(corpus).models
    expected = asked_by_evaluation(corpus)
    assert {one.evaluation_name: found_pairs(one) for one in joins} == {
        name: brute_force(asked) for name, asked in expected.items()
    }
    assert any(pair.apart for one in joins for pair in one.pairs)
    assert use_limits(Limits(small_input=0))(fastrec.overlap)(corpus, jobs=2).models == joins


def test_other_sort_orders(mixed, tmp_path):
    """The order of the corpus does not matter, and shards give the numbers of their corpus."""
    fastrec.normalize(
        mixed, tmp_path / "other", schema="0.3.0", sort_by=["model_id"], part_size=20_000
    )
    expected = fastrec.overlap(mixed).models
    assert fastrec.overlap(tmp_path / "other").models == expected


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """Models that were asked the same questions in different words."""
    asked = {
        "plain": lambda number: (f"Question {number}?", ["yes"]),
        "same": lambda number: (f"Question {number}?", ["yes"]),
        "space": lambda number: (f"Question  {number}?\n", ["yes"]),
        "index": lambda number: (f"Question {number}?", ["0"]),
        "shots": lambda number: (f"Example. Question {number}?", ["yes"]),
        "other": lambda number: (f"Example. Question {number}?", ["0"]),
    }
    some = [
        one_line(model, f"q{number}", *ask(number), metric=metric)
        for model, ask in asked.items()
        for number in range(4)
        for metric in ("acc", "f1")
    ]
    some.append(one_line("plain", "q9", "Only here?", ["no"], metric="acc"))
    some.append(one_line("alone", "x", "?", [], evaluation="solo"))
    return corpus_of(some, tmp_path_factory.mktemp("apart"), schema="0.3.0")


@pytest.mark.parametrize(
    ("other", "common", "reasons"),
    [
        ("same", 4, {}),
        ("space", 0, {"white_space": 4}),
        ("index", 0, {"reference": 4}),
        ("shots", 0, {"prompt": 4}),
        ("other", 0, {"prompt_and_reference": 4}),
    ],
)
def test_what_keeps_models_apart(apart, other, common, reasons):
    """Two models share no question for one reason, which is named with examples."""
    (joins,) = fastrec.overlap(apart, model=["plain", other], metric="acc").models
    (pair,) = joins.pairs
    assert (pair.common, pair.ids, pair.reasons) == (common, 4, reasons)
    assert pair.examples == {reason: ["q0", "q1", "q2"] for reason in reasons}
    assert (joins.models, joins.common, joins.common_ids, joins.ids) == (2, common, 4, 5)


def test_the_table(apart):
    """Metrics come together; models that were asked the same are one row.

    A single model is named.
    """
    done = run_command("overlap", apart)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert (
        "quiz: 6 models, 21 questions, 5 sample_ids; all models have 0 questions and 4 sample_ids "
        "in common" in text
    )
    assert "white space: plain and space, for example sample_id q0, q1, q2" in text
    assert "other reference: index and plain, for example sample_id q0, q1, q2" in text
    assert "solo: 1 model, 1 question, 1 sample_id" in text
    assert "  there is only one model" in text
    assert "same id: sample_ids that both have with different hashes" in text
    some = run_command(
        "overlap", apart, "--model", "plain", "--model", "same", "--metric", "f1"
    ).stdout.decode()
    assert "quiz: 2 models, 4 questions, 4 sample_ids; all models have 4 questions" in some
    assert "all models were asked the same questions" in some


def test_formats(apart):
    """JSON has all of it, CSV one row per pair of models, Markdown the tables."""
    document = json.loads(run_command("overlap", apart, "--format", "json").stdout)
    assert document["hashes"] is None
    quiz = document["models"][0]
    assert [len(group["models"]) for group in quiz["groups"]] == [1] * 6
    rows = list(
        csv.DictReader(
            io.StringIO(run_command("overlap", apart, "--format", "csv").stdout.decode())
        )
    )
    assert len(rows) == 15
    (row,) = (row for row in rows if list(row.values())[1:3] == ["plain", "same"])
    assert list(row.values())[3:] == ["5", "4", "4", "4", "4", "0", *"00000"]
    markdown = run_command("overlap", apart, "--format", "markdown").stdout.decode()
    assert (
        "| model | other model | questions | of the other | common | same id | white space |"
        in markdown
    )
    assert "- white space: plain and space" in markdown


def test_metrics_that_only_one_model_has(tmp_path):
    """Common questions without a common metric are counted: such models are never compared."""
    some = [one_line(f"m-{metric}", f"{number}", f"Question {number}?", [], metric=metric)
            for metric in (None, "acc", "f1") for number in range(3)]  # fmt: skip
    some.append(one_line("m-None", "0", "Question 0?", [], metric="f1"))
    corpus = corpus_of(some, tmp_path, schema="0.3.0")
    (joins,) = fastrec.overlap(corpus).models
    assert joins.metrics == [None, "acc", "f1"]
    assert (joins.questions, joins.common) == (3, 3)
    assert {pair: numbers[2:4] for pair, numbers in found_pairs(joins).items()} == {
        ("m-None", "m-acc"): [3, 0],
        ("m-None", "m-f1"): [3, 1],
        ("m-acc", "m-f1"): [3, 0],
    }
    assert "common  same metric  same id" in run_command("overlap", corpus).stdout.decode()
    (joins,) = fastrec.overlap(corpus, metric=["acc", "f1"], model=["m-acc", "m-f1"]).models
    assert joins.metrics == ["acc", "f1"]


def test_many_pairs(tmp_path):
    """A table shows the worst pairs, and says how many more there are."""
    some = [one_line(f"m{number}", "1", f"Question of m{number}?", []) for number in range(8)]
    text = run_command("overlap", corpus_of(some, tmp_path, schema="0.3.0")).stdout.decode()
    assert text.count("\n  m") == 11  # and the heading
    assert "… and 18 more pairs; --model chooses models, and --format json lists all pairs" in text


# Hashes


def test_hashes(mixed):
    """The recipes of each evaluation and model are those of the summary, for chosen models only."""
    summary = json.loads((mixed / "summary.json").read_bytes())["sample_hash"]
    found = fastrec.overlap(mixed, by="hashes")
    assert found.models is None
    assert msgspec.to_builtins(found.hashes) == summary["by_model"]
    assert sum(sum(one.recipes.values()) for one in found.hashes) == 250
    some = fastrec.overlap(mixed, by="hashes", model="org-0/*", evaluation="word*").hashes
    assert {(one.evaluation_name, one.model_id.partition("/")[0]) for one in some} == {
        ("word_problems", "org-0")
    }


def recipe_of(record):
    """The recipe of a record's hash, found without fastrec's finder."""
    if record.get("sample_hash") is None:
        return ABSENT
    raw = record["input"]["raw"]
    references = record["input"]["reference"]
    texts = [references] if isinstance(references, str) else references
    first = "".join(texts[:1])
    spaced = {"sort_keys": True}
    compact = {"sort_keys": True, "separators": (",", ":")}
    recipes = {
        "R1": raw + first if len(texts) == 1 else None,
        "R2": raw + "".join(texts),
        "R3": raw + first,
        "R4": json.dumps({"raw": raw, "reference": first}, **spaced),
        "R5": json.dumps({"raw": raw, "reference": texts}, **compact),
        "R6": json.dumps({"raw": raw, "reference": texts}, **spaced),
        "R7": "\n".join([raw, *texts]) if texts else raw + "\n",
        "R8": json.dumps({"raw": raw, "reference": first}, **spaced, ensure_ascii=False),
        "R9": json.dumps({"input": raw, "reference": texts}, **compact, ensure_ascii=False),
        "R10": json.dumps({"raw": raw, "reference": texts}, **compact, ensure_ascii=False),
    }
    given = record["sample_hash"]
    return next(
        (
            name
            for name, text in recipes.items()
            if text and sha256(text.encode()).hexdigest() == given
        ),
        WRONG,
    )


def test_recipes_of_all_valid_lines(tmp_path):
    """The summary counts every valid line, duplicates included, whatever the order of shards, lines
    and processes.
    """
    labelled = labelled_lines(
        Recipe(
            records=200,
            seed=8,
            schema="mixed",
            duplicates=0.2,
            rejects=0.1,
            mix="single_turn",
            warnings=0.1,
        )
    )
    some = [(line, kind) for kind, line in labelled]
    expected = defaultdict(Counter)
    for line, kind in some:
        if kind in {"record", "duplicate"}:
            record = json.loads(line)
            expected[record["evaluation_name"], record["model_id"]][recipe_of(record)] += 1
    found = []
    for name, order, options in (("one", 1, {}), ("two", -1, {"jobs": 2})):
        folder = tmp_path / name
        folder.mkdir()
        text = [line for line, _ in some][::order]
        (folder / "a.jsonl").write_bytes(b"\n".join(text[:80]))
        (folder / "b.jsonl").write_bytes(b"\n".join(text[80:]))
        with use_limits(Limits(small_input=0)):
            fastrec.normalize(folder, tmp_path / f"{name}-corpus", schema="0.3.0", **options)
        found.append(
            json.loads((tmp_path / f"{name}-corpus/summary.json").read_bytes())["sample_hash"]
        )
    assert found[0]["by_model"] == found[1]["by_model"]
    by_model = {
        (one["evaluation_name"], one["model_id"]): one["recipes"] for one in found[0]["by_model"]
    }
    assert by_model == expected
    assert found[0]["by_recipe"] == found[1]["by_recipe"] == sum(expected.values(), Counter())
    assert {ABSENT, WRONG, "R1", "R2", "R4", "R6"} <= found[0]["by_recipe"].keys()


def test_formats_of_hashes(mixed):
    """A column for each recipe that occurs, absent and wrong last.

    CSV has a row for each recipe of a model.
    """
    text = run_command("overlap", mixed, "--by", "hashes", "--evaluation", "word*").stdout.decode()
    heading = text.splitlines()[1].split()
    names = heading[1:]
    assert heading[0] == "model"
    assert names == sorted(names, key=[*RECIPES, ABSENT, WRONG].index)
    assert "word_problems: " in text
    assert "absent: without one; wrong: by no recipe" in text
    rows = list(
        csv.DictReader(
            io.StringIO(
                run_command("overlap", mixed, "--by", "hashes", "--format", "csv").stdout.decode()
            )
        )
    )
    assert sum(int(row["lines"]) for row in rows) == 250
    assert (
        "| model | R1 |"
        in run_command("overlap", mixed, "--by", "hashes", "--format", "markdown").stdout.decode()
    )
