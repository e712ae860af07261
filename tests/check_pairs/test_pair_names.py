"""`check-pairs`: the names of files and folders, in the layouts of the datastore and in copies of
parts of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastrec.commands.check_pairs.files import place_of
from tests.check_pairs.trees import UUID, Tree, aggregate, codes_of


@pytest.mark.parametrize(
    "uuid",
    [
        UUID.upper(),
        UUID.replace("-4b6e-", "-1b6e-"),
        UUID.replace("-8a3f-", "-ca3f-"),
        UUID.replace("-", ""),
        f"{{{UUID}}}",
        f"{UUID}0",
        "None",
        "1717200000",
        "model_1717200000.5",
        "d41d8cd98f00b204e9800998ecf8427e",
        "samples",
        "_samples",
        "ü\u2028",
    ],
)
def test_file_names(tmp_path: Path, uuid: str) -> None:
    """A UUID of version 4 in lower case; both files of a pair count."""
    tree = Tree(tmp_path)
    path = tree.add(uuid=uuid)
    found = tree.check()
    assert found.codes == {"name.uuid": 2}
    assert found.groups[0].locations[0].source == str(path)
    assert found.pairs == 1


def test_a_mistake_of_early_converters(tmp_path: Path) -> None:
    """`<uuid>_samples.Format.jsonl` is the partner, but has the wrong name."""
    tree = Tree(tmp_path)
    samples = tree.add().with_name(f"{UUID}_samples.jsonl")
    samples.rename(samples.with_name(f"{UUID}_samples.Format.jsonl"))
    assert tree.codes() == {"name.samples": 1}


@pytest.mark.parametrize(
    "name",
    [
        "a:b",
        "a?",
        "a*",
        "a|b",
        'a"b',
        "a<b",
        "a>b",
        "a\\b",
        "a\x01",
        "a\x7f",
        "a.",
        "a ",
        "CON",
        "con.x",
        "Lpt1",
        "aux",
    ],
)
def test_folder_names_are_portable(tmp_path: Path, name: str) -> None:
    """No system refuses them; a folder counts once, however many pairs it has."""
    tree = Tree(tmp_path, "data", "gsm8k", "org", name)
    for number in (1, 2):
        uuid = UUID.replace("00", f"0{number}", 1)
        tree.add(uuid=uuid, stated={"file_path": f"data/gsm8k/org/{name}/{uuid}_samples.jsonl"})
    assert tree.codes() == {"name.portable": 1}


@pytest.mark.parametrize(
    "name", ["model-1.5_b", "Größe", "…", "a b", "console", "com", "lpt10", "nul-l", "~", "#1"]
)
def test_other_folder_names_are_allowed(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path, "data", "gsm8k", "org", name)
    tree.add(stated={"file_path": f"data/gsm8k/org/{name}/{UUID}_samples.jsonl"})
    assert tree.codes() == {}


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """They are reported in a form that can be printed and encoded."""
    tree = Tree(tmp_path, "data", "gsm8k", "org", "m\udcff")
    tree.add()
    found = tree.check()
    assert codes_of(found) == {"name.portable": 1, "pair.file_path": 1}
    assert all(
        group.locations[0].source.encode() and group.message.encode() for group in found.groups
    )


def test_no_folder_is_called_data(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "data", "gsm8k", "data", "model")
    tree.add(stated={"file_path": f"data/gsm8k/data/model/{UUID}_samples.jsonl"})
    assert tree.codes() == {"name.data": 1}
    assert tree.codes("data") == {"name.data": 1}


@pytest.mark.parametrize(
    "folders", [(), ("gsm8k",), ("gsm8k", "org"), ("gsm8k", "org", "model", "v1")]
)
def test_five_components(tmp_path: Path, folders: tuple[str, ...]) -> None:
    """Exactly three folders are below data."""
    tree = Tree(tmp_path, "data", *folders)
    tree.write(aggregate())
    for where in (".", "data"):
        assert tree.codes(where) == {"name.depth": 1}
    if folders:  # then nobody knows that this folder is data
        assert tree.codes(f"data/{folders[0]}") == {}


def test_other_folders_called_data_do_not_matter(tmp_path: Path) -> None:
    """A datastore in /data/, and a copy of a part of one."""
    Tree(tmp_path, "data", "mirror", "data", "gsm8k", "org", "model").add()
    Tree(tmp_path, "data", "mine", "copy", "org", "model").add()
    assert Tree(tmp_path).codes("data/mirror") == {}
    assert Tree(tmp_path).codes("data/mine/copy") == {}


@pytest.mark.parametrize(
    ("folders", "where", "codes"),
    [
        (("copy", "gsm8k", "org", "model"), "copy", {}),
        (("copy", "gsm8k", "org", "model"), "copy/gsm8k/org/model", {}),
        (("copy", "gsm8k", "org", "other"), "copy/gsm8k", {"pair.file_path": 1}),
        (("copy", "gsm8k", "org", "other"), "copy/gsm8k/org/other", {}),
        (("copy", "mmlu", "org", "model"), "copy", {"pair.file_path": 1}),
        (("copy", "mmlu", "org", "model"), "copy/mmlu", {}),
        (("gsm8k",), "gsm8k", {}),
        (("a", "b", "c", "gsm8k", "org", "model"), "a", {}),
    ],
)
def test_copies_of_a_part(
    tmp_path: Path, folders: tuple[str, ...], where: str, codes: dict[str, int]
) -> None:
    """Outside of data, only the names below the checked folder are compared with `file_path`."""
    tree = Tree(tmp_path, *folders)
    tree.add()
    assert tree.codes(where) == codes


def test_the_flat_layout(tmp_path: Path) -> None:
    """`file_path` says where the file is in data, whose folders are not known here."""
    tree = Tree(tmp_path, "flat", "objects", UUID[:2], UUID[2:4])
    tree.add()
    for where in (
        ".",
        "flat",
        "flat/objects",
        f"flat/objects/{UUID[:2]}",
        f"flat/objects/{UUID[:2]}/{UUID[2:4]}",
    ):
        assert tree.codes(where) == {}
    tree.add(stated={"file_path": f"data/gsm8k/model/{UUID}_samples.jsonl"})
    assert tree.codes() == {"pair.file_path": 1}
    tree.add(stated={"file_path": f"flat/objects/{UUID[:2]}/{UUID[2:4]}/{UUID}_samples.jsonl"})
    assert tree.codes() == {"pair.file_path": 1}


def test_a_copy_of_the_flat_layout(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "copy", UUID[:2], UUID[2:4])
    tree.add()
    assert tree.codes("copy") == {}
    assert tree.codes() == {}


@pytest.mark.parametrize(
    "folders",
    [(), (UUID[:2],), ("ff", UUID[2:4]), (UUID[2:4], UUID[:2]), (UUID[:2], UUID[2:4], "a")],
)
def test_the_wrong_folder_of_the_flat_layout(tmp_path: Path, folders: tuple[str, ...]) -> None:
    tree = Tree(tmp_path, "flat", "objects", *folders)
    tree.write(aggregate())
    assert tree.codes() == {"name.flat": 1}


def test_names_of_ignored_files_do_not_matter(tmp_path: Path) -> None:
    """A manifest may be anywhere."""
    tree = Tree(tmp_path)
    tree.add()
    (tmp_path / "data" / "manifest.json").write_text("{}")
    (tmp_path / "con").mkdir()
    (tmp_path / "con" / "manifest.json").write_text("{}")
    found = tree.check()
    assert (found.codes, found.ignored) == ({}, 2)


def test_places_of_urls() -> None:
    """The names of a URL are like those of a path."""
    folder = ["s3:", "", "bucket", "data", "gsm8k", "org", "model"]
    assert place_of(folder, 3).folders == ("gsm8k", "org", "model")
    assert place_of(["s3:", "", "bucket", "a"], 3).layout == "unknown"
