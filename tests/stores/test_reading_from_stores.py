"""Every command reads corpora and shards in an object store as it does on this machine."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from fastrec.errors import CorpusError, ShardError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.sources.inputs import find_shards
from fastrec.storage.object_store import OBJECT_STORE
from tests.normalize.normalizing import Corpus
from tests.services.s3 import S3, Fault


@pytest.fixture
def corpus(s3: S3, local: Corpus) -> str:
    """The URL of the corpus in the store."""
    for path in local.path.iterdir():
        s3.put(f"corpus/{path.name}", path.read_bytes())
    s3.requests()
    return "s3://bucket/corpus"


def found(*names: str) -> list[str]:
    return [shard.path.removeprefix("s3://bucket/") for shard in find_shards(names)[0]]


def test_urls_of_directories_globs_and_objects(s3: S3) -> None:
    """A directory gives all shards below it that are not hidden, a glob those that match, an object
    itself.
    """
    for key in ("a.jsonl", "b/c.jsonl.gz", "b/d.txt", "b/.e.jsonl", ".f/g.jsonl", "h?.jsonl"):
        s3.put(f"runs/{key}", b"{}\n")
    every = ["runs/a.jsonl", "runs/h?.jsonl", "runs/b/c.jsonl.gz"]
    assert found("s3://bucket/runs") == found("s3://bucket/runs/") == every
    assert found("s3://bucket/runs/*.jsonl") == ["runs/a.jsonl", "runs/h?.jsonl"]
    assert sorted(found("s3://bucket/runs/**")) == sorted([*every, "runs/b/d.txt"])
    assert found("s3://bucket/runs/b/d.txt") == ["runs/b/d.txt"]
    assert found("s3://bucket/runs/h?.jsonl") == ["runs/h?.jsonl"]
    shards, notices = find_shards(["s3://bucket/runs/a.jsonl", "s3://bucket/runs/*.jsonl"])
    assert (len(shards), notices) == (
        2,
        ["s3://bucket/runs/a.jsonl is given more than once: counted once"],
    )
    shards, notices = find_shards(
        ["s3://bucket/runs/a.jsonl", "s3a://bucket/runs/a.jsonl", "s3://bucket/runs/a.jsonl/"]
    )
    assert (len(shards), len(notices)) == (1, 2)


def test_globs_that_end_with_a_slash(s3: S3) -> None:
    """They match only directories."""
    for key in ("a1/x.jsonl", "a2/deep/y.jsonl", "a3.jsonl"):
        s3.put(f"runs/{key}", b"{}\n")
    assert found("s3://bucket/runs/a*/") == ["runs/a1/x.jsonl", "runs/a2/deep/y.jsonl"]
    assert found("s3://bucket/*/a1/") == ["runs/a1/x.jsonl"]


def test_a_glob_makes_no_request_per_object(s3: S3) -> None:
    """A listing says all that is needed, even over several pages; empty objects need no read."""
    for number in range(110):
        s3.put(f"runs/{number:04d}.jsonl", b"")
    s3.requests()
    with s3.pages_of(50):
        assert len(found("s3://bucket/runs/*.jsonl")) == 110
    requests = s3.requests()
    assert len(requests) < 20
    assert len([request for request in requests if "continuation-token" in request]) > 1
    OBJECT_STORE.remove_all("s3://bucket/runs")
    assert s3.objects() == {}


def test_directory_markers(s3: S3) -> None:
    """The empty objects that a store's console creates for folders are not shards.

    Other empty objects are.
    """
    for key in ("", "b.jsonl/", "c/"):
        s3.put(f"runs/{key}", b"")
    s3.put("runs/c/d.jsonl.zst", b"")
    shards, notices = find_shards(["s3://bucket/runs", "s3://bucket/runs/**"])
    assert [shard.path for shard in shards] == ["s3://bucket/runs/c/d.jsonl.zst"]
    assert notices[0] == "s3://bucket/runs/c/d.jsonl.zst is empty, not zstd: it has no lines"


def test_odd_keys(s3: S3) -> None:
    """An object with any key can be found, named and read."""
    keys = [
        "a b",
        "a%20b",
        "a#b",
        "a?b",
        "a+b",
        "ü–日",
        "x[1]",
        "{1}",
        "d//e",
        "*",
        "it's",
        'q"',
        "a&b",
        "\\",
    ]
    for key in keys:
        s3.put(f"odd/{key}.jsonl", f"this is {key}".encode())
    urls = [f"s3://bucket/odd/{key}.jsonl" for key in keys]
    shards, _ = find_shards(urls)
    assert [b"".join(shard.read_text()).decode() for shard in shards] == [
        f"this is {key}" for key in keys
    ]
    assert sorted(shard.path for shard in find_shards(["s3://bucket/odd"])[0]) == sorted(urls)


class Web(http.server.SimpleHTTPRequestHandler):
    """A web server; it sends files named `unsized` without their size."""

    def do_GET(self) -> None:
        """Send a file or a listing."""
        if "unsized" in self.path:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}\n")
        else:
            super().do_GET()

    do_HEAD = do_GET  # noqa: N815 - the names are the library's

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server of a directory with shards."""
    pytest.importorskip("aiohttp")
    (tmp_path / "runs/deep").mkdir(parents=True)
    for name in ("a.jsonl", "deep/b.jsonl"):
        (tmp_path / "runs" / name).write_bytes(b"{}\n")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Web, directory=str(tmp_path))
    ) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_shards_on_the_web(web: str) -> None:
    """A file, a directory that the server lists, and a glob give shards.

    The listing itself is not one.
    """
    every = [f"{web}/runs/a.jsonl", f"{web}/runs/deep/b.jsonl"]
    for name, expected in (
        (every[0], every[:1]),
        (f"{web}/runs/", every),
        (f"{web}/runs/*.jsonl", every[:1]),
    ):
        shards, _ = find_shards([name])
        assert [shard.path for shard in shards] == expected
        assert {b"".join(shard.read_text()) for shard in shards} == {b"{}\n"}


def test_a_web_server_that_does_not_know_ranges(web: str, tmp_path: Path) -> None:
    """It sends the whole file whatever part is asked for."""
    data = bytes(range(256)) * 20
    (tmp_path / "file").write_bytes(data)
    path = f"{web}/file"
    with OBJECT_STORE.open_reader(path) as file:
        assert file.pread(100, 1000) == data[1000:1100]
        assert file.pread(50, 5100) == data[5100:]
    assert OBJECT_STORE.read_range(path, 300, 300) == data[300:600]


def test_an_object_of_unknown_size_is_refused(web: str) -> None:
    """It would be mistaken for an empty object."""
    with pytest.raises(
        UsageError, match=r"unsized\.jsonl: cannot be found: the server does not tell its size"
    ):
        find_shards([f"{web}/unsized.jsonl"])


def test_access_denied(s3: S3) -> None:
    """The error contains the reason of the store."""
    s3.put("a.jsonl", b"{}\n")
    (shard,) = find_shards(["s3://bucket/a.jsonl"])[0]
    s3.fail(Fault("403", "GET"))
    with pytest.raises(ShardError, match=r"s3://bucket/a\.jsonl: cannot be read: Access Denied"):
        list(shard.read())


def test_missing_inputs(s3: S3, tmp_path: Path) -> None:
    """One error lists all inputs that cannot be used."""
    assert s3
    names = [
        "s3://bucket/none.jsonl",
        "s3://bucket/n*.jsonl",
        "s3://no-bucket/x.jsonl",
        str(tmp_path / "none"),
    ]
    with pytest.raises(UsageError, match="some input cannot be used") as caught:
        find_shards(names)
    assert [name in str(caught.value) for name in names] == [True] * 4
    with pytest.raises(UsageError, match="Protocol not known: nothing"):
        find_shards(["nothing://bucket/x"])


def test_a_list_of_shards_may_be_in_a_store(s3: S3) -> None:
    """`files_from` can be a URL."""
    s3.put("runs/a.jsonl", b"{}\n")
    s3.put("list", b"s3://bucket/runs/a.jsonl\n\n")
    shards, _ = find_shards([], files_from="s3://bucket/list")
    assert [shard.path for shard in shards] == ["s3://bucket/runs/a.jsonl"]


def test_a_corpus_gives_the_parts_in_its_manifest(s3: S3, corpus: str, local: Corpus) -> None:
    """The rejects file and files of killed runs are not part of it."""
    s3.put("corpus/part-99999.jsonl.zst", b"left over")
    assert found(corpus) == [f"corpus/{part.name}" for part in local.parts]


def test_a_missing_part_is_reported(s3: S3, corpus: str, local: Corpus) -> None:
    """An incomplete corpus is refused."""
    first = local.parts[0].name
    s3.remove(f"corpus/{first}")
    with pytest.raises(
        CorpusError,
        match=rf"corpus/{first}: this part of a corpus is missing, but listed in manifest\.json",
    ):
        find_shards([corpus])


def test_an_object_is_read_ahead_in_blocks(s3: S3) -> None:
    """The bytes are those that were stored, from any offset; there is one request per block."""
    data = bytes(range(256)) * 3_000
    s3.put("large", data)
    s3.requests()
    limits = Limits(store_block_bytes=100_000)
    with use_limits(limits), OBJECT_STORE.open_reader("s3://bucket/large") as reader:
        for start, size in (
            (0, None),
            (5, 250_000),
            (700_000, None),
            (700_000, 10**6),
            (700_000, 0),
        ):
            reader.seek(start, size)
            wanted = data[start:] if size is None else data[start : start + size]
            assert b"".join(iter(lambda: reader.read(30_000), b"")) == wanted
        assert (
            b"".join(reader.pread(1_000, offset) for offset in range(0, 300_000, 1_000))
            == data[:300_000]
        )
    gets = [request for request in s3.requests() if request.startswith("GET /bucket/large")]
    assert len(gets) < 8 + 3 + 1 + 1 + 12


def test_ranges_of_a_shard_in_a_store(s3: S3) -> None:
    """A range gives the lines that start in it, and reads little else."""
    data = b"".join(b'{"n": %d}\n' % number for number in range(50_000))
    s3.put("large.jsonl", data)
    (shard,) = find_shards(["s3://bucket/large.jsonl"])[0]
    assert b"".join(shard.read_text()) == data
    s3.requests()
    for start, end in ((0, 1_000), (99_000, 300_001), (600_000, None)):
        chunks = [chunk.data for chunk in shard.read(start=start, end=end)]
        first = data.find(b"\n", start - 1) + 1 if start else 0
        last = len(data) if end is None else data.find(b"\n", end - 1) + 1
        assert b"".join(chunks) == data[first:last]
    gets = [request for request in s3.requests() if request.startswith("GET /bucket/large")]
    assert len(gets) < 20


def test_an_object_that_changes_is_refused(s3: S3) -> None:
    """Whether it changes before or while it is read."""
    s3.put("a.jsonl", b'{"a": 1}\n')
    (shard,) = find_shards(["s3://bucket/a.jsonl"])[0]
    s3.put("a.jsonl", b'{"a": 2}\n')
    with pytest.raises(ShardError, match="changed after it was found"):
        list(shard.read())
    (shard,) = find_shards(["s3://bucket/a.jsonl"])[0]
    chunks = shard.read()
    next(chunks)
    s3.put("a.jsonl", b'{"a": 3}\n')
    with pytest.raises(ShardError, match="changed while it was read"):
        list(chunks)


COMMANDS: dict[str, list[str]] = {
    "stats": ["stats", "CORPUS", "--format", "json"],
    "stats of common samples": ["stats", "CORPUS", "--common", "--format", "json"],
    "cat": ["cat", "CORPUS"],
    "cat in a search": ["cat", "CORPUS", "--errors"],
    "verify": ["verify", "CORPUS"],
    "rejects": ["rejects", "CORPUS"],
    "diff": ["diff", "CORPUS", "LOCAL", "--format", "json"],
    "report": ["report", "CORPUS", "-o", "-"],
    "validate": ["validate", "CORPUS", "--format", "json"],
}


TIMES = re.compile(r'"seconds": [0-9.e-]+|in [0-9.]+ m?s, [0-9,.]+ [kMG]B/s')


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_reads_from_a_store(command: list[str], local: Corpus) -> None:
    """Every command prints the same as for a corpus on this machine, except for the name."""
    fake = pytest.importorskip("tests.stores.fake")
    bucket = fake.Bucket()
    for path in local.path.iterdir():
        bucket.put(f"corpus/{path.name}", path.read_bytes())
    check_same_answers(command, "fake://bucket/corpus", local)
    assert [
        request for request in bucket.faults.requests if request.startswith("GET /bucket/corpus/")
    ]


def test_commands_read_from_a_server(corpus: str, local: Corpus) -> None:
    """All of them read through the same functions, so two are enough."""
    for name in ("cat in a search", "report"):
        check_same_answers(COMMANDS[name], corpus, local)


def check_same_answers(command: list[str], corpus: str, local: Corpus) -> None:
    answers = []
    for place in (corpus, str(local.path)):
        named = [{"CORPUS": place, "LOCAL": str(local.path)}.get(word, word) for word in command]
        result = CliRunner().invoke(cli, named)
        printed = result.stdout.replace(place, "corpus").replace(str(local.path), "corpus")
        answers.append((result.exit_code, TIMES.sub("", printed)))
        assert result.stdout
    assert answers[0] == answers[1]


def test_an_export_from_a_store_is_local(corpus: str, local: Corpus, tmp_path: Path) -> None:
    """Tables can only be written to this machine."""
    fastrec.export(corpus, tmp_path / "from-store", format="csv")
    fastrec.export(local.path, tmp_path / "from-here", format="csv")
    assert (tmp_path / "from-store/records.csv").read_bytes() == (
        tmp_path / "from-here/records.csv"
    ).read_bytes()
    with pytest.raises(UsageError, match="tables must be written to a local directory"):
        fastrec.export(corpus, "s3://bucket/tables", format="csv")


def test_verify_finds_damage_in_a_store(s3: S3, corpus: str, local: Corpus) -> None:
    """A changed part, a missing part and a stray file."""
    first, second = (part.name for part in local.parts[:2])
    s3.put(f"corpus/{first}", local.parts[0].read_bytes()[:-1])
    s3.remove(f"corpus/{second}")
    s3.put("corpus/deep/stray.txt", b"")
    problems = {(problem.file, problem.kind) for problem in fastrec.verify(corpus).problems}
    expected = {(first, "file.bytes"), (second, "file.missing"), ("deep/stray.txt", "file.stray")}
    assert expected <= problems


@pytest.mark.usefixtures("short_waits")
def test_temporary_failures_are_retried(s3: S3, corpus: str, local: Corpus) -> None:
    """Requests are retried after a busy server, a server error and a broken connection."""
    for kind in ("503", "500", "reset"):
        s3.fail(Fault(kind, "GET", "/corpus/part-", times=2))
        assert list(fastrec.cat(corpus)) == local.lines


def test_a_signature_follows_the_etag(s3: S3) -> None:
    """It is the same for a listed and for a named object, and for a copy.

    Another content has another one.
    """
    for key, content in (("a", b"{}\n"), ("b", b"[]\n")):
        s3.put(f"runs/{key}.jsonl", content)
    listed = {shard.path: shard.signature for shard in find_shards(["s3://bucket/runs"])[0]}
    named = {path: OBJECT_STORE.signature(path) for path in listed}
    assert listed == named
    assert len(set(named.values())) == 2
    assert not any(signature.endswith("-0") for signature in named.values())
    OBJECT_STORE.copy("s3://bucket/runs/a.jsonl", "s3://bucket/runs/c.jsonl")
    assert OBJECT_STORE.signature("s3://bucket/runs/c.jsonl") == named["s3://bucket/runs/a.jsonl"]
