"""Questions that models (`stats --joins`) or evaluations (`--overlap`) have in common, and what keeps others apart.

    columns ──▶ for each evaluation and metric: which model was asked what, under which id ──▶
    counts of pairs of models

Two models were asked the same question if the `sample_hash` is the same, whatever the metric, and
the `sample_id`, too, if a metric has the hash split (`keys.is_split`). If hashes differ, but the
`sample_id` is the same, the digests of prompt and references tell what differs; texts are never
kept.

Memory: about 0.4 kB for each question (hash and id) of a metric, and 1 kB more for each question of
the evaluation that is being counted. A model adds one bit to each.

Counting: models are bits of a mask. A *row* is a mask: the models that were asked one question, or
that have one prompt at one id. Transposed, every model has an integer with one bit per row, and two
models agree in as many rows as the two integers have bits in common. That takes microseconds for a
pair of models, however many questions there are.

At an id where each model has one question, what differs follows from five agreements: in the id, in
the question, in its exact texts, in its texts but for white space, and in prompt or references
alone. Ids where a model has several questions, as those of many subjects in one evaluation, are
looked at for each model.

Evaluations share a question if the `sample_hash` is the same, or the input but for white space. Of
each question, one line is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw
from xxhash import xxh3_64_digest, xxh3_128_digest

from fastrec.answers.index import Index, query_of
from fastrec.answers.records import ScopeRecords, joint_codes
from fastrec.answers.table import Query
from fastrec.corpus.scan import decode_sample_id
from fastrec.judge.parse import parse, spell
from fastrec.schemas.view import view, view_decoder
from fastrec.summary.present_choice import Chosen
from fastrec.summary.present_ranking import (
    REASONS,
    EvaluationJoins,
    Overlap,
    OverlapExample,
    PairJoins,
    QuestionGroup,
)

Asked = dict[tuple[bytes, bytes], int]
"""By question and sample_id (as spelled in JSON), the models that were asked it: a mask."""
Question = tuple[bytes, int]  # a question at some id, and the models that were asked it there


_EXAMPLES: Final = 3
_PAIRS_WITH_EXAMPLES: Final = 50  # looking for examples takes much longer than counting
# For each reason, what two questions still agree in: a slice of their facts (four digests: prompt,
# references, both without white space). The closest come first, as in REASONS. With the last
# reason, `prompt_and_reference`, nothing agrees.
_AGREEMENTS: Final = (slice(16), slice(16, 32), slice(16, 24), slice(24, 32))

_decode: Final = view_decoder(
    evaluation_name=str,
    sample_id=Raw,
    sample_hash=str,
    input=view(raw=Raw, reference=Raw),  # they are decoded once per question
)
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_references: Final = msgspec.json.Decoder(str | list[str]).decode


def find_joins(chosen: Sequence[Chosen], index: Index) -> list[EvaluationJoins]:
    """Find out which questions the chosen models have in common, for each evaluation."""
    evaluations: dict[str, list[Chosen]] = defaultdict(list)
    for one in chosen:
        evaluations[one.evaluation.evaluation_name].append(one)
    joins = []
    for name, some in evaluations.items():
        everyone = sorted({model.model_id for one in some for model in one.models})
        numbers = {model_id: number for number, model_id in enumerate(everyone)}
        tables = {
            one.evaluation.metric: index.table(
                Query(evaluation_name=name, metric=one.evaluation.metric)
            )
            for one in some
        }
        split = {sample_hash for table in tables.values() for sample_hash in table.split_hashes()}
        facts: dict[bytes, bytes] = {}
        by_metric = {}
        for one in some:
            models = {model.model_id: numbers[model.model_id] for model in one.models}
            by_metric[one.evaluation.metric] = _asked(
                index, tables[one.evaluation.metric], models, split, facts
            )
        joins.append(count_joins(name, everyone, by_metric, facts))
    return joins


def _asked(
    index: Index,
    table: ScopeRecords,
    models: Mapping[str, int],
    split: set[str],
    facts: dict[bytes, bytes],
) -> Asked:
    """What the chosen models were asked; add the facts of each question to `facts`."""
    records = table.records
    chosen = np.flatnonzero(
        np.array([model in models for model in table.models], dtype=np.bool_)[table.model]
    )
    hashes = records.hash[table.place][chosen]
    ids = records.sample_id[table.place][chosen]
    own_models = table.model[chosen]
    codes = joint_codes(
        (hashes, len(records.hashes)),
        (ids, len(records.sample_ids)),
        (own_models, len(table.models)),
    )
    _, first = np.unique(codes, return_index=True)
    asked: Asked = {}
    questions: dict[bytes, int] = {}  # the number of the first record of each
    numbers = table.number[chosen]
    for place in np.sort(first).tolist():
        sample_hash = records.hashes[int(hashes[place])]
        sample_id = spell(records.sample_ids[int(ids[place])])
        end = b"/" + sample_id if sample_hash in split else b""
        question = xxh3_128_digest(sample_hash.encode() + end)
        bit = 1 << models[table.models[int(own_models[place])]]
        asked[question, sample_id] = asked.get((question, sample_id), 0) | bit
        if question not in facts:
            number = int(numbers[place])
            questions[question] = min(number, questions.get(question, number))
    order = sorted(questions, key=questions.__getitem__)
    lines = index.selection.lines(np.array([questions[one] for one in order], dtype=np.int64))
    for question, line in zip(order, lines, strict=True):
        texts = _facts(_decode(line).input)
        facts[question] = min(texts, facts.get(question, texts))
    return asked


def _facts(asked: Any) -> bytes:
    """Four digests of 8 bytes: of the prompt, the references, and both without white space."""
    prompt: str = _decode_text(asked.raw)
    references: Any = _decode_references(asked.reference)
    texts = [references] if isinstance(references, str) else references
    bare = ["".join(text.split()) for text in texts]
    bare_prompt = "".join(prompt.split())
    digested = (
        prompt.encode(),
        msgspec.json.encode(texts),
        bare_prompt.encode(),
        msgspec.json.encode(bare),
    )
    return b"".join([xxh3_64_digest(text) for text in digested])


def count_joins(
    evaluation: str,
    models: Sequence[str],
    by_metric: Mapping[str | None, Asked],
    facts: dict[bytes, bytes],
) -> EvaluationJoins:
    """Count the joins of all pairs of models of an evaluation, whose records are given by metric."""
    asked: Asked = defaultdict(int)
    for some in by_metric.values():
        for key, mask in some.items():
            asked[key] |= mask
    by_id: dict[bytes, list[Question]] = defaultdict(list)
    by_question: dict[bytes, int] = defaultdict(int)
    for (question, sample_id), mask in asked.items():
        by_id[sample_id].append((question, mask))
        by_question[question] |= mask
    ids = {
        sample_id: _union(mask for _, mask in questions) for sample_id, questions in by_id.items()
    }
    questions_of = _columns(by_question.values(), len(models))
    ids_of = _columns(ids.values(), len(models))
    scored = _scored(by_metric, by_question, len(models))
    groups = _groups(models, _columns(asked.values(), len(models)), *scored)
    first_of = [models.index(group[0]) for group in groups]
    split = {
        id_: _agreeing(questions, facts)
        for id_, questions in sorted(by_id.items())
        if len(questions) > 1
    }
    reasons = _reasons(split.values(), len(models), first_of)
    pairs = [
        PairJoins(
            first=one,
            second=other,
            common=(questions_of[a] & questions_of[b]).bit_count(),
            same_metric=_union(column[a] & column[b] for column in scored).bit_count(),
            ids=(ids_of[a] & ids_of[b]).bit_count(),
            apart=sum(reasons[one, other].values()),
            reasons=dict(reasons[one, other]),
            examples={},
        )
        for (one, a), (other, b) in combinations(enumerate(first_of), 2)
    ]
    counts = [questions_of[number].bit_count() for number in first_of]
    pairs.sort(key=lambda pair: pair.common / (min(counts[pair.first], counts[pair.second]) or 1))
    for pair in [pair for pair in pairs if pair.apart][:_PAIRS_WITH_EXAMPLES]:
        pair.examples = _examples(split, first_of[pair.first], first_of[pair.second], pair.reasons)
    everyone = (1 << len(models)) - 1
    return EvaluationJoins(
        evaluation_name=evaluation,
        metrics=sorted(by_metric, key=lambda metric: (metric is not None, metric)),
        models=len(models),
        questions=len(by_question),
        common=sum(mask == everyone for mask in by_question.values()),
        ids=len(ids),
        common_ids=sum(mask == everyone for mask in ids.values()),
        groups=[
            QuestionGroup(models=group, questions=count, ids=ids_of[number].bit_count())
            for group, count, number in zip(groups, counts, first_of, strict=True)
        ],
        pairs=pairs,
    )


def _scored(
    by_metric: Mapping[str | None, Asked], questions: Iterable[bytes], models: int
) -> list[list[int]]:
    """Make for each metric a column per model: the questions for which it has a record of this metric."""
    columns = []
    for asked in by_metric.values():
        masks = dict.fromkeys(questions, 0)
        for (question, _), mask in asked.items():
            masks[question] |= mask
        columns.append(_columns(masks.values(), models))
    return columns


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)


def _columns(rows: Iterable[int], models: int) -> list[int]:
    """Transpose masks: return for each model an integer with a bit for each mask that has it."""
    width = (models + 7) // 8
    matrix = b"".join([row.to_bytes(width, "little") for row in rows])
    if not matrix:
        return [0] * models
    return [
        int(matrix[number // 8 :: width].translate(_DIGITS[number % 8]), 2)
        for number in range(models)
    ]


# For each bit, a table from a byte to the digit that `int` reads it as.
_DIGITS: Final = [bytes(b"01"[byte >> bit & 1] for byte in range(256)) for bit in range(8)]


def _groups(models: Sequence[str], *columns: Sequence[int]) -> list[list[str]]:
    """Group the models that are the same in all columns, the largest group first."""
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for model, *key in zip(models, *columns, strict=True):
        groups[tuple(key)].append(model)
    return sorted(
        (sorted(group) for group in groups.values()), key=lambda group: (-len(group), group)
    )


def _agreeing(questions: Sequence[Question], facts: dict[bytes, bytes]) -> list[list[int]]:
    """The masks of models that have a question of an id in common, that agree in its exact texts, and so on."""
    found = [[mask for _, mask in questions]]
    for part in _AGREEMENTS:
        masks: dict[bytes, int] = defaultdict(int)
        for question, mask in questions:
            masks[facts[question][part]] |= mask
        found.append(list(masks.values()))
    return found


def _reasons(
    split: Iterable[list[list[int]]], models: int, first_of: Sequence[int]
) -> dict[tuple[int, int], Counter[str]]:
    """Count for each pair of groups the ids whose questions a reason keeps apart."""
    rows: list[list[int]] = [[] for _ in range(6)]
    several: list[list[list[int]]] = []
    for agreeing in split:
        everyone = _union(agreeing[0])
        if sum(mask.bit_count() for mask in agreeing[0]) != everyone.bit_count():
            several.append(agreeing)  # a model has several questions of this id
            continue
        for row, masks in zip(rows, ([everyone], *agreeing), strict=True):
            row += masks
    columns = [_columns(some, models) for some in rows]
    found: dict[tuple[int, int], Counter[str]] = {}
    for (one, a), (other, b) in combinations(enumerate(first_of), 2):
        same_id, same, exact, texts, prompt, references = (
            (column[a] & column[b]).bit_count() for column in columns
        )
        counts = {
            "hash": exact - same,
            "white_space": texts - exact,
            "reference": prompt - texts,
            "prompt": references - texts,
            "prompt_and_reference": same_id - prompt - references + texts,
        }
        found[one, other] = +Counter(counts)
    for one, a in enumerate(first_of if several else ()):
        masks_of = zip(*(_kept_apart(agreeing, a) for agreeing in several), strict=True)
        for reason, some in zip(REASONS, masks_of, strict=True):
            kept_apart = _columns(some, models) if any(some) else [0] * models
            for other, b in enumerate(first_of[one + 1 :], one + 1):
                if count := kept_apart[b].bit_count():
                    found[one, other][reason] += count
    return found


def _kept_apart(agreeing: Sequence[Sequence[int]], model: int) -> list[int]:
    """Find for each reason the models that it keeps apart from one model at an id.

    The closest questions count.
    """
    bit = 1 << model
    others = _union(agreeing[0])
    if not others & bit:
        return [0] * len(REASONS)
    found = []
    for masks in agreeing:
        same = _union(mask for mask in masks if mask & bit)
        found.append(others & same)
        others &= ~same
    return [*found[1:], others]


def _examples(
    split: Mapping[bytes, list[list[int]]], a: int, b: int, reasons: Iterable[str]
) -> dict[str, list[int | str]]:
    found: dict[str, list[int | str]] = {reason: [] for reason in REASONS if reason in reasons}
    for spelled, agreeing in split.items():
        if all(len(examples) == _EXAMPLES for examples in found.values()):
            break
        for reason, mask in zip(REASONS, _kept_apart(agreeing, a), strict=True):
            if mask >> b & 1 and len(found[reason]) < _EXAMPLES:
                found[reason].append(parse(spelled)[0])
    return found


def find_overlap(index: Index) -> list[Overlap]:
    """Compare all pairs of evaluations; those with the most questions in common come first."""
    by_hash: dict[
        str, dict[str, tuple[str, bytes]]
    ] = {}  # by evaluation, hash and id of the first such question
    by_text: dict[bytes, dict[str, tuple[str, bytes]]] = {}
    for evaluation, sample_hash, sample_id, text in _questions(index):
        by_hash.setdefault(sample_hash, {}).setdefault(evaluation, (sample_hash, sample_id))
        by_text.setdefault(text, {}).setdefault(evaluation, (sample_hash, sample_id))
    found: dict[tuple[str, str], Overlap] = {}
    for kind, shared in (("hashes", by_hash.values()), ("inputs", by_text.values())):
        for group in shared:
            for first, second in combinations(sorted(group), 2):
                pair = found.setdefault((first, second), Overlap(first=first, second=second))
                setattr(pair, kind, getattr(pair, kind) + 1)
                if kind == "inputs" and len(pair.examples) < _EXAMPLES:
                    (one, id_) = group[first]
                    (other, other_id) = group[second]
                    ids = {
                        "sample_id": decode_sample_id(id_),
                        "other_sample_id": decode_sample_id(other_id),
                    }
                    pair.examples.append(
                        OverlapExample(sample_hash=one, other_sample_hash=other, **ids)
                    )
    return sorted(found.values(), key=lambda one: (-one.inputs, -one.hashes, one.first, one.second))


def _questions(index: Index) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield the questions of all evaluations: evaluation, hash, id, and digest of the input."""
    numbers: set[int] = set()
    known: set[tuple[str, str]] = set()
    for scope in index.scopes:
        table = index.table(query_of(scope))
        for question, number in enumerate(table.number[table.first].tolist()):
            name = scope.evaluation_name, table.hash_of(question)
            if name not in known:
                known.add(name)
                numbers.add(number)
    for line in index.selection.lines(np.array(sorted(numbers), dtype=np.int64)):
        record = _decode(line)
        text = " ".join(_decode_text(record.input.raw).split())
        digest = xxh3_128_digest(text.encode(errors="surrogatepass"))
        yield record.evaluation_name, record.sample_hash, bytes(record.sample_id), digest
