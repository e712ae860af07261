"""Commands that show a corpus as pages (`report`, `view`) or tables (`sql`, `export`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    explain_damage,
    print_error,
    print_exactly,
    print_lines,
    print_notice,
    print_stderr,
    safe,
    say,
    spell,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, run_reading, run_with_progress
from fastrec.cli.tables import make_table, markdown_table, table_lines
from fastrec.errors import FastrecError, UsageError
from fastrec.parameters import Names

if TYPE_CHECKING:
    import pyarrow as pa

    from fastrec.commands.export.tables import Result, Tables

_MOST_ROWS = 1000  # printed as a table for people
_WIDEST = 60  # characters of a cell in such a table
_KEYWORDS = [
    "select", "from", "where", "group", "by", "order", "limit", "count", "avg", "distinct", "ilike",
]  # fmt: skip
_FORMATS = {".csv": "csv", ".json": "json", ".md": "markdown", ".parquet": "parquet"}
_NUMBERS = ("int", "float", "double", "decimal")
_PLAIN = frozenset({int, float, str})  # types of cells that CSV has as they are


@command()
def sql(
    arguments: Names, file: str | None, output: str | None, overwrite: bool, tables: bool
) -> None:
    """Run QUERY with DuckDB over the tables of CORPUS: answers, questions, models and records.

    Without a query, there is a prompt with completion and history. Several corpora add a column
    `corpus`.

    Texts are read from the records whenever a query names them: create a table of what several
    queries need. A query can read these tables and nothing else: no files, no extensions.

    \b
    Exit codes:
      0     done
      2     the command line or the query is wrong, or FILE exists
      3     a part could not be read, or the result not written

    \b
    Examples:
      fastrec sql corpus "select model, avg(score) from answers group by 1"
      fastrec sql corpus "from answers where output ilike '%sorry%'"
      fastrec sql corpus new-corpus "select distinct corpus from answers"
      fastrec sql corpus "from models" --format csv -o models.csv
    """
    from fastrec.commands.export.tables import open_tables
    from fastrec.storage.local import check_new_file

    if tables:
        _print_schema()
        return
    corpora, query = _split(arguments, file)
    output_format = asked().output_format
    if output is not None:
        check_new_file(output, overwrite=overwrite)
        if output_format == "text":
            output_format = _FORMATS.get(Path(output).suffix, "text")
    if output_format == "parquet" and output is None:
        raise UsageError("--format parquet needs -o FILE")
    with allow_broken_pipe(), explain_damage(*corpora):
        opened = open_tables(*corpora, locked=True)
        if query is None:
            _prompt(opened)
        else:
            _run(opened, query, output_format, output)


def _split(arguments: Names, file: str | None) -> tuple[Names, str | None]:
    """Tell the corpora from the query, the last argument, unless that is a path or a URL."""
    if not arguments:
        raise UsageError('name a corpus, and a query such as "select * from answers limit 10"')
    if file is not None:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(f"the query cannot be read: {exc}") from exc
        return arguments, text
    *before, last = arguments
    # Unlike `Path.exists`, this does not fail if the text is too long for a name.
    if before and (" " in last.strip() or "\n" in last) and not os.path.exists(last):
        return tuple(before), last
    return arguments, None


@allow_broken_pipe()
def _print_schema() -> None:
    from fastrec.commands.export.tables import ANSWERS, TABLES

    for name, text in TABLES.items():
        say("{name:bold}: {text}", name=name, text=text)
        if name == "answers":
            table = make_table(["column", "meaning"], list(ANSWERS.items()), left=["meaning"])
            print_lines(table_lines(table))


def _run(tables: Tables, query: str, output_format: str, output: str | None) -> None:
    from fastrec.commands.export.tables import replacing, run_query, write_result

    with (
        run_query(tables, query, as_text=output_format != "parquet") as result,
        ExitStack() as stack,
    ):
        if not result:
            return
        if output is not None:
            path = stack.enter_context(replacing(output))
            if output_format == "parquet":
                write_result(result, path)
                return
            out = stack.enter_context(open(path, "w", encoding="utf-8", newline=""))
            stack.enter_context(redirect_stdout(out))
        printers = {"json": _print_json, "csv": _print_csv}
        printers.get(output_format, partial(_print_rows, output_format=output_format))(result)


def _print_json(result: Result) -> None:
    """Print what `msgspec.json.format` makes of a list of all rows."""
    import msgspec

    encode = _encoder()
    names = result.schema.names
    before = b"["
    for batch in result.batches:
        documents = [dict(zip(names, row, strict=True)) for row in _rows(batch)]
        if documents:
            text = msgspec.json.format(encode(documents))
            click.echo(before + text.removeprefix(b"[").removesuffix(b"\n]"), nl=False)
            before = b","
    click.echo("[]" if before == b"[" else "\n]")


def _print_csv(result: Result) -> None:
    from fastrec.csv_writer import CsvWriter

    writer = CsvWriter(sys.stdout)
    writer.writerow(result.schema.names)
    for batch in result.batches:
        for row in _rows(batch):
            writer.writerow([cell if cell.__class__ in _PLAIN else _text(cell) for cell in row])
    sys.stdout.flush()


def _print_rows(result: Result, output_format: str) -> None:
    """Print the first rows as a table or as Markdown, and count all."""
    widest = _WIDEST if output_format == "text" else None
    shown: list[list[str]] = []
    total = 0
    for batch in result.batches:
        shown += [
            [_cell(cell, widest) for cell in row]
            for row in _rows(batch.slice(0, _MOST_ROWS - len(shown)))
        ]
        total += batch.num_rows
    schema = result.schema
    table = [
        column._replace(is_left=not str(kind).startswith(_NUMBERS))
        for column, kind in zip(make_table(schema.names, shown), schema.types, strict=True)
    ]
    if output_format == "markdown":
        print_lines(markdown_table(table))
    elif shown:
        print_lines(table_lines(table))
    more = total > _MOST_ROWS
    if more or output_format == "text":
        notice = "{total:row}[?{more:if}; the first {most:,} are shown, --format csv has all]"
        print_notice(spell(notice, total=total, more=more, most=_MOST_ROWS))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if str(column.type).startswith("map<"):
        return [None if value is None else dict(value) for value in values]
    return values


def _cell(value: Any, widest: int | None) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else safe(_text(value))
    return clip(text, widest)


def _text(value: Any) -> str:
    """A text as it is, nothing for null, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return _encoder()(value).decode()


@cache
def _encoder() -> Callable[[Any], bytes]:
    """Make a function that spells values as JSON: sums of integers are decimal numbers."""
    import msgspec

    return msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def _prompt(tables: Tables) -> None:
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        click.echo(
            "SQL over the tables answers, questions, models and records. \\d lists them, "
            "\\q leaves."
        )
    with _history() if is_terminal else nullcontext():
        text = ""
        is_last = False
        while not is_last:
            line = ""
            try:
                line = input(("   > " if text else "sql> ") if is_terminal else "")
            except EOFError:
                is_last = True
            except KeyboardInterrupt:
                click.echo()
                text = ""
                continue
            if not text and line.strip() == "\\q":
                return
            if not text and line.strip() == "\\d":
                _print_schema()
                continue
            text += f"{line}\n"
            query = text.strip()
            if query and (is_last or query.endswith(";")):
                text = ""
                try:
                    _run(tables, query, "text", None)
                except FastrecError as exc:
                    if not is_terminal:
                        raise
                    print_error(str(exc))


@contextmanager
def _history() -> Iterator[None]:
    """Complete the names of tables and columns, and remember the queries of earlier prompts."""
    try:
        import readline
    except ImportError:
        print_notice("this Python has no readline: there is no history")
        yield
        return
    from fastrec.commands.export.tables import ANSWERS, TABLES
    from fastrec.corpus.trust import state_directory

    words = sorted({*TABLES, *ANSWERS, *_KEYWORDS})

    def complete(text: str, state: int) -> str | None:
        matching = [word for word in words if word.startswith(text.lower())]
        return matching[state] if state < len(matching) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    path = state_directory() / "sql_history"
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_history_length(1000)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)


@command()
def export(corpus: str, output: str, **options: Any) -> None:
    """Write CORPUS as tables.

    OUTPUT is published atomically, with a README.md that explains the columns.

    \b
    Formats:
      parquet   typed, nested columns, the same in all files, with a dataset card
                for the Hugging Face hub; no value is lost or changed
                (needs: pip install pyarrow)
      csv       one flat table: ids, metric, score, correctness, tokens, latency,
                error, response length, turns, tool calls
      matrix    models × questions as CSV: scores, correctness; a question has
                a column for each metric
      pairs     for each run an aggregate of 0.3.0 and its samples file, in the
                folders of the public data store; what is required and unknown
                is listed at once, for --details

    Metadata, details and errors are searched for keys, tokens and passwords. If there is one,
    nothing is published.

    In CSV, text that a spreadsheet would take for a formula has a single quote in front; README.md
    has the rule.

    \b
    Exit codes:
      0     done
      1     metadata have what looks like a credential; nothing published
      2     the command line is wrong, CORPUS is not a corpus, or no record
            matches the filters
      3     failed, nothing published

    \b
    Examples:
      fastrec export corpus -o tables
      fastrec export corpus -o flat --format csv
      fastrec export corpus -o matrix --format matrix
      fastrec export new-corpus -o store --format pairs --details details.toml
      fastrec export corpus -o wrong --wrong --model 'org/*'
    """
    from fastrec.commands.export import export as run

    options |= {"raw_cells": asked().raw_cells, "limited": False}
    exported = run_reading(run, corpus, output, stages=("check", "write"), **options)
    if asked().quiet:
        return
    print_notice(*exported.notices)
    line = "{rows:record}: {files:file} in {output}, {text_bytes:size} → {bytes:size} {:speed}"
    print_stderr(spell(line, exported, output=output))


@command()
def report(corpus: str, output: str, **options: Any) -> None:
    """Write an HTML page about CORPUS: results of models, questions with answers, line counts.

    The page is one self-contained file: it can be mailed, put on any server, and opened offline.
    Its tables can be sorted and searched. It also shows hashes and rejected lines. It depends on
    the corpora alone, and is written atomically.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, CORPUS is not a corpus, OUTPUT exists, or
            no record matches the filters
      3     something could not be read or written

    \b
    Examples:
      fastrec report corpus -o report.html
      fastrec report nights/2026-11-17 -o night.html --trend nights/
      fastrec report corpus -o subjects.html --group-by metadata.subject
      fastrec report corpus -o - | gzip > report.html.gz
      fastrec report corpus -o ours.html --model 'org/*' --exclude-model org/old
    """
    from fastrec.commands.report import report as run

    page = BytesIO()
    target = page if output == "-" else output
    with explain_damage(corpus, *options["trend"]):
        size = run_with_progress(run, corpus, target, **options)
    if output == "-":
        with allow_broken_pipe():
            print_exactly(page.getvalue())
    else:
        print_stderr(spell("{output:path}: {size:size}", output=output, size=size))


@command()
def view(corpus: str, no_browser: bool, **options: Any) -> None:
    """Show CORPUS on a local web page: questions, answers side by side, and whole transcripts.

    Only this machine can reach the page, and only with the address that is printed. Press ? on a
    page for its keys, and Ctrl-C here to end.

    \b
    Needs: pip install starlette uvicorn

    \b
    Exit codes:
      0     ended with Ctrl-C
      2     the command line is wrong, or CORPUS is not a corpus
      3     a part could not be read
      130   interrupted before the first page

    \b
    Examples:
      fastrec view corpus
      fastrec view corpus --no-browser --port 8000
      fastrec view corpus --labels labels.jsonl
      fastrec view s3://bucket/corpus
    """
    from fastrec.commands.view import view as run

    opened = run_reading(run, corpus, **options, limited=False)
    with opened:
        with allow_broken_pipe():
            click.echo(opened.address)
            sys.stdout.flush()
        if not no_browser:
            _open_browser(opened.address)
        try:
            opened.serve()
        except KeyboardInterrupt:
            print_notice("ended")


def _open_browser(address: str) -> None:
    """Open a browser if there is a display: a text browser would take over this terminal."""
    import threading
    import webbrowser

    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        print_notice(
            "no display found: open the address in a browser, for example through an SSH tunnel"
        )
        return
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
