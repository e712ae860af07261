"""The form above the table of questions: text, outcomes, two models, scores, models that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastrec.answers.table import Query, Scope
from fastrec.commands.view.addresses import PAGE_SIZE, PageState, filter_pairs, number_text, scope_pairs
from fastrec.commands.view.names import name_text
from fastrec.commands.view.texts import hidden_fields
from fastrec.errors import counted
from fastrec.html import Child, Exact, Html, tag

__all__ = ["filter_form"]

_FIELDS: Final = {"text", "which", "right", "wrong", "least", "most", "model"}
_WHICH: Final = {
    "all": "all questions",
    "all-wrong": "all models wrong",
    "all-right": "all models right",
    "disagreement": "models disagree",
    "errors": "with an error",
}


def filter_form(scope: Scope, state: PageState, action: str, reset: str) -> Html:
    """Make the form; it works without a script."""
    query = state.query
    pairs = [*scope_pairs(query), *filter_pairs(query)]
    hidden = [(name, value) for name, value in pairs if name not in _FIELDS]
    hidden += [("size", str(state.size))] if state.size != PAGE_SIZE else []
    text = tag(
        "input", type="search", name="text", value=Exact(query.text), placeholder="text in the input or a reference",
        data_key="/",
    )  # fmt: skip
    return tag(
        "form",
        hidden_fields(hidden),
        _field("Search", text, "wide"),
        _field("Show", _select("which", list(_WHICH.items()), query.which)),
        *(_field("Right", _models("right", scope, one)) for one in query.right or ("",)),
        *(_field("and wrong", _models("wrong", scope, one)) for one in query.wrong or ("",)),
        _field("Score from", _score("least", query.least_score), "small"),
        _field("to", _score("most", query.most_score), "small"),
        _counting(scope, query),
        tag(
            "div",
            tag("button", "Apply", class_="button main"),
            tag("a", "Reset", href=reset, class_="button"),
            class_="field buttons",
        ),
        action=action,
        class_="card filters",
        role="search",
    )


def _field(label: str, control: Html, class_: str = "") -> Html:
    return tag("label", tag("span", label), control, class_=f"field {class_}".strip())


def _select(name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    made = (tag("option", text, value=Exact(value), selected=value == chosen) for value, text in options)
    return tag("select", *made, name=name)


def _models(name: str, scope: Scope, chosen: str) -> Html:
    """Make a list of models to choose one of; one that has no records here stays, if it is chosen."""
    models = [*scope.models, *({chosen} - {"", *scope.models})]
    return _select(name, [("", "any model"), *((name_text(one), one) for one in models)], name_text(chosen))


def _score(name: str, value: float | None) -> Html:
    shown = None if value is None else number_text(value)
    return tag("input", type="number", step="any", name=name, value=shown, inputmode="decimal")


def _counting(scope: Scope, query: Query) -> Html:
    """Make the folded list of models that count."""
    models = [*scope.models, *(one for one in query.models if one not in scope.models)]
    boxes: list[Child] = [
        tag(
            "label",
            tag("input", type="checkbox", name="model", value=Exact(name_text(model)), checked=model in query.models),
            tag("span", model),
        )
        for model in models
    ]
    count = f"{len(query.models):,} of {len(models):,}" if query.models else "all"
    hint = tag("p", "Only these models count for shares, disagreement and errors. All count if none is chosen.")
    summary = tag("summary", f"Models that count: {count}", title=counted(len(models), "model"))
    return tag("details", summary, hint, tag("div", *boxes, class_="checks"), class_="field models")
