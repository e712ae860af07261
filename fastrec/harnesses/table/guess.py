"""Propose the command that imports the tables among some files.

1. Look at each file: is it a table, where are its rows, and what may its columns mean?
2. Most tables have the same meaning of columns. Files without these columns are left out.
3. What no column says (the model, the evaluation) comes from the names of files and folders.

The command runs as it is. What was not certain follows, in lines that are comments.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice
from operator import itemgetter
from os.path import commonprefix
from typing import Any, NamedTuple

from fastrec.errors import LogError, ShardError, UsageError, listed, shown
from fastrec.harnesses.recognise import head_of
from fastrec.harnesses.table.columns import (
    BESIDE,
    EMPTY,
    KEY,
    NOTHING,
    TRUTH,
    TableColumns,
    getter,
    option_of,
    paths_in,
)
from fastrec.harnesses.table.rows import is_document, is_table, open_table, read_json
from fastrec.harnesses.values import JsonObject, OptionalText, Texts, as_object, number_of
from fastrec.sources.inputs import AnyFile

_FIRST_ROWS = 100
_MOST_PLACES = 5  # that are tried
_DEEPEST = 3  # where the rows of a document are looked for
_FEW_ROWS = 10  # whose models may all differ
_EXTENSION = r"(?:\.(?:csv|tsv|ssv|jsonl?|parquet))?(?:\.(?:zst|gz|bz2|xz))?$"

# The names that are known, the best first. Only columns whose first values are of the right kind
# are taken. The first four are looked for at the top of a row, the others also in objects.
_NAMES = {
    "evaluation_column": "evaluation evaluation_name benchmark dataset task task_name",
    "model_column": "model model_id model_name model_name_or_path model_test llm generator agent",
    "id_column": "sample_id question_id id doc_id example_id instance_id problem_id session_id qid "
    "pid uid task_id index",
    "error_column": "error",
    "input_column": "input question prompt query instruction problem q",
    "output_column": "output response prediction completion generation model_output "
    "model_response model_outputs answer",
    "reference_column": "reference target gold expected ground_truth correct_answer label "
    "solution answer",
    "choices_column": "choices options",
    "correct_column": "is_correct correct true_false is_resolved resolved ok passed pass success "
    "exact_match acc",
    "score_column": "score rating f1 grade reward",
}
_AT_TOP = tuple(_NAMES)[:4]
_SHARED = _AT_TOP[:2]  # a few values in all rows
_ANSWERS = ("output_column", "correct_column", "score_column")


class _Seen(NamedTuple):
    """A table, and what its columns may mean."""

    weight: int  # the more rows and columns with a meaning, the more it counts
    path: str
    rows: str  # where they are, as `--rows` says it
    cells: list[JsonObject]
    options: Texts  # columns by option

    @property
    def kind(self) -> list[OptionalText]:
        """What tables that one command imports have in common."""
        question = "input_column" if "input_column" in self.options else "id_column"
        answers = "output_column" if {*_ANSWERS[1:]}.isdisjoint(self.options) else ""
        return [self.rows, *map(self.options.get, (question, *_SHARED)), answers]


_by_weight = itemgetter(0)


def guess(paths: Sequence[str], files: Sequence[AnyFile], output: str) -> list[str]:
    """Propose a command, and comments about it."""
    seen = []
    foreign = []
    for file in files:
        try:
            ways = list(_looks_at(file))
        except (LogError, ShardError) as exc:
            if file.is_named:
                raise UsageError(str(exc)) from exc
            ways = []
        if ways:
            seen.append(max(ways, key=_by_weight))
        else:
            foreign.append(file.path)
    if not seen:
        raise UsageError(f"there is no table in {listed(map(shown, paths))}")
    main = max(seen, key=_by_weight)
    options = dict(main.options)
    tables = [table for table in seen if table.kind == main.kind]
    others = [table.path for table in seen if table.kind != main.kind]
    if main.rows:
        options["rows"] = main.rows
    notes = list(_complete(options, tables, paths))
    words = ["fastrec", "import", *paths, "-o", output]
    for name, value in options.items():
        words += [option_of(name), value]
    for kind, left_out in {"tables of another kind": others, "no tables": foreign}.items():
        if left_out:
            notes.append(f"left out, {kind}: {listed(map(shown, left_out))}")
    return [shlex.join(words), *(f"# {note}" for note in notes)]


def _looks_at(file: AnyFile) -> Iterator[_Seen]:
    """The ways to read a file as a table."""
    head = head_of(file.path).lstrip()
    if not file.is_named and not is_table(file.path, head):
        return
    places = [(1, "", "")]
    if head[:1] == b"{" and (b"\n" not in head.strip() or is_document(head)):
        places += nlargest(_MOST_PLACES, _places(read_json(file.path), ""))
    for _, rows, key in places:
        table = open_table(file.path, TableColumns(rows=rows, id_column=key))
        cells = [
            row | table.beside
            for _, row in islice(table.rows, _FIRST_ROWS)
            if isinstance(row, dict)
        ]
        options = _meanings(cells)
        if key:
            options["id_column"] = key
        if cells:
            yield _Seen(len(cells) * len(options), file.path, rows, cells, options)


def _places(value: Any, path: str, depth: int = _DEEPEST) -> Iterator[tuple[int, str, str]]:
    """Where a document may have its rows: their number, their path, and what names their ids."""
    if isinstance(value, list) and path:
        yield len(value), path, ""
    if not isinstance(value, dict) or not depth:
        return
    keys = [{*as_object(member)} for member in value.values()]
    if keys and len(set.intersection(*keys)) > 1:
        yield len(value), path, KEY
        return
    for key, member in value.items():
        if "." not in key:
            yield from _places(member, f"{path}.{key}" if path else key, depth - 1)


def _meanings(rows: Sequence[JsonObject]) -> Texts:
    """What columns may mean, by their names and values."""
    at_top = dict.fromkeys(column for cells in rows for column in cells)
    anywhere = at_top | paths_in(rows)
    options: Texts = {}
    for option, names in _NAMES.items():
        columns = at_top if option in _AT_TOP else anywhere
        by_name = {
            re.sub("[ -]", "_", column.rpartition(".")[2].lstrip(BESIDE).lower()): column
            for column in reversed(columns)
            if option in _SHARED or column[:1] != BESIDE
        }
        for name in names.split():
            column = by_name.get(name, "")
            if column and column not in options.values() and _fits(option, rows, column):
                options[option] = column
                break
    return options


def _fits(option: str, rows: Sequence[JsonObject], column: str) -> bool:
    values = [getter(column, {})(cells) for cells in rows]
    given = [value for value in values if value not in EMPTY]
    if not given:
        return option == "error_column"
    kinds = {value.__class__ for value in given}
    if option == "correct_column":
        return 2 * sum(str(value).strip().lower() in TRUTH for value in given) >= len(given)
    if option == "score_column":
        return all(number_of(value) is not None for value in given)
    if option == "reference_column" and 2 * len(given) < len(values):
        return False  # corrections of a few
    if option in ("choices_column", "output_column", "reference_column"):
        return dict not in kinds
    most = max(_FEW_ROWS, len(given) // 2) if option in _SHARED else len(given)
    return kinds.isdisjoint((dict, list)) and len({*map(str, given)}) <= most


def _complete(options: Texts, tables: Sequence[_Seen], paths: Sequence[str]) -> Iterator[str]:
    """Add what columns do not say, and yield what is not certain."""
    first = tables[0]
    if options.keys().isdisjoint(_ANSWERS) or not first.kind[1]:
        columns = list(dict.fromkeys(column for cells in first.cells for column in cells))
        raise UsageError(
            f"{shown(first.path)}: no columns look like questions or ids, and answers or verdicts; "
            f"its columns are {listed(columns, 30)}"
        )
    if "model_column" not in options:
        options["from_path"] = _pattern([table.path for table in tables])
        yield "--from-path: no column has the model; this takes it from the name of the file"
    if "evaluation_column" in options:
        pass
    elif "{evaluation}" in options.get("from_path", ""):
        yield "{evaluation}: models are in several folders, so these are taken for evaluations"
    else:
        name = paths[0].rstrip("/").rpartition("/")[2]
        options["evaluation"] = re.sub(_EXTENSION, "", name).strip(".*") or "table"
        yield "--evaluation: no column has it; this is the name of the input"
    if "input_column" not in options:
        options["question_by"] = "id"
        yield "--question-by id: no column has the question"
    rows = [cells for table in tables for cells in table.cells]
    columns = [options.get(f"{name}_column", "") for name in ("score", "correct", "error")]
    score_of, verdict_of, error_of = (getter(column, {}) for column in columns)
    numbers = [number_of(score_of(cells)) or 0.0 for cells in rows if score_of(cells) not in EMPTY]
    if numbers and not 0 <= min(numbers) <= max(numbers) <= 1:
        bounds = f"{min(numbers):g} to {max(numbers):g}"
        yield f"the first scores are from {bounds}: --scale LOWEST:HIGHEST declares the range"
    right = (
        cells
        for cells in rows
        if TRUTH.get(str(verdict_of(cells)).lower()) or number_of(score_of(cells))
    )
    if any(str(error_of(cells)).lower() not in NOTHING for cells in right):
        del options["error_column"]
        yield f"{columns[-1]!r} is no --error-column: right answers have one, too"
    read = [getter(column or "", {}) for column in first.kind[1:4]]
    begins = {str([get(table.cells[0]) for get in read]) for table in tables}
    if "model_column" in options and len(begins) < len(tables):
        yield (
            "several files have answers of a model to the same questions: they are repeats, unless "
            "{evaluation} in --from-path, without --evaluation, tells the files apart"
        )
    if options.keys().isdisjoint(_ANSWERS[1:]):
        yield "no column has verdicts: `fastrec score` judges answers by rules"


def _pattern(paths: Sequence[str]) -> str:
    """A pattern of paths in which `{model}` is what differs: the file, or else a folder.

    >>> _pattern(["r/a/output_x.json", "r/a/output_y.json"]), _pattern(["x/t.csv", "y/t.csv"])
    ('output_{model}.json', '{model}/t.csv')
    >>> _pattern(["r/bard/output_bard.json"]), _pattern(["gpt-4.jsonl.gz"])
    ('output_{model}.json', '{model}.jsonl.gz')
    >>> _pattern(["arc/gpt-4.csv", "arc/gpt-5.csv", "gsm/gpt-4.csv", "gsm/gpt-5.csv"])
    '{evaluation}/{model}.csv'
    >>> _pattern(["r/a/1/t.csv", "r/b/1/t.csv"]), _pattern(["r/a/1/t.csv", "r/b/2/t.csv"])
    ('{model}/*/t.csv', '{model}/{trial}/t.csv')
    >>> _pattern(["r/a/t.csv", "r/b/t.csv.gz"])
    '{model}/{trial}'
    """
    parts = [path.split("/") for path in paths]
    stems = [re.sub(_EXTENSION, "", names[-1]) for names in parts]
    extension = parts[0][-1][len(stems[0]) :]
    if len({*stems}) > 1:
        start = _common(stems)
        end = _common(stem[::-1] for stem in stems)[::-1]
        is_between = all(len(stem) > len(start + end) for stem in stems)
        name = f"{start}{{model}}{end}" if is_between else "{model}"
        folder = "{evaluation}/" if 2 * len({*stems}) <= len(stems) else ""
        return folder + name + extension
    depth = min(map(len, parts))
    levels = list(zip(*(names[-depth:] for names in parts), strict=True))
    differing = [number for number, names in enumerate(levels) if len({*names}) > 1]
    if differing:
        pattern = ["*"] * (depth - 1) + parts[0][-1:]
        pattern[differing[-1]] = "{trial}"
        pattern[differing[0]] = "{model}"
        return "/".join(pattern[differing[0] :])
    folder = parts[0][-2] if depth > 1 else ""
    stem = stems[0].replace(folder, "{model}", 1) if folder and folder in stems[0] else "{model}"
    return stem + extension


def _common(names: Iterable[str]) -> str:
    """The beginning that all names share, up to an underscore: models have other separators."""
    start = re.match(r".*_", commonprefix(list(names)))  # noqa: RUF071 - no paths
    return start[0] if start else ""
