"""Questions that models (`stats --joins`) or evaluations (`--overlap`) have in common, and what keeps others apart.

    one task per part:   read ──▶ for each evaluation and metric: which model was asked what, under which id
    the driver:          adds up, then counts for each pair of models

Two models were asked the same question if the `sample_hash` is the same, whatever the metric, and the `sample_id`, too,
if a metric has the hash split (`keys.is_split`). If hashes differ, but the `sample_id` is the same, the digests of
prompt and references tell what differs; texts are never kept.

Memory: about 0.4 kB for each question (hash and id) of a metric, and 1 kB more for each question of the evaluation
that is being counted. A model adds one bit to each.

Counting: models are bits of a mask. A *row* is a mask: the models that were asked one question, or that have one prompt
at one id. Transposed, every model has an integer with one bit per row, and two models agree in as many rows as the two
integers have bits in common. That takes microseconds for a pair of models, however many questions there are.

At an id where each model has one question, what differs follows from five agreements: in the id, in the question, in
its exact texts, in its texts but for white space, and in prompt or references alone. Ids where a model has several
questions, as those of many subjects in one evaluation, are looked at for each model.

Evaluations share a question if the `sample_hash` is the same, or the input but for white space. Their records of a
question follow each other, so most lines are skipped without decoding them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from xxhash import xxh3_64_digest, xxh3_128_digest

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import (
    PartTask,
    decode_lines,
    decode_sample_id,
    find_split_hashes,
    parts_of,
    read_head,
    run_in_order,
    skim_lines,
    with_progress,
)
from fastrec.judge.parse import parse
from fastrec.limits import current_limits
from fastrec.progress import Progress
from fastrec.summary.present_choice import Chosen
from fastrec.summary.present_ranking import REASONS, EvaluationJoins, Overlap, OverlapExample, PairJoins, QuestionGroup

Asked = dict[tuple[bytes, bytes], int]
"""By question and sample_id (as spelled in JSON), the models that were asked it: a mask."""
Question = tuple[bytes, int]  # a question at some id, and the models that were asked it there
Scope = tuple[str, str | None]  # evaluation and metric


class _Input(msgspec.Struct, gc=False):
    """What was asked: JSON text, which is decoded once per question."""

    raw: Raw
    reference: Raw


class _Line(msgspec.Struct, gc=False):
    model_id: str
    evaluation_name: str
    sample_id: Raw
    sample_hash: str
    input: _Input
    evaluation_result_id: str | UnsetType = UNSET


class _Task(PartTask, frozen=True):
    sort_fields: tuple[str, ...]
    models: dict[Scope, dict[str, int]] = msgspec.field(default_factory=dict)
    split: frozenset[tuple[str, str]] = frozenset()  # evaluation and sample_hash of split hashes


_EXAMPLES: Final = 3
_PAIRS_WITH_EXAMPLES: Final = 50  # looking for examples takes much longer than counting
# For each reason, what two questions still agree in: a slice of their facts (four digests: prompt, references, both
# without white space). The closest come first, as in REASONS. With the last reason, `prompt_and_reference`, nothing
# agrees.
_AGREEMENTS: Final = (slice(16), slice(16, 32), slice(16, 24), slice(24, 32))

_decode: Final = msgspec.json.Decoder(_Line).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_references: Final = msgspec.json.Decoder(str | list[str]).decode


def find_joins(
    chosen: Sequence[Chosen], corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None
) -> list[EvaluationJoins]:
    """Find out which questions the chosen models have in common, for each evaluation."""
    evaluations: dict[str, list[Chosen]] = defaultdict(list)
    for one in chosen:
        evaluations[one.evaluation.evaluation_name].append(one)
    everyone: dict[str, list[str]] = {}
    models: dict[Scope, dict[str, int]] = {}  # each with its number, which is the same for all metrics of an evaluation
    for name, some in evaluations.items():
        everyone[name] = sorted({model.model_id for one in some for model in one.models})
        numbers = {model_id: number for number, model_id in enumerate(everyone[name])}
        for one in some:
            models[name, one.evaluation.metric] = {model.model_id: numbers[model.model_id] for model in one.models}
    parts = parts_of(corpus, manifest)
    found_split = find_split_hashes(parts, manifest, (one.evaluation for one in chosen), jobs=jobs)
    split = frozenset((name, sample_hash) for name, _, sample_hash in found_split)
    tasks = [_Task(part, manifest.sort_fields, models, split) for part in parts]
    asked: dict[Scope, Asked] = {scope: {} for scope in models}
    facts: dict[bytes, bytes] = {}
    results = run_in_order(_read_part, tasks, text_bytes=manifest.text_bytes, jobs=jobs)
    for found, found_facts in with_progress(results, parts, progress, "count"):
        for scope, part in found.items():
            whole = asked[scope]
            for key, mask in part.items():
                whole[key] = whole.get(key, 0) | mask
        for question, texts in found_facts.items():  # equal, unless two questions have one hash
            facts[question] = min(texts, facts.get(question, texts))
    joins = []
    for name, some in evaluations.items():
        by_metric = {one.evaluation.metric: asked.pop((name, one.evaluation.metric)) for one in some}
        joins.append(count_joins(name, everyone[name], by_metric, facts))
    return joins


def _read_part(task: _Task) -> tuple[dict[Scope, Asked], dict[bytes, bytes]]:
    """Collect what the chosen models were asked in one part, and the facts of each question. Runs in a worker."""
    asked: dict[Scope, Asked] = defaultdict(dict)
    facts: dict[bytes, bytes] = {}
    for lines, _ in decode_lines(task.part, _decode, current_limits().chunk_bytes, task.sort_fields):
        for line in lines:
            metric = line.evaluation_result_id
            scope = line.evaluation_name, None if isinstance(metric, UnsetType) else metric
            number = task.models.get(scope, {}).get(line.model_id)
            if number is None:
                continue
            sample_id = bytes(line.sample_id)
            is_split = task.split and (line.evaluation_name, line.sample_hash) in task.split
            question = xxh3_128_digest(line.sample_hash.encode() + (b"/" + sample_id if is_split else b""))
            key = question, sample_id
            mine = asked[scope]
            mine[key] = mine.get(key, 0) | 1 << number
            if question not in facts:
                facts[question] = _facts(line.input)
    return dict(asked), facts


def _facts(asked: _Input) -> bytes:
    """Four digests of 8 bytes: of the prompt, the references, and both without white space."""
    prompt: str = _decode_text(asked.raw)
    references: Any = _decode_references(asked.reference)
    texts = [references] if isinstance(references, str) else references
    bare = ["".join(text.split()) for text in texts]
    bare_prompt = "".join(prompt.split())
    digested = (prompt.encode(), msgspec.json.encode(texts), bare_prompt.encode(), msgspec.json.encode(bare))
    return b"".join([xxh3_64_digest(text) for text in digested])


def count_joins(
    evaluation: str, models: Sequence[str], by_metric: Mapping[str | None, Asked], facts: dict[bytes, bytes]
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
    ids = {sample_id: _union(mask for _, mask in questions) for sample_id, questions in by_id.items()}
    questions_of = _columns(by_question.values(), len(models))
    ids_of = _columns(ids.values(), len(models))
    scored = _scored(by_metric, by_question, len(models))
    groups = _groups(models, _columns(asked.values(), len(models)), *scored)
    first_of = [models.index(group[0]) for group in groups]
    split = {id_: _agreeing(questions, facts) for id_, questions in sorted(by_id.items()) if len(questions) > 1}
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


def _scored(by_metric: Mapping[str | None, Asked], questions: Iterable[bytes], models: int) -> list[list[int]]:
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
    return [int(matrix[number // 8 :: width].translate(_DIGITS[number % 8]), 2) for number in range(models)]


# For each bit, a table from a byte to the digit that `int` reads it as.
_DIGITS: Final = [bytes(b"01"[byte >> bit & 1] for byte in range(256)) for bit in range(8)]


def _groups(models: Sequence[str], *columns: Sequence[int]) -> list[list[str]]:
    """Group the models that are the same in all columns, the largest group first."""
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for model, *key in zip(models, *columns, strict=True):
        groups[tuple(key)].append(model)
    return sorted((sorted(group) for group in groups.values()), key=lambda group: (-len(group), group))


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
        same_id, same, exact, texts, prompt, references = ((column[a] & column[b]).bit_count() for column in columns)
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
    """Find for each reason the models that it keeps apart from one model at an id; the closest questions count."""
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


def find_overlap(corpus: str, manifest: Manifest, *, jobs: int, progress: Progress | None) -> list[Overlap]:
    """Compare all pairs of evaluations; those with the most questions in common come first."""
    parts = parts_of(corpus, manifest)
    tasks = [_Task(part, manifest.sort_fields) for part in parts]
    done = run_in_order(_questions, tasks, text_bytes=manifest.text_bytes, jobs=jobs)
    by_hash: dict[str, dict[str, tuple[str, bytes]]] = {}  # by evaluation, hash and id of the first such question
    by_text: dict[bytes, dict[str, tuple[str, bytes]]] = {}
    for questions in with_progress(done, parts, progress, "count"):
        for evaluation, sample_hash, sample_id, text in questions:
            by_hash.setdefault(sample_hash, {}).setdefault(evaluation, (sample_hash, sample_id))
            by_text.setdefault(text, {}).setdefault(evaluation, (sample_hash, sample_id))
    found: dict[tuple[str, str], Overlap] = {}
    for kind, shared in (("hashes", by_hash.values()), ("inputs", by_text.values())):
        for group in shared:
            for first, second in combinations(sorted(group), 2):
                pair = found.setdefault((first, second), Overlap(first=first, second=second))
                setattr(pair, kind, getattr(pair, kind) + 1)
                if kind == "inputs" and len(pair.examples) < _EXAMPLES:
                    (one, id_), (other, other_id) = group[first], group[second]
                    ids = {"sample_id": decode_sample_id(id_), "other_sample_id": decode_sample_id(other_id)}
                    pair.examples.append(OverlapExample(sample_hash=one, other_sample_hash=other, **ids))
    return sorted(found.values(), key=lambda one: (-one.inputs, -one.hashes, one.first, one.second))


def _questions(task: _Task) -> list[tuple[str, str, bytes, bytes]]:
    """List the questions of a part: evaluation, hash, id, and digest of the input. Runs in a worker."""
    found = []
    last = ("", "")
    for data, end in skim_lines(task.part):
        for line in bytes(memoryview(data)[: end - 1]).split(b"\n"):
            head = read_head(line)
            if (head.evaluation_name, head.sample_hash) != last:
                last = head.evaluation_name, head.sample_hash
                record = _decode(line)
                text = " ".join(_decode_text(record.input.raw).split())
                digest = xxh3_128_digest(text.encode(errors="surrogatepass"))
                found.append((*last, bytes(record.sample_id), digest))
    return found
