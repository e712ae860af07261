"""The pages of docs/ that are made from the code, whole or in part: `python -m tests.docs.reference` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fastrec.commands.diff.document import Difference
from fastrec.commands.rejects import Rejects
from fastrec.commands.verify import KINDS, Verification
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.rejects import Entry
from fastrec.judge.codes import ERRORS, WARNINGS, Code
from fastrec.judge.report import LogEntry, Report
from fastrec.normalize.run import NormalizeResult, Plan
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.summary.document import Summary
from fastrec.summary.ranking import Stats
from tests.docs.commands import commands_page
from tests.docs.documents import Struct, cell, fields_table, first_sentence, structs_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_MADE = "<!-- Made from the code by `make docs`: change it there. -->\n\n"

_CODES = """\
# Codes

Codes are part of the interface: none is ever renamed or used for something else. A line that breaks several rules is
counted by the first of its codes, in the order of this page.

## Rejects

Why a line is not in the corpus (`rejects.jsonl.zst`, `fastrec rejects`), or not valid (`fastrec validate`).

{errors}

## Warnings

What is odd about a valid record; `fastrec validate` prints it, and fails for it with `--strict`.

{warnings}

## Problems of a corpus

What `fastrec verify` finds, by kind.

| kind | meaning |
|---|---|
{kinds}
"""

# By title: a document's class, and where it is met.
DOCUMENTS: dict[str, tuple[Struct, str]] = {
    "summary.json": (Summary, "In every corpus. Its JSON Schema ships with the package."),
    "manifest.json": (Manifest, "In every corpus."),
    "rejects.jsonl.zst": (Entry, "In a corpus of which lines were rejected; one object a line, by source and line."),
    "normalize --json": (NormalizeResult, "On standard output."),
    "normalize --dry-run --json": (Plan, "On standard output."),
    "stats --format json": (Stats, "On standard output."),
    "diff --format json": (Difference, "On standard output."),
    "validate --format json": (Report, "On standard output."),
    "validate --json-log": (LogEntry, "In the file that the option names; one object a line."),
    "rejects --format json": (Rejects, "On standard output."),
    "verify --json": (Verification, "On standard output."),
}


def files_page() -> str:
    """Every JSON document, field by field."""
    lines = ["# Files and documents", "", "Every JSON document that fastrec writes, field by field.", ""]
    lines += [f"- [`{title}`](#{_anchor(title)}): {first_sentence(root)}" for title, (root, _) in DOCUMENTS.items()]
    told: dict[Struct, str] = {}
    for title, (root, where) in DOCUMENTS.items():
        lines += ["", f"## {title}", "", f"{first_sentence(root)} {where}", ""]
        told.setdefault(root, _anchor(title))
        new = [struct for struct in structs_of(root) if struct not in told]
        told |= {struct: _anchor(f"{struct.__name__} of {title}") for struct in new}
        lines += fields_table(root, told)
        for struct in new:
            lines += ["", f"### {struct.__name__} of {title}", "", first_sentence(struct), ""]
            lines += fields_table(struct, told)
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def codes_page() -> str:
    """Every code and kind."""
    kinds = [f"| `{kind}` | {cell(meaning)} |" for kind, meaning in KINDS.items()]
    return _CODES.format(errors=_codes(ERRORS), warnings=_codes(WARNINGS), kinds="\n".join(kinds))


def _codes(rows: tuple[Code, ...]) -> str:
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| `{row.code}` | {cell(row.meaning)} |" for row in rows)])


def schema_fields() -> str:
    """The known fields of a record in the order of the normal form, from the schema file."""
    lines = ["| field | type | |", "|---|---|---|"]
    lines += [
        f"| `{path}` | {kind}{', required' * required} | {cell(text)} |" for path, kind, required, text in _walk()
    ]
    return "\n".join(lines)


def _walk(schema: dict[str, Any] | None = None, path: str = "") -> Iterator[tuple[str, str, bool, str]]:
    schema = schema or DEFAULT_SCHEMA.document
    for name, field in schema["properties"].items():
        place = f"{path}{name}"
        items = field.get("items", {})
        yield place, _kind(field), name in schema.get("required", ()), field.get("description", "")
        below = items if "properties" in items else field
        if "properties" in below:
            yield from _walk(below, f"{place}[]." if below is items else f"{place}.")


def _kind(field: dict[str, Any]) -> str:
    if "oneOf" in field:
        return " or ".join(map(_kind, field["oneOf"]))
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    kinds = [f"array of {_kind(field['items'])}s" if kind == "array" and "items" in field else kind for kind in kinds]
    least = f", at least {field['minimum']}" if "minimum" in field else ""
    return " or ".join(kinds) + least


def pages() -> dict[Path, str]:
    """Every page that is made, whole or in part, with the text that it should have."""
    normal_form = DOCS / "normal-form.md"
    return {
        DOCS / "commands.md": _MADE + commands_page(),
        DOCS / "codes.md": _MADE + codes_page(),
        DOCS / "files.md": _MADE + files_page(),
        normal_form: put(normal_form.read_text(), "fields", schema_fields()),
    }


def put(text: str, name: str, block: str) -> str:
    """Put a block between its marks."""
    pattern = rf"(<!-- {name}: made by `make docs` -->\n).*?(\n<!-- /{name} -->)"
    assert re.search(pattern, text, flags=re.DOTALL), f"there are no marks for {name}"
    return re.sub(pattern, lambda match: match[1] + block + match[2], text, flags=re.DOTALL)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
    schema = ROOT / "fastrec" / "summary" / "summary.schema.json"
    schema.write_bytes(msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Summary)), indent=2) + b"\n")
