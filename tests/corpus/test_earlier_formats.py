"""Corpora of earlier versions: manifests of format 2, which have the SHA-256 of texts, stay readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus.manifest import read_manifest, text_hash
from fastrec.errors import CorpusError
from tests.corpus.earlier_formats import edit_manifest, to_format_2

PART_SIZE = 1 << 15


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    path = tmp_path / "shard.jsonl"
    recipe = Recipe(records=150, seed=5, rejects=0.1, mix="single_turn")
    path.write_bytes(b"".join(line + b"\n" for line in lines(recipe)))
    return path


@pytest.fixture
def new(shards: Path, tmp_path: Path) -> Path:
    """A corpus as this version writes it."""
    fastrec.normalize(shards, tmp_path / "new", part_size=PART_SIZE)
    assert len(list((tmp_path / "new").glob("part-*"))) > 3
    return tmp_path / "new"


@pytest.fixture
def old(shards: Path, tmp_path: Path) -> Path:
    """The same corpus, as earlier versions wrote it."""
    fastrec.normalize(shards, tmp_path / "old", part_size=PART_SIZE)
    to_format_2(tmp_path / "old")
    return tmp_path / "old"


def test_checksums_of_text_have_the_name_of_their_algorithm(old: Path, new: Path) -> None:
    """A manifest of format 2 has SHA-256, one of format 3 has xxh3."""
    for corpus, name, digits in ((old, "text_sha256", 64), (new, "text_xxh3_128", 32)):
        manifest = read_manifest(corpus)
        for found, value in map(text_hash, [manifest, *manifest.parts]):
            assert (found, len(value)) == (name, digits)


def test_verify_checks_the_checksums_of_either_format(old: Path, new: Path) -> None:
    """A sound corpus of either format is OK; a wrong checksum is found by its name."""
    for corpus, name in ((old, "text_sha256"), (new, "text_xxh3_128")):
        assert fastrec.verify(corpus).ok
        edit_manifest(corpus, lambda manifest, name=name: manifest["parts"][1].update({name: "00"}))  # type: ignore[misc]
        assert {problem.kind for problem in fastrec.verify(corpus).problems} == {"manifest.total", f"part.{name}"}


def test_commands_read_either_format(old: Path, new: Path, tmp_path: Path) -> None:
    """Records, statistics and rejected lines are the same; an export names the checksum that the corpus has."""
    assert list(fastrec.cat(old)) == list(fastrec.cat(new))
    assert fastrec.stats(old) == fastrec.stats(new)
    assert fastrec.rejects(old) == fastrec.rejects(new)
    for corpus, name in ((old, "text_sha256"), (new, "text_xxh3_128")):
        output = tmp_path / f"table-{name}"
        fastrec.export(corpus, output, format="csv")
        value = json.loads((corpus / "manifest.json").read_bytes())[name]
        assert json.loads((output / "export.json").read_bytes())[name] == value
        assert f"`{name}` is `{value}`" in (output / "README.md").read_text()


def test_diff_compares_corpora_of_both_formats(old: Path, new: Path) -> None:
    """Without a common checksum all parts are read, and the result is the same."""
    for before, after in ((old, new), (new, old), (old, old)):
        found = fastrec.diff(before, after)
        assert found.counts.unchanged == read_manifest(new).records
        assert (found.counts.changed, found.counts.added, found.counts.removed) == (0, 0, 0)
        assert (found.old.text_sha256, found.old.text_xxh3_128) == (
            read_manifest(before).text_sha256,
            read_manifest(before).text_xxh3_128,
        )


@pytest.mark.parametrize("incremental", [False, True])
def test_a_run_replaces_a_corpus_of_an_earlier_format(old: Path, new: Path, shards: Path, incremental: bool) -> None:
    """With or without kept work, the corpus is replaced, and nothing of the old one is left."""
    fastrec.normalize(shards, old, part_size=PART_SIZE, overwrite=True, incremental=incremental)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == {
        path.name: path.read_bytes() for path in new.iterdir()
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(text_sha256="00"),
        lambda manifest: manifest.pop("text_xxh3_128"),
        lambda manifest: manifest["parts"][0].pop("text_xxh3_128"),
        lambda manifest: manifest["parts"][0].update(text_sha256="00"),
        lambda manifest: (manifest["parts"][0].pop("text_xxh3_128"), manifest["parts"][0].update(text_sha256="00")),
    ],
)
def test_a_manifest_has_one_kind_of_checksum(new: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Both kinds, none, or a part with another kind than the corpus: it is damaged."""
    edit_manifest(new, change)
    with pytest.raises(CorpusError, match=r"is not a manifest: .*expected"):
        read_manifest(new)
