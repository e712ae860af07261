"""Printing for people: documents, messages and numbers.

Text from input never reaches a terminal unescaped. `say` prints a line from a template, whose
values are attributes of an item or keyword arguments:

    {model_id}         a text, escaped
    {score:.3f}        a number, as `format` spells it; None is –
    {lines:line}       a count with its noun: 1 line, 1,205 lines; of a text or list, its length
    {title:bold}       a style: bold, dim, or a colour
    {ok:OK/damaged}    a verdict, in green or red
    {bytes:size}       in one of these formats: size, timing, p, points, score, path
    {found:if}         nothing; see below
    [?, {blank:,} blank]     left out if one of its values is 0, empty or None
    [??{score:.3f}]          left out if one of its values is None

Text is measured, cut and wrapped by the columns that it takes on a terminal, not by its characters.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, TextIO

import click
from click.exceptions import Exit

from fastrec.errors import CorpusError, ShardError, ShardLimitError, counted, listed, naming, shown

# Control characters, and characters that reorder or hide text on a terminal.
UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def safe(text: str) -> str:
    if isinstance(text, Styled) or text.isprintable():
        return text
    return UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


# Parts of a template: an optional one, with its mark, or the text up to the next one.
_PARTS = re.compile(r"\[(\?\??)(.*?)\]|((?:(?!\[\?).)+)", re.DOTALL)
_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    **{name: {"fg": name} for name in ("red", "green", "yellow", "blue", "magenta", "cyan")},
}


class Styled(str):
    """A text for the terminal, which is escaped already."""

    __slots__ = ()


def styled(text: str, **style: Any) -> Styled:
    return Styled(click.style(safe(text), **style))


def say(template: str, item: object = None, /, **values: object) -> None:
    click.echo(spell(template, item, **values))


def spell(template: str, item: object = None, /, **values: object) -> str:
    """Fill in a template.

    >>> spell("{real:line}[?, {imag:,} blank]: {name}", 3, name="a\\tb")
    '3 lines: a\\\\tb'
    """
    text = ""
    for mark, fields in _parsed(template):
        part = ""
        is_empty = False
        for literal, name, spec, value_of in fields:
            part += literal
            if name is not None:
                value = values[name] if name in values else value_of(item)
                is_empty |= value is None if mark == "??" else not value
                part += _spell_value(value, spec)
        if not mark or not is_empty:
            text += part
    return text


_Field = tuple[str, str | None, str, Callable[[Any], Any]]  # the text before it, name, spec, value


@cache
def _parsed(template: str) -> list[tuple[str, list[_Field]]]:
    """Split a template into parts, optional if they have a mark, and these into fields."""
    from string import Formatter

    parts = []
    for mark, optional, plain in _PARTS.findall(template):
        fields: list[_Field] = [
            (literal, name, spec or "", attrgetter(name) if name else _itself)
            for literal, name, spec, _ in Formatter().parse(optional or plain)
        ]
        parts.append((mark, fields))
    return parts


def _itself(item: object) -> object:
    return item


def _spell_value(value: Any, spec: str) -> str:
    from fastrec.wording import NONE, score_text

    if value is None:
        return NONE
    if spec == "if":
        return ""
    if "/" in spec:
        good, bad = spec.split("/")
        return click.style(good if value else bad, fg="green" if value else "red", bold=True)
    if not spec or spec in _STYLES:
        text = value if isinstance(value, str) else str(value)
        return styled(text, **_STYLES[spec]) if spec else safe(text)
    if spec == "score":
        return score_text(value)
    if spec in _FORMATS:
        return safe(_FORMATS[spec](value))
    if hasattr(value, "__len__") and spec[0] not in "<>.":
        value = len(value)
    is_noun = len(spec) > 1 and spec[:2].isalpha()
    return counted(value, spec) if is_noun and isinstance(value, int) else format(value, spec)


def format_size(size: int) -> str:
    """Format a number of bytes.

    >>> [format_size(size) for size in (123, 45_600, 7_890_000, 1_234_000_000)]
    ['123 B', '45.6 kB', '7.9 MB', '1.23 GB']
    """
    if size < 1_000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1_000_000_000 else f"{size / 1e9:.2f} GB"


def format_speed(result: Any) -> str:
    """Format how long the text of a result took, and how fast that was."""
    speed = result.text_bytes / 1e6 / max(result.seconds, 1e-9)
    return f"in {result.seconds:.2f} s, {speed:,.0f} MB/s"


def _format_timing(result: Any) -> str:
    return f"{format_size(result.text_bytes)} {format_speed(result)}"


def _format_p(p: float) -> str:
    """Format a p-value. One that is too small for a number is not 0.

    >>> _format_p(1.0), _format_p(0.04321), _format_p(0.0000123), _format_p(0.0)
    ('1', '0.0432', '1e-05', '<1e-300')
    """
    if p in (0, 1):
        return "1" if p else "<1e-300"
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}"


def _format_points(points: float) -> str:
    """Format a difference in percentage points.

    >>> _format_points(1.234), _format_points(-0.0)
    ('+1.23', '0.00')
    """
    return f"{points:+.2f}" if points else "0.00"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "size": format_size,
    "speed": format_speed,
    "timing": _format_timing,
    "p": _format_p,
    "points": _format_points,
    "path": shown,
}


def format_repairable(
    lines: int, by_code: Mapping[str, int], of: int, kind: str = "rejected"
) -> str:
    """Say how many of some rejected lines repairs would keep, with the three most frequent codes.

    >>> format_repairable(1_200, {"repair.null": 1_200}, 2_000)
    '`--repair all` would keep 1,200 of 2,000 rejected lines (1,200 repair.null)'
    """
    from fastrec.wording import by_count

    rows = by_count(by_code)
    codes = [f"{count:,} {code}" for code, count in rows[:3]] + ["…"] * (len(rows) > 3)
    return (
        f"`--repair all` would keep {lines:,} of {counted(of, f'{kind} line')} ({', '.join(codes)})"
    )


_WORDS = re.compile(r" *[^ ]+| +")


def terminal_width() -> int | None:
    """Return the width of the terminal.

    None if stdout is no terminal, where lines may have any length.
    """
    return max(terminal_columns(), 20) if sys.stdout.isatty() else None


def terminal_columns() -> int:
    from shutil import get_terminal_size  # with bz2 and lzma, which take some milliseconds

    return get_terminal_size().columns


def safe_lines(text: str) -> list[str]:
    r"""Return the lines of a text, without characters that could control a terminal.

    >>> safe_lines("a\tb\r\n\x1b[2Jc\n")
    ['a       b', '\\x1b[2Jc', '']
    """
    return [safe(line.expandtabs()) for line in text.replace("\r\n", "\n").split("\n")]


def width_of(text: str) -> int:
    """Return how many columns a text takes.

    >>> width_of("abc"), width_of("日本"), width_of("e\u0301")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(1 << 14)
def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int | None) -> str:
    """Cut a line to a width; None does not cut.

    >>> clip("abcdef", 4), clip("日本語", 5), clip("abc", 3), clip("abc", None)
    ('abc…', '日本…', 'abc', 'abc')
    """
    if width is None or width_of(text) <= width:
        return text
    piece = next(_pieces(text, width - 1))
    return f"{piece}…" if width_of(piece) < width else "…"


def wrap(line: str, width: int | None) -> list[str]:
    """Break a line between words where it exceeds a width, and inside of words that are too long.

    >>> wrap("to be or not", 6), wrap("  indented", 20), wrap("abcdefgh", 3), wrap("", 5)
    (['to be', 'or not'], ['  indented'], ['abc', 'def', 'gh'], [''])
    """
    if width is None or width_of(line) <= width:
        return [line]
    lines = []
    current = ""
    used = 0
    for word in _WORDS.findall(line):
        if used + (size := width_of(word)) <= width:
            current += word
            used += size
            continue
        if current.strip():
            lines.append(current.rstrip())
            word = word.lstrip()
        *full, current = _pieces(word, width) if word else [""]
        lines.extend(full)
        used = width_of(current)
    return [*lines, current] if current.strip() or not lines else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield pieces of a text that are as wide as possible; each has at least one character."""
    start = used = 0
    for position, char in enumerate(text):
        columns = _columns(char)
        if used + columns > width and position > start:
            yield text[start:position]
            start = position
            used = 0
        used += columns
    yield text[start:]


# Functions that erase a line that is drawn again and again.
_status_lines: list[Callable[[], None]] = []


def print_json(document: object) -> None:
    """Print a document as indented JSON, with escapes for what could control a terminal."""
    import msgspec

    from fastrec.judge.parse import spell

    text = spell(document).decode()  # integers may have more digits than msgspec encodes
    click.echo(msgspec.json.format(_escape_json(text)).encode())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, all at once: there can be a million of them."""
    click.echo("\n".join(lines))


def print_exactly(lines: bytes) -> None:
    """Print lines byte for byte.

    On a terminal, with escapes for characters that could control it: the same JSON.
    """
    if sys.stdout.isatty():
        lines = _escape_json(lines.decode(errors="backslashreplace")).encode()
    click.echo(lines, nl=False)


def _escape_json(text: str) -> str:
    """Escape unsafe characters, except newlines; in JSON, they can only be in strings."""
    import json

    return UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] != "\n" else "\n", text)


@contextmanager
def allow_broken_pipe() -> Iterator[None]:
    """Print to stdout in this block: no error if the reader closes the pipe early, like `head`."""
    try:
        with naming("standard output"):
            yield
    except BrokenPipeError:
        _silence(sys.stdout, sys.stderr)


def _silence(*streams: TextIO) -> None:
    """Redirect streams to /dev/null, so that the flush at exit does not fail either."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):  # the stream may not be a file
            os.dup2(null, stream.fileno())
    os.close(null)


def print_stderr(text: str) -> None:
    """Print a line on stderr.

    If stderr cannot be written, for example because a disk is full, work continues.
    """
    for erase in _status_lines:
        erase()
    try:
        click.echo(text, err=True)
    except OSError:
        _silence(sys.stderr)


def print_error(message: str) -> None:
    _print_message(f"error: {message}".split("\n"), fg="red", bold=True)


def print_notice(*messages: str) -> None:
    for message in messages:
        _print_message([f"note: {message}"], fg="cyan")


def print_warning(lines: Iterable[str]) -> None:
    _print_message(lines, fg="yellow", bold=True)


def _print_message(lines: Iterable[str], **style: Any) -> None:
    """Print lines on stderr. The first begins with a word and a colon, which get the style."""
    for number, line in enumerate(map(safe, lines)):
        word, colon, rest = line.partition(":")
        print_stderr(line if number else f"{click.style(word + colon, **style)}{rest}")


@contextmanager
def status_line(erase: Callable[[], None]) -> Iterator[None]:
    """Draw on the last line of stderr in this block.

    `erase` is called before anything else is printed, and at last.
    """
    _status_lines.append(erase)
    try:
        yield
    finally:
        _status_lines.pop()
        erase()


def exit_if_incomplete(records: object, damaged: Sequence[str]) -> None:
    """End with exit code 1 if there are no records, or if files of the corpus are damaged.

    These files are missing or cut, but no number needed them.
    """
    if not records:
        print_error("there are no records")
    elif damaged:
        print_error(
            f"missing or cut: {listed(map(shown, damaged), 3)}\nThe numbers are right, but the "
            "corpus is damaged; normalize its shards again. `fastrec verify` lists all "
            "problems."
        )
    else:
        return
    raise Exit(1)


@contextmanager
def explain_damage(*corpora: str) -> Iterator[None]:
    """Read corpora in this block: an error about a damaged one gets a note that says what to do.

    A corpus of another version of fastrec is not damaged, and its error says what to do.
    """
    try:
        yield
    except (ShardError, CorpusError) as exc:
        from fastrec.corpus.manifest import was_replaced

        if was_replaced(exc.path):
            exc.add_note("The corpus was replaced while it was read: run the command again.")
            raise
        text = str(exc)
        says_what_to_do = "fastrec verify" in text or "this version of fastrec reads" in text
        if not says_what_to_do and not isinstance(exc, ShardLimitError):
            inside = any(exc.path.startswith(os.path.join(corpus, "")) for corpus in corpora)
            # A corpus has no folders: below a directory of corpora, this is the damaged one.
            corpus = shown(os.path.dirname(exc.path) if inside else corpora[0])
            exc.add_note(f"The corpus is damaged: `fastrec verify {corpus}` lists all problems.")
        raise
