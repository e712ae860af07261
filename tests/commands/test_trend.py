"""Models over several corpora: values, changes that are more than chance, tables, and errors."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import fsspec
import pytest

import fastrec
from fastrec.errors import CorpusError, ShardError, UsageError
from fastrec.trends import find_corpora
from tests.running import run_command, run_here
from tests.samples import question, sample, sample_of

HOSTILE = "</script><b>\u202e\x1b[31m\u2028=1+1"

# Of each night, what each model made of each question: right, wrong, an error, or no record.
NIGHTS = {
    "night-9": {"steady": "++++++++++++----", "falls": "++++++++++++++++"},
    "night-10": {"steady": "++++++++++++---+", "falls": "++------------!+", "new": "!!"},
    "night-11": {"steady": "+++++++++++ ---+", "new": "+-"},
    "night-12": {"steady": "+++++++++++ ---+", "falls": "++------------+-", "new": "++"},
}


def record(model: str, number: int, mark: str, **changes: Any) -> dict[str, Any]:
    return sample(
        model_id=model,
        sample_id=number,
        input=question(number),
        error="timeout" if mark == "!" else None,
        evaluation={"score": float(mark == "+"), "is_correct": mark == "+"},
        **changes,
    )


def make_corpus(path: Path, records: list[dict[str, Any]], **options: Any) -> Path:
    shard = path.with_name(path.name + ".jsonl")
    shard.write_text("".join(json.dumps(one) + "\n" for one in records))
    fastrec.normalize(shard, path, **options)
    shard.unlink()
    return path


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of nights, and of other things; read-only."""
    folder = tmp_path_factory.mktemp("trend") / "nights"
    (folder / "not-a-corpus").mkdir(parents=True)
    (folder / "a-file").touch()
    for name, models in NIGHTS.items():
        lines = [
            record(model, number, mark)
            for model, marks in models.items()
            for number, mark in enumerate(marks)
            if mark != " "
        ]
        make_corpus(folder / name, lines)
    return folder


def test_values_and_changes(nights: Path) -> None:
    """Values are those of the summaries.

    Changes are those of questions that were answered in both corpora.
    """
    found = fastrec.trend(nights)
    assert [night.name for night in found.corpora] == list(NIGHTS)  # numbers by value
    (evaluation,) = found.evaluations
    assert (evaluation.title, evaluation.graded, found.p) == ("arithmetic", False, 0.05)
    models = {model.model_id: model for model in evaluation.models}
    assert list(models) == ["falls", "new", "steady"]
    for name, model in models.items():
        for point in model.points:
            marks = NIGHTS[point.corpus][name].replace(" ", "")
            answers = [mark == "+" for mark in marks if mark != "!"]
            assert (point.records, point.errors, point.questions) == (
                len(marks),
                marks.count("!"),
                len(answers),
            )
            assert point.value == (pytest.approx(fmean(answers)) if answers else None)
    first, over_a_gap = models["falls"].changes
    assert (first.before, first.after, first.questions, first.better, first.worse) == (
        "night-9",
        "night-10",
        15,
        0,
        12,
    )
    assert (first.old, first.new) == (1.0, 0.2)
    assert first.difference == pytest.approx(-0.8)
    assert (first.test, first.p, first.significant) == ("mcnemar", 2 / 2**12, True)
    assert (over_a_gap.before, over_a_gap.after) == ("night-10", "night-12")
    assert (over_a_gap.questions, over_a_gap.worse, over_a_gap.p) == (15, 1, 1.0)
    assert [(change.before, change.after) for change in models["new"].changes] == [
        ("night-11", "night-12")
    ]
    assert found.comparisons == 2 + 1 + 3
    assert first.p_adjusted == pytest.approx(6 * first.p)


def test_line_counts_and_models_that_come_and_go(nights: Path) -> None:
    """Each corpus has its line counts, and the models that the corpus before has not, and the other
    way round.
    """
    found = fastrec.trend(nights)
    for night in found.corpora:
        summary = json.loads((nights / night.name / "summary.json").read_bytes())
        assert (
            fastrec.Summary.from_json(json.dumps(summary).encode()).line_counts == night.line_counts
        )
    assert [night.appeared for night in found.corpora] == [[], ["new"], [], ["falls"]]
    assert [night.disappeared for night in found.corpora] == [[], [], ["falls"], []]
    steady = fastrec.trend(nights, model="steady")
    assert [(night.models, night.appeared, night.disappeared) for night in steady.corpora] == [
        (1, [], [])
    ] * 4


def test_paths_and_filters(nights: Path) -> None:
    """Corpora are taken in the order of paths; filters choose what is shown and compared."""
    paths = [nights / name for name in ("night-12", "night-9")]
    found = fastrec.trend(paths, model=["st*", "falls"], exclude_model="f*", evaluation="arith*")
    assert [night.name for night in found.corpora] == ["night-12", "night-9"]
    assert [model.model_id for one in found.evaluations for model in one.models] == ["steady"]
    assert found.comparisons == 1
    one = fastrec.trend(str(nights / "night-9"))
    assert (len(one.corpora), one.comparisons) == (1, 0)
    with pytest.raises(UsageError, match=r"no model matches 'x'; available: falls, new, steady"):
        fastrec.trend(nights, model="x")
    with pytest.raises(UsageError, match=r"no evaluation matches 'x'; available: arithmetic"):
        fastrec.trend(nights, evaluation="x")
    with pytest.raises(UsageError, match="night-9 is given twice"):
        fastrec.trend([nights, nights / "night-9"])
    with pytest.raises(UsageError, match="p must be between 0 and 1, not 2"):
        fastrec.trend(nights, p=2)
    with pytest.raises(UsageError, match="name at least one corpus"):
        fastrec.trend([])


def test_conditions_choose_records(nights: Path) -> None:
    """The values are those of the matching records; the line counts stay those of the corpora."""
    paths = [nights / "night-9", nights / "night-10"]
    found = fastrec.trend(paths, where=["sample_id<4", "model_id=falls"])
    assert [corpus.path for corpus in found.corpora] == list(map(str, paths))
    assert [corpus.line_counts for corpus in found.corpora] == [
        one.line_counts for one in fastrec.trend(paths).corpora
    ]
    (model,) = found.evaluations[0].models
    assert [(point.corpus, point.records, point.value) for point in model.points] == [
        ("night-9", 4, 1.0),
        ("night-10", 4, 0.5),
    ]
    assert (model.changes[0].questions, model.changes[0].worse) == (4, 2)
    assert [one.models for one in fastrec.trend(paths, where="model_id=new").corpora] == [0, 1]
    same = fastrec.trend(paths, model="falls", sample_id=range(4))
    assert (
        same.evaluations
        == fastrec.trend(paths, where=["sample_id>=0", "sample_id<4"], model="falls").evaluations
    )


def test_wrong_conditions(nights: Path) -> None:
    for condition, said in (("nonsense", "is not a condition"), ("sample_idd=3", "no record has the field sample_idd"),
                            ("sample_id=77", "no record matches --where sample_id=77")):  # fmt: skip
        done = run_here("trend", nights, "--where", condition)
        assert done.returncode == 2
        assert said in done.stderr.decode()


def test_names_of_corpora(nights: Path, tmp_path: Path) -> None:
    """Corpora with one name are told apart by their paths."""
    shutil.copytree(nights / "night-9", tmp_path / "night-9")
    found, _ = find_corpora(
        [str(nights / "night-9"), str(tmp_path / "night-9"), str(nights / "night-10")]
    )
    assert [name for name, _ in found] == [
        str(nights / "night-9"),
        str(tmp_path / "night-9"),
        "night-10",
    ]


def test_a_metric_that_becomes_graded(tmp_path: Path) -> None:
    """If a metric has scores other than 0 and 1 in any corpus, scores are compared in all."""
    for night, scores in {"a": (0, 1, 1), "b": (0.5, 1, 1)}.items():
        records = [
            sample_of(
                "0.3.0",
                evaluation_result_id="f1",
                sample_id=str(number),
                input={"raw": str(number), "reference": ["x"]},
                evaluation={"score": score, "is_correct": False},
                error=None,
            )
            for number, score in enumerate(scores)
        ]
        make_corpus(tmp_path / night, records, schema="0.3.0")
    (evaluation,) = fastrec.trend([tmp_path / "a", tmp_path / "b"]).evaluations
    (model,) = evaluation.models
    assert (evaluation.graded, evaluation.metric) == (True, "f1")
    assert [point.value for point in model.points] == pytest.approx([2 / 3, 2.5 / 3])
    (change,) = model.changes
    assert (change.better, change.worse, change.difference) == (1, 0, pytest.approx(0.5 / 3))


def test_a_p_value_is_never_zero(tmp_path: Path) -> None:
    """If many scores change by nearly the same, the p-value of the t-test is too small for a
    number.
    """
    for night in (0, 1):
        scores = {number: 0.1 + night * (0.5 + number / 1e9) for number in range(1_200)}
        records = [
            record("m", number, "+") | {"evaluation": {"score": score, "is_correct": True}}
            for number, score in scores.items()
        ]
        make_corpus(tmp_path / f"night-{night}", records)
    (change,) = fastrec.trend(tmp_path).significant_changes()
    assert (change[2].p_adjusted, change[2].p_text) == (0.0, "<1e-300")
    assert b"0 worse  p <1e-300\n" in run_here("trend", tmp_path).stdout
    fastrec.report(tmp_path / "night-1", tmp_path / "report.html", trend=tmp_path)
    assert "&lt;1e-300</td>" in (tmp_path / "report.html").read_text()


def test_means_of_scores_are_exact(tmp_path: Path) -> None:
    """The mean of 0.1 and 0.2 is that of 0 and 0.3, though not as doubles: four of six questions
    changed.
    """
    for night, tied in (("night-1", (0.0, 0.3)), ("night-2", (0.1, 0.2))):
        better = (0.25, 0.35) if night == "night-2" else (0.1, 0.2)
        records = [
            record("m", number, "+", metadata={"trial": trial})
            | {"evaluation": {"score": score, "is_correct": True}}
            for number in range(6)
            for trial, score in enumerate(better if number < 4 else tied)
        ]
        make_corpus(tmp_path / night, records)
    ((model,),) = [evaluation.models for evaluation in fastrec.trend(tmp_path).evaluations]
    (change,) = model.changes
    assert (change.test, change.better, change.worse, change.p) == ("mcnemar", 4, 0, 2 / 2**4)
    assert change.difference == 0.1


def test_hashes_that_differ(nights: Path, tmp_path: Path) -> None:
    """Questions of corpora with other hashes cannot be matched; a notice says so."""
    make_corpus(tmp_path / "other", [record("steady", 1, "+")], hash_algorithm="xxh3_128")
    found = fastrec.trend([nights / "night-9", tmp_path / "other"])
    assert found.comparisons == 0
    (notice,) = found.notices
    assert (
        "night-9 has schema 0.2.0 and sha256 hashes, other has schema 0.2.0 and xxh3_128 hashes"
        in notice
    )


TEXT = """\
arithmetic: accuracy in 4 corpora
  model   night-9   night-10   night-11   night-12   last records  last errors
  falls    100.0%      20.0%▼                18.8%             16            0
  new                      –      50.0%     100.0%              2            0
  steady    75.0%      81.2%      80.0%      80.0%             15            0

Changes that are more than chance (exact McNemar test; p < 0.05, adjusted for 6 comparisons):
  night-9 → night-10  arithmetic  falls
    ▼ 100.0% → 20.0%  15 questions: 0 better, 12 worse  p = 0.0029

  corpus    lines  kept  duplicates  rejected  blank  models
  night-9      32    32           0         0      0       2
  night-10     34    34           0         0      0       3
  night-11     17    17           0         0      0       2
  night-12     33    33           0         0      0       3
  night-10: 1 model appears: new
  night-11: 1 model disappears: falls
  night-12: 1 model appears: falls
"""


def test_text(nights: Path) -> None:
    """Tables, changes and line counts."""
    done = run_here("trend", nights)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == TEXT
    calm = run_here("trend", nights, "--p", "0.001").stdout.decode()
    assert (
        "No change is more than chance (exact McNemar test; p < 0.001, adjusted for 6 comparisons)."
        in calm
    )
    alone = run_here("trend", nights / "night-9").stdout.decode()
    assert "arithmetic: accuracy in 1 corpus\n" in alone
    assert "No model has answered a question in two corpora, so nothing is compared." in alone


def test_many_corpora(tmp_path: Path) -> None:
    """A table has the first, the last, and those with changes.

    All of them are in the table of corpora.
    """
    for night in range(12):
        marks = ("+" if night < 6 else "-") * 12
        make_corpus(
            tmp_path / f"n{night}", [record("m", number, mark) for number, mark in enumerate(marks)]
        )
    text = run_here("trend", tmp_path).stdout.decode()
    assert (
        "accuracy in 12 corpora; 4 of them shown\n  model      n0       n5     n6    n11   last "
        "records\n" in text
    )
    assert "  m      100.0%   100.0%   0.0%▼  0.0%             12\n" in text
    assert text.count("\n  n") == 12 + 1


def test_json_and_csv(nights: Path) -> None:
    """JSON is the document; CSV has a row for each model and corpus."""
    document = json.loads(run_here("trend", nights, "--format", "json").stdout)
    assert document["evaluations"][0]["models"][0]["changes"][0]["significant"] is True
    assert [night["name"] for night in document["corpora"]] == list(NIGHTS)
    rows = list(
        csv.DictReader(io.StringIO(run_here("trend", nights, "--format", "csv").stdout.decode()))
    )
    assert len(rows) == sum(map(len, NIGHTS.values()))
    (change,) = [row for row in rows if row["significant"] == "true"]
    assert (change["model_id"], change["corpus"], change["change_before"]) == (
        "falls",
        "night-10",
        "night-9",
    )
    assert float(change["change_p"]) == 2 / 2**12
    assert rows[0]["significant"] == rows[0]["change_p"] == ""


def test_hostile_names(tmp_path: Path) -> None:
    """Names of corpora, models and evaluations cannot control a terminal or a spreadsheet."""
    for name in ("a\x1b[31m\u202e" + "long" * 20, "b\x1b[31m\u202e" + "long" * 20):
        make_corpus(tmp_path / name, [record("=1+1" + HOSTILE, 1, "+", evaluation_name=HOSTILE)])
    for form in ("text", "csv", "json"):
        done = run_here("trend", tmp_path, "--format", form)
        assert done.returncode == 0
        assert not set("\u202e\x1b\u2028") & set(done.stdout.decode())
    assert ",'=1+1" in run_here("trend", tmp_path, "--format", "csv").stdout.decode()


def test_corpora_that_cannot_be_read(nights: Path, tmp_path: Path) -> None:
    """The error names the corpus; refused corpora are left out with a notice."""
    copy = Path(shutil.copytree(nights, tmp_path / "copy"))
    columns = copy / "night-10" / "part-00000.columns"
    columns.write_bytes(columns.read_bytes()[:200])
    with pytest.raises((CorpusError, ShardError), match="night-10"):
        fastrec.trend(copy)
    done = run_here("trend", copy)
    assert done.returncode == 3
    assert b"fastrec verify" in done.stderr
    shutil.rmtree(copy / "night-10")
    manifest = json.loads((copy / "night-11" / "manifest.json").read_bytes())
    (copy / "night-11" / "manifest.json").write_text(
        json.dumps(manifest | {"refused": "too many rejected lines"})
    )
    found = fastrec.trend(copy)
    assert [night.name for night in found.corpora] == ["night-9", "night-12"]
    assert found.notices == [
        f"{copy / 'night-11'} is left out: it is a refused corpus, which was not published"
    ]
    (copy / "night-9" / "manifest.json").write_text("{}")
    assert run_here("trend", copy).returncode == 3


def test_store(nights: Path) -> None:
    """Corpora may be in a store: given one by one, or as a directory."""
    for name in ("night-9", "night-10"):
        fsspec.filesystem("memory").put(f"{nights / name}/", f"/trend/{name}/", recursive=True)
    found = fastrec.trend("memory://trend")
    assert [night.name for night in found.corpora] == ["night-9", "night-10"]
    assert found.evaluations == fastrec.trend([nights / "night-9", nights / "night-10"]).evaluations


def test_help_fits_80_columns() -> None:
    text = run_command("trend", "--help").stdout.decode()
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_text_and_the_document_name_the_test(tmp_path: Path) -> None:
    """Each change that is more than chance has its own test if there are several."""
    for night, mark in (("1", "-"), ("2", "+")):
        once = [record("once", number, mark) for number in range(12)]
        trials = [record("trials", number, mark, metadata={"trial": "a"}) for number in range(12)]
        trials.append(record("trials", 0, "-", metadata={"trial": "b"}))
        make_corpus(tmp_path / night, once + trials)
    found = fastrec.trend([tmp_path / "1", tmp_path / "2"])
    assert [model.changes[0].test for model in found.evaluations[0].models] == ["mcnemar", "t"]
    said = run_here("trend", tmp_path / "1", tmp_path / "2").stdout.decode()
    assert "chance (exact McNemar test, paired t-test over questions; p < 0.05" in said
    assert [line.rpartition("(")[2] for line in said.splitlines() if "better" in line] == [
        "exact McNemar test)",
        "paired t-test over questions)",
    ]
