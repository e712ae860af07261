"""What answers cost: the tokens of their records, at the prices of a file.

    ["org/model-*"]        a model, or a pattern
    input = 2.5            per million tokens
    output = 10
    cached = 1.25          of the input, what came from a cache; the price of input by default
    reasoning = 10         of the output, what was reasoning; the price of output by default

An exact name decides before a pattern, then the first pattern that matches.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import decode_lines, parts_of
from fastrec.errors import UsageError, counted, listed, shown
from fastrec.judge.parse import parse
from fastrec.summary.present_ranking import ModelCost
from fastrec.wording import cost_text

_CHUNK_BYTES: Final = 1 << 20


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices per million tokens."""

    input: float
    output: float
    cached: float | None = None
    reasoning: float | None = None

    def __post_init__(self) -> None:
        prices = self.input, self.output, self.cached or 0, self.reasoning or 0
        if not all(0 <= price < float("inf") for price in prices):
            raise ValueError("a price must be a number that is not negative")


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int
    output_tokens: int
    input_tokens_cache_read: int | None = None
    reasoning_tokens: int | None = None


class _Evaluation(msgspec.Struct, gc=False):
    is_correct: bool


class _Record(msgspec.Struct, gc=False):
    evaluation_name: str
    model_id: str
    evaluation: _Evaluation
    evaluation_result_id: str | None = None
    token_usage: _Usage | None = None
    error: str | None = None


def read_prices(path: str) -> dict[str, Price]:
    """Read prices by model or pattern; UsageError if the file cannot be read or understood."""
    try:
        return msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), dict[str, Price])
    except (OSError, ValueError) as exc:  # not UTF-8, not TOML, or not prices
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UsageError(f"the prices {shown(path)} cannot be read: {reason}") from exc


def find_costs(
    corpus: str, manifest: Manifest, prices: Mapping[str, Price], metrics: Mapping[str, str | None], models: set[str]
) -> list[ModelCost]:
    """Add up what the chosen models cost, by evaluation and model.

    `metrics` has the metric of each evaluation. Records of its other metrics are about the same answers.
    """
    decode = msgspec.json.Decoder(_Record).decode
    found: dict[tuple[str, str], list[int]] = {}  # answers, with tokens, right, input, cached, output, reasoning

    def read(line: bytes) -> _Record:
        try:
            return decode(line)
        except msgspec.ValidationError:  # a number of more than 64 bits
            return msgspec.convert(parse(line)[0], _Record)

    for part in parts_of(corpus, manifest):
        for records, _ in decode_lines(part, read, _CHUNK_BYTES, manifest.sort_fields):
            for record in records:
                name = record.evaluation_name
                if record.model_id not in models or metrics.get(name, "") != record.evaluation_result_id:
                    continue
                sums = found.setdefault((name, record.model_id), [0] * 7)
                sums[0] += 1
                if usage := record.token_usage:
                    cached = min(usage.input_tokens_cache_read or 0, usage.input_tokens)
                    reasoning = min(usage.reasoning_tokens or 0, usage.output_tokens)
                    used = usage.input_tokens - cached, cached, usage.output_tokens - reasoning, reasoning
                    right = record.evaluation.is_correct and not record.error
                    for at, number in enumerate((1, right, *used), start=1):
                        sums[at] += number
    return [_cost(*name, _price_of(name[1], prices), sums) for name, sums in sorted(found.items())]


def _price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    patterns = (pattern for pattern in prices if fnmatchcase(model, pattern))
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
        answers, unknown, right = (sum(getattr(one, name) for one in some) for name in ("answers", "unknown", "right"))
        known = [one.cost for one in some if one.cost is not None]
        cost = math.fsum(known) if known else None
        each = [None if cost is None or not number else cost / number for number in (answers - unknown, right)]
        evaluations = f"{len(known)} of {len(some)}"
        spelled = [cost_text(cost) if some[0].priced else "no price", *map(cost_text, each)]
        cells = [model, evaluations, f"{answers:,}", f"{unknown:,}", f"{right:,}", *spelled]
        rows.append((math.inf if each[1] is None else each[1], cells))
    names = ["model", "evaluations", "records", "no tokens", "right", "cost", "per answer", "per right answer"]
    notes = ["cost, right: of the records with token counts; evaluations: those with a cost"]
    if unpriced := [model for model, some in by_model.items() if not some[0].priced]:
        notes.append(f"no price for {counted(len(unpriced), 'model')}: {listed(sorted(unpriced))}")
    return names, [cells for _, cells in sorted(rows, key=itemgetter(0))], notes
