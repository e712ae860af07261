"""A part that is not sorted, with a manifest that agrees with it, is noticed by commands that rely on the order."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import xxhash
import zstandard

import fastrec
from fastrec.corpus.manifest import tree_hash
from tests.answers.small import answer, make_corpus
from tests.running import run_here


@pytest.fixture
def unsorted(tmp_path: Path) -> Path:
    """A corpus whose only part has two records in the wrong order, with checksums that fit."""
    records = (answer("exam", f"question {number}", "m", 1.0) for number in range(20))
    corpus = make_corpus(tmp_path, records)
    lines = list(fastrec.cat(corpus))
    lines.append(lines.pop(4))
    text = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
    data = zstandard.compress(text)
    manifest = json.loads((corpus / "manifest.json").read_bytes())
    (part,) = manifest["parts"]
    (corpus / part["file"]).write_bytes(data)
    digest = xxhash.xxh3_128_hexdigest(text)
    part |= {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "text_xxh3_128": digest,
    }
    manifest["text_xxh3_128"] = tree_hash([digest])
    (corpus / "manifest.json").write_text(json.dumps(manifest))
    return corpus


@pytest.mark.parametrize(
    "command",
    [
        ["cat"],
        ["cat", "--model", "m"],
    ],
)
def test_a_part_that_is_not_sorted_is_noticed(
    command: list[str], unsorted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here(command[0], unsorted, *command[1:])
    assert done.returncode in (1, 3)
    assert b"part-00000.jsonl.zst" in done.stderr
    assert b"is not sorted" in done.stderr
