"""`overlap --by names`: models whose names differ only in spelling, and the map that joins them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.answers.similar_names import similar_pairs, spelling
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

KEPT = "OpenAI/gsm8k-6B"
TWIN = "openai/gsm8k_6b"
THIRD = "gsm8k-6b"
OTHER = "org/big"
DIFFERENT = "lab/Big"
LONELY = "org/small"
APART = "org/Small"
STAR = "org/b*g 2"
MODELS = (KEPT, TWIN, THIRD, OTHER, DIFFERENT, LONELY, APART, STAR, "lab/B*G-2", "unique")


def questions_of(model: str) -> range:
    return {
        KEPT: range(9),
        TWIN: range(2, 8),
        THIRD: range(3),
        OTHER: range(6),
        LONELY: range(3),
    }.get(model, range(5, 9))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twins say the same; DIFFERENT gives one answer that OTHER does not.

    LONELY and APART share no question.
    """
    records: list[Record] = []
    for model in MODELS:
        for number in questions_of(model):
            score = number % 2 if (model, number) != (DIFFERENT, 5) else 0
            error = {"error": "timeout"} if model in (OTHER, DIFFERENT) and number > 5 else {}
            records.append(
                answer("sums", f"q{number}", model, score, text=f"says {score}", **error)
            )
    return make_corpus(tmp_path_factory.mktemp("names"), records)


def test_pairs_by_hand(corpus: Path) -> None:
    """The model with most records keeps its name; three spellings need two lines, never three."""
    found = fastrec.overlap(corpus, by="names").names
    assert found is not None
    assert {
        (one.model_id, one.other_model_id): (one.common, one.same, one.rename) for one in found
    } == {
        (KEPT, TWIN): (6, 6, True),
        (KEPT, THIRD): (3, 3, True),
        (TWIN, THIRD): (1, 1, False),
        (OTHER, DIFFERENT): (1, 0, False),
        (APART, LONELY): (0, 0, False),
        ("lab/B*G-2", STAR): (4, 4, False),
    }


def test_the_printed_lines_are_a_map(corpus: Path, tmp_path: Path) -> None:
    text = run_here("overlap", corpus, "--by", "names").stdout.decode()
    lines = text[text.index("  [models]") :]
    assert tomllib.loads(lines) == {"models": {TWIN: KEPT, THIRD: KEPT}}
    assert f'# "{DIFFERENT}" = "{OTHER}"' in lines
    (tmp_path / "names.toml").write_text(lines)
    fastrec.normalize(corpus, tmp_path / "joined", map=tmp_path / "names.toml")
    models = {
        model.model_id
        for one in fastrec.stats(tmp_path / "joined").evaluations
        for model in one.by_model
    }
    assert models == {*MODELS} - {TWIN, THIRD}


def test_json_csv_and_the_note(corpus: Path) -> None:
    found = json.loads(run_here("overlap", corpus, "--by", "names", "--format", "json").stdout)[
        "names"
    ]
    assert {
        "model_id": KEPT,
        "other_model_id": TWIN,
        "common": 6,
        "same": 6,
        "rename": True,
    } in found
    table = (
        run_here("overlap", corpus, "--by", "names", "--format", "csv").stdout.decode().splitlines()
    )
    assert table[:2] == ["model_id,other_model_id,common,same,rename", f"{KEPT},{TWIN},6,6,true"]
    # not those of two organisations
    note = "4 pairs of models with names that differ only in spelling, such as"
    assert note in run_here("stats", corpus, "--no-ranks").stdout.decode()
    few = (corpus, "--model", KEPT, "--model", OTHER)
    assert "spelling" not in run_here("stats", *few, "--no-ranks").stdout.decode()
    assert "nothing to rename" in run_here("overlap", *few, "--by", "names").stdout.decode()


@given(st.lists(st.text("aA-_ /", max_size=4)))
def test_pairs_are_those_of_naive_code(names: list[str]) -> None:
    alike = {(a, b) for a in names for b in names if a < b and spelling(a) == spelling(b)}
    found = similar_pairs(sorted(set(names)))
    assert {*found} == alike
    assert len(found) == len(alike)
