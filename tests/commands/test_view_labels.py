"""`view --labels`: what the button writes, who may press it, and that `normalize --labels` takes
it.
"""

from __future__ import annotations

import errno
import io
import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import fastrec
from fastrec.commands.view import answer_page
from fastrec.commands.view.answer_page import LabelFile
from fastrec.commands.view.server import HEADERS
from fastrec.errors import UsageError
from tests.answers.small import answer
from tests.answers.small import make_corpus as small_corpus
from tests.commands.viewing import (
    STEERING,
    Client,
    make_corpus,
    metric_records,
    plain_records,
    serving,
)

RIGHT = b"is_correct=true"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("labelled"), [*plain_records(), *metric_records()])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


@pytest.fixture
def client(corpus: Path, file: Path) -> Iterator[Client]:
    with serving(corpus, labels=file) as opened:
        yield Client(opened.address)


def address(corpus: Path, sample_id: str, model: str, page: str = "label", **more: str) -> str:
    """The path of a page about an answer, below the token."""
    (line, *_) = fastrec.cat(corpus, sample_id=sample_id)
    names = {"evaluation": "graded" if sample_id == "g1" else "sums", **more, "show": model}
    return f"/{page}/{json.loads(line)['sample_hash']}?{urlencode(names)}"


def post(
    client: Client, path: str, form: bytes = RIGHT, **headers: str
) -> tuple[int, dict[str, str], str]:
    own = {"Origin": f"http://127.0.0.1:{client.port}", "Sec-Fetch-Site": "same-origin"}
    sent = {name: value for name, value in (own | headers).items() if value}
    return client.send(f"{client.prefix}{path}", "POST", form=form, **sent)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def test_a_label_is_written_shown_and_applied(
    client: Client, corpus: Path, file: Path, tmp_path: Path
) -> None:
    """The whole way: the form of a page, a line of the file, the page after it, and the corrected
    corpus.
    """
    path = address(corpus, "q2", "org/b")
    before = client.page(address(corpus, "q2", "org/b", "answer"))
    (form,) = re.findall(
        r'<form method="post" action="([^"]+)"', before.replace('class="line judging" ', "")
    )
    assert unescape(form) == f"{client.prefix}{path}"
    assert 'name="is_correct" value="true"' in before
    status, headers, _ = post(
        client, path, urlencode({"is_correct": "true", "reason": f"same <b>{STEERING}"}).encode()
    )
    assert status == 303
    (label,) = lines(file)
    assert label.pop("at").startswith("20")
    assert label == {
        "evaluation": "sums", "model": "org/b", "question": path.split("/")[2].split("?")[0], "is_correct": True,
        "reason": f"same <b>{STEERING}",
    }  # fmt: skip
    after = client.page(headers["location"])
    assert "label: right, same &lt;b&gt;a\\u202eb" in after
    assert "The verdict was right: it is wrong" in after
    assert "label: right" in client.page(
        address(corpus, "q2", "org/b", "question").partition("&show")[0]
    )
    labelled = fastrec.normalize(corpus, tmp_path / "out", labels=file, strict_labels=True).labels
    assert labelled is not None
    assert (labelled.labels, labelled.changed) == (1, 1)


def test_the_last_label_wins(client: Client, corpus: Path, file: Path) -> None:
    """It can be taken back, and lines that somebody else has added count, even without a line break
    at the end.
    """
    path = address(corpus, "q2", "org/b")
    post(client, path)
    file.write_bytes(
        file.read_bytes() + json.dumps(lines(file)[0] | {"reason": "by hand"}).encode()
    )
    assert "label: right, by hand" in client.page(path.replace("/label/", "/answer/"))
    post(client, path, b"is_correct=false")
    assert [one["is_correct"] for one in lines(file)] == [True, True, False]
    assert "label: wrong" in client.page(path.replace("/label/", "/answer/"))


def test_graded_and_repeated_answers(client: Client, corpus: Path, file: Path) -> None:
    """A metric and a score are named.

    An answer that cannot be told from another one, or has an error, has no label.
    """
    graded = address(corpus, "g1", "org/a", metric="f1")
    assert 'name="score"' in client.page(graded.replace("/label/", "/answer/"))
    assert post(client, graded, b"is_correct=true&score=0.75&reason=")[0] == 303
    assert [(one["metric"], one["score"]) for one in lines(file)] == [("f1", 0.75)]
    repeated = address(corpus, "q4", "org/b")
    for path in (repeated, address(corpus, "q3", "org/c")):
        assert '<form method="post"' not in client.page(path.replace("/label/", "/answer/"))
        assert post(client, path)[0] == 400
    assert len(lines(file)) == 1


def test_trials_are_told_apart(tmp_path: Path, file: Path) -> None:
    (base, *_) = plain_records()
    corpus = make_corpus(tmp_path, [{**base, "metadata": {"epoch": number}} for number in (1, 2)])
    with serving(corpus, labels=file) as opened:
        assert (
            post(Client(opened.address), address(corpus, "q0", "org/a\\2"), b"is_correct=false")[0]
            == 303
        )
    assert [one["trial"] for one in lines(file)] == [{"epoch": "2"}]
    labelled = fastrec.normalize(corpus, tmp_path / "out", labels=file, strict_labels=True).labels
    assert labelled is not None
    assert (labelled.changed, labelled.ambiguous) == (1, 0)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://localhost:{port}"}, 403),  # another origin than the Host
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}"}, 303),
        ({"Sec-Fetch-Site": ""}, 303),
    ],
)
def test_only_own_pages_may_post(
    client: Client, corpus: Path, file: Path, headers: dict[str, str], status: int
) -> None:
    spelled = {name: value.format(port=client.port) for name, value in headers.items()}
    found, named, body = post(client, address(corpus, "q2", "org/b"), **spelled)
    assert found == status, body
    assert HEADERS.items() <= named.items()
    assert bool(lines(file)) == (status == 303)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        (b"", 400),
        (b"reason=x", 400),
        (b"is_correct=maybe", 400),
        (b"is_correct=true&score=nan", 400),
        (b"is_correct=true&score=1e999", 400),
        (b"is_correct=true&score=x", 400),
        (b"is_correct=true&model=other", 400),
        (b"is_correct=true&a=1&b=2&c=3", 400),
        (b"is_correct=true&reason=%ff", 400),
        (b"\xff\xfe", 400),
        (b'{"is_correct": true}', 400),
        (b"is_correct=true&reason=" + b"x" * 20_000, 413),
    ],
)
def test_what_is_no_label(
    client: Client, corpus: Path, file: Path, form: bytes, status: int
) -> None:
    assert post(client, address(corpus, "q2", "org/b"), form)[0] == status
    assert lines(file) == []


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "POST", 405),
        ("/questions?evaluation=sums", "POST", 405),
        ("/label/00?evaluation=sums&show=org/a", "GET", 405),
        ("/label/00?evaluation=sums&show=org/a", "PUT", 405),
        ("/label/00?evaluation=sums&show=org/a", "POST", 404),
        ("/label/", "POST", 404),
        ("/../x/label/00", "POST", 405),
    ],
)
def test_other_methods_and_addresses(
    client: Client, file: Path, path: str, method: str, status: int
) -> None:
    own = f"http://127.0.0.1:{client.port}"
    found, named, _ = client.send(f"{client.prefix}{path}", method, form=RIGHT, Origin=own)
    assert found == status
    assert named.get("allow") == (
        {"/label/": "POST"}.get(path[:7], "GET, HEAD") if status == 405 else None
    )
    assert client.send(f"/{'x' * 32}/label/00", "POST", form=RIGHT, Origin=own)[0] == 403
    assert lines(file) == []


def test_without_the_option_nothing_is_written(corpus: Path, file: Path) -> None:
    file.write_bytes(b"not a label")
    with serving(corpus) as opened:
        client = Client(opened.address)
        status, named, _ = post(client, address(corpus, "q2", "org/b"))
        assert (status, named["allow"]) == (405, "GET, HEAD")
        assert 'method="post"' not in client.page(address(corpus, "q2", "org/b", "answer"))


def test_files_that_cannot_be_used(corpus: Path, file: Path, tmp_path: Path) -> None:
    """A wrong file is refused at the start; one that is damaged later is named on the page."""
    file.write_bytes(b'{"evaluation": "sums"}\n')
    with pytest.raises(UsageError, match="line 1 is not a label"):
        fastrec.view(corpus, labels=file)
    for path in (tmp_path, tmp_path / "missing" / "labels.jsonl"):
        with pytest.raises(UsageError, match="cannot be written"):
            fastrec.view(corpus, labels=path)
    later = tmp_path / "later" / "labels.jsonl"
    later.parent.mkdir()
    with serving(corpus, labels=str(later)) as opened:
        client = Client(opened.address)
        later.write_bytes(b"nonsense")
        page = client.page(address(corpus, "q2", "org/b", "answer"), 400)
        assert "labels.jsonl, line 1 is not a label" in page
        shutil.rmtree(later.parent)
        status, _, page = post(client, address(corpus, "q2", "org/b"))
        assert (status, "labels.jsonl cannot be read" in page) == (400, True)


def test_a_full_disk(
    client: Client, corpus: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(LabelFile, "_append", fail)
    status, _, page = post(client, address(corpus, "q2", "org/b"))
    assert status == 500
    assert "The label cannot be written" in page
    assert "labels.jsonl: No space left on device" in page


@pytest.mark.parametrize(
    ("records", "conditions"),
    [
        (
            [{"metadata": {"epoch": "1"}}, {"metadata": {"epoch": "2"}}],
            {"where": "metadata.epoch=2"},
        ),
        ([{}, {"evaluation_result_id": "x"}], {}),
        ([{}, {"metadata": {"attempt": "2"}}], {}),
    ],
)
def test_a_label_that_is_about_several_records_is_refused(
    tmp_path: Path, file: Path, records: list[dict[str, Any]], conditions: dict[str, str]
) -> None:
    """The page shows one of them: others do not match, have a metric, or a field more."""
    answers = [
        answer("E", "q", "m/a", 0, text=f"answer {number}", **fields)
        for number, fields in enumerate(records)
    ]
    corpus = small_corpus(tmp_path, answers)
    (line, *_) = fastrec.cat(corpus)
    names = urlencode({"evaluation": "E", "show": "m/a", **conditions})
    with serving(corpus, labels=file) as opened:
        client = Client(opened.address)
        status, _, page = post(client, f"/label/{json.loads(line)['sample_hash']}?{names}")
    assert status == 400
    assert "No label can tell this answer from others" in page
    assert not file.exists() or not file.read_bytes()


def test_half_a_label_does_not_stay(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be full in the middle of a line."""

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data)[:3])

    def open_full(path: str, mode: str, **_: Any) -> Full:
        return Full(path, mode.replace("b", ""))

    labels = LabelFile(str(file))
    monkeypatch.setattr(answer_page, "open", open_full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        labels._append(b'{"label": 1}\n')
    assert file.read_bytes() == b""
