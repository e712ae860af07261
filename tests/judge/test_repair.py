"""Repairs: what known producers get wrong becomes a valid record, and nothing else changes."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fastrec.commands.generate import Recipe, labelled_lines
from fastrec.errors import UsageError
from fastrec.judge import slow as slow_path
from fastrec.judge.findings import REPAIRS
from fastrec.judge.judge import Judge
from fastrec.judge.repair import LONGEST_TRIAL, RECORD_REPAIRS, VALUE_REPAIRS, repair_codes
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS
from tests.judge.helpers import judge
from tests.samples import sample
from tests.sizes import examples

ALL = frozenset(REPAIRS)
RECORDS = Path(__file__).parents[3] / "shared" / "logs" / "records"
ORACLES = {name: jsonschema.Draft7Validator(schema.document) for name, schema in SCHEMAS.items()}
NAN = "@NaN@"  # becomes a bare NaN


def later(kind: str = "single_turn", **changes: Any) -> dict[str, Any]:
    """Return a record of the newest version."""
    record = sample(kind, schema_version="0.3.0", evaluation_result_id="accuracy")
    record["sample_id"] = str(record["sample_id"])
    record["sample_hash"] = None
    record["input"] |= {"reference": ["42"], "formatted": None}
    record["evaluation"]["score"] = 1.0
    record["metadata"] = {"subject": "maths"}
    if "output" in record:
        record["output"] = {"raw": ["It is 42"], "reasoning_trace": None}
    if "interactions" in record:
        record["messages"] = record.pop("interactions")
        for turn in record["messages"]:
            turn["tool_call_id"] = None
            for call in turn.get("tool_calls", ()):
                call["arguments"] = {"a": "6"}
    return record | changes


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a record with one value changed; `path` has the steps to it."""
    record = copy.deepcopy(record)
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    owner: Any = record
    for step in parents:
        owner = owner[step] if isinstance(owner, list) else owner.setdefault(step, {})
    owner[last] = value
    return record


def line_of(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode().replace(f'"{NAN}"'.encode(), b"NaN")


def repaired(
    record: dict[str, Any], repairs: frozenset[str] = ALL
) -> tuple[dict[str, Any], list[str]]:
    """Judge a record that needs repairs; return it as it is kept, and the codes."""
    batch, out = judge(line_of(record), repairs=repairs)
    assert not batch.rejected, batch.rejected[0]
    (line,) = batch.repaired
    codes = [finding.code for finding in line.findings]
    assert {code: count for code, count in batch.notes.items() if code in REPAIRS} == dict.fromkeys(
        codes, 1
    )
    return json.loads(out), codes


VALUE_CASES: list[tuple[str, dict[str, Any], str, Any, Any]] = [
    ("repair.result_id_null", later(), "evaluation_result_id", None, ...),
    ("repair.null", sample(), "input.formatted", None, ...),
    ("repair.null", sample(), "input.choices", None, ...),
    ("repair.null", sample(), "metadata", None, ...),
    ("repair.null", sample(), "sample_hash", None, ...),
    ("repair.null", sample("agentic"), "interactions.1.tool_call_id", None, ...),
    ("repair.null", sample("agentic"), "interactions.0.tool_calls.0.arguments", None, ...),
    ("repair.null", sample(), "evaluation.num_turns", None, ...),
    ("repair.value_not_text", later(), "metadata.n", 1, "1"),
    ("repair.value_not_text", later(), "metadata.n", None, "null"),
    ("repair.value_not_text", later(), "metadata.n", 10**30, str(10**30)),
    ("repair.value_not_text", later(), "metadata.n", 1.50, "1.5"),
    (
        "repair.value_not_text",
        later(),
        "metadata.n",
        {"b": [1.0, True], "a": "ü"},
        '{"a":"ü","b":[1.0,true]}',
    ),
    ("repair.value_not_text", later(), "metadata.n", NAN, "NaN"),
    ("repair.value_not_text", later("agentic"), "messages.0.tool_calls.0.arguments.limit", 7, "7"),
    ("repair.value_not_text", later(), "performance.additional_details.retries", [2], "[2]"),
    ("repair.number_from_text", later(), "evaluation.score", "0.5", 0.5),
    ("repair.number_from_text", sample(), "evaluation.score", " 1 ", 1),
    ("repair.number_from_text", later(), "evaluation.score", str(10**30), 10**30),
    ("repair.number_from_text", later(), "performance.latency_ms", "3", 3),
    ("repair.number_from_text", later("agentic"), "messages.1.turn_idx", "1", 1),
    ("repair.number_from_text", later(), "token_usage.reasoning_tokens", "+1_000.0", 1000),
    ("repair.boolean_from_text", later(), "evaluation.is_correct", "yes", True),
    ("repair.boolean_from_text", sample(), "answer_attribution.0.is_terminal", "False", False),
    ("repair.number_from_boolean", later("multi_turn"), "evaluation.score", True, 1.0),
    ("repair.number_from_boolean", later("multi_turn"), "evaluation.num_turns", True, 1),
    ("repair.boolean_from_number", later(), "evaluation.is_correct", 1, True),
    ("repair.boolean_from_number", sample(), "evaluation.is_correct", 0.0, False),
]


@pytest.mark.parametrize(("code", "record", "path", "wrong", "right"), VALUE_CASES)
def test_a_value_is_repaired(
    code: str, record: dict[str, Any], path: str, wrong: Any, right: Any
) -> None:
    """The value becomes what was meant, `...` if it is left out; everything else stays as it is."""
    found, codes = repaired(changed(record, path, wrong))
    assert codes == [code]
    *parents, last = path.split(".")
    expected = changed(record, path, right)
    owner = expected
    for step in parents:
        owner = owner[int(step)] if isinstance(owner, list) else owner[step]
    if right is ...:
        del owner[last]
    (batch, out) = judge(line_of(expected))
    assert not batch.rejected
    assert found == json.loads(out)


def test_every_repair_has_a_case() -> None:
    """The tables of codes and of functions agree, and the tests show each of them."""
    assert list(REPAIRS) == [*VALUE_REPAIRS, *RECORD_REPAIRS]
    assert {code for code, *_ in VALUE_CASES} == set(VALUE_REPAIRS)


NOT_REPAIRED: list[tuple[dict[str, Any], str, Any]] = [
    (later(), "evaluation.score", None),  # required: there is nothing to write for it
    (later(), "evaluation.score", "good"),
    (later(), "evaluation.score", "true"),
    (later(), "evaluation.score", ""),
    (later(), "evaluation.score", "0x10"),
    (later(), "evaluation.is_correct", 2),
    (later(), "evaluation.is_correct", "maybe"),
    (later(), "evaluation.is_correct", None),
    (later("multi_turn"), "sample_id", 5),  # the schema's own project does not accept it either
    (later("multi_turn"), "input.reference", "42"),
    (later(), "evaluation.num_turns", "1.5"),
    (later(), "evaluation.num_turns", "0"),  # below the minimum
    (later(), "performance.latency_ms", NAN),
    (later(), "metadata", "text"),
    (later(), "metadata.n", {"deep": NAN}),
    (later(), "run_details", {}),
    (later(), "input.choices", [None]),
    (sample(), "interaction_type", "chat"),
]


@pytest.mark.parametrize(("record", "path", "wrong"), NOT_REPAIRED)
def test_other_mistakes_are_not_repaired(record: dict[str, Any], path: str, wrong: Any) -> None:
    """The line is rejected with the same errors as without repairs, and does not count as one to
    repair.
    """
    line = line_of(changed(record, path, wrong))
    (with_repairs, _), (without, _) = judge(line, repairs=ALL), judge(line)
    assert with_repairs.rejected == without.rejected
    assert without.rejected[0].repairs == ()


def test_digits_of_long_numbers_are_kept() -> None:
    """A number in text that is too long for a double is an integer, as it would be without quotes."""
    found, _ = repaired(changed(later(), "evaluation.score", "9" * 400))
    assert found["evaluation"]["score"] == int("9" * 400)


def test_output_beside_turns_goes_to_metadata() -> None:
    """A single turn keeps its output, a conversation its turns.

    What is displaced is in `metadata` as JSON text.
    """
    turns = [{"turn_idx": 0, "role": "user", "content": "6 x 7", "tool_call_id": None, "z": 1.0}]
    found, codes = repaired(sample(interactions=turns))
    assert codes == ["repair.output_and_turns"]
    assert "interactions" not in found
    assert found["output"] == sample()["output"]
    expected = '[{"content":"6 x 7","role":"user","tool_call_id":null,"turn_idx":0,"z":1.0}]'
    assert found["metadata"]["interactions"] == expected
    for field, record in (("interactions", sample("agentic")), ("messages", later("agentic"))):
        taken = {"output": "taken", "output_2": "too"}
        found, codes = repaired(record | {"output": {"raw": "42", "x": None}, "metadata": taken})
        assert codes == ["repair.output_and_turns"]
        assert "output" not in found
        assert len(found[field]) == 2
        assert found["metadata"] == taken | {"output_3": '{"raw":"42","x":null}'}
    found, codes = repaired(sample("multi_turn", output={"raw": ""}, metadata=None))
    assert (codes, found["metadata"]) == (["repair.output_and_turns"], {"output": '{"raw":""}'})


@pytest.mark.parametrize(
    "spelled", [b"NaN", b"-Infinity", b"1e999", b'"nan"', b'" Inf"', b'"1e999"']
)
def test_a_score_that_is_not_a_number_becomes_an_error(spelled: bytes) -> None:
    """The record counts as one with an error: the placeholder is not an answer, and the text says
    what was there.
    """
    line = line_of(changed(later(error=None), "evaluation.score", NAN)).replace(b"NaN", spelled)
    batch, out = judge(line, repairs=ALL)
    found = json.loads(out)
    assert batch.notes["repair.nan_score"] == 1
    assert found["evaluation"]["score"] == 0.0
    assert found["evaluation"]["is_correct"] is False
    assert found["error"] == (
        f"the score was {spelled.decode()}, which is not a finite number; 0.0 is a placeholder, "
        "and is_correct was true"
    )
    _, out = judge(line.replace(b'"error": null', b'"error": "timeout"'), repairs=ALL)
    assert json.loads(out)["error"].startswith("timeout; the score was ")


def test_names_of_repairs() -> None:
    """`all`, names with and without prefix; anything else is refused."""
    assert repair_codes(["all"]) == tuple(REPAIRS)
    assert repair_codes(["nan_score", "repair.null", "null"]) == ("repair.null", "repair.nan_score")
    assert repair_codes([]) == ()
    with pytest.raises(
        UsageError, match=r"there is no repair 'nul'; give all, or some of result_id_null, null, "
    ):
        repair_codes(["nul"])


def test_a_line_needs_all_of_its_repairs() -> None:
    """With some of them, it is rejected with its original errors."""
    line = line_of(later(evaluation_result_id=None, metadata={"n": 1}))
    needed = ("repair.result_id_null", "repair.value_not_text")
    for names in ([], needed[:1], needed[1:], ["repair.null"]):
        (invalid,) = judge(line, repairs=frozenset(names))[0].rejected
        assert invalid.repairs == needed
        assert invalid == judge(line)[0].rejected[0]
    assert not judge(line, repairs=frozenset(needed))[0].rejected


def test_a_repaired_record_of_a_later_version_is_not_kept_in_a_corpus_of_an_earlier_one() -> None:
    """It is rejected with its original errors.

    It only counts as one to repair if the target can still change.
    """
    line = line_of(later(evaluation_result_id=None))
    plain = judge(line, target=DEFAULT_SCHEMA.name)[0].rejected[0]
    assert (plain.repairs, plain.is_newer_version, plain.findings[0].code) == (
        (),
        False,
        "schema.type",
    )
    guess = judge(line, target=DEFAULT_SCHEMA.name, target_is_guess=True)[0].rejected[0]
    assert (guess.repairs, guess.is_newer_version) == (("repair.result_id_null",), False)
    allowed = judge(line, target=DEFAULT_SCHEMA.name, target_is_guess=True, repairs=ALL)[
        0
    ].rejected[0]
    assert (allowed.repairs, allowed.is_newer_version) == (("repair.result_id_null",), True)
    assert guess.findings == allowed.findings == plain.findings
    batch, out = judge(line, target=NEWEST_SCHEMA.name, repairs=ALL)
    assert batch.versions["0.3.0"] == 1
    assert "evaluation_result_id" not in json.loads(out)


def test_a_repaired_record_with_a_wrong_hash_is_rejected_with_its_original_errors() -> None:
    """`--sample-hash verify` rejects it, so a repair does not keep it."""
    line = line_of(later(evaluation_result_id=None, sample_hash="00"))
    (invalid,) = judge(line, sample_hash="verify", repairs=ALL)[0].rejected
    assert (invalid.findings[0].code, invalid.repairs) == ("schema.type", ())
    assert not judge(line, repairs=ALL)[0].rejected


def test_one_version_alone() -> None:
    """With a version, lines are repaired by that version and no other."""
    line = line_of(later("multi_turn", evaluation_result_id=None))
    assert not judge(line, schema=NEWEST_SCHEMA.name, repairs=ALL)[0].rejected
    assert judge(line, schema="0.2.1", repairs=ALL)[0].rejected[0].repairs == ()


def test_very_long_lines_are_only_repaired_on_request() -> None:
    """What nobody asked for must not cost much."""
    line = line_of(later(evaluation_result_id=None, metadata={"x": "y" * LONGEST_TRIAL}))
    assert judge(line)[0].rejected[0].repairs == ()
    assert not judge(line, repairs=ALL)[0].rejected


# Real rows, as producers write them: every absent field is null.
INSPECT = {
    "schema_version": "0.2.0", "evaluation_id": "gaia/1", "model_id": "org/m", "evaluation_name": "GAIA",
    "sample_id": "s-1", "sample_hash": "00", "interaction_type": "agentic",
    "input": {"raw": "Where?", "formatted": None, "reference": "34689", "choices": None},
    "output": {"raw": "33101,33401", "reasoning_trace": None},
    "interactions": [
        {"turn_idx": 0, "role": "user", "content": "?", "reasoning_trace": None, "tool_calls": [], "tool_call_id": None,
         "note": "…"},
        {"turn_idx": 1, "role": "assistant", "content": "", "reasoning_trace": None,
         "tool_calls": [{"id": "c", "name": "go", "arguments": {"url": "https://x", "page": 2}}], "tool_call_id": None},
        {"turn_idx": 2, "role": "tool", "content": "…", "reasoning_trace": None, "tool_calls": [], "tool_call_id": "c"},
    ],
    "answer_attribution": [], "evaluation": {"score": 0.0, "is_correct": False, "num_turns": 3, "tool_calls_count": 1},
    "token_usage": None, "performance": None, "error": None, "metadata": {"stop_reason": "tool_calls", "epoch": 1},
}  # fmt: skip
LM_EVAL = {
    "schema_version": "0.2.2", "evaluation_id": "e/1", "model_id": "org/m", "evaluation_name": "math",
    "evaluation_result_id": None, "sample_id": "0", "sample_hash": "00", "interaction_type": "single_turn",
    "input": {"raw": "?", "formatted": None, "reference": ["3"], "choices": None},
    "output": {"raw": [" 1."], "reasoning_trace": None}, "messages": None, "answer_attribution": [],
    "evaluation": {"score": NAN, "is_correct": False, "num_turns": None, "tool_calls_count": None},
    "token_usage": None, "performance": None, "error": None, "metadata": {"doc_id": 3},
}  # fmt: skip
K_EVAL = LM_EVAL | {
    "schema_version": "instance_level_eval_0.2.1",
    "sample_idx": 3,
    "run_details": [],
    "evaluation": {"score": None, "is_correct": False},
}


@pytest.mark.parametrize(
    ("row", "codes"),
    [
        (INSPECT, ["repair.null", "repair.output_and_turns"]),
        (INSPECT | {"interaction_type": "single_turn"}, ["repair.null", "repair.output_and_turns"]),
        (LM_EVAL, ["repair.nan_score", "repair.result_id_null", "repair.value_not_text"]),
        (K_EVAL, None),
    ],
)
def test_rows_of_known_producers(row: dict[str, Any], codes: list[str] | None) -> None:
    """Rows as converters write them are kept as records of the newest version, except where a score
    is missing.
    """
    batch, out = judge(line_of(row), repairs=ALL, target=NEWEST_SCHEMA.name)
    if codes is None:
        assert {finding.code for finding in batch.rejected[0].findings} >= {
            "schema.type",
            "schema.unknown_key",
        }
        return
    assert [finding.code for finding in batch.repaired[0].findings] == codes
    ORACLES[NEWEST_SCHEMA.name].validate(json.loads(out))


@pytest.mark.skipif(
    not RECORDS.is_dir(), reason="needs the real rows, which are not part of the project"
)
def test_real_rows_are_kept() -> None:
    """All rows of these producers are kept in a corpus of the newest version."""
    expected = {
        "generated_by_eee_main_lm_eval_0.3.0.jsonl": ("0.3.0", 10, {"repair.result_id_null": 10}),
        "helm_mmlu_0219.jsonl": ("0.2.1", 10, {}),
        "inspect_gaia_a_0210.jsonl": ("0.2.0", 2, {"repair.null": 2, "repair.output_and_turns": 2}),
    }
    for name, (version, lines, repairs) in expected.items():
        batch, out = judge((RECORDS / name).read_bytes(), repairs=ALL, target=NEWEST_SCHEMA.name)
        assert +batch.versions == {version: lines}
        assert {code: count for code, count in batch.notes.items() if code in REPAIRS} == repairs
        for line in out.splitlines():
            ORACLES[NEWEST_SCHEMA.name].validate(json.loads(line))


# Properties, over records of all versions with random mistakes.
WRONG: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2.5,
    "0.5",
    "7",
    "yes",
    "x",
    NAN,
    [],
    [None],
    {"a": 1.0},
    {},
]

LIKELY = [
    ("evaluation", "score"), ("evaluation", "is_correct"), ("evaluation", "num_turns"), ("input", "formatted"),
    ("metadata", "n"), ("performance", "latency_ms"),
]  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object or array below a value, with each of its keys or indices."""
    for step, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, step
        if isinstance(child, (dict, list)):
            yield from _places(child)


def damaged_records(count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield valid records of all versions, each with a copy with some random mistakes."""
    rng = random.Random(7)
    records = [
        json.loads(line)
        for name in SCHEMAS
        for _, line in labelled_lines(
            Recipe(records=20, seed=1, schema=name, unknown_keys=0.3, text="words")
        )
    ]
    for number in range(count):
        record = records[number % len(records)]
        damaged = copy.deepcopy(record)
        for _ in range(rng.choice([1, 1, 2, 3])):
            owner, step = rng.choice(list(_places(damaged)))
            if rng.random() < 0.5:
                owner, step = rng.choice(LIKELY)
                owner = damaged.setdefault(owner, {})
            if isinstance(owner, list if isinstance(step, int) else dict):
                owner[step] = copy.deepcopy(rng.choice(WRONG))
        if rng.random() < 0.1:
            damaged["evaluation_result_id"] = None
        if rng.random() < 0.1:
            damaged |= {"output": {"raw": ["a"]}, "messages": [{"turn_idx": 0, "role": "user"}]}
        yield record, damaged


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _leaves(child)
    else:
        yield value


def _spellings(value: Any) -> list[str]:
    """Return how a value may be spelled in a repaired record."""
    if isinstance(value, bool):
        return [json.dumps(value), str(float(value)), str(int(value))]
    if isinstance(value, str) and value != NAN:
        return [value.strip().lower(), *(["true", "false"] if value == "yes" else [])]
    return (
        ["NaN"]
        if value == NAN
        else [json.dumps(value), *(["true", "false"] if value in (0, 1) else [])]
    )


def test_properties_of_repairs() -> None:
    """For records of every version with random mistakes, checked by an independent validator."""
    plain = Judge(JudgeSettings(target=NEWEST_SCHEMA.name))
    repairing = Judge(JudgeSettings(target=NEWEST_SCHEMA.name, repairs=ALL))
    rng = random.Random(5)
    subsets = [frozenset(rng.sample(list(REPAIRS), 5)) for _ in range(12)]
    judges = [
        (names, Judge(JudgeSettings(target=NEWEST_SCHEMA.name, repairs=names))) for names in subsets
    ]
    kept = 0
    for _, damaged in damaged_records(examples(90, 400)):
        line = line_of(damaged)
        out = bytearray()
        other = bytearray()
        before, after = plain.judge_chunk(line, bytearray()), repairing.judge_chunk(line, out)
        if not before.rejected:  # a valid line is never touched
            again = plain.judge_chunk(line, other)
            assert (out, after.repaired, after.rejected) == (other, again.repaired, [])
            continue
        (invalid,) = before.rejected
        assert bool(after.repaired) == bool(invalid.repairs)
        names, subject = rng.choice(judges)  # only these are made
        some = subject.judge_chunk(line, other)
        if names.issuperset(invalid.repairs) and invalid.repairs:
            assert other == out
        else:
            assert some.rejected == before.rejected
        if not after.repaired:
            assert after.rejected == before.rejected
            continue
        kept += 1
        found = json.loads(out)
        assert ORACLES[NEWEST_SCHEMA.name].is_valid(found)  # a repaired record is valid
        third = bytearray()
        once_more = repairing.judge_chunk(bytes(out), third)  # and a second repair changes nothing
        assert (third, once_more.repaired) == (out, [])
        text = " ".join(
            str(leaf) if isinstance(leaf, str) else json.dumps(leaf) for leaf in _leaves(found)
        ).lower()
        text += " " + text.replace('\\"', '"').replace("\\\\", "\\")
        for leaf in _leaves(
            {**damaged, "schema_version": None, "sample_hash": None}
        ):  # nothing is lost, but nulls
            assert leaf is None or any(_in(one, text) for one in _spellings(leaf)), leaf
        score = damaged["evaluation"]["score"]
        if found["evaluation"]["score"] != score:  # no score is invented
            assert float(score) == found["evaluation"]["score"] if score != NAN else found["error"]
    assert kept > examples(9, 40)


def _in(spelled: str, text: str) -> bool:
    return spelled.lower() in text or json.dumps(spelled)[1:-1].lower() in text


@pytest.mark.parametrize("schema", [name for name in SCHEMAS if name != DEFAULT_SCHEMA.name])
def test_the_mistakes_of_the_generator(schema: str) -> None:
    """Lines with the mistakes of known producers are repaired.

    Lines with other mistakes are not.
    """
    recipe = Recipe(records=120, schema=schema, rejects=1.0, seed=3)
    subject = Judge(JudgeSettings(repairs=ALL))
    lines = labelled_lines(recipe)
    seen = {(code, bool(subject.judge_chunk(line, bytearray()).repaired)) for code, line in lines}
    is_repaired = {
        "schema.type",
        "schema.one_of",
        "rule.single_turn_interactions",
        "rule.single_turn_messages",
    }
    is_repaired |= {"rule.multi_turn_output", "json.number"}
    assert seen == {(code, code in is_repaired) for code, _ in seen}
    assert len(seen) >= 9


def _coerce(kind: type, text: str) -> Any:
    pydantic = pytest.importorskip("pydantic")
    try:
        return pydantic.TypeAdapter(kind).validate_json(json.dumps(text))
    except pydantic.ValidationError:
        return None


TEXTS = [
    "0.5", " 0.5 ", "5", "+5", "-5", "5.", "5.0", ".5", "1e3", "1E3", "1_000", "1__0", "_1", "1_", "007", "0x10",
    "5.50", "", " ", ".", "e5", "true", "True", "yes", "Y", "on", " yes ", "1.0", "0", "00", "1e0", "t", "\t5\n", "5 5",
    "123456789012345678901234567890", "3.000", "-0", "- 5", "1,000", "١", "f", "NO", "off", "nein",
    *(f"{space}1" for space in map(chr, range(0x3001)) if space.isspace()), "1\x1c",
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("evaluation.score", float),
        ("evaluation.tool_calls_count", int),
        ("evaluation.is_correct", bool),
    ],
)
def test_texts_mean_what_the_schema_project_takes_them_for(
    path: str, kind: Callable[[Any], Any]
) -> None:
    """A text is repaired exactly if the lax models of the schema's project accept it, and to the
    same value.
    """
    subject = Judge(JudgeSettings(repairs=ALL))
    for text in TEXTS:
        out = bytearray()
        batch = subject.judge_chunk(line_of(changed(later(), path, text)), out)
        expected = _coerce(kind, text)  # type: ignore[arg-type]
        if expected is None or (kind is int and expected < 0):
            assert batch.rejected, text
            continue
        found = json.loads(out)["evaluation"][path.split(".")[1]]
        assert type(found) in (kind, int)
        assert math.isclose(found, expected), text


@pytest.mark.parametrize(
    "text",
    ["NaN", "+inf", "-Infinity", "1e999", "-1E+999", "1_0e999", f"{'9' * 400}.0", ".5e999", "\xa0nan\u3000",
     "\x1cnan", "nan\x1f", "1__0e999", "١e999", "e999", "nan nan", "infinite"],
)  # fmt: skip
def test_texts_that_are_no_finite_numbers(text: str) -> None:
    """They become errors exactly if the models of the schema's project take them for floats."""
    expected = _coerce(float, text)
    batch, out = judge(line_of(changed(later(error=None), "evaluation.score", text)), repairs=ALL)
    assert bool(batch.rejected) == (expected is None)
    if expected is not None:
        assert not math.isfinite(expected)
        assert batch.notes["repair.nan_score"] == 1
        assert json.dumps(text, ensure_ascii=False)[1:-1] in json.loads(out)["error"]


def test_the_fast_path_repairs_like_the_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast path repairs `evaluation_result_id: null` only if it gives what the slow path gives."""
    plain = later(evaluation_result_id=None)
    bare = later(
        evaluation_result_id=None,
        sample_hash="00",
        input={"raw": "", "reference": []},
        output={"raw": []},
    )
    bare["evaluation"] = {"score": 1, "is_correct": True}
    records = [
        plain,
        later("agentic", evaluation_result_id=None),
        bare,  # valid as a record of an earlier version
        bare | {"sample_hash": None},
        plain | {"schema_version": "0.2.1"},
        plain | {"schema_version": "0.2.0"},
        plain | {"schema_version": "x"},
        plain | {"error": '"evaluation_result_id": null, '},
        changed(plain, "input.evaluation_result_id", None),
        changed(later(), "input.evaluation_result_id", None),
        changed(plain, "metadata.n", 3),
        changed(plain, "evaluation.score", NAN),
        changed(plain, "messages", []),
        plain | {"zz": 1},
        sample(evaluation_result_id=None),
    ]
    lines = [line_of(record) for record in records]
    text = lines[0]
    null = b'"evaluation_result_id": null'
    assert text.endswith(null + b"}")
    lines += [
        b"{" + null + b", " + text[1:].replace(b", " + null, b""),
        b"{" + null + b" " + text[1:].replace(b", " + null, b""),  # the comma is missing
        text.replace(null, b'"evaluation_result_id" :\tnull '),
        text.replace(null, null + b', "evaluation_result_id": "x"'),
        text.replace(null, null + b', "evaluation\\u005fresult_id": "x"'),
        text.replace(null, null + b', "error": null'),
        text + b"}",
    ]
    for options in (
        {},
        {"target": NEWEST_SCHEMA.name},
        {"schema": NEWEST_SCHEMA.name},
        {"sample_hash": "verify"},
    ):
        for some in (lines[:1] * 3, lines):
            data = b"\n".join(some)
            fast, out = judge(data, repairs=ALL, warnings=True, **options)
            with monkeypatch.context() as patch:
                patch.setattr(slow_path.SlowPath, "_repair_null_id", lambda *_: False)
                slow, expected = judge(data, repairs=ALL, warnings=True, **options)
            assert out.splitlines() == expected.splitlines()
            assert fast.repaired == slow.repaired
            assert (+fast.versions, fast.notes, fast.rejected) == (
                +slow.versions,
                slow.notes,
                slow.rejected,
            )
            assert (fast.warnings, fast.recipe_names, fast.replaced) == (
                slow.warnings,
                slow.recipe_names,
                slow.replaced,
            )
            assert (fast.numbers, fast.ends, fast.lines) == (slow.numbers, slow.ends, slow.lines)
