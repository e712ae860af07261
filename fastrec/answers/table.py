"""The table of questions: which ones a query chooses, and what is known about each.

A question is counted once per metric. A model that answered a question several times counts with
the mean of its answers. Records with an error are no answers.
"""

from typing import Literal, get_args

from msgspec import Struct

from fastrec.parameters import Names
from fastrec.statistics.intervals import OptionalNumber
from fastrec.summary.document import Kind

# What a model made of a question: all its answers are right, all are wrong, some are; only errors;
# no record.
Outcome = Literal["right", "wrong", "mixed", "error", "none"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# By what a model made of a question: 1 if it has a right answer, 2 a wrong one, 4 an error, or a
# sum of these.
OUTCOMES_BY_FLAGS: tuple[Outcome, ...] = (
    "none",
    "right",
    "wrong",
    "mixed",
    "error",
    "right",
    "wrong",
    "mixed",
)
OutcomeFilter = Literal["right", "wrong", "error"]
# The outcome of a record by the name of its filter.
OUTCOME_FILTERS: dict[str, OutcomeFilter] = {
    "right": "right",
    "wrong": "wrong",
    "errors": "error",
}
# Questions that all models with an answer get wrong, or right; questions on which they differ; on
# which another metric of the same models gives another verdict; with an error; with a flag.
Which = Literal[
    "all",
    "all-wrong",
    "all-right",
    "disagreement",
    "metrics-differ",
    "errors",
    "suspected-key",
    "near-duplicate",
]
# The order of questions; `order` is that of the corpus.
Sort = Literal[
    "order", "hardest", "easiest", "disagreement", "longest-input", "longest-output", "errors"
]
SORTS: tuple[Sort, ...] = get_args(Sort)

# Where to search for a text: in the input with its references, in everything that the models said,
# or in both.
Place = Literal["both", "input", "answers"]
PLACES: tuple[Place, ...] = get_args(Place)


class Scope(Struct, frozen=True):
    """An evaluation with one of its metrics."""

    evaluation_name: str
    metric: str | None  # the `evaluation_result_id`; None for records without one
    questions: int
    models: Names  # the models that have records, in order of their ids
    # Whether scores are other than 0 and 1. Then the mean score stands for the share of right
    # answers.
    graded: bool
    kind: Kind = "judgement"
    lower_is_better: bool = False  # then the metric counts as graded
    other_scale: bool = False  # whether mean scores are below 0 or above 1
    primary: bool = False


class Query(Struct, frozen=True):
    """Which questions of a scope to list, and which models count."""

    evaluation_name: str
    metric: str | None = None
    # Only these models count, and only questions that they have records of; all if there are
    # none.
    models: Names = ()
    which: Which = "all"
    right: Names = ()  # models that must have the question right: all of their answers
    wrong: Names = ()  # models that must have the question wrong: all of their answers
    missing: str = ""  # a model that must have no record with the `sample_id` of the question
    # Questions that have a record with one of these outcomes, of a model that counts.
    outcomes: tuple[OutcomeFilter, ...] = ()
    least_score: OptionalNumber = None  # the least mean score of the models that count
    most_score: OptionalNumber = None
    # Text in the input or a reference, or in an answer of a model that counts, whatever its
    # case.
    text: str = ""
    place: Place = "both"  # where this text must be
    sample_ids: Names = ()  # patterns of `sample_id`; one of its records is enough
    hashes: Names = ()  # patterns of `sample_hash`
    flags: Names = ()  # Questions with one of these flags of items.
    # Conditions on fields that records match. Only these records are selected, so a query only
    # names them.
    where: Names = ()
    sort: Sort = "order"


class Question(Struct, kw_only=True, gc=False):
    """A question, and what the chosen models made of it."""

    sample_hash: str
    #: The shortest beginning that no other hash of the corpus has.
    prefix: str = ""
    #: That of its first record.
    sample_id: int | str
    #: Models with an answer.
    models: int
    #: Models that are right; of several answers, the share counts.
    right: float
    #: The share of models that are right.
    share: OptionalNumber
    #: Mean score over models.
    mean_score: OptionalNumber
    #: Twice the standard deviation over models of the share of right answers, or of graded scores
    #: as a share of the range that those of all questions have.
    disagreement: OptionalNumber
    #: Models with nothing but errors.
    errors: int
    #: Characters of the input.
    input_chars: int
    #: Mean of `response.characters`.
    output_chars: OptionalNumber
    #: The beginning of the input.
    excerpt: str
    #: Whether the text of `--text` is in the input or a reference.
    in_input: bool | None = None
    #: How many answers have it.
    in_answers: int | None = None
    #: Flags of `items`; null without `--flag`.
    flags: list[str] | None = None


class QuestionRow(Question, kw_only=True):
    """A question of a scope; its `prefix` is empty."""

    number: int  # its position among the questions of the scope
    first: int  # the number of its first record
    evaluation_name: str
    metric: str | None
    # Identifies the question in its scope: the sample_hash; if that is split, also `/` and the
    # sample_id in JSON.
    name: str
    metadata: dict[str, str]  # short values of its first record


class PhraseModel(Struct):
    """How many answers of a model have a text."""

    #: The model.
    model_id: str
    #: Answers with the text.
    found: int
    #: All records of the evaluation and metric.
    answers: int
    #: The share with the text.
    share: float


class Page(Struct):
    total: int  # how many questions the query chooses
    rows: list[QuestionRow]
    # How many answers of each model have the text of the query, if it looks for one in answers.
    phrase_models: list[PhraseModel] = []
