"""The recipes of CONTRIBUTING.md name existing files, and all files that their example needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.docs.reference import ROOT


class Recipe(NamedTuple):
    title: str
    spellings: list[str]
    """How the last example is spelled in code."""
    files: set[str]


def recipes() -> list[Recipe]:
    """The recipes: their title, the spellings of the last example, and all files that they name."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("\n## Recipes\n")[1].split("\n## ")[0]
    found = []
    for recipe in section.split("\n### ")[1:]:
        title, _, body = recipe.partition("\n")
        [line] = re.findall(r"^Last example: (.*)\.$", body, re.MULTILINE)
        name, *spellings = re.findall(r"`([^`]+)`", line)
        files = re.findall(r"`((?:fastrec|tests|docs)/[^`]+|[A-Z]+\.md)`", body)
        found.append(Recipe(title, spellings or [name], set(files)))
    return found


RECIPES: Final = recipes()


def test_the_recipes_are_complete() -> None:
    titles = "harness, finding code, option of `normalize`, filter field, statistic, command"
    assert [recipe.title.removeprefix("A").removeprefix("n").strip() for recipe in RECIPES] == [
        *titles.split(", "),
        "schema version",
    ]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_the_files_of_a_recipe_exist(recipe: Recipe) -> None:
    assert [name for name in recipe.files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_the_last_example_touched_no_other_file(recipe: Recipe) -> None:
    """Where the code spells the example, and nowhere else, there is a line in the recipe."""
    touched = {
        str(path.relative_to(ROOT)) for path in code_files() if spells(path, recipe.spellings)
    }
    assert touched, "the example does not exist any more: name another one"
    assert touched - recipe.files == set()


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_bytes()) <= 20_000


def code_files() -> list[Path]:
    """All files of the package that people write."""
    kinds = (".py", ".toml", ".json", ".css", ".js", ".html")
    files = [path for path in (ROOT / "fastrec").rglob("*") if path.suffix in kinds]
    return [path for path in files if path.name != "summary.schema.json"]


def spells(path: Path, spellings: list[str]) -> bool:
    text = path.read_text()
    return any(spelling in text for spelling in spellings)
