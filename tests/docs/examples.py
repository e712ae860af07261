"""Examples of the normal form: what comes in, what comes out, and what is said about it.

    - {"score": …}      fields of a record, as they came; the other fields are those of a sample
    + {"score": …}      the same fields in normal form
    ! code path: …      an error or a warning, if there is any

A line that is no JSON object stands for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

import fastrec
from tests.samples import sample


class Example(NamedTuple):
    given: str
    normal: str
    findings: list[str]


def examples_of(text: str) -> Iterator[Example]:
    """The examples of a block: each begins with a line of `-`."""
    for chunk in text.split("- ", 1)[1].split("\n- "):
        given, *rest = chunk.strip("\n").split("\n")
        assert all(line.startswith(("+ ", "! ")) for line in rest), chunk
        normal = [line[2:] for line in rest if line.startswith("+ ")]
        yield Example(given, normal[0] if normal else "", [line[2:] for line in rest if line.startswith("! ")])


def check_example(example: Example) -> None:
    """See that the judge says what the page says."""
    line, names = whole_line(example.given)
    verdict = fastrec.judge(line)
    found = [f"{finding.code} {finding.path}: {finding.message}" for finding in verdict.errors + verdict.warnings]
    assert found == example.findings, line
    assert verdict.valid is bool(example.normal)
    if verdict.valid:
        names |= json.loads(example.normal).keys()
        fields = msgspec.json.decode(verdict.normal, type=dict[str, msgspec.Raw])
        shown = [f'"{name}":{bytes(raw).decode()}' for name, raw in fields.items() if name in names]
        assert "{" + ",".join(shown) + "}" == example.normal


def whole_line(given: str) -> tuple[str, set[str]]:
    """Fields of a record with all the others that it needs, and the names of those given."""
    try:
        fields = json.loads(given)  # takes what the judge does not: NaN, twice the same key
    except ValueError:
        return given, set()
    kind = fields.get("interaction_type", "single_turn")
    others = sample(kind if kind in ("single_turn", "multi_turn", "agentic") else "single_turn")
    rest = {name: value for name, value in others.items() if name not in {*fields, "sample_hash"}}
    return given[:-1] + ", " + json.dumps(rest)[1:], set(fields)
