"""The confidence of answers, and whether they are right.

The confidence is in a field of a record, or it is the score that another metric gives the answer.
FIELD:100 is a confidence from 0 to 100. The scale is not guessed: a single number above 1 may be a
mistake.
"""

from collections.abc import Iterator, Sequence

from fastrec.answers.codes import by_key
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.answers.values import judged_pairs
from fastrec.errors import NoMatchError
from fastrec.judge.parse import decoded
from fastrec.statistics.calibration import Calibration, calibrate
from fastrec.statistics.repeats import ERROR, RIGHT
from fastrec.where import number_of, parse_path, values_of

_Answer = tuple[float | None, bool]  # the confidence, if there is one, and whether it is right


def find_calibration(
    index: QuestionTable, field: str, queries: Sequence[Query]
) -> list[Calibration]:
    """Compare the confidence of answers with how often they are right, by metric and model."""
    metrics = {scope.metric for scope in index.scopes}
    name, colon, digits = field.rpartition(":")
    is_scaled = bool(colon and digits.isdecimal() and int(digits)) and field not in metrics
    scale = int(digits) if is_scaled else 1
    name = name if is_scaled else field
    answers_of = _by_metric if name in metrics else _by_field
    calibrations = []
    for query in sorted(queries, key=lambda query: (query.evaluation_name, query.metric or "")):
        by_model = by_key(
            # A larger one does not count, and may be too large to divide.
            (
                model,
                (None if stated is None or abs(stated) > scale else stated / scale, is_right),
            )
            for model, (stated, is_right) in answers_of(index, name, query)
        )
        calibrations += [
            calibrate((query.evaluation_name, query.metric, model), by_model[model])
            for model in sorted(by_model)
        ]
    if not any(calibration.answers for calibration in calibrations):
        raise NoMatchError(
            f"no answer has the field or metric {name!r} with a number from 0 to {scale}; write "
            "FIELD:100 for one from 0 to 100"
        )
    return calibrations


def _by_metric(index: QuestionTable, field: str, query: Query) -> Iterator[tuple[str, _Answer]]:
    if query.metric == field:
        return
    stated = Query(evaluation_name=query.evaluation_name, metric=field)
    for _, model, answer, confidence in judged_pairs(index, query, stated):
        if answer and answer.flag != ERROR:
            score = confidence.score if confidence and confidence.flag != ERROR else None
            yield model, (score, answer.flag == RIGHT)


def _by_field(index: QuestionTable, field: str, query: Query) -> Iterator[tuple[str, _Answer]]:
    path = parse_path(field)
    for line in index.selection.lines(index.numbers_of(query)):
        record = decoded(line)
        if not record.get("error"):
            confidence = next((number_of(value) for value in values_of(record, path)), None)
            yield record["model_id"], (confidence, record["evaluation"]["is_correct"])
