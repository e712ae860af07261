"""Evaluations, their questions, and what models answer to them.

Every model has an ability, every question a difficulty. Together they give the probability of a
right answer, so models differ as in real results, and some questions are hard for all of them.
`TASKS` make questions that can be read. `_with_words` puts random words in place of their texts,
with lengths and scripts as in real data, for benchmarks; nothing in them means anything.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice, product
from typing import NamedTuple

from msgspec import Struct, convert

from fastrec.commands.generate import tasks
from fastrec.commands.generate.producers import Producer, Record
from fastrec.commands.generate.tasks import STYLES, Reply
from fastrec.commands.generate.text import (
    Facts,
    PhraseTable,
    PhraseTables,
    Rng,
    phrase_tables,
    table,
)

_MOST_QUESTIONS = 2_500
_RECORDS_PER_QUESTION = 16
_TRIES = 100
_GUESSED = 0.2  # how often a model that does not know the answer chooses the right one


_Answer = Callable[[Rng, float, int], Reply]


class Evaluation(Struct, frozen=True):
    """A row of `data/evaluations.toml`, which describes the fields."""

    name: str
    interaction_type: str
    method: str
    question_size: int
    answer_size: int
    metrics: dict[str, float]
    world: bool = False
    graded: bool = False
    integer_ids: bool = False
    epochs: int = 1


class Question(NamedTuple):
    """One question, with everything that its records have in common."""

    evaluation: Evaluation
    sample_id: int | str
    raw: str
    facts: Facts
    answer: _Answer
    difficulty: float
    metadata: Record

    def with_trial(self, rng: Rng) -> Record:
        """Its metadata, with those of a trial."""
        trial = {"seed": rng.bits(40), "temperature": round(rng.random(), 2)}
        return {**self.metadata, "trial": trial}


TEXTS = ("evaluation", "words")


class QuestionBank:
    """The questions by interaction type.

    The first model answers all of them, then the second, and so on.

    `asked` yields, for each type, the number of the next model and its question. No pair occurs
    twice.

    The number of questions is bounded: more records mean more models, not more questions. So memory
    stays flat, and each question occurs many times in a corpus, as in real data.
    """

    def __init__(self, rng: Rng, seed: int, text: str, records: int, mix: str) -> None:
        mixes = table("evaluations")["mixes"]
        rows = convert(table("evaluations")["evaluations"], list[Evaluation])
        total = max(25, min(_MOST_QUESTIONS, records // _RECORDS_PER_QUESTION))
        self.weighted_types = list(Counter(mixes[mix]).elements())
        self._rng = rng
        self._shift = seed % 97  # other seeds begin with other questions
        self._tables = phrase_tables(seed) if text == "words" else None
        self._texts = set[str]()
        self.asked: dict[str, Iterator[tuple[int, Question]]] = {}
        for kind in mixes["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            amount = max(2, total * mixes[mix].get(kind, 1) // 25)
            evaluations = [row for row in rows if row.interaction_type == kind]
            numbered = islice(product(range(amount), evaluations), amount)
            self.asked[kind] = _asked([self._question(*pair) for pair in numbered])

    def _question(self, number: int, evaluation: Evaluation) -> Question:
        rng = self._rng
        for _ in range(_TRIES):
            facts = tasks.make_task(rng, evaluation.name, number + self._shift)
            raw = facts["ask"]
            answer: _Answer = partial(tasks.answer, facts)
            if self._tables:
                raw, answer = _with_words(rng, self._tables, evaluation, answer)
            if raw not in self._texts:
                break
        self._texts.add(raw)
        difficulty = rng.random()
        level = (1, 2.5, "hard", None)[int(difficulty * 3) if rng.chance(0.8) else 3]
        sample_id = number if evaluation.integer_ids else f"{evaluation.name}_{number:05d}"
        split = rng.choice(("test", "dev"))
        metadata = {  # nested, and its keys are not sorted
            "subject": facts["subject"],
            "row": number,
            "difficulty": level,
            "tags": facts["tags"].split(", "),
            "Source": {"split": split, "licence": None, "checked": rng.chance(0.5)},
        }
        return Question(evaluation, sample_id, raw, facts, answer, difficulty, metadata)


def _asked(questions: list[Question]) -> Iterator[tuple[int, Question]]:
    for model in count():
        for question in questions:
            yield model, question


def answer_of(rng: Rng, producer: Producer, question: Question) -> Reply:
    """Give an answer that is right with a probability, or nothing because of an error."""
    lead = 7 * (producer.ability - question.difficulty)
    # Plain arithmetic is the same on every platform.
    chance = 0.5 + 0.5 * lead / (1 + abs(lead))
    if "choices" in question.facts:
        chance += _GUESSED * (1 - chance)
    given = question.answer(rng, chance, producer.number % STYLES)
    if "reasoning" not in producer.habits:
        given = given._replace(reasoning=None)
    if rng.chance(0.02):
        failure = rng.choice(table("evaluations")["failures"])
        given = given._replace(extracted="", score=0.0, **failure)
    return given


def _with_words(
    rng: Rng, tables: PhraseTables, evaluation: Evaluation, answer: _Answer
) -> tuple[str, _Answer]:
    """A question of random words, and what answers it with random words."""
    phrases = rng.choice(tables.world if evaluation.world else tables.latin)
    size = evaluation.answer_size

    def write(size: int, table: PhraseTable = phrases) -> str:
        return table.write(rng, rng.long_tail(size, 40 * size))

    def answer_with_words(rng: Rng, ability: float, style: int) -> Reply:
        reply = answer(rng, ability, style)
        turns = [
            {**turn, "content": write(300, tables.log) if turn["role"] == "tool" else write(size)}
            for turn in reply.turns
        ]
        return reply._replace(text=write(size), reasoning=write(2 * size), turns=turns)

    return write(evaluation.question_size) + "?", answer_with_words
