"""The identity of a build: what decides bytes besides the records and the options."""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import fastrec
from fastrec.build import differences, identity, source_digest

PACKAGE = Path(fastrec.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package in another directory, without bytecode."""
    return shutil.copytree(
        PACKAGE, tmp_path / "elsewhere" / "fastrec", ignore=shutil.ignore_patterns("__pycache__")
    )


def test_the_versions_are_those_of_the_installed_packages() -> None:
    """The versions are found without `importlib.metadata`, which is slow, but agree with it."""
    found = identity()
    assert found["jsonschema-rs"] == version("jsonschema-rs")
    assert found["msgspec"] == version("msgspec")
    assert found["Python"] == ".".join(map(str, sys.version_info[:2]))
    assert found["fastrec"].startswith(
        f"{fastrec.__version__} (source {source_digest(PACKAGE)[:12]}"
    )
    assert {"zstd", "zlib"} < set(found)


def test_the_digest_depends_on_the_source_alone(copy: Path) -> None:
    """It is the same in another directory, in a zip file, with bytecode and with files of an
    editor.
    """
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "x.py").write_text("1")
    (copy / ".api.py.swp").write_text("1")
    assert source_digest(copy) == source_digest(PACKAGE)
    archive = copy.parent / "fastrec.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(copy.rglob("*"), reverse=True):
            file.write(path, path.relative_to(copy.parent))
    assert source_digest(zipfile.Path(archive, "fastrec/")) == source_digest(PACKAGE)


@pytest.mark.parametrize("change", ["edited", "renamed", "removed", "schema"])
def test_every_change_of_the_source_changes_the_digest(copy: Path, change: str) -> None:
    """Code and schemas count, by name and content."""
    target = copy / "sorting" / "keys.py"
    if change == "edited":
        target.write_text(target.read_text() + "#")
    elif change == "renamed":
        target.rename(target.with_name("key.py"))
    elif change == "removed":
        target.unlink()
    else:
        schema = next((copy / "schemas" / "files").glob("*.json"))
        schema.write_text(schema.read_text() + " ")
    assert source_digest(copy) != source_digest(PACKAGE)


def test_differences_name_both_sides() -> None:
    """Names that only one side has count as well."""
    here = {"zstd": "1.5.7", "Python": "3.13"}
    assert differences(here, here) == []
    assert differences({"zstd": "1.5.5", "Python": "3.13"}, here) == ["zstd 1.5.5 instead of 1.5.7"]
    assert differences({"zstd": "1.5.7"}, here) == ["Python unknown instead of 3.13"]
