"""Judge aggregates by what the public data store refuses: by their JSON Schema, and beyond it.

An aggregate has the scores of a model, and says where the rows of its samples are. `check-pairs`
judges aggregates that it finds, and `export` those that it makes.

The schema says which fields are required and what they may be. As in the data store, null is a
field that is not given. Beyond the schema, scores are within their bounds, ids of results differ,
and some values are warned of. What needs the rows, or the names of files, is not judged here.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from math import inf
from typing import Any

from msgspec import Raw, Struct, field

from fastrec.build import package
from fastrec.errors import utf8
from fastrec.judge.arbiter import draft7
from fastrec.judge.findings import Finding, describe, first_errors, json_path
from fastrec.judge.parse import parse
from fastrec.judge.secrets import secrets_in
from fastrec.schemas.schema import JsonObject
from fastrec.schemas.view import REFUSALS, json_decoder

_LONGEST = 240
# Bytes of an aggregate whose errors are all listed; of a larger one, the first. A list takes a
# thousand times as much memory.
_MOST_LISTED = 1 << 17

_INFINITIES: dict[float | str | None, float] = {"Infinity": inf, "-Infinity": -inf}
_TEXT_MAPS = ("additional_details", "details")
_GENERIC = re.compile("score|value|metric|result|overall|total|average|mean|main")

# By the last field of the path of an error.
_CODES = {
    "source_metadata": "pair.source_metadata",
    "source_data": "pair.source_data",
    "deployment_type": "pair.deployment",
    "model_availability": "pair.deployment",
    "format": "pair.format",
}
_BOUND = 'a number, "Infinity" or "-Infinity"'
_EXPECTED = {
    "min_score": _BOUND,
    "max_score": _BOUND,
    "source_data": 'dataset_name, and source_type "url" with at least one url, "hf_dataset" or '
    '"other"',
}
_CHECKED_WITH_FILES = ("file_path", "hash_algorithm")

# What Windows, the strictest system, does not allow; surrogates stand for bytes that are not UTF-8.
NOT_PORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f\ud800-\udfff]|[. ]$')
RESERVED = re.compile(
    r"^(?:(?:CON|PRN|AUX|NUL|COM[1-9]|LPT[1-9])(?=\.|$)|(?-i:data)$|$)", re.IGNORECASE
)


def expected(code: str, what: str, actual: str, path: str = "$") -> Finding:
    return Finding(code, path, f"expected {what}, found {actual}")


def quoted(text: str) -> str:
    """Quote a text for a message; names and checksums are shown whole."""
    text = utf8(text)
    return json.dumps(text, ensure_ascii=False) if len(text) <= _LONGEST else describe(text)


class Stated(Struct, frozen=True):
    """What an aggregate states about its samples file: its `detailed_evaluation_results`."""

    file_path: str
    format: str
    hash_algorithm: str | None = None
    checksum: str | None = None
    total_rows: int | None = None


class Metric(Struct, frozen=True):
    """What an aggregate says about a metric: its `metric_config`."""

    evaluation_description: str | None = None
    metric_id: str | None = None
    metric_name: str | None = None
    metric_kind: str | None = None
    metric_unit: str | None = None
    score_type: str | None = None
    min_score: float | str | None = None
    max_score: float | str | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest score; infinite if they are not given, or are no numbers."""
        return _bound(self.min_score, -inf), _bound(self.max_score, inf)


def _bound(value: float | str | None, default: float) -> float:
    bound = _INFINITIES.get(value, value)
    return bound if isinstance(bound, float) else default


class ScoreDetails(Struct, frozen=True):
    score: Raw
    uncertainty: Any = None

    def __post_init__(self) -> None:
        _number(self.score)


class Result(Struct, frozen=True):
    name: str = field(name="evaluation_name")
    details: ScoreDetails = field(name="score_details")
    metric: Metric = field(name="metric_config")
    id: str | None = field(name="evaluation_result_id", default=None)

    @property
    def score(self) -> str:
        """The score as it is written, so that its decimals are known."""
        return bytes(self.details.score).decode()

    @property
    def num_samples(self) -> int | None:
        number = _object(self.details.uncertainty).get("num_samples")
        return number if type(number) is int else None

    @property
    def standard_error(self) -> float | None:
        """The standard error; None if it depends on more than the scores, as by bootstrap."""
        stated = _object(_object(self.details.uncertainty).get("standard_error"))
        value = stated.get("value")
        is_analytic = stated.get("method") in (None, "analytic")
        return value if is_analytic and type(value) in (float, int) else None


class _Model(Struct, frozen=True):
    id: str
    developer: Any = None
    additional_details: Any = None


class Aggregate(Struct, frozen=True):
    evaluation_id: str
    model_info: _Model
    results: tuple[Result, ...] = field(name="evaluation_results")
    stated: Stated | None = field(name="detailed_evaluation_results", default=None)

    @property
    def model_id(self) -> str:
        return self.model_info.id


class NotAggregate(Struct, frozen=True):
    """A file that is no aggregate, or that cannot be used as one."""

    is_meant: bool  # the file is meant to be an aggregate: it has `evaluation_results`


_decode = json_decoder(Aggregate)
_number = json_decoder(float)


def judge_aggregate(data: bytes) -> tuple[Aggregate | NotAggregate, list[Finding]]:
    """Decode an aggregate, and find what the data store refuses or warns of, whatever its rows."""
    document, flaws = parse(data)
    is_meant = isinstance(document, dict) and "evaluation_results" in document
    problem = "" if is_meant else "it has no `evaluation_results`"
    path = "$"
    if flaws:
        first = first_errors(flaws).findings[0]
        path = first.path
        problem = f"{first.message} [{first.code}]"
    try:
        aggregate = None if problem else _decode(data)
    except REFUSALS as exc:
        problem, _, path = str(exc).partition(" - at `")
        path = path.rstrip("`") or "$"
    if problem or not aggregate:
        finding = Finding("pair.aggregate", path, f"not an aggregate: {problem}")
        return NotAggregate(is_meant), [finding]
    return aggregate, list(_findings(document, len(data), aggregate))


def _findings(document: Any, size: int, aggregate: Aggregate) -> Iterator[Finding]:
    yield from _schema_findings(document, size)
    yield from secrets_in(document)
    details = _object(aggregate.model_info.additional_details)
    for name in ("deployment_type", "model_availability"):
        if details.get(name) == "unknown":
            path = f"$.model_info.additional_details.{name}"
            yield expected("pair.unknown_deployment", "a known value", '"unknown"', path)
    seen = set[str | None]()
    for number, result in enumerate(aggregate.results):
        yield from _result_findings(result, f"$.evaluation_results[{number}]", seen)


def _result_findings(result: Result, path: str, seen: set[str | None]) -> Iterator[Finding]:
    if result.id is not None and result.id in seen:
        again = f"{quoted(result.id)} again"
        where = f"{path}.evaluation_result_id"
        yield expected("pair.duplicate_result", "another id for each result", again, where)
    seen.add(result.id)
    metric_id = (result.metric.metric_id or "").strip().lower()
    is_name = bool(metric_id) and metric_id == result.name.strip().lower()
    if is_name or _GENERIC.fullmatch(metric_id):
        where = f"{path}.metric_config.metric_id"
        yield expected("pair.generic_metric", "what was measured", quoted(metric_id), where)
    least, largest = result.metric.bounds
    if least > largest:
        where = f"{path}.metric_config.min_score"
        yield expected("pair.bounds", f"at most max_score, {largest}", str(least), where)
    elif not least <= float(result.score) <= largest:
        where = f"{path}.score_details.score"
        bounds = f"a score from {least} to {largest}"
        yield expected("pair.out_of_bounds", bounds, describe(float(result.score)), where)


def _schema_findings(document: Any, size: int) -> Iterator[Finding]:
    """Find what the JSON Schema refuses."""
    document = _without_nulls(document)
    for error in _errors(document, size):
        steps = list(error.instance_path)
        value = document
        for step in steps:
            value = value[step]
        message = f"{error.message[:_LONGEST]}, found {describe(value)}"
        keyword = str(error.schema_path[-1])
        if keyword == "required":
            steps.append(error.message.split('"')[1])
            message = "the required field is missing"
        last = steps[-1] if steps else ""
        if last in _CHECKED_WITH_FILES:
            continue
        if last in _EXPECTED and keyword != "required":
            message = f"expected {_EXPECTED[last]}, found {describe(value)}"
        yield Finding(_CODES.get(last, "pair.schema"), json_path(steps), message)


def _errors(document: Any, size: int) -> Iterable[Any]:
    import jsonschema_rs  # noqa: PLC0415 - takes 20 ms to load

    validator = draft7(_schema())
    if size <= _MOST_LISTED:
        return list(validator.iter_errors(document))
    try:
        validator.validate(document)
    except jsonschema_rs.ValidationError as exc:
        return [exc]
    return []


@cache
def _schema() -> bytes:
    return package().joinpath("schemas", "files", "aggregate_0.3.0.schema.json").read_bytes()


def _without_nulls(value: Any, *, is_map: bool = False) -> Any:
    """Leave out fields that are null, but not values of a map of texts."""
    if isinstance(value, dict):
        return {
            name: _without_nulls(child, is_map=name in _TEXT_MAPS)
            for name, child in value.items()
            if is_map or child is not None
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def model_folders(model_id: str, developer: Any) -> tuple[str, str]:
    """Return the folders where the data store has a model: of its developer, and its own.

    They follow from its id. Only for an id without a slash, the developer is given.

    >>> model_folders("org/family/model:7b", "Org Inc.")
    ('org', 'family_model_7b')
    """
    prefix, slash, rest = model_id.strip().partition("/")
    names = (prefix, rest) if slash else (developer if isinstance(developer, str) else "", prefix)
    first, second = (re.sub("[/:]", "_", name.strip()) for name in names)
    return first, second
