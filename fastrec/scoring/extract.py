r"""Find the answer in what a model said.

An extractor takes the text of an answer and returns the part that counts, or None. Rules name
extractors as `whole`, `number`, `choice`, `boxed`, `{ json = "FIELD" }`, `{ first = "PATTERN" }`
or `{ last = "PATTERN" }`. Of a list, the first extractor that finds something decides.

All of them take time in proportion to the text, whatever a model wrote.
"""

import json
import re
from collections.abc import Callable, Sequence

from fastrec.errors import UsageError
from fastrec.where import compile_pattern

Extractor = Callable[[str], str | None]
Extract = str | dict[str, str]

# A minus sign counts unless it stands behind a word or a closing bracket, as in 5-3.
_DIGITS = (
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)(?:[eE][-+]?\d{1,4}(?!\w))?"
)
# A number, or a fraction of two: the numerator, and the denominator if there is one.
NUMBER = re.compile(rf"((?:(?<![\w)\]}}])[-−]\$?)?{_DIGITS})(?:/(-?{_DIGITS}))?")

# Forms of a choice, the most explicit ones first. Of each form, the last occurrence counts.
_CHOICES = [
    re.compile(
        r"\b(?i:answer|choice|option)\b(?:\s+(?:is|was|would\s+be|should\s+be))?\s*[:=]?\s*"
        r"[\"'`*_($\[{]{0,6}(?:\\(?:text|mathrm|boxed|textbf)\{)?\(?"
        r"([A-J](?![\w'’])|[a-j](?=\s*(?:[).\]:,*`\"'$}]|$)))",  # "a" may begin a sentence
        re.MULTILINE,
    ),
    re.compile(r"\\boxed\{\s*(?:\\(?:text|mathrm|textbf)\{)?\(?([A-Ja-j])\)?\}"),
    re.compile(r"\(([A-J])\)"),
    re.compile(r"\*\*\(?([A-J])\)?[.):]?\*\*"),
    re.compile(r"^\s*([A-J])\s*[.):](?:\s|$)", re.MULTILINE),
    re.compile(r"\A\W*([A-Ja-j])\W*\Z"),
    re.compile(r"^\W*([A-J])\W*$", re.MULTILINE),
]

_BOXED = re.compile(r"\\f?boxed\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def extractor_of(extract: Extract | Sequence[Extract]) -> Extractor:
    """The function of an extractor, or of a list of them."""
    if isinstance(extract, (str, dict)):
        return _single(extract)
    extractors = [_single(each) for each in extract]
    if not extractors:
        raise UsageError("extract is an empty list: name what to extract, such as 'number'")

    def first_that_finds(text: str) -> str | None:
        for extractor in extractors:
            value = extractor(text)
            if value is not None:
                return value
        return None

    return first_that_finds


def _single(extract: Extract) -> Extractor:
    if isinstance(extract, str) and extract in _NAMED:
        return _NAMED[extract]
    if isinstance(extract, dict) and len(extract) == 1:
        [(kind, argument)] = extract.items()
        if kind in _WITH_ARGUMENT:
            return _WITH_ARGUMENT[kind](argument)
    names = ", ".join(_NAMED)
    kinds = ", ".join(f"{{ {kind} = … }}" for kind in _WITH_ARGUMENT)
    raise UsageError(f"extract is {extract!r}: expected one of {names}, {kinds}")


def _whole(text: str) -> str | None:
    return text.strip() or None


def _last_number(text: str) -> str | None:
    """The last number: looked for where its signs begin, because a long text takes long."""
    end = len(text)
    while end and not text[end - 1].isdecimal():
        end -= 1
    start = end
    while start and (text[start - 1].isdecimal() or text[start - 1] in ",./-−+eE$"):
        start -= 1
    last = None
    for match in NUMBER.finditer(text, start, end):
        last = match
    return last and last.group()


def _choice(text: str) -> str | None:
    for form in _CHOICES:
        letters = form.findall(text)
        if letters:
            return str(letters[-1]).upper()
    return None


def _boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}`, with balanced braces, or of `\boxed 5`."""
    boxes = list(_BOXED.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    if text[start : start + 1] != "{":
        words = text[start:].split(maxsplit=1)
        return words[0].rstrip("$.,") if words else None
    depth = 0
    for position in range(start, len(text)):
        character = text[position]
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : position].strip()
    return text[start + 1 :].strip() or None  # the text was cut short


def _json_field(name: str) -> Extractor:
    """The last field of this name in a JSON object, wherever the object stands in the text.

    The object may be in a fenced block, be cut short or have stray characters: only the key and
    its value have to be legible.
    """
    spelled = re.escape(name)
    key = re.compile(rf"(?<!\\)(?:\"{spelled}\"|'{spelled}'|\b{spelled}\b)\s*:\s*")

    def last_value(text: str) -> str | None:
        if name not in text:
            return None
        ends = [match.end() for match in key.finditer(text)]
        for start in reversed(ends):
            value = _json_value(text, start)
            if value is not None:
                return value
        return None

    return last_value


_DECODER = json.JSONDecoder(strict=False)
_END_OF_STRING = {quote: re.compile(rf"{quote}\s*(?=[,}}\]\n]|\Z)") for quote in "\"'"}
_END_OF_WORD = re.compile(r"[,}\n]|\Z")


def _json_value(text: str, start: int) -> str | None:
    """The value that begins at a position: as JSON says it, or by its legible part."""
    quote = text[start : start + 1]
    if quote in ("", "\n"):
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
        if isinstance(value, float):
            return text[start:end]
    except (ValueError, RecursionError):
        value = _broken_value(text, start, quote)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value.strip() or None
    return json.dumps(value, ensure_ascii=False)


def _broken_value(text: str, start: int, quote: str) -> str | None:
    if quote in _END_OF_STRING:
        end = _END_OF_STRING[quote].search(text, start + 1)
        content = text[start + 1 : end.start() if end else len(text)]
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), content)
    end = _END_OF_WORD.search(text, start)
    return text[start : end.start() if end else len(text)].strip()


def _pattern(pattern: str, *, last: bool) -> Extractor:
    """The first or last match of a pattern: its first group that took part, else all of it."""
    compiled = compile_pattern(pattern)

    def matching(text: str) -> str | None:
        chosen = None
        for match in compiled.finditer(text):
            chosen = match
            if not last:
                break
        if chosen is None:
            return None
        groups = [group for group in chosen.groups() if group is not None]
        value = groups[0] if groups else chosen.group()
        return str(value).strip() or None

    return matching


_NAMED: dict[str, Extractor] = {
    "whole": _whole,
    "number": _last_number,
    "choice": _choice,
    "boxed": _boxed,
}
_WITH_ARGUMENT: dict[str, Callable[[str], Extractor]] = {
    "json": _json_field,
    "first": lambda pattern: _pattern(pattern, last=False),
    "last": lambda pattern: _pattern(pattern, last=True),
}
