"""`fastrec leaderboard`: all models on all evaluations, as a table for a terminal, a paper or a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from fastrec.cli.console import explain_damage, print_error, print_exactly, print_found, safe
from fastrec.cli.options import command, format_option, given_filters, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import Section, Table, columns, csv_table, markdown_sections, print_sections

if TYPE_CHECKING:
    from fastrec.answers.leaderboard import Leaderboard

_LATEX: Final = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX_SIGNS: Final = {"±": r"$\pm$", "–": "--", "↓": r"$\downarrow$", "·": r"$\cdot$"}


@command("Rank models over all evaluations.", check="there are no records",
         usage="the command line is wrong, or a pattern matches nothing",
         failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters", "primary")
@option("--weights", 'TOML file with weights of evaluations in the mean: "gsm8k" = 2. Others have a weight of 1.',
        type=click.Path(), metavar="FILE")  # fmt: skip
@option("--weight-by", "Weight evaluations by their number of questions.", type=click.Choice(["questions"]))
@shared("min_coverage")
@option("--group-by", "Make a column for each group of records with the same value of this field, such as "
        "metadata.subject; FIELD:4 makes 4 bins of numbers. May be repeated.",
        multiple=True, metavar="FIELD")  # fmt: skip
@shared("lower_is_better")
@format_option("table", "markdown", "latex", "csv", "json", "html")
@shared("raw_cells", "run")
def leaderboard(corpus: str, output_format: str, raw_cells: bool, no_progress: bool, **options: Any) -> None:
    """Rank the models of CORPUS over all evaluations: the mean, the mean rank, and the share of wins.

    There is one row per model and one column per evaluation, with its primary metric: the one that its records name,
    or the first that judges answers; --primary chooses another. The mean counts each evaluation once, unless there are
    weights. Scores beyond 0 and 1, and those that are better if lower, do not count in the mean.

    Only models that have answered the same evaluations are compared; other models are listed in tables of their own.
    An evaluation counts for a model that has answered --min-coverage of its questions. The rank of a model is a range
    if paired tests cannot place it, as in `fastrec stats`. Intervals come from a bootstrap over the questions of each
    evaluation. docs/leaderboard.md says exactly what each number is.

    \b
    Examples:
      fastrec leaderboard corpus
      fastrec leaderboard corpus --format latex
      fastrec leaderboard corpus --weight-by questions --model 'org/*'
      fastrec leaderboard corpus --group-by metadata.subject
      fastrec leaderboard corpus --format html > board.html
    """
    from fastrec.commands.leaderboard import leaderboard as run

    prepare_reading(options["jobs"])
    stages = ("sort", "merge", "index") if given_filters(options) or options["group_by"] else ("index",)
    with make_progress(*stages, quiet=no_progress) as progress, explain_damage(corpus):
        found = run(corpus, **options, progress=progress)
    rows, legends = found.rows(), [found.notes()]
    cells = [list(row.values()) for row in rows]
    print_found(
        found,
        output_format,
        table=lambda: print_sections(_sections(found), legends) if found.models else None,
        markdown=lambda: click.echo("\n".join(markdown_sections(_sections(found), legends))),
        latex=lambda: click.echo("\n".join(_latex(found))),
        csv=lambda: click.echo(csv_table(list(rows[0]) if rows else [], cells, raw_cells=raw_cells), nl=False),
        html=lambda: print_exactly(found.to_page().encode("utf-8", "backslashreplace")),
    )
    if not found.models:
        print_error("there are no records")
        raise click.exceptions.Exit(1)


def _sections(found: Leaderboard) -> list[Section]:
    made = []
    for number, (title, models) in enumerate(found.groups(), 1):
        names, rows = found.table(models)
        table = Table(columns(names, left=("model",), hidden=("wins", "mean rank")), rows)
        made.append(Section(f"table {number}", title, table))
    return made


def _latex(found: Leaderboard) -> Iterator[str]:
    """Yield the lines of one table for the package booktabs; groups are separated by rules."""
    yield f"% {safe(' '.join(found.notes()))}"
    for title, models in found.groups():
        names, rows = found.table(models)
        yield f"% {title}"
        yield f"\\begin{{tabular}}{{{''.join('l' if name in ('rank', 'model') else 'r' for name in names)}}}"
        yield "\\toprule"
        yield f"{' & '.join(map(_escaped, names))} \\\\"
        yield "\\midrule"
        yield from (f"{' & '.join(map(_escaped, row))} \\\\" for row in rows)
        yield "\\bottomrule"
        yield "\\end{tabular}"


def _escaped(text: str) -> str:
    r"""Escape what has a meaning in LaTeX.

    >>> _escaped("a_b 5% ± 1"), _escaped("\\x{y}^")
    ('a\\_b 5\\% $\\pm$ 1', '\\textbackslash{}x\\{y\\}\\textasciicircum{}')
    """
    text = re.sub(r"[\\~^]|[&%$#_{}]", lambda match: _LATEX.get(match[0], f"\\{match[0]}"), safe(text))
    return re.sub("[±–↓·]", lambda match: _LATEX_SIGNS[match[0]], text)
