"""What the columns of a table mean: the options of `import`, and a proposal of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fastrec.errors import UsageError, shown
from fastrec.harnesses.metadata import chosen_names
from fastrec.harnesses.values import number_of
from fastrec.toml_file import parse_toml

TRUTH: Final = {
    "true": 1.0,
    "yes": 1.0,
    "1": 1.0,
    "1.0": 1.0,
    "false": 0.0,
    "no": 0.0,
    "0": 0.0,
    "0.0": 0.0,
}
EMPTY: Final = (None, "")  # cells without a value

# The names that `--guess` knows, the best first. Only columns whose first values are of the right
# kind are taken.
_GUESSES: Final = {
    "evaluation_column": "evaluation evaluation_name benchmark dataset task task_name",
    "model_column": "model model_id model_name llm",
    "id_column": "sample_id question_id id doc_id example_id task_id index",
    "input_column": "input question prompt query instruction problem",
    "output_column": "output response prediction completion generation model_output "
    "model_response answer",
    "reference_column": "reference target gold expected ground_truth correct_answer label "
    "solution answer",
    "choices_column": "choices options",
    "correct_column": "is_correct correct ok passed pass exact_match acc",
    "score_column": "score rating f1 grade",
    "error_column": "error",
}
_METRICS: Final = ("correct_column", "score_column")
_NEEDED: Final = (
    ("--evaluation", "--evaluation-column"),
    ("--model", "--model-column"),
    ("--input-column",),
    ("--correct-column", "--score-column"),
)


class TableColumns(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"
):
    """What the columns of a table mean. `score_column` may name several, with commas."""

    evaluation: str = ""
    evaluation_column: str = ""
    model: str = ""
    model_column: str = ""
    id_column: str = ""
    input_column: str = ""
    output_column: str = ""
    reference_column: str = ""
    choices_column: str = ""
    correct_column: str = ""
    score_column: str = ""
    error_column: str = ""
    run: str = ""
    metadata: str = "all"  # the columns without a meaning to keep, as in `chosen_names`

    def check(self) -> None:
        chosen_names(self.metadata)
        given = {_option(name) for name in self.__struct_fields__ if getattr(self, name)}
        if self.output_column:  # answers without verdicts, which `score` can judge
            given.update(map(_option, _METRICS))
        if missing := [" or ".join(either) for either in _NEEDED if given.isdisjoint(either)]:
            raise UsageError(f"a table needs {', '.join(missing)}; --guess proposes them")

    @property
    def metrics(self) -> list[str]:
        return [name for name in (self.correct_column, *self.score_column.split(",")) if name]

    @property
    def named(self) -> list[str]:
        own = [getattr(self, name) for name in _GUESSES if name not in _METRICS]
        return [name for name in (*own, *self.metrics) if name]


def columns_from(document: bytes, path: str) -> TableColumns:
    try:
        return msgspec.convert(parse_toml(document, path, "the columns"), TableColumns)
    except msgspec.ValidationError as exc:
        raise UsageError(f"{shown(path)}: {exc}") from exc


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def proposal(path: str, output: str, rows: Sequence[dict[str, Any]]) -> str:
    """Propose the command line that imports a table, by its first rows."""
    names = [name for cells in rows for name in cells]
    unused = {name.lower().replace(" ", "_"): name for name in reversed(names)}
    words = ["fastrec", "import", path, "-o", output]
    for field, guesses in _GUESSES.items():
        for guess in guesses.split():
            column = unused.get(guess)
            if column is not None and _fits(field, [cells.get(column) for cells in rows]):
                words += [_option(field), unused.pop(guess)]
                break
    for either in _NEEDED:
        if not {*either} & {*words}:
            words += [either[0], "COLUMN" if either[0].endswith("-column") else "NAME"]
    return shlex.join(words)


def _fits(field: str, values: Iterable[Any]) -> bool:
    given = [value for value in values if value not in EMPTY]
    if field == "correct_column":
        return all(str(value).lower() in TRUTH for value in given)
    return field != "score_column" or all(number_of(value) is not None for value in given)
