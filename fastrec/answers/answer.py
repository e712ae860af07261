"""One answer to a question: a record of the corpus, and what a reader wants to know of it at once."""

from __future__ import annotations

from typing import Any

import msgspec

from fastrec.answers.table import Outcome
from fastrec.corpus.sources import Source

__all__ = ["Answer"]


class Answer(msgspec.Struct, kw_only=True):
    """An answer of a model to a question."""

    model_id: str
    evaluation_id: str
    metric: str | None
    sample_id: int | str
    outcome: Outcome
    """`right`, `wrong` or `error`."""
    score: int | float | bool
    error: str
    """Empty if there is none."""
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: float | None
    source: Source | None
    """Where the record comes from, if the corpus has tracked it."""
    record: Any
    """The record, as a Struct of the schema version of the corpus."""
    line: bytes
    """The record, as it is in the part."""
