"""A conversation as HTML: roles, folded reasoning, tool calls with their results, links from error to error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fastrec.answers.transcript import Call, Transcript, Turn
from fastrec.commands.view.answer_cards import folded
from fastrec.commands.view.texts import block
from fastrec.errors import counted
from fastrec.html import Html, joined, tag

__all__ = ["conversation", "errors_in"]

_SHORT: Final = 400
"""A longer result of a tool, or system prompt, is folded."""
_LINES: Final = 8
_KNOWN_ROLES: Final = {"user", "assistant", "tool", "system"}


class _Errors:
    """Numbers the errors of a page, and links each to the next one."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0

    def mark(self) -> Html:
        self._number += 1
        number = self._number
        following = f"#error-{number + 1}" if number < self._total else "#error-1"
        text = "next error ↓" if number < self._total else "first error ↑"
        link = tag("a", text, href=following) if self._total > 1 else None
        return tag("span", f"error {number} of {self._total} ", link, class_="error-mark", id=f"error-{number}")


def errors_in(transcript: Transcript) -> int:
    """Return how many results of tools are errors."""
    calls = sum(call.failed for turn in transcript.turns for call in turn.calls)
    return calls + sum(turn.failed and not turn.is_result for turn in transcript.turns)


def conversation(transcript: Transcript, most: int | None, whole: str) -> Html:
    """Show all turns; texts with more than `most` characters are cut, with a link to the whole."""
    errors = _Errors(errors_in(transcript))
    turns = [_turn(turn, errors, most, whole) for turn in transcript.turns if not _is_shown_before(turn)]
    return tag("ol", *turns, class_="turns")


def _is_shown_before(turn: Turn) -> bool:
    """Return whether a turn has nothing but the result of a call, which is shown with the call."""
    return turn.is_result and not turn.reasoning and not turn.calls and not turn.other


def _turn(turn: Turn, errors: _Errors, most: int | None, whole: str) -> Html:
    role = turn.role if turn.role in _KNOWN_ROLES else "other"
    failed = turn.failed and not turn.is_result
    parts = [
        tag(
            "header",
            tag("b", turn.role or "no role", class_="role"),
            tag("a", f"#{turn.number}", href=f"#turn-{turn.number}", class_="soft"),
            errors.mark() if failed else None,
        )
    ]
    if turn.reasoning:
        parts.append(folded("Reasoning", turn.reasoning, most, whole))
    if turn.text and not turn.is_result:
        is_folded = turn.role == "system" and _is_long(turn.text)  # the same for all answers, most often
        parts.append(folded("Prompt", turn.text, most, whole) if is_folded else block(turn.text, most, whole))
    parts += [_call(call, errors, most, whole) for call in turn.calls]
    parts += _others(turn.other)
    class_ = f"turn {role}" + (" failed" if failed else "")
    return tag("li", *parts, class_=class_, id=f"turn-{turn.number}")


def _call(call: Call, errors: _Errors, most: int | None, whole: str) -> Html:
    arguments = [
        tag("div", tag("dt", name), tag("dd", block(value, most, whole, class_="text code")))
        for name, value in call.arguments.items()
    ]
    head = tag(
        "header",
        tag("span", "⚙ ", aria_hidden="true"),
        tag("b", call.name or "no name"),
        tag("span", call.id, class_="soft"),
        errors.mark() if call.failed else None,
    )
    parts = [head]
    if arguments:
        parts.append(tag("dl", *arguments, class_="arguments"))
    parts.append(_result(call, most, whole))
    parts += _others(call.other)
    return tag("section", *parts, class_="call failed" if call.failed else "call")


def _result(call: Call, most: int | None, whole: str) -> Html:
    """Show what a tool returned; a long result is folded, an error never."""
    if call.result is None:
        return tag("p", "no result", class_="soft")
    if _is_long(call.result) and not call.failed:
        return folded("Result", call.result, most, whole, class_="text code")
    return joined(tag("p", "Result", class_="soft label"), block(call.result, most, whole, class_="text code"))


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or text.count("\n") >= _LINES


def _others(values: Mapping[str, str]) -> Sequence[Html]:
    """Show keys that the schema does not know."""
    if not values:
        return ()
    rows = (tag("div", tag("dt", key), tag("dd", block(value, _SHORT))) for key, value in values.items())
    title = tag("summary", counted(len(values), "unknown key"))
    return (tag("details", title, tag("dl", *rows, class_="arguments"), class_="folded"),)
