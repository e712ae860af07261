"""What is read of the header of a log: `header.json`, `_journal/start.json`, or the document without its samples.

These are the fields of Inspect's `EvalLog` that records need. Fields whose type varied between versions are `Any`; the
modules that use them look closer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fastrec.harnesses.inspect.sample_structs import Failure

__all__ = ["Entry", "Header", "Metric", "Results"]


class _Base(msgspec.Struct, gc=False, kw_only=True):
    """An object of a header. All fields are optional, unless a record cannot do without them."""


class Dataset(_Base):
    """The dataset of a run."""

    name: str | None = None


class Config(_Base):
    """The settings of a run."""

    epochs: int | None = None


class ScorerSpec(_Base):
    """A scorer as the task declares it."""

    name: str
    metrics: Any = None


class Spec(_Base):
    """What was run."""

    task: str
    model: str
    created: str
    run_id: str | None = None
    eval_id: str | None = None
    dataset: Dataset | None = None
    config: Config | None = None
    packages: dict[str, Any] | None = None
    scorers: list[ScorerSpec] | None = None


class Metric(_Base):
    """An aggregate."""

    name: str = ""
    group: str | None = None
    """The metric that has several values, of which this is one."""
    value: Any = None


class Entry(_Base):
    """The aggregates of one scorer, or of one key of its scores, by one reducer."""

    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    unscored_samples: int | None = None
    scored_samples: int | None = None
    metrics: dict[str, Metric] = {}


class OldScorer(_Base):
    """The only scorer of a log of 2024."""

    name: str = ""


class Results(_Base):
    """The aggregates of a run."""

    total_samples: int | None = None
    completed_samples: int | None = None
    logged_samples: int | None = None
    early_stopping: Any = None
    scores: list[Entry] | None = None
    scorer: OldScorer | None = None
    """Instead of `scores`, with `metrics`, in logs of 2024."""
    metrics: dict[str, Metric] | None = None


class Header(_Base):
    """A log without its samples."""

    eval: Spec
    version: int = 2
    status: str = "started"
    results: Results | None = None
    error: Failure | None = None
    invalidated: bool | None = None

    @property
    def expected_samples(self) -> int | None:
        """The number of samples that the log should have; None if the run left out some that were planned."""
        results = self.results
        if self.status != "success" or results is None:
            return None
        is_partial = results.logged_samples is not None or results.early_stopping is not None
        return None if is_partial else results.total_samples
