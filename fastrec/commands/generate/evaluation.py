"""Evaluations, their questions, and the two writers of questions and answers.

`Words` writes random words at high speed, with lengths and scripts as in real data, for benchmarks.
Nothing in them means anything. `EvaluationText` writes questions with references, and answers that
are right or wrong for a reason. Every model has an ability, every question a difficulty. Together
they give the probability of a right answer, so models differ as in real results, and some questions
are hard for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from fastrec.commands.generate import tasks
from fastrec.commands.generate.producers import Evaluation, Producer, Question, Record, Reply
from fastrec.commands.generate.tasks import STYLES, Task, Trial
from fastrec.commands.generate.tasks.agents import booking, shell
from fastrec.commands.generate.text import PhraseTable, PhraseTables, Rng, phrase_tables

_TOOLS: Final = ("search", "lookup_item", "update_item", "run_command", "calculate")


class Words:
    def __init__(self, seed: int) -> None:
        self.tables = phrase_tables(seed)

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        table = rng.choice(self.tables.world if evaluation.world else self.tables.latin)
        raw = (
            table.write(rng, rng.long_tail(evaluation.question_size, 8 * evaluation.question_size))
            + "?"
        )
        choices = (
            [table.write(rng, rng.between(1, 5)) for _ in range(4)] if evaluation.choices else None
        )
        if choices:
            reference = rng.choice("ABCD")
        elif evaluation.graded:
            reference = table.write(
                rng, rng.long_tail(evaluation.answer_size, 4 * evaluation.answer_size)
            )
        else:
            reference = f"{table.write(rng, rng.between(4, 30))} #### {rng.below(1000)}"
        metadata = {  # nested, and its keys are not sorted
            "subject": table.write(rng, 1),
            "row": number,
            "difficulty": rng.choice((1, 2.5, "hard", None)),
            "tags": [table.write(rng, 1) for _ in range(rng.below(4))],
            "Source": {
                "split": rng.choice(("test", "dev")),
                "licence": None,
                "checked": rng.chance(0.5),
            },
        }
        also = reference.partition(" ")[0] if evaluation.graded else ""
        return evaluation.question(number, raw, reference, choices, metadata, table, also)

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        single = question.evaluation.interaction_type == "single_turn"
        reply = (_answer if single else self._conversation)(rng, producer, question)
        score: float
        if question.evaluation.graded:
            score = rng.choice((0, 0.5, 1.0, round(rng.random(), 4), round(rng.random(), 4)))
        else:
            score = rng.chance(0.6)
        return reply._replace(score=score)

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:  # noqa: ARG002
        return f"{question.source.write(rng, rng.long_tail(40, 400))} ({rng.bits(32):08x})", {}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:  # noqa: ARG002
        return round(rng.random() * highest, 4) if highest else rng.below(2)

    def _conversation(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        table: PhraseTable = question.source
        size = question.evaluation.answer_size
        turns: list[Record] = [{"role": "system", "content": question.reference}]
        for number in range(rng.long_tail(4, 24)):
            turns.append(
                {"role": "user", "content": table.write(rng, rng.long_tail(size // 2, 200))}
            )
            if number == 0 and question.evaluation.interaction_type == "agentic":
                _use_tools(rng, self.tables, producer, table, turns)
            turn: Record = {
                "role": "assistant",
                "content": table.write(rng, rng.long_tail(size, 20 * size)),
            }
            if "reasoning" in producer.habits:
                turn["reasoning_trace"] = table.write(rng, rng.long_tail(size, 400))
            elif "nulls" in producer.habits:
                turn.update(reasoning_trace=None, tool_calls=None)
            turns.append(turn)
        last = turns.pop()
        return Reply(last["content"], str(rng.below(1000)), 0, last.get("reasoning_trace"), turns)


def _answer(rng: Rng, producer: Producer, question: Question) -> Reply:
    table: PhraseTable = question.source
    size = question.evaluation.answer_size
    raw = table.write(rng, rng.long_tail(size, 12 * size))
    reasoning = (
        table.write(rng, rng.long_tail(2 * size, 20 * size))
        if "reasoning" in producer.habits
        else None
    )
    if question.choices:
        extracted = rng.choice("ABCD")
    elif question.evaluation.graded:
        extracted = raw
    else:
        extracted = str(rng.below(1000))
    return Reply(raw, extracted, 0, reasoning)


def _use_tools(
    rng: Rng, tables: PhraseTables, producer: Producer, table: PhraseTable, turns: list[Record]
) -> None:
    """Add turns that call one or two tools and turns with their output."""
    for _ in range(rng.long_tail(7, 90)):
        calls = [_call(rng, tables) for _ in range(2 if rng.chance(0.15) else 1)]
        content = table.write(rng, rng.between(2, 30)) if rng.chance(0.5) else None
        turn: Record = {"role": "assistant"}
        if content is not None or "nulls" in producer.habits:
            turn["content"] = content
        turn["tool_calls"] = calls
        turns.append(turn)
        ids = [call["id"] for call in calls]
        content = tables.log.write(rng, rng.long_tail(50, 900))
        turns.append(
            {"role": "tool", "content": content, "tool_call_id": ids[0] if len(ids) == 1 else ids}
        )


def _call(rng: Rng, tables: PhraseTables) -> Record:
    call: Record = {"id": f"call_{rng.bits(48):012x}", "name": rng.choice(_TOOLS)}
    if rng.chance(0.9):
        call["arguments"] = {
            "query": tables.log.write(rng, rng.between(1, 12)),
            "limit": rng.between(1, 50),
            "options": {
                "strict": rng.chance(0.5),
                "after": None,
                "Weights": [round(rng.random(), 3), 1, 1.0],
            },
        }
    return call


_EVALUATIONS: Final = (
    Evaluation(
        "trivia_choice",
        "single_turn",
        "regex",
        25,
        60,
        choices=True,
        metrics={"acc": 0, "acc_norm": 0},
    ),
    Evaluation("word_problems", "single_turn", "exact_match", 30, 70, integer_ids=True, epochs=2),
    Evaluation(
        "open_answers",
        "single_turn",
        "llm_judge",
        20,
        130,
        graded=True,
        metrics={"judge": 1, "bleu": 100, "rouge": 1},
    ),
    Evaluation(
        "world_tongues",
        "single_turn",
        "custom",
        20,
        50,
        world=True,
        metrics={"exact_match:strict": 0},
    ),
    Evaluation(
        "help_desk",
        "multi_turn",
        "llm_judge",
        30,
        40,
        graded=True,
        metrics={"helpful": 1, "polite": 0},
    ),
    Evaluation("small_talk_world", "multi_turn", "llm_judge", 20, 25, world=True, integer_ids=True),
    Evaluation("booking_agent", "agentic", "custom", 50, 35, integer_ids=True),
    Evaluation("shell_agent", "agentic", "exact_match", 60, 30),
)

# Weights that add up to 25.
MIXES: Final = {
    "mixed": {"single_turn": 20, "multi_turn": 3, "agentic": 2},
    "single_turn": {"single_turn": 25},
    "agentic": {"agentic": 25},
}
_MOST_QUESTIONS: Final = 2_500
_RECORDS_PER_QUESTION: Final = 16


class QuestionBank:
    """The questions by interaction type.

    The first model answers all of them, then the second, and so on.

    The number of questions is bounded: more records mean more models, not more questions. So memory
    stays flat, and each question occurs many times in a corpus, as in real data.
    """

    def __init__(self, rng: Rng, writer: Writer, records: int, mix: str) -> None:
        total = max(25, min(_MOST_QUESTIONS, records // _RECORDS_PER_QUESTION))
        self._questions: dict[str, list[Question]] = {}
        self._asked: Counter[str] = Counter()
        for kind in MIXES["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            count = max(2, total * MIXES[mix].get(kind, 1) // 25)
            evaluations = [row for row in _EVALUATIONS if row.interaction_type == kind]
            self._questions[kind] = [
                writer.question(
                    rng, evaluations[number % len(evaluations)], number // len(evaluations)
                )
                for number in range(count)
            ]
        self.weighted_types = [kind for kind, weight in MIXES[mix].items() for _ in range(weight)]

    def next(self, kind: str) -> tuple[int, Question]:
        """The number of the next model, and its question; no pair occurs twice."""
        questions = self._questions[kind]
        model, place = divmod(self._asked[kind], len(questions))
        self._asked[kind] += 1
        return model, questions[place]


# Each makes the task with a number, random in everything else. Neighbouring numbers give different
# kinds of tasks.
TASKS: Final[Mapping[str, Callable[[Rng, int], Task]]] = {
    "trivia_choice": tasks.trivia,
    "word_problems": tasks.problem,
    "open_answers": tasks.explanation,
    "world_tongues": tasks.tongue,
    "help_desk": tasks.help_desk,
    "small_talk_world": tasks.small_talk,
    "booking_agent": booking,
    "shell_agent": shell,
}
_FAILURES: Final = (  # the error, and what the model had written until then
    ("timeout after 60 s", ""),
    ("refusal", "I am sorry, but I cannot help with that."),
    ("API error 503: “overloaded”", ""),
    ("context length exceeded", ""),
)
_GUESSED: Final = 0.2  # how often a model that does not know the answer chooses the right one
_TRIES: Final = 100
_BYTES_PER_TOKEN: Final = 4


class EvaluationText:
    def __init__(self, seed: int) -> None:
        self._shift = seed % 97  # other seeds begin with other questions
        self._asked: set[str] = set()

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        make = TASKS[evaluation.name]
        for _ in range(_TRIES):
            task = make(rng, number + self._shift)
            if task.raw not in self._asked:
                break
        self._asked.add(task.raw)
        difficulty = rng.random()
        metadata = {  # nested, and its keys are not sorted
            "subject": task.subject,
            "row": number,
            "difficulty": (1, 2.5, "hard", None)[int(difficulty * 3) if rng.chance(0.8) else 3],
            "tags": list(task.tags),
            "Source": {
                "split": rng.choice(("test", "dev")),
                "licence": None,
                "checked": rng.chance(0.5),
            },
        }
        source = task, difficulty
        return evaluation.question(
            number, task.raw, task.reference, task.choices, metadata, source, task.also
        )

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        """Give an answer that is right with a probability, or nothing because of an error."""
        task, difficulty = question.source
        lead = 7 * (producer.ability - difficulty)
        chance = 0.5 + 0.5 * lead / (
            1 + abs(lead)
        )  # plain arithmetic is the same on every platform
        if task.choices:
            chance += _GUESSED * (1 - chance)
        given: Reply = task.answer(Trial(rng, chance, producer.number % STYLES))
        if "reasoning" not in producer.habits:
            given = given._replace(reasoning=None)
        if rng.chance(0.02):
            error, text = rng.choice(_FAILURES)
            given = given._replace(text=text, extracted="", score=0.0, error=error)
        return given._replace(usage=_usage(rng, producer, question.raw, given))

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:
        """Give a right or a wrong answer, in any style, and the field of the record with the trial that gave it."""
        task: Task = question.source[0]
        given = task.answer(Trial(rng, float(correct), rng.below(STYLES)))
        trial = {"seed": rng.bits(40), "temperature": round(rng.random(), 2)}
        return given.text, {"metadata": {**question.metadata, "trial": trial}}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:
        """Choose the score by a further metric, given the first score.

        `highest` is 0 if scores are 0 and 1.
        """
        if highest:
            return round(highest * (0.2 + 0.6 * first + 0.2 * rng.random()), 4)
        return int((first >= 0.5) != rng.chance(0.1))


def _usage(rng: Rng, producer: Producer, raw: str, given: Reply) -> tuple[int, int, float]:
    """Make token counts and a time that fit the lengths of the texts."""
    texts = [turn.get("content") or "" for turn in given.turns]
    own = [
        text for turn, text in zip(given.turns, texts, strict=True) if turn["role"] == "assistant"
    ]
    read = 20 + sum(len(text.encode()) for text in texts or [raw]) // _BYTES_PER_TOKEN
    own += [given.text, given.reasoning or ""]
    written = 1 + sum(len(text.encode()) for text in own) // _BYTES_PER_TOKEN
    latency = round(120 + written * (8 + 4 * producer.ability) * (0.7 + 0.6 * rng.random()), 3)
    return read, written, latency


Writer = EvaluationText | Words
