"""The templates beside this module, which say what pages, tables and pictures look like."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader


@cache
def template(name: str) -> Any:
    """The macros of a template."""
    environment = Environment(
        autoescape=name.endswith(".html"),
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).module
