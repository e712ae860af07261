"""Further tables of `stats`: what answers cost, how sure models are of them, and which models are probably one.

Prices are in a file:

    ["org/model-*"]        a model, or a pattern
    input = 2.5            per million tokens
    output = 10
    cached = 1.25          of the input, what came from a cache; the price of input by default
    reasoning = 10         of the output, what was reasoning; the price of output by default

An exact name decides before a pattern, then the first pattern that matches.

The confidence of answers is in a field of their records, or it is the score that another metric
gives them.

Names of models are compared without their organisation, in lower case, with - for _ and spaces.
Whether the answers are the same is told by their outputs, verdicts and scores on common questions.
Of several spellings, the others get the name of the model with the most records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from operator import itemgetter
from typing import Any, Final

import msgspec

from fastrec.answers.index import Index, choose_scopes
from fastrec.answers.records import ANSWERS
from fastrec.answers.table import Query
from fastrec.answers.transcript import decoded
from fastrec.errors import NoMatchError, UsageError, counted, listed, shown
from fastrec.filters import Filters, matches_any
from fastrec.judge.parse import parse
from fastrec.schemas.view import view
from fastrec.statistics.calibration import Calibration, calibrate
from fastrec.statistics.repeats import ERROR, RIGHT
from fastrec.summary.present_ranking import ModelCost, SimilarModels
from fastrec.toml_file import read_toml
from fastrec.where import number_of, parse_path, values_of
from fastrec.wording import cost_text


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: float
    output: float
    cached: float | None = None
    reasoning: float | None = None

    def __post_init__(self) -> None:
        prices = self.input, self.output, self.cached or 0, self.reasoning or 0
        if not all(0 <= price < float("inf") for price in prices):
            raise ValueError("a price must be a number that is not negative")


_USAGE: Final = view(
    input_tokens=int,
    output_tokens=int,
    input_tokens_cache_read=(int | None, None),
    reasoning_tokens=(int | None, None),
)
_RECORD: Final = view(
    model_id=str,
    evaluation=view(is_correct=bool),
    token_usage=(_USAGE | None, None),
    error=(str | None, None),
)
_decode: Final = msgspec.json.Decoder(_RECORD).decode


def read_prices(path: str) -> dict[str, Price]:
    """Read prices by model or pattern; UsageError if the file cannot be read or understood."""
    try:
        return msgspec.convert(read_toml(path, "the prices"), dict[str, Price])
    except msgspec.ValidationError as exc:
        raise UsageError(f"{shown(path)}: the prices are wrong: {exc}") from exc


def find_costs(
    index: Index, prices: Mapping[str, Price], metrics: Mapping[str, str | None], models: set[str]
) -> list[ModelCost]:
    """Add up what the chosen models cost, by evaluation and model.

    `metrics` has the metric of each evaluation. Records of its other metrics are about the same
    answers.
    """
    found: dict[
        tuple[str, str], list[int]
    ] = {}  # answers, with tokens, right, input, cached, output, reasoning
    for scope in index.scopes:
        chosen = tuple(model for model in scope.models if model in models)
        if not chosen or metrics.get(scope.evaluation_name, "") != scope.metric:
            continue
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, models=chosen)
        for line in index.selection.lines(index.numbers_of(query)):
            record = _read(line)
            sums = found.setdefault((scope.evaluation_name, record.model_id), [0] * 7)
            sums[0] += 1
            if usage := record.token_usage:
                cached = min(usage.input_tokens_cache_read or 0, usage.input_tokens)
                reasoning = min(usage.reasoning_tokens or 0, usage.output_tokens)
                used = (
                    usage.input_tokens - cached,
                    cached,
                    usage.output_tokens - reasoning,
                    reasoning,
                )
                right = record.evaluation.is_correct and not record.error
                for at, number in enumerate((1, right, *used), start=1):
                    sums[at] += number
    return [_cost(*name, _price_of(name[1], prices), sums) for name, sums in sorted(found.items())]


def _read(line: bytes) -> Any:
    try:
        return _decode(line)
    except msgspec.ValidationError:  # a number of more than 64 bits
        return msgspec.convert(parse(line)[0], _RECORD)


def _price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    patterns = (pattern for pattern in prices if matches_any(model, [pattern]))
    return prices.get(model) or prices.get(next(patterns, ""))


def _cost(evaluation: str, model: str, price: Price | None, sums: Sequence[int]) -> ModelCost:
    answers, known, right, *tokens = sums
    cost = None
    if price and known:
        cached = price.input if price.cached is None else price.cached
        reasoning = price.output if price.reasoning is None else price.reasoning
        each = zip((price.input, cached, price.output, reasoning), tokens, strict=True)
        cost = float(sum(Fraction(str(one)) * number for one, number in each) / 10**6)
    return ModelCost(
        evaluation_name=evaluation,
        model_id=model,
        answers=answers,
        unknown=answers - known,
        right=right,
        priced=price is not None,
        cost=cost,
        cost_per_right=cost / right if cost is not None and right else None,
    )


def total_costs(costs: Sequence[ModelCost]) -> tuple[list[str], list[list[str]], list[str]]:
    """The cost of each model over all evaluations, the lowest per right answer first: headings, cells and notes."""
    by_model: dict[str, list[ModelCost]] = {}
    for one in costs:
        by_model.setdefault(one.model_id, []).append(one)
    rows: list[tuple[float, list[str]]] = []
    for model, some in sorted(by_model.items()):
        answers, unknown, right = (
            sum(getattr(one, name) for one in some) for name in ("answers", "unknown", "right")
        )
        known = [one.cost for one in some if one.cost is not None]
        cost = math.fsum(known) if known else None
        each = [
            None if cost is None or not number else cost / number
            for number in (answers - unknown, right)
        ]
        evaluations = f"{len(known)} of {len(some)}"
        spelled = [cost_text(cost) if some[0].priced else "no price", *map(cost_text, each)]
        cells = [model, evaluations, f"{answers:,}", f"{unknown:,}", f"{right:,}", *spelled]
        rows.append((math.inf if each[1] is None else each[1], cells))
    names = [
        "model",
        "evaluations",
        "records",
        "no tokens",
        "right",
        "cost",
        "per answer",
        "per right answer",
    ]
    notes = ["cost, right: of the records with token counts; evaluations: those with a cost"]
    if unpriced := [model for model, some in by_model.items() if not some[0].priced]:
        notes.append(f"no price for {counted(len(unpriced), 'model')}: {listed(sorted(unpriced))}")
    return names, [cells for _, cells in sorted(rows, key=itemgetter(0))], notes


_Answer = tuple[tuple[str, str | None, str], tuple[float | None, bool]]
"""Evaluation, metric and model; the confidence, if there is one, and whether the answer is right."""


def find_calibration(index: Index, field: str, filters: Filters) -> list[Calibration]:
    is_metric = any(scope.metric == field for scope in index.scopes)
    found: dict[tuple[str, str | None, str], list[tuple[float | None, bool]]] = {}
    for name, answer in (_by_metric if is_metric else _by_field)(index, field, filters):
        found.setdefault(name, []).append(answer)
    made = [
        calibrate(name, found[name])
        for name in sorted(found, key=lambda name: (name[0], name[1] or "", name[2]))
    ]
    if not any(one.answers for one in made):
        raise NoMatchError(f"no answer has the field or metric {field!r} with a number from 0 to 1")
    return made


def _by_metric(index: Index, field: str, filters: Filters) -> Iterator[_Answer]:
    for scope, query in choose_scopes(index.scopes, filters):
        if scope.metric != field:
            stated = Query(evaluation_name=scope.evaluation_name, metric=field)
            for _, model, answer, confidence in index.pairs(query, stated):
                if answer and confidence and ERROR not in (answer.flag, confidence.flag):
                    yield (
                        (scope.evaluation_name, scope.metric, model),
                        (confidence.score, answer.flag == RIGHT),
                    )


def _by_field(index: Index, field: str, filters: Filters) -> Iterator[_Answer]:
    path = parse_path(field)
    for scope, query in choose_scopes(index.scopes, filters):
        every = Query(
            evaluation_name=scope.evaluation_name, metric=scope.metric, models=query.models
        )
        for line in index.selection.lines(index.numbers_of(every)):
            record = decoded(line)
            if not record.get("error"):
                confidence = next((number_of(value) for value in values_of(record, path)), None)
                name = scope.evaluation_name, scope.metric, record["model_id"]
                yield name, (confidence, record["evaluation"]["is_correct"])


def spelling(name: str) -> str:
    """What names have in common that differ only in spelling.

    >>> spelling("OpenAI/gsm8k-6B_finetuning"), spelling("gsm8k 6b finetuning")
    ('gsm8k-6b-finetuning', 'gsm8k-6b-finetuning')
    """
    return re.sub(r"[\s_-]+", "-", name.rpartition("/")[2].casefold())


def similar_pairs(names: Iterable[str], *, probable: bool = False) -> list[tuple[str, str]]:
    """All pairs of names that differ only in spelling; if only probable ones, then not of two organisations."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        groups.setdefault(spelling(name), []).append(name)
    pairs = [pair for some in groups.values() for pair in combinations(some, 2)]
    if probable:
        pairs = [
            pair
            for pair in pairs
            if len({spelling(name.rpartition("/")[0]) for name in pair} - {""}) < 2
        ]
    return pairs


def compare_similar(index: Index, records: dict[str, int]) -> list[SimilarModels]:
    """Compare the answers of models with similar names.

    `records` has the number of records of each chosen model.
    """

    def order(name: str) -> tuple[int, str]:
        return -records[name], name

    pairs = [tuple(sorted(pair, key=order)) for pair in similar_pairs(records)]
    pairs.sort(key=lambda pair: [*map(order, pair)])
    counts = {pair: [0, 0] for pair in pairs}
    for scope in index.scopes:
        inside = [pair for pair in pairs if {*pair} <= {*scope.models}]
        if not inside:
            continue
        models = tuple(sorted({name for pair in inside for name in pair}))
        query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric, models=models)
        for found in index.records(query).values():
            for one, other in inside:
                both = (found.get(name, ()) for name in (one, other))
                mine, theirs = (
                    [trial[:4] for trial in some if trial.flag & ANSWERS] for some in both
                )
                if mine and theirs:
                    counts[one, other][0] += 1
                    counts[one, other][1] += mine == theirs
    similar: list[SimilarModels] = []
    renamed: set[str] = set()
    for (name, other), (common, same) in counts.items():
        plain = (
            "*" not in name + other and (name + other).isprintable()
        )  # in a map, a * stands for any text
        rename = 0 < common == same and not {name, other} & renamed and plain
        renamed |= {other} if rename else set()
        similar.append(
            SimilarModels(name=name, other=other, common=common, same=same, rename=rename)
        )
    return similar
