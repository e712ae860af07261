"""What makes pages of `view` readable: the order of models, Markdown, metadata, and downloads."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.table import Query
from fastrec.commands.view.question_page import are_unique
from fastrec.pages.html import multiline
from fastrec.pages.markdown import markdown
from tests.commands.test_view import Elements, hash_of, links_in
from tests.commands.viewing import (
    HOSTILE,
    Client,
    agent_record,
    make_corpus,
    plain_records,
    serving,
)
from tests.samples import question, sample
from tests.sizes import examples
from tests.timing import grows_linearly

SUBJECTS = ("law", "art", "law", "~a&b=<c>", "law")
MARKDOWN = "# Answer\n\nIt is **42**:\n\n1. six\n2. seven\n\n```py\nprint(6 * 7)\n```\n"


def graded_records() -> list[dict[str, Any]]:
    """One question that many models answer with different scores.

    Three have errors, and one has no record.
    """
    scores = [0.25, 1.0, 0.5, 0.123456, 0.75, *[0.0] * 15]
    return [
        sample(
            model_id=f"organisation/{'model-' * 15}{number:02}",
            evaluation_name="graded",
            evaluation_id="graded/1",
            sample_id="g",
            input={"raw": "Why?", "reference": '{"b": [1, 2], "a": null}'},
            evaluation={"score": score, "is_correct": score > 0.4},
            error="out of memory" if number > 16 else None,
            output={"raw": f"answer {number}"},
            metadata={},
        )
        for number, score in enumerate(scores)
    ]


def described_records() -> list[dict[str, Any]]:
    """Plain questions with metadata: a subject, a constant, an id, a list, a long text."""
    records = plain_records()
    for record in records:
        number = int(record["sample_id"][1:])
        record["metadata"] = {
            "subject": SUBJECTS[number],
            "same": "x",
            "a.key": number % 2 == 0,
            "list": [1],
            "empty": "",
        }
        record["metadata"]["long"] = f"{number} " * 40
    return records


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = agent_record() | {"metadata": {}}
    agent["interactions"][2] |= {
        "token_usage": {"output_tokens": 77},
        "latency_ms": 1250,
        "time": "{not json",
    }
    agent["interactions"][-1]["content"] = MARKDOWN
    other = {**plain_records()[0], "evaluation_name": "[s]ums", "metadata": {}}
    records = [*described_records(), agent, *graded_records(), other]
    return make_corpus(tmp_path_factory.mktemp("reading"), records)


@pytest.fixture(scope="module")
def client(corpus: Path) -> Iterator[Client]:
    with serving(corpus) as opened:
        yield Client(opened.address)


# The order of models


SCORE = r'<span class="verdict scored"><svg.*?</svg>(\d[.\d]*)</span>'


def test_models_are_sorted_by_score(client: Client, corpus: Path) -> None:
    """The best first; answers with errors are folded at the end; scores have the same digits.

    Names are cut inside.
    """
    page = client.page(f"/question/{hash_of(corpus, 'g')}?evaluation=graded")
    judged, folded = page.split('<details class="folded unjudged"><summary>3 answers with an error')
    scores = re.findall(SCORE, judged)
    assert scores == ["1.0000", "0.7500", "0.5000", "0.2500", "0.1235", *["0.0000"] * 12]
    assert judged.count("verdict error") == 0
    assert set(re.findall('class="verdict (\\w+)', page)) == {"scored", "error"}  # not wrong
    assert folded.count("Error: out of memory") == 3
    assert "answer 17" in folded
    titles = re.findall(r'class="dot ([\w ]+)" title="[^"]*(\d\d): ', page)
    assert titles[:5] == [("scored several", at) for at in ("01", "04", "02", "00", "03")]
    assert titles[-3:] == [("error", "17"), ("error", "18"), ("error", "19")]
    assert "3 models without an answer" in page
    cut = re.findall(r'<span class="model" title="([^"]*)">([^<]*)<', page)
    assert all(len(shown) == 81 and shown.endswith(name[-40:]) for name, shown in cut)


def test_the_first_answer_and_its_neighbours_follow_the_same_order(
    client: Client, corpus: Path
) -> None:
    """`l` opens the best model's answer, and then goes on to the next best one."""
    address = f"/question/{hash_of(corpus, 'g')}?evaluation=graded"
    for number in ("01", "04", "02", "00"):
        (address,) = (
            unescape(one)
            for one in re.findall(
                r'href="([^"]*)" class="button" data-key="l"', client.page(address)
            )
        )
        assert f"answer {int(number)}<" in client.page(address)


def test_steps_from_an_answer_pass_questions_that_the_model_did_not_answer(tmp_path: Path) -> None:
    """Previous and next lead through all answers of a model, in the order of the table."""
    some = [record for number, record in enumerate(plain_records()) if number % 5 not in (1, 2)]
    corpus = make_corpus(tmp_path, some)
    query = Query(evaluation_name="sums")
    answered: dict[str, list[str]] = {}
    index = open_index(corpus)
    names = [row.name for row in index.page(query).rows]
    for name in names:
        for model, (outcome, _) in index.outcomes(query, name).items():
            if outcome != "none":
                answered.setdefault(model, []).append(name)
    assert any(1 < len(found) < len(names) for found in answered.values())
    with serving(corpus) as opened:
        client = Client(opened.address)
        for model, expected in answered.items():
            for step, order in (("next", expected), ("prev", expected[::-1])):
                address = f"/answer/{order[0]}?evaluation=sums&sort=order&show={quote(model)}"
                for name in order:
                    assert f"/answer/{name}?" in address
                    page = client.page(address)
                    found = re.search(
                        rf'href="([^"]*)" class="button" data-key="\w \w" rel="{step}"', page
                    )
                    address = unescape(found[1]) if found else ""
                assert address == ""


def test_lower_scores_may_be_better(corpus: Path) -> None:
    with serving(corpus, lower_is_better="graded") as opened:
        page = Client(opened.address).page(f"/question/{hash_of(corpus, 'g')}?evaluation=graded")
    assert re.findall(SCORE, page)[-1] == "1.0000"


def test_the_order_of_outcomes(corpus: Path) -> None:
    """Models without a record come last, after those with errors."""
    index = open_index(corpus)
    query = Query(evaluation_name="sums")
    row = index.page(query, 0, 5).rows[3]
    outcomes = [outcome for outcome, _ in index.outcomes(query, row.name).values()]
    assert outcomes == sorted(outcomes, key=["right", "mixed", "wrong", "error", "none"].index)


def test_the_table_starts_with_the_hardest(client: Client) -> None:
    ids = re.findall(
        r'<span class="id"[^>]*>(.*?)</span>', client.page("/questions?evaluation=sums")
    )
    assert (ids[0], ids[-1]) == ("q1", "q0")
    link = next(
        one for one in links_in(client.page("/questions?evaluation=sums")) if "sort=order" in one
    )
    assert 'aria-sort="ascending"><a' in client.page(link)


# Texts


def test_markdown_of_answers_is_laid_out(client: Client, corpus: Path) -> None:
    page = client.page(f"/answer/{hash_of(corpus, 'task-1')}?evaluation=agents&show=org/a")
    assert "<h4># Answer\n</h4>\nIt is **42**:" in page
    assert '<div class="item">1. six\n</div>' in page
    assert '<span class="soft">py\n</span>print(6 * 7)\n<i class="mark">```' in page


def test_tokens_and_time_of_a_turn(client: Client, corpus: Path) -> None:
    page = client.page(f"/answer/{hash_of(corpus, 'task-1')}?evaluation=agents&show=org/a")
    assert "output_tokens <b>77</b>" in page
    assert "latency_ms <b>1250</b>" in page
    assert "time <b>{not json</b>" in page


def test_references_in_json_are_indented(client: Client, corpus: Path) -> None:
    page = client.page(f"/question/{hash_of(corpus, 'g')}?evaluation=graded")
    assert "{\n  &quot;b&quot;: [\n    1,\n    2\n  ],\n  &quot;a&quot;: null\n}" in page


ALLOWED = {"b", "code", "div", "h4", "i", "pre", "span", "table", "td", "tr"}
CLASSES = {None, "text", "code", "hidden-char", "item", "mark", "soft"}
PIECES = st.sampled_from([
    *HOSTILE, "<script>alert(1)</script>", "<b onclick=x>", "[a](javascript:x)", "![i](http://x/y.png)", "<http://x>",
    "**", "*", "_", "~~", "`", "```", "~~~", "\n", "\n\n", "> ", "- ", "1. ", "# ", "#### 18", "|a|b|\n|-|-|\n", "|", "\\|",
    "    ", "\\", "a", "word ", "2*14 = <<2*14=28>>", "x**2", "$x_1$", "\\(a\\)", "\t", "\r\n", "\r", "é",
])  # fmt: skip
MARKS = re.compile(r"\s*(`+|~+|[`~]{3,}|\*\*|\|?|[|\s]*|[-:|\s]+)\s*")  # what a page may hide


MARK = r'<(i|td) class="mark">(.*?)</\1>'
RULE = r"(<table><tr>.*?</tr>)<tr>(.*?)</tr>"


def characters(page: str) -> str:
    return unescape(re.sub("<[^>]*>", "", page))


def visible(text: str) -> str:
    """What a page shows of a text: without the elements that its style hides."""
    page = re.sub(RULE, r"\1", markdown(text), flags=re.DOTALL)
    return characters(re.sub(MARK, "", page, flags=re.DOTALL))


@settings(max_examples=examples(60, 2_000))
@given(st.lists(PIECES, max_size=14).map("".join) | st.text())
def test_every_character_of_an_answer_is_in_its_page(text: str) -> None:
    """All are there, in order; only marks are hidden; no element loads anything."""
    page = markdown(text)
    for name, attributes in Elements(page).found:
        assert name in ALLOWED
        assert attributes.keys() <= {"class", "dir"}
        assert attributes.get("class") in CLASSES
    assert characters(page) == characters(multiline(text))
    hidden = re.findall(MARK, page, re.DOTALL) + re.findall(RULE, page, re.DOTALL)
    assert all(MARKS.fullmatch(characters(mark)) for _, mark in hidden)


@settings(max_examples=examples(60, 2_000))
@given(st.text("0123456789*+-=/^<>()._# \n"))
def test_nothing_of_a_calculation_is_hidden(text: str) -> None:
    """Without words, backticks and bars there is no Markdown that hides anything."""
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*14 = <<2*14=28>>28", "2*14 = <<2*14=28>>28"),
        ("x**2 + y**2 = z**2", "x**2 + y**2 = z**2"),
        ("2 **3** 4, **42**", "2 **3** 4, **42**"),
        ("a **bold** word, **Step 1:** and *this*", "a bold word, Step 1: and *this*"),
        ("un**frigging**believable, 3**times**4", "un**frigging**believable, 3**times**4"),
        ("\\(x_1 * x_2\\) $$a_b_c$$ \\[1\\]", "\\(x_1 * x_2\\) $$a_b_c$$ \\[1\\]"),
        ("# One\n#### 18\n", "# One\n#### 18\n"),
        ("use `a*b`, ``c'' and `d", "use a*b, ``c'' and `d"),
        ("```py\nx = '**a b**'\n```\nend", "py\nx = '**a b**'\nend"),
        ("```\nnever closed", "never closed"),
        ("```x``` y", "```x``` y"),
        ("|a|b|\n|-|-|\n|1|2|3|\nend", "ab123end"),
        ("a | b\nc | d", "a | b\nc | d"),
        ("- [a](b) <i> &amp;", "- [a](b) <i> &amp;"),
    ],
)
def test_what_is_rendered(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_a_long_answer_is_rendered_in_linear_time() -> None:
    for piece in ("**a ", "`a ", "|a", "```a ", "~~~\n", "|-"):
        assert grows_linearly(lambda size, piece=piece: markdown(piece * size), 1_000)


# Metadata


def test_frequent_metadata_has_columns_and_filters(client: Client) -> None:
    """Only keys that group questions; a value is a link to the questions that have it."""
    page = client.page("/questions?evaluation=sums")
    assert re.findall('title="(metadata[^"]*)">', page) == ["metadata.a.key", "metadata.subject"]
    assert page.count('class="meta" data-label="subject"') == 5
    conditions = [unescape(one) for one in re.findall('<option value="(metadata[^"]*)"', page)]
    assert conditions[0] in ('metadata.subject=="law"', 'metadata."a.key"=="true"')
    assert set(conditions) == {
        'metadata.subject=="law"', 'metadata.subject=="art"', 'metadata.subject=="~a&b=<c>"',
        'metadata."a.key"=="true"', 'metadata."a.key"=="false"',
    }  # fmt: skip
    for condition, ids in (
        ("subject%3D%3D%22law%22", {"q0", "q2", "q4"}),
        ("%22a.key%22%3D%3D%22false%22", {"q1", "q3"}),
        ("~a%26b", {"q3"}),
    ):
        link = next(one for one in links_in(page) if "where=" in one and condition in one)
        assert {*re.findall(r'<span class="id"[^>]*>(.*?)</span>', client.page(link))} == ids
    assert 'data-label="subject"' not in client.page("/questions?evaluation=agents")


# Downloads


@pytest.mark.parametrize(
    ("state", "filters"),
    [
        ({"evaluation": "sums"}, {"evaluation": "sums"}),
        ({"evaluation": "[s]ums"}, {"evaluation": "[s]ums", "exclude_evaluation": "sums"}),
        ({"evaluation": "sums", "model": ["org/a", "org/c"]}, {"evaluation": "sums", "model": ["org/a", "org/c"]}),
        ({"evaluation": "sums", "where": "metadata.subject=law"},
         {"evaluation": "sums", "where": "metadata.subject=law"}),
        ({"evaluation": "sums", "where": "evaluation.score=0", "model": "org/b"},
         {"evaluation": "sums", "where": "evaluation.score=0", "model": "org/b"}),
        ({"evaluation": "sums", "which": "all-wrong"}, {"evaluation": "sums", "sample_id": "q1"}),
        ({"evaluation": "sums", "text": "after all", "size": "1", "page": "2", "sort": "easiest"},
         {"evaluation": "sums", "sample_id": "q4"}),
        ({"evaluation": "sums", "text": "no such text"}, {"evaluation": "sums", "sample_id": "none"}),
    ],
)  # fmt: skip
def test_a_download_is_what_cat_prints(
    client: Client, corpus: Path, state: Any, filters: Any
) -> None:
    status, headers, body = client.send(f"{client.prefix}/download?{urlencode(state, doseq=True)}")
    assert (status, headers["content-type"]) == (200, "application/x-ndjson")
    assert headers["content-disposition"] == 'attachment; filename="records.jsonl"'
    assert body == "".join(line.decode() + "\n" for line in fastrec.cat(corpus, **filters))
    assert bool(body) == ("no such text" not in str(state))


def test_a_download_of_split_hashes(tmp_path: Path) -> None:
    """Questions with the same input are told apart by their sample_id."""
    records = [
        sample(model_id="org/a", evaluation_name="twins", evaluation_id="t/1", sample_id=name, input=question(1),
               evaluation={"score": float(right), "is_correct": right}, error=None)
        for name, right in (("a", True), ("b/1", False))
    ]  # fmt: skip
    corpus = make_corpus(tmp_path, records)
    with serving(corpus) as opened:
        body = Client(opened.address).page("/download?evaluation=twins&which=all-wrong")
    assert [json.loads(line)["sample_id"] for line in body.splitlines()] == ["b/1"]


def test_a_download_that_is_refused(client: Client) -> None:
    assert "This cannot be used" in client.page("/download?evaluation=sums&where=nonsense", 400)
    assert "Nothing here" in client.page("/download?evaluation=none", 404)


def test_a_download_of_a_damaged_corpus(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    with serving(copy) as opened:
        for part in copy.glob("part-*.jsonl*"):
            part.write_bytes(b"\0" * part.stat().st_size)
        assert "The corpus cannot be read" in Client(opened.address).page(
            "/download?evaluation=sums", 500
        )


def test_trials_that_no_other_answer_has_are_found_in_linear_time() -> None:
    """A model may have 100,000 answers to a question."""
    assert are_unique([{"epoch": "1"}, {}, {"epoch": "2", "run": "a"}, {"epoch": "1"}]) == [
        False,
        True,
        True,
        False,
    ]
    assert grows_linearly(
        lambda size: are_unique([{"epoch": str(number)} for number in range(size)]), 1_000
    )
