"""One answer: its verdict and figures, the conversation, where the record comes from, and the record itself.

The button "judged wrongly" appends a label to a file, as `normalize --labels` reads it. The file is
read again for every page, so lines that somebody else adds count, too. A label is written at once,
at the end of the file. So two servers may share a file.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import QuestionRow
from fastrec.answers.transcript import Call, Transcript, Turn
from fastrec.commands.view.addresses import AnswerName, PageState, QuestionAddresses
from fastrec.commands.view.layout import Frame, answer_text, block, facts, folded, key_link, verdict
from fastrec.commands.view.question_page import (
    NumberedAnswer,
    label_text,
    markdown_switch,
    question_card,
    repeat_text,
)
from fastrec.errors import UsageError, counted, shown
from fastrec.html import Html, joined, soft, tag
from fastrec.normalize.corrections import GivenFile, Label, Labeller

_SHORT: Final = 400  # a longer result of a tool, or system prompt, is folded
_LINES: Final = 8
_MEASURE: Final = re.compile(r"token|usage|latency|performance|duration|time|_ms$")
_KNOWN_ROLES: Final = {"user", "assistant", "tool", "system"}


def _error_marks(total: int) -> Iterator[Html]:
    for number in range(1, total + 1):
        following = f"#error-{number + 1}" if number < total else "#error-1"
        text = "next error ↓" if number < total else "first error ↑"
        link = tag("a", text, href=following) if total > 1 else None
        yield tag(
            "span", f"error {number} of {total} ", link, class_="error-mark", id=f"error-{number}"
        )


def _conversation(
    transcript: Transcript, errors: int, most: int | None, whole: str, *, plain: bool
) -> Html:
    """Show all turns; texts with more than `most` characters are cut, with a link to the whole."""
    marks = _error_marks(errors)
    turns = [
        _turn(turn, marks, most, whole, plain=plain or turn.role != "assistant")
        for turn in transcript.turns
        # The result of a call is shown with the call.
        if not turn.is_result or turn.reasoning or turn.calls or turn.other
    ]
    return tag("ol", *turns, class_="turns")


def _turn(turn: Turn, errors: Iterator[Html], most: int | None, whole: str, *, plain: bool) -> Html:
    role = turn.role if turn.role in _KNOWN_ROLES else "other"
    failed = turn.failed and not turn.is_result
    parts = [
        tag(
            "header",
            tag("b", turn.role or "no role", class_="role"),
            tag("a", f"#{turn.number}", href=f"#turn-{turn.number}", class_="soft"),
            _measured(turn.other),
            next(errors) if failed else None,
        )
    ]
    if turn.reasoning:
        parts.append(folded("Reasoning", turn.reasoning, most, whole))
    if turn.text and not turn.is_result:
        is_folded = turn.role == "system" and _is_long(
            turn.text
        )  # the same for all answers, most often
        said = folded("Prompt", turn.text, most, whole) if is_folded else None
        parts.append(said or answer_text(turn.text, most, whole, plain=plain))
    parts += [_call(call, errors, most, whole) for call in turn.calls]
    parts.append(_others(turn.other))
    class_ = f"turn {role}" + (" failed" if failed else "")
    return tag("li", *parts, class_=class_, id=f"turn-{turn.number}")


def _measured(other: Mapping[str, str]) -> Html:
    """Show the tokens and times of a turn, which no schema version has a field for."""
    found: dict[str, object] = {}
    for key, text in other.items():
        if _MEASURE.search(key):
            try:
                found |= msgspec.json.decode(text, type=dict[str, object])
            except (msgspec.MsgspecError, RecursionError):  # it is a number or a text
                found[key] = text
    return tag(
        "span",
        *(tag("span", f"{key} ", tag("b", str(found[key]))) for key in found),
        class_="facts",
    )


def _call(call: Call, errors: Iterator[Html], most: int | None, whole: str) -> Html:
    head = tag(
        "header",
        tag("span", "⚙ ", aria_hidden="true"),
        tag("b", call.name or "no name"),
        tag("span", call.id, class_="soft"),
        next(errors) if call.failed else None,
    )
    listed = _list(call.arguments, most, whole, "text code") if call.arguments else None
    parts = (head, listed, _result(call, most, whole), _others(call.other))
    return tag("section", *parts, class_="call failed" if call.failed else "call")


def _result(call: Call, most: int | None, whole: str) -> Html:
    """Show what a tool returned; a long result is folded, an error never."""
    if call.result is None:
        return soft("no result")
    if _is_long(call.result) and not call.failed:
        return folded("Result", call.result, most, whole, class_="text code")
    return joined(
        tag("p", "Result", class_="soft label"), block(call.result, most, whole, class_="text code")
    )


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or text.count("\n") >= _LINES


def _others(values: Mapping[str, str]) -> Html:
    if not values:
        return Html("")
    title = tag("summary", counted(len(values), "unknown key"))
    return tag("details", title, _list(values, _SHORT), class_="folded")


def _list(
    values: Mapping[str, str], most: int | None, whole: str | None = None, class_: str = "text"
) -> Html:
    rows = (
        (tag("dt", key), tag("dd", block(value, most, whole, class_=class_)))
        for key, value in values.items()
    )
    return tag("dl", *(tag("div", *row) for row in rows), class_="arguments")


_MOST: Final = 100_000  # a longer text is cut, until it is asked for


def answer_page(
    frame: Frame, index: QuestionTable, state: PageState, row: QuestionRow, shown: NumberedAnswer
) -> Html:
    here = QuestionAddresses(frame.addresses, state, row.name)
    answer = shown.answer
    transcript = shown.transcript
    whole = here.answer(shown.name, whole=True)
    most = None if state.whole else _MOST
    extracted = (block(value, most, whole, class_="text code") for value in transcript.extracted)
    record = here.answer(shown.name, "record")
    errors = sum(call.failed for turn in transcript.turns for call in turn.calls)
    errors += sum(turn.failed and not turn.is_result for turn in transcript.turns)
    body = [
        tag(
            "header",
            tag("h1", answer.model_id),
            _repeats(here, shown) if shown.total > 1 else None,
            tag("p", verdict(answer.outcome), facts(answer, shown.score), class_="line"),
            _attributes(shown),
            label_form(here, shown) if frame.can_label and shown.can_label else None,
        ),
        tag("p", "Error: ", answer.error, class_="error-text") if answer.error else None,
        _links_to_errors(errors) if errors else None,
        _conversation(transcript, errors, most, whole, plain=state.plain),
        tag("section", tag("h2", "Extracted answer"), *extracted, class_="card")
        if any(transcript.extracted)
        else None,
        _table("Metadata", transcript.metadata, most, whole) if transcript.metadata else None,
        _table("Unknown keys", transcript.other, most, whole) if transcript.other else None,
        tag("p", tag("a", "The record as JSON", href=record), f" ({len(answer.line):,} bytes)"),
    ]
    above = QuestionAddresses(frame.addresses, replace(state, show=()), row.name)
    asked = tag("section", question_card(above, transcript), class_="asked")
    title = str(row.sample_id)
    return frame.page(
        f"{answer.model_id} · {title}",
        [
            (state.query.evaluation_name, here.table(state)),
            (title, above.to(whole=False)),
            (answer.model_id, None),
        ],
        _links(here, index, shown.name),
        tag("div", asked, tag("section", *body, class_="said"), class_="columns reading"),
        tools=_search(),
    )


def _links(here: QuestionAddresses, index: QuestionTable, chosen: AnswerName) -> Html:
    """Link to the same model's answers to other questions, and to other models' answers to this one."""
    query = here.state.query
    one = AnswerName(chosen.model)
    rows = index.neighbours(query, here.name, chosen.model)
    before, after = (here.answer(one, name=row.name) if row else None for row in rows)
    models = [
        model for model, outcome in index.outcomes(query, here.name).items() if outcome != "none"
    ]
    number = models.index(chosen.model) if chosen.model in models else 0

    def model(position: int) -> str | None:
        return here.answer(AnswerName(models[position])) if 0 <= position < len(models) else None

    return tag(
        "nav",
        key_link("← Previous question", "k p", before, rel="prev"),
        key_link("Next question →", "j n", after, rel="next"),
        key_link("← Model", "h", model(number - 1)),
        key_link("Model →", "l", model(number + 1)),
        markdown_switch(here, "answer"),
        class_="steps",
        aria_label="Questions and models",
    )


def _repeats(here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    others = (
        tag("a", f"{number:,}", href=here.answer(AnswerName(shown.name.model, number)))
        if number != shown.name.ordinal
        else tag("b", f"{number:,}", aria_current="page")
        for number in range(1, shown.total + 1)
    )
    links = tag("span", "Answers of this model: ", *others, class_="tabs")
    return tag("div", tag("span", repeat_text(shown), class_="repeat"), links, class_="line")


def _attributes(shown: NumberedAnswer) -> Html:
    answer = shown.answer
    said = [("evaluation_id", answer.evaluation_id), ("sample_id", str(answer.sample_id))]
    if answer.source:
        said.append(("source", f"{answer.source.shard}, line {answer.source.line:,}"))
    return tag(
        "p",
        *(tag("span", f"{name} ", tag("code", value)) for name, value in said),
        class_="soft line",
    )


def _links_to_errors(errors: int) -> Html:
    link = tag(
        "a", "Go to the first ", tag("kbd", "e"), href="#error-1", class_="button", data_key="e"
    )
    said = f"{counted(errors, 'tool call')} {'ends' if errors == 1 else 'end'} with an error."
    return tag("p", said, " ", link, class_="line", id="error-0")


def _table(title: str, values: Mapping[str, str], most: int | None, whole: str) -> Html:
    summary = tag("summary", f"{title} ", tag("span", counted(len(values), "value"), class_="soft"))
    return tag("details", summary, _list(values, most, whole), class_="card folded")


def _search() -> Html:
    """Make the box that searches within the page; it needs the script."""
    box = tag(
        "input", type="search", id="within", placeholder="search here", aria_label="Search within the page",
        data_key="/",
    )  # fmt: skip
    return tag("span", box, tag("output", "", id="hits"), class_="scripted-only within")


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
        values = {
            name: value
            for name, value in msgspec.structs.asdict(label).items()
            if value not in (None, {})
        }
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
    score: Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)] | None = (
        None
    )
    reason: str = ""


def new_label(row: QuestionRow, one: NumberedAnswer, form: bytes) -> Label:
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
        tag("input", name="score", type="number", step="any", placeholder="score")
        if is_graded
        else None,
        tag(
            "input",
            name="reason",
            maxlength=1_000,
            placeholder="reason (optional)",
            aria_label="Reason",
        ),
        tag("span", label_text(one.label)) if one.label else None,
        method="post",
        action=here.answer(one.name, "label"),
        class_="line judging",
    )
