"""Evaluations, their questions, and the two writers of questions and answers.

`Words` writes random words at high speed, with lengths and scripts as in real data, for benchmarks.
Nothing in them means anything. `EvaluationText` writes questions with references, and answers that
are right or wrong for a reason. Every model has an ability, every question a difficulty. Together
they give the probability of a right answer, so models differ as in real results, and some questions
are hard for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from fastrec.commands.generate import tasks
from fastrec.commands.generate.agents import agent
from fastrec.commands.generate.producers import Evaluation, Producer, Question, Record, Reply
from fastrec.commands.generate.tasks import STYLES, Task, Trial
from fastrec.commands.generate.text import PhraseTable, PhraseTables, Rng, phrase_tables, table

ERRORS = (
    "timeout after 60 s",
    "refusal",
    "API error 503: “overloaded”",
    "context length exceeded",
)
_TOOLS = ("search", "lookup_item", "update_item", "run_command", "calculate")


def _metadata(
    rng: Rng, number: int, subject: str, difficulty: object, tags: Sequence[str]
) -> Record:
    """Metadata that is nested, and whose keys are not sorted."""
    split = rng.choice(("test", "dev"))
    return {
        "subject": subject,
        "row": number,
        "difficulty": difficulty,
        "tags": tags,
        "Source": {"split": split, "licence": None, "checked": rng.chance(0.5)},
    }


class Words:
    def __init__(self, seed: int) -> None:
        self.tables = phrase_tables(seed)

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        phrases = rng.choice(self.tables.world if evaluation.world else self.tables.latin)
        write = partial(phrases.write, rng)
        size = evaluation.question_size
        raw = write(rng.long_tail(size, 8 * size)) + "?"
        choices = None
        also = ""
        if evaluation.choices:
            choices = [write(rng.between(1, 5)) for _ in range(4)]
            reference = rng.choice("ABCD")
        elif evaluation.graded:
            reference = write(rng.long_tail(evaluation.answer_size, 4 * evaluation.answer_size))
            also = reference.partition(" ")[0]
        else:
            reference = f"{write(rng.between(4, 30))} #### {rng.below(1000)}"
        subject = write(1)
        difficulty = rng.choice((1, 2.5, "hard", None))
        tags = [write(1) for _ in range(rng.below(4))]
        metadata = _metadata(rng, number, subject, difficulty, tags)
        return evaluation.question(number, raw, reference, choices, metadata, phrases, also)

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        evaluation = question.evaluation
        write = partial(question.source.write, rng)
        size = evaluation.answer_size
        turns: list[Record] = []
        reasoning = None
        extracted = ""
        if evaluation.interaction_type == "single_turn":
            text = write(rng.long_tail(size, 12 * size))
            if "reasoning" in producer.habits:
                reasoning = write(rng.long_tail(2 * size, 20 * size))
            if question.choices:
                extracted = rng.choice("ABCD")
            elif evaluation.graded:
                extracted = text
        else:
            turns = self._conversation(rng, producer, question)
            last = turns.pop()
            text = last["content"]
            reasoning = last.get("reasoning_trace")
        extracted = extracted or str(rng.below(1000))
        score: float = (
            rng.chance(0.6)
            if not evaluation.graded
            else rng.choice((0, 0.5, 1.0, round(rng.random(), 4), round(rng.random(), 4)))
        )
        return Reply(text, extracted, score, reasoning, turns)

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:  # noqa: ARG002
        return f"{question.source.write(rng, rng.long_tail(40, 400))} ({rng.bits(32):08x})", {}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:  # noqa: ARG002
        return round(rng.random() * highest, 4) if highest else rng.below(2)

    def _conversation(self, rng: Rng, producer: Producer, question: Question) -> list[Record]:
        write = partial(question.source.write, rng)
        size = question.evaluation.answer_size
        turns: list[Record] = [{"role": "system", "content": question.reference}]
        for number in range(rng.long_tail(4, 24)):
            turns.append({"role": "user", "content": write(rng.long_tail(size // 2, 200))})
            if number == 0 and question.evaluation.interaction_type == "agentic":
                _use_tools(rng, self.tables, producer, question.source, turns)
            content = write(rng.long_tail(size, 20 * size))
            turn: Record = {"role": "assistant", "content": content}
            if "reasoning" in producer.habits:
                turn["reasoning_trace"] = write(rng.long_tail(size, 400))
            elif "nulls" in producer.habits:
                turn |= {"reasoning_trace": None, "tool_calls": None}
            turns.append(turn)
        return turns


def _use_tools(
    rng: Rng, tables: PhraseTables, producer: Producer, phrases: PhraseTable, turns: list[Record]
) -> None:
    """Add turns that call one or two tools and turns with their output."""
    for _ in range(rng.long_tail(7, 90)):
        calls = [_call(rng, tables.log) for _ in range(2 if rng.chance(0.15) else 1)]
        content = phrases.write(rng, rng.between(2, 30)) if rng.chance(0.5) else None
        turn: Record = {"role": "assistant"}
        if content is not None or "nulls" in producer.habits:
            turn["content"] = content
        turn["tool_calls"] = calls
        ids = [call["id"] for call in calls]
        output = tables.log.write(rng, rng.long_tail(50, 900))
        called = ids[0] if len(ids) == 1 else ids
        turns += [turn, {"role": "tool", "content": output, "tool_call_id": called}]


def _call(rng: Rng, log: PhraseTable) -> Record:
    call: Record = {"id": f"call_{rng.bits(48):012x}", "name": rng.choice(_TOOLS)}
    if rng.chance(0.9):
        query = log.write(rng, rng.between(1, 12))
        limit = rng.between(1, 50)
        options: Record = {"strict": rng.chance(0.5), "after": None}
        options["Weights"] = [round(rng.random(), 3), 1, 1.0]
        call["arguments"] = {"query": query, "limit": limit, "options": options}
    return call


_MOST_QUESTIONS = 2_500
_RECORDS_PER_QUESTION = 16


class QuestionBank:
    """The questions by interaction type.

    The first model answers all of them, then the second, and so on.

    The number of questions is bounded: more records mean more models, not more questions. So memory
    stays flat, and each question occurs many times in a corpus, as in real data.
    """

    def __init__(self, rng: Rng, writer: Writer, records: int, mix: str) -> None:
        mixes = table("evaluations")["mixes"]
        rows = msgspec.convert(table("evaluations")["evaluations"], list[Evaluation])
        total = max(25, min(_MOST_QUESTIONS, records // _RECORDS_PER_QUESTION))
        self.weighted_types = [kind for kind, weight in mixes[mix].items() for _ in range(weight)]
        self._questions: dict[str, list[Question]] = {}
        self._asked: Counter[str] = Counter()
        for kind in mixes["mixed"]:
            # Types outside the mix get a few questions too, because some invalid lines need them.
            count = max(2, total * mixes[mix].get(kind, 1) // 25)
            evaluations = [row for row in rows if row.interaction_type == kind]
            self._questions[kind] = []
            for place in range(count):
                number, which = divmod(place, len(evaluations))
                self._questions[kind].append(writer.question(rng, evaluations[which], number))

    def next(self, kind: str) -> tuple[int, Question]:
        """The number of the next model, and its question; no pair occurs twice."""
        questions = self._questions[kind]
        model, place = divmod(self._asked[kind], len(questions))
        self._asked[kind] += 1
        return model, questions[place]


# Each makes the task with a number, random in everything else. Neighbouring numbers give different
# kinds of tasks.
TASKS: Mapping[str, Callable[[Rng, int], Task]] = {
    "trivia_choice": tasks.trivia,
    "word_problems": tasks.problem,
    "open_answers": tasks.explanation,
    "world_tongues": tasks.tongue,
    "help_desk": tasks.help_desk,
    "small_talk_world": tasks.small_talk,
    "booking_agent": partial(agent, "travel"),
    "shell_agent": partial(agent, "shell"),
}
_REFUSAL = "I am sorry, but I cannot help with that."
_GUESSED = 0.2  # how often a model that does not know the answer chooses the right one
_TRIES = 100
_BYTES_PER_TOKEN = 4


class EvaluationText:
    def __init__(self, seed: int) -> None:
        self._shift = seed % 97  # other seeds begin with other questions
        self._asked: set[str] = set()

    def question(self, rng: Rng, evaluation: Evaluation, number: int) -> Question:
        for _ in range(_TRIES):
            task = TASKS[evaluation.name](rng, number + self._shift)
            if task.raw not in self._asked:
                break
        self._asked.add(task.raw)
        difficulty = rng.random()
        level = (1, 2.5, "hard", None)[int(difficulty * 3) if rng.chance(0.8) else 3]
        metadata = _metadata(rng, number, task.subject, level, task.tags)
        source = task, difficulty
        return evaluation.question(
            number, task.raw, task.reference, task.choices, metadata, source, task.also
        )

    def reply(self, rng: Rng, producer: Producer, question: Question) -> Reply:
        """Give an answer that is right with a probability, or nothing because of an error."""
        task, difficulty = question.source
        lead = 7 * (producer.ability - difficulty)
        # Plain arithmetic is the same on every platform.
        chance = 0.5 + 0.5 * lead / (1 + abs(lead))
        if task.choices:
            chance += _GUESSED * (1 - chance)
        given: Reply = task.answer(Trial(rng, chance, producer.number % STYLES))
        if "reasoning" not in producer.habits:
            given = given._replace(reasoning=None)
        if rng.chance(0.02):
            error = rng.choice(ERRORS)
            text = _REFUSAL if error == "refusal" else ""
            given = given._replace(text=text, extracted="", score=0.0, error=error)
        return given._replace(usage=_usage(rng, producer, question.raw, given))

    def another_answer(self, rng: Rng, question: Question, *, correct: bool) -> tuple[str, Record]:
        """Give a right or a wrong answer in any style, and the metadata with the trial of it."""
        task: Task = question.source[0]
        given = task.answer(Trial(rng, float(correct), rng.below(STYLES)))
        return given.text, {"metadata": with_trial(rng, question)}

    def further_score(self, rng: Rng, first: float, highest: float) -> float:
        """Choose the score by a further metric, given the first score.

        `highest` is 0 if scores are 0 and 1.
        """
        if highest:
            return round(highest * (0.2 + 0.6 * first + 0.2 * rng.random()), 4)
        return int((first >= 0.5) != rng.chance(0.1))


def with_trial(rng: Rng, question: Question) -> dict[str, Any]:
    """The metadata of a question, with those of a trial."""
    trial = {"seed": rng.bits(40), "temperature": round(rng.random(), 2)}
    return {**question.metadata, "trial": trial}


def _usage(rng: Rng, producer: Producer, raw: str, given: Reply) -> tuple[int, int, float]:
    """Make token counts and a time that fit the lengths of the texts."""
    asked = [turn.get("content") or "" for turn in given.turns] or [raw]
    own = [turn.get("content") or "" for turn in given.turns if turn["role"] == "assistant"]
    read = 20 + _size(asked) // _BYTES_PER_TOKEN
    written = 1 + _size([*own, given.text, given.reasoning or ""]) // _BYTES_PER_TOKEN
    latency = round(120 + written * (8 + 4 * producer.ability) * (0.7 + 0.6 * rng.random()), 3)
    return read, written, latency


def _size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)


Writer = EvaluationText | Words
