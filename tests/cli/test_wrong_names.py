"""A misspelt name is refused at once, with the nearest names, and before texts are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.answers import selection
from fastrec.errors import UsageError, nearest
from tests.answers.small import answer, make_corpus
from tests.running import run_here


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two evaluations; their models have no question in common."""
    records = []
    for number in range(4):
        for evaluation, model in (("capitals", "org/large"), ("sums", "org/small")):
            more = {
                "evaluation_result_id": "exact_match",
                "metadata": {"subject": "law", "harness": "x"},
            }
            records.append(answer(evaluation, f"{evaluation} {number}", model, 1.0, **more))
    return make_corpus(tmp_path_factory.mktemp("names"), records)


@pytest.fixture
def _no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may read lines of parts."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("texts are read")

    for module in ("corpus.reader", "commands.cat"):
        monkeypatch.setattr(f"fastrec.{module}.skim_lines", fail)


@pytest.mark.usefixtures("_no_texts")
@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("stats --evaluation capitls", "'capitals'"),
        ("stats --metric exact_mtach", "'exact_match'"),
        ("stats --model larg", "'org/large'"),
        ("stats --model ORG/*", "'org/large', 'org/small'"),
        ("stats --lower-is-better exact_mach", "'exact_match'"),
        ("stats --group-by metadata.subjct", "'metadata.subject'"),
        ("stats --cluster metadata.subjct", "'metadata.subject'"),
        ("stats --where metadata.subjct=law", "'metadata.subject'"),
        ("stats --where subject=law", "'metadata.subject'"),
        ("stats --group-by subject", "'metadata.subject'"),
        ("stats --where ouptut.raw~x", "'output.raw'"),
        ("cat --where ouptut.raw~x", "'output.raw'"),
        ("cat --where metadata.subjct=law", "'metadata.subject'"),
        ("leaderboard --group-by ouptut.raw", "'output.raw'"),
        ("questions --where ouptut.raw~x --evaluation sums", "'output.raw'"),
        ("compare large org/small", "'org/large'"),
        ("trend --where metadata.subjct=law", "'metadata.subject'"),
        ("export -o none-yet --where ouptut.raw~x", "'output.raw'"),
    ],
)
def test_the_nearest_names_are_listed(arguments: str, near: str, corpus: Path) -> None:
    command, *options = arguments.split()
    done = run_here(command, corpus, *options)
    assert (done.returncode, done.stdout) == (2, b""), done.stderr
    assert f"; did you mean {near}" in done.stderr.decode()


def test_a_field_of_any_corpus_is_known(corpus: Path, tmp_path: Path) -> None:
    """Yesterday's records may lack it."""
    other = make_corpus(tmp_path, [answer("sums", "sums 1", "org/small", 1.0)])
    with pytest.raises(UsageError, match=r"no record has the field metadata\.subject"):
        fastrec.stats(other, where="metadata.subject=law")
    assert fastrec.trend([other, corpus], where="metadata.subject=law").evaluations
    assert fastrec.diff(other, corpus, where="metadata.subject=law").models


@pytest.mark.parametrize("command", ["show", "stats", "questions"])
def test_conditions_are_read_in_the_chosen_evaluation_only(
    command: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = selection.unmatched

    def counting(part, columns, positions, filters):
        read.extend(positions)
        return plain(part, columns, positions, filters)

    monkeypatch.setattr(selection, "unmatched", counting)
    question = ["id of sums 1"] if command == "show" else []
    where = ["--evaluation", "sums", "--where", "output.raw~small"]
    done = run_here(command, corpus, *question, *where)
    assert done.returncode == 0, done.stderr
    assert set(read) == {4, 5, 6, 7}


def test_models_without_a_common_evaluation(corpus: Path) -> None:
    done = run_here("compare", corpus, "org/large", "org/small")
    assert done.returncode == 1
    assert b"error: no evaluation has records of both org/large and org/small\n" in done.stderr
    assert b"2 evaluations without records of both models: capitals, sums" in done.stdout


def test_chosen_outcomes_are_named(corpus: Path) -> None:
    """An accuracy of 100 % would mislead otherwise."""
    chosen = b"Only records chosen by --right count: the accuracy says what was chosen."
    assert chosen in run_here("stats", corpus, "--right").stdout
    assert b"Only records chosen" not in run_here("stats", corpus).stdout
    assert fastrec.stats(corpus, right=True).outcomes == ("right",)


@pytest.mark.parametrize("command", ["stats", "leaderboard"])
@pytest.mark.parametrize("file", ["part-00000.jsonl.zst", "part-00000.columns"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_damaged_corpus_is_not_fine(
    command: str, file: str, is_gone: bool, corpus: Path, tmp_path: Path
) -> None:
    """Numbers that need no damaged file are printed, but the exit code is not 0."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in corpus.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    if is_gone:
        (copy / file).unlink()
    else:
        (copy / file).write_bytes((copy / file).read_bytes()[:-1])
    done = run_here(command, copy)
    assert done.returncode in (1, 3)
    assert file.encode() in done.stderr
    if file.endswith(".zst"):
        assert done.returncode == 1
        assert b"org/large" in done.stdout


_words = st.text("abc/-.", min_size=1, max_size=8)


@given(_words, st.lists(_words, max_size=8))
def test_the_nearest_are_known_and_different(word: str, known: list[str]) -> None:
    near = nearest(word, known)
    assert set(near) <= set(known)
    assert len(near) == len(set(near)) <= 3
    if len(word) > 2 and word in known:
        assert word in near or len(near) == 3
