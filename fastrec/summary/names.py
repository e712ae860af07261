"""The names of evaluations, metrics and models in a summary, read without the rest of the document."""

from __future__ import annotations

import msgspec

__all__ = ["Names", "names_in"]


class Names(msgspec.Struct):
    """Which names the records of a corpus have, each once, in the order of the summary."""

    evaluations: list[str]
    metrics: list[str | None]
    """None stands for records without a metric."""
    models: list[str]


class _Model(msgspec.Struct):
    model_id: str


class _Evaluation(msgspec.Struct):
    evaluation_name: str
    metric: str | None
    by_model: list[_Model]


class _Summary(msgspec.Struct):
    evaluations: list[_Evaluation]


def names_in(data: bytes) -> Names:
    """Return the names in the text of `summary.json`.

    Raises:
        msgspec.MsgspecError: It is not a summary.
        UnicodeDecodeError: It is not UTF-8.
    """
    found = msgspec.json.decode(data, type=_Summary).evaluations
    return Names(
        evaluations=list(dict.fromkeys(one.evaluation_name for one in found)),
        metrics=list(dict.fromkeys(one.metric for one in found)),
        models=list(dict.fromkeys(model.model_id for one in found for model in one.by_model)),
    )
