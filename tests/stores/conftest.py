"""A server for the tests of object stores, and the environment in which s3fs finds it."""

from __future__ import annotations

import asyncio
import importlib.util
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastrec.commands.generate import Recipe, lines
from fastrec.sources.formats import Format
from tests.normalize.normalizing import Corpus, normalized, without_long, write
from tests.services.s3 import S3
from tests.sizes import few_of
from tests.sources.compressing import FORMATS

MISSING = [name for name in ("moto", "s3fs") if importlib.util.find_spec(name) is None]


@pytest.fixture(scope="session")
def server() -> Iterator[S3]:
    """An S3-compatible server."""
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} not installed")
    with S3() as running:
        yield running


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, with an empty bucket and without faults."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.clear()
    return server


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let s3fs and botocore make as many attempts as ever, with a tenth of the time between them."""
    sleep = asyncio.sleep
    hurried = types.SimpleNamespace(
        **{**vars(asyncio), "sleep": lambda seconds: sleep(seconds / 10)}
    )
    for name in ("s3fs.core", "aiobotocore.endpoint"):
        monkeypatch.setattr(pytest.importorskip(name), "asyncio", hurried)


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain shard and some of other formats, with duplicates, conflicts, rejected and blank lines."""
    directory = tmp_path_factory.mktemp("shards")
    recipe = Recipe(
        records=100, seed=17, duplicates=0.1, conflicts=0.05, rejects=0.1, blanks=0.03, text="words"
    )
    every = without_long(lines(recipe))
    formats = [Format.PLAIN, *few_of(FORMATS, 2, "shards in a store")]
    for number, format_ in enumerate(formats):
        write(directory / f"shard-{number}.jsonl", every[number :: len(formats)], format_)
    return directory


@pytest.fixture(scope="session")
def local(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus made from them on this machine, in this process."""
    corpus = normalized(shards, tmp_path_factory.mktemp("local") / "corpus", part_size=50_000)
    assert len(corpus.parts) > 2
    assert min(corpus.line_counts[name] for name in ("duplicates", "rejected", "blank")) > 1
    assert any(corpus.summary["repeats"].values())
    return corpus


@pytest.fixture
def shard(s3: S3, shards: Path) -> str:
    """The URL of a directory with one shard, for tests of anything else: each shard takes some
    requests.
    """
    s3.put("in/shard-0.jsonl", (shards / "shard-0.jsonl").read_bytes())
    s3.requests()
    return "s3://bucket/in"


@pytest.fixture
def inputs(s3: S3, shards: Path) -> str:
    """The URL of the shards in the store."""
    for path in shards.iterdir():
        s3.put(f"in/{path.name}", path.read_bytes())
    s3.requests()
    return "s3://bucket/in"
