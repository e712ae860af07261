"""What people correct: names, verdicts (labels), and rejected lines (fixes).

`--map` is a TOML file with other names:

    [models]
    "OpenAI/gsm8k-6B" = "openai/gsm8k-6b"     a name
    "org_*" = "org/*"                         a pattern: each * stands for what the old one matched

`{variant}` in an old name stands for what follows the `:` in the metric of the record: `strict` in
`exact_match:strict`. `maps/` has maps that come with fastrec, and are given by their name.

Names are changed behind the judge, so verdicts, filters and examples in the summary are about the
names of the input. Of several rules for a name, an exact one decides, else the first one that
matches.

A label is a line of JSON. It names an answer as the corpus does (after `--map`), the new verdict,
and who decided why:

    {"evaluation": "sums", "model": "org/a", "question": "5f1c09", "is_correct": true, "reason":
    "same number"}

A line without a verdict, as `corrected --propose` writes it, waits for somebody to fill it in.

A fix replaces a rejected line. It is a line of the file that `rejects --extract` wrote, corrected
in its place. The file beside it says which line of which shard each one was, and the digest of its
bytes.

Workers read labels and fixes themselves. A task gets their path and digest, because a file may be
large.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
from msgspec import MsgspecError, Struct
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from fastrec.errors import DamagedFileError, UsageError, counted, listed, shown
from fastrec.judge.arbiter import normal_form
from fastrec.judge.batch import Batch
from fastrec.judge.judge import Judge
from fastrec.judge.parse import parse, spell
from fastrec.parameters import Names
from fastrec.schemas.schema import JsonObject, Schema, Shape, without_nulls
from fastrec.schemas.view import json_decoder
from fastrec.sorting.keys import METRIC
from fastrec.summary.document import FixCounts, LabelCounts
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.toml_file import read_toml

PLACES = ".places.jsonl"  # what the file beside extracted lines adds to their name

_SHORTEST_HASH = 6  # of a question in a label
_FIELDS = {"models": "model_id", "evaluations": "evaluation_name", "metrics": METRIC}
_MOST_NAMES = 100_000  # that are remembered
_MAPS = ("eee",)  # that come with fastrec
_VARIANT = re.escape("{variant}")


class GivenFile(Struct, frozen=True):
    """A file, or two, that influence the corpus.

    The manifest records only a digest of their texts.
    """

    sha256: str
    paths: Names = ()

    @classmethod
    def at(cls, *paths: str) -> GivenFile:
        return cls(_digest_of(_read(paths)), paths)

    def __str__(self) -> str:
        return shown(self.paths[0])

    @property
    def texts(self) -> list[bytes]:
        texts = _read(self.paths)
        if _digest_of(texts) != self.sha256:
            raise DamagedFileError(self.paths[0], "it has changed during the run")
        return texts


def _read(paths: Names) -> list[bytes]:
    texts = []
    for path in paths:
        try:
            texts.append(Path(path).read_bytes())
        except OSError as exc:
            hint = (
                "; `fastrec rejects --extract` writes it beside the lines"
                if path.endswith(PLACES)
                else ""
            )
            raise UsageError(f"{shown(path)} cannot be read: {exc.strerror}{hint}") from exc
    return texts


def _digest_of(texts: list[bytes]) -> str:
    # The second one, of places, is JSON text: it has no NUL.
    return sha256(b"\0".join(texts)).hexdigest()


def edit_records(
    batch: Batch, normal: bytearray, editors: Sequence[Renamer | Labeller], shape: Shape
) -> bytearray:
    """Edit the records of a chunk; return their normal forms.

    Most records are copied without being parsed: no editor tells what may change in them.
    """
    edited = bytearray()
    ends = []
    start = 0
    with memoryview(normal) as view:
        for record, end in zip(batch.records, batch.ends, strict=True):
            value: Any = None
            changed = False
            for editor in editors:
                change: Any = editor.change_of(record)
                if change:
                    value = parse(bytes(view[start:end]))[0] if value is None else value
                    changed |= editor.apply(change, record, value)
            edited += spell(normal_form(value, shape, {})) + b"\n" if changed else view[start:end]
            ends.append(len(edited))
            start = end
    batch.ends = ends
    return edited


class NameRule(NamedTuple):
    section: str  # models, evaluations or metrics
    old: str
    new: str

    def __str__(self) -> str:
        return f'{self.section}: "{self.old}"'


def read_names(path: str) -> tuple[NameRule, ...]:
    """Read the rules of a file, or of a map by its name.

    UsageError if it cannot be read or understood.
    """
    if path in _MAPS:
        path = str(Path(__file__).with_name("maps") / f"{path}.toml")
    rules = []
    for section, names in read_toml(path, "the names").items():
        if section not in _FIELDS or not isinstance(names, dict):
            known = ", ".join(f"[{name}]" for name in _FIELDS)
            raise UsageError(f"the map {shown(path)} has {section}: expected {known}")
        for old, new in names.items():
            if not isinstance(new, str) or new.count("*") > old.count("*"):
                problem = (
                    "no more * than in the old name" if isinstance(new, str) else "a name in quotes"
                )
                raise UsageError(
                    f"the map {shown(path)}, [{section}] {old!r}: expected {problem}, found {new!r}"
                )
            rules.append(NameRule(section, old, new))
    return tuple(rules)


class Renamer:
    """Changes the names of judged records, and counts the lines by rule."""

    counts: Counter[str]  # of the piece that is read

    def __init__(self, rules: Sequence[NameRule], target: Schema, *, keep_names: bool) -> None:
        self._keep_names = keep_names
        self._exact = {(_FIELDS[rule.section], rule.old): rule for rule in rules}
        self._patterns = [
            (_FIELDS[rule.section], "(.*)".join(map(re.escape, rule.old.split("*"))), rule)
            for rule in rules
            if re.search("[*{]", rule.old)
        ]
        self._fields = [field for field in _FIELDS.values() if field in target.sort_fields]
        self._known: dict[Names, list[tuple[str, str, NameRule]]] = {}

    def change_of(self, record: Any) -> list[tuple[str, str, NameRule]]:
        """The fields whose names change, each with its new name and the rule."""
        names = tuple(getattr(record, field) for field in self._fields)
        changes = self._known.get(names)
        if changes is None:
            named = dict(zip(self._fields, names, strict=True))
            variant = str(named.get(METRIC, "")).partition(":")[2]
            renamed = (
                (field, self._new_name(field, name, variant)) for field, name in named.items()
            )
            changes = [(field, *new) for field, new in renamed if new]
            if len(self._known) < _MOST_NAMES:
                self._known[names] = changes
        return changes

    def apply(
        self, changes: list[tuple[str, str, NameRule]], record: Any, value: JsonObject
    ) -> bool:
        for field, new, rule in changes:
            if self._keep_names and value[field] != new:
                value.setdefault("metadata", {}).setdefault(f"original_{field}", value[field])
            value[field] = new
            setattr(record, field, new)
            self.counts[str(rule)] += 1
        return True

    def _new_name(self, field: str, name: Any, variant: str) -> tuple[str, NameRule] | None:
        if rule := self._exact.get((field, name)):
            return rule.new, rule
        patterns = self._patterns if isinstance(name, str) else ()  # a metric may be absent
        for of, text, rule in patterns:
            pattern = text.replace(_VARIANT, re.escape(variant) or "(?!)")  # which matches nothing
            if of == field and (match := re.fullmatch(pattern, name, re.DOTALL)):
                groups = iter(match.groups())
                return re.sub(r"\*", lambda _: next(groups), rule.new), rule  # noqa: B023 - used at once
        return None


def unused_rules(rules: Sequence[NameRule], counts: Counter[str]) -> list[str]:
    """A notice about the rules that matched no record; none if all did, or if they are ours."""
    maps = _MAPS if rules else ()
    known = {rule for name in maps for rule in read_names(name)}
    unused = [str(rule) for rule in rules if rule not in known and not counts[str(rule)]]
    return [f"--map: no record has these names: {', '.join(unused)}"] if unused else []


class Label(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A corrected verdict, in a line of the file of `--labels`."""

    evaluation: str  # The `evaluation_name`.
    model: str  # The `model_id`.
    # The `sample_hash`, or its first characters; this or `sample_id` is needed.
    question: str | None = None
    sample_id: int | str | None = None  # The `sample_id`.
    # The `evaluation_result_id`, if the answer has records of several metrics.
    metric: str | None = None
    # What tells the record from others of the answer's model and question: `evaluation_id`,
    # `epoch`, `trial`, …
    trial: dict[str, str] = {}
    # The new verdict; without it and without `score`, the line is skipped.
    is_correct: bool | None = None
    score: float | None = None  # The new score.
    by: str | None = None  # Who decided.
    at: str | None = None  # When.
    reason: str | None = None  # Why.
    text: JsonObject = {}  # What a person who labels needs to see; ignored.

    def __post_init__(self) -> None:
        if self.question is None and self.sample_id is None:
            raise ValueError("it names neither a `question` nor a `sample_id`")
        if self.question is not None and len(self.question) < _SHORTEST_HASH:
            raise ValueError(f"`question` has fewer than {_SHORTEST_HASH} characters")

    @property
    def is_filled(self) -> bool:
        return self.is_correct is not None or self.score is not None

    @property
    def answer(self) -> tuple[Any, ...]:
        """What it is about. Of several labels for the same, the last one of a file wins."""
        trial = tuple(sorted(self.trial.items()))
        return self.evaluation, self.model, self.question, self.sample_id, self.metric, trial


_decode_label = json_decoder(Label)


@lru_cache(maxsize=4)
def read_labels(file: GivenFile) -> dict[int, Label]:
    """The labels of a file by the number of their line; UsageError if a line is not a label.

    Those without a verdict are among them.
    """
    labels = {}
    for number, line in enumerate(file.texts[0].split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            labels[number] = _decode_label(line)
        except (MsgspecError, ValueError, RecursionError) as exc:
            keys = ", ".join(Label.__struct_fields__)
            message = f"{file}, line {number:,} is not a label: {exc}; labels have the keys {keys}"
            raise UsageError(message) from exc
    return labels


class Labeller:
    """Changes the verdicts of records, and counts the records of each label."""

    # Lines by the number of a label, whether it changed the record, and the record's digest.
    counts: Counter[Any]

    def __init__(self, file: GivenFile) -> None:
        labels = read_labels(file)
        last = {label.answer: number for number, label in labels.items() if label.is_filled}
        self.labels = {number: labels[number] for number in last.values()}
        self._by_name = defaultdict[tuple[str, str, str], list[int]](list)
        for number, label in self.labels.items():
            question = f"id {label.sample_id}" if label.question is None else label.question
            self._by_name[label.evaluation, label.model, question].append(number)
        self._lengths = sorted(
            {len(label.question) for label in self.labels.values() if label.question}
        )

    def change_of(self, record: Any) -> list[int] | None:
        """The labels for a question that may be about this record; None without any."""
        names = (record.evaluation_name, record.model_id)
        hashed = record.sample_hash
        get = self._by_name.get
        numbers = list(get((*names, f"id {record.sample_id}"), ()))
        for length in self._lengths:
            numbers += get((*names, hashed[:length]), ())
        return numbers or None

    def _about(self, numbers: list[int], value: JsonObject) -> list[int]:
        return sorted(number for number in numbers if is_about(self.labels[number], value))

    def label_of(self, value: JsonObject) -> Label | None:
        """The label that decides about a record; None without any."""
        about = self._about(self.change_of(SimpleNamespace(**value)) or [], value)
        return self.labels[about[-1]] if about else None

    def apply(self, numbers: list[int], record: Any, value: JsonObject) -> bool:
        """Give a record the verdict of the last label that is about it.

        Return whether it changed.
        """
        about = self._about(numbers, value)
        before = value["evaluation"]
        if not about:
            return False
        label = self.labels[about[-1]]
        verdict = new_verdict(label, before)
        changed = [name for name, new in verdict.items() if new != before[name]]
        if changed:
            metadata = value["metadata"] = value.get("metadata") or {}
            for name in changed:
                metadata.setdefault(f"original_{name}", spell(before[name]).decode())
            notes = {"label_by": label.by, "label_at": label.at, "label_reason": label.reason}
            metadata.update(without_nulls(notes))
            before.update(verdict)
            record.evaluation.score = before["score"]
            record.evaluation.is_correct = before["is_correct"]
        digest = xxh3_64_hexdigest(spell(value))
        for number in about:
            self.counts[number, bool(changed) and number == about[-1], digest] += 1
        return bool(changed)


def is_about(label: Label, value: JsonObject) -> bool:
    metadata = value.get("metadata") or {}
    known = {name: metadata.get(name, value.get(name)) for name in TRIAL_FIELDS}
    known |= {"evaluation_id": value["evaluation_id"], "sample_id": value["sample_id"]}
    return (
        (label.sample_id is None or str(label.sample_id) == str(value["sample_id"]))
        and (label.metric is None or label.metric == value.get(METRIC))
        and all(str(known.get(name)) == text for name, text in label.trial.items())
    )


def new_verdict(label: Label, before: JsonObject) -> JsonObject:
    """The new values.

    Where the score was 1 for right and 0 for wrong, each of the two follows the other.
    """
    new = {"score": label.score, "is_correct": label.is_correct}
    if before["score"] == before["is_correct"]:
        if label.score is None:
            new["score"] = type(before["score"])(bool(label.is_correct))
        elif label.is_correct is None and label.score in (0, 1):
            new["is_correct"] = bool(label.score)
    return without_nulls(new)


def count_unfilled(file: GivenFile) -> int:
    """How many lines have no verdict yet."""
    return sum(not label.is_filled for label in read_labels(file).values())


def label_counts(file: GivenFile, counts: Counter[Any]) -> tuple[LabelCounts, list[str]]:
    """What became of all labels, and notices about those that match no record or several."""
    last = Labeller(file).labels.keys()
    unfilled = count_unfilled(file)
    filled = len(read_labels(file)) - unfilled
    records = defaultdict(set)
    for number, _, record in counts:
        records[number].add(record)
    changed = {record for _, is_changed, record in counts if is_changed}
    unmatched = sorted(last - records.keys())
    several = sorted(number for number, places in records.items() if len(places) > 1)
    notices = [
        f"{file}: {counted(numbers, 'label')} {what}: line {listed(map(str, numbers))}"
        for numbers, what in (
            (unmatched, "without a record"),
            (several, "with several records, all changed"),
        )
        if numbers
    ]
    if unfilled:
        notices.append(f"{file}: {counted(unfilled, 'line')} without a verdict, not filled in yet")
    total = LabelCounts(
        labels=filled,
        superseded=filled - len(last),
        changed=len(changed),
        confirmed=len(set().union(*records.values()) - changed),
        unmatched=len(unmatched),
        ambiguous=len(several),
    )
    return total, notices


class Place(Struct, frozen=True):
    """Where an extracted line was, in a line of the file beside it."""

    source: str
    line: int
    offset: int | None
    sha256: str


_Fix = tuple[int, bytes]  # the number of the line in the file of fixes, and the line
# By offset and digest of the rejected line. Without an offset, options left out a valid record.
_Fixes = dict[tuple[int | None, str], _Fix]


@lru_cache(maxsize=4)
def read_fixes(file: GivenFile) -> dict[str, _Fixes]:
    """The lines that were corrected, by shard, then by offset and digest of the original line."""
    text, beside = file.texts
    lines = text.removesuffix(b"\n").split(b"\n")
    places = beside.splitlines()
    if len(lines) != len(places):
        raise UsageError(
            f"{file} has {counted(lines, 'line')}, {file}{PLACES} {len(places):,}: "
            "keep each line in its place, also those that are not corrected"
        )
    fixes = defaultdict[str, _Fixes](dict)
    for number, (line, described) in enumerate(zip(lines, places, strict=True), start=1):
        try:
            place = msgspec.json.decode(described, type=Place)
        except MsgspecError as exc:
            raise UsageError(f"{file}{PLACES}, line {number:,} is damaged: {exc}") from exc
        # Some editors end lines with a carriage return.
        digests = {sha256(text).hexdigest() for text in (line, line.removesuffix(b"\r"))}
        if line.strip() and place.sha256 not in digests:
            fixes[place.source][place.offset, place.sha256] = number, line
    return dict(fixes)


def fix_lines(
    batch: Batch,
    normal: bytearray,
    judge: Judge,
    fixes: _Fixes,
    counts: Counter[str],
) -> None:
    """Judge the corrected versions of rejected lines, and add the valid ones to the records.

    The others stay rejected, with the errors of the corrected version.
    """
    rejected = batch.rejected
    batch.rejected = []
    for line in rejected:
        fix = None
        if line.offset is not None and not line.truncated:
            fix = fixes.get((line.offset, sha256(line.raw).hexdigest()))
        if fix is None:
            batch.rejected.append(line)
            continue
        number, text = fix
        judged = judge.judge_chunk(text + b"\n", normal, line=line.line, offset=line.offset or 0)
        judged.lines = 0
        for corrected in judged.rejected:  # at most one
            first, *others = corrected.findings
            told = replace(first, message=f"in line {number} of the fixes: {first.message}")
            judged.rejected = [replace(corrected, findings=(told, *others), raw=line.raw)]
        counts["rejected" if judged.rejected else "fixed"] += 1
        batch += judged


def fix_counts(file: GivenFile, counts: Counter[str]) -> tuple[FixCounts, list[str]]:
    """What became of all fixes, and a notice about those that match no rejected line."""
    given = sum(map(len, read_fixes(file).values()))
    unmatched = given - counts.total()
    notices = []
    if unmatched:
        lines = counted(unmatched, "corrected line")
        notices.append(f"{file}: {lines} for which no shard has a rejected line at the same place")
    return FixCounts(
        given=given, fixed=counts["fixed"], rejected=counts["rejected"], unmatched=unmatched
    ), notices
