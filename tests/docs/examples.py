"""Examples of the normal form in `diff` blocks: input, normal form and findings.

    - {"score": …}      some fields of the input; a sample record provides the others
    + {"score": …}      the same fields in normal form
    ! code path: …      an error or a warning

Input that is not a JSON object is used as it is.
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
    """The examples of a block; each starts with a `-` line."""
    for chunk in text.split("- ", 1)[1].split("\n- "):
        given, *rest = chunk.strip("\n").split("\n")
        assert all(line.startswith(("+ ", "! ")) for line in rest), chunk
        normal = [line[2:] for line in rest if line.startswith("+ ")]
        yield Example(
            given, normal[0] if normal else "", [line[2:] for line in rest if line.startswith("! ")]
        )


def check_example(example: Example) -> None:
    """Check that the judge finds what the page says."""
    assert judged(example) == example


def judged(example: Example) -> Example:
    """The example with the findings and the normal form of the judge."""
    line, names = whole_line(example.given)
    verdict = fastrec.judge(line)
    findings = [
        f"{finding.code} {finding.path}: {finding.message}"
        for finding in verdict.errors + verdict.warnings
    ]
    if not verdict.valid:
        return Example(example.given, "", findings)
    names |= json.loads(example.normal or "{}").keys()
    fields = msgspec.json.decode(verdict.normal, type=dict[str, msgspec.Raw])
    shown = [f'"{name}":{bytes(raw).decode()}' for name, raw in fields.items() if name in names]
    return Example(example.given, "{" + ",".join(shown) + "}", findings)


def updated_examples(text: str) -> str:
    """A block of examples as the judge sees them now."""
    lines = []
    for example in map(judged, examples_of(text)):
        lines += [f"- {example.given}", *([f"+ {example.normal}"] if example.normal else [])]
        lines += [f"! {finding}" for finding in example.findings]
    return "\n".join(lines) + "\n"


def whole_line(given: str) -> tuple[str, set[str]]:
    """A complete line with the given fields, and their names."""
    try:
        fields = json.loads(given)  # accepts NaN and duplicate keys, unlike the judge
    except ValueError:
        return given, set()
    kind = fields.get("interaction_type", "single_turn")
    others = sample(kind if kind in ("single_turn", "multi_turn", "agentic") else "single_turn")
    rest = {name: value for name, value in others.items() if name not in {*fields, "sample_hash"}}
    return given[:-1] + ", " + json.dumps(rest)[1:], set(fields)
