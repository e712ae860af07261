"""`fastrec.open`: a corpus as an object, whose methods are functions, and which opens its files
once.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec import opened
from fastrec.corpus.columns import PartColumns
from fastrec.errors import UsageError
from fastrec.storage.local import LOCAL


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of several parts, with rejected lines."""
    folder = tmp_path_factory.mktemp("opened")
    fastrec.generate(folder / "in", records=150, seed=4, shards=2, rejects=0.1, schema="0.3.0")
    fastrec.normalize(folder / "in", folder / "corpus", part_size=50_000, schema="0.3.0")
    return folder / "corpus"


@pytest.fixture(scope="module")
def night(path: Path) -> Path:
    """The next night: the same corpus without a model."""
    *_, last = fastrec.open(path).models
    fastrec.normalize(path, path.parent / "night", exclude_model=last, schema="0.3.0")
    return path.parent / "night"


def arguments_of(
    path: Path, night: Path, out: Path
) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """For each method, positional and keyword arguments."""
    corpus = fastrec.open(path)
    first, second, *_ = corpus.models
    (question, *_) = corpus.questions(limit=1).evaluations[0].questions
    none: dict[str, Any] = {}
    labels = out / "labels.jsonl"
    labels.write_text("")
    prices = out / "prices.toml"
    prices.write_text('["*"]\ninput = 1\noutput = 2\n')
    return {
        "batches": ((), {"columns": ["model", "score"]}),
        "calibration": ((), {"confidence": "evaluation.score"}),
        "cat": ((), {"model": first}),
        "compare": ((first, second), none),
        "connect": ((), none),
        "corrected": ((), {"labels": labels}),
        "costs": ((), {"prices": prices}),
        "diff": ((night,), none),
        "export": ((out / "exported",), {"format": "csv", "overwrite": True}),
        "items": ((), none),
        "leaderboard": ((), none),
        "overlap": ((), none),
        "questions": ((), {"limit": 3}),
        "read": ((), {"model": first}),
        "rejects": ((), none),
        "report": ((out / "page.html",), {"overwrite": True, "examples": 2}),
        "score": ((), {"rule": "exact", "dry_run": True}),
        "show": ((question.sample_hash,), none),
        "stats": ((), {"wrong": True, "group_by": "model_id"}),
        "table": ((), {"columns": ["model", "score"], "model": second}),
        "trend": ((night,), none),
        "verify": ((), none),
        "view": ((), none),
    }


def comparable(name: str, result: Any) -> Any:
    """What two results of the same call have in common."""
    if name == "view":
        with result:
            return result.address.partition("//")[0]
    if name == "connect":
        return result.sql("select model, avg(score) from answers group by 1 order by 1").fetchall()
    if name == "batches":
        return result.read_all()
    if isinstance(result, Iterator):
        return list(result)
    if hasattr(result, "seconds"):
        result.seconds = 0
    return result


@pytest.mark.parametrize("name", opened.METHODS)
def test_a_method_does_what_its_function_does(
    name: str, path: Path, night: Path, tmp_path: Path
) -> None:
    """It does so with a path, too, and the function with the object."""
    positional, options = arguments_of(path, night, tmp_path)[name]
    corpus = fastrec.open(path)
    function = getattr(fastrec, name)
    found = comparable(name, getattr(corpus, name)(*positional, **options))
    assert found
    assert found == comparable(name, function(path, *positional, **options))
    assert found == comparable(name, function(corpus, *positional, **options))


def test_every_method_is_typed() -> None:
    """The list of methods is that of the class as type checkers see it."""
    (cls,) = [
        one for one in ast.parse(inspect.getsource(opened)).body if isinstance(one, ast.ClassDef)
    ][:1]
    (typed,) = [one for one in cls.body if isinstance(one, ast.If)]
    names = [ast.unparse(one).split(" = ") for one in typed.body]
    assert names == [[name, f"_{name}"] for name in opened.METHODS]


@pytest.mark.parametrize("name", opened.METHODS)
def test_a_method_has_the_parameters_of_its_function(name: str, path: Path) -> None:
    """An editor completes them, and a misspelled one is refused at the call."""
    method = getattr(fastrec.open(path), name)
    function = getattr(fastrec, name)
    parameters = list(inspect.signature(function).parameters.values())
    first = 0 if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL else 1
    assert list(inspect.signature(method).parameters.values()) == parameters[first:]
    assert method.__doc__ == function.__doc__
    required = [one for one in parameters[1:] if one.kind is one.POSITIONAL_OR_KEYWORD]
    keywords = {
        one.name: "x"
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    }
    with pytest.raises(TypeError, match=r"(?i)unexpected keyword argument 'modell'"):
        method(*["m0"] * len(required), **keywords, modell="m0")


def read_files(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> Counter[str]:
    """How often each document of a corpus, and the header of each file of columns, is read during
    an action.
    """
    counts: Counter[str] = Counter()

    def counted(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_and_count(self: Any, path: str, *rest: Any) -> Any:
            counts[Path(path).name] += 1
            return read(self, path, *rest)

        return read_and_count

    with monkeypatch.context() as patch:
        patch.setattr(type(LOCAL), "read_all", counted(type(LOCAL).read_all))
        patch.setattr(PartColumns, "__init__", counted(PartColumns.__init__))
        action()
    return counts


def test_a_corpus_opens_its_files_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of it: manifest, summary, and the header of each file of columns."""
    first, second, *_ = fastrec.open(path).models

    def ask() -> None:
        corpus = fastrec.open(path)
        corpus._repr_html_()
        corpus.stats()
        corpus.stats(wrong=True, group_by="model_id")
        corpus.leaderboard(where="turns>0")
        corpus.questions()
        corpus.compare(first, second, group_by="evaluation_name")
        corpus.columns("score", model=first)
        fastrec.trend([corpus], group_by="model_id")
        corpus.report(tmp_path / "page.html", group_by="model_id")
        list(corpus.lines([0, 5]))
        corpus.rejects()
        corpus.table(columns=["model", "score"], wrong=True)
        corpus.connect().sql("select avg(score) from answers").fetchall()
        # Tasks of other formats read parts.
        corpus.export(tmp_path / "matrix", format="matrix")
        with corpus.view():
            pass

    counts = read_files(monkeypatch, ask)
    parts = len(list(path.glob("*.columns")))
    assert parts > 2
    assert counts == {"manifest.json": 1, "summary.json": 1} | {
        f"part-0000{part}.columns": 1 for part in range(parts)
    }
    corpus = fastrec.open(path)

    def ask_tasks() -> None:
        """Tasks open columns themselves, because they may run in workers."""
        corpus.diff(corpus)
        list(corpus.cat(model="*"))
        corpus.export(tmp_path / "out", format="csv")

    documents = read_files(monkeypatch, ask_tasks)
    assert (documents["manifest.json"], documents["summary.json"]) == (0, 1)
    assert (
        read_files(monkeypatch, lambda: (fastrec.stats(path), fastrec.stats(path)))["summary.json"]
        == 2
    )


def test_filters_and_groups_of_one_call_open_a_corpus_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = read_files(monkeypatch, lambda: fastrec.stats(path, wrong=True, group_by="model_id"))
    assert set(counts.values()) == {1}
    assert counts["manifest.json"] == 1


def test_opening_and_showing_a_corpus_needs_no_numpy(path: Path) -> None:
    """A notebook shows a corpus whenever a cell ends with it, so this takes no time."""
    script = (
        f"import fastrec, sys; fastrec.open({str(path)!r})._repr_html_(); print('numpy' in "
        "sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


def test_what_a_notebook_shows(path: Path) -> None:
    """The models with their results, as `stats` has them without ranks."""
    corpus = fastrec.open(path)
    page = corpus._repr_html_()
    assert all(f"<td>{model}</td>" in page for model in corpus.models)
    rows = corpus.stats(no_ranks=True)._repr_html_()
    assert rows in page
    assert f"{corpus.manifest.records:,} records" in repr(corpus)


def test_what_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a corpus"):
        fastrec.open(tmp_path)
