"""Runs: sorted spill files, the cuts between parts, and gathering a range of keys from all runs."""

from fastrec.stages.runs.cuts import cut_keys
from fastrec.stages.runs.files import read_blocks, write_block
from fastrec.stages.runs.gather import RunSlice, Window, gather, slice_run
from fastrec.stages.runs.keys import (
    FIELDS,
    join_key,
    key_maker,
    key_splitter,
    sample_id_of,
    sort_order,
    spell_text,
    text_of,
)
from fastrec.stages.runs.spill import Fence, Run, Sampled, spill

__all__ = [
    "FIELDS",
    "Fence",
    "Run",
    "RunSlice",
    "Sampled",
    "Window",
    "cut_keys",
    "gather",
    "join_key",
    "key_maker",
    "key_splitter",
    "read_blocks",
    "sample_id_of",
    "slice_run",
    "sort_order",
    "spell_text",
    "spill",
    "text_of",
    "write_block",
]
