"""The files beside this module: tables, and templates of pages, tables and pictures."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

_FOLDER = Path(__file__).parent


def table(name: str) -> dict[str, Any]:
    """A table in TOML or JSON."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return tomllib.loads(text) if name.endswith(".toml") else dict(json.loads(text))


@cache
def template(name: str) -> Any:
    """The macros of a template."""
    environment = Environment(
        autoescape=name.endswith(".html"),
        loader=FileSystemLoader(_FOLDER),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).module
