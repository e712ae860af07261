"""Commands are functions, too: each has the name of its command, and parameters with the names of
its options.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

import fastrec
from fastrec.cli import cli, python_name
from fastrec.errors import UsageError
from fastrec.filters import FilterArguments
from fastrec.harnesses.table import TableColumns
from fastrec.normalize.options import NormalizeArguments
from tests.docs.reference import ROOT
from tests.sizes import LONG, covering

ABOUT_PRINTING = {"verbose", "quiet", "no_progress"}
"""Options of the command line that have no counterpart: functions return what commands print."""
NOT_IN_PYTHON = {
    "check-pairs": {"format", "allow_warnings"},  # the latter: the exit code
    "compare": {"format", "full"},
    "import": {"format", "guess", "skip_bad_logs", "strict"},  # the last two: the exit code
    "clean": {"format"},
    "normalize": {"dry_run", "format"},  # prints a plan
    "stats": {"all", "caption", "digits", "format", "raw_cells"},
    "overlap": {"format", "raw_cells"},
    "costs": {"format", "raw_cells"},
    "calibration": {"format", "raw_cells"},
    "corrected": {"format", "raw_cells"},
    "items": {"format", "limit", "raw_cells"},  # limit: of what is printed
    "score": {"format", "raw_cells"},
    "leaderboard": {"caption", "digits", "format", "raw_cells"},
    "view": {"no_browser"},
    "trend": {"format", "raw_cells"},
    "diff": {"format"},
    "questions": {"format", "raw_cells"},
    "rejects": {"format"},
    "show": {"format", "full"},
    "schema": {"list"},  # fastrec.schema_versions()
    "validate": {"format", "strict"},  # strict: the exit code
    "verify": {"format"},
}
NOT_ON_THE_COMMAND_LINE = {
    "progress",
    "notice",
    "others",
}  # others: `trend` has one argument for all corpora
MODELS = ("org-0/*", "org-1/*")  # of generated records
WITHOUT_FUNCTION = {
    "completion",
    "sql",
}  # `fastrec.connect` and `fastrec.table` are for SQL in Python
COMMANDS = [name for name in cli.list_commands(None) if name not in WITHOUT_FUNCTION]  # type: ignore[arg-type]


def options_of(name: str) -> dict[str, click.Parameter]:
    """The arguments and options of a command, by the name that a user types."""
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command
    return {max(one.opts, key=len).lstrip("-").replace("-", "_"): one for one in command.params}


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a function.

    `**options` of `normalize` have the names of `NormalizeArguments`.
    """
    found = dict(inspect.signature(getattr(fastrec, python_name(name))).parameters)
    keyword = inspect.Parameter.KEYWORD_ONLY
    if found.pop("options", None):
        found |= {
            name: inspect.Parameter(name, keyword) for name in get_type_hints(NormalizeArguments)
        }
    if found.pop("table", None):
        found |= inspect.signature(TableColumns).parameters
    if found.pop("filters", None):
        found |= {
            name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in get_type_hints(FilterArguments)
        }
    return {
        key.removesuffix("_"): one for key, one in found.items()
    }  # `from_` is the option --from


@pytest.mark.parametrize("name", COMMANDS)
def test_a_function_has_the_parameters_of_its_command(name: str) -> None:
    """Each command has a function in `fastrec`, whose parameters are named like the options of the
    command.
    """
    assert python_name(name) in fastrec.__all__
    expected = options_of(name).keys() - ABOUT_PRINTING - NOT_IN_PYTHON.get(name, set())
    assert parameters_of(name).keys() - NOT_ON_THE_COMMAND_LINE == expected


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "schema"])
def test_a_misspelled_argument_is_refused_at_the_call(name: str, tmp_path: Path) -> None:
    """Functions that return an iterator refuse it before the first step, too.

    No signature shows internals.
    """
    function = getattr(fastrec, python_name(name))
    assert "limits" not in inspect.signature(function).parameters
    parameters = inspect.signature(function).parameters.values()
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    required = {
        one.name: "x"
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    }
    with pytest.raises(TypeError, match=r"(?i)unexpected keyword argument 'modell'"):
        function(*[str(tmp_path / "none")] * len(positional), **required, modell="org/m")


@pytest.mark.parametrize("name", COMMANDS)
def test_arguments_come_first_and_options_are_keywords(name: str) -> None:
    """Only the arguments of a command and its output are positional."""
    positional = [
        key for key, one in parameters_of(name).items() if one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    arguments = [
        key
        for key, one in options_of(name).items()
        if isinstance(one, click.Argument) or key == "output"
    ]
    assert positional == arguments


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with metrics and rejected lines; read-only."""
    folder = tmp_path_factory.mktemp("interface")
    fastrec.generate(
        folder / "in", records=60, seed=1, shards=1, rejects=0.2, schema="0.3.0", mix="single_turn"
    )
    fastrec.normalize(folder / "in", folder / "corpus", schema="0.3.0")
    return folder / "corpus"


REPEATED = [
    (name, key)
    for name in COMMANDS
    for key, one in options_of(name).items()
    if isinstance(one, click.Option)
    and (one.multiple or key in ("sort_by", "by"))
    and (name, key) not in (("stats", "by"), ("overlap", "by"))
]


def call(name: str, key: str, value: Any, corpus: Path, out: Path) -> Any:
    function = getattr(fastrec, python_name(name))
    if name == "diff":
        return function(corpus, corpus, **{key: value})
    if name == "import":
        return function(ROOT / "corpora" / "logs", out, **{key: value})
    if name == "report":
        return function(corpus, out, overwrite=True, **{key: value})
    if name == "normalize":
        return function(corpus.parent / "in", out, overwrite=True, **{key: value})
    if name == "export":
        return function(corpus, out, overwrite=True, format="csv", **{key: value})
    if name == "compare":
        return function(corpus, *MODELS, **{key: value})
    if name == "show":
        return function(corpus, _record(corpus)["sample_hash"], **{key: value})
    if name == "costs":
        prices = corpus.parent / "prices.toml"
        prices.write_text('["*"]\ninput = 1\noutput = 2\n')
        return function(corpus, prices=prices, **{key: value})
    if name == "calibration":
        return function(corpus, confidence="evaluation.score:1000", **{key: value})
    if name == "corrected":
        labels = corpus.parent / "labels.jsonl"
        labels.write_text("")
        return function(corpus, labels=labels, **{key: value})
    if name == "score":
        return function(corpus, dry_run=True, **{key: value})
    if name == "view":
        with function(corpus, **{key: value}) as opened:
            return str(opened.address).startswith("http://")
    found = function(corpus, **{key: value})
    return list(found) if name == "cat" else found


@cache
def _record(corpus: Path) -> dict[str, Any]:
    return next(
        filter(lambda one: "evaluation_result_id" in one, map(json.loads, fastrec.cat(corpus)))
    )


@cache
def value_for(key: str, corpus: Path) -> str:
    record = _record(corpus)
    (code, *_) = fastrec.rejects(corpus).codes
    values = {
        "evaluation": record["evaluation_name"],
        "model": record["model_id"],
        "hash": record["sample_hash"],
    }
    values |= {"sample_id": str(record["sample_id"]), "code": code, "sort_by": "model_id,sample_id"}
    values |= {"trend": str(corpus), "map": "eee"}
    values |= {"repair": "null,nan_score", "metric": record["evaluation_result_id"]}
    values |= {"where": "input.raw?", "group_by": "model_id"}
    values |= {"wrong_by": record["model_id"], "right_by": "all"}
    values |= {
        "lower_is_better": record["evaluation_name"],
        "primary": f"{record['evaluation_name']}=*",
    }
    values |= {"exclude_evaluation": "none", "exclude_model": "none"}
    questions = corpus.with_name("questions.txt")
    questions.write_text(f"{record['sample_hash']}\n")
    values |= {"questions": str(questions), "flag": "all_right", "rule": "exact"}
    return values.get(key, "evaluation_name,model_id,sample_hash")


COVERING = covering(
    [{"name": hash(name), "key": hash(key)} for name, key in REPEATED], 1, "one or several"
)


@pytest.mark.parametrize(
    ("name", "key"), [one for number, one in enumerate(REPEATED) if LONG or number in COVERING]
)
def test_one_string_or_several(name: str, key: str, corpus: Path, tmp_path: Path) -> None:
    """An option that can be repeated takes a string or a list of strings in Python.

    `make test` tries each command and each option, `make test-long` each option of each command.
    """
    value = "acc*" if name == "import" else value_for(key, corpus)
    several = value.split(",") if key in ("by", "repair", "sort_by") else [value]
    one, listed = (call(name, key, given, corpus, tmp_path / "out") for given in (value, several))
    if name in ("diff", "export", "validate"):
        one.seconds = listed.seconds
    assert one == listed
    assert one or (name, key) == ("cat", "metric")  # this corpus has no metrics


@pytest.mark.parametrize(("name", "key"), REPEATED)
def test_neither_a_string_nor_several(name: str, key: str, corpus: Path, tmp_path: Path) -> None:
    """Anything else is refused."""
    for wrong, shown in ((7.5, "7.5"), (["x", 7.5], "7.5"), (None, "None"), (b"x", "b'x'")):
        with pytest.raises(
            UsageError, match=f"{key} must be a string or a list of strings, not {shown}"
        ):
            call(name, key, wrong, corpus, tmp_path / "out")


def test_repeated_options_are_covered() -> None:
    """The filters of all commands are known to the test above."""
    assert {
        ("cat", "model"),
        ("stats", "model"),
        ("rejects", "code"),
        ("diff", "allow_missing"),
    } <= set(REPEATED)
    assert ("normalize", "sort_by") in REPEATED


def test_report_and_rejects_are_functions(corpus: Path, tmp_path: Path) -> None:
    """They do what their commands do."""
    size = fastrec.report(corpus, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size == size
    found = fastrec.rejects(corpus, extract=tmp_path / "lines.jsonl")
    assert found.lines == (tmp_path / "lines.jsonl").read_bytes().count(b"\n") + len(
        found.truncated
    )
    assert isinstance(found, fastrec.Rejects)
    with pytest.raises(UsageError, match="exists; choose a new file"):
        fastrec.rejects(corpus, extract=tmp_path / "lines.jsonl")
    assert json.loads(fastrec.schema())["$schema"]
