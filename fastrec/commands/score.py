"""`score`: score stored answers again, by rules, without the model.

1. Read the rules (`fastrec.scoring`), and select the records of each by its filters.
2. One task per part scores its records. It writes new records, or with `replace` all records with
   their new verdicts, as a shard in a temporary directory, and counts what changed.
3. `normalize` merges the new records with the corpus, or makes a corpus of the replaced ones.

An answer that several metrics have judged has several records. It is scored once: by the records of
the metric with most records of its model, unless a rule names a metric.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import zstandard
from msgspec import MsgspecError, Struct

from fastrec.answers.codes import Array, distinct_of
from fastrec.answers.question_table import results_by_name
from fastrec.answers.selection import Selection, select
from fastrec.corpus.reader import lines_of, open_columns, open_corpus
from fastrec.corpus.scan import PartTask, run_on_parts
from fastrec.engine import check_jobs
from fastrec.errors import NoMatchError, UsageError, counted, listed, naming, shown, utf8
from fastrec.filters import Strings, as_tuple
from fastrec.harnesses.log import NOT_SCORED
from fastrec.judge.parse import decoded, spell
from fastrec.normalize.corrections import GivenFile
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, NEWEST_SCHEMA
from fastrec.schemas.schema import JsonObject
from fastrec.schemas.view import NO_COUNTS, empty_by_key, json_decoder
from fastrec.scoring.rules import Rule, Scorer, Verdict, read_rules, shipped_rule
from fastrec.sorting.keys import METRIC
from fastrec.storage import is_url
from fastrec.summary.document import ModelName
from fastrec.where import said, values_of

_EXAMPLES = 3  # of each kind, evaluation and rule
_SHOWN_CHARACTERS = 400  # of the end of an answer, in an example
_LEVEL = 1  # of shards that are read once


class ScoredModel(Struct):
    """A model on an evaluation, by one rule."""

    #: The evaluation.
    evaluation_name: str
    #: The rule, whose name is the metric.
    rule: str
    #: The model.
    model_id: str
    #: Answers that it scored.
    records: int = 0
    #: Those with a verdict before.
    old_scored: int = 0
    #: Those that were right.
    old_right: int = 0
    #: Those that are right now.
    new_right: int = 0
    #: Those that were wrong, and are right.
    to_right: int = 0
    #: Those that were right, and are wrong.
    to_wrong: int = 0
    #: Those from which nothing could be extracted.
    missing: int = 0
    #: Records without an answer or a reference.
    errors: int = 0
    #: The share of right answers before, among those with a verdict.
    old: float | None = None
    #: The share of right answers now.
    new: float | None = None


class ScoreExample(Struct):
    """An answer, as it was judged before and by a rule."""

    #: `to right`, `to wrong`, `nothing extracted`, `right` or `wrong`.
    kind: str
    #: The evaluation.
    evaluation_name: str
    #: The rule.
    rule: str
    #: The model.
    model_id: str
    sample_id: str | int
    #: The end of the answer.
    text: str
    #: What the rule extracted.
    extracted: str | None
    #: What it was compared with.
    references: list[str]


class Scored(Tabular):
    """What rules made of the answers of a corpus."""

    #: The new corpus; null with `--dry-run`.
    output: str | None
    #: By evaluation, rule and model.
    models: list[ScoredModel]
    #: The first answers of each kind.
    examples: list[ScoreExample]
    #: How many references of the file were not used; what `normalize` said about the new corpus.
    notices: list[str]


class Reference(Struct, forbid_unknown_fields=True):
    """A line of a file of references: the references of a question."""

    reference: str | list[str]
    sample_id: str | int | None = None
    hash: str | None = None
    evaluation: str | None = None

    def __post_init__(self) -> None:
        if (self.sample_id is None) == (self.hash is None):
            raise ValueError("it needs either `sample_id` or `hash`")


# References by evaluation, None for all of them, and by sample_id or hash.
_Place = tuple[str | None, str]
References = dict[_Place, list[str]]


def score(
    corpus: AnyPath,
    output: AnyPath | None = None,
    *,
    rules: AnyPath | None = None,
    rule: Strings = (),
    references: AnyPath | None = None,
    replace: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    jobs: int = CORES,
    work_dir: str | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Score the answers of a corpus by rules, and publish a corpus with the new verdicts.

    Args:
        corpus: A directory that `normalize` published.
        output: The corpus to publish; none with `dry_run`.
        rules: A TOML file with rules.
        rule: Names of rules that ship with fastrec: `exact`, `number`, `choice`, `boxed`.
        references: A file of JSON lines with the references that records lack.
        replace: Replace the verdict of each record instead of adding a metric. The verdict before
            stays in its metadata.
        dry_run: Publish nothing; the result has more examples.
        overwrite: Whether to replace an existing corpus at `output`.
        jobs: Processes to use.
        work_dir: Directory for temporary files; the system's by default.
        progress: Receives the progress.

    Raises:
        UsageError: An argument or a rule is wrong, or no record matches. Nothing was done.
    """
    check_jobs(jobs)
    shipped = [shipped_rule(name) for name in as_tuple("rule", rule)]
    if (output is None) != dry_run:
        raise UsageError("score needs either an output or dry_run")
    chosen = [*(read_rules(os.fspath(rules)) if rules is not None else ()), *shipped]
    if not chosen:
        raise UsageError("score needs a rule: --rule number, or a file of rules")
    given = _read_references(references) if references is not None else {}
    reader = open_corpus(corpus)
    everything = Selection(reader)
    if not everything.parts:
        raise NoMatchError(f"there are no records in {shown(reader.path)}")
    masks = _masks(everything, chosen, replace=replace, jobs=jobs, progress=progress)
    with _scored_shards(output, work_dir) as shards:
        tasks = [
            _Task(
                part=part,
                rules=chosen,
                masks=[mask[number] for mask in masks],
                references=given,
                output=os.devnull if dry_run else str(shards / f"part-{number:05d}.jsonl.zst"),
                replace=replace,
            )
            for number, part in enumerate(everything.parts)
            if replace or any(mask[number].any() for mask in masks)
        ]
        results = run_on_parts(_score_part, tasks, "score", jobs=jobs, progress=progress)
        scores = _merge(results)
        notices = []
        if unused := len(given) - len(scores.used):
            notices = [
                f"{counted(unused, 'reference')} left out: no scored answer has the question"
            ]
        if output is not None:
            schema = CORPUS_LABELS[reader.manifest.schema] if replace else NEWEST_SCHEMA
            options = make_options(
                schema=schema.name, overwrite=overwrite, jobs=jobs, work_dir=work_dir, max_rejects=0
            )
            inputs = [str(shards)] if replace else [reader.path, str(shards)]
            notices += run(inputs, output, options, progress=progress).notices
    return Scored(
        output=None if output is None else utf8(os.fspath(output)),
        models=[_scored_model(*model) for model in sorted(scores.models.items())],
        examples=scores.examples,
        notices=notices,
    )


@contextmanager
def _scored_shards(output: AnyPath | None, work_dir: str | None) -> Iterator[Path]:
    """A directory for scored records, which is removed afterwards.

    It is beside a local output, or in the work directory. The manifest names it, so it has the same
    name every time.
    """
    target = Path(output or "dry-run")
    is_local = output is not None and not is_url(os.fspath(output))
    beside = target.parent if is_local else gettempdir()
    shards = Path(work_dir or beside) / f".{target.name}.fastrec-scored"
    shutil.rmtree(shards, ignore_errors=True)  # of a run that was killed
    with naming(str(shards)):
        if output is not None:
            shards.mkdir(parents=True)
        try:
            yield shards
        finally:
            shutil.rmtree(shards, ignore_errors=True)


def _read_references(path: AnyPath) -> References:
    """Read a file of references; UsageError if it cannot be read or understood."""
    name = os.fspath(path)
    decode = json_decoder(Reference)
    references = {}
    (text,) = GivenFile.at(name).texts
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            given = decode(line)
        except (MsgspecError, UnicodeDecodeError) as exc:
            raise UsageError(f"{shown(name)}, line {number:,} is no reference: {exc}") from exc
        key = str(given.sample_id) if given.hash is None else given.hash
        texts = [given.reference] if isinstance(given.reference, str) else given.reference
        references[given.evaluation, key] = texts
    return references


def _masks(
    everything: Selection,
    rules: Sequence[Rule],
    *,
    replace: bool,
    jobs: int,
    progress: Progress | None,
) -> list[list[Array]]:
    """For each rule and part, the records that the rule scores.

    Of rules with one name, the first that matches a record scores it. With `replace`, the first of
    all rules does.
    """
    masks: list[list[Array]] = []
    for number, rule in enumerate(rules):
        selection = select(everything.reader, rule.filters, jobs=jobs, progress=progress)
        if not replace:
            _check_name(rule, selection)
        bases = None if replace or rule.filters.metric else _base_metrics(selection)
        mask = []
        for part in range(len(everything.parts)):
            chosen = selection.scope_codes(part) >= 0
            if bases is not None:
                chosen &= _has_base(selection, part, bases)
            for earlier, other in zip(rules[:number], masks, strict=True):
                if replace or earlier.name == rule.name:
                    chosen &= ~other[part]
            mask.append(chosen)
        masks.append(mask)
    return masks


def _check_name(rule: Rule, selection: Selection) -> None:
    names = [name for name, metric in selection.scopes if metric == rule.name]
    if names:
        raise UsageError(
            f"{listed(names)} has the metric {rule.name!r} already: rename the rule, or use replace"
        )


def _base_metrics(selection: Selection) -> set[ModelName]:
    """Of each evaluation and model, the metric with most records: evaluation, metric, model."""
    results = results_by_name(selection.summary.evaluations)
    best_first = sorted(results, key=lambda name: -results[name].records)
    best = {(name[0], name[2]): name for name in reversed(best_first)}  # the first is set last
    return set(best.values())


def _has_base(selection: Selection, part: int, bases: set[ModelName]) -> Array:
    """Whether the metric of each record of a part is the one that its answer is scored by."""
    columns = selection.columns(part)
    names = columns.values("model")
    models = columns.numbers("model")
    scopes = selection.scope_codes(part)
    first, place = distinct_of(scopes + 1, models)
    pairs = zip(scopes[first].tolist(), models[first].tolist(), strict=True)
    is_base = [
        scope >= 0 and (*selection.scopes[scope], names[model]) in bases for scope, model in pairs
    ]
    return np.array(is_base, dtype=np.bool_)[place]


class _Task(PartTask, frozen=True):
    rules: list[Rule]
    masks: list[Array]  # of each rule: which records it scores
    references: References
    output: str  # path of the shard
    replace: bool


_Key = tuple[str, str, str]  # evaluation and rule, and a model or a kind of example


class _Scores(Struct):
    """What became of the answers of a part, or of all parts."""

    # By model, the counts of `ScoredModel`.
    models: dict[_Key, Counter[str]] = empty_by_key(Counter)
    examples: list[ScoreExample] = []
    kinds: Counter[_Key] = NO_COUNTS  # how many examples there are
    used: set[_Place] = set()  # references of a file

    def add_example(self, example: ScoreExample) -> None:
        """Keep an example, if it is among the first ones of its kind."""
        key = (example.evaluation_name, example.rule, example.kind)
        self.kinds[key] += 1
        if self.kinds[key] <= _EXAMPLES:
            self.examples.append(example)


def _score_part(task: _Task) -> _Scores:
    """Score the records of a part, and write the new ones."""
    scores = _Scores()
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    with Path(task.output).open("wb") as file, compressor.stream_writer(file) as shard:
        for line in _lines_to_write(task, scores):
            shard.write(line + b"\n")
    return scores


def _lines_to_write(task: _Task, scores: _Scores) -> Iterator[bytes]:
    """Yield new records, or all of them if verdicts are replaced."""
    chosen = np.logical_or.reduce(task.masks)
    positions = (np.arange(len(chosen)) if task.replace else np.flatnonzero(chosen)).tolist()
    scorers = list(map(Scorer, task.rules))
    with closing(lines_of(task.part, open_columns(task.part), positions)) as lines:
        for position, line in zip(positions, lines, strict=True):
            if not chosen[position]:
                yield line
                continue
            for scorer, mask in zip(scorers, task.masks, strict=True):
                if mask[position]:
                    yield _scored(task, scorer, line, scores)


def _scored(task: _Task, scorer: Scorer, line: bytes, scores: _Scores) -> bytes:
    """Score a record, and count what became of it."""
    record = decoded(line)
    rule = scorer.rule
    names = (record["evaluation_name"], rule.name, record["model_id"])
    counts = scores.models[names]
    references = _texts(record, "reference")
    if place := _place_of(record, task.references):
        scores.used.add(place)
        references = task.references[place] or references
    error = record.get("error")
    was_right = record["evaluation"]["is_correct"] if error is None else None
    if error is not None and error.startswith(_NOT_SCORED):
        error = None
    if error is None and not references:
        error = "not scored: there is no reference"
    verdict = Verdict(None, is_right=False)
    if error is None:
        text = next((text for text in reversed([*said(record)]) if text), "")
        verdict = scorer.score(text, references, _texts(record, "choices"))
        counts["missing"] += verdict.extracted is None
        example = ScoreExample(
            _kind_of(verdict, was_right),
            *names,
            sample_id=record["sample_id"],
            text=text[-_SHOWN_CHARACTERS:],
            extracted=verdict.extracted,
            references=references,
        )
        scores.add_example(example)
        if verdict.extracted is None and rule.missing == "error":
            error = "not scored: nothing could be extracted"
    if error is not None:
        counts["errors"] += 1
    else:
        counts.update(records=1, new_right=verdict.is_right)
        if was_right is not None:
            counts.update(
                old_scored=1,
                old_right=was_right,
                to_right=verdict.is_right and not was_right,
                to_wrong=was_right and not verdict.is_right,
            )
    _change(record, rule, verdict, error, replace=task.replace)
    return spell(record)


def _place_of(record: JsonObject, given: References) -> _Place | None:
    """The references of a file for the question of a record, those of its evaluation first."""
    names = (str(record["sample_id"]), record["sample_hash"])
    places = product((record["evaluation_name"], None), names)
    return next((place for place in places if place in given), None)


def _kind_of(verdict: Verdict, was_right: bool | None) -> str:
    """What became of an answer, as in `ScoreExample`."""
    if verdict.extracted is None:
        return "nothing extracted"
    new = "right" if verdict.is_right else "wrong"
    return new if was_right is None or was_right == verdict.is_right else f"to {new}"


_NOT_SCORED = (NOT_SCORED, "not scored")
# Metadata about the metric of a record, which a new metric does not share.
_ABOUT_METRIC = (
    "graded",
    "lower_is_better",
    "max_score",
    "metric_kind",
    "min_score",
    "primary_metric",
)


def _texts(record: JsonObject, field: str) -> list[str]:
    return list(values_of(record, ("input", field)))


def _change(
    record: JsonObject, rule: Rule, verdict: Verdict, error: str | None, *, replace: bool
) -> None:
    """Give a record its new verdict: as a record of another metric, or in place of the old one."""
    before = record["evaluation"]
    is_right = verdict.is_right
    metadata = record.get("metadata") or {}
    if replace:
        if before["is_correct"] != is_right or before["score"] != int(is_right):
            metadata.setdefault("original_score", spell(before["score"]).decode())
            metadata.setdefault("original_is_correct", spell(before["is_correct"]).decode())
        metadata["scored_by"] = rule.name
        record["metadata"] = metadata
    else:
        record[METRIC] = rule.name
        for name in _ABOUT_METRIC:
            metadata.pop(name, None)
    record["evaluation"] = before | {"score": int(is_right), "is_correct": is_right}
    record["answer_attribution"] = []
    if verdict.extracted is not None:
        field = "interactions" if record.get("interactions") else "messages"
        said_in = [
            turn["turn_idx"]
            for turn in record.get(field) or ()
            if turn["role"] == "assistant" and turn.get("content")
        ]
        attribution = {
            "turn_idx": said_in[-1] if said_in else 0,
            "source": "output.raw" if record.get("output") else field,
            "extracted_value": verdict.extracted,
            "extraction_method": f"fastrec score: {rule.name}",
            "is_terminal": True,
        }
        record["answer_attribution"].append(attribution)
    record.pop("error", None)
    if error is not None:
        record["error"] = error


def _merge(parts: Iterable[_Scores]) -> _Scores:
    """Add up the counts of all parts; of each kind of example, keep the first ones."""
    total = _Scores()
    for part in parts:
        total.used |= part.used
        for names, counts in part.models.items():
            total.models[names].update(counts)
        for example in part.examples:
            total.add_example(example)
    return total


def _scored_model(names: _Key, counts: Mapping[str, Any]) -> ScoredModel:
    old_scored = counts["old_scored"]
    records = counts["records"]
    return ScoredModel(
        *names,
        **counts,
        old=counts["old_right"] / old_scored if old_scored else None,
        new=counts["new_right"] / records if records else None,
    )
