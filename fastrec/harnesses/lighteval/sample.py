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

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from fastrec.harnesses.choices import Choices, Rule
from fastrec.harnesses.log import Sample, Score, extracted, tokens_of
from fastrec.harnesses.values import (
    JsonObject,
    as_list,
    as_object,
    number_of,
    replace_lone_surrogates,
    spell,
    spelled,
    value_of,
)
from fastrec.schemas.newest import Input, Output
from fastrec.schemas.schema import without_nulls

if TYPE_CHECKING:  # only workers may import it
    from fastrec.sources.parquet import Table

_REFERENCES = "\0references"  # of the layout up to 0.10
_DOC = (
    "query",
    "original_query",
    "choices",
    "gold_index",
    "id",
    "task_name",
    "sampling_methods",
    _REFERENCES,
    "specific",
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
_LOGPROBS = "LOGPROBS"
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


# A row of either layout: the document, the values of _RESPONSE, the lengths of each prompt and of
# each answer or choice, and the scores.
_Row = tuple[JsonObject, Sequence[Any], tuple[list[int], ...], Any]


def nested_rows(rows: Table) -> Iterator[_Row]:
    """Read rows of the layout since 0.11."""
    responses = zip(*(rows.values("model_response", name) for name in _RESPONSE), strict=True)
    tokens = zip(*(rows.lengths("model_response", name) for name in _TOKENS), strict=True)
    columns = zip(rows.values("doc"), responses, tokens, rows.values("metric"), strict=True)
    for doc, response, counts, metrics in columns:
        yield doc or {}, response, counts, value_of(metrics)


def flat_rows(rows: Table) -> Iterator[_Row]:
    """Read rows of the layout up to 0.10 as those since 0.11. They have no task and no id."""
    columns = zip(*(rows.values(name) for name in _FLAT), strict=True)
    tokens = zip(*(rows.lengths(name) for name in _FLAT_TOKENS), strict=True)
    for (example, prompt, *values), counts in zip(columns, tokens, strict=True):
        predictions, choices, gold, gold_index, specifics, metrics = map(value_of, values)
        texts = as_list(predictions)
        if any(
            isinstance(item, list) and all(isinstance(part, str) for part in item) for item in texts
        ):  # several answers to one request
            texts = list(chain.from_iterable(map(as_list, texts)))
        is_generative = all(isinstance(item, str | None) for item in texts) and (
            bool(texts) or not as_list(choices)
        )
        # A log-probability may be followed by whether its choice is the likeliest.
        firsts = [item[0] if isinstance(item, list) and item else item for item in texts]
        logprobs = [] if is_generative else _numbers(firsts)
        # with the question, then without
        count = len(as_list(choices))
        middle = count if len(logprobs) == 2 * count else len(logprobs)
        doc = {
            "query": example,
            "choices": choices,
            "gold_index": gold_index,
            "sampling_methods": [] if is_generative else _LOGPROBS,
            _REFERENCES: gold,
            "specific": specifics,
        }
        answers = texts if is_generative else []
        response = prompt, answers, None, None, logprobs[:middle], logprobs[middle:]
        yield doc, response, counts, metrics


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


class Metric(Struct, frozen=True):
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
        parts = without_nulls(value)
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


def sample_of(number: int, row: _Row, about: Metrics) -> tuple[str, Sample]:
    """Make a sample of a row, and name its task; `about` is what the results say of metrics.

    A row without an id has that of its number, from 0.
    """
    doc, response, tokens, given = row
    fields = dict(doc)
    query, original, choices, gold_index, sample_id, task, methods, references, specific = (
        fields.pop(name, None) for name in _DOC
    )
    for name, value in _further(specific).items():
        fields[f"specific_{name}" if name in fields else name] = value
    sent, *said, likelihoods, unconditioned = response
    # the second are the texts without reasoning, if lighteval removed it
    texts, processed, reasonings = map(_texts, said)
    logprobs = _numbers(likelihoods)
    question = _text(original) or _text(query)
    prompt = _text(sent)
    options = _texts(choices)
    correct = [
        index
        for index in as_list(gold_index)
        if index.__class__ is int and 0 <= index < len(options)
    ]
    picking = None
    metadata = {}
    if not texts and (logprobs or _LOGPROBS in as_list(methods)):
        picking = Choices(options, logprobs, correct, _numbers(unconditioned), tokens[1])
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
    extracted_texts = _texts(as_object(specific).get(_EXTRACTED))
    return _text(task), Sample(
        sample_id=_text(sample_id) or str(number),
        input=Input(
            raw=question,
            formatted=prompt if prompt and prompt != question else UNSET,
            reference=_texts(references)
            or [text for index in correct for text in _texts(as_list(choices)[index])],
            choices=options if picking and options else UNSET,
        ),
        output=Output(
            raw=texts,  # of multiple choice, each score has the choice that its metric picks
            reasoning_trace=reasonings if any(reasonings) else UNSET,
        ),
        scores=scores,
        answers=[
            *(extracted(text, "text_post_processed") for text in processed if processed != texts),
            *(extracted(text, _EXTRACTED) for text in extracted_texts),
        ],
        token_usage=tokens_of(read, written) if read or written else None,
        metadata=metadata,
        fields=fields,
    )
