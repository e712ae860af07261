"""Pages about models, pairs and groups, and questions saved as files: numbers, names, escaping."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

import fastrec
from fastrec.commands.view.addresses import name_text
from fastrec.commands.view.server import View
from tests.answers.small import answer
from tests.answers.small import make_corpus as small_corpus
from tests.commands.test_report import Page
from tests.commands.viewing import (
    HOSTILE,
    MARKUP,
    MODELS,
    VERDICTS,
    Client,
    agent_record,
    hostile_records,
    make_corpus,
    metric_records,
    plain_records,
    serving,
)

LONG = "m" * 3_000


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain = [
        {**record, "metadata": {"subject": "law" if number < 6 else MARKUP, "tool": "x"}}
        for number, record in enumerate(plain_records())
    ]
    records = [*plain, agent_record(), *hostile_records(), *metric_records()]
    return make_corpus(tmp_path_factory.mktemp("pages"), records)


@pytest.fixture(scope="module")
def server(corpus: Path) -> Iterator[View]:
    with serving(corpus) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: View) -> Client:
    return Client(server.address)


def of_models(page: str, *models: str) -> str:
    return f"/{page}?{urlencode([('model', name_text(model)) for model in models])}"


def cells(page: str, caption: str) -> list[list[str]]:
    """The texts of the cells of a table, by row."""
    body = (
        page.rsplit(f'aria-label="{caption}"', maxsplit=1)[-1]
        .split("<tbody>")[1]
        .split("</tbody>", maxsplit=1)[0]
    )
    rows = re.split(r"<tr[^>]*>", body)[1:]
    texts = [[Page(cell.encode()).text for cell in re.split(r"<t[dh]", row)[1:]] for row in rows]
    return [[text.partition(">")[2] for text in row] for row in texts]


def test_model(client: Client) -> None:
    """Results, neighbours, the questions on which they are ahead, errors by kind, metadata."""
    page = client.page(of_models("model", "org/c"))
    results = {row[0]: row[1:] for row in cells(page, "Results by evaluation and metric")}
    assert results["sums"][1:4] == ["50.0%", "15.0%", "85.0%"]
    behind = cells(page, "Questions on which similar models are ahead")
    assert [row[:3] for row in behind] == [["sums · q4", "0.000", "0.750"]]
    assert cells(page, "Errors by kind") == [["out of memory", "1"]]
    metadata = {row[0]: row[1:] for row in cells(page, "Metadata of its records")}
    assert metadata["metadata.tool"] == ["1", '"x"']
    assert metadata["run"] == ["1", "sums/org/c"]
    address = re.search(r'<a href="([^"]+)">sums · q4', page)
    assert address
    assert "28 after all" in client.page(unescape(address[1]))
    assert "selected" not in page
    assert 'name="model" value="org/c" checked' in page
    assert 'name="model" value="org/a" aria-label' in page


def test_every_model_has_a_page(client: Client, corpus: Path) -> None:
    """Also those with hostile names, whose pages have no other elements than others."""
    tags = set(Page(client.page(of_models("model", "org/a")).encode()).tags) | {"ul", "li"}
    summary = json.loads((corpus / "summary.json").read_bytes())
    models = {model["model_id"] for one in summary["evaluations"] for model in one["by_model"]}
    assert len(models) == 3 + 3 * (len(HOSTILE) + 1)
    for model in models:
        page = Page(client.page(of_models("model", model)).encode())
        assert set(page.tags) <= tags
        assert page.tags.count("script") == 1
        assert not {name for name, _ in page.attributes} & {"onclick", "onmouseover", "onerror"}
        assert not set("\u202e\x1b\u2028\0") & set(page.text)


def test_pair_has_the_numbers_of_compare(client: Client, corpus: Path) -> None:
    page = client.page(of_models("pair", "org/a", "org/b"))
    rows = {row[0]: row[1:] for row in cells(page, "Results on common questions")}
    expected = fastrec.compare(corpus, "org/a", "org/b", examples=0)
    assert len(rows) == len(expected.evaluations) == 3
    for one in expected.evaluations:
        title = f"{one.evaluation_name} · {one.metric}" if one.metric else one.evaluation_name
        shown = rows[title]
        numbers = [str(one.questions), str(one.wins), str(one.losses), str(one.ties)]
        assert shown[3:7] == numbers
        assert one.p is not None
        assert one.p_adjusted is not None
        assert shown[7] == f"{one.p:.3g}"
        assert shown[8] == f"{one.p_adjusted:.3g}"
    links = re.findall(r'<td><a href="([^"]+)">', page)
    judged = [one for one in expected.evaluations if not one.graded]
    counts = [count for one in judged for count in (one.wins, one.losses) if count]
    for link, count in zip(links, counts, strict=True):
        shown = re.search('id="matches">([0-9]+) question', client.page(unescape(link)))
        assert shown
        assert 1 <= int(shown[1]) <= count  # a question with right and wrong answers is left out


def test_pair_without_common_questions(tmp_path: Path) -> None:
    """An evaluation without common questions has no test, as in `compare`; directions count."""
    apart = [
        {**record, "evaluation_name": "apart"}
        for record in plain_records()
        if (record["model_id"] == "org/a") == (record["sample_id"] < "q2")
    ]
    corpus = make_corpus(tmp_path, [*plain_records(), *apart])
    with serving(corpus, lower_is_better=["sums"]) as opened:
        page = Client(opened.address).page(of_models("pair", "org/a", "org/b"))
    rows = {row[0]: row[1:] for row in cells(page, "Results on common questions")}
    expected = fastrec.compare(corpus, "org/a", "org/b", examples=0, lower_is_better=["sums"])
    apart_row, sums = expected.evaluations
    assert apart_row.p is None
    assert rows["apart"][3:7] == ["0", "0", "0", "0"]
    assert rows["sums"][4:6] == [str(sums.wins), str(sums.losses)]
    assert rows["sums"][8] == f"{sums.p_adjusted:.3g}"
    assert "<td><a" not in page  # right answers are not the better ones


def test_pair_with_filters(client: Client, corpus: Path) -> None:
    """An evaluation and conditions on records choose what is compared."""
    chosen = client.page(of_models("pair", "org/a", "org/b") + "&evaluation=sums")
    assert [row[0] for row in cells(chosen, "Results on common questions")] == ["sums"]
    where = client.page(of_models("pair", "org/a", "org/b") + "&where=metadata.subject%3Dlaw")
    (row,) = cells(where, "Results on common questions")
    expected = fastrec.compare(corpus, "org/a", "org/b", where="metadata.subject=law", examples=0)
    assert row[4] == str(expected.evaluations[0].questions) == "2"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (of_models("model", "org/aa"), "There is no model 'org/aa'. The nearest: org/a, "),
        (of_models("model", MARKUP + "9"), f"There is no model {MARKUP + '9'!r}. The nearest: "),
        (of_models("pair", "org/a", "nothing"), "There is no model 'nothing'. The nearest: "),
        (
            of_models("pair", "org/a"),
            "This page is about 2 models, not 1. Go back and choose 2 models.",
        ),
        (of_models("pair", *"abc"), "This page is about 2 models, not 3. Go back and choose"),
        ("/model", "This page is about 1 model, not 0. Go back and choose 1 model."),
    ],
)
def test_missing_models(client: Client, path: str, text: str) -> None:
    """A page with status 404 names the nearest models."""
    page = Page(client.page(path, 404).encode())
    assert text in page.text
    assert page.tags.count("script") == 1


def test_groups(client: Client, corpus: Path) -> None:
    """A column for each group, with links to its questions and to a page of its records."""
    page = client.page("/group?by=metadata.subject")
    head = Page(page.split("<thead>")[1].split("</thead>")[0].encode()).text
    assert "sums: law" in head
    assert f"sums: {MARKUP}" in head
    assert Page(page.encode()).tags.count("script") == 1
    rows = {row[0]: row[1:] for row in cells(page, "Results by metadata.subject")}
    stats = fastrec.stats(corpus, group_by="metadata.subject", no_ranks=True)
    for one in stats.evaluations:
        if one.group == {"metadata.subject": "law"}:
            for model in one.by_model:
                assert f"{model.accuracy:.1%}" in rows[model.model_id]
    links = re.findall(
        r'<a href="([^"]+)">', page.split('<nav class="tabs">')[1].split("</nav>")[0]
    )
    titles = [Page(client.page(unescape(link)).encode()).text for link in links]
    assert any('metadata.subject=="law"' in title for title in titles)
    assert any(f"metadata.subject=={json.dumps(MARKUP)}" in title for title in titles)
    assert "clusters of questions with the same metadata.subject" in page
    assert "up to" in client.page("/group?by=response.characters:2")


def test_links_of_groups_lead_to_their_records(tmp_path: Path) -> None:
    """Whatever their values are: no value is neither empty nor a dash, and 1 is not 1.0."""
    texts = ["", "high", "–", " a\nb", "1", "1.0", '["x","y"]', '["y"]', "[]", '"q"', "null"]
    metadata = [{"level": text} for text in texts]
    records = [
        answer("sums", f"q{number}", "m", number % 2, metadata=own)
        for number, own in enumerate([{}, *metadata])
    ]
    with serving(small_corpus(tmp_path, records)) as opened:
        client = Client(opened.address)
        page = client.page("/group?by=metadata.level")
        heads = [unescape(text) for text in re.findall('<th scope="col">sums: ([^<]*)<', page)]
        links = [unescape(link) for link in re.findall(r'<td[^>]*><a href="([^"]+)">', page)]
        questions = [client.page(link).count('class="row-link"') for link in links[: len(heads)]]
        tabs = page.split('<nav class="tabs">')[1].split("</nav>")[0]
        groups = [client.page(unescape(link)) for link in re.findall('<a href="([^"]+)">', tabs)]
        bins = client.page("/group?by=metadata.level:2")
    assert sorted(zip(heads, questions, strict=True)) == [
        ("", 1),
        (r" a\nb", 1),
        ('"q"', 1),
        ("1", 1),
        ("1.0", 1),
        ("high", 1),
        ("null", 1),
        ("x", 1),
        ("y", 2),
        ("–", 1),
        ("–", 2),
    ]
    assert len(groups) == len(heads) - 1
    assert all("Accuracy of models" in group for group in groups)
    assert "sums: all numbers" in bins
    assert not re.search("<td[^>]*><a ", bins)


def test_a_model_without_a_name(tmp_path: Path) -> None:
    """Links to it lead to its page, and from there to its records."""
    records = [answer("", f"q{number}", model, 1) for number in range(2) for model in ("", "m/a")]
    with serving(small_corpus(tmp_path, records)) as opened:
        client = Client(opened.address)
        links = re.findall(r'href="([^"]*/model\?[^"]*)"', client.page("/"))
        pages = [client.page(unescape(link)) for link in links]
        assert len(pages) == 2
        for page in pages:
            link = re.findall(r'<a href="([^"]+)">', page.split("Results by")[-1])[0]
            table = client.page(unescape(link))
            assert table.count('class="row-link"') == 2
            assert len(re.findall(r'name="model" value="[^"]*" checked', table)) == 1


def test_fields_that_no_record_has(client: Client) -> None:
    assert "no record has the field metadata.nothing" in client.page(
        "/group?by=metadata.nothing", 400
    )
    assert "is not a field" in client.page("/group?by=%3Cscript%3E", 400)


def test_pictures_of_all_records(client: Client) -> None:
    page = client.page("/group")
    assert "Accuracy of models, with 95% intervals" in page
    assert "Agreement of 3 models, in percent" in page
    assert set(Page(page.encode()).tags) >= {"svg", "table", "details"}


def question_addresses(client: Client, evaluation: str) -> list[str]:
    page = client.page(f"/questions?{urlencode({'evaluation': name_text(evaluation)})}")
    return [unescape(one) for one in re.findall(r'<a href="([^"]+)" class="row-link"', page)]


def test_saved_question(client: Client, corpus: Path) -> None:
    """The file is that of `show --format html`: all answers, no script, nothing to load."""
    (address,) = question_addresses(client, "agents")
    status, headers, body = client.send(address.replace("/question/", "/save/"))
    assert status == 200
    assert re.fullmatch(
        r'attachment; filename="question-\w{12}.html"', headers["content-disposition"]
    )
    shown = fastrec.show(corpus, "task-1")
    assert body == shown.to_page(str(corpus)).decode()
    page = Page(body.encode())
    assert {"script", "link", "img", "form"}.isdisjoint(page.tags)
    assert {"src", "action"}.isdisjoint(name for name, _ in page.attributes)
    for text in ("secret thought", "Call of search that failed", "Error: no network", "It is 42"):
        assert text in page.text
    assert "default-src 'none'; style-src 'sha256-" in unescape(body)
    assert len(body) < 20_000


def test_saved_answers_of_some_models(client: Client) -> None:
    address = question_addresses(client, "sums")[0].replace("/question/", "/save/")
    page = Page(client.page(f"{address}&show={quote('org/a')}").encode()).text
    assert "org/a says" in page
    assert "org/b says" not in page
    assert "None of these models" in client.page(f"{address}&show=nobody", 404)


@pytest.mark.parametrize("text", [*HOSTILE, LONG])
def test_saved_hostile_records(client: Client, text: str) -> None:
    for address in question_addresses(client, text):
        page = Page(client.page(address.replace("/question/", "/save/")).encode())
        assert {"script", "img", "link"}.isdisjoint(page.tags)
        assert not {name for name, _ in page.attributes} & {"onmouseover", "onerror", "onfocus"}
        assert not set("\u202e\x1b\u2028\0") & set(page.text)


def test_addresses_are_the_same_on_another_server(client: Client, corpus: Path) -> None:
    """Only the beginning differs; the box that finds questions takes an address of another one."""
    with serving(corpus) as other:
        there = Client(other.address)
        pages = ["/", of_models("model", "org/a"), of_models("pair", "org/a", "org/b"), "/group"]
        for path in pages:
            links = [
                [
                    one.removeprefix(some.prefix)
                    for one in re.findall('href="([^"]+)"', some.page(path))
                ]
                for some in (client, there)
            ]
            assert links[0] == links[1]
        mine = f"http://127.0.0.1:{client.port}{client.prefix}{of_models('model', 'org/a')}"
        found, headers, _ = there.send(f"{there.prefix}/find?{urlencode({'text': mine})}")
        assert found == 303
        assert headers["location"] == there.prefix + of_models("model", "org/a")
        assert "org/a" in there.page(headers["location"])


def test_models_that_are_not_on_the_leaderboard(tmp_path: Path) -> None:
    """A leaderboard has the 24 largest evaluations; a model of another one has a page, too."""
    many = [
        {**record, "evaluation_name": f"e{number}", "model_id": "org/a"}
        for number in range(24)
        for record in plain_records()[:6]
    ]
    small = {**plain_records()[0], "evaluation_name": "small", "model_id": "org/z"}
    with serving(make_corpus(tmp_path, [*many, small])) as opened:
        page = Client(opened.address).page(of_models("model", "org/z"))
        assert [row[0] for row in cells(page, "Results by evaluation and metric")] == ["small"]
        assert 'value="org/z" checked' in page


def test_calibration_of_a_model(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {**record, "metadata": {"confidence": "0.75"}} for record in plain_records()
    ]
    with serving(make_corpus(tmp_path, records)) as opened:
        client = Client(opened.address)
        address = of_models("model", "org/a")
        page = client.page(f"{address}&confidence=metadata.confidence")
        assert "5 answers, calibration error 0.150" in page
        assert "no answer has the field" in client.page(f"{address}&confidence=nothing", 400)


def test_agreement_is_that_of_plain_python(tmp_path: Path) -> None:
    """The share of common questions on which both models are right, or both wrong."""
    corpus = make_corpus(tmp_path, plain_records()[:-1])
    with serving(corpus) as opened:
        page = Client(opened.address).page("/group")
    table = page.split('class="heat"')[1].split("</table>")[0]
    shown = re.findall(r"<th><span>([^<]+)</span>((?:<td[^>]*>\d+)+)", table)
    verdicts: dict[str, list[int | None]] = {
        model: [row[at] for row in VERDICTS] for at, model in enumerate(MODELS)
    }
    verdicts["org/c"][3] = None  # an error
    order = [name for name, _ in shown]
    assert sorted(order) == list(MODELS)
    for name, line in shown:
        for other, text in zip(order, re.findall(r">(\d+)", line), strict=True):
            pairs = [
                (a, b)
                for a, b in zip(verdicts[name], verdicts[other], strict=True)
                if None not in (a, b)
            ]
            assert text == f"{100 * sum(a == b for a, b in pairs) / len(pairs):.0f}"


def test_cost_of_a_model(tmp_path: Path) -> None:
    """The cost of each evaluation is that of `costs`."""
    usage = {"input_tokens": 1_000_000, "output_tokens": 250_000, "total_tokens": 1_250_000}
    corpus = make_corpus(tmp_path, [{**record, "token_usage": usage} for record in plain_records()])
    prices = tmp_path / "prices.toml"
    prices.write_text('["*"]\ninput = 2.0\noutput = 8.0\n')
    [expected] = fastrec.costs(corpus, prices=prices, model="org/a").costs
    with serving(corpus, prices=prices) as opened:
        [row] = cells(Client(opened.address).page(of_models("model", "org/a")), "Cost")
    assert row[:3] == ["sums", str(expected.answers), "0"]
    assert row[3] == f"{expected.cost:.2f}" == f"{4 * expected.answers:.2f}"


def test_groups_are_of_the_primary_metric(tmp_path: Path) -> None:
    """The one that `--primary` names, as on the first page."""
    records = [
        answer(
            "E",
            f"q{number}",
            model,
            (number + place) % 3 == 0 if metric == "acc" else (number + place) % 4 > 0,
            evaluation_result_id=metric,
            metadata={"subject": "law" if number % 2 else "art"},
        )
        for number in range(12)
        for place, model in enumerate(("org/a", "org/b", "org/c"))
        for metric in ("acc", "strict")
    ]
    with serving(small_corpus(tmp_path, records), primary="E=strict") as opened:
        page = Page(Client(opened.address).page("/group?by=metadata.subject").encode()).text
    assert "E · strict" in page
    assert "E · acc" not in page


def test_two_answers_of_one_model_are_no_pair_of_models(tmp_path: Path) -> None:
    records = [
        answer("E", "q", "m/a", 1, text=f"answer {epoch}", metadata={"epoch": epoch})
        for epoch in "12"
    ]
    corpus = small_corpus(tmp_path, [*records, answer("E", "q", "m/b", 0)])
    (line, *_) = fastrec.cat(corpus)
    path = f"/question/{json.loads(line)['sample_hash']}?evaluation=E&differences=1"
    with serving(corpus) as opened:
        client = Client(opened.address)
        page = client.page(path)
        shown = re.findall(r'name="show" value="([^"]+)"', page)
        assert len(shown) == 3
        links = {
            second: "Compare both models"
            in client.page(f"{path}&{urlencode([('show', first), ('show', second)])}")
            for first, second in ((shown[0], shown[1]), (shown[0], shown[2]))
        }
    assert list(links.values()) == [False, True]
