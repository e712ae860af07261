"""Signatures of files, and second names of files, on this machine and in stores."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage.local import LOCAL
from fastrec.storage.object_store import OBJECT_STORE, found_object

TIME = 1_700_000_000_123_456_789


def test_a_signature_changes_with_size_time_and_inode(tmp_path: Path) -> None:
    """It is the same for the same file under another name, and differs after any of these changes."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n")
    os.utime(path, ns=(TIME, TIME))
    first = LOCAL.signature(str(path))
    assert first == f"3-{TIME}-{path.stat().st_ino}"
    renamed = path.rename(tmp_path / "b.jsonl")
    assert LOCAL.signature(str(renamed)) == first
    os.utime(renamed, ns=(TIME, TIME + 1))
    touched = LOCAL.signature(str(renamed))
    path.write_bytes(b"[]\n")
    os.utime(path, ns=(TIME, TIME))
    assert len({first, touched, LOCAL.signature(str(path))}) == 3


def test_a_shard_has_the_signature_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n")
    for shard in (shard_at(str(path)), *find_shards([str(tmp_path)])[0]):
        assert shard.file_id == path.stat().st_ino
        assert shard.signature == LOCAL.signature(str(path))


def test_a_stream_has_no_signature() -> None:
    assert shard_at("-").signature == ""


@pytest.mark.parametrize("storage", [LOCAL, OBJECT_STORE])
def test_a_missing_file_has_no_signature(tmp_path: Path, storage: object) -> None:
    missing = str(tmp_path / "missing") if storage is LOCAL else "memory://signatures/missing"
    with pytest.raises(FileNotFoundError):
        storage.signature(missing)  # type: ignore[attr-defined]


def test_a_store_that_tells_no_version() -> None:
    """The signature has the size only."""
    OBJECT_STORE.write_all("memory://signatures/a.jsonl", b"{}\n")
    assert OBJECT_STORE.signature("memory://signatures/a.jsonl") == "3-0"
    assert shard_at("memory://signatures/a.jsonl").signature == "3-0"


def test_a_link_is_the_same_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"text")
    assert LOCAL.link_or_copy(str(old), str(new))
    assert new.samefile(old)
    assert LOCAL.link_or_copy(str(old), str(new)), "again"
    assert LOCAL.link_or_copy(str(old), str(old)), "its own name"
    assert old.read_bytes() == b"text"


def test_a_link_replaces_another_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"text")
    new.write_bytes(b"other")
    assert LOCAL.link_or_copy(str(old), str(new))
    assert new.samefile(old)


def test_a_link_to_a_symbolic_link_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "symbolic").symlink_to("file")
    (tmp_path / "elsewhere").mkdir()
    assert LOCAL.link_or_copy(str(tmp_path / "symbolic"), str(tmp_path / "elsewhere/new"))
    assert (tmp_path / "elsewhere/new").samefile(tmp_path / "file")


@pytest.mark.parametrize("reason", [errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_a_copy_where_links_are_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """The copy is complete, and replaces another file."""
    data = os.urandom(3 << 20)
    (tmp_path / "old").write_bytes(data)
    (tmp_path / "new").write_bytes(b"other")

    def fail(*_: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", fail)
    assert not LOCAL.link_or_copy(str(tmp_path / "old"), str(tmp_path / "new"))
    assert (tmp_path / "new").read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_a_link_to_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LOCAL.link_or_copy(str(tmp_path / "old"), str(tmp_path / "new"))
    with pytest.raises(FileNotFoundError):
        LOCAL.copy(str(tmp_path / "old"), str(tmp_path / "new"))
    assert not list(tmp_path.iterdir())


def test_a_copy_in_a_store() -> None:
    OBJECT_STORE.write_all("memory://signatures/old", b"text")
    OBJECT_STORE.copy("memory://signatures/old", "memory://signatures/new")
    assert OBJECT_STORE.read_all("memory://signatures/new") == b"text"


def test_the_signature_of_an_unknown_version_ends_with_zero() -> None:
    assert Shard("s3://bucket/a.jsonl", 3, None).signature == "3-0"


@pytest.mark.parametrize(
    ("url", "field", "is_same"),
    [
        ("s3://bucket", "ETag", True),
        ("gs://bucket", "md5Hash", True),
        ("https://host", "ETag", False),
        ("s3://bucket", "LastModified", False),
        ("sftp://host", "mtime", False),
    ],
)
def test_only_versions_that_follow_from_the_content_tell_that_objects_are_copies(
    url: str, field: str, is_same: bool
) -> None:
    """Two objects may be written in the same second; and what a web server says is about one
    address.
    """
    one, other = (found_object(f"{url}/{name}", {"size": 3, field: "x"}) for name in "ab")
    assert (one.version == other.version) is is_same
    assert one == found_object(one.path, {"size": 3, field: "x"})
    assert one.version != found_object(one.path, {"size": 3, field: "y"}).version
