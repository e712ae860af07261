"""What is read of a log: the fields of Inspect's `EvalSample` and `EvalLog` that records need.

The header is `header.json`, `_journal/start.json`, or the document without its samples. The decoder skips all other
fields, above all `events`, which are most of the text of a log. Fields whose type varied between versions of Inspect
are `Any`; the modules that use them look closer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_NOTHING: Final = msgspec.Raw(b"")
SKIPPED: Final = ("events", "transcript", "store")
"""Fields of a sample that are looked at, but not read."""


class _Base(msgspec.Struct, gc=False, kw_only=True):
    """An object of a log. All fields are optional, unless a record cannot do without them."""


class Failure(_Base):
    type: str = ""
    message: str = ""


class Part(_Base):
    """A part of the content of a message: the union of all types that Inspect has."""

    type: str = "text"
    text: str | None = None
    reasoning: str | None = None
    summary: str | None = None
    redacted: bool | None = None
    image: str | None = None
    audio: str | None = None
    video: str | None = None
    document: str | None = None
    mime_type: str | None = None
    format: str | None = None
    filename: str | None = None
    data: Any = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    result: Any = None
    error: Any = None


class Call(_Base):
    id: str | None = None
    function: str | None = None
    arguments: Any = None
    parse_error: str | None = None


class LoggedMessage(_Base):
    role: str
    content: str | list[str | Part] | None = None
    reasoning: str | None = None  # in logs of early 2025; later it is a part of the content
    tool_calls: list[Call] | None = None
    tool_call_id: str | list[str] | None = None
    error: Failure | None = None
    tool_error: str | None = None  # instead of `error`, in logs of 2024


class Usage(_Base):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    reasoning_tokens: int | None = None


class Choice(_Base):
    message: LoggedMessage
    stop_reason: str | None = None


class ModelOutput(_Base):
    choices: list[Choice] = []
    completion: str | None = None
    usage: Usage | None = None
    error: str | None = None


class SampleScore(_Base):
    value: Any = None
    answer: Any = None
    explanation: Any = None
    reason: Any = None
    metadata: dict[str, Any] | None = None
    history: list[dict[str, Any]] | None = None
    """Earlier states of the score, and changes of it, which have a `provenance`."""


class LoggedSample(_Base):
    """A sample; the shell of a chunked one has `message_refs` instead of `messages`."""

    id: Any
    epoch: int = 1
    input: str | list[LoggedMessage] = ""
    choices: list[Any] | None = None
    target: Any = ""
    messages: list[LoggedMessage] = []
    message_refs: list[tuple[int, int]] | None = None
    output: ModelOutput | None = None
    scores: dict[str, SampleScore] | None = None
    score: SampleScore | None = None  # instead of `scores`, in logs of 2024
    model_usage: dict[str, Usage] | None = None
    total_time: float | None = None
    working_time: float | None = None
    uuid: str | None = None
    error: Failure | None = None
    error_retries: list[Failure] | None = None
    invalidation: Any = None
    limit: Any = None
    metadata: dict[str, Any] | None = None
    events: msgspec.Raw = _NOTHING
    transcript: msgspec.Raw = _NOTHING  # instead of `events`, in logs of 2024
    store: msgspec.Raw = _NOTHING

    @property
    def unread(self) -> list[str]:
        """The fields that no record holds; tokens of old logs are read of events."""
        return [name for name in SKIPPED if bytes(getattr(self, name)) not in (b"", b"[]", b"{}", b"null")]


class SlowSample(LoggedSample):
    """A sample that Python's `json` has decoded, so that nothing of it is raw."""

    events: Any = None
    transcript: Any = None
    store: Any = None

    @property
    def unread(self) -> list[str]:
        return [name for name in SKIPPED if getattr(self, name)]


# Parts of a sample that are needed seldom. They are long, so they are decoded in a second pass if they are needed.


class _Transcript(_Base):
    content: dict[str, str] | None = None


class SampleAttachments(_Base):
    attachments: dict[str, str] | None = None
    transcript: _Transcript | None = None  # instead of `attachments`, in logs of 2024


class _Event(_Base):
    event: str = ""
    output: Any = None
    events: list[_Event] | None = None


class SampleEvents(_Base):
    """The calls of models, which have the tokens of a sample without `model_usage`."""

    events: list[_Event] | None = None
    transcript: SampleEvents | None = None


class Named(_Base):
    name: str | None = None


class Config(_Base):
    epochs: int | None = None


class ScorerSpec(_Base):
    name: str
    metrics: Any = None


class Spec(_Base):
    task: str
    model: str
    created: str
    run_id: str | None = None
    eval_id: str | None = None
    dataset: Named | None = None
    config: Config | None = None
    packages: dict[str, Any] | None = None
    scorers: list[ScorerSpec] | None = None


class Metric(_Base):
    name: str = ""
    group: str | None = None  # the metric that has several values, of which this is one
    value: Any = None


class Entry(_Base):
    """The aggregates of one scorer, or of one key of its scores, by one reducer."""

    name: str = ""
    scorer: str = ""
    reducer: str | None = None
    unscored_samples: int | None = None
    scored_samples: int | None = None
    metrics: dict[str, Metric] = {}


class Results(_Base):
    total_samples: int | None = None
    completed_samples: int | None = None
    logged_samples: int | None = None
    early_stopping: Any = None
    scores: list[Entry] | None = None
    scorer: Named | None = None
    """Instead of `scores`, with `metrics`, in logs of 2024."""
    metrics: dict[str, Metric] | None = None


class Header(_Base):
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
