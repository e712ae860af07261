"""Extractors: what counts in the text of an answer."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.errors import UsageError
from fastrec.scoring.extract import Extract, extractor_of

FENCED = 'So:\n```json\n{"reasoning": "6 x 7", "answer": "42"}\n```'

CASES: list[tuple[Extract | list[Extract], str, str | None]] = [
    ("whole", "  Paris \n", "Paris"),
    ("whole", " \n", None),
    ("number", "first 3, then 1,234.5 in all.", "1,234.5"),
    ("number", "it costs $-7.", "-7"),
    ("number", "5-3", "3"),
    ("number", "x = .5", ".5"),
    ("number", "half: 1/2", "1/2"),
    ("number", "about 3e-5.", "3e-5"),
    ("number", "2else", "2"),
    ("number", "version 1,23", "23"),
    ("number", "none", None),
    ("choice", "The answer is (B).", "B"),
    ("choice", "Answer: c", "C"),
    ("choice", "I considered (A), then chose (D)", "D"),
    ("choice", "**B**", "B"),
    ("choice", "B", "B"),
    ("choice", "B) because of the rest", "B"),
    ("choice", "The final answer is $\\boxed{\\text{C}}$", "C"),
    ("choice", "Answer: a car is fast", None),
    ("choice", "Nothing here.", None),
    ("boxed", "so \\boxed{\\frac{1}{2}} or \\boxed{x^{2}+1}.", "x^{2}+1"),
    ("boxed", "\\boxed 5$", "5"),
    ("boxed", "cut \\boxed{12", "12"),
    ("boxed", "no box", None),
    ({"json": "answer"}, FENCED, "42"),
    ({"json": "answer"}, '{"answer": 42}', "42"),
    ({"json": "answer"}, '{"answer": 0.00001}', "0.00001"),
    ({"json": "answer"}, '{"answer": "first"} and {"answer": "last"}', "last"),
    ({"json": "answer"}, '{"reasoning": "he said "no"", "answer": "yes"\n}', "yes"),
    ({"json": "answer"}, '{"answer": "cut off', "cut off"),
    ({"json": "answer"}, "{'answer': '7'}", "7"),
    ({"json": "answer"}, '{"reasoning": "costs $\\64", "answer": "64"}', "64"),
    ({"json": "answer"}, '{"answer": null}', None),
    ({"json": "answer"}, '{"answer": "18 \\"ducks\\""}', '18 "ducks"'),
    ({"json": "answer"}, "the answer", None),
    ({"first": r"A: (\d+)"}, "A: 1 A: 2", "1"),
    ({"last": r"A: (\d+)"}, "A: 1 A: 2", "2"),
    ({"last": r"A: \d+"}, "A: 1 A: 2", "A: 2"),
    ({"last": r"(x)|(y)"}, "x y", "y"),
    (["boxed", {"json": "answer"}, "number"], "only 5", "5"),
    (["boxed", "number"], "\\boxed{3} of 5", "3"),
]


@pytest.mark.parametrize(("extract", "text", "value"), CASES, ids=str)
def test_extractors(extract: Extract | list[Extract], text: str, value: str | None) -> None:
    assert extractor_of(extract)(text) == value


@given(
    st.dictionaries(st.sampled_from(["reasoning", "n", "answers"]), st.text() | st.integers()),
    st.text(min_size=1).filter(str.strip) | st.integers(),
    st.booleans(),
)
def test_a_field_of_json_is_what_a_json_parser_says(
    fields: dict[str, str | int], answer: str | int, is_fenced: bool
) -> None:
    """The value of a correct object is that of `json`, wherever it stands in the text."""
    document = json.dumps(fields | {"answer": answer}, indent=4)
    text = f"Thus:\n```json\n{document}\n```\n" if is_fenced else document
    assert extractor_of({"json": "answer"})(text) == str(answer).strip()


@given(st.text(alphabet="0123456789,.-/ xA)$", max_size=30))
def test_the_last_number_is_a_number_of_the_text(text: str) -> None:
    value = extractor_of("number")(text)
    assert (value is None) == (re.search(r"\d", text) is None)
    if value is not None:
        assert value in text
        last_digit = max(position for position, sign in enumerate(text) if sign.isdigit())
        assert text.rfind(value) + len(value) - 1 == last_digit


HOSTILE = ["{" * 20_000, '"answer": ' * 3_000, "\\boxed{" * 5_000, "1," * 20_000, "(" * 20_000]


@pytest.mark.parametrize("extract", ["whole", "number", "choice", "boxed", {"json": "answer"}])
@pytest.mark.parametrize("text", HOSTILE, ids=["braces", "keys", "boxes", "digits", "brackets"])
def test_no_text_takes_long(extract: Extract, text: str) -> None:
    """Four times the text takes less than 40 times the time, with a second of grace."""
    extractor = extractor_of(extract)
    started = time.process_time()
    extractor(text)
    once = time.process_time() - started
    extractor(text * 4)
    assert time.process_time() - started < 40 * once + 1


@pytest.mark.parametrize(
    ("extract", "message"),
    [
        ("last", "expected one of whole, number"),
        ({"regex": "x"}, "expected one of whole, number"),
        ({"json": "a", "first": "b"}, "expected one of whole, number"),
        ({"first": "("}, "'(' is not a regular expression of RE2"),
        ([], "an empty list"),
    ],
)
def test_wrong_extractors_are_refused(extract: Extract, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        extractor_of(extract)
