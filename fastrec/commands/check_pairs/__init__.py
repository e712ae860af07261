"""`check-pairs`: check aggregates against the rows of their samples files, and the names of both.

1. Find the pairs (`files`): files of the same name in one folder.
2. Cut them into pieces and run tasks (`rows`): each reads aggregates and judges rows, and returns
   counts and findings.
3. The driver adds up the pieces of a pair in order, and checks what depends on all rows: their
   number and their means, and the names of files that turned out to be part of a pair.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, groupby
from math import isfinite, sqrt
from time import perf_counter
from typing import Any

from fastrec.commands.check_pairs.files import WHERE, Pair, find_pairs, name_findings
from fastrec.commands.check_pairs.rows import (
    CheckedPiece,
    CheckTask,
    Rows,
    Tally,
    check_task,
    pieces_of,
)
from fastrec.corpus.scan import run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, counted, utf8
from fastrec.json_documents import CountsByName
from fastrec.judge.aggregate import Aggregate, Metric, Result, expected
from fastrec.judge.findings import (
    PAIR_WARNINGS,
    Finding,
    FindingGroup,
    FindingGroups,
)
from fastrec.limits import current_limits
from fastrec.notebook import Framed, flat
from fastrec.parameters import CORES, Paths, path_names
from fastrec.progress import Progress
from fastrec.sources.shard import gather_tasks, total_text
from fastrec.storage import is_private


class PairCheck(Framed):
    """The result of checking aggregates and their samples files."""

    #: Number of aggregates.
    aggregates: int = 0
    #: Samples files.
    samples: int = 0
    #: Aggregates that were compared with a samples file.
    pairs: int = 0
    #: Rows in samples files, without blank lines.
    rows: int = 0
    #: Rows that are not valid records.
    invalid: int = 0
    #: Results of the aggregates of these pairs.
    results: int = 0
    #: Results whose score is the mean of the rows, within rounding.
    reproduced: int = 0
    #: Other results that were compared.
    different: int = 0
    #: By the reason: `no rows`, `not a mean`, `invalid rows` or `too large`.
    not_compared: CountsByName = {}
    #: Pairs whose aggregate states no checksum: damage to the samples file is not noticed.
    without_checksum: int = 0
    #: Pairs whose aggregate states no number of rows.
    without_total_rows: int = 0
    #: JSON and JSONL files that are neither aggregates nor samples files.
    ignored: int = 0
    #: Size of the decompressed text.
    text_bytes: int = 0
    #: How long it took.
    seconds: float = 0.0
    #: Number of findings by code.
    codes: CountsByName = {}
    #: Findings that are errors.
    errors: int = 0
    #: Findings that are warnings.
    warnings: int = 0
    #: By code and path: at most 1,000, errors first, then the most frequent.
    groups: list[FindingGroup] = []
    #: Files that could not be read completely, and why.
    bad_files: list[str] = []

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each group of findings. `rows` is a number."""
        return list(map(flat, self.groups))

    @property
    def ok(self) -> bool:
        return not self.codes and not self.bad_files


# Which rows count is not standardized. So the mean agrees with the score if it does for one way of
# counting: rows with an error count by their score, as 0, or not at all; for a metric like
# accuracy, `is_correct` counts in place of the score. A score out of 100 is also compared with 100
# times the mean, if the aggregate says that it is one.
#
# They agree if they differ by no more than rounding: half a unit of the last decimal that the
# aggregate states, and at least the precision of 32-bit floats, with which some harnesses compute.
# A whole number that is no percentage has no decimals to round to: 1.0 means 1, not 0.96. A score
# out of 1 has at least two decimals, since nobody rounds 0.54 to 0.5: it is 0.50, and JSON has no
# last zeros.
#
# Some metrics are no means over samples: BLEU, perplexity, a correlation, a standard error. Where
# such a metric differs, nothing is wrong. Its score is not compared.

_WORDS = re.compile(r"[a-z]+[0-9]*")
_LETTERS = re.compile(r"[a-z]+")
# Metrics over several answers to a question, such as pass@5.
_OF_SEVERAL = re.compile(
    r"(?:pass|maj|cons|best|match|hits?)[@^_ -]*(?:at|of)?[@^_ "
    r"-]*(?:k|[2-9]|[1-9][0-9]+)(?![a-z0-9])"
)

# Words in names of metrics that are computed over all samples at once, or that describe the spread
# of scores.
_NOT_MEANS = frozenset(
    _WORDS.findall(
        "auc auroc auprc bits bleu bootstrap bpb calibration cer chrf ci compression corpus "
        "correlation count "
        "dispersion ece elo f1 fbeta gmean geometric harmonic kappa kendall lc macro matthews max "
        "maximum mcc median "
        "micro min minimum overlap pearson percentile perplexity ppl precision quantile r2 rank "
        "rating recall rmse roc "
        "rouge rougel rougelsum sacrebleu spearman std stddev stdev stderr sum ter total var "
        "variance weighted wer"
    )
)
_LIKE_ACCURACY = frozenset(
    _WORDS.findall(
        "acc accuracy correct correctness em equiv exact match pass resolved solved success"
    )
)


def compare_score(
    result: Result, number: int, answered: Tally, failed: Tally
) -> Finding | str | None:
    """Return a finding if the rows do not reproduce a score, or why they are not compared."""
    rows = answered.rows + failed.rows
    if not rows:
        return "no rows"
    score = float(result.score)
    means = [total / size for size, total, _ in _sums(answered, failed, result.metric)]
    if not all(map(isfinite, [score, *means])):
        return "too large"
    tolerance = _tolerance(result.score, result.metric)
    # The factors by which a mean is the score.
    factors = [
        factor
        for factor in (1, 100)
        if any(abs(mean * factor - score) <= tolerance for mean in means)
    ]
    if set(factors).intersection(_factors(result.metric)):
        return None
    if _may_be_no_mean(result):
        return "not a mean"
    actual = result.score
    if factors:
        actual += "; it is 100 times the mean, but max_score is not 100"
    what = f"the mean of {counted(rows, 'row')}, {means[0]:.6g}"
    return expected("pair.score", what, actual, f"{_details_path(number)}.score")


def _details_path(number: int) -> str:
    return f"$.evaluation_results[{number}].score_details"


def _size_finding(result: Result, number: int, answered: Tally, failed: Tally) -> Finding | None:
    """Compare `num_samples` with the rows, with or without errors.

    Samples with several repeats have several rows.
    """
    stated = result.num_samples
    total = answered.rows + failed.rows
    if stated is None or not total:
        return None
    if stated > 0 and any(rows and rows % stated == 0 for rows in (answered.rows, total)):
        return None
    path = f"{_details_path(number)}.uncertainty.num_samples"
    return expected("pair.num_samples", f"{total:,}, the number of rows", f"{stated:,}", path)


def _standard_error_finding(
    result: Result, number: int, answered: Tally, failed: Tally
) -> Finding | None:
    """Compare a standard error with that of the mean of the rows: divided by n, or by n - 1.

    It is not compared if samples have several rows, because then it may be one of the means of
    samples.
    """
    stated = result.standard_error
    rows = (answered.rows, answered.rows + failed.rows)
    if stated is None or _may_be_no_mean(result) or result.num_samples not in (None, *rows):
        return None
    tolerance = _tolerance(repr(stated), result.metric)
    errors = []
    for size, total, squares in _sums(answered, failed, result.metric):
        mean = total / size
        mean_square = squares / size
        variance = mean_square - mean * mean
        rounding = 1e-10 * mean_square  # of sums of a million doubles
        for divisor in (size - 1, size) if size > 1 else ():
            least = sqrt(max(variance - rounding, 0) / divisor)
            most = sqrt(max(variance + rounding, 0) / divisor)
            errors.append((least + most) / 2)
            for factor in _factors(result.metric):
                if factor * least - tolerance <= stated <= factor * most + tolerance:
                    return None
    if not errors or not all(map(isfinite, errors)):
        return None
    path = f"{_details_path(number)}.uncertainty.standard_error.value"
    what = f"the standard error of the mean of the rows, {errors[0]:.6g}"
    return expected("pair.standard_error", what, str(stated), path)


def _sums(answered: Tally, failed: Tally, metric: Metric) -> Iterator[tuple[int, float, float]]:
    """Yield count, sum and sum of squares by each way of counting, the usual one first."""
    names = metric.metric_id, metric.metric_name, metric.metric_kind, metric.evaluation_description
    is_accuracy = metric.score_type == "binary" or not _LIKE_ACCURACY.isdisjoint(_words_of(names))
    rows = answered.rows + failed.rows
    for _ in range(1 + is_accuracy):
        if answered.rows:
            yield answered.rows, answered.score, answered.squares
        if failed.rows:
            yield rows, answered.score + failed.score, answered.squares + failed.squares
            yield rows, answered.score, answered.squares
        answered, failed = answered.by_verdict(), failed.by_verdict()


def _tolerance(written: str, metric: Metric) -> float:
    """Return by how much the mean may differ from a score, by the decimals that are written."""
    value = Decimal(written)
    least = max(2.0**-23 * abs(float(value)), 1e-9)
    is_percentage = _is_percentage(metric)
    if value == value.to_integral_value() and not is_percentage:
        return least
    exponent = value.as_tuple().exponent
    decimals = max(-exponent, 0) if isinstance(exponent, int) else 0
    is_out_of_more = isinstance(metric.max_score, float | int) and metric.max_score > 1
    if abs(value) < 1 and not is_percentage and not is_out_of_more:
        decimals = max(decimals, 2)
    # A little more, because 0.125 is rounded to 0.12 or 0.13, and both differ by more than half a
    # unit as doubles.
    return max(least, 0.5 * 10.0**-decimals * (1 + 1e-9) + 1e-12)


def _is_percentage(metric: Metric) -> bool:
    unit = (metric.metric_unit or "").lower()
    return metric.max_score == 100 or unit.startswith("percent") or unit == "%"


def _factors(metric: Metric) -> tuple[int, ...]:
    return (1, 100) if _is_percentage(metric) else (1,)


def _may_be_no_mean(result: Result) -> bool:
    """Return whether the name of a metric says that it may be no mean over samples."""
    metric = result.metric
    names = [metric.metric_id, metric.metric_name, metric.metric_kind]
    if not any(names):
        names = [result.id, metric.evaluation_description or result.name]
    return not _NOT_MEANS.isdisjoint(_words_of(names)) or any(
        _OF_SEVERAL.search(name.lower()) for name in names if name
    )


def _words_of(names: Iterable[str | None]) -> set[str]:
    """Return the words in some names, with and without the digits after them.

    >>> sorted(_words_of(["ROUGE1", None, "exact_match"]))
    ['exact', 'match', 'rouge', 'rouge1']
    """
    text = " ".join(filter(None, names)).lower()
    return {*_WORDS.findall(text), *_LETTERS.findall(text)}


def check_pairs(
    directories: Paths,
    *,
    jobs: int = CORES,
    progress: Progress | None = None,
) -> PairCheck:
    """Check aggregates and their samples files.

    Args:
        directories: Any directories of a datastore, or of a copy of a part of one.
        jobs: Processes to use; small trees are checked in this process.
        progress: Receives the progress.

    Raises:
        UsageError: A directory does not exist or has nothing to check, or another argument is
            wrong.
    """
    started = perf_counter()
    check_jobs(jobs)
    names = path_names(directories)
    if not names:
        raise UsageError("no input: name one or more directories")
    if any(map(is_private, names)):
        jobs = 1
    pairs, ignored, bad_files = find_pairs(names)
    pieces = [piece for pair in pairs for piece in pieces_of(pair)]
    tasks = list(map(CheckTask, gather_tasks(pieces, current_limits().task_bytes)))
    size = total_text(pieces)
    results = run_in_order(check_task, tasks, text_bytes=size, jobs=jobs)
    check = _Check(PairCheck(ignored=ignored, bad_files=bad_files))
    progress = progress or Progress()
    progress.start("check", size)
    checked = zip(pieces, chain.from_iterable(results), strict=True)
    for _, group in groupby(checked, key=lambda both: id(both[0].pair)):
        parts = list(group)
        for piece, result in parts:
            counts = result.rows.counts
            progress.advance(piece.estimated_text, counts["rows"], counts["invalid"])
        check.add(parts[0][0].pair, [result for _, result in parts])
    progress.finish()
    return check.finish(perf_counter() - started)


class _Check:
    def __init__(self, report: PairCheck) -> None:
        self._report = report
        self._groups = FindingGroups()
        self._folders = set[str]()

    def add(self, pair: Pair, pieces: Sequence[CheckedPiece]) -> None:
        report = self._report
        first = pieces[0]
        errors = list(filter(None, [piece.error for piece in pieces]))
        report.bad_files += dict.fromkeys(errors)
        if first.is_ignored:
            report.ignored += 1
            return
        path = pair.aggregate or pair.samples[0].path
        for where, finding in name_findings(pair, folder=pair.folder not in self._folders):
            self._find(where, finding)
        self._folders.add(pair.folder)
        self._find(path, *first.findings)
        report.samples += len(pair.samples)
        report.aggregates += pair.aggregate is not None
        if not pair.aggregate:
            what = f"{utf8(pair.stem)}.json in the same folder"
            self._find(path, expected("pair.no_aggregate", what, "no such file"))
        if len(pair.samples) > 1:
            finding = expected("pair.several_samples", "one samples file", pair.sample_names)
            self._find(path, finding)
        if errors:
            return  # a file counts as a whole or not at all
        rows = Rows()
        for piece in pieces:
            rows += piece.rows
        self._add_rows(pair, first.aggregate, rows)

    def _find(self, path: str, *findings: Finding) -> None:
        for finding in findings:
            self._groups.add(finding, utf8(path), 1)

    def _add_rows(self, pair: Pair, aggregate: Aggregate | None, rows: Rows) -> None:
        """Check what depends on all rows of a pair."""
        report = self._report
        total = rows.counts["rows"]
        invalid = rows.counts["invalid"]
        report.rows += total
        report.invalid += invalid
        report.text_bytes += rows.counts["text_bytes"]
        self._groups.merge(rows.groups)
        if not pair.samples:
            return
        samples = pair.samples[0].path
        if not total:
            self._find(samples, expected("pair.no_rows", "at least one row", "none"))
        if same := len(rows.hashes) - len(set(rows.hashes)):
            actual = f"{same:,} of {total:,} that are the same as an earlier one"
            self._find(samples, expected("pair.duplicate_row", "different rows", actual))
        if not aggregate or not pair.aggregate:
            return
        report.pairs += 1
        stated = aggregate.stated
        if stated:
            report.without_checksum += stated.checksum is None
            report.without_total_rows += stated.total_rows is None
            if stated.total_rows not in (None, total):
                what = f"{stated.total_rows:,}, as the aggregate states"
                where = f"{WHERE}.total_rows"
                actual = counted(total, "row")
                self._find(pair.aggregate, expected("pair.total_rows", what, actual, where))
        report.results += len(aggregate.results)
        for number, result in enumerate(aggregate.results):
            compared = result, number, rows.tallies[number, False], rows.tallies[number, True]
            findings = [_size_finding(*compared)]
            verdict = "invalid rows" if invalid else compare_score(*compared)
            if verdict is None:
                report.reproduced += 1
                findings.append(_standard_error_finding(*compared))
            elif isinstance(verdict, Finding):
                report.different += 1
                findings.append(verdict)
            else:
                report.not_compared[verdict] = report.not_compared.get(verdict, 0) + 1
            self._find(pair.aggregate, *filter(None, findings))

    def finish(self, seconds: float) -> PairCheck:
        report = self._report
        codes = self._groups.codes
        report.codes = dict(codes)
        report.groups = self._groups.in_order()
        report.warnings = sum(codes[code] for code in PAIR_WARNINGS)
        report.errors = codes.total() - report.warnings
        report.not_compared = dict(sorted(report.not_compared.items()))
        report.seconds = seconds
        return report
