"""Find the confidence of answers: in a field of their records, or as the score that another metric gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastrec.answers.index import Index, choose_scopes
from fastrec.answers.marks import ERROR, RIGHT
from fastrec.answers.table import Query
from fastrec.corpus.scan import decode_lines, parts_of
from fastrec.errors import NoMatchError
from fastrec.filters import Filters
from fastrec.judge.parse import parse
from fastrec.summary.calibration import Calibration, calibrate
from fastrec.where import number_of, parse_path, values_of

_CHUNK_BYTES: Final = 1 << 20
_Answer = tuple[tuple[str, str | None, str], tuple[float | None, bool]]
"""Evaluation, metric and model; the confidence, if there is one, and whether the answer is right."""


def find_calibration(index: Index, field: str, filters: Filters) -> list[Calibration]:
    """Compute the calibration of each chosen model, evaluation and metric."""
    is_metric = any(scope.metric == field for scope in index.scopes)
    found: dict[tuple[str, str | None, str], list[tuple[float | None, bool]]] = {}
    for name, answer in (_by_metric if is_metric else _by_field)(index, field, filters):
        found.setdefault(name, []).append(answer)
    made = [calibrate(name, found[name]) for name in sorted(found, key=lambda name: (name[0], name[1] or "", name[2]))]
    if not any(one.answers for one in made):
        raise NoMatchError(f"no answer has the field or metric {field!r} with a number from 0 to 1")
    return made


def _by_metric(index: Index, field: str, filters: Filters) -> Iterator[_Answer]:
    for scope, query in choose_scopes(index.scopes, filters):
        if scope.metric != field:
            stated = Query(evaluation_name=scope.evaluation_name, metric=field)
            for _, model, answer, confidence in index.pairs(query, stated):
                if ERROR not in (answer.flag, confidence.flag):
                    yield (scope.evaluation_name, scope.metric, model), (confidence.score, answer.flag == RIGHT)


def _by_field(index: Index, field: str, filters: Filters) -> Iterator[_Answer]:
    path, manifest = parse_path(field), index.manifest
    models = {
        (scope.evaluation_name, scope.metric): frozenset(query.models or scope.models)
        for scope, query in choose_scopes(index.scopes, filters)
    }
    for part in parts_of(index.corpus, manifest):
        for records, _ in decode_lines(part, lambda line: parse(line)[0], _CHUNK_BYTES, manifest.sort_fields):
            record: Any
            for record in records:
                scope = record["evaluation_name"], record.get("evaluation_result_id")
                if record["model_id"] in models.get(scope, ()) and not record.get("error"):
                    confidence = next((number_of(value) for value in values_of(record, path)), None)
                    yield (*scope, record["model_id"]), (confidence, record["evaluation"]["is_correct"])
