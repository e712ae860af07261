"""Rules: clean, compare, and files of rules."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.errors import UsageError
from fastrec.scoring.compare import CLEANERS, cleaner_of, number_of
from fastrec.scoring.rules import SHIPPED, Rule, Scorer, read_rules

ISSUE_FILE = """
[[rule]]
name = "json_number"
evaluation = "gsm*"
extract = { json = "answer" }
clean = ["currency", "thousands", "fraction"]
compare = "number"
missing = "wrong"
"""

ZEROEVAL = Path(__file__).parents[3] / "shared" / "logs" / "zeroeval"


@pytest.mark.parametrize(
    ("name", "text", "clean"),
    [
        ("case", "STRASSE Straße", "strasse strasse"),
        ("punctuation", "it's, well-known.", "its wellknown"),
        ("articles", "The cat and a dog", "cat and dog"),
        ("thousands", "1,234,567 and 1,23", "1234567 and 1,23"),
        ("currency", "$5, \\$6, 7 dollars", "5, 6, 7"),
        ("percent", "5% or 6\\%", "5 or 6"),
        ("latex", "$\\text{five} \\left( x \\right)$", "five ( x )"),
        ("fraction", "\\frac{1}{2} \\dfrac34", "1/2 3/4"),
        ("fraction", "1\\frac{1}{2} -3 \\dfrac34 x1\\frac12", "3/2 -15/4 x11/2"),
    ],
)
def test_cleaners(name: str, text: str, clean: str) -> None:
    assert cleaner_of([name])(text) == clean


@given(st.sampled_from(sorted(CLEANERS)), st.text())
def test_what_is_clean_stays_as_it_is(name: str, text: str) -> None:
    """Cleaning twice changes nothing, but for what only the first cleaning brought together."""
    clean = cleaner_of([name, name, name, name])
    once = clean(text)
    assert cleaner_of([name])(once) == once or len(cleaner_of([name])(once)) < len(once)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
def test_numbers_are_exact(above: int, below: int) -> None:
    assert number_of(f"{above}") == above
    quotient = number_of(f"about {above}/{below}")
    assert quotient is not None
    assert abs(Fraction(quotient) - Fraction(above, below)) < Fraction(1, 10**35)


@pytest.mark.parametrize(
    ("rule", "text", "references", "choices", "expected"),
    [
        (SHIPPED["exact"], "The Paris.", ["paris"], [], True),
        (SHIPPED["exact"], "London", ["paris"], [], False),
        (SHIPPED["number"], "in all $1,375.00", ["so 5 x 275.\nA: 1375"], [], True),
        (SHIPPED["number"], "\\boxed{\\frac{1}{2}}", ["0.5"], [], True),
        (SHIPPED["number"], "half is 1/2", ["\\frac{1}{2}"], [], True),
        (SHIPPED["number"], "7", ["8", "7"], [], True),
        (SHIPPED["number"], "It is 1.5e23", ["6.02e23"], [], False),
        (SHIPPED["number"], "It is 6.02E+23", ["602000000000000000000000"], [], True),
        (SHIPPED["number"], "1e-9", ["9"], [], False),
        (SHIPPED["number"], '{"answer": 0.00001}', ["0.00001"], [], True),
        (SHIPPED["number"], "-$5", ["-$5"], [], True),
        (SHIPPED["number"], "\\boxed{1\\frac{1}{2}}", ["1.5"], [], True),
        (SHIPPED["choice"], "The answer is (B)", ["B"], [], True),
        (SHIPPED["choice"], "The answer is (B)", ["Rome"], ["Paris", "Rome"], True),
        (SHIPPED["choice"], "The answer is (A)", ["Rome"], ["Paris", "Rome"], False),
        (SHIPPED["boxed"], "\\boxed{x + 1}", ["x + 1"], [], True),
        (SHIPPED["boxed"], "no box", ["x"], [], False),
        (Rule(name="c", compare="contains", clean=["case"]), "It is PARIS!", ["Paris"], [], True),
        (Rule(name="n", compare="number", tolerance=0.01), "3.145", ["3.14"], [], True),
        (Rule(name="n", compare="number", tolerance=0.001), "3.145", ["3.14"], [], False),
        (Rule(name="n", compare="number"), "word", ["3.14"], [], False),
        (Rule(name="e"), "5", [], [], False),
    ],
    ids=str,
)
def test_verdicts(
    rule: Rule, text: str, references: list[str], choices: list[str], expected: bool
) -> None:
    assert Scorer(rule).score(text, references, choices).is_right is expected


def test_the_file_of_the_documentation_works(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(ISSUE_FILE)
    (rule,) = read_rules(str(path))
    assert rule.name == "json_number"
    assert rule.filters.evaluation == ("gsm*",)
    assert Scorer(rule).score('{"answer": "$1,000"}', ["# 1000"], []).is_right


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected tables [[rule]]"),
        ("rule = 5", "expected tables [[rule]]"),
        ("x = 1\n[[rule]]\nname = 'a'", "expected tables [[rule]]"),
        ("[[rule]]", "rule 1: Object missing required field `name`"),
        (
            "[[rule]]\nname = 'a'\n[[rule]]\nname = 'b'\nclaen = []",
            "rule 2: Object contains unknown",
        ),
        ("[[rule]]\nname = 'a'\nclean = ['soap']", "clean has 'soap': expected case"),
        ("[[rule]]\nname = 'a'\ncompare = 'close'", "Invalid enum value 'close'"),
        ("[[rule]]\nname = 'a'\ntolerance = 0.1", "tolerance is for compare"),
        ("[[rule]]\nname = 'a'\nextract = 'nubmer'", "expected one of whole"),
        ("[[rule]]\nname = 'a'\nwhere = 'x'", "rule 1: "),
    ],
)
def test_wrong_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        read_rules(str(path))


@pytest.mark.skipif(not ZEROEVAL.is_dir(), reason="the logs of ZeroEval are not here")
@pytest.mark.parametrize("model", ["command-r", "gpt-4o-mini-2024-07-18"])
def test_published_accuracies_of_zeroeval_come_out(model: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(ISSUE_FILE)
    scorer = Scorer(read_rules(str(path))[0])
    published = json.loads((ZEROEVAL / "gsm.summary.json").read_text())
    (accuracy,) = [float(row["Acc"]) for row in published if row["Model"] == model]
    rows = json.loads((ZEROEVAL / "gsm" / f"{model}.json").read_text())
    right = sum(scorer.score(row["output"][0], [row["answer"]], []).is_right for row in rows)
    assert round(100 * right / len(rows), 2) == pytest.approx(accuracy, abs=0.011)
