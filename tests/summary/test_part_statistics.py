"""The counts of a part, as they are in its file."""

from pathlib import Path

import pytest

from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.summary.part_statistics import LinesByPiece


@pytest.mark.parametrize("pieces", [1, 2, 16, 17, 300])
def test_copies_in_many_pieces_survive_their_file(tmp_path: Path, pieces: int) -> None:
    """msgspec reads no key of a map that is an array of more than 16 arrays."""
    lines = LinesByPiece()
    lines.kept[3] = 2
    lines.shared[tuple((number, 1 + number % 2) for number in range(pieces))] = 4
    path = str(tmp_path / "counts")
    write_blocks(path, [lines.packed()])
    assert LinesByPiece.unpacked(next(read_blocks(path))) == lines
