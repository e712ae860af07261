"""Generated records of later versions, checked with jsonschema instead of fastrec's own judge."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

import fastrec
from fastrec.commands.generate import Recipe, _Source, labelled_lines, lines
from fastrec.commands.generate.invalid import MISTAKES, REPAIRABLE
from fastrec.commands.generate.producers import producer
from fastrec.commands.generate.records import compose
from fastrec.errors import UsageError
from fastrec.judge.findings import ERRORS
from fastrec.judge.judge import Judge
from fastrec.judge.repair import repair_codes
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import SCHEMAS
from tests.commands.test_generate import DEPENDS_ON_OPTIONS, split, unpack
from tests.running import run_command

ROOT = Path(fastrec.__file__).parents[1]
VALIDATORS = {name: Draft7Validator(schema.document) for name, schema in SCHEMAS.items()}
EVERYTHING = {
    "records": 200,
    "seed": 7,
    "duplicates": 0.1,
    "conflicts": 0.1,
    "unknown_keys": 0.2,
    "rejects": 0.15,
    "blanks": 0.02,
    "warnings": 0.1,
}
VALID = {"record", "duplicate", "conflict"}


@pytest.fixture(scope="module", params=["0.2.0-released", "0.2.1", "0.3.0"])
def version(request):
    """A version, and lines of all kinds: (kind, line) in order."""
    return request.param, list(labelled_lines(Recipe(**EVERYTHING, schema=request.param)))


@pytest.fixture(scope="module")
def mixed():
    return list(labelled_lines(Recipe(**EVERYTHING, schema="mixed")))


@pytest.fixture(scope="module")
def newest():
    """The records of the newest version."""
    return [json.loads(line) for line in lines(Recipe(records=600, seed=5, schema="0.3.0"))]


def test_valid_lines_are_valid_in_their_version(version):
    """Records, duplicates and conflicts satisfy the schema file of the version."""
    name, found = version
    for kind, line in found:
        if kind in VALID:
            assert VALIDATORS[name].is_valid(json.loads(line)), line[:300]


def test_invalid_lines_are_invalid_in_all_versions(version, mixed):
    """No mistake makes a valid record of another version.

    Only a contradiction is valid to the letter.
    """
    for kind, line in version[1] + mixed:
        if kind.startswith(("schema.", "rule.")):
            value = json.loads(line)
            assert not any(validator.is_valid(value) for validator in VALIDATORS.values()), line[
                :300
            ]


def test_the_judge_agrees(version, mixed):
    """Lines are valid, blank, or rejected for the code of their kind."""
    judge = Judge()
    for kind, line in version[1] + mixed:
        batch = judge.judge_chunk(line, bytearray())
        codes = [rejected.findings[0].code for rejected in batch.rejected]
        assert codes == ([] if kind in VALID | {"blank"} else [kind]), line[:300]


def test_mixed_versions(mixed):
    """All versions occur, change within a shard, and make up more than a tenth each."""
    judge = Judge()
    found = []
    for kind, line in mixed:
        if kind == "record":
            found += judge.judge_chunk(line, bytearray()).versions
    counts = Counter(found)
    assert counts.keys() == SCHEMAS.keys()
    assert min(counts.values()) > len(found) / 10
    assert sum(one != other for one, other in pairwise(found)) > 10


def test_every_code_occurs():
    """Every code that does not depend on options is one of an invalid line of some version."""
    recipes = [Recipe(records=60, rejects=1.0)]
    recipes += [
        Recipe(records=100, rejects=1.0, schema="mixed", mix=mix) for mix in ("mixed", "agentic")
    ]
    found = {kind for recipe in recipes for kind, _ in labelled_lines(recipe)}
    assert ERRORS.keys() - DEPENDS_ON_OPTIONS == found


def test_every_mistake_has_a_version_and_a_type():
    """No row is dead."""
    for row in MISTAKES:
        assert any(row.fits(schema) for schema in SCHEMAS.values())
        assert row.types


def test_repairs_fix_the_mistakes_of_known_producers():
    """All repairs together keep the lines of these rows, and no others."""
    judge = Judge(JudgeSettings(repairs=frozenset(repair_codes(["all"]))))
    kept = Counter()
    source = _Source(Recipe(records=1, seed=3, schema="mixed"))
    for row in MISTAKES:
        for schema in SCHEMAS.values():
            for kind in row.types if row.fits(schema) else ():
                question, _ = next(source.asked[kind])
                author = producer(3, list(SCHEMAS).index(schema.name), schema)
                answer = compose(source.rng, question, author)
                line = row.line(answer)
                fixed = (
                    row in REPAIRABLE or row.code == "json.number"
                )  # a score that is NaN, in all versions
                kept[fixed, len(judge.judge_chunk(line, bytearray()).records)] += 1
    assert kept.keys() == {(True, 1), (False, 0)}


def test_several_metrics(newest):
    """An answer of some evaluations is scored by several metrics, at least one of them graded."""
    metrics = defaultdict(set)
    scores = defaultdict(set)
    for record in newest:
        if "evaluation_result_id" in record:
            answer = json.dumps(record.get("output") or record["messages"])
            metrics[record["model_id"], record["evaluation_name"], record["sample_id"], answer].add(
                record["evaluation_result_id"]
            )
            scores[record["evaluation_result_id"]].add(record["evaluation"]["score"])
    assert {1, 2, 3} <= set(map(len, metrics.values()))
    assert any(max(values) > 1 for values in scores.values())
    assert any(values <= {0, 1} for values in scores.values())
    assert any("evaluation_result_id" not in record for record in newest)


def test_repeats(newest):
    """Some identities have several records with other outputs, which say which epoch they are."""
    epochs = defaultdict(list)
    for record in newest:
        keys = ("evaluation_id", "model_id", "evaluation_name", "sample_id")
        name = (*(record[key] for key in keys), record.get("evaluation_result_id"))
        epochs[name].append((record.get("metadata") or {}).get("epoch"))
    assert ["1", "2"] in list(epochs.values())
    assert all(found in ([None], ["1"], ["1", "2"]) for found in epochs.values())


def test_contradictions():
    """Half of the conflicts are the answer of another record with another verdict."""
    outputs = set()
    same = []
    for kind, line in labelled_lines(
        Recipe(records=600, seed=5, conflicts=0.1, schema="0.3.0", mix="single_turn")
    ):
        record = json.loads(line)
        answer = record["model_id"], record["sample_id"], *record["output"]["raw"]
        if kind == "conflict":
            same.append(answer in outputs)
        outputs.add(answer)
    assert 0.2 < sum(same) / len(same) < 0.8


def test_labels_that_lie(newest):
    """Most labels are those of the version; some are those of other versions."""
    labels = Counter(record["schema_version"] for record in newest)
    own = SCHEMAS["0.3.0"].labels
    assert 0.5 < sum(count for label, count in labels.items() if label in own) / len(newest) < 1
    assert {label.startswith("instance_level_eval_") for label in labels} == {True, False}


def test_nulls_and_references(newest):
    """Some producers write null for every absent field; references are empty, one or several."""
    nulls = [record for record in newest if record.get("messages", ...) is None]
    assert nulls
    assert all(record["input"].get("formatted", ...) is not ... for record in nulls)
    assert {0, 1, 2} <= {len(record["input"]["reference"]) for record in newest}


def test_recipes_and_prompts(newest):
    """Hashes follow many recipes, and some producers ask the same question in other words."""
    judge = Judge()
    out = bytearray()
    recipes = Counter()
    for record in newest:
        for (_, _, recipe), count in (
            judge.judge_chunk(json.dumps(record).encode(), out).count_recipes(Counter()).items()
        ):
            recipes[recipe] += count
    assert len(recipes) >= 8
    prompts = defaultdict(set)
    for record in newest:
        prompts[record["evaluation_name"], record["sample_id"]].add(record["input"]["raw"])
    assert max(map(len, prompts.values())) > 1


def test_wrong_version():
    """A version that does not exist is refused with the names of those that do."""
    with pytest.raises(
        UsageError, match=r"0\.2\.0, 0\.2\.0-released, 0\.2\.1, 0\.3\.0, mixed, not '0\.9'"
    ):
        Recipe(schema="0.9")


def test_the_default_is_the_oldest_version(tmp_path):
    """The option changes nothing if it names the default, on the command line and in Python."""
    for name, options in (("a", ()), ("b", ("--schema", "0.2.0"))):
        assert run_command("generate", "-n", "30", "-o", tmp_path / name, *options).returncode == 0
    texts = [[path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in "ab"]
    assert texts[0] == texts[1]


def test_the_second_corpus_is_what_generate_makes(tmp_path):
    """The command in corpora/README.md gives the lines in corpora/versions, which is small."""
    page = (ROOT / "corpora/README.md").read_text(encoding="utf-8")
    command = re.search(r"^fastrec (generate .*--schema.*)$", page, re.MULTILINE)[1]
    words = shlex.split(command)
    words[words.index("-o") + 1] = str(tmp_path / "made")
    assert run_command(*words).returncode == 0
    kept = sorted((ROOT / "corpora/versions").iterdir())
    made = sorted((tmp_path / "made").iterdir())
    assert [path.name for path in kept] == [path.name for path in made]
    assert [split(unpack(str(path))) for path in kept] == [
        split(unpack(str(path))) for path in made
    ]
    assert sum(path.stat().st_size for path in kept) < 300_000
