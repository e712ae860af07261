"""What to generate: a recipe, its evaluations and their questions, and what models answer to them.

Every model has an ability, every question a difficulty. Together they give the probability of a
right answer, so models differ as in real results, and some questions are hard for all of them.
`tasks` makes questions that can be read. `_with_words` puts random words in place of their texts,
with lengths and scripts as in real data, for benchmarks; nothing in them means anything.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice, product
from typing import NamedTuple

from msgspec import Struct, convert

from fastrec.commands.generate import tasks
from fastrec.commands.generate.producers import Producer, Record, producer
from fastrec.commands.generate.tasks import STYLES, Reply
from fastrec.commands.generate.text import (
    Facts,
    PhraseTable,
    PhraseTables,
    Rng,
    phrase_tables,
    table,
)
from fastrec.errors import UsageError, check_choice
from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS

TEXTS = ("evaluation", "words")
_MOST_QUESTIONS = 2_500
_RECORDS_PER_QUESTION = 16
_TRIES = 100
_GUESSED = 0.2  # how often a model that does not know the answer chooses the right one


_Answer = Callable[[Rng, float, int], Reply]


class Recipe(Struct, frozen=True):
    """What to generate. Shares are between 0 and 1.

    `records` counts all lines; `duplicates`, `conflicts`, `rejects` and `blanks` are shares of
    them. The remaining lines are new records; `unknown_keys` and `warnings` are shares of those.
    """

    records: int = 10_000
    seed: int = 0
    duplicates: float = 0.0
    conflicts: float = 0.0
    unknown_keys: float = 0.0
    rejects: float = 0.0
    blanks: float = 0.0
    warnings: float = 0.0
    mix: str = "mixed"
    schema: str = DEFAULT_SCHEMA.name
    text: str = "evaluation"

    def __post_init__(self) -> None:
        if min(self.records, self.seed) < 0:
            raise UsageError("the number of records and the seed must not be negative")
        check_choice("mix", self.mix, table("evaluations")["mixes"])
        check_choice("text", self.text, TEXTS)
        check_choice("schema", self.schema, (*SCHEMAS, "mixed"))
        shares = (*self.shares, self.unknown_keys, self.warnings)
        if min(shares) < 0 or max(shares) > 1:
            raise UsageError("a share must be between 0 and 1")
        if sum(self.shares) > 1 + 1e-9:
            raise UsageError(
                "the shares of duplicates, conflicts, rejects and blanks add up to more than 1"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of lines that are not new records, in the order of `labelled_lines`."""
        return self.rejects, self.duplicates, self.conflicts, self.blanks

    @property
    def is_later(self) -> bool:
        """Whether it has later versions than the oldest one."""
        return self.schema != DEFAULT_SCHEMA.name


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


class QuestionBank:
    """The questions by interaction type.

    The first model answers all of them, then the second, and so on.

    `asked` yields, for each type, the next question and the model that answers it. No pair occurs
    twice.

    The number of questions is bounded: more records mean more models, not more questions. So memory
    stays flat, and each question occurs many times in a corpus, as in real data.
    """

    def __init__(self, rng: Rng, recipe: Recipe) -> None:
        mixes = table("evaluations")["mixes"]
        weights = mixes[recipe.mix]
        rows = convert(table("evaluations")["evaluations"], list[Evaluation])
        # One answer in a later version has two records on average, one per metric and epoch.
        answers = recipe.records // 2 if recipe.is_later else recipe.records
        total = max(25, min(_MOST_QUESTIONS, answers // _RECORDS_PER_QUESTION))
        self.weighted_types = list(Counter(weights).elements())
        self._rng = rng
        self._shift = recipe.seed % 97  # other seeds begin with other questions
        self._tables = phrase_tables(recipe.seed) if recipe.text == "words" else None
        self._texts = set[str]()
        self.asked: dict[str, Iterator[tuple[Question, Producer]]] = {}
        for kind in mixes["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            amount = max(2, total * weights.get(kind, 1) // 25)
            evaluations = [row for row in rows if row.interaction_type == kind]
            numbered = islice(product(range(amount), evaluations), amount)
            self.asked[kind] = _asked(recipe, [self._question(*pair) for pair in numbered])

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
            "Source": {
                "split": split,
                "licence": None,
                "checked": rng.chance(0.5),
            },
        }
        return Question(evaluation, sample_id, raw, facts, answer, difficulty, metadata)


def _asked(recipe: Recipe, questions: list[Question]) -> Iterator[tuple[Question, Producer]]:
    """All models answer all questions. If versions are mixed, each model has one of them."""
    schemas = [schema for name, schema in SCHEMAS.items() if recipe.schema in (name, "mixed")]
    for number, schema in enumerate(cycle(schemas)):
        author = producer(recipe.seed, number, schema)
        for question in questions:
            yield question, author


def answer_of(rng: Rng, author: Producer, question: Question) -> Reply:
    """Give an answer that is right with a probability, or nothing because of an error."""
    lead = 7 * (author.ability - question.difficulty)
    # Plain arithmetic is the same on every platform.
    chance = 0.5 + 0.5 * lead / (1 + abs(lead))
    if "choices" in question.facts:
        chance += _GUESSED * (1 - chance)
    given = question.answer(rng, chance, author.number % STYLES)
    if "reasoning" not in author.habits:
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
