r"""The addresses of pages: each has all the state of its page, so it can be shared and survives a reload.

    /TOKEN/                                          all evaluations
    /TOKEN/questions?evaluation=E&metric=M&…         a table of questions
    /TOKEN/question/HASH?evaluation=E&metric=M&…     a question with its answers, in the order of such a table
    /TOKEN/answer/HASH?…&show=MODEL                  one answer
    /TOKEN/record/HASH?…&show=MODEL                  its record, as text

Names come from records and may have any characters, and a form changes some of them: line breaks, NUL. So names are
spelled with printable characters only; others become escapes, as in Python. The second answer of a model is `MODEL\2`:
a backslash in the name itself is always doubled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Final, get_args
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from fastrec.answers.table import PLACES, SORTS, OutcomeFilter, Query, Which

_ESCAPE: Final = re.compile(r"\\(?:(\\)|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_ORDINAL: Final = re.compile(r"\\([2-9]|[1-9][0-9]{1,8})\Z")


class AnswerName(msgspec.Struct, frozen=True):
    """Which answer to a question: the model, and the number of its answer from 1."""

    model: str
    ordinal: int = 1


def name_text(name: str) -> str:
    r"""Spell a name with printable characters only; `name_of` is the inverse.

    >>> name_text("org/model"), name_text("a\\b\u202e\n")
    ('org/model', 'a\\\\b\\u202e\\x0a')
    """
    return "".join(map(_spelled, name)) if "\\" in name or not name.isprintable() else name


def _spelled(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def name_of(text: str) -> str:
    return _ESCAPE.sub(_char, text)


def _char(found: re.Match[str]) -> str:
    if found[1]:
        return "\\"
    code = int(found[2] or found[3] or found[4], 16)
    return chr(code) if code < 0x110000 else "\ufffd"


def answer_name_text(name: AnswerName) -> str:
    """Spell an answer; the ordinal cannot be confused with the name, where a backslash is always escaped."""
    return name_text(name.model) + (f"\\{name.ordinal}" if name.ordinal > 1 else "")


def _answer_name_of(text: str) -> AnswerName:
    found = _ORDINAL.search(text)
    # After an even number of backslashes it is an ordinal; after an odd number, a backslash that belongs to the name.
    if found and (found.start() - len(text[: found.start()].rstrip("\\"))) % 2 == 0:
        return AnswerName(name_of(text[: found.start()]), int(found[1]))
    return AnswerName(name_of(text))


PAGE_SIZE: Final = 100
LARGEST_PAGE: Final = 1_000
_WHICH: Final = get_args(Which)
_OUTCOMES: Final = get_args(OutcomeFilter)
_MOST_DIGITS: Final = 12


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a page: the questions it is about, and what it shows of them."""

    query: Query
    page: int = 1
    size: int = PAGE_SIZE
    show: tuple[AnswerName, ...] = ()  # the answers side by side; all if there are none
    differences: bool = False  # whether the differences between the first two of them are highlighted
    whole: bool = False  # whether long texts are shown whole


def state_of(pairs: Iterable[tuple[str, str]]) -> PageState:
    """Read the state of a page from its parameters. Unknown parameters and values are ignored."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        if value or key == "metric":
            values.setdefault(key, []).append(value)

    def one(key: str) -> str:
        return values.get(key, [""])[-1]

    def names(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(name_of, values.get(key, ()))))

    query = Query(
        evaluation_name=name_of(one("evaluation")),
        metric=name_of(one("metric")) if "metric" in values else None,
        models=names("model"),
        which=one("which") if one("which") in _WHICH else "all",  # type: ignore[arg-type]
        right=names("right"),
        wrong=names("wrong"),
        outcomes=tuple(one for one in _OUTCOMES if one in values.get("outcome", ())),
        least_score=_number(one("least")),
        most_score=_number(one("most")),
        text=one("text"),
        place=one("in") if one("in") in PLACES else "both",  # type: ignore[arg-type]
        sample_ids=names("id"),
        hashes=names("hash"),
        where=tuple(dict.fromkeys(values.get("where", ()))),
        sort=one("sort") if one("sort") in SORTS else "order",  # type: ignore[arg-type]
    )
    return PageState(
        query=query,
        page=_count(one("page"), 1, 10**_MOST_DIGITS),
        size=_count(one("size"), PAGE_SIZE, LARGEST_PAGE),
        show=tuple(dict.fromkeys(map(_answer_name_of, values.get("show", ())))),
        differences=one("differences") == "1",
        whole=one("whole") == "1",
    )


def _count(text: str, default: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return default
    return min(max(int(text), 1), most)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def number_text(value: float) -> str:
    """Spell a number with as few digits as say which it is.

    >>> number_text(0.2), number_text(1.0), number_text(1e-9)
    ('0.2', '1', '1e-09')
    """
    return repr(value).removesuffix(".0")


def query_pairs(query: Query) -> list[tuple[str, str]]:
    pairs = [("evaluation", name_text(query.evaluation_name))]
    pairs += [] if query.metric is None else [("metric", name_text(query.metric))]
    pairs += [("model", name_text(name)) for name in query.models]
    pairs += [("which", query.which)] if query.which != "all" else []
    pairs += [("right", name_text(name)) for name in query.right]
    pairs += [("wrong", name_text(name)) for name in query.wrong]
    pairs += [("outcome", outcome) for outcome in query.outcomes]
    scores = ("least", query.least_score), ("most", query.most_score)
    pairs += [(key, number_text(value)) for key, value in scores if value is not None]
    pairs += [("text", query.text)] if query.text else []
    pairs += [("in", query.place)] if query.place != "both" else []
    pairs += [("id", name_text(name)) for name in query.sample_ids]
    pairs += [("hash", name_text(name)) for name in query.hashes]
    pairs += [("where", condition) for condition in query.where]
    pairs += [("sort", query.sort)] if query.sort != "order" else []
    return pairs


def state_pairs(state: PageState) -> list[tuple[str, str]]:
    """Spell the state of a page as parameters; `state_of` is the inverse. What is as by default is left out."""
    pairs = query_pairs(state.query)
    pairs += [("page", str(state.page))] if state.page != 1 else []
    pairs += [("size", str(state.size))] if state.size != PAGE_SIZE else []
    pairs += [("show", answer_name_text(chosen)) for chosen in state.show]
    pairs += [("differences", "1")] if state.differences else []
    pairs += [("whole", "1")] if state.whole else []
    return pairs


class Addresses:
    """Makes the addresses of pages below a prefix, `/TOKEN`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def plain(self, name: str = "") -> str:
        """Make the address of the start page, or of a page or file without state."""
        return f"{self._prefix}/{name}"

    def table(self, state: PageState) -> str:
        return self._of("questions", replace(state, show=(), differences=False, whole=False))

    def questions(self, state: PageState) -> Callable[[str], str]:
        """Make a function from names of questions to their addresses; for tables, it is quicker."""
        parameters = urlencode(state_pairs(state))
        return lambda name: f"{self._prefix}/question/{quote(name, safe='')}?{parameters}"

    def question(self, state: PageState, name: str) -> str:
        return self.questions(state)(name)

    def _of(self, page: str, state: PageState) -> str:
        return f"{self._prefix}/{page}?{urlencode(state_pairs(state))}"


class QuestionAddresses(Addresses):
    """Makes the addresses of pages about a question: `question`, `answer`, `record`, `disagreement`."""

    def __init__(self, addresses: Addresses, state: PageState, name: str) -> None:
        super().__init__(addresses.plain().removesuffix("/"))
        self.state = state
        self.name = name

    def to(self, page: str = "question", name: str | None = None, **changes: object) -> str:
        """A page about this question, or about another one, with changes of its state."""
        return self._of(f"{page}/{quote(name or self.name, safe='')}", replace(self.state, **changes))

    def answer(self, chosen: AnswerName, page: str = "answer", *, name: str | None = None, whole: bool = False) -> str:
        return self.to(page, name, show=(chosen,), differences=False, whole=whole)
