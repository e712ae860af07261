"""Names by the rule of the datastore, and what an aggregate has to say about the path of its samples file.

    data/<collection>/<developer>/<model>/<uuid4>.json                     and …/<uuid4>_samples.jsonl
    flat/objects/<first two digits>/<next two digits>/<uuid4>.json         and …/<uuid4>_samples.jsonl

Any folder of such a tree can be checked, a copy of a part of it too. So only names that are known are checked: those
below the folder that is checked, and those up to `data` if that is where it should be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from fastrec.errors import utf8
from fastrec.judge.findings import Finding, describe

__all__ = ["SAMPLES", "UUID_LIKE", "Place", "file_findings", "folder_findings", "path_finding", "place_of", "quoted"]

SAMPLES: Final = re.compile(r"(?P<stem>.+)_samples(?P<more>\.[^.]+)?\.jsonl(?:\.(?:zst|zstd|gz|gzip|bz2|xz))?")
"""Names of samples files; `more` is a mistake of early converters, which wrote `<uuid>_samples.Format.jsonl`."""

UUID_LIKE: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LONGEST: Final = 240
_LEVELS: Final = ("<collection>", "<developer>", "<model>")

# What Windows, the strictest system, does not allow; surrogates stand for bytes that are not UTF-8.
_NOT_PORTABLE: Final = re.compile(r'[<>:"\\|?*\x00-\x1f\x7f\ud800-\udfff]|[. ]$')
_RESERVED: Final = re.compile(r"(?:CON|PRN|AUX|NUL|COM[1-9]|LPT[1-9])(?:\.|$)", re.IGNORECASE)


class Place(msgspec.Struct, frozen=True):
    """What is known about a folder with pairs."""

    layout: Literal["data", "flat", "unknown"]
    folders: tuple[str, ...]
    """The names of the last folders: of `<collection>`, `<developer>`, `<model>` those that are known."""
    depth: int
    """Number of folders below `data` or `flat/objects`, or below the folder that is checked."""


def place_of(folder: Sequence[str], given: int) -> Place:
    """Return what is known about a folder by its absolute path; the first `given` names lead to the checked one.

    >>> place_of(["", "data", "gsm8k", "org", "model"], 4)
    Place(layout='data', folders=('gsm8k', 'org', 'model'), depth=3)
    >>> place_of(["", "tmp", "copy", "org", "model"], 3)
    Place(layout='unknown', folders=('org', 'model'), depth=2)
    """
    for start in range(len(folder) - 1, 0, -1):
        if (folder[start - 1], folder[start]) == ("flat", "objects"):
            return Place("flat", (), len(folder) - start - 1)
    if len(folder) >= 4 and folder[-4] == "data":
        return Place("data", tuple(folder[-3:]), 3)
    roots = [number for number, name in enumerate(folder) if name == "data" and number >= given - 1]
    if roots:
        below = folder[roots[-1] + 1 :]
        return Place("data", tuple(below[-3:]), len(below))
    below = folder[given:]
    return Place("unknown", tuple(below[-3:]), len(below))


def folder_findings(place: Place) -> Iterator[Finding]:
    """Find what is wrong with the names of folders."""
    if place.layout == "data" and place.depth != 3:
        message = f"expected three folders below data: {'/'.join(_LEVELS)}, found {place.depth}"
        yield Finding("name.depth", "$", message)
    for name in place.folders:
        if name == "data":
            yield Finding("name.data", "$", "expected no folder called data below data, found one")
        elif _NOT_PORTABLE.search(name) or _RESERVED.match(name):
            yield Finding("name.portable", "$", f"expected a name that every system allows, found {quoted(name)}")


def file_findings(name: str, stem: str, folder: Sequence[str], place: Place) -> Iterator[Finding]:
    """Find what is wrong with the name of a file, whose name without `.json` or `_samples.jsonl` is `stem`."""
    if not _UUID4.fullmatch(stem):
        yield Finding("name.uuid", "$", f"expected a UUID of version 4 in lower case, found {quoted(stem)}")
    elif place.layout == "flat" and tuple(folder[-place.depth :] if place.depth else ()) != (stem[:2], stem[2:4]):
        expected = f"flat/objects/{stem[:2]}/{stem[2:4]}"
        yield Finding("name.flat", "$", f"expected the folder {expected}, found {quoted('/'.join(folder[-4:]))}")
    matched = SAMPLES.fullmatch(name)
    if matched and matched["more"]:
        yield Finding("name.samples", "$", f"expected the name {utf8(stem)}_samples.jsonl, found {quoted(name)}")


def path_finding(file_path: str, stem: str, samples: str | None, folder: Sequence[str], place: Place) -> Finding | None:
    """Compare the `file_path` of an aggregate with the samples file, which may be compressed, or missing."""
    plain = f"{stem}_samples.jsonl"
    names = {plain, samples}
    where = "$.detailed_evaluation_results.file_path"
    first, *folders, name = file_path.split("/") if "/" in file_path else ("", file_path)
    is_flat = tuple(folder[-2:]) == (stem[:2], stem[2:4])
    known = () if is_flat or (place.layout == "data" and place.depth != 3) else place.folders
    if first == "data" and len(folders) == 3 and name in names and tuple(folders[3 - len(known) :]) == known:
        return None
    expected = "/".join(("data", *_LEVELS[: 3 - len(known)], *known, plain))
    message = f"expected {utf8(expected)}, found {quoted(file_path)}"
    is_relative = file_path.removeprefix("./") in names
    return Finding("pair.relative_path" if is_relative else "pair.file_path", where, message)


def quoted(text: str) -> str:
    """Quote a text for a message; names and checksums are shown whole."""
    text = utf8(text)
    return json.dumps(text, ensure_ascii=False) if len(text) <= _LONGEST else describe(text)
