"""`fastrec cat --source` and the sources of answers: each record with the shard and the line it
comes from.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from fastrec.corpus.reader import open_corpus
from fastrec.corpus.sources import Source, read_sources
from fastrec.errors import CorpusError, FastrecError, ShardError, UsageError
from fastrec.limits import Limits, use_limits
from tests.commands.test_cat import records
from tests.normalize.normalizing import Corpus, normalized, write
from tests.running import run_here
from tests.sizes import examples

HOSTILE = '\u202ea\u2028<b>"\\\t\x1b[31m.jsonl'


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of many small parts from three shards that have lines in common; read only."""
    directory = tmp_path_factory.mktemp("sources")
    lines = records(240)
    shards = [
        write(directory / "b.jsonl", [b"", *lines[:120], b"{}"]),
        write(directory / HOSTILE, [*lines[100:200], lines[150]]),
        write(directory / "a.jsonl", lines[50:]),
    ]
    found = normalized(shards, directory / "corpus", part_size=20_000, track_sources=True)
    assert len(found.parts) > 5
    return found


def expected(corpus: Corpus, lines: list[bytes]) -> list[bytes]:
    """The lines of `cat --source`, given those of `cat`.

    `normalized` has checked the sources by brute force.
    """
    sources = dict(zip(corpus.lines, corpus.sources, strict=True))
    begin = '{"source":%s,"line":%d,"record":'
    found = []
    for line in lines:
        source, number = sources[line]
        found.append(
            (begin % (json.dumps(source, ensure_ascii=False), number)).encode() + line + b"}"
        )
    return found


CHOICES: list[dict[str, Any]] = [
    {},
    {"limit": 1},
    {"limit": 101},
    {"evaluation": "sums"},
    {"evaluation": "sums", "model": "org/3", "limit": 7},
    {"model": ["org/1", "org/2"]},
    {"sample_id": 5},
    {"errors": True, "limit": 30},
    {"model": "nobody"},
]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_each_record_has_its_source(corpus: Corpus, choice: dict[str, Any]) -> None:
    """The record is there byte for byte, whatever is chosen."""
    lines = list(fastrec.cat(corpus.path, **choice))
    labelled = list(fastrec.cat(corpus.path, **choice, source=True))
    assert [json.loads(line)["record"] for line in labelled] == [json.loads(line) for line in lines]
    assert labelled == expected(corpus, lines)


@settings(max_examples=examples(7, 80), deadline=None)
@given(st.sampled_from(CHOICES), st.integers(1, 9_000), st.sampled_from([1, 1, 1, 2]))
def test_sources_do_not_depend_on_buffers(
    corpus: Corpus, choice: dict[str, Any], size: int, jobs: int
) -> None:
    """Nor on the number of processes."""
    limits = Limits(skim_bytes=size, small_input=0 if jobs > 1 else Limits().small_input)
    with use_limits(limits):
        found = list(fastrec.cat(corpus.path, **choice, source=True, jobs=jobs))
    assert found == expected(corpus, list(fastrec.cat(corpus.path, **choice)))


def test_some_sources_of_a_part_can_be_read(corpus: Corpus) -> None:
    """By the numbers of the records."""
    part = open_corpus(corpus.path).parts[0]
    records = part.entry.records
    found = [Source(*source) for source in corpus.sources]
    assert list(read_sources(part, range(records))) == found[:records]
    assert list(read_sources(part, range(2, 5))) == found[2:5]
    assert list(read_sources(part, [0, 3, records - 1])) == [found[0], found[3], found[records - 1]]
    with pytest.raises(CorpusError, match="has fewer lines"):
        list(read_sources(part, [records]))


def test_answers_have_their_sources(corpus: Corpus) -> None:
    """Those of all models, or of some."""
    known = {
        line: Source(*source) for line, source in zip(corpus.lines, corpus.sources, strict=True)
    }
    index = open_index(corpus.path)
    answers = [
        answer
        for scope in index.scopes
        for row in index.page(
            Query(evaluation_name=scope.evaluation_name, metric=scope.metric), limit=99
        ).rows
        for models in ((), scope.models[1:2])
        for answer in index.answers(row, models)
    ]
    assert len(answers) > len(corpus.lines)
    assert all(answer.source == known[answer.line] for answer in answers)


def test_answers_of_other_corpora_have_none(corpus: Corpus, tmp_path: Path) -> None:
    """Their sources are None."""
    fastrec.normalize(corpus.path, tmp_path / "corpus")
    index = open_index(tmp_path / "corpus")
    scope = index.scopes[0]
    row = index.page(Query(evaluation_name=scope.evaluation_name, metric=scope.metric)).rows[0]
    assert {answer.source for answer in index.answers(row)} == {None}


def test_a_corpus_without_sources_says_how_to_get_them(corpus: Corpus, tmp_path: Path) -> None:
    """Before anything is printed.

    A corpus made from one with sources has none of its own either.
    """
    summary = fastrec.normalize(corpus.path, tmp_path / "corpus")
    assert summary.line_counts.lines == len(corpus.lines)  # its sources were not read as shards
    with pytest.raises(UsageError, match="normalize --track-sources"):
        next(fastrec.cat(tmp_path / "corpus", source=True))
    result = run_here("cat", "--source", tmp_path / "corpus")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"make it with `normalize --track-sources`" in result.stderr


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


DAMAGE = {
    "missing": (Path.unlink, CorpusError, "is missing"),
    "cut": (cut, ShardError, "truncated|ends"),
    "not compressed": (
        lambda path: path.write_bytes(b'{"source":"a","line":1}\n'),
        FastrecError,
        "fewer lines|zst",
    ),
    "empty": (lambda path: path.write_bytes(b""), FastrecError, "fewer lines|empty"),
    "nonsense": (
        lambda path: path.write_bytes(b"nonsense\n" * 400),
        FastrecError,
        "not the source|zst",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_sources_are_an_error(corpus: Corpus, tmp_path: Path, name: str) -> None:
    """A clear one, from `cat` and for answers."""
    damage, error, message = DAMAGE[name]
    place = Path(shutil.copytree(corpus.path, tmp_path / "corpus"))
    for path in place.glob("*.sources.zst"):
        damage(path)
    with pytest.raises(error, match=message):
        list(fastrec.cat(place, source=True))
    result = run_here("cat", "--source", place)
    assert result.returncode == 3
    assert b"Traceback" not in result.stderr
    index = open_index(place)
    with pytest.raises(error, match=message):
        row = index.page(Query(evaluation_name=index.scopes[0].evaluation_name)).rows[0]
        index.answers(row)
