"""Turn a row of details into a sample with a score per metric.

There are two layouts:

    since 0.11                      up to 0.10
    doc {query, choices, …}         example, full_prompt, choices, gold, gold_index, specifics
    model_response {text, …}        predictions, input_tokens, cont_tokens
    metric {name: value}            metrics

Types vary from file to file: a column can be null, a value or a list, and up to 0.10 also the text
of a Python value, such as `[(-1.5, False)]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from fastrec.harnesses.choices import Choices, Rule
from fastrec.harnesses.log import Sample, Score, extracted, tokens_of
from fastrec.harnesses.values import (
    JsonObject,
    Texts,
    as_list,
    as_object,
    number_of,
    replace_lone_surrogates,
    spell,
    spelled,
    value_of,
)
from fastrec.schemas.newest import Input, Output

if TYPE_CHECKING:  # only workers may import it
    from fastrec.sources.parquet import Table

_DOC = (
    "query",
    "original_query",
    "choices",
    "gold_index",
    "id",
    "task_name",
    "sampling_methods",
)
_RESPONSE = (
    "input",
    "text",
    "text_post_processed",
    "reasonings",
    "logprobs",
    "unconditioned_logprobs",
)
_TOKENS = ("input_tokens", "output_tokens")
_EXTRACTED = "extracted_predictions"

_FLAT = (
    "example",
    "full_prompt",
    "predictions",
    "choices",
    "gold",
    "gold_index",
    "specifics",
    "metrics",
)
_FLAT_TOKENS = ("input_tokens", "cont_tokens")
_COLUMNS = [
    *(f"model_response.{name}" for name in (*_RESPONSE, *_TOKENS)),
    "metric",
    *_FLAT,
    *_FLAT_TOKENS,
]


def columns_of(filled: Iterable[str]) -> tuple[list[str], list[str]]:
    """The columns to read and those not to read, of the columns of a file that have values.

    All fields of documents are metadata, but for images: a record has no place for them.
    """
    wanted = _COLUMNS + [
        name for name in filled if name.startswith("doc.") and name != "doc.images"
    ]
    return wanted, [
        name for name in filled if name not in wanted and name.partition(".")[0] not in wanted
    ]


def samples_in(
    rows: Table, before: int, about: Metrics, *, is_flat: bool
) -> Iterator[tuple[str, Sample]]:
    """Turn rows into samples, each with its task; `about` is what the results say of metrics."""
    return (_flat_rows if is_flat else _nested_rows)(rows, before, about)


def _nested_rows(rows: Table, before: int, about: Metrics) -> Iterator[tuple[str, Sample]]:
    """Read rows of the layout since 0.11, each with its task."""
    responses = zip(*(rows.values("model_response", name) for name in _RESPONSE), strict=True)
    tokens = zip(*(rows.lengths("model_response", name) for name in _TOKENS), strict=True)
    columns = zip(rows.values("doc"), responses, tokens, rows.values("metric"), strict=True)
    for row, (doc, response, counts, metrics) in enumerate(columns, before):
        fields = dict(doc or {})
        query, original, choices, gold_index, number, task, methods = (
            fields.pop(name, None) for name in _DOC
        )
        specific = fields.pop("specific", None)
        for name, value in _further(specific).items():
            fields[f"specific_{name}" if name in fields else name] = value
        prompt, texts, processed, reasonings, logprobs, unconditioned = response
        texts = _texts(texts)
        logprobs = _numbers(logprobs)
        yield (
            _text(task),
            _sample_of(
                about,
                sample_id=_text(number) or str(row),
                question=_text(original) or _text(query),
                prompt=_text(prompt),
                is_generative=bool(texts) or (not logprobs and "LOGPROBS" not in as_list(methods)),
                choices=as_list(choices),
                gold_index=gold_index,
                references=[],
                texts=texts,
                processed=_texts(processed),
                reasonings=_texts(reasonings),
                specific=specific,
                logprobs=logprobs,
                unconditioned=_numbers(unconditioned),
                tokens=counts,
                given=value_of(metrics),
                fields=fields,
            ),
        )


def _flat_rows(rows: Table, before: int, about: Metrics) -> Iterator[tuple[str, Sample]]:
    """Read rows of the layout up to 0.10.

    They have no task and no id: that is the number of the row, from 0.
    """
    columns = zip(*(rows.values(name) for name in _FLAT), strict=True)
    tokens = zip(*(rows.lengths(name) for name in _FLAT_TOKENS), strict=True)
    for row, (values, counts) in enumerate(zip(columns, tokens, strict=True), before):
        example, prompt = values[:2]
        predictions, choices, gold, gold_index, specifics, metrics = map(value_of, values[2:])
        predictions = as_list(predictions)
        if any(
            isinstance(item, list) and all(isinstance(part, str) for part in item)
            for item in predictions
        ):  # several answers to one request
            predictions = list(chain.from_iterable(map(as_list, predictions)))
        choices = as_list(choices)
        is_generative = all(isinstance(item, str | None) for item in predictions) and (
            bool(predictions) or not choices
        )
        # A log-probability may be followed by whether its choice is the likeliest.
        firsts = [item[0] if isinstance(item, list) and item else item for item in predictions]
        logprobs = [] if is_generative else _numbers(firsts)
        # with the question, then without
        middle = len(choices) if len(logprobs) == 2 * len(choices) else len(logprobs)
        yield (
            "",
            _sample_of(
                about,
                sample_id=str(row),
                question=_text(example),
                prompt=_text(prompt),
                is_generative=is_generative,
                choices=choices,
                gold_index=gold_index,
                references=_texts(gold),
                texts=_texts(predictions) if is_generative else [],
                processed=[],
                reasonings=[],
                specific=specifics,
                logprobs=logprobs[:middle],
                unconditioned=logprobs[middle:],
                tokens=counts,
                given=metrics,
                fields=_further(specifics),
            ),
        )


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = spell(value)
    return text if text.isascii() else replace_lone_surrogates(text)


def _texts(value: Any) -> list[str]:
    return [_text(item) for item in as_list(value)]


def _numbers(value: Any) -> list[float]:
    """The numbers of a list, or none if one of its items is no number."""
    items = as_list(value)
    return (
        [float(item) for item in items]
        if all(isinstance(item, int | float) for item in items)
        else []
    )


def _further(specific: Any) -> JsonObject:
    """What a task says about a document; what a metric extracted is an answer instead."""
    if not isinstance(specific, dict):
        return {"specific": specific}
    return {name: value for name, value in specific.items() if name != _EXTRACTED}


class Metric(msgspec.Struct, frozen=True):
    name: str
    category: str = ""  # `GENERATIVE` or `LOGPROBS`; other names before 0.11
    aggregation: str = ""  # how the scores are aggregated; empty if the document does not say it
    lower_is_better: bool = False
    rule: Rule | None = None  # how the metric picks a choice; None if the document does not say it


Metrics = dict[str, Metric]  # by name


def metrics_in(config: Any) -> Iterator[Metric]:
    """Yield the metrics of one entry of a task's configuration: some are computed together."""
    if not isinstance(config, dict):
        return
    rule = rule_of(str(config.get("sample_level_fn", "")))
    for name in as_list(config.get("metric_name")):
        better, aggregation = (
            given.get(name) if isinstance(given, dict) else given
            for given in (config.get("higher_is_better"), config.get("corpus_level_fn"))
        )
        yield Metric(
            name=str(name),
            category=str(config.get("category") or ""),
            aggregation=str(aggregation or ""),
            lower_is_better=better is False,
            rule=rule,
        )


def rule_of(function: str) -> Rule | None:
    """How a metric picks a choice, by the description of its function.

    None if that does not say it.

    >>> rule_of("LoglikelihoodAcc(logprob_normalization=None)")
    'none'
    >>> rule_of("LoglikelihoodAcc(logprob_normalization=LogProbCharNorm(ignore_first_space=True))")
    'no_space'
    """
    if "CharNorm" in function:
        return "no_space" if "ignore_first_space=True" in function else "characters"
    if "TokenNorm" in function:
        return "tokens"
    if "PMINorm" in function:
        return "pmi"
    return "none" if "normalization=None" in function else None


# What lighteval keeps of a sample for a metric that only has a value for all samples together.
_CORPUS_INPUTS = ({"golds", "preds"}, {"logprobs", "weights"}, {"source", "hyp", "ref"})

# Names like `acc_norm` pick this way; the second way is that of some tasks only.
_RULES_BY_NAME: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("norm_token", ("tokens",)),
    ("norm_pmi", ("pmi",)),
    ("norm", ("characters", "no_space")),
)


def _scores_of(name: str, value: Any, choices: Choices | None, metrics: Metrics) -> Iterator[Score]:
    metric = metrics.get(name, Metric(name))
    if (
        value is None
        and metric.category
        and metric.category.startswith("GENERATIVE") != (choices is None)
    ):
        # a column that only rows with the other kind of request fill: for text, or for
        # log-probabilities
        return
    if isinstance(value, dict):
        if any(keys <= value.keys() for keys in _CORPUS_INPUTS):
            yield Score(name, None, f"{name} has a value for all samples only, not for each")
            return
        parts = {key: part for key, part in value.items() if part is not None}
        if any(number_of(part) is not None for part in parts.values()):
            for key, part in parts.items():
                yield _score(f"{name}:{key}", part, choices, metric.rule)
            return
    yield _score(name, value, choices, metric.rule)


def _score(name: str, value: Any, choices: Choices | None, rule: Rule | None) -> Score:
    number = number_of(value)
    score = Score(name, number)
    if value is None:
        score.problem = f"the log has no value of {name}"
    elif number is None:
        shown = spell(value)
        shown = shown if len(shown) <= 80 else shown[:79] + "…"
        score.problem = f"the value of {name} is not a number: {shown}"
    if choices is not None:
        picked = choices.pick(rules_of(name, rule), number, is_accuracy=name.startswith("acc"))
        if picked is not None:
            score.output = Output(raw=[choices.texts[picked]])
            score.metadata = {"choice_index": str(picked)}
    return score


def rules_of(metric: str, rule: Rule | None) -> tuple[Rule, ...]:
    """How a metric picks a choice: as the log says, or else as its name does."""
    if rule is not None:
        return (rule,)
    return next((rules for end, rules in _RULES_BY_NAME if metric.endswith(end)), ("none",))


def _sample_of(
    about: Metrics,
    *,
    sample_id: str,
    question: str,
    prompt: str,
    is_generative: bool,
    choices: list[Any],
    gold_index: Any,
    references: list[str],
    texts: list[str],
    processed: list[str],
    reasonings: list[str],
    specific: Any,
    logprobs: list[float],
    unconditioned: list[float],
    tokens: tuple[list[int], ...],
    given: Any,
    fields: JsonObject,
) -> Sample:
    """Make a sample of what both layouts say.

    `processed` are the texts without reasoning, if lighteval removed it; `tokens` those of each
    prompt, and of each answer or choice; `given` are the scores.
    """
    correct = [
        index
        for index in as_list(gold_index)
        if index.__class__ is int and 0 <= index < len(choices)
    ]
    options = _texts(choices)
    picking = None
    metadata: Texts = {}
    if not is_generative:
        picking = Choices(options, logprobs, correct, unconditioned, tokens[1])
        is_one = len(logprobs) == 1
        metadata = spelled(
            {
                "reference_index": ",".join(map(str, correct)),
                "log_likelihood": spell(logprobs[0]) if is_one else "",
                "log_likelihoods": [] if is_one else logprobs,
            }
        )
    scores: list[Score] = []
    for name, value in as_object(given).items():
        scores += _scores_of(name, value, picking, about)
    read, written = map(sum, tokens)
    found = _texts(as_object(specific).get(_EXTRACTED))
    return Sample(
        sample_id=sample_id,
        input=Input(
            raw=question,
            formatted=prompt if prompt and prompt != question else UNSET,
            reference=references or [text for index in correct for text in _texts(choices[index])],
            choices=options if picking and options else UNSET,
        ),
        output=Output(
            raw=texts,  # of multiple choice, each score has the choice that its metric picks
            reasoning_trace=reasonings if any(reasonings) else UNSET,
        ),
        scores=scores,
        answers=[
            *(extracted(text, "text_post_processed") for text in processed if processed != texts),
            *(extracted(text, _EXTRACTED) for text in found),
        ],
        token_usage=tokens_of(read, written) if read or written else None,
        metadata=metadata,
        fields=fields,
    )
