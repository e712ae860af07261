"""Generated corpora of shapes that fastrec was not tuned to. All records are of version 0.3.0.

    many evaluations   300 small evaluations, three models, one to three metrics per answer: a shard
                       per evaluation and model, records of 1 to 6 KB. A question is repeated only
                       a few times
    transcripts        agents that use tools: records of 50 to 400 KB with 30 to 150 messages. The
                       system prompt repeats in every record of an environment, and documents of the
                       environment in the output of tools

The same seed gives the same text everywhere. Every shard has its own random numbers.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from fastrec.commands.generate.producers import Spelling
from fastrec.commands.generate.text import Rng, phrase_tables
from fastrec.schemas.hashes import LIST_HASHES

Record = dict[str, Any]

_METRICS = ("acc", "acc_norm", "exact_match", "f1", "judge_score", "bleu")
_TOOLS = ("read_file", "search", "run_command", "edit_file", "http_get", "query_table")
_SPELLING = Spelling(
    ascii_only=False, spaced=False, sort_keys=False, order=None, escape_slashes=False
)
_DUMPED = Spelling(ascii_only=True, spaced=True, sort_keys=False, order=None, escape_slashes=False)


class _Model(NamedTuple):
    """A model, and how the harness that evaluated it writes JSON: one of three in turn."""

    number: int

    @property
    def name(self) -> str:
        return f"lab-{self.number % 5}/model-{self.number}"

    def line(self, rng: Rng, name: str, sample_id: str, metric: str, **fields: Any) -> bytes:
        """Write a record as the harness does, with what it measured."""
        read = rng.between(50, 4_000)
        written = rng.between(1, 3_000)
        record: Record = {
            "schema_version": "0.3.0",
            "evaluation_id": f"{name}/{self.name.replace('/', '_')}/1760000000",
            "model_id": self.name,
            "evaluation_name": name,
            "evaluation_result_id": f"{name}:{metric}",
            "sample_id": sample_id,
            **fields,
            "token_usage": {
                "input_tokens": read,
                "output_tokens": written,
                "total_tokens": read + written,
            },
            "performance": {"latency_ms": round(rng.random() * 20_000, 3)},
        }
        asked = record["input"]
        if self.number % 3:
            record["sample_hash"] = LIST_HASHES["sha256"](asked["raw"], asked["reference"])
        if self.number % 3 == 2:
            record = {"output": None, "messages": None, "error": None, "metadata": None, **record}
        return (_SPELLING if self.number % 3 else _DUMPED).line(record)


def _attributed(turn_idx: int, source: str, extracted: str) -> list[Record]:
    return [
        {
            "turn_idx": turn_idx,
            "source": source,
            "extracted_value": extracted,
            "extraction_method": "regex",
            "is_terminal": True,
        }
    ]


# Many small evaluations


def _small_evaluation(seed: int, rng: Rng) -> Callable[[str, _Model, Rng], Iterator[bytes]]:
    tables = phrase_tables(seed)
    phrases = rng.choice(tables.world if rng.chance(0.1) else tables.latin)

    def text(rng: Rng, size: int) -> str:
        return phrases.write(rng, rng.long_tail(size, 4 * size))

    size = rng.between(12, 80)
    answer_size = rng.between(20, 110)
    shots = text(rng, 80) if rng.chance(0.3) else ""
    has_choices = rng.chance(0.5)
    metrics = rng.shuffled(_METRICS)[: rng.choice((1, 1, 1, 2, 2, 3))]
    questions = []
    for _ in range(rng.between(40, 60)):
        asked: Record = {"raw": text(rng, size) + "?"}
        if shots:
            asked["formatted"] = f"{shots}\n\nQuestion: {asked['raw']}\nAnswer:"
        asked["reference"] = [rng.choice("ABCD") if has_choices else text(rng, 8)]
        if has_choices:
            asked["choices"] = [text(rng, 3) for _ in "ABCD"]
        questions.append(asked)

    def lines(name: str, model: _Model, rng: Rng) -> Iterator[bytes]:
        for number, asked in enumerate(questions):
            output: Record = {"raw": [text(rng, answer_size)]}
            if rng.chance(0.2):
                output["reasoning_trace"] = [text(rng, answer_size)]
            for metric in metrics:
                score = rng.choice((0.0, 1.0, round(rng.random(), 4)))
                yield model.line(
                    rng,
                    name,
                    f"{name}/{number}",
                    metric,
                    interaction_type="single_turn",
                    input=asked,
                    output=output,
                    answer_attribution=_attributed(0, "output.raw", asked["reference"][0]),
                    evaluation={"score": score, "is_correct": score >= 0.5},
                )

    return lines


# Transcripts


def _environment(seed: int, rng: Rng) -> Callable[[str, _Model, Rng], Iterator[bytes]]:
    """An environment for agents: its system prompt, documents that tools read, and tasks."""
    tables = phrase_tables(seed)
    phrases = rng.choice(tables.latin)
    write = partial(phrases.write, rng)
    documents = [_document(seed, rng, number) for number in range(120)]
    rules = "\n\n".join(f"- {write(rng.between(20, 60))}" for _ in range(12))
    tools = [{"name": name, "description": write(rng.between(20, 90))} for name in _TOOLS]
    system = f"# Policy\n\n{rules}\n\n# Tools\n\n{json.dumps(tools, indent=2)}"
    tasks = [
        {"raw": write(rng.between(40, 120)), "reference": [write(rng.between(3, 40))]}
        for _ in range(26)
    ]

    def lines(name: str, model: _Model, rng: Rng) -> Iterator[bytes]:
        for number, asked in enumerate(tasks):
            turns: list[Record] = [
                {"role": "system", "content": system},
                {"role": "user", "content": asked["raw"]},
            ]
            verbosity = rng.between(20, 90)
            for _ in range(rng.between(14, 73)):
                turns += _exchange(rng, seed, phrases.write, documents, verbosity)
            answer = phrases.write(rng, rng.long_tail(verbosity, 600))
            turns.append({"role": "assistant", "content": answer})
            solved = rng.chance(0.4)
            last = len(turns) - 1
            yield model.line(
                rng,
                name,
                f"task-{number:03d}",
                "solved",
                interaction_type="agentic",
                input=asked,
                messages=[{"turn_idx": place, **turn} for place, turn in enumerate(turns)],
                answer_attribution=_attributed(last, f"messages[{last}].content", answer[:9]),
                evaluation={
                    "score": float(solved),
                    "is_correct": solved,
                    "num_turns": len(turns),
                    "tool_calls_count": sum(len(turn.get("tool_calls", ())) for turn in turns),
                },
            )

    return lines


def _exchange(
    rng: Rng, seed: int, write: Callable[[Rng, int], str], documents: list[str], verbosity: int
) -> list[Record]:
    """A turn that calls one or two tools, and one with a document, a part of it, or new output."""
    log = phrase_tables(seed).log
    turn: Record = {"role": "assistant"}
    if rng.chance(0.6):
        turn["content"] = write(rng, rng.between(3, 40))
    if rng.chance(0.3):
        turn["reasoning_trace"] = write(rng, rng.long_tail(verbosity, 600))
    ids = [f"call_{rng.bits(64):016x}" for _ in range(2 if rng.chance(0.1) else 1)]
    turn["tool_calls"] = [
        {
            "id": call,
            "name": rng.choice(_TOOLS),
            "arguments": {"query": log.write(rng, rng.between(1, 80)), "limit": "20"},
        }
        for call in ids
    ]
    output = rng.choice(documents)
    if rng.chance(0.55):
        output = log.write(rng, rng.long_tail(3 * verbosity, 2_000))
    elif rng.chance(0.5):
        output = output[: len(output) // 2] + "\n… (truncated)"
    return [turn, {"role": "tool", "content": output, "tool_call_id": ids}]


def _document(seed: int, rng: Rng, number: int) -> str:
    """A document: JSON in a string, prose of any script, or something like code."""
    tables = phrase_tables(seed)
    size = rng.long_tail(150, 1_500)
    if number % 3 == 0:
        rows = [
            {"id": f"{rng.bits(40):010x}", "name": tables.latin[0].write(rng, 2)}
            for _ in range(size // 8)
        ]
        return json.dumps({"status": "ok", "rows": rows}, indent=2)
    if number % 3 == 1:
        return rng.choice(tables.world if number % 2 else tables.latin).write(rng, size)
    return "\n".join(
        f"{line:5d}\t{'    ' * rng.below(4)}{tables.log.write(rng, 8)}" for line in range(size // 8)
    )


# What makes the lines of an evaluation, the names of all evaluations, and the number of models.
_Make = Callable[[int, Rng], Callable[[str, _Model, Rng], Iterator[bytes]]]
SHAPES: dict[str, tuple[_Make, list[str], int]] = {
    "many-evaluations": (
        _small_evaluation,
        [f"suite_{number % 17}_subject_{number:03d}" for number in range(300)],
        3,
    ),
    "transcripts": (_environment, [f"agent_world_{number}" for number in range(6)], 8),
}


def shards_of(shape: str, seed: int) -> Iterator[tuple[str, Iterator[bytes]]]:
    """One shard per evaluation and model."""
    make, names, models = SHAPES[shape]
    for number, name in enumerate(names):
        place = (seed << 32) + (number << 8)
        lines_of = make(seed, Rng(place))
        for model in map(_Model, range(models)):
            rng = Rng(place + model.number + 1)
            yield f"{name}-{model.name.replace('/', '_')}", lines_of(name, model, rng)
