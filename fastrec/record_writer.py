"""`fastrec.Writer`: the records of your own harness as a shard.

    add ──▶ judge ──▶ one line in .NAME.fastrec-partial ──▶ end of the `with` block: compress, and
    publish as NAME

A line is in the partial file when `add` returns. So a run that was killed loses no record: the next
one with the same name continues after the last complete line.
"""

import os
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, Self

from fastrec.api import spelled
from fastrec.corpus.lock import locked
from fastrec.corpus.writer import SUFFIXES, ShardWriter
from fastrec.errors import UsageError, naming, shown
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.parameters import AnyPath
from fastrec.schemas.newest import SCHEMA
from fastrec.schemas.schema import JsonObject, without_nulls
from fastrec.schemas.view import REFUSALS, view_decoder
from fastrec.storage import is_url
from fastrec.storage.local import LOCAL, open_private

_BLOCK = 1 << 20


# Decodes what a run that continues has to know of a record.
_decode_ids = view_decoder(
    evaluation_id=str,
    model_id=str,
    evaluation_name=str,
    sample_id=str,
    evaluation_result_id=(str, ""),
)


class Writer:
    """Writes the records of one run of one model to a shard; a context manager.

    The shard appears at the end of the `with` block, complete and compressed. If the block raises,
    or the process is killed, there is no shard: the next Writer of the same path continues with the
    records so far. `add` may be called by several threads and asyncio tasks.
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        evaluation: str,
        model: str,
        evaluation_id: str | None = None,
    ) -> None:
        """Prepare a shard; its name ends with `.jsonl.zst`, `.jsonl.gz` or `.jsonl`.

        `evaluation_id` identifies the run. By default it consists of evaluation, model and the time
        of the start.
        """
        self._path = Path(path)
        self._evaluation = evaluation
        self._model = model
        self._evaluation_id = evaluation_id
        self._compression = next(
            (name for name, end in SUFFIXES.items() if self._path.name.endswith(end)), None
        )
        if self._compression is None or is_url(os.fspath(path)):
            endings = ", ".join(SUFFIXES.values())
            raise UsageError(
                f"{shown(os.fspath(path))}: name a local file that ends with one of {endings}"
            )
        self._partial = str(self._path.with_name(f".{self._path.name}.fastrec-partial"))
        self._making = self._path.with_name(f".{self._path.name}.fastrec-making")
        self._judge = Judge(JudgeSettings(schema=SCHEMA.name, known_input_bytes=0))
        self._lock = Lock()
        self._stack: ExitStack | None = None
        self._log: FileIO
        self._size: int
        self._counts = defaultdict[str, Counter[str]](Counter)  # by sample_id and metric

    def add(
        self,
        *,
        sample_id: str | int,
        input: str,  # noqa: A002 - the name of the field
        reference: str | Sequence[str] = (),
        output: str | Sequence[str] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        score: float | None = None,
        is_correct: bool | None = None,
        metric: str | None = None,
        formatted: str | None = None,
        choices: Sequence[str] | None = None,
        reasoning_trace: str | Sequence[str] | None = None,
        answer_attribution: Sequence[Mapping[str, Any]] = (),
        interaction_type: str | None = None,
        token_usage: Mapping[str, int] | None = None,
        performance: Mapping[str, Any] | None = None,
        error: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a record: what was asked, what the model said, and its score.

        A conversation has `messages`, anything else an `output`.

        Without `is_correct`, a score of 1 is correct. A record with an `error` needs no score and
        counts as 0. Values in `metadata` and in arguments of tool calls that are not text become
        JSON text. The kind of interaction, the numbers of turns and tool calls, and `turn_idx` of
        messages are filled in.

        Raises:
            InvalidRecordError: The record is not valid by the schema. Nothing was written.
            UsageError: An id or a text is bytes, or this is not inside of the `with` block.
        """
        if error is not None:
            error = error or "an error without a message"  # as of `TimeoutError()`
            score = 0.0 if score is None else score
            # the schema wants an output
            output = () if output is None and messages is None else output
        evaluation = {"score": float(score) if isinstance(score, bool) else score}
        evaluation["is_correct"] = score == 1 if is_correct is None else is_correct
        kind = "single_turn"
        turns: Any = messages
        if messages is not None:
            with suppress(AttributeError, TypeError):  # the judge says what is wrong
                turns = [_turn(number, message) for number, message in enumerate(messages)]
                calls = sum(len(turn.get("tool_calls") or ()) for turn in turns)
                kind = "agentic" if calls else "multi_turn"
                evaluation |= _given(num_turns=len(turns) or None, tool_calls_count=calls)
        record = _given(
            schema_version=SCHEMA.label,
            evaluation_id=self._evaluation_id,
            model_id=self._model,
            evaluation_name=self._evaluation,
            evaluation_result_id=metric,
            sample_id=str(sample_id) if type(sample_id) is int else sample_id,
            interaction_type=interaction_type or kind,
            input=_given(
                raw=input, formatted=formatted, reference=_listed(reference), choices=choices
            ),
            output=_given(raw=_listed(output), reasoning_trace=_listed(reasoning_trace)) or None,
            messages=turns,
            answer_attribution=answer_attribution,
            evaluation=evaluation,
            token_usage=token_usage,
            performance=performance,
            error=error,
            metadata=_texts(metadata),
        )
        line = spelled(record)
        with self._lock:
            self._append(line, str(sample_id), metric or "")

    def count(self, sample_id: str | int, metric: str | None = None) -> int:
        """Count the records of a sample so far: all, or those of one metric.

        Those of a run that did not finish, and that this one continues, are included.

        A run that continues asks this to skip samples that it has.
        """
        counts = self._counts[str(sample_id)]
        return counts.total() if metric is None else counts[metric]

    def _append(self, line: bytes, sample_id: str, metric: str) -> None:
        if self._stack is None:
            raise UsageError("records can only be added inside of the `with` block of a Writer")
        normal = bytearray()
        batch = self._judge.judge_chunk(line, normal)
        for invalid in batch.rejected:
            raise invalid.error()
        try:
            with naming(self._partial):
                rest = memoryview(normal)
                while rest:
                    rest = rest[self._log.write(rest) :]
        except OSError:
            self._log.truncate(self._size)  # a disk may be full in the middle of a line
            raise
        self._size += len(normal)
        self._counts[sample_id][metric] += 1

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(self._path, 0))
            shutil.rmtree(self._making, ignore_errors=True)  # a killed process left it
            if self._path.exists():
                left = f" and {shown(self._partial)}" if LOCAL.exists(self._partial) else ""
                name = shown(str(self._path))
                raise UsageError(f"{name} is complete: name another file, or remove it{left}")
            stack.callback(shutil.rmtree, self._making, ignore_errors=True)
            self._log = open(self._partial, "ab+", 0, opener=open_private)
            stack.callback(self._log.close)
            self._continue()
            self._stack = stack.pop_all()
        return self

    def _continue(self) -> None:
        """Read the records of a run that did not finish, up to its last complete line.

        What comes after that line is cut off.
        """
        first = None
        self._size = 0
        self._counts.clear()
        with open(self._partial, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    ids = _decode_ids(line)
                except REFUSALS as exc:
                    raise UsageError(
                        f"{shown(self._partial)} is damaged at line {number:,}: remove it"
                    ) from exc
                first = first or ids
                self._size += len(line)
                self._counts[ids.sample_id][ids.evaluation_result_id] += 1
        self._log.truncate(self._size)
        if first is None:
            self._evaluation_id = (
                self._evaluation_id or f"{self._evaluation}/{self._model}/{int(time.time())}"
            )
            return
        wanted = self._evaluation, self._model, self._evaluation_id or first.evaluation_id
        existing = first.evaluation_name, first.model_id, first.evaluation_id
        if wanted != existing:
            raise UsageError(
                f"{shown(self._partial)} has records of a run that did not finish, of "
                f"{' · '.join(existing)}, "
                f"not of {' · '.join(wanted)}: continue that run, or remove the file"
            )
        self._evaluation_id = first.evaluation_id

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._lock:
            assert self._stack
            stack = self._stack
            self._stack = None
        with stack:
            if kind is None:
                self._publish()
            elif not self._size:
                os.unlink(self._partial)  # there is nothing to continue

    def _publish(self) -> None:
        """Make the shard in a hidden directory.

        A killed process leaves nothing that looks like a shard.
        """
        assert self._compression
        unpublished = self._making / "shard"
        with naming(str(self._path)):
            self._making.mkdir()
            with (
                LOCAL.open_reader(self._partial) as lines,
                ShardWriter(str(unpublished), self._compression, 3) as shard,
            ):
                while block := lines.read(_BLOCK):
                    shard.write([block])
                shard.finish()
            unpublished.replace(self._path)
        os.unlink(self._partial)


def _given(**fields: Any) -> JsonObject:
    for name, value in fields.items():
        if isinstance(value, bytes):  # the encoder would make Base64 of it
            raise UsageError(f"{name} must be text, not {value!r}")
    return without_nulls(fields)


def _listed(text: str | Sequence[str] | None) -> Any:
    return [text] if isinstance(text, str) else text


def _texts(values: Any) -> Any:
    """Make values text, as the schema wants it: others than text become JSON."""
    if not isinstance(values, Mapping):
        return values
    return {
        name: value if isinstance(value, str) else spelled(value).decode()
        for name, value in values.items()
    }


def _turn(number: int, message: Mapping[str, Any]) -> JsonObject:
    turn = {"turn_idx": number, **message}
    if calls := turn.get("tool_calls"):
        turn["tool_calls"] = [
            call | _given(arguments=_texts(call.get("arguments"))) for call in calls
        ]
    if isinstance(turn.get("tool_call_id"), str):
        turn["tool_call_id"] = [turn["tool_call_id"]]
    return turn
