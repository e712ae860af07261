"""Discovering shards: what names stand for, what is skipped, and what is reported."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastrec.errors import UsageError
from fastrec.sources.formats import Format
from fastrec.sources.inputs import find_shards
from tests.sources.compressing import compressed

LINE = b"{}\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A working directory with shards, hidden files and files that are not shards."""
    for name in (
        "data/b.jsonl",
        "data/a.jsonl.zst",
        "data/sub/deep/c.jsonl.gz",
        "data/sub/.hidden.jsonl",
        "data/.cache/d.jsonl",
        "data/notes.txt",
        "data/e.json",
        "other/x.jsonl",
        "empty/readme.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        format_ = {".zst": Format.ZSTD, ".gz": Format.GZIP}.get(path.suffix, Format.PLAIN)
        path.write_bytes(compressed(format_, LINE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*names, **options):
    shards, notices = find_shards(names, **options)
    return [shard.path for shard in shards], notices


IN_DATA = ["data/a.jsonl.zst", "data/b.jsonl", "data/sub/deep/c.jsonl.gz"]


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["data/b.jsonl"], ["data/b.jsonl"]),
        (["other/x.jsonl", "data/b.jsonl"], ["other/x.jsonl", "data/b.jsonl"]),
        (["data/notes.txt"], ["data/notes.txt"]),
        (["data/sub/.hidden.jsonl"], ["data/sub/.hidden.jsonl"]),
        (["data"], IN_DATA),
        (["data/"], IN_DATA),
        (["data/.cache"], ["data/.cache/d.jsonl"]),
        (["*/*.jsonl"], ["data/b.jsonl", "other/x.jsonl"]),
        (["data/**/*.jsonl*"], IN_DATA),
        (["data/**/*.jsonl.gz"], ["data/sub/deep/c.jsonl.gz"]),
        (["da*"], IN_DATA),
        (["data/[ab].*"], ["data/a.jsonl.zst", "data/b.jsonl"]),
    ],
)
def test_names_stand_for_shards(names, expected):
    """Files are taken as named, directories searched, globs expanded as in a shell.

    Hidden files are skipped.
    """
    assert found(*names) == (expected, [])


def test_a_path_that_exists_is_not_a_glob(tree):
    """The name of an existing file may have brackets."""
    for name in ("[b].jsonl", "b.jsonl"):
        (tree / name).write_bytes(LINE)
    assert found("[b].jsonl") == (["[b].jsonl"], [])


def test_shards_have_size_and_format(tree):
    """Discovery finds what planning needs."""
    (shard,), _ = find_shards(["data/a.jsonl.zst"])
    assert (shard.size, shard.format) == ((tree / "data/a.jsonl.zst").stat().st_size, Format.ZSTD)
    assert not shard.stream


def test_links_to_files_are_read_and_links_to_directories_are_not(tree):
    """In a directory, links to files are followed, and links to directories are not."""
    (tree / "linked").mkdir()
    (tree / "linked/x.jsonl").symlink_to(tree / "other/x.jsonl")
    (tree / "linked/loop").symlink_to(tree / "linked")
    (tree / "linked/data.jsonl").symlink_to(tree / "data")
    assert found("linked") == (["linked/x.jsonl"], [])
    (tree / "way").symlink_to(tree / "other")
    assert found("way") == (["way/x.jsonl"], [])


@pytest.mark.parametrize("kind", ["same", "symlink", "hard link", "directory", "spelling"])
def test_a_shard_given_twice_counts_once(tree, kind):
    """One file with two names is one shard, with a notice."""
    second = {"same": "other/x.jsonl", "directory": "other", "spelling": "./other/x.jsonl"}.get(
        kind, "again.jsonl"
    )
    if kind == "symlink":
        (tree / second).symlink_to("other/x.jsonl")
    if kind == "hard link":
        os.link("other/x.jsonl", second)
    paths, notices = found("other/x.jsonl", second)
    assert paths == ["other/x.jsonl"]
    assert len(notices) == 1
    assert notices[0].endswith("counted once")


@pytest.mark.usefixtures("tree")
def test_a_glob_that_matches_a_file_twice_gives_no_notice():
    """`**` matches a directory and its files, which is not a mistake."""
    paths, notices = found("data/**")
    assert sorted(paths) == sorted([*IN_DATA, "data/e.json", "data/notes.txt"])
    assert notices == []


@pytest.mark.parametrize(
    ("name", "format_", "notice"),
    [
        ("x.jsonl.gz", Format.ZSTD, "x.jsonl.gz is zstd by its first bytes: read as zstd"),
        ("x.jsonl", Format.GZIP, "x.jsonl is gzip by its first bytes: read as gzip"),
        (
            "x.jsonl.xz",
            Format.PLAIN,
            "x.jsonl.xz is plain text by its first bytes: read as plain text",
        ),
        ("x.shard", Format.BZ2, None),
        ("x.jsonl.bz2", Format.BZ2, None),
    ],
)
def test_a_wrong_suffix_gives_a_notice(tmp_path, monkeypatch, name, format_, notice):
    """The first bytes decide, with a notice if the name suggests another format."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(compressed(format_, LINE))
    shards, notices = find_shards([name])
    assert notices == ([notice] if notice else [])
    assert [item.data for item in shards[0].read()] == [LINE]


def test_an_empty_file_that_should_be_compressed_gives_a_notice(tmp_path, monkeypatch):
    """An empty file is not zstd: most likely an earlier step failed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.jsonl.zst").touch()
    (tmp_path / "y.jsonl").touch()
    assert found("x.jsonl.zst", "y.jsonl")[1] == ["x.jsonl.zst is empty, not zstd: it has no lines"]


@pytest.mark.parametrize(
    "name", [b"with space.jsonl", b"new\nline.jsonl", b"not-utf8-\xff.jsonl", b"-dash.jsonl"]
)
def test_unusual_names_work(tmp_path, monkeypatch, name):
    """Spaces, line breaks and bytes that are not UTF-8 are found by directory, glob and name, and
    read.
    """
    monkeypatch.chdir(tmp_path)
    path = os.fsdecode(name)
    with open(path, "wb") as file:
        file.write(LINE)
    for given, expected in ((path, path), (".", "./" + path), ("*.jsonl", path)):
        shards, notices = find_shards([given])
        assert ([shard.path for shard in shards], notices) == ([expected], [])
        assert [item.data for item in shards[0].read()] == [LINE]


def test_messages_can_always_be_printed(tmp_path, monkeypatch):
    """A name that is not UTF-8 or spans lines is escaped in notices and errors."""
    monkeypatch.chdir(tmp_path)
    path = os.fsdecode(b"odd\n\xff.jsonl")
    with open(path, "wb") as file:
        file.write(LINE)
    (notice,) = find_shards([path, path])[1]
    assert notice.encode().isascii()
    assert "\n" not in notice
    with pytest.raises(UsageError) as caught:
        find_shards([path + "gone"])
    str(caught.value).encode()


@pytest.mark.usefixtures("tree")
def test_all_missing_inputs_are_reported_at_once():
    """One error lists every missing file, every glob without a match and every directory without
    shards.
    """
    Path("dangling.jsonl").symlink_to("nowhere")
    with pytest.raises(UsageError) as caught:
        find_shards(
            ["gone.jsonl", "data/b.jsonl", "no*thing", "empty", "dangling.jsonl", "also/gone.jsonl"]
        )
    message = str(caught.value)
    for name in ("gone.jsonl", "no*thing", "empty", "dangling.jsonl", "also/gone.jsonl"):
        assert f"  {name}: " in message
    assert "b.jsonl" not in message


def test_a_dangling_link_in_a_directory_is_reported(tree):
    """A missing shard is an error, even if only its directory was named."""
    (tree / "other/gone.jsonl").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"other/gone\.jsonl"):
        find_shards(["other"])


def test_a_directory_that_cannot_be_searched_is_reported(tree, monkeypatch):
    """A directory is read completely or not at all."""
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UsageError, match=r"data/sub/deep.*Permission denied"):
        find_shards([str(tree / "data")])


def test_no_input_is_a_mistake():
    """A call without input is an error, not an empty result."""
    with pytest.raises(UsageError, match="no input"):
        find_shards([])


def test_a_list_has_one_path_per_line(tree):
    """A list adds files, directories and globs to the arguments.

    Blank lines and a missing last newline are fine.
    """
    (tree / "list").write_bytes(b"data/b.jsonl\n\nother\ndata/sub/**/*.gz")
    expected = ["data/a.jsonl.zst", "data/b.jsonl", "other/x.jsonl", "data/sub/deep/c.jsonl.gz"]
    assert found("data/a.jsonl.zst", files_from="list") == (expected, [])


@pytest.mark.usefixtures("tree")
def test_a_list_can_come_from_standard_input(monkeypatch):
    """`-` reads the list from standard input, which then cannot be a shard."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"data/b.jsonl\n")))
    assert found(files_from="-") == (["data/b.jsonl"], [])
    with pytest.raises(UsageError, match="standard input"):
        find_shards(["-"], files_from="-")


@pytest.mark.usefixtures("tree")
def test_lists_that_are_missing_or_empty_are_mistakes():
    """A list that cannot be read is an error with its name, and an empty list is no input."""
    with pytest.raises(UsageError, match=r"gone\.txt.*No such file"):
        find_shards([], files_from="gone.txt")
    with pytest.raises(UsageError, match="no input"):
        find_shards([], files_from=os.devnull)


def test_standard_input_counts_once():
    """A second `-` is the same shard."""
    paths, notices = found("-", "-")
    assert paths == ["-"]
    assert notices == ["- is given more than once: counted once"]


def test_pipes_are_streams(tmp_path):
    """A named pipe is not opened before it is read."""
    path = str(tmp_path / "pipe.jsonl.gz")
    os.mkfifo(path)
    (shard,), notices = find_shards([path])
    assert (shard.stream, shard.format, shard.size, notices) == (True, None, 0, [])


def test_pipes_by_descriptor_are_streams():
    """The /dev/fd/N of a process substitution can be found and read."""
    reading, writing = os.pipe()
    try:
        os.write(writing, compressed(Format.ZSTD, LINE))
        os.close(writing)
        (shard,), _ = find_shards([f"/dev/fd/{reading}"])
        assert [item.data for item in shard.read()] == [LINE]
    finally:
        os.close(reading)
