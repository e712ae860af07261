"""Generated corpora of shapes that fastrec was not tuned to. All records are of version 0.3.0.

    many evaluations   300 small evaluations, three models, one to three metrics per answer: a shard
                       per evaluation and model, records of 1 to 6 KB. A question is repeated only
                       a few times
    transcripts        agents that use tools: records of 50 to 400 KB with 30 to 150 messages. The
                       system prompt repeats in every record of an environment, and documents of the
                       environment in the output of tools

`shapes.json` has the records. The same seed gives the same text everywhere. Every shard has its own
random numbers.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from bench.documents import Document, Documents
from bench.templates import table
from fastrec.commands.generate.producers import Spelling
from fastrec.schemas.hashes import LIST_HASHES

SHAPES = ("many-evaluations", "transcripts")
_TEMPLATES = table("shapes.json")
_SPELLING = Spelling()
_DUMPED = Spelling(ascii_only=True, spaced=True)


def shards_of(shape: str, seed: int) -> Iterator[tuple[str, Iterator[bytes]]]:
    """One shard per evaluation and model."""
    templates = _TEMPLATES[shape]
    for number in range(templates["evaluations"]):
        place = number << 8
        evaluation = Documents(templates, seed, place).make("evaluation", number=number)
        for model in range(templates["models"]):
            documents = Documents(templates, seed, place + model + 1)
            yield f"{evaluation['name']}-model-{model}", _lines(documents, model, evaluation)


def _lines(documents: Documents, model: int, evaluation: Document) -> Iterator[bytes]:
    """The records of a model, written as one of three harnesses does."""
    spelling = _SPELLING if model % 3 else _DUMPED
    for number, question in enumerate(evaluation["questions"]):
        facts = {"model": model, "number": number, **evaluation, **question}
        facts |= documents.make("answer", **facts)
        facts |= _turns(facts.get("exchanges", ()))
        asked = facts["input"]
        for metric in evaluation["metrics"]:
            record = documents.make("record", metric=metric, **facts)
            if model % 3:
                record["sample_hash"] = LIST_HASHES["sha256"](asked["raw"], asked["reference"])
            if model % 3 == 2:
                nulls = ("output", "messages", "error", "metadata")
                record = {**dict.fromkeys(nulls), **record}
            yield spelling.line(record)


def _turns(exchanges: Iterable[list[Document]]) -> Document:
    """The messages of a transcript, and their counts."""
    all_exchanges = chain.from_iterable(exchanges)
    turns = chain.from_iterable(exchange["turns"] for exchange in all_exchanges)
    messages = [{"turn_idx": place, **turn} for place, turn in enumerate(turns)]
    calls = sum("tool_calls" in turn for turn in messages)
    return {"messages": messages, "turns": len(messages), "last": len(messages) - 1, "calls": calls}
