"""One answer: its verdict and figures, the conversation, where it comes from, and its record.

The button "judged wrongly" appends a label to a file, as `normalize --labels` reads it. The file is
read again for every page, so lines that somebody else adds count, too. A label is written at once,
at the end of the file. So two servers may share a file.
"""

import errno
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from fastrec.answers.table import QuestionRow
from fastrec.commands.view.addresses import AnswerName
from fastrec.commands.view.question_page import Asked, NumberedAnswer
from fastrec.errors import UsageError
from fastrec.errors import shown as shown_path
from fastrec.normalize.corrections import GivenFile, Label, Labeller
from fastrec.pages.html import Html

_MEASURE = re.compile(r"token|usage|latency|performance|duration|time|_ms$")


def answer_page(here: Asked, shown: NumberedAnswer) -> Html:
    site, index, _, state, row = here
    above = here._replace(state=replace(state, show=()))
    model = shown.name.model
    # Answers of the same model to other questions, and of other models to this one.
    rows = index.neighbours(state.query, row.name, model)
    before, after = here.neighbours(rows, "answer", show=(AnswerName(model),), differences=False)
    outcomes = index.outcomes(state.query, row.name)
    models = [name for name, (outcome, _) in outcomes.items() if outcome != "none"]
    place = models.index(model) if model in models else 0
    title = str(row.sample_id)
    return site.page(
        "answer",
        f"{model} · {title}",
        [
            (state.query.evaluation_name, site.table(state)),
            (title, above.to(whole=False)),
            (model, None),
        ],
        here=here,
        above=above,
        shown=shown,
        next_error=count(1).__next__,
        before=before,
        after=after,
        better=here.model_answer(models[place - 1]) if place else None,
        worse=here.model_answer(models[place + 1]) if place + 1 < len(models) else None,
        measured=_measured,
    )


def _measured(other: Mapping[str, str]) -> dict[str, object]:
    """The tokens and times of a turn, which no schema version has a field for."""
    measures: dict[str, object] = {}
    for key, text in other.items():
        if _MEASURE.search(key):
            try:
                measures |= msgspec.json.decode(text, type=dict[str, object])
            except (msgspec.MsgspecError, RecursionError):  # it is a number or a text
                measures[key] = text
    return measures


def record_text(shown: NumberedAnswer) -> str:
    """The record as indented JSON, in which characters that cannot be seen are escapes."""
    text = msgspec.json.format(shown.answer.line, indent=2).decode()
    odd = {char for char in set(text) if not char.isprintable() and char not in "\n "}
    escapes = {
        ord(char): re.sub("....", r"\\u\g<0>", char.encode("utf-16-be").hex()) for char in odd
    }
    return text.translate(escapes)


class LabelFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        try:
            self._append(b"")  # a new file is made now, and one that cannot be written is refused
        except OSError as exc:
            raise UsageError(f"{shown_path(path)} cannot be written: {exc.strerror}") from exc
        self.read()

    def read(self) -> Labeller:
        with self._lock:
            return Labeller(GivenFile.at(self._path))

    def add(self, label: Label) -> None:
        self._append(msgspec.json.encode(label) + b"\n")

    def _append(self, line: bytes) -> None:
        with self._lock, open(self._path, "ab+", buffering=0) as file:
            if (end := file.seek(0, os.SEEK_END)) and line:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            if file.write(line) != len(line):
                file.truncate(end)  # half a line would spoil the file
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    is_correct: bool
    score: Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)] | None = (
        None
    )
    reason: str = ""


def new_label(row: QuestionRow, shown: NumberedAnswer, form: bytes) -> Label:
    """Make a label from what the form of an answer sends.

    UsageError if it is nothing that the form can send.
    """
    try:
        pairs = parse_qsl(
            form.decode("ascii"), strict_parsing=True, errors="strict", max_num_fields=3
        )
        given = msgspec.convert(dict(pairs), _Form, strict=False)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise UsageError(f"This is no label: {exc}") from exc
    if not shown.can_label:
        raise UsageError("This answer has an error, or cannot be told from others of its model")
    return Label(
        evaluation=row.evaluation_name,
        model=shown.answer.model_id,
        question=row.sample_hash,
        sample_id=shown.answer.sample_id if row.name != row.sample_hash else None,
        metric=row.metric,
        trial=shown.trial,
        is_correct=given.is_correct,
        score=given.score,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=given.reason.strip() or None,
    )
