"""A question with its answers as a document: what `show` prints, and the examples of `compare`.

A record is one answer judged by one metric. Records of several metrics that have the same
conversation are shown as one answer with several verdicts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.reading import Answer
from fastrec.answers.table import Outcome, Query, Question
from fastrec.answers.transcript import Texts, Transcript, Turn, transcript_of
from fastrec.corpus.sources import Source
from fastrec.errors import counted
from fastrec.filters import Filters
from fastrec.judge.parse import spell
from fastrec.statistics.intervals import OptionalNumber
from fastrec.summary.document import SampleId, filled
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.wording import percent, score_text


def trial_of(answer: Answer, transcript: Transcript) -> Texts:
    """What may tell a record from others of its model and question: run, sample, epoch, seed."""
    known = transcript.other | transcript.metadata
    named = {name: known[name] for name in TRIAL_FIELDS if name in known}
    return {"evaluation_id": answer.evaluation_id, "sample_id": str(answer.sample_id)} | named


def tell_apart(trials: Sequence[Mapping[str, str]]) -> list[Texts]:
    """Leave out of each trial what all of them have in common.

    >>> tell_apart([{"run": "a", "epoch": "1"}, {"run": "a", "epoch": "2"}])
    [{'epoch': '1'}, {'epoch': '2'}]
    """
    common = set.intersection(*(set(trial.items()) for trial in trials)) if trials else set()
    return [dict(item for item in trial.items() if item not in common) for trial in trials]


class Tally(Struct):
    """What the chosen models made of a question, by one metric."""

    #: The `evaluation_result_id`; null for records without one.
    metric: str | None
    #: Whether the metric has scores other than 0 and 1.
    graded: bool
    #: Models with an answer.
    models: int
    #: Models that are right; of several answers, the share counts.
    right: float
    #: Mean score over models.
    mean_score: OptionalNumber
    #: Twice the standard deviation over models of the share of right answers, or of graded scores
    #: as a share of the range that those of all questions have.
    disagreement: OptionalNumber
    #: Models with nothing but errors.
    errors: int


def tally_facts(tally: Tally | Question, *, graded: bool) -> list[str]:
    """Say how many models are right, how much they disagree, and how many have only errors.

    >>> counts = {"models": 4, "right": 1, "mean_score": 0.5, "disagreement": 0.9, "errors": 1}
    >>> tally = Tally(metric=None, graded=True, **counts)
    >>> tally_facts(tally, graded=False)
    ['1 of 4 models right (25%)', 'disagreement 0.90', '1 model with errors only']
    >>> tally_facts(tally, graded=True)[0]
    'mean score 0.5 of 4 models'
    """
    models = counted(tally.models, "model")
    if not tally.models:
        facts = ["no answers"]
    elif graded:
        facts = [f"mean score {score_text(tally.mean_score)} of {models}"]
    else:
        facts = [f"{tally.right:.4g} of {models} right ({percent(tally.right / tally.models)})"]
    if tally.disagreement is not None:
        facts.append(f"disagreement {tally.disagreement:.2f}")
    if tally.errors:
        facts.append(f"{counted(tally.errors, 'model')} with errors only")
    return facts


class Verdict(Struct):
    """How an answer was judged by one metric."""

    #: The `evaluation_result_id`; null for records without one.
    metric: str | None
    #: The outcome.
    outcome: Outcome
    #: The score.
    score: int | float | bool
    #: The error.
    error: str
    #: What was taken out of the conversation as the answer.
    extracted: list[str]
    #: Of the record; values that are no text are JSON.
    metadata: Texts
    #: Unknown keys; values that are no text are JSON.
    other: Texts
    #: Where the record comes from, if the corpus has tracked it.
    source: Source | None


class ShownAnswer(Struct, kw_only=True):
    """An answer of a model to a question."""

    #: The model.
    model_id: str
    #: The run.
    evaluation_id: str
    #: The sample.
    sample_id: SampleId
    #: Which answer of this model to the question it is, from 1.
    number: int = 1
    #: How many it has, whatever the filters on outcomes.
    total: int = 1
    #: What tells it from other answers of this model: run, sample, epoch, trial or seed.
    trial: Texts = {}
    #: By metric.
    verdicts: list[Verdict]
    #: Tokens read.
    input_tokens: int | None
    #: Tokens written.
    output_tokens: int | None
    #: In milliseconds.
    latency_ms: OptionalNumber
    #: The `input.formatted`, if it differs from the question's.
    prompt: str | None
    #: The `input.choices`, if they differ from the question's.
    choices: list[str] | None
    #: For a single turn, only the output.
    turns: list[Turn]


class ShownQuestion(Struct):
    """A question of an evaluation, with its answers."""

    #: The evaluation.
    evaluation_name: str
    sample_hash: str
    #: That of its first record.
    sample_id: SampleId
    #: The `input.raw`.
    question: str
    #: The `input.formatted` of the first record.
    prompt: str
    #: The reference answers.
    references: list[str]
    #: The `input.choices` of the first record.
    choices: list[str]
    #: What the chosen models made of it, by metric.
    tallies: list[Tally]
    #: By model.
    answers: list[ShownAnswer]


def read_question(
    index: QuestionTable,
    queries: Sequence[Query],
    name: str,
    filters: Filters,
    models: Sequence[str] = (),
    *,
    most: int | None = None,
) -> ShownQuestion | None:
    """Read a question and its answers.

    None if the queries, one for each metric of an evaluation, do not have it.

    `name` is a `QuestionRow.name`. Of the filters, those by sample_id and outcome count. Without
    `models`, the models of the queries are shown.

    Raises:
        UsageError: There are more than `most` answers by one metric.
    """
    shown = None
    answers: dict[tuple[bytes, int], ShownAnswer] = {}
    repeats = Counter[tuple[bytes, str | None]]()
    for query in queries:
        row = index.row(query, name)
        if not row:
            continue
        for record in index.answers(row, models or query.models, most):
            if not filters.accepts_sample_id(record.sample_id):
                continue
            if not shown:
                names = {"sample_hash": row.sample_hash, "sample_id": record.sample_id}
                asked = transcript_of(record.line)
                shown = filled(ShownQuestion, query, asked, **names, tallies=[], answers=[])
            _add(answers, repeats, record, shown)
        if shown and (scope := index.scope(query)):
            shown.tallies.append(filled(Tally, row, graded=scope.graded))
    if shown:
        by_model = sorted(answers.values(), key=_model_of)
        for _, group in groupby(by_model, key=_model_of):
            _number(list(group))
        for answer in by_model:
            answer.verdicts = [
                verdict
                for verdict in answer.verdicts
                if filters.accepts_outcome(
                    is_correct=verdict.outcome == "right", has_error=verdict.outcome == "error"
                )
            ]
        shown.answers = [answer for answer in by_model if answer.verdicts]
    return shown


_model_of = attrgetter("model_id")


def _number(answers: Sequence[ShownAnswer]) -> None:
    """Number the answers of a model, and say what tells them apart."""
    trials = tell_apart([answer.trial for answer in answers])
    for number, (answer, trial) in enumerate(zip(answers, trials, strict=True), start=1):
        answer.number = number
        answer.total = len(answers)
        answer.trial = trial


def _add(
    answers: dict[tuple[bytes, int], ShownAnswer],
    repeats: Counter[tuple[bytes, str | None]],
    answer: Answer,
    question: ShownQuestion,
) -> None:
    """Add a record: as a new answer, or as a further verdict on the same one.

    `repeats` counts the records of each conversation and metric.
    """
    transcript = transcript_of(answer.line)
    shown = filled(
        ShownAnswer,
        answer,
        trial=trial_of(answer, transcript),
        verdicts=[],
        prompt=transcript.prompt if transcript.prompt != question.prompt else None,
        choices=transcript.choices if transcript.choices != question.choices else None,
        turns=transcript.turns,
    )
    same = spell(
        (
            shown.model_id,
            shown.evaluation_id,
            shown.sample_id,
            shown.prompt,
            shown.choices,
            shown.turns,
        )
    )
    # Repeats have the same metric, so they stay apart even if their conversations are the same.
    number = repeats[same, answer.metric]
    repeats[same, answer.metric] += 1
    answers.setdefault((same, number), shown).verdicts.append(filled(Verdict, answer, transcript))
