"""Tokens and times of a whole sample: of all calls of all models, also those that graded it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fastrec.harnesses.inspect.sample_structs import LoggedSample, Usage
from fastrec.schemas.newest import Performance, TokenUsage

__all__ = ["performance_of", "token_usage_of", "usages_in"]

_SELDOM: Final = ("input_tokens_cache_write", "input_tokens_cache_read", "reasoning_tokens")


def token_usage_of(sample: LoggedSample, events: Callable[[], Any]) -> TokenUsage | None:
    """Return the tokens of a sample.

    Logs before 2025 have no `model_usage`. If the model was called more than once, their `events` have the tokens of
    each call; the output has those of the last call.
    """
    if sample.model_usage:
        return _sum(sample.model_usage.values())
    answers = sum(message.role == "assistant" for message in sample.messages)
    usages = list(usages_in(events())) if answers > 1 else []
    if not usages and sample.output is not None and sample.output.usage is not None:
        usages = [sample.output.usage]
    return _sum(usages) if usages else None


def usages_in(events: Iterable[Any] | None) -> Iterator[Usage]:
    """Yield the tokens of each call of a model, also of those inside of tools and subtasks."""
    for event in events or ():
        if event.event == "model" and isinstance(event.output, dict):
            usage = event.output.get("usage")
            if isinstance(usage, dict):
                yield msgspec.convert(usage, Usage)
        yield from usages_in(event.events)


def _sum(usages: Iterable[Usage]) -> TokenUsage:
    total = TokenUsage(input_tokens=0, output_tokens=0, total_tokens=0)
    for usage in usages:
        total.input_tokens += max(usage.input_tokens or 0, 0)
        total.output_tokens += max(usage.output_tokens or 0, 0)
        total.total_tokens += max(usage.total_tokens or 0, 0)
        for name in _SELDOM:
            count = getattr(usage, name)
            if count is not None:
                setattr(total, name, (getattr(total, name) or 0) + max(count, 0))
    return total


def performance_of(sample: LoggedSample) -> Performance | None:
    """Return the times of a sample: `latency_ms` is its working time, without waiting for rate limits and others."""
    latency = _milliseconds(sample.working_time)
    total = _milliseconds(sample.total_time)
    if latency is None and total is None:
        return None
    return Performance(
        latency_ms=UNSET if latency is None else latency,
        additional_details=UNSET if total is None else {"total_time_ms": str(total)},
    )


def _milliseconds(seconds: float | None) -> float | None:
    if seconds is None or not math.isfinite(seconds):
        return None
    return max(round(seconds * 1000, 3), 0.0)  # clocks drift: a time may be negative
