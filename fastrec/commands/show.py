"""`fastrec show`: one question of a corpus with the answers of all models, or of some."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Unpack

from fastrec.answers.choosing import open_scopes
from fastrec.answers.question_html import question_file
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.shown import ShownQuestion, read_question
from fastrec.answers.table import Query, QuestionRow
from fastrec.errors import UsageError, counted, listed
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.limits import current_limits
from fastrec.notebook import Rows, Tabular, flat
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.storage import last_name

_SHORTEST = 4  # characters of a hash
_MOST_SHOWN = 5  # questions with the same sample_id
_MOST_LISTED = 10  # candidates in a message
_EXCERPT = 60  # characters of a candidate


class Shown(Tabular):
    """Questions with their answers: one, or all that have a sample_id."""

    #: The questions, by evaluation.
    questions: list[ShownQuestion]

    def to_page(self, corpus: str) -> bytes:
        """One HTML file of the questions of a corpus; it needs nothing else."""
        return question_file(self.questions, last_name(corpus))

    def rows(self) -> Rows:
        """A row for each answer and verdict."""
        rows = []
        for question in self.questions:
            names = {
                "evaluation_name": question.evaluation_name,
                "sample_hash": question.sample_hash,
            }
            for answer in question.answers:
                said = "\n".join(turn.text for turn in answer.turns if turn.role == "assistant")
                before = flat(answer, names) | {"answer": said}
                rows += [flat(verdict, before) for verdict in answer.verdicts]
        return rows


def show(
    corpus: AnyPath,
    question: int | str,
    *,
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Shown:
    """Return a question with its answers.

    Args:
        corpus: A directory or URL that `normalize` published.
        question: A `sample_id`, or else the first characters of a `sample_hash`, at least 4 of
            them.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Which answers to show (`FilterArguments`).

    Raises:
        UsageError: There is no such question, or there are too many of them. The message lists
            them. Or a question has too many answers.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    if type(question) is not int and not isinstance(question, str):
        raise UsageError(f"question must be a string or an integer, not {question!r}")
    chosen = make_filters(**filters)
    index, scopes = open_scopes(corpus, chosen, metrics="all", jobs=jobs, progress=progress)
    queries = [query for _, query in scopes]
    rows = _find(index, str(question), queries, chosen)
    most = current_limits().shown_answers
    shown = []
    for evaluation, name in dict.fromkeys((row.evaluation_name, row.name) for row in rows):
        of_evaluation = [query for query in queries if query.evaluation_name == evaluation]
        if shown_question := read_question(index, of_evaluation, name, chosen, most=most):
            shown.append(shown_question)
    if not shown:
        raise UsageError(f"the filters leave out all answers to the question {question!r}")
    return Shown(shown)


def _find(
    index: QuestionTable, text: str, queries: Sequence[Query], filters: Filters
) -> list[QuestionRow]:
    find = partial(index.find, text, shortest=_SHORTEST)
    everywhere = find(among=queries) or find()
    if not everywhere:
        short = f"; give at least {_SHORTEST} characters of a hash" if len(text) < _SHORTEST else ""
        raise UsageError(
            f"no question has the sample_id {text!r}, or a sample_hash that begins "
            f"with it{short}. "
            "`fastrec questions` lists them"
        )
    scopes = {(query.evaluation_name, query.metric) for query in queries}
    rows = [
        row
        for row in everywhere
        if (row.evaluation_name, row.metric) in scopes
        and filters.accepts_hash(row.sample_hash)
        and (row.name == row.sample_hash or filters.accepts_sample_id(row.sample_id))
    ]
    if not rows:
        names = listed(sorted({row.evaluation_name for row in everywhere}))
        raise UsageError(
            f"the filters leave out the question {text!r}; it belongs to these evaluations: {names}"
        )
    # What one metric has as a question, another one may split.
    split = {(row.evaluation_name, row.sample_hash) for row in rows if row.name != row.sample_hash}
    rows = [row for row in rows if (row.evaluation_name, row.name) not in split]
    hashes = {row.sample_hash for row in rows}
    is_prefix = all(sample_hash.startswith(text) for sample_hash in hashes)
    if len(hashes) > 1 and is_prefix:
        head = f"{text!r} is the beginning of several hashes; give more characters:"
        raise UsageError(_candidates(rows, head))
    if len({(row.evaluation_name, row.name) for row in rows}) > _MOST_SHOWN:
        head = f"several questions have the sample_id {text!r}; choose an --evaluation:"
        if is_prefix:
            head = f"several samples have the hash {text!r}; choose a --sample-id:"
        raise UsageError(_candidates(rows, head))
    return rows


def _candidates(rows: Iterable[QuestionRow], head: str) -> str:
    candidates = {(row.name, row.evaluation_name): row for row in rows}
    lines = [
        f"  {row.sample_hash}  {row.evaluation_name}  {str(row.sample_id)[:_EXCERPT]}  "
        f"{row.excerpt[:_EXCERPT]}"
        for row in list(candidates.values())[:_MOST_LISTED]
    ]
    if more := len(candidates) - len(lines):
        lines.append(f"  … and {counted(more, 'more question')}")
    return "\n".join([head, *lines])
