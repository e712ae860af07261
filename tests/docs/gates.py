"""Tables of what gates do, made by running every combination: `python -m tests.docs.gates`.

Each table is between two markers in docs/gates.md.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from fastrec.cli import cli
from fastrec.errors import FastrecError
from tests.docs.diff_gates import but, diff_gates
from tests.docs.reference import DOCS, put
from tests.samples import sample

PAGE: Final = DOCS / "gates.md"

# Lines of the new input and of the old corpus, and the values of --max-rejects, by their names in
# the table. No new corpus equals an old one, so a published one is recognized by its bytes.
_RECORD = json.dumps(sample())
_INVALID = "{}"
_INPUTS: Final = {
    "records": [_RECORD],
    "records and a rejected line": [_RECORD, _INVALID],
    "only a rejected line": [_INVALID],
    "nothing": [""],
}
_OUTPUTS: Final = {
    "nothing": None,
    "records": [_RECORD, _RECORD],
    "no records": [""],
}
_LIMITS: Final = {
    "without `--max-rejects`": [],
    "`--max-rejects 1`": ["--max-rejects", "1"],
    "`--max-rejects 0`": ["--max-rejects", "0"],
    "`--allow-empty`": ["--allow-empty"],
}


def normalize_gates() -> str:
    """The table of `normalize`: what happens for each old output, input and option."""
    with tempfile.TemporaryDirectory(prefix="fastrec-gates-") as folder, contextlib.chdir(folder):
        for number, lines in enumerate(_OUTPUTS.values()):
            if lines is not None:
                Path("old.jsonl").write_text("\n".join(lines))
                assert (
                    _exit_code("normalize", "old.jsonl", "-o", f"old-{number}", "--allow-empty")
                    == 0
                )
        outcomes = {
            (old, overwrite, new): [
                _normalize(f"old-{number}", lines, *overwriting, *limit)
                for limit in _LIMITS.values()
            ]
            for number, old in enumerate(_OUTPUTS)
            for overwrite, overwriting in (("no", []), ("yes", ["--overwrite"]))
            for new, lines in _INPUTS.items()
        }
    outcomes = _merge(_merge(outcomes, 2, list(_INPUTS)), 1, ["no", "yes"])
    outcomes = _by_input(_by_output(outcomes))
    usual, *others = _LIMITS
    rows = [["OUT has", "NEW has", usual, "but"], ["---"] * 4]
    for case, (outcome, *further) in outcomes.items():
        rows.append([*case, outcome, but(outcome, dict(zip(others, further, strict=True)))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


Outcomes = dict[tuple[str, ...], list[str]]
"""What happens in each case, for each value of an option."""


def _merge(outcomes: Outcomes, position: int, values: list[str]) -> Outcomes:
    """Merge cases that differ only at one position, if each value there has the same outcome."""
    merged: Outcomes = {}
    for case, cells in outcomes.items():
        before, after = case[:position], case[position + 1 :]
        same = all(outcomes.get((*before, value, *after)) == cells for value in values)
        merged[*before, "any" if same else case[position], *after] = cells
    return merged


def _by_output(outcomes: Outcomes) -> Outcomes:
    """Name the old output with its option, in one cell, and merge outputs with the same outcome."""
    outputs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (old, overwrite, new), cells in outcomes.items():
        output = f"{old} (`--overwrite`)" if overwrite == "yes" else old
        outputs.setdefault((new, tuple(cells)), []).append(output)
    return {("; ".join(names), new): list(cells) for (new, cells), names in outputs.items()}


def _by_input(outcomes: Outcomes) -> Outcomes:
    """Name inputs that have the same outcome for the same outputs in one cell."""
    inputs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (output, new), cells in outcomes.items():
        inputs.setdefault((output, tuple(cells)), []).append(new)
    return {(output, "; ".join(news)): list(cells) for (output, cells), news in inputs.items()}


def _normalize(old: str, lines: list[str], *options: str) -> str:
    """Normalize some lines where `old` is the old output, if it exists; return what happened."""
    out = Path("out")
    refused = Path("out.refused")
    for path in (out, refused):
        shutil.rmtree(path, ignore_errors=True)
    if Path(old).exists():
        shutil.copytree(old, out)
    Path("new.jsonl").write_text("\n".join(lines))
    code = _exit_code("normalize", "new.jsonl", "-o", "out", *options)
    unchanged = _files(out) == _files(Path(old))
    whole = refused.exists() and _exit_code("verify", str(refused)) == 0
    outcome = {(True, True): "refused", (True, False): "nothing done", (False, False): "published"}[
        unchanged, whole
    ]
    return f"{outcome}, exit {code}"


def _files(directory: Path) -> dict[str, bytes]:
    return (
        {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}
    )


def _exit_code(*arguments: str) -> int:
    """Run a command in this process, and return its exit code."""
    result = CliRunner().invoke(cli, arguments)
    if isinstance(result.exception, FastrecError):
        return result.exception.exit_code
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code


TABLES: Final[dict[str, Callable[[], str]]] = {
    "normalize-gates": normalize_gates,
    "diff-gates": diff_gates,
}
"""The tables of the page by the names of their markers."""


def main() -> None:
    """Update the tables."""
    for name, table in TABLES.items():
        PAGE.write_text(put(PAGE.read_text(), name, table()))


if __name__ == "__main__":
    main()
