"""A phrase is found wherever Python finds it after removing case, and nowhere else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.answers.phrases import _LAST_CASED, needles
from fastrec.errors import UsageError
from tests.answers.small import answer, conversation, make_corpus

TEXTS = st.text(st.sampled_from('asStTßſﬆﬁfFiIİıKkKéÉµμΣσς"\\\n/\x00日 '), max_size=12)


def test_no_character_beyond_the_searched_ones_has_case() -> None:
    assert all(chr(code).casefold() == chr(code) for code in range(_LAST_CASED, sys.maxunicode + 1))


@given(TEXTS.filter(bool), TEXTS, TEXTS)
def test_a_line_with_the_phrase_has_a_needle(phrase: str, before: str, after: str) -> None:
    """Also if the text spells it in capital letters, or with letters that become several without
    case.
    """
    phrase = phrase.casefold()
    spelled, special = needles(phrase)
    for text in (before + phrase + after, before + phrase.upper() + after, before + after):
        line = fastrec.encode(fastrec.decode(json.dumps(answer("e", text, "m", 1)))).lower()
        if phrase in text.casefold():
            assert any(needle in line for needle in (spelled, *special))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two evaluations, with the phrase at the end of long texts, in a list of outputs, and in
    turns.
    """
    long = "word " * 20_000
    records = [
        answer("plain", f"{long} Die GROSSE Frage", "org/a", 1.0),
        answer(
            "plain", "short", "org/a", 1.0, output={"raw": ["one", f"{long}eine große Antwort"]}
        ),
        answer("plain", "short", "org/b", 0.0),
        answer("plain", "neither", "org/b", 0.0, metadata={"grosse": "große"}),
        conversation(
            "talk",
            "asked",
            "org/a",
            1.0,
            [{"role": "user", "content": "große"}, {"role": "assistant", "content": "Große Worte"}],
        ),
        conversation(
            "talk",
            "other",
            "org/a",
            1.0,
            [{"role": "tool", "content": "große"}, {"role": "assistant", "content": "no"}],
        ),
    ]
    return make_corpus(tmp_path_factory.mktemp("phrase"), records)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"Die": (True, 0), "short": (False, 1), "asked": (False, 1)}),
        ({"in_": "input"}, {"Die": (True, 0)}),
        ({"in_": "answers"}, {"short": (False, 1), "asked": (False, 1)}),
        ({"model": "org/b"}, {}),
        ({"evaluation": "talk"}, {"asked": (False, 1)}),
        ({"where": "response.characters<50"}, {"Die": (True, 0), "asked": (False, 1)}),
    ],
)
def test_the_place_is_named(
    corpus: Path, options: dict[str, str], expected: dict[str, tuple[bool, int]]
) -> None:
    """Long texts, lists and turns count.

    Metadata, and what others than the assistant said, do not.
    """
    found = fastrec.questions(corpus, text="GROßE", **options)  # type: ignore[arg-type]
    rows = [one for table in found.evaluations for one in table.questions]
    names = ["Die" if one.input_chars > 50 else one.excerpt for one in rows]
    assert (
        dict(zip(names, [(one.in_input, one.in_answers) for one in rows], strict=True)) == expected
    )


def test_without_a_text_nothing_is_said_about_it(corpus: Path) -> None:
    found = fastrec.questions(corpus)
    assert {
        (one.in_input, one.in_answers) for table in found.evaluations for one in table.questions
    } == {(None, None)}
    assert not any(table.total for table in fastrec.questions(corpus, text="\udc80").evaluations)
    with pytest.raises(UsageError, match="in_ must be one of both, input, answers"):
        fastrec.questions(corpus, text="x", in_="output")  # type: ignore[arg-type]
