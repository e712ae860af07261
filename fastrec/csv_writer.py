r"""CSV that no spreadsheet takes for formulas.

A spreadsheet evaluates a cell that begins with `=`, `+`, `-`, `@`, a tab or a line break, even if
the cell is quoted. Names of models and error messages come from others, so such a cell gets a
single quote in front, as OWASP advises:

    =1+1     becomes   '=1+1         1, -0.5, 1e-7   stay: a cell that is a number is no formula
    '=1+1    becomes   ''=1+1        'tis            stays: no formula follows the quote

So the original can always be restored: remove one quote from each cell that begins with quotes and
then one of these characters.
"""

import csv
import re
from collections.abc import Iterable
from typing import TextIO

# Wide variants count, too: East Asian spreadsheets accept them.
_FIRST = frozenset("=+-@\t\r\n＝＋－＠'")
_FORMULA = re.compile("'*[=+@\t\r\n＝＋－＠-]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def escape_cell(text: str) -> str:
    """Put a single quote before text that a spreadsheet would evaluate.

    >>> [escape_cell(text) for text in ("=1+1", "'=1+1", "-0.5", "-x", "'tis", "")]
    ["'=1+1", "''=1+1", '-0.5', "'-x", "'tis", '']
    """
    if text[:1] not in _FIRST or not _FORMULA.match(text) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


class CsvWriter:
    r"""Writes CSV rows that end with \n, and quotes cells that contain \r.

    Most readers take \r for the end of a row.
    Before Python 3.13, the csv module quotes only characters of its own line terminator.
    """

    def __init__(self, file: TextIO, *, raw_cells: bool = False) -> None:
        self._file = file
        self._raw = raw_cells
        self._writerow = csv.writer(self, lineterminator="\r\n").writerow

    def writerow(self, row: Iterable[object]) -> None:
        """Write one row.

        Unless cells are raw, text that a spreadsheet would evaluate is escaped.
        """
        if not self._raw:
            row = [escape_cell(cell) if cell.__class__ is str else cell for cell in row]
        self._writerow(row)

    def write(self, row: str) -> None:
        self._file.write(row[:-2] + "\n")
