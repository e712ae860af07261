r"""The addresses of pages, and their frame. An address has all the state of its page.

    /TOKEN/                                          all evaluations
    /TOKEN/questions?evaluation=E&metric=M&…         a table of questions
    /TOKEN/download?evaluation=E&metric=M&…          the records of these questions
    /TOKEN/question/HASH?evaluation=E&metric=M&…     a question of such a table with its answers
    /TOKEN/answer/HASH?…&show=MODEL                  one answer
    /TOKEN/record/HASH?…&show=MODEL                  its record, as text
    /TOKEN/save/HASH?…&show=MODEL                    the question as one file, with some answers
    /TOKEN/model?model=M                             a model
    /TOKEN/pair?model=M&model=N&…                    two models
    /TOKEN/group?by=FIELD&where=…                    groups of records; without a field, pictures

Without `/TOKEN`, an address is the same on every server of a corpus, and can be passed on: the box
that finds questions takes it.

Names come from records and may have any characters, and a form changes some of them: line breaks,
NUL. So names are spelled with printable characters only; others become escapes, as in Python. A
form sends its empty fields, too: an empty name is spelled `\-`. The second answer of a model is
`MODEL\2`: a backslash in the name itself is always doubled.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, get_args
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from fastrec.answers.board import BoardEvaluation
from fastrec.answers.table import PLACES, SORTS, OutcomeFilter, Query, QuestionRow, Scope, Which
from fastrec.pages import render_template
from fastrec.pages.html import Html
from fastrec.summary.present_ranking import EvaluationStats

_EMPTY = r"\-"  # an empty name
_ESCAPE = re.compile(r"\\(?:[\\tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
# In a name, what follows a backslash belongs to it.
_ANSWER = re.compile(r"(?s)((?:[^\\]|\\.)*?)\\([2-9]|[1-9][0-9]{1,8})")


class AnswerName(Struct, frozen=True):
    """Which answer to a question: the model, and the number of its answer from 1."""

    model: str
    ordinal: int = 1

    @property
    def text(self) -> str:
        """Its spelling in addresses.

        The ordinal cannot be confused with the name, where a backslash is always escaped.
        """
        return name_text(self.model) + (f"\\{self.ordinal}" if self.ordinal > 1 else "")


def name_text(name: str) -> str:
    r"""Spell a name with printable characters only; `name_of` is the inverse.

    >>> name_text("org/model"), name_text("a\\b\u202e\n")
    ('org/model', 'a\\\\b\\u202e\\n')
    """
    if name.isprintable() and "\\" not in name:
        return name or _EMPTY
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode()
        for char in name
    )


def name_of(text: str) -> str:
    if text == _EMPTY:
        return ""
    return _ESCAPE.sub(lambda match: match[0].encode().decode("unicode_escape", "replace"), text)


def _answer_name_of(text: str) -> AnswerName:
    numbered = _ANSWER.fullmatch(text)
    if numbered:
        return AnswerName(name_of(numbered[1]), int(numbered[2]))
    return AnswerName(name_of(text))


MOST = 1_000  # models or answers of a page: a browser shows no more at once
PAGE_SIZE = 100
LARGEST_PAGE = 1_000
# The fields of a query, each with its parameter, in the order of addresses.
_KEYS = (
    "evaluation",
    "metric",
    "model",
    "which",
    "right",
    "wrong",
    "missing",
    "outcome",
    "least",
    "most",
    "text",
    "in",
    "id",
    "hash",
    "flag",
    "where",
    "sort",
)
_PARAMETERS = dict(zip(_KEYS, Query.__struct_fields__, strict=True))
_TYPED = ("text", "where")  # as the user has typed them; others are names
_NUMBERS = ("least", "most")
_CHOICES = {
    "which": get_args(Which),
    "outcome": get_args(OutcomeFilter),
    "in": PLACES,
    "sort": SORTS,
}
_ALL = Query(evaluation_name="", sort="hardest")
_SWITCHES = ("differences", "whole")
_MOST_DIGITS = 12
Pairs = list[tuple[str, str]]  # parameters of an address


class PageState(Struct, frozen=True):
    """The state of a page: the questions it is about, and what it shows of them."""

    query: Query
    page: int = 1
    size: int = PAGE_SIZE
    show: tuple[AnswerName, ...] = ()  # the answers side by side; all if there are none
    differences: bool = False  # whether differences between the first two of them are marked
    whole: bool = False  # whether long texts are shown whole


def state_of(pairs: Iterable[tuple[str, str]]) -> PageState:
    """Read the state of a page from its parameters. Unknown parameters and values are ignored."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        if value:
            values.setdefault(key, []).append(value)

    def last(key: str) -> str:
        return values.get(key, [""])[-1]

    fields: dict[str, Any] = {}
    for key, field in _PARAMETERS.items():
        given = [value for value in values.get(key, ()) if value in _CHOICES.get(key, (value,))]
        if given:
            read = given if key in _TYPED else list(map(name_of, given))
            is_list = isinstance(getattr(_ALL, field), tuple)
            fields[field] = tuple(dict.fromkeys(read)) if is_list else read[-1]
    fields |= {_PARAMETERS[key]: _number(last(key)) for key in _NUMBERS}
    return PageState(
        query=replace(_ALL, **fields),
        page=_count(last("page"), 1, 10**_MOST_DIGITS),
        size=_count(last("size"), PAGE_SIZE, LARGEST_PAGE),
        show=tuple(dict.fromkeys(map(_answer_name_of, values.get("show", ())))),
        **{name: last(name) == "1" for name in _SWITCHES},
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
    return value if isfinite(value) else None


def number_text(value: float) -> str:
    """Spell a number with as few digits as say which it is.

    >>> number_text(0.2), number_text(1.0), number_text(1e-9)
    ('0.2', '1', '1e-09')
    """
    return repr(value).removesuffix(".0")


AnyScope = Scope | Query | QuestionRow | EvaluationStats | BoardEvaluation


def all_questions(scope: AnyScope, models: tuple[str, ...] = ()) -> Query:
    """All questions of a scope."""
    return replace(_ALL, evaluation_name=scope.evaluation_name, metric=scope.metric, models=models)


def query_pairs(query: Query) -> Pairs:
    pairs = []
    for key, field in _PARAMETERS.items():
        value = getattr(query, field)
        if key == "evaluation" or value != getattr(_ALL, field):
            several = value if isinstance(value, tuple) else (value,)
            pairs += [(key, _parameter(key, item)) for item in several]
    return pairs


def _parameter(key: str, value: Any) -> str:
    if key in _NUMBERS:
        return number_text(value)
    return str(value) if key in _TYPED else name_text(value)


def state_pairs(state: PageState) -> Pairs:
    """Spell the state of a page as parameters; `state_of` is the inverse.

    What is as by default is left out.
    """
    pairs = query_pairs(state.query)
    if state.page != 1:
        pairs.append(("page", str(state.page)))
    if state.size != PAGE_SIZE:
        pairs.append(("size", str(state.size)))
    pairs += [("show", chosen.text) for chosen in state.show]
    return pairs + [(name, "1") for name in _SWITCHES if getattr(state, name)]


@dataclass(frozen=True)
class Site:
    """The pages of a server: their addresses, below a prefix `/TOKEN`, and their frame."""

    prefix: str
    corpus: str
    can_label: bool

    spelled = staticmethod(name_text)

    def page(
        self, name: str, title: str, trail: Sequence[tuple[str, str | None]] = (), **values: Any
    ) -> Html:
        """Fill the template of a page.

        `trail` has the names and addresses of the pages above it, and its own name.
        """
        return render_template(
            f"view/{name}.html", site=self, title=title, trail=list(trail), **values
        )

    def plain(self, name: str = "") -> str:
        """Make the address of the start page, or of a page or file without state."""
        return f"{self.prefix}/{name}"

    def pairs(self, page: str, *pairs: tuple[str, str]) -> str:
        """Make the address of a page with some parameters."""
        return f"{self.prefix}/{page}?{urlencode(pairs)}"

    def models(self, page: str, *models: str) -> str:
        """Make the address of a page about models: `model` or `pair`."""
        return self.pairs(page, *(("model", name_text(model)) for model in models))

    def table(self, state: PageState, route: str = "questions", **changes: object) -> str:
        """Make the address of a table, with changes of its state."""
        changed = replace(state, **{"show": (), "differences": False, "whole": False, **changes})
        return self.pairs(route, *state_pairs(changed))

    def asking(self, state: PageState, **changes: object) -> str:
        """Make the address of the first page of a table, with changes of its query."""
        return self.table(state, query=replace(state.query, **changes), page=1)

    def query(self, query: Query) -> str:
        """Make the address of the table of the questions of a query."""
        return self.table(PageState(query=query))

    def scope(self, scope: AnyScope, *models: str) -> str:
        """Make the address of the table of a scope, without filters."""
        return self.query(all_questions(scope, models))

    def question(self, row: QuestionRow) -> str:
        """Make the address of a question, of its table without filters."""
        return self.questions(PageState(query=all_questions(row)))(row.name)

    def questions(self, state: PageState) -> Callable[[str], str]:
        """Make a function from names of questions to their addresses; for tables, it is quicker."""
        parameters = urlencode(state_pairs(state))
        return lambda name: f"{self.prefix}/question/{quote(name, safe='')}?{parameters}"
