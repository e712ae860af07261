"""Generated corpora of shapes that fastrec was not tuned to. All records are of version 0.3.0.

    many evaluations   300 small evaluations, three models, one to three metrics per answer: a shard per evaluation and
                       model, records of 1 to 6 KB. A question is repeated only a few times.
    transcripts        agents that use tools: records of 50 to 400 KB with 30 to 150 messages. The system prompt repeats
                       in every record of an environment, and documents of the environment in the
                       output of tools.

The same seed gives the same text everywhere. Every shard has its own random numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from fastrec.commands.generate.producers import Spelling
from fastrec.commands.generate.text import PhraseTables, Rng, phrase_tables
from fastrec.schemas.hashes import LIST_HASHES

Record = dict[str, Any]
Shards = Iterator[tuple[str, Iterator[bytes]]]

_EVALUATIONS: Final = 300
_METRICS: Final = ("acc", "acc_norm", "exact_match", "f1", "judge_score", "bleu")
_ENVIRONMENTS: Final = 6
_TASKS: Final = 26
_TOOLS: Final = ("read_file", "search", "run_command", "edit_file", "http_get", "query_table")


class _Model(NamedTuple):
    """A model, and how the harness that evaluated it writes JSON."""

    name: str
    spelling: Spelling
    hashes: bool
    nulls: bool

    @property
    def file(self) -> str:
        """The name as part of a file name."""
        return self.name.replace("/", "_")


def _models(count: int) -> list[_Model]:
    """The models, evaluated by three harnesses in turn: as `json.dumps` writes by default, compact, and with nulls."""
    dumped = Spelling(
        ascii_only=True, spaced=True, sort_keys=False, order=None, escape_slashes=False
    )
    compact = Spelling(
        ascii_only=False, spaced=False, sort_keys=False, order=None, escape_slashes=False
    )
    harnesses = ((dumped, False, False), (compact, True, False), (compact, True, True))
    return [
        _Model(f"lab-{number % 5}/model-{number}", *harnesses[number % 3])
        for number in range(count)
    ]


def _rng(seed: int, number: int, model: int = 0) -> Rng:
    return Rng((seed << 32) + (number << 8) + model)


def many_evaluations(seed: int) -> Shards:
    """Yield the shards of many small evaluations of three models."""
    for number in range(_EVALUATIONS):
        evaluation = _Evaluation(_rng(seed, number), phrase_tables(seed), number)
        for place, model in enumerate(_models(3), 1):
            yield (
                f"{evaluation.name}-{model.file}",
                evaluation.lines(_rng(seed, number, place), model),
            )


class _Evaluation:
    """A small evaluation: its questions and metrics, and how long answers are."""

    def __init__(self, rng: Rng, tables: PhraseTables, number: int) -> None:
        self.name = f"suite_{number % 17}_subject_{number:03d}"
        self._table = rng.choice(tables.world if number % 10 == 0 else tables.latin)
        self._questions = self._ask(rng)
        self._metrics = rng.shuffled(_METRICS)[: rng.choice((1, 1, 1, 2, 2, 3))]
        self._answer_size = rng.between(20, 110)

    def lines(self, rng: Rng, model: _Model) -> Iterator[bytes]:
        """Yield the lines of one model: one per question and metric."""
        for number, asked in enumerate(self._questions):
            output: Record = {"raw": [self._write(rng, self._answer_size)]}
            if rng.chance(0.2):
                output["reasoning_trace"] = [self._write(rng, self._answer_size)]
            for metric in self._metrics:
                score = rng.choice((0.0, 1.0, round(rng.random(), 4)))
                record = _head(self.name, model, f"{self.name}/{number}", metric)
                record.update(interaction_type="single_turn", input=asked, output=output)
                record["answer_attribution"] = [
                    _attribution(0, "output.raw", asked["reference"][0])
                ]
                record["evaluation"] = {"score": score, "is_correct": score >= 0.5}
                yield _line(rng, model, record, ("messages", "error", "metadata"))

    def _ask(self, rng: Rng) -> list[Record]:
        """The questions; in some evaluations examples come before each."""
        size = rng.between(12, 80)
        shots = self._write(rng, 80) if rng.chance(0.3) else ""
        has_choices = rng.chance(0.5)
        questions = []
        for _ in range(rng.between(40, 60)):
            asked: Record = {"raw": self._write(rng, size) + "?"}
            if shots:
                asked["formatted"] = f"{shots}\n\nQuestion: {asked['raw']}\nAnswer:"
            asked["reference"] = [rng.choice("ABCD") if has_choices else self._write(rng, 8)]
            if has_choices:
                asked["choices"] = [self._write(rng, 3) for _ in "ABCD"]
            questions.append(asked)
        return questions

    def _write(self, rng: Rng, size: int) -> str:
        return self._table.write(rng, rng.long_tail(size, 4 * size))


def transcripts(seed: int) -> Shards:
    """Yield the shards of long transcripts: one per environment and model."""
    for number in range(_ENVIRONMENTS):
        environment = _Environment(_rng(seed, number), phrase_tables(seed), f"agent_world_{number}")
        for place, model in enumerate(_models(8), 1):
            yield (
                f"{environment.name}-{model.file}",
                environment.lines(_rng(seed, number, place), model),
            )


class _Environment:
    """An environment for agents: its system prompt, the documents that tools read, and the tasks."""

    def __init__(self, rng: Rng, tables: PhraseTables, name: str) -> None:
        self.name = name
        self._tables = tables
        self._table = rng.choice(tables.latin)
        self._documents = [self._document(rng, number) for number in range(120)]
        self._system = (
            f"# Policy\n\n{self._paragraphs(rng, 12)}\n\n# Tools\n\n{self._tool_descriptions(rng)}"
        )
        self._tasks = [(f"task-{number:03d}", self._task(rng)) for number in range(_TASKS)]

    def lines(self, rng: Rng, model: _Model) -> Iterator[bytes]:
        """Yield the lines of one model: one transcript per task."""
        for sample_id, asked in self._tasks:
            messages = self._messages(rng, asked["raw"])
            record = _head(self.name, model, sample_id, "solved")
            record.update(interaction_type="agentic", input=asked, messages=messages)
            last = len(messages) - 1
            record["answer_attribution"] = [
                _attribution(last, f"messages[{last}].content", str(rng.below(1000)))
            ]
            solved = rng.chance(0.4)
            calls = sum(len(message.get("tool_calls", ())) for message in messages)
            record["evaluation"] = {
                "score": float(solved),
                "is_correct": solved,
                "num_turns": len(messages),
                "tool_calls_count": calls,
            }
            yield _line(rng, model, record, ("output", "error", "metadata"))

    def _messages(self, rng: Rng, task: str) -> list[Record]:
        messages: list[Record] = [
            {"turn_idx": 0, "role": "system", "content": self._system},
            {"turn_idx": 1, "role": "user", "content": task},
        ]
        verbosity = rng.between(20, 90)
        for _ in range(rng.between(14, 73)):
            ids = [f"call_{rng.bits(64):016x}" for _ in range(2 if rng.chance(0.1) else 1)]
            turn: Record = {"turn_idx": len(messages), "role": "assistant"}
            if rng.chance(0.6):
                turn["content"] = self._table.write(rng, rng.between(3, 40))
            if rng.chance(0.3):
                turn["reasoning_trace"] = self._table.write(rng, rng.long_tail(verbosity, 600))
            turn["tool_calls"] = [
                {"id": id_, "name": rng.choice(_TOOLS), "arguments": self._call(rng)} for id_ in ids
            ]
            messages.append(turn)
            result = {"role": "tool", "content": self._result(rng, verbosity), "tool_call_id": ids}
            messages.append({"turn_idx": len(messages), **result})
        answer = self._table.write(rng, rng.long_tail(verbosity, 600))
        messages.append({"turn_idx": len(messages), "role": "assistant", "content": answer})
        return messages

    def _call(self, rng: Rng) -> dict[str, str]:
        if rng.chance(0.25):
            patch = "\n".join(
                f"+\t{line}" for line in self._tables.log.write(rng, rng.between(10, 80)).split(";")
            )
            return {"path": f"src/module_{rng.below(60)}/file.py", "patch": patch}
        return {
            "query": self._tables.log.write(rng, rng.between(1, 12)),
            "limit": str(rng.between(1, 50)),
        }

    def _result(self, rng: Rng, verbosity: int) -> str:
        """What a tool returns: a document or the beginning of one, or output that no other call has."""
        if rng.chance(0.45):
            document = rng.choice(self._documents)
            return (
                document if rng.chance(0.5) else document[: len(document) // 2] + "\n… (truncated)"
            )
        return self._tables.log.write(rng, rng.long_tail(3 * verbosity, 2_000))

    def _document(self, rng: Rng, number: int) -> str:
        """A document: JSON in a string, prose of any script, or something like code."""
        size = rng.long_tail(150, 1_500)
        if number % 3 == 0:
            rows = [
                {
                    "id": f"{rng.bits(40):010x}",
                    "name": self._table.write(rng, 2),
                    "price": rng.below(10_000) / 100,
                }
                for _ in range(size // 8)
            ]
            return json.dumps({"status": "ok", "rows": rows}, indent=2)
        if number % 3 == 1:
            return rng.choice(self._tables.world if number % 2 else self._tables.latin).write(
                rng, size
            )
        words = iter(self._tables.log.write(rng, size).split(" "))
        lines = iter(lambda: " ".join(islice(words, 8)), "")
        return "\n".join(
            f"{place:5d}\t{'    ' * rng.below(4)}{line}" for place, line in enumerate(lines)
        )

    def _tool_descriptions(self, rng: Rng) -> str:
        parameters = {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "string"}},
        }
        tools = [
            {
                "name": name,
                "description": self._table.write(rng, rng.between(20, 90)),
                "parameters": parameters,
            }
            for name in _TOOLS
        ]
        return json.dumps(tools, indent=2)

    def _task(self, rng: Rng) -> Record:
        return {
            "raw": self._paragraphs(rng, 2),
            "reference": [self._table.write(rng, rng.between(3, 40))],
        }

    def _paragraphs(self, rng: Rng, count: int) -> str:
        return "\n\n".join(f"- {self._table.write(rng, rng.between(20, 60))}" for _ in range(count))


def _head(name: str, model: _Model, sample_id: str, metric: str) -> Record:
    """The first fields of a record."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": f"{name}/{model.file}/1760000000",
        "model_id": model.name,
        "evaluation_name": name,
        "evaluation_result_id": f"{name}:{metric}",
        "sample_id": sample_id,
    }


def _attribution(turn_idx: int, source: str, extracted: str) -> Record:
    return {
        "turn_idx": turn_idx,
        "source": source,
        "extracted_value": extracted,
        "extraction_method": "regex",
        "is_terminal": True,
    }


def _line(rng: Rng, model: _Model, record: Record, absent: Iterable[str]) -> bytes:
    """Add what the harness measured, and write the record as it does."""
    asked = record["input"]
    read = rng.between(50, 4_000)
    written = rng.between(1, 3_000)
    if model.hashes:
        record["sample_hash"] = LIST_HASHES["sha256"](asked["raw"], asked["reference"])
    record["token_usage"] = {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
    }
    record["performance"] = {"latency_ms": round(rng.random() * 20_000, 3)}
    if model.nulls:
        record.update(dict.fromkeys(absent))
    return model.spelling.line(record)


SHAPES: Final[dict[str, Callable[[int], Shards]]] = {
    "many-evaluations": many_evaluations,
    "transcripts": transcripts,
}
