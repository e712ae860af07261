"""Labels of answers, as `normalize --labels` reads them: the button "judged wrongly" appends one to a file.

The file is read again for every page, so lines that somebody else adds count, too. A label is written at once, at the
end of the file. So two servers may share a file.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec

from fastrec.answers.table import QuestionRow
from fastrec.commands.view.addresses import QuestionAddresses
from fastrec.commands.view.question_page import NumberedAnswer, label_text
from fastrec.errors import UsageError, shown
from fastrec.html import Html, tag
from fastrec.normalize.corrections import GivenFile, Label, Labeller


class LabelFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._append(b"")  # a new file is made now, and one that cannot be written is refused
        except OSError as exc:
            raise UsageError(f"{shown(path)} cannot be written: {exc.strerror}") from exc
        self.read()

    def read(self) -> Labeller:
        with self._lock:
            return Labeller(GivenFile.at(self._path))

    def add(self, label: Label) -> None:
        values = {name: value for name, value in msgspec.structs.asdict(label).items() if value not in (None, {})}
        self._append(msgspec.json.encode(values) + b"\n")

    def _append(self, line: bytes) -> None:
        with self._lock, open(self._path, "ab+", buffering=0) as file:  # noqa: PTH123
            if line and file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    is_correct: bool
    score: Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)] | None = None
    reason: str = ""


def new_label(row: QuestionRow, one: NumberedAnswer, form: bytes) -> Label:
    """Make a label from what the form of an answer sends; UsageError if it is nothing that the form can send."""
    try:
        pairs = parse_qsl(form.decode("ascii"), strict_parsing=True, errors="strict", max_num_fields=3)
        given = msgspec.convert(dict(pairs), _Form, strict=False)
    except (msgspec.MsgspecError, ValueError) as exc:
        raise UsageError(f"This is no label: {exc}") from exc
    if not one.can_label:
        raise UsageError("This answer has an error, or cannot be told from others of its model")
    return Label(
        evaluation=row.evaluation_name,
        model=one.answer.model_id,
        question=row.sample_hash,
        sample_id=one.answer.sample_id if row.name != row.sample_hash else None,
        metric=row.metric,
        trial=one.trial,
        is_correct=given.is_correct,
        score=given.score,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=given.reason.strip() or None,
    )


def label_form(here: QuestionAddresses, one: NumberedAnswer) -> Html:
    """Make the form that sends the opposite of the verdict, or of the label that there is already."""
    before = one.answer.outcome == "right"
    labelled = one.label.is_correct if one.label and one.label.is_correct is not None else before
    said = "Judged wrongly" if labelled == before else "The verdict was right"
    sent = {"name": "is_correct", "value": str(not labelled).lower()}
    is_graded = one.answer.score not in (0, 1)
    return tag(
        "form",
        tag("button", f"{said}: it is {'wrong' if labelled else 'right'}", class_="button", **sent),
        tag("input", name="score", type="number", step="any", placeholder="score") if is_graded else None,
        tag("input", name="reason", maxlength=1_000, placeholder="reason (optional)", aria_label="Reason"),
        tag("span", label_text(one.label)) if one.label else None,
        method="post",
        action=here.answer(one.name, "label"),
        class_="line judging",
    )
