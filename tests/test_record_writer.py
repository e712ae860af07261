"""`fastrec.Writer`: records are judged when they are added, and a shard appears as a whole,
whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.errors import LockedError, UsageError
from tests.commands.viewing import Client, serving
from tests.docs.snippets import PAGES, blocks_of
from tests.sizes import examples

ASKED = {"input": "2 + 2?", "reference": "4"}


def writer(folder: Path, name: str = "run.jsonl.zst", **options: Any) -> fastrec.Writer:
    return fastrec.Writer(folder / name, **{"evaluation": "sums", "model": "org/m", **options})


def partial(folder: Path) -> Path:
    return folder / ".run.jsonl.zst.fastrec-partial"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def values(folder: Path, name: str = "run.jsonl.zst") -> Iterator[dict[str, Any]]:
    return (json.loads(fastrec.encode(record)) for record in fastrec.read(folder / name))


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_shard_has_the_records_in_order(tmp_path: Path, ending: str) -> None:
    with writer(tmp_path, f"run{ending}") as one:
        for number in range(20):
            one.add(sample_id=number, **ASKED, output=str(number), score=number == 4)
        assert names(tmp_path) != [f"run{ending}"]
    assert names(tmp_path) == [f"run{ending}"]
    found = list(values(tmp_path, f"run{ending}"))
    assert [(one["sample_id"], one["output"]["raw"]) for one in found] == [
        (str(n), [str(n)]) for n in range(20)
    ]
    assert [one["evaluation"] for one in found if one["evaluation"]["is_correct"]] == [
        {"score": 1.0, "is_correct": True}
    ]


def test_fields_are_filled_in(tmp_path: Path) -> None:
    """Kind, turns, calls and the id of the run need not be given.

    Values that are no text become JSON.
    """
    messages = [
        {"role": "user", "content": "2 + 2?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "name": "add", "arguments": {"x": 2, "y": "2"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "4"},
    ]
    with writer(tmp_path) as one:
        one.add(
            sample_id="a",
            **ASKED,
            messages=messages,
            score=0.5,
            metric="f1",
            metadata={"n": [1, "é"], "t": "x"},
        )
        one.add(sample_id="b", **ASKED, messages=messages[:1], score=1)
        one.add(sample_id="c", **ASKED, error="timeout")
    agent, talk, failed = values(tmp_path)
    assert [one["interaction_type"] for one in (agent, talk, failed)] == [
        "agentic",
        "multi_turn",
        "single_turn",
    ]
    assert agent["evaluation"] == {
        "score": 0.5,
        "is_correct": False,
        "num_turns": 3,
        "tool_calls_count": 1,
    }
    assert [turn["turn_idx"] for turn in agent["messages"]] == [0, 1, 2]
    assert agent["messages"][1]["tool_calls"][0]["arguments"] == {"x": "2", "y": "2"}
    assert agent["messages"][2]["tool_call_id"] == ["a"]
    assert agent["metadata"] == {"n": '[1,"é"]', "t": "x"}
    assert (failed["error"], failed["evaluation"]) == (
        "timeout",
        {"score": 0.0, "is_correct": False},
    )
    assert agent["evaluation_id"] == talk["evaluation_id"]
    assert agent["evaluation_id"].startswith("sums/org/m/")


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        ({"output": "4"}, "schema.type", "$.evaluation.score"),
        ({"score": 1}, "rule.single_turn_output", "$.output"),
        ({"score": 1, "reasoning_trace": "x"}, "schema.required", "$.output"),
        ({"score": float("nan"), "output": "4"}, "json.number", "$.evaluation.score"),
        ({"score": 1, "output": "\ud800"}, "json.surrogate", "$.output.raw[0]"),
        ({"score": 1, "output": "4", "messages": []}, "rule.multi_turn_output", "$.output"),
        (
            {"score": 1, "output": "4", "token_usage": {"input_tokens": -1}},
            "schema.minimum",
            "$.token_usage",
        ),
        ({"score": 1, "output": "4", "sample_id": True}, "schema.type", "$.sample_id"),
        ({"score": 1, "messages": "text"}, "schema.type", "$.messages"),
        ({"score": 1, "messages": [None]}, "schema.type", "$.messages[0]"),
        (
            {"score": 1, "messages": [{"role": "user", "tool_calls": ["x"]}]},
            "schema.type",
            "$.messages[0].tool_calls[0]",
        ),
    ],
)
def test_a_record_is_judged_at_the_call(
    tmp_path: Path, fields: dict[str, Any], code: str, path: str
) -> None:
    """A record that the schema refuses raises its findings, and leaves the shard as it was."""
    with writer(tmp_path) as one:
        with pytest.raises(fastrec.InvalidRecordError) as caught:
            one.add(**{"sample_id": 1, **ASKED, **fields})
        one.add(sample_id=2, **ASKED, output="4", score=1)
    assert any(
        found.code == code and found.path.startswith(path) for found in caught.value.findings
    ), caught.value
    assert [record["sample_id"] for record in values(tmp_path)] == ["2"]


def test_an_error_without_a_message_is_an_error(tmp_path: Path) -> None:
    with writer(tmp_path) as one:
        one.add(sample_id=1, **ASKED, error=str(TimeoutError()))
    [record] = values(tmp_path)
    assert record["error"] == "an error without a message"


def test_values_that_are_no_json_are_refused(tmp_path: Path) -> None:
    with writer(tmp_path) as one, pytest.raises(fastrec.UsageError, match="JSON values"):
        one.add(sample_id=1, **ASKED, output="4", score=1, metadata={"when": object()})


def test_bytes_are_no_text(tmp_path: Path) -> None:
    """They would become Base64, which no other record of the sample has."""
    given: dict[str, Any] = {"sample_id": "1", **ASKED, "output": "4", "score": 1}
    with writer(tmp_path) as run:
        for field in ("sample_id", "metric", "input", "reference", "output"):
            with pytest.raises(UsageError, match=r"must be text, not b'x'"):
                run.add(**{**given, field: b"x"})
        run.add(**given)
        assert run.count("1") == 1
    assert len(list(values(tmp_path))) == 1
    with (
        pytest.raises(UsageError, match="model_id must be text"),
        writer(tmp_path, "b.jsonl", model=b"m") as run,
    ):
        run.add(**given)


def test_a_run_without_records_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writer(tmp_path):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_a_run_that_raised_is_continued(tmp_path: Path) -> None:
    """Records of a run that raised are kept, with its id; a torn last line is cut off."""
    with pytest.raises(ZeroDivisionError), writer(tmp_path) as one:
        one.add(sample_id=1, **ASKED, output="4", score=1, metric="em")
        one.add(sample_id=1, **ASKED, output="4", score=1, metric="f1")
        raise ZeroDivisionError
    assert names(tmp_path) == [partial(tmp_path).name]
    first = json.loads(partial(tmp_path).read_bytes().splitlines()[0])
    with partial(tmp_path).open("ab") as file:
        file.write(b'{"schema_version":"0.3')
    with writer(tmp_path) as one:
        assert [one.count(1), one.count("1", "em"), one.count(1, "other"), one.count(2)] == [
            2,
            1,
            0,
            0,
        ]
        one.add(sample_id=2, **ASKED, output="5", score=0, metric="em")
        assert one.count(2) == 1
    found = list(values(tmp_path))
    assert [(one["sample_id"], one["evaluation_result_id"]) for one in found] == [
        ("1", "em"),
        ("1", "f1"),
        ("2", "em"),
    ]
    assert {one["evaluation_id"] for one in found} == {first["evaluation_id"]}


def test_a_killed_process_loses_no_record(tmp_path: Path) -> None:
    """All records that were added before a kill are in the shard of the next run."""
    program = f"""
import fastrec, os, signal
with fastrec.Writer({str(tmp_path / "run.jsonl.zst")!r}, evaluation="sums", model="org/m") as writer:
    for number in range(7):
        writer.add(sample_id=number, input="2 + 2?", output="4", score=1)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    with writer(tmp_path) as one:
        assert [one.count(number) for number in range(8)] == [1] * 7 + [0]
    assert len(list(values(tmp_path))) == 7


@pytest.mark.parametrize("name", ["run.jsonl.zst", "run.jsonl"])
def test_a_process_that_is_killed_while_it_publishes(tmp_path: Path, name: str) -> None:
    """There is no file that `normalize` would take for a shard, and the next run publishes all
    records.
    """
    program = f"""
import fastrec, os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with fastrec.Writer({str(tmp_path / name)!r}, evaluation="sums", model="org/m") as writer:
    writer.add(sample_id=1, input="2 + 2?", output="4", score=1)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [found for found in names(tmp_path) if not found.startswith(".")] == []
    with writer(tmp_path, name) as one:
        assert one.count(1) == 1
    assert names(tmp_path) == [name]
    assert len(list(values(tmp_path, name))) == 1


def test_records_that_stay_after_publishing_are_named(tmp_path: Path) -> None:
    """The process was killed before it removed them.

    A run that begins again must not continue with them.
    """
    with pytest.raises(ZeroDivisionError), writer(tmp_path) as one:
        one.add(sample_id=1, **ASKED, output="4", score=1)
        raise ZeroDivisionError
    left = partial(tmp_path).read_bytes()
    with writer(tmp_path):
        pass
    partial(tmp_path).write_bytes(left)
    with (
        pytest.raises(
            fastrec.UsageError, match=r"remove it and .*\.run\.jsonl\.zst\.fastrec-partial"
        ),
        writer(tmp_path),
    ):
        pass


def test_a_writer_that_is_used_again_continues(tmp_path: Path) -> None:
    one = writer(tmp_path)
    for number in range(3):
        with pytest.raises(ZeroDivisionError), one:
            assert [one.count(earlier) for earlier in range(4)] == [1] * number + [0] * (4 - number)
            one.add(sample_id=number, **ASKED, output="4", score=1)
            raise ZeroDivisionError
    with one:
        pass
    assert [record["sample_id"] for record in values(tmp_path)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {"model": "org/other"}, "did not finish, of sums · org/m"),
        (b"", {"evaluation_id": "mine"}, "did not finish"),
        (b"{}\n", {}, "is damaged at line 2"),
        (b"\0\0\n", {}, "is damaged at line 2"),
    ],
)
def test_a_partial_file_of_something_else_is_refused(
    tmp_path: Path, content: bytes, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ZeroDivisionError), writer(tmp_path) as one:
        one.add(sample_id=1, **ASKED, output="4", score=1)
        raise ZeroDivisionError
    with partial(tmp_path).open("ab") as file:
        file.write(content)
    before = partial(tmp_path).read_bytes()
    with pytest.raises(fastrec.UsageError, match=message), writer(tmp_path, **options):
        pass
    assert partial(tmp_path).read_bytes() == before


def test_wrong_use_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(fastrec.UsageError, match="ends with one of"):
        writer(tmp_path, "run.json")
    with pytest.raises(fastrec.UsageError, match="local file"):
        fastrec.Writer("s3://bucket/run.jsonl.zst", evaluation="e", model="m")
    with writer(tmp_path) as one, pytest.raises(LockedError), writer(tmp_path):
        pass
    with pytest.raises(fastrec.UsageError, match="inside of the `with` block"):
        one.add(sample_id=1, **ASKED, output="4", score=1)
    with pytest.raises(fastrec.UsageError, match="is complete"), writer(tmp_path):
        pass


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """If only half of a line can be written, it is cut off, and the next `add` starts a new one."""

    with writer(tmp_path) as one:
        one.add(sample_id=1, **ASKED, output="4", score=1)
        log = one._log

        def write_half(data: bytes) -> int:
            log.write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

        one._log = SimpleNamespace(write=write_half, truncate=log.truncate)  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space"):
            one.add(sample_id=2, **ASKED, output="4", score=1)
        one._log = log
        one.add(sample_id=3, **ASKED, output="4", score=1)
    assert [record["sample_id"] for record in values(tmp_path)] == ["1", "3"]


def test_threads_and_tasks_may_add(tmp_path: Path) -> None:
    """Records of eight threads and of many asyncio tasks are all there, none of them torn."""

    def add(one: fastrec.Writer, thread: int) -> None:
        for number in range(40):
            one.add(
                sample_id=f"{thread}-{number}", input="é" * number, output="x" * number, score=1
            )

    async def add_later(one: fastrec.Writer, number: int) -> None:
        await asyncio.sleep(0)
        one.add(sample_id=f"task-{number}", **ASKED, output="4", score=1)

    async def tasks(one: fastrec.Writer) -> None:
        await asyncio.gather(*(add_later(one, number) for number in range(40)))

    with writer(tmp_path) as one:
        threads = [threading.Thread(target=add, args=(one, thread)) for thread in range(8)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks(one))
        for thread in threads:
            thread.join()
    expected = {f"{thread}-{number}" for thread in [*range(8), "task"] for number in range(40)}
    assert sorted(record["sample_id"] for record in values(tmp_path)) == sorted(expected)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT, st.floats(0, 1)), max_size=5))
@settings(max_examples=examples(12, 500))
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, samples: list[tuple[str, str, str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with writer(folder) as one:
        for name, asked, said, score in samples:
            one.add(sample_id=name, input=asked, reference=said, output=said, score=score)
    found = [
        (one["sample_id"], one["input"]["raw"], one["output"]["raw"][0], one["evaluation"]["score"])
        for one in values(folder)
    ]
    assert found == samples


def test_the_harness_of_the_page_works_with_all_commands(tmp_path: Path) -> None:
    """The shard of the harness in docs/records.md goes through `normalize`, `stats` and `view`."""
    blocks = [block for page in PAGES if page.name == "records.md" for block in blocks_of(page)]
    for block in blocks:
        if block.language == "python":
            exec(
                compile(block.text.replace('"runs/', f'"{tmp_path}/runs/'), block.name, "exec"), {}
            )
    summary = fastrec.normalize(tmp_path / "runs", tmp_path / "corpus")
    assert (summary.line_counts.lines, summary.line_counts.kept) == (3, 3)
    stats = fastrec.stats(tmp_path / "corpus")
    assert [one.evaluation_name for one in stats.evaluations] == ["booking", "capitals"]
    with serving(tmp_path / "corpus") as view:
        assert "What is the capital of Peru?" in Client(view.address).page(
            "/questions?evaluation=capitals"
        )
