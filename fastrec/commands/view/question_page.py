"""A question: its input, references and choices, what all models made of it, and their answers.

Answers are cards if they are few, else a list that unfolds. Two of them can be shown with their
differences, word by word.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.reading import Answer
from fastrec.answers.shown import tally_facts, tell_apart, trial_of
from fastrec.answers.table import QuestionRow, Scope
from fastrec.answers.transcript import Transcript, transcript_of
from fastrec.commands.view.addresses import (
    MOST,
    AnswerName,
    PageState,
    Site,
    query_pairs,
    state_pairs,
)
from fastrec.commands.view.differences import LONGEST, differences
from fastrec.commands.view.table_page import metric_links, metric_name
from fastrec.judge.parse import decoded
from fastrec.limits import current_limits
from fastrec.normalize.corrections import Label, Labeller
from fastrec.pages.html import Html
from fastrec.pages.svg import Scale
from fastrec.wording import even_scores

_MOST_EXTRACTED = 5


class NumberedAnswer(Struct, frozen=True):
    """An answer, its name in addresses, its conversation, and what tells it from the others."""

    name: AnswerName
    answer: Answer
    transcript: Transcript
    score: str
    share: float | None  # where the score of a graded metric is on its scale; None of an error
    label: Label | None
    total: int  # how many answers the model has to the question
    trial: dict[str, str]
    can_label: bool  # no other answer of its model has the same trial, and it has no error

    @property
    def kind(self) -> str:
        return self.answer.outcome if self.share is None else "scored"

    @property
    def is_right(self) -> bool:
        """By its label, or else by the verdict."""
        if self.label and self.label.is_correct is not None:
            return self.label.is_correct
        return self.answer.outcome == "right"

    @property
    def extracted(self) -> list[str]:
        """What was taken as the answer, unless the text begins with it."""
        said = self.transcript.final_text
        values = dict.fromkeys(self.transcript.extracted)
        return [value for value in values if value and not said.startswith(value)][:_MOST_EXTRACTED]


def numbered(
    answers: Iterable[Answer], ends: tuple[float, float] | None, labels: Labeller | None = None
) -> list[NumberedAnswer]:
    """Number the answers of each model from 1, in the order of the models.

    `ends` are those of the scale of a graded metric.
    """
    answers = list(answers)
    by_model = defaultdict(list)
    for answer, score in zip(answers, even_scores(answer.score for answer in answers), strict=True):
        record = decoded(answer.line)
        by_model[answer.model_id].append((answer, score, record, transcript_of(record)))
    shown = []
    for model, own in by_model.items():
        trials = tell_apart([trial_of(answer, said) for answer, _, _, said in own])
        rows = zip(own, trials, are_unique(trials), strict=True)
        for number, ((answer, score, record, transcript), trial, is_unique) in enumerate(rows, 1):
            shown.append(
                NumberedAnswer(
                    name=AnswerName(model, number),
                    answer=answer,
                    transcript=transcript,
                    score=score,
                    share=_place(answer, ends) if ends else None,
                    label=labels.label_of(record) if labels else None,
                    total=len(own),
                    trial=trial,
                    can_label=is_unique and not answer.error,
                )
            )
    return shown


def _place(answer: Answer, ends: tuple[float, float]) -> float | None:
    """Where the score of an answer is on a scale; None of an error."""
    within = min(max(answer.score, ends[0]), ends[1])  # an integer may be too large for a double
    return None if answer.outcome == "error" else Scale(*ends)(within)


def are_unique(trials: Iterable[Mapping[str, str]]) -> list[bool]:
    """Return for each trial whether no other one is equal to it."""
    keys = [frozenset(trial.items()) for trial in trials]
    counts = Counter(keys)
    return [counts[key] == 1 for key in keys]


NO_MORE = "no-more"  # the anchor of a note that is visible only if an address has it


class Asked(NamedTuple):
    """A question that a page is about, and the addresses of pages about it in the same state."""

    site: Site
    questions: QuestionTable
    scope: Scope
    state: PageState
    row: QuestionRow

    def to(self, page: str = "question", name: str = "", **changes: object) -> str:
        """Make the address of a page about this question, or about another one."""
        route = f"{page}/{quote(name or self.row.name, safe='')}"
        return self.site.pairs(route, *state_pairs(replace(self.state, **changes)))

    def answer(self, chosen: AnswerName, page: str = "answer", *, whole: bool = False) -> str:
        return self.to(page, show=(chosen,), differences=False, whole=whole)

    def model_answer(self, model: str, ordinal: int = 1) -> str:
        return self.answer(AnswerName(model, ordinal))

    def neighbours(
        self, rows: Iterable[QuestionRow | None], page: str = "question", **changes: object
    ) -> list[str | None]:
        """Make the addresses of a page about other questions, where there are any."""
        return [self.to(page, row.name, whole=False, **changes) if row else None for row in rows]


def question_page(here: Asked, labels: Labeller | None) -> Html:
    site, index, scope, state, row = here
    query = state.query
    outcomes = index.outcomes(query, row.name)
    most = current_limits().shown_answers
    models = tuple(dict.fromkeys(chosen.model for chosen in state.show)) or query.models
    ends = index.scale(query)
    answers = numbered(index.answers(row, models, most), ends, labels)
    place = {model: number for number, model in enumerate(outcomes)}  # best first
    answers.sort(key=lambda answer: place[answer.name.model])
    if state.show:
        by_name = {answer.name: answer for answer in answers}
        answers = [by_name[chosen] for chosen in state.show if chosen in by_name]
    facts = tally_facts(row, graded=scope.graded)
    if scope.metric is not None:
        facts = [metric_name(scope.metric), *facts]
    title = str(row.sample_id)
    before, after = here.neighbours(index.neighbours(query, row.name))
    # The chosen models may lack this question.
    first = (answers or numbered(index.answers(row, most=most), ends))[:1]
    is_compared = state.differences and len(answers) > 1
    rest = answers[2:] if is_compared else answers
    trials = index.trials(query, row.name)
    squares = [
        (model, outcome, trials.get(model, ()), score)
        for model, (outcome, score) in islice(outcomes.items(), MOST)
    ]
    return site.page(
        "question",
        f"{title} · {query.evaluation_name}",
        [(query.evaluation_name, site.table(state)), (title, None)],
        here=here,
        before=before,
        after=after,
        no_more=NO_MORE,
        metrics=metric_links(
            index, query, lambda metric: here.to(query=replace(query, metric=metric))
        ),
        tally=facts,
        first=first,
        query_pairs=query_pairs(query),
        answers=answers,
        compared=differences(*(answer.transcript.final_text for answer in answers[:2]))
        if is_compared
        else None,
        longest=LONGEST,
        rest=rest,
        most=MOST,
        squares=squares,
        counts=Counter(outcome for outcome, _ in outcomes.values()),
    )
