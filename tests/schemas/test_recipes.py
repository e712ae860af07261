"""The recipes of `sample_hash` give the published digests, and the name of a recipe depends on the
question alone.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.commands.generate import Recipe, lines
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas import hashes as recipes
from fastrec.schemas.hashes import (
    ABSENT,
    RECIPES,
    WRONG,
    RecipeFinder,
    ascii_json,
    sample_hash,
    unicode_json,
)
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS
from tests.sizes import examples

REAL = Path(recipes.__file__).parents[3] / "shared/logs/records"

QUESTIONS = [("What is 2 + 2?", ["4"]), ("Größe? 你好", ["a", "b"]), ("Q", [])]
DIGESTS = {
    "R1": ("3fb18e0b1983462fc6404afebb3e39ede956bd7d177c9ee2288643d0005ac2a4",
           "ffe39678995de7e874b2ac325c55a8400fd5d62e9ac6b4df05876e794ecdf400",
           "4ae81572f06e1b88fd5ced7a1a000945432e83e1551e6f721ee9c00b8cc33260"),
    "R2": ("3fb18e0b1983462fc6404afebb3e39ede956bd7d177c9ee2288643d0005ac2a4",
           "2650b8be12d20f8b233aa1c8c1e1919102af81ff9bd8fe819ee80d0d770b023c",
           "4ae81572f06e1b88fd5ced7a1a000945432e83e1551e6f721ee9c00b8cc33260"),
    "R3": ("3fb18e0b1983462fc6404afebb3e39ede956bd7d177c9ee2288643d0005ac2a4",
           "ffe39678995de7e874b2ac325c55a8400fd5d62e9ac6b4df05876e794ecdf400",
           "4ae81572f06e1b88fd5ced7a1a000945432e83e1551e6f721ee9c00b8cc33260"),
    "R4": ("d7cc70e3756ce84ce5561616f993255949c23e10a76f35b7e52b5fd96c03ba84",
           "e99757c40a26a24d718a089cf91535d914346e1f97ae6ede02ef427a5fe5e232",
           "7bc4a97d1b009422ae292539983e28961bb7ec9527442ec6fab7c97bd3823e1e"),
    "R5": ("9c94305328f8e70341f9d1880f4eaa6ea7f93b8922e6a03a8cdcf1924d28db0b",
           "d69713ced26c777287f95d55951844b84b3624b32a5d1f54e07863a21c656f27",
           "adf6236c5a2dcef03e55dbadfb958716e0beac23275000cf08d3dc306354738c"),
    "R6": ("3e24146557ee48e2b5f674d434d633c4fa2840b21fd9d5eda780493e2814a31c",
           "934349ee9a53640d12034cbe76f7c519fda2c8c2755b2d2ba4c928d55c120a21",
           "6dd5aad3ed6b50d97d3d00d52316ad47d0bc8317b1de6a4344371dc890c071d8"),
    "R7": ("6283d796fee29eeda826f0732604e206519128c5d3f033ee80cac1e19807fc3f",
           "d3ded3bc32b32f3e3b3bc6127d3909104472e922878fd779c3922f8cfed766f4",
           "282f82a2d55dbfe663906eecf403ead5ecad4a750d37f8a09d16d99c2283cd61"),
    "R8": ("d7cc70e3756ce84ce5561616f993255949c23e10a76f35b7e52b5fd96c03ba84",
           "dc8bc70e39875f11895a1b34821f10bc3b0de3b3e7261f7a57b1972b3322e186",
           "7bc4a97d1b009422ae292539983e28961bb7ec9527442ec6fab7c97bd3823e1e"),
    "R9": ("4992e1238a3f203fca97ac30075c8469c40564a80d6b168696aac26e63b56854",
           "f7db5b989f02f4dac2d43396c181f4069a14edec41111a7b2b7ae0b1f73d5b8d",
           "b7c99df9e3583a98cb4b97d29b0e032ca298aad2507182d1b3f09a7d6821b069"),
    "R10": ("9c94305328f8e70341f9d1880f4eaa6ea7f93b8922e6a03a8cdcf1924d28db0b",
            "e3a9e6e9520ecc4f7c9e2477eb9b4fefe26bdbdfa01cf308d997b3d323157260",
            "adf6236c5a2dcef03e55dbadfb958716e0beac23275000cf08d3dc306354738c"),
}  # fmt: skip
NAMES = {
    # ASCII text and one reference: R1 to R3 are one recipe, and no escape tells R8 and R10 from R4
    # and R5.
    0: dict(
        zip(RECIPES, ("R1", "R1", "R1", "R4", "R5", "R6", "R7", "R4", "R9", "R5"), strict=True)
    ),
    1: dict(
        zip(RECIPES, ("R3", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10"), strict=True)
    ),
    # No reference: R1 needs one.
    2: dict(
        zip(RECIPES, ("R2", "R2", "R2", "R4", "R5", "R6", "R7", "R4", "R9", "R5"), strict=True)
    ),
}


def digest(name: str, raw: str, references: list[str]) -> str:
    return sha256(RECIPES[name](raw, references)).hexdigest()


@pytest.mark.each_value
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("number", range(3))
def test_worked_digests(name: str, number: int) -> None:
    """Each recipe gives the digest that was worked out for three questions, and the finder names
    it.
    """
    raw, references = QUESTIONS[number]
    assert digest(name, raw, references) == DIGESTS[name][number]
    assert RecipeFinder().find(raw, references, DIGESTS[name][number]) == NAMES[number][name]


def test_the_text_of_the_rule() -> None:
    """R5 escapes as Python's json does: pairs of surrogates, control characters, no slashes."""
    raw = 'Größe? 你好 😀 a/b\n\t\x01\x7f"\\'
    references = ["a", "b"]
    expected = json.dumps(
        {"raw": raw, "reference": references}, sort_keys=True, separators=(",", ":")
    )
    assert RECIPES["R5"](raw, references).decode() == expected
    assert sample_hash(raw, references) == sha256(expected.encode()).hexdigest()


written = st.text(st.sampled_from('aé你😀"\\/\n\t\x00\x7f\u2028 {}'), max_size=8)


@given(written, st.lists(written, max_size=3))
@settings(max_examples=examples(11, 200))
def test_recipes_in_json_agree_with_the_standard_library(raw: str, references: list[str]) -> None:
    """Every recipe of JSON text is what `json.dumps` writes with the options of its producer."""
    first = references[0] if references else ""
    compact = {"separators": (",", ":"), "sort_keys": True}
    for name, value, options in (
        ("R4", {"raw": raw, "reference": first}, {"sort_keys": True}),
        ("R5", {"raw": raw, "reference": references}, compact),
        ("R6", {"raw": raw, "reference": references}, {"sort_keys": True}),
        ("R8", {"raw": raw, "reference": first}, {"sort_keys": True, "ensure_ascii": False}),
        ("R9", {"input": raw, "reference": references}, {**compact, "ensure_ascii": False}),
        ("R10", {"raw": raw, "reference": references}, {**compact, "ensure_ascii": False}),
    ):
        assert RECIPES[name](raw, references).decode() == json.dumps(value, **options)


def test_strings_as_json_text() -> None:
    """Every character is spelled as the standard library spells it."""
    for character in map(chr, (*range(0x3000), 0xFFFF, 0x10000, 0x1F600, 0x10FFFF)):
        assert ascii_json(character).decode() == json.dumps(character)
        assert unicode_json(character).decode() == json.dumps(character, ensure_ascii=False)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("generated_by_eee_main_lm_eval_0.3.0.jsonl", {"R4": 10}),
        ("helm_mmlu_0219.jsonl", {"R1": 10}),  # one reference, so R3 is R1
        ("inspect_gaia_a_0210.jsonl", {"R1": 2}),
    ],
)
def test_real_rows(file: str, expected: dict[str, int]) -> None:
    """The hashes of rows of real producers are verified."""
    if not (REAL / file).is_file():
        pytest.skip(f"needs {file}, which is not part of this project")
    finder = RecipeFinder()
    found = {}
    for line in (REAL / file).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        name = finder.find(
            record["input"]["raw"], record["input"]["reference"], record["sample_hash"]
        )
        found[name] = found.get(name, 0) + 1
    assert found == expected


# Texts of few characters, so that recipes agree often, and one reference that imitates the JSON of
# R4.
texts = st.sampled_from(["", "a", "\n", "é", "{", '"', '"raw": "{", "reference": ""}', "\x7f"])
questions = st.tuples(texts, st.lists(texts, max_size=3), st.sampled_from([*RECIPES, "none"]))


def hashed(question: tuple[str, list[str], str]) -> tuple[str, list[str], str]:
    raw, references, name = question
    return raw, references, "0" * 64 if name == "none" else digest(name, raw, references)


@given(st.lists(questions.map(hashed), max_size=5), questions.map(hashed))
@settings(max_examples=examples(36, 600))
def test_a_name_does_not_depend_on_earlier_hashes(history, question) -> None:
    """After any other hashes, the name is that of the first recipe that gives the hash (R1 for one
    reference only).
    """
    finder = RecipeFinder()
    for earlier in history:
        finder.find(*earlier)
    raw, references, wanted = question
    names = [name for name in RECIPES if name != "R1" or len(references) == 1]
    expected = next((name for name in names if digest(name, raw, references) == wanted), None)
    assert finder.find(*question) == expected


def test_a_reference_may_imitate_the_text_of_another_recipe() -> None:
    """Such a question has one name, too, whichever recipe the line before had."""
    raw = "{"
    references = ["", '"raw": "{", "reference": ""}']
    wanted = digest("R4", raw, references)
    assert wanted == digest("R2", raw, references)
    for before in RECIPES:
        finder = RecipeFinder()
        finder.find("x", ["y", "é"], digest(before, "x", ["y", "é"]))
        assert finder.find(raw, references, wanted) == "R2"


def test_one_reference_may_be_a_string() -> None:
    """A reference that is no list counts as a list of one."""
    for name in RECIPES:
        assert RecipeFinder().find("é?", "ü", digest(name, "é?", ["ü"])) is not None


def test_a_hash_without_references_is_not_r1() -> None:
    """R1 hashes a reference, so the hash of an empty list of references is R2.

    An empty reference is R1.
    """
    given = digest("R2", "Q", [])
    for before in RECIPES:
        finder = RecipeFinder()
        finder.find("x", ["y", "é"], digest(before, "x", ["y", "é"]))
        assert finder.find("Q", [], given) == "R2"
        assert finder.find("Q", "", given) == finder.find("Q", [""], given) == "R1"


def test_other_hashes_have_no_recipe() -> None:
    """Other digests, other spellings and other algorithms are not verified."""
    right = digest("R1", "Q", ["A"])
    for wrong in ("", right.upper(), right[:-1], right + "0", "0" * 64, "0" * 32):
        assert RecipeFinder().find("Q", ["A"], wrong) is None


def test_half_of_a_surrogate_pair() -> None:
    """Recipes that escape can hash it; the others cannot, and are no match for anything."""
    raw = "\ud83d"
    references = ["a"]
    for name in ("R4", "R5", "R6"):
        assert RecipeFinder().find(raw, references, digest(name, raw, references)) == name
    passed = sha256(b"\xed\xa0\xbda").hexdigest()
    assert RecipeFinder().find(raw, references, passed) is None


@pytest.mark.parametrize("name", RECIPES)
def test_a_shard_of_one_recipe_takes_one_further_digest_per_record(name: str, monkeypatch) -> None:
    """Besides that of the corpus, one digest per record is enough after the first one.

    None for the corpus' own.
    """
    counted = []

    def counting(text: bytes):
        counted.append(text)
        return sha256(text)

    monkeypatch.setattr(recipes, "sha256", counting)
    finder = RecipeFinder()
    for number in range(50):
        raw = f"Größe {number}?"
        references = ["a", "b"][: 1 + number % 2]
        assert finder.find(raw, references, digest(name, raw, references))
    assert len(counted) <= 50 + 2 * len(RECIPES)


def test_a_wrong_hash_takes_one_digest_per_different_text(monkeypatch) -> None:
    """Recipes that hash the same text are not tried twice."""
    texts: list[bytes] = []
    monkeypatch.setattr(recipes, "sha256", lambda text: texts.append(text) or sha256())
    for raw, references, different in (
        ("a", ["b"], 6),
        ("a", ["b", "c"], 7),
        ("é", ["b"], 8),
        ("\x7f", [], 8),
    ):
        texts.clear()
        assert RecipeFinder().find(raw, references, "0" * 64) is None
        assert len(texts) == len(set(texts)) == different


def test_names_do_not_depend_on_the_order_of_lines() -> None:
    """A judge counts the same recipes for the same lines in any order, for each evaluation and
    model.
    """
    shard = list(lines(Recipe(records=150, seed=2, schema="mixed", warnings=0.1)))
    forwards, backwards = (
        Judge(JudgeSettings(target=NEWEST_SCHEMA.name))
        .judge_chunk(b"\n".join(some), bytearray())
        .count_recipes(Counter())
        for some in (shard, shard[::-1])
    )
    assert forwards == backwards
    assert forwards.total() == 150
    found = {recipe for _, _, recipe in forwards}
    assert {ABSENT, WRONG, "R1", "R2", "R4"} <= found


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_the_recipe_of_a_version_is_in_the_table(schema) -> None:
    """What fastrec computes is one of the recipes."""
    reference = "a" if schema.recipe == "R1" else ["a"]
    assert schema.hashes["sha256"]("Größe", reference) == digest(schema.recipe, "Größe", ["a"])
