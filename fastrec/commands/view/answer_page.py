"""One answer: its verdict and figures, the conversation, where it comes from, and its record.

The button "judged wrongly" appends a label to a file, as `normalize --labels` reads it. The file is
read again for every page, so lines that somebody else adds count, too. A label is written at once,
at the end of the file. So two servers may share a file.
"""

import errno
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import QuestionRow
from fastrec.answers.transcript import Call, Transcript, Turn
from fastrec.commands.view.addresses import AnswerName, PageState, QuestionAddresses
from fastrec.commands.view.layout import (
    Frame,
    answer_facts,
    block,
    facts,
    folded,
    key_link,
    verdict,
)
from fastrec.commands.view.question_page import (
    MARKS_SWITCH,
    NumberedAnswer,
    label_text,
    question_card,
    repeat_text,
)
from fastrec.commands.view.rendering import render
from fastrec.errors import UsageError, counted
from fastrec.errors import shown as shown_path
from fastrec.html import Html, details, each, html, soft
from fastrec.normalize.corrections import GivenFile, Label, Labeller

_SHORT = 400  # a longer result of a tool, or system prompt, is folded
_LINES = 8
_MEASURE = re.compile(r"token|usage|latency|performance|duration|time|_ms$")
_KNOWN_ROLES = {"user", "assistant", "tool", "system"}


def _error_marks(total: int) -> Iterator[Html]:
    """Yield the marks of the errors of a transcript, each with a link to the next."""
    for number in range(1, total + 1):
        link = None
        if number < total:
            link = html('<a href="#error-{}">next error ↓</a>', number + 1)
        elif total > 1:
            link = Html('<a href="#error-1">first error ↑</a>')
        mark = '<span class="error-mark" id="error-{0}">error {0} of {1} {2}</span>'
        yield html(mark, number, total, link)


class _Text(NamedTuple):
    """How the texts of a transcript are shown: cut to `most` characters, with a link to `whole`."""

    most: int | None
    whole: str | None
    errors: Iterator[Html]

    def block(self, text: str, class_: str = "text") -> Html:
        return block(text, self.most, self.whole, class_=class_)

    def folded(self, title: str, text: str, class_: str = "text") -> Html:
        return folded(title, text, self.most, self.whole, class_=class_)

    def list(self, values: Mapping[str, str], class_: str = "text") -> Html:
        blocks = ((key, self.block(value, class_)) for key, value in values.items())
        rows = each("<div><dt>{}</dt><dd>{}</dd></div>", blocks)
        return html('<dl class="arguments">{}</dl>', rows)


def _conversation(transcript: Transcript, text: _Text) -> Html:
    turns = (
        _turn(turn, text)
        for turn in transcript.turns
        # The result of a call is shown with the call.
        if not turn.is_result or turn.reasoning or turn.calls or turn.other
    )
    return html('<ol class="turns">{}</ol>', turns)


def _turn(turn: Turn, text: _Text) -> Html:
    role = turn.role if turn.role in _KNOWN_ROLES else "other"
    failed = turn.failed and not turn.is_result
    said = None
    header = html(
        '<header><b class="role">{role}</b>'
        '<a href="#turn-{number}" class="soft">#{number}</a>{measured}{error}</header>',
        role=turn.role or "no role",
        number=turn.number,
        measured=_measured(turn.other),
        error=next(text.errors) if failed else None,
    )
    if turn.text and not turn.is_result:
        # A system prompt is the same for all answers, most often.
        if turn.role == "system" and _is_long(turn.text):
            said = text.folded("Prompt", turn.text)
        else:
            said = block(turn.text, text.most, text.whole, make=render)
    return html(
        '<li class="turn {}" id="turn-{}">{}{}{}{}{}</li>',
        f"{role} failed" if failed else role,
        turn.number,
        header,
        text.folded("Reasoning", turn.reasoning) if turn.reasoning else None,
        said,
        [_call(call, text) for call in turn.calls],
        _others(turn.other),
    )


def _measured(other: Mapping[str, str]) -> Html:
    """Show the tokens and times of a turn, which no schema version has a field for."""
    found: dict[str, object] = {}
    for key, text in other.items():
        if _MEASURE.search(key):
            try:
                found |= msgspec.json.decode(text, type=dict[str, object])
            except (msgspec.MsgspecError, RecursionError):  # it is a number or a text
                found[key] = text
    return facts(found.items())


def _call(call: Call, text: _Text) -> Html:
    return html(
        '<section class="{}"><header><span aria-hidden="true">⚙ </span><b>{}</b>'
        '<span class="soft">{}</span>{}</header>{}{}{}</section>',
        "call failed" if call.failed else "call",
        call.name or "no name",
        call.id,
        next(text.errors) if call.failed else None,
        text.list(call.arguments, "text code") if call.arguments else None,
        _result(call, text),
        _others(call.other),
    )


def _result(call: Call, text: _Text) -> Html:
    """Show what a tool returned; a long result is folded, an error never."""
    if call.result is None:
        return soft("no result")
    if _is_long(call.result) and not call.failed:
        return text.folded("Result", call.result, "text code")
    return html('<p class="soft label">Result</p>{}', text.block(call.result, "text code"))


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or text.count("\n") >= _LINES


def _others(values: Mapping[str, str]) -> Html | None:
    if not values:
        return None
    listed = _Text(_SHORT, None, iter(())).list(values)
    return details(counted(len(values), "unknown key"), listed, class_="folded")


_MOST = 100_000  # a longer text is cut, until it is asked for


def answer_page(
    frame: Frame, index: QuestionTable, state: PageState, row: QuestionRow, shown: NumberedAnswer
) -> Html:
    here = QuestionAddresses(frame.addresses, state, row.name)
    answer = shown.answer
    transcript = shown.transcript
    errors = sum(call.failed for turn in transcript.turns for call in turn.calls)
    errors += sum(turn.failed and not turn.is_result for turn in transcript.turns)
    most = None if state.whole else _MOST
    text = _Text(most, here.answer(shown.name, whole=True), _error_marks(errors))
    above = QuestionAddresses(frame.addresses, replace(state, show=()), row.name)
    title = str(row.sample_id)
    return frame.page(
        f"{answer.model_id} · {title}",
        [
            (state.query.evaluation_name, here.table(state)),
            (title, above.to(whole=False)),
            (answer.model_id, None),
        ],
        _links(here, index, shown.name),
        html(
            '<div class="columns reading"><section class="asked">{}</section>'
            '<section class="said">{}{}{}{}{}{}{}'
            '<p><a href="{}">The record as JSON</a> ({:,} bytes)</p></section></div>',
            question_card(above, transcript),
            _header(frame, here, shown),
            html('<p class="error-text">Error: {}</p>', answer.error) if answer.error else None,
            _links_to_errors(errors) if errors else None,
            _conversation(transcript, text),
            _extracted(transcript, text),
            _table("Metadata", transcript.metadata, text),
            _table("Unknown keys", transcript.other, text),
            here.answer(shown.name, "record"),
            len(answer.line),
        ),
        # The box that searches within the page needs the script.
        tools=Html(
            '<span class="scripted-only within"><input type="search" id="within" '
            'placeholder="search here" aria-label="Search within the page" data-key="/">'
            '<output id="hits"></output></span>'
        ),
    )


def _header(frame: Frame, here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    answer = shown.answer
    said = [("evaluation_id", answer.evaluation_id), ("sample_id", str(answer.sample_id))]
    if answer.source:
        said.append(("source", f"{answer.source.shard}, line {answer.source.line:,}"))
    return html(
        '<header><h1><a href="{}">{}</a></h1>{}<p class="line">{}{}</p>'
        '<p class="soft line">{}</p>{}</header>',
        here.models("model", answer.model_id),
        answer.model_id,
        _repeats(here, shown) if shown.total > 1 else None,
        verdict(answer.outcome, shown.score, shown.share),
        answer_facts(answer),
        each("<span>{} <code>{}</code></span>", said),
        label_form(here, shown) if frame.can_label and shown.can_label else None,
    )


def _extracted(transcript: Transcript, text: _Text) -> Html | None:
    if not any(transcript.extracted):
        return None
    values = (text.block(value, "text code") for value in transcript.extracted)
    return html('<section class="card"><h2>Extracted answer</h2>{}</section>', values)


def _links(here: QuestionAddresses, index: QuestionTable, chosen: AnswerName) -> Html:
    """Link to answers of the same model to other questions, and of other models to this one."""
    query = here.state.query
    first = AnswerName(chosen.model)
    rows = index.neighbours(query, here.name, chosen.model)
    before, after = (here.answer(first, name=row.name) if row else None for row in rows)
    outcomes = index.outcomes(query, here.name)
    models = [model for model, (outcome, _) in outcomes.items() if outcome != "none"]
    number = models.index(chosen.model) if chosen.model in models else 0

    def model(position: int) -> str | None:
        return here.answer(AnswerName(models[position])) if 0 <= position < len(models) else None

    links = (
        key_link("← Previous question", "k p", before, rel="prev"),
        key_link("Next question →", "j n", after, rel="next"),
        key_link("← Model", "h", model(number - 1)),
        key_link("Model →", "l", model(number + 1)),
        MARKS_SWITCH,
    )
    return html('<nav class="steps" aria-label="Questions and models">{}</nav>', links)


def _repeats(here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    links = []
    for number in range(1, shown.total + 1):
        address = here.answer(AnswerName(shown.name.model, number))
        link = html('<a href="{}">{:,}</a>', address, number)
        if number == shown.name.ordinal:
            link = html('<b aria-current="page">{:,}</b>', number)
        links.append(link)
    return html(
        '<div class="line"><span class="repeat">{}</span>'
        '<span class="tabs">Answers of this model: {}</span></div>',
        repeat_text(shown),
        links,
    )


def _links_to_errors(errors: int) -> Html:
    return html(
        '<p class="line" id="error-0">{} with an error. '
        '<a href="#error-1" class="button" data-key="e">Go to the first <kbd>e</kbd></a></p>',
        f"{counted(errors, 'tool call')} {'ends' if errors == 1 else 'end'}",
    )


def _table(title: str, values: Mapping[str, str], text: _Text) -> Html | None:
    if not values:
        return None
    summary = html('{} <span class="soft">{}</span>', title, counted(len(values), "value"))
    return details(summary, text.list(values), class_="card folded")


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
            raise UsageError(f"{shown_path(path)} cannot be written: {exc.strerror}") from exc
        self.read()

    def read(self) -> Labeller:
        with self._lock:
            return Labeller(GivenFile.at(self._path))

    def add(self, label: Label) -> None:
        fields = msgspec.structs.asdict(label)
        values = {name: value for name, value in fields.items() if value not in (None, {})}
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


def label_form(here: QuestionAddresses, shown: NumberedAnswer) -> Html:
    """Make the form that sends the opposite of the verdict, or of the label that there is."""
    before = shown.answer.outcome == "right"
    label = shown.label
    labelled = label.is_correct if label and label.is_correct is not None else before
    score = Html('<input name="score" type="number" step="any" placeholder="score">')
    return html(
        '<form method="post" action="{}" class="line judging">'
        '<button class="button" name="is_correct" value="{}">{}: it is {}</button>{}'
        '<input name="reason" maxlength="1000" placeholder="reason (optional)" '
        'aria-label="Reason">{}</form>',
        here.answer(shown.name, "label"),
        str(not labelled).lower(),
        "Judged wrongly" if labelled == before else "The verdict was right",
        "wrong" if labelled else "right",
        score if shown.answer.score not in (0, 1) else None,
        html("<span>{}</span>", label_text(label)) if label else None,
    )
