"""What answers cost.

Prices are in a file:

    ["org/model-*"]        a model, or a pattern
    input = 2.5            per million tokens
    output = 10
    cached = 1.25          of the input, what came from a cache; the price of input by default
    reasoning = 10         of the output, what was reasoning; the price of output by default

An exact name decides before a pattern, then the first pattern that matches.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import fsum, inf
from typing import Any

from msgspec import Struct, ValidationError, convert

from fastrec.answers.codes import by_key
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.errors import UsageError, counted, listed, shown
from fastrec.filters import matches_any
from fastrec.judge.parse import parse
from fastrec.schemas.view import json_decoder, view
from fastrec.statistics.exact import to_double
from fastrec.statistics.intervals import OptionalNumber
from fastrec.toml_file import read_toml
from fastrec.wording import cost_text


class ModelCost(Struct):
    """What the answers of a model to an evaluation cost."""

    #: The evaluation.
    evaluation_name: str
    #: The model.
    model_id: str
    #: Records, those with an error included.
    answers: int
    #: Those without a `token_usage`: their cost is in no figure.
    unknown: int
    #: Right answers with a `token_usage`, by the primary metric.
    right: int
    #: Whether the prices have the model.
    priced: bool
    #: The sum over the records with a `token_usage`.
    cost: OptionalNumber
    #: By right answer.
    cost_per_right: OptionalNumber


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    input: float
    output: float
    cached: OptionalNumber = None
    reasoning: OptionalNumber = None

    def __post_init__(self) -> None:
        if not all(0 <= price < inf for price in self.by_kind().values()):
            raise ValueError("a price must be a number that is not negative")

    def by_kind(self) -> dict[str, float]:
        """The price of each kind of tokens."""
        return {
            "input": self.input,
            "cached": self.input if self.cached is None else self.cached,
            "output": self.output,
            "reasoning": self.output if self.reasoning is None else self.reasoning,
        }


Prices = Mapping[str, Price]  # by model or pattern


class _Usage(Struct, gc=False):
    input_tokens: int
    output_tokens: int
    input_tokens_cache_read: int | None = None
    reasoning_tokens: int | None = None

    def by_kind(self) -> dict[str, int]:
        """How many tokens of each kind have a price of their own."""
        cached = min(self.input_tokens_cache_read or 0, self.input_tokens)
        reasoning = min(self.reasoning_tokens or 0, self.output_tokens)
        return {
            "input": self.input_tokens - cached,
            "cached": cached,
            "output": self.output_tokens - reasoning,
            "reasoning": reasoning,
        }


_Record = view(
    model_id=str,
    evaluation=view(is_correct=bool),
    token_usage=(_Usage | None, None),
    error=(str | None, None),
)
_decode = json_decoder(_Record)


def read_prices(path: str) -> dict[str, Price]:
    """Read prices by model or pattern; UsageError if the file cannot be read or understood."""
    try:
        return convert(read_toml(path, "the prices"), dict[str, Price])
    except ValidationError as exc:
        raise UsageError(f"{shown(path)}: the prices are wrong: {exc}") from exc


def find_costs(index: QuestionTable, prices: Prices, queries: Iterable[Query]) -> list[ModelCost]:
    """Add up what models cost, by evaluation and model; each evaluation has one query.

    Records of its other metrics are about the same answers.
    """
    sums = defaultdict[tuple[str, str], Counter[str]](Counter)
    for query in queries:
        for line in index.selection.lines(index.numbers_of(query)):
            record = _read(line)
            own = sums[query.evaluation_name, record.model_id]
            own["answers"] += 1
            if record.token_usage:
                own["known"] += 1
                own["right"] += record.evaluation.is_correct and not record.error
                own.update(record.token_usage.by_kind())
    return [_cost(*names, _price_of(names[1], prices), own) for names, own in sorted(sums.items())]


def _read(line: bytes) -> Any:
    try:
        return _decode(line)
    except ValidationError:  # a number of more than 64 bits
        return convert(parse(line)[0], _Record)


def _price_of(model: str, prices: Prices) -> Price | None:
    patterns = (pattern for pattern in prices if matches_any(model, [pattern]))
    return prices.get(model) or prices.get(next(patterns, ""))


def _cost(evaluation: str, model: str, price: Price | None, sums: Counter[str]) -> ModelCost:
    cost = None
    if price and sums["known"]:
        prices = price.by_kind().items()
        millionths = sum(Fraction(str(each)) * sums[kind] for kind, each in prices)
        cost = to_double(millionths / 10**6)
    return ModelCost(
        evaluation_name=evaluation,
        model_id=model,
        answers=sums["answers"],
        unknown=sums["answers"] - sums["known"],
        right=sums["right"],
        priced=price is not None,
        cost=cost,
        cost_per_right=_share(cost, sums["right"]),
    )


def _share(cost: OptionalNumber, number: int) -> OptionalNumber:
    return None if cost is None or not number else cost / number


_HEADINGS = (
    "model", "evaluations", "records", "no tokens", "right", "cost", "per answer",
    "per right answer",
)  # fmt: skip


def total_costs(costs: Sequence[ModelCost]) -> tuple[list[str], list[list[str]], list[str]]:
    """The cost of each model over all evaluations, the lowest per right answer first.

    Returns headings, cells and notes.
    """
    by_model = by_key((cost.model_id, cost) for cost in costs)
    rows = []
    for model, own in sorted(by_model.items()):
        counts = [(cost.answers, cost.unknown, cost.right) for cost in own]
        answers, unknown, right = map(sum, zip(*counts, strict=True))
        known = [cost.cost for cost in own if cost.cost is not None]
        total = fsum(known) if known else None
        per_right = _share(total, right)
        cells = [
            model,
            f"{len(known)} of {len(own)}",
            f"{answers:,}",
            f"{unknown:,}",
            f"{right:,}",
            cost_text(total) if own[0].priced else "no price",
            cost_text(_share(total, answers - unknown)),
            cost_text(per_right),
        ]
        rows.append((inf if per_right is None else per_right, cells))
    rows.sort(key=lambda row: row[0])
    notes = ["cost, right: of the records with token counts; evaluations: those with a cost"]
    unpriced = sorted({cost.model_id for cost in costs if not cost.priced})
    if unpriced:
        notes.append(f"no price for {counted(unpriced, 'model')}: {listed(unpriced)}")
    return list(_HEADINGS), [cells for _, cells in rows], notes
