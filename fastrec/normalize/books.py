"""The books: from what the tasks gave back to the summary and to the entries of the manifest."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from fastrec.corpus.manifest import InputEntry, KeyEntry
from fastrec.errors import FastrecError, utf8
from fastrec.judge.batch import HashReplaced
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import HASH_EXAMPLES, PieceCounts, SortResult
from fastrec.normalize.pass2 import Part
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.sorting.keys import FIELDS, key_splitter, sample_id_of, text_of
from fastrec.sources.lines import ReadStats
from fastrec.sources.reader import Shard
from fastrec.summary.census import Conflict
from fastrec.summary.census_files import Census
from fastrec.summary.document import (
    ConflictExample,
    Conflicts,
    EvaluationSummary,
    HashExample,
    Latency,
    LineCounts,
    ModelSummary,
    SampleHashes,
    Summary,
    Tokens,
    json_safe,
)
from fastrec.summary.part_counts import PartCounts
from fastrec.summary.rows import bucket_value
from fastrec.summary.tally import ModelTally, Tally

__all__ = ["check_books", "input_entries", "model_summary", "read_key", "summarize", "tree_hash"]


def summarize(
    results: Iterable[SortResult], parts: Sequence[Part], counted: PartCounts, census: Census, options: Options
) -> Summary:
    """Write the summary of a corpus; `counted` has the books of all parts."""
    books = LineCounts(lines=0, kept=0, duplicates=0, rejected=0, blank=0)
    codes: Counter[str] = Counter()
    hashes = SampleHashes(algorithm=options.hash, verified=0, filled=0, replaced=0, examples=[])
    examples: list[HashReplaced] = []
    for result in results:
        for piece in result.books:
            books.lines += piece.lines
            books.blank += piece.blank
            books.rejected += piece.rejected
        books.duplicates += sum(sum(run.dropped.values()) for run in result.runs)
        codes.update(result.codes)
        hashes.verified += result.verified
        hashes.filled += result.filled
        hashes.replaced += result.replaced
        examples = heapq.nsmallest(HASH_EXAMPLES, examples + result.replaced_examples, key=HashReplaced.sort_key)
    tally = counted.tally
    books.duplicates += counted.copies.total()
    for part in parts:
        books.kept += part.records
        books.rejected += part.left_out.total()
        codes.update(part.left_out)
    hashes.examples = [
        HashExample(
            evaluation_name=example.evaluation_name,
            model_id=example.model_id,
            sample_id=json_safe(example.sample_id),
            given=example.given,
            computed=example.computed,
        )
        for example in examples
    ]
    return Summary(
        line_counts=books,
        rejected_by_code=dict(sorted(codes.items())),
        conflicts=Conflicts(
            identities=census.identities,
            records=census.records,
            examples=[_conflict(conflict) for conflict in census.examples],
        ),
        sample_hash=hashes,
        interaction_types=dict(sorted(tally.interaction_types.items())),
        schema_versions=dict(
            sorted(
                (DEFAULT_SCHEMA.name if name is None else name, count) for name, count in tally.schema_versions.items()
            )
        ),
        evaluations=list(_evaluations(tally, census)),
    )


def _evaluations(tally: Tally, census: Census) -> Iterator[EvaluationSummary]:
    by_evaluation: dict[bytes, list[tuple[bytes, ModelTally]]] = {}
    for (evaluation, model), counted in sorted(tally.models.items()):
        by_evaluation.setdefault(evaluation, []).append((model, counted))
    for evaluation, models in by_evaluation.items():
        samples = census.samples[evaluation]
        yield EvaluationSummary(
            evaluation_name=text_of(evaluation),
            records=sum(counted.records for _, counted in models),
            models=len(models),
            questions=samples.samples,
            questions_all_models=samples.by_models[len(models)],
            ids_with_many_hashes=samples.ids_with_many_hashes,
            hashes_with_many_ids=samples.hashes_with_many_ids,
            by_model=[model_summary(text_of(model), counted, samples.again[model]) for model, counted in models],
        )


def model_summary(name: str, counted: ModelTally, again: int) -> ModelSummary:
    """Write the summary of a model on an evaluation; `again` says how many entries of the census count for nothing."""
    buckets = [counted.latency_quantile(share) for share in (0.5, 0.9, 0.99)]
    quantiles = [None if bucket is None else float(f"{bucket_value(bucket):.5g}") for bucket in buckets]
    sums = map(json_safe, counted.tokens)
    return ModelSummary(
        model_id=name,
        records=counted.records,
        questions=counted.entries - again,
        correct=counted.correct,
        accuracy=counted.correct / counted.records,
        mean_score=counted.mean_score(),
        score_standard_error=counted.score_standard_error(),
        errors=counted.errors,
        turns=counted.turns,
        tool_calls=counted.tool_calls,
        tokens=Tokens(records=counted.with_tokens, **dict(zip(("input", "output", "total"), sums, strict=True))),
        latency_ms=Latency(records=counted.latency.total(), p50=quantiles[0], p90=quantiles[1], p99=quantiles[2]),
        first_sample_id=json_safe(sample_id_of(counted.first)),
        last_sample_id=json_safe(sample_id_of(counted.last)),
    )


def _conflict(conflict: Conflict) -> ConflictExample:
    return ConflictExample(
        evaluation_name=text_of(conflict.evaluation),
        sample_id=json_safe(sample_id_of(conflict.sample_id)),
        model_id=text_of(conflict.model),
        evaluation_id=text_of(conflict.run),
        records=conflict.records,
        sample_hashes=[text_of(sample) for sample in conflict.hashes],
    )


def input_entries(
    shards: Sequence[Shard], results: Iterable[SortResult], counted: PartCounts, fed: dict[int, ReadStats], pieces: int
) -> list[InputEntry]:
    """Write the books of each shard; `pieces` is the number of pieces a shard's numbers leave room for."""
    entries = [
        InputEntry(
            path=utf8(shard.path),
            format=shard.format.value if shard.format else "stream",
            bytes=shard.size,
            text_bytes=0,
            lines=0,
            kept=0,
            duplicates=0,
            rejected=0,
            blank=0,
        )
        for shard in shards
    ]
    for result in results:
        for piece in result.books:
            _add_piece(entries[piece.shard], piece)
        for run in result.runs:
            for number, count in run.dropped.items():
                entries[number // pieces].duplicates += count
    for shard, stats in fed.items():
        entries[shard].text_bytes = stats.text_bytes
    for number, count in counted.copies.items():
        entries[number // pieces].duplicates += count
    for number, count in counted.tally.sources.items():
        entries[number // pieces].kept += count
    for number, count in counted.left_out.items():
        entries[number // pieces].rejected += count
    return entries


def check_books(summary: Summary, inputs: Iterable[InputEntry]) -> None:
    """Refuse to publish a corpus that cannot account for every line."""
    accounts: list[tuple[str, LineCounts | InputEntry]] = [("the corpus", summary.line_counts)]
    accounts += [(entry.path, entry) for entry in inputs]
    for name, books in accounts:
        if books.lines != books.kept + books.duplicates + books.rejected + books.blank:
            raise FastrecError(
                f"the books of {name} do not balance: {books.lines:,} lines, but {books.kept:,} kept + "
                f"{books.duplicates:,} duplicates + {books.rejected:,} rejected + {books.blank:,} blank; "
                "nothing was published. This is a defect of fastrec: please report it"
            )


def _add_piece(entry: InputEntry, piece: PieceCounts) -> None:
    entry.text_bytes += piece.text_bytes
    entry.lines += piece.lines
    entry.blank += piece.blank
    entry.rejected += piece.rejected


def tree_hash(digests: Iterable[str]) -> str:
    """Return the hash over some hashes."""
    return sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()


def read_key(key: bytes, order: tuple[str, ...]) -> KeyEntry:
    """Spell a sort key out."""
    *strings, sample_id = key_splitter(order)(key)
    return KeyEntry(
        **dict(zip(FIELDS, map(text_of, strings), strict=False)),
        sample_id=json_safe(sample_id_of(sample_id)),
    )
