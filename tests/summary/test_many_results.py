"""Corpora with many evaluations and models: the summary is written in pieces, and too many results
are refused.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import msgspec
import pytest

import fastrec
from fastrec.corpus.manifest import read_manifest, read_summary
from fastrec.errors import FastrecError
from fastrec.limits import Limits, use_limits
from fastrec.summary.document import Summary
from tests.answers.small import answer, make_corpus


def test_the_summary_is_written_in_pieces(tmp_path: Path) -> None:
    """However many evaluations or models there are, the text is never in memory as a whole."""
    corpus = make_corpus(tmp_path, [answer("exam", "asked", model, 1.0) for model in ("a", "b")])
    found = read_summary(str(corpus), read_manifest(str(corpus)))
    (one,) = found.evaluations
    wide = msgspec.structs.replace(one, by_model=one.by_model * 2_500)
    for evaluations in ([], [one], [one] * 3, [one] * 3_000, [wide]):
        summary = msgspec.structs.replace(found, evaluations=evaluations)
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
        assert summary.to_json() == text
        tracemalloc.start()
        size = sum(map(len, summary.json_pieces()))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size == len(text)
        assert peak < max(3_000_000, size)
    assert Summary.from_json(text).evaluations == [wide]


@pytest.mark.parametrize("names", ["evaluations", "models"])
def test_too_many_results_are_refused(names: str, tmp_path: Path) -> None:
    """The message says what there is too much of, names one, and says what to do.

    Nothing is published.
    """
    by_model = names == "models"
    records = [
        answer("exam" if by_model else f"exam {n}", "asked", f"m{n}" if by_model else "m", 1.0)
        for n in range(5)
    ]
    with use_limits(Limits(most_results=5)):
        make_corpus(tmp_path, records)
    with use_limits(Limits(most_results=4)), pytest.raises(FastrecError) as refused:
        fastrec.normalize(tmp_path / "shard.jsonl", tmp_path / "other", schema="0.3.0")
    assert "more than 4 results, one of which is evaluation exam" in str(refused.value)
    assert "in groups, with --evaluation" in str(refused.value)
    assert not (tmp_path / "other").exists()
