"""Runs: sorted spill files, the cuts between parts, merging runs, and gathering a range of keys from all of them."""

from fastrec.stages.runs.cuts import cut_keys
from fastrec.stages.runs.files import ViewsWriter, pack_block, read_blocks, write_blocks
from fastrec.stages.runs.gather import RunSlice, Window, gather, slice_merged, slice_run, whole_run
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
from fastrec.stages.runs.merge import merge_runs
from fastrec.stages.runs.sample import Sample, Sampled, sample_again
from fastrec.stages.runs.spill import Fence, Run, index_of, spill

__all__ = [
    "FIELDS",
    "Fence",
    "Run",
    "RunSlice",
    "Sample",
    "Sampled",
    "ViewsWriter",
    "Window",
    "cut_keys",
    "gather",
    "index_of",
    "join_key",
    "key_maker",
    "key_splitter",
    "merge_runs",
    "pack_block",
    "read_blocks",
    "sample_again",
    "sample_id_of",
    "slice_merged",
    "slice_run",
    "sort_order",
    "spell_text",
    "spill",
    "text_of",
    "whole_run",
    "write_blocks",
]
