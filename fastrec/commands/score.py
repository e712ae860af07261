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
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zstandard

from fastrec.answers.codes import Array
from fastrec.answers.selection import Selection, select
from fastrec.answers.transcript import decoded
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.reader import lines_of, open_corpus
from fastrec.corpus.scan import PartFile, run_in_order, with_progress
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, listed, naming, shown
from fastrec.filters import Strings, as_tuple
from fastrec.harnesses.log import NOT_SCORED
from fastrec.judge.parse import spell
from fastrec.normalize.options import make_options
from fastrec.normalize.run import run
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, NEWEST_SCHEMA
from fastrec.scoring.rules import Rule, Scorer, Verdict, read_rules, shipped_rule
from fastrec.sorting.keys import METRIC
from fastrec.storage import is_url
from fastrec.where import said

_EXAMPLES = 3  # of each kind, evaluation and rule
_SHOWN_CHARACTERS = 400  # of the end of an answer, in an example
_LEVEL = 1  # of shards that are read once
# The counts of `ScoredModel`, which add up.
_COUNTS = (
    "records", "old_scored", "old_right", "new_right", "to_right", "to_wrong", "missing", "errors",
)  # fmt: skip


class ScoredModel(msgspec.Struct, kw_only=True):
    """A model on an evaluation, by one rule."""

    evaluation_name: str
    """The evaluation."""
    rule: str
    """The name of the rule, which is the metric."""
    model_id: str
    """The model."""
    records: int = 0
    """Answers that the rule scored."""
    old_scored: int = 0
    """Those of them that had a verdict."""
    old_right: int = 0
    """Those of them that were right."""
    new_right: int = 0
    """Answers that are right by the rule."""
    to_right: int = 0
    """Answers that were wrong, and are right by the rule."""
    to_wrong: int = 0
    """Answers that were right, and are wrong by the rule."""
    missing: int = 0
    """Answers from which nothing could be extracted."""
    errors: int = 0
    """Records that stay errors: without an answer, or without a reference."""
    old: float | None = None
    """The share of right answers before, among those that had a verdict."""
    new: float | None = None
    """The share of right answers by the rule."""


class ScoreExample(msgspec.Struct, kw_only=True):
    """An answer, as it was judged before and by a rule."""

    kind: str
    """`to right`, `to wrong`, `nothing extracted`, `right` or `wrong`."""
    evaluation_name: str
    """The evaluation."""
    rule: str
    """The name of the rule."""
    model_id: str
    """The model."""
    sample_id: str | int
    """The sample_id of the question."""
    text: str
    """The end of the answer."""
    extracted: str | None
    """What the rule extracted; null if nothing."""
    references: list[str]
    """What it was compared with."""


class Scored(Tabular, kw_only=True):
    """What rules made of the answers of a corpus."""

    output: str | None
    """The new corpus; None with `dry_run`."""
    models: list[ScoredModel]
    """By evaluation, rule and model."""
    examples: list[ScoreExample]
    """The first answers of each kind."""
    notices: list[str]
    """What `normalize` said about the new corpus."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each evaluation, rule and model."""
        return [msgspec.structs.asdict(model) for model in self.models]


class Reference(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of references: the references of a question."""

    reference: str | list[str]
    sample_id: str | int | None = None
    hash: str | None = None
    evaluation: str | None = None

    def __post_init__(self) -> None:
        if (self.sample_id is None) == (self.hash is None):
            raise ValueError("it needs either `sample_id` or `hash`")


# References by evaluation, None for all of them, and by sample_id or hash.
References = dict[tuple[str | None, str], list[str]]


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
    masks = _masks(everything, chosen, replace=replace, jobs=jobs, progress=progress)
    with _scored_shards(output, work_dir) as shards:
        tasks = [
            _Task(
                part=part,
                columns=reader.columns_path(number),
                rules=chosen,
                masks=[np.packbits(mask[number]).tobytes() for mask in masks],
                references=given,
                output=None if dry_run else str(shards / f"part-{number:05d}.jsonl.zst"),
                replace=replace,
            )
            for number, part in enumerate(everything.parts)
            if replace or any(mask[number].any() for mask in masks)
        ]
        size = sum(task.part.entry.text_bytes for task in tasks)
        results = run_in_order(_score_part, tasks, text_bytes=size, jobs=jobs)
        parts = [task.part for task in tasks]
        models, examples = _merge(with_progress(results, parts, progress, "score"))
        notices = []
        if output is not None:
            schema = CORPUS_LABELS[reader.manifest.schema] if replace else NEWEST_SCHEMA
            options = make_options(
                schema=schema.name, overwrite=overwrite, jobs=jobs, work_dir=work_dir, max_rejects=0
            )
            inputs = [str(shards)] if replace else [reader.path, str(shards)]
            notices = run(inputs, output, options, progress=progress).notices
    return Scored(
        output=None if output is None else os.fspath(output),
        models=models,
        examples=examples,
        notices=notices,
    )


@contextmanager
def _scored_shards(output: AnyPath | None, work_dir: str | None) -> Iterator[Path]:
    """A directory for scored records, which is removed afterwards.

    It is beside a local output, or in the work directory. The manifest names it, so it has the same
    name every time.
    """
    target = Path(os.fspath(output or "dry-run"))
    parent = target.parent if work_dir is None else Path(work_dir)
    if output is None or is_url(os.fspath(output)):
        parent = Path(work_dir or tempfile.gettempdir())
    shards = parent / f".{target.name}.fastrec-scored"
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
    decode = msgspec.json.Decoder(Reference).decode
    references: References = {}
    try:
        lines = Path(name).read_bytes().split(b"\n")
    except OSError as exc:
        raise UsageError(f"{shown(name)} cannot be read: {exc.strerror}") from exc
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            given = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
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


def _base_metrics(selection: Selection) -> set[tuple[str, str | None, str]]:
    """Of each evaluation and model, the metric with most records: evaluation, metric, model."""
    best: dict[tuple[str, str], tuple[int, str | None]] = {}
    for scope in selection.summary.evaluations:
        for model in scope.by_model:
            key = (scope.evaluation_name, model.model_id)
            known = best.get(key)
            if known is None or model.records > known[0]:
                best[key] = (model.records, scope.metric)
    return {(evaluation, metric, model) for (evaluation, model), (_, metric) in best.items()}


def _has_base(selection: Selection, part: int, bases: set[tuple[str, str | None, str]]) -> Array:
    """Whether the metric of each record of a part is the one that its answer is scored by."""
    columns = selection.columns(part)
    models = columns.values("model")
    scopes = selection.scope_codes(part).astype(np.int64)
    joint = scopes * len(models) + columns.numbers("model")
    distinct, places = np.unique(joint, return_inverse=True)
    is_base = []
    for number in distinct.tolist():
        scope, model = divmod(number, len(models))
        is_base.append(scope >= 0 and (*selection.scopes[scope], models[model]) in bases)
    return np.array(is_base, dtype=np.bool_)[places]


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    part: PartFile
    columns: str  # path
    rules: list[Rule]
    masks: list[bytes]  # of each rule: which records it scores, as bits
    references: References
    output: str | None  # path of the shard
    replace: bool

    def __str__(self) -> str:
        return f"scoring {shown(self.part.path)}"


_Result = tuple[list[ScoredModel], list[ScoreExample]]


def _score_part(task: _Task) -> _Result:
    """Score the records of a part, and write the new ones."""
    part = _Part(task)
    if task.output is None:
        for _ in part.lines():
            pass
    else:
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        with Path(task.output).open("wb") as file, compressor.stream_writer(file) as shard:
            for line in part.lines():
                shard.write(line + b"\n")
    return list(part.models.values()), part.examples


class _Part:
    """Scores the records of a part, and counts."""

    def __init__(self, task: _Task) -> None:
        self.models: dict[tuple[str, str, str], ScoredModel] = {}
        self.examples: list[ScoreExample] = []
        self._kinds: dict[tuple[str, str, str], int] = {}
        self._task = task
        self._scorers = [Scorer(rule) for rule in task.rules]

    def lines(self) -> Iterator[bytes]:
        """The lines to write: new records, or all of them if verdicts are replaced."""
        task = self._task
        records = task.part.entry.records
        masks = [
            np.unpackbits(np.frombuffer(mask, np.uint8), count=records).astype(np.bool_)
            for mask in task.masks
        ]
        chosen = np.logical_or.reduce(masks)
        positions = (np.arange(records) if task.replace else np.flatnonzero(chosen)).tolist()
        lines = lines_of(
            task.part, PartColumns(task.columns, task.part.entry.text_xxh3_128), positions
        )
        with closing(lines):
            for position, line in zip(positions, lines, strict=True):
                if not chosen[position]:
                    yield line
                    continue
                for scorer, mask in zip(self._scorers, masks, strict=True):
                    if mask[position]:
                        yield self._scored(scorer, line)

    def _scored(self, scorer: Scorer, line: bytes) -> bytes:
        record = decoded(line)
        rule = scorer.rule
        evaluation = record["evaluation_name"]
        model = record["model_id"]
        key = (evaluation, rule.name, model)
        counts = self.models.get(key)
        if counts is None:
            counts = ScoredModel(evaluation_name=evaluation, rule=rule.name, model_id=model)
            self.models[key] = counts
        asked = record["input"]
        references = self._references_of(record) or _texts(asked["reference"])
        text = _answer_of(record)
        before = record["evaluation"]
        error = record.get("error")
        if error is not None and error.startswith(_NOT_SCORED):
            error = None
            had_verdict = False
        else:
            had_verdict = error is None
        if error is None and not references:
            error = "not scored: there is no reference"
        verdict = None
        if error is None:
            verdict = scorer.score(text, references, _texts(asked.get("choices")))
            if verdict.extracted is None and rule.missing == "error":
                error = "not scored: nothing could be extracted"
        was_right = before["is_correct"] if had_verdict else None
        self._count(counts, verdict, error, was_right)
        if verdict is not None:
            kind = _kind_of(verdict, was_right)
            example = ScoreExample(
                kind=kind,
                evaluation_name=evaluation,
                rule=rule.name,
                model_id=model,
                sample_id=record["sample_id"],
                text=text[-_SHOWN_CHARACTERS:],
                extracted=verdict.extracted,
                references=references,
            )
            self._keep_example(kind, example)
        _change(record, rule, verdict, error, replace=self._task.replace)
        return spell(record)

    def _references_of(self, record: dict[str, Any]) -> list[str] | None:
        given = self._task.references
        if not given:
            return None
        for evaluation in (record["evaluation_name"], None):
            for name in (str(record["sample_id"]), record["sample_hash"]):
                if (evaluation, name) in given:
                    return given[evaluation, name]
        return None

    def _count(
        self,
        counts: ScoredModel,
        verdict: Verdict | None,
        error: str | None,
        was_right: bool | None,
    ) -> None:
        if verdict is not None:
            counts.missing += verdict.extracted is None
        if error is not None or verdict is None:
            counts.errors += 1
            return
        counts.records += 1
        counts.new_right += verdict.is_right
        if was_right is not None:
            counts.old_scored += 1
            counts.old_right += was_right
            counts.to_right += verdict.is_right and not was_right
            counts.to_wrong += was_right and not verdict.is_right

    def _keep_example(self, kind: str, example: ScoreExample) -> None:
        key = (example.evaluation_name, example.rule, kind)
        self._kinds[key] = self._kinds.get(key, 0) + 1
        if self._kinds[key] <= _EXAMPLES:
            self.examples.append(example)


def _kind_of(verdict: Verdict, was_right: bool | None) -> str:
    """What became of an answer, as in `ScoreExample`."""
    if verdict.extracted is None:
        return "nothing extracted"
    new = "right" if verdict.is_right else "wrong"
    return new if was_right is None or was_right == verdict.is_right else f"to {new}"


_NOT_SCORED = (NOT_SCORED, "not scored")


def _texts(value: Any) -> list[str]:
    """A text, or a list of texts, as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _answer_of(record: dict[str, Any]) -> str:
    """The last text that the model said; empty if it said nothing."""
    texts = [text for text in said(record) if text]
    return texts[-1] if texts else ""


def _change(
    record: dict[str, Any],
    rule: Rule,
    verdict: Verdict | None,
    error: str | None,
    *,
    replace: bool,
) -> None:
    """Give a record its new verdict: as a record of another metric, or in place of the old one."""
    before = record["evaluation"]
    is_right = verdict is not None and verdict.is_right
    if replace:
        metadata = record.get("metadata") or {}
        if before["is_correct"] != is_right or before["score"] != int(is_right):
            metadata.setdefault("original_score", spell(before["score"]).decode())
            metadata.setdefault("original_is_correct", spell(before["is_correct"]).decode())
        metadata["scored_by"] = rule.name
        record["metadata"] = metadata
    else:
        record[METRIC] = rule.name
        if record.get("metadata"):
            record["metadata"].pop("graded", None)
    record["evaluation"] = before | {"score": int(is_right), "is_correct": is_right}
    if verdict is not None and verdict.extracted is not None:
        record["answer_attribution"] = [
            {
                "turn_idx": 0,
                "source": "output.raw" if record.get("output") else "messages",
                "extracted_value": verdict.extracted,
                "extraction_method": f"fastrec score: {rule.name}",
                "is_terminal": True,
            }
        ]
    else:
        record["answer_attribution"] = []
    if error is None:
        record.pop("error", None)
    else:
        record["error"] = error


def _merge(results: Iterator[_Result]) -> _Result:
    """Add up the counts of all parts; of each kind of example, keep the first ones."""
    totals: dict[tuple[str, str, str], ScoredModel] = {}
    examples: list[ScoreExample] = []
    kinds: dict[tuple[str, str, str], int] = {}
    for models, some_examples in results:
        for model in models:
            total = totals.setdefault((model.evaluation_name, model.rule, model.model_id), model)
            if total is not model:
                for name in _COUNTS:
                    setattr(total, name, getattr(total, name) + getattr(model, name))
        for example in some_examples:
            key = (example.evaluation_name, example.rule, example.kind)
            kinds[key] = kinds.get(key, 0) + 1
            if kinds[key] <= _EXAMPLES:
                examples.append(example)
    for total in totals.values():
        total.old = total.old_right / total.old_scored if total.old_scored else None
        total.new = total.new_right / total.records if total.records else None
    return [totals[key] for key in sorted(totals)], examples
