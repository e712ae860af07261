"""Groups of records with the same value of a field; and pictures of all records, or of a group."""

from typing import Any

from msgspec.structs import replace

from fastrec.answers.choosing import choose_primary, choose_scopes
from fastrec.answers.pictures import cells_table
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.commands.view.addresses import Site
from fastrec.filters import Filters
from fastrec.pages.html import Cell, Html
from fastrec.pages.svg import heat_class
from fastrec.parameters import Names
from fastrec.where import GroupBy, exact_condition, no_groups, spell_path, ungrouped_name
from fastrec.wording import NONE, value_text

_COLUMNS = 60  # groups in the table
_COMPUTED = ("response.characters:4", "token_usage.total_tokens:4", "turns", "tool_calls")


def group_page(site: Site, index: QuestionTable, by: str, where: Names, **shown: Any) -> Html:
    """Offer fields to group by, above what is shown of the matching records."""
    title = f"Groups by {by}" if by else " and ".join(where) or "Pictures"
    fields = dict.fromkeys(spell_path(("metadata", key)) for key, _ in index.fields)
    return site.page(
        "group",
        title,
        [(title, None)],
        by=by,
        conditions=[("where", condition) for condition in where],
        fields=(*fields, *_COMPUTED),
        **shown,
    )


def group_results(site: Site, index: QuestionTable, group: GroupBy, where: Names) -> dict[str, Any]:
    """The results of models on groups of each evaluation, as a heat map.

    Cells link to the questions of a group, and the names above the table to the groups. Bins have
    no links: no condition tells which bin a record is in.

    Raises:
        NoMatchError: No record has the field.
    """
    rows: dict[str, dict[str, Cell]] = {}
    heads = {}  # by name of a grouped evaluation: columns with the same text stay apart
    groups = {}  # addresses by value
    scopes = [scope for scope, _ in choose_primary(choose_scopes(index.scopes, Filters()))]
    for scope in sorted(scopes, key=lambda scope: -scope.questions)[:_COLUMNS]:
        name, values = ungrouped_name(scope.evaluation_name, [group])
        value = values[group.field]
        heads[scope.evaluation_name] = f"{name}: {NONE if value is None else value}"
        matching = (*where, exact_condition(group.path, value))
        if value is not None:
            groups[value] = site.pairs("group", *(("where", text) for text in matching))
        query = Query(evaluation_name=name, metric=scope.metric, where=matching, sort="hardest")
        for model in index.summary_of(scope).by_model:
            result = model.mean_score if scope.graded else model.accuracy
            rows.setdefault(model.model_id, {})[scope.evaluation_name] = Cell(
                value_text(result, graded=scope.graded),
                "" if result is None else heat_class(result),
                "" if group.bins else site.query(replace(query, models=(model.model_id,))),
            )
    if not groups:
        raise no_groups([group])
    columns, cells = cells_table("model", {Cell(model): rows[model] for model in sorted(rows)})
    return {
        "results_caption": f"Results by {group.field}",
        "groups": () if group.bins else sorted(groups.items()),
        "results": ([heads.get(column, column) for column in columns], cells),
    }
