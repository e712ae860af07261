"""What the samples of a task are read with: settings of the task, and the parts of the file that workers read."""

from __future__ import annotations

import msgspec

from fastrec.sources.shard import Slice

__all__ = ["LogSlice", "TaskSetup"]


class TaskSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a task that decide what its records look like."""

    question: str = ""
    """`doc_to_text`: a key of the document or a template; empty if it is a function."""
    target: str = ""
    """`doc_to_target`, likewise."""
    delimiter: str = " "
    """What comes between the context and a choice."""
    output_type: str = ""
    """`multiple_choice`, `loglikelihood`, `loglikelihood_rolling` or `generate_until`; empty if unknown."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics in the results."""
    filters: tuple[str, ...] = ()
    """Names of the filters, in the order in which they were applied."""


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of the samples; small and picklable."""

    piece: Slice
    is_array: bool
    """Whether the file is one JSON array instead of lines."""
    setup: TaskSetup
