"""Logs of lm-evaluation-harness: `samples_<task>_<date>.jsonl` and `results_<date>.json`.

Plan a log: what its results say about the run and its figures, and the slices of its samples. Then
read a slice.
"""

import re
from collections.abc import Iterator

from msgspec import MsgspecError, Struct
from xxhash import xxh3_64

from fastrec.errors import LogError
from fastrec.harnesses.files import read_text
from fastrec.harnesses.lm_eval.files import (
    Results,
    is_array,
    logs_of,
    metric_keys,
    model_of,
    place_of,
    read_results,
    rows_in,
    rows_of,
    task_hash,
)
from fastrec.harnesses.lm_eval.sample import SampleMaker, TaskSetup, metric_id
from fastrec.harnesses.log import Aggregate, Figures, Log, LogPlan, RunInfo, Sample, date_in
from fastrec.harnesses.values import (
    Fields,
    JsonObject,
    OptionalInt,
    decode_object,
    explaining,
    number_of,
    spell,
)
from fastrec.sources.shard import Slice, shard_at

__all__ = ["logs_of", "plan", "samples"]


_SLICE_BYTES = 16 << 20

_OF_THE_TASK = "it is aggregated by a function of the task, not as a mean"

# How lm-eval aggregates its own metrics, unless a task says otherwise: lm_eval/api/metrics.py.
_MEANS = (
    "acc acc_norm acc_bytes acc_mutual_info exact_match exact_match_mc mae anls bpb logprob "
    "choice_logprob choice_prob_norm choice_logprob_norm"
)
_ITSELF = "acc_all brier_score perplexity bits_per_byte bypass f1 bleu chrf ter"
_REGISTRY = {
    **dict.fromkeys(_MEANS.split(), "mean"),
    **{name: name for name in _ITSELF.split()},
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "mcc": "matthews_corrcoef",
}
_LOWER = frozenset(
    {"brier_score", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"}
)
_FUNCTION = r"\s*(?:@.*\n\s*)*def (\w+)\("


class LogSlice(Struct, frozen=True):
    piece: Slice
    setup: TaskSetup


def plan(log: Log) -> LogPlan:
    path = log.path
    task = log.task
    results = read_results(log.files[1].path)
    figures = results.figures(task)
    settings = results.object("configs", task)
    setup = _setup_of(figures, settings)
    shard = shard_at(path)
    is_one_slice = is_array(path) or (len(setup.filters) > 1 and not _names_filters(path))
    pieces = [Slice(shard)] if is_one_slice else list(shard.slices(_SLICE_BYTES))
    means, others = _aggregates_of(figures, settings)
    expected, notes = _expected(results, log, setup)
    return LogPlan(
        run=_run_of(
            results,
            log,
            _lower_is_better(figures, settings, results.object("higher_is_better", task)),
        ),
        slices=[LogSlice(piece, setup) for piece in pieces],
        aggregates=means,
        not_compared=others,
        expected_samples=expected,
        notes=notes,
    )


def _setup_of(figures: JsonObject, settings: Fields) -> TaskSetup:
    pairs = metric_keys(figures)
    filters = list(dict.fromkeys(name for _, name in pairs))
    named = [entry["name"] for entry in settings.objects("filter_list")]
    if named and (not filters or set(named) == set(filters)):
        # the order in which they were applied
        filters = [name for name in named if isinstance(name, str)]

    texts = {name: text for name, text in settings.items() if isinstance(text, str)}
    return TaskSetup(
        question=texts.get("doc_to_text", ""),
        target=texts.get("doc_to_target", ""),
        delimiter=texts.get("target_delimiter", " "),
        output_type=texts.get("output_type", ""),
        metrics=tuple(dict.fromkeys(metric for metric, _ in pairs)),
        filters=tuple(filters),
    )


def _run_of(results: Results, log: Log, lower: frozenset[str]) -> RunInfo:
    model = model_of(results)
    if not model:
        raise LogError(log.files[1].path, "does not say which model was evaluated")
    started = (
        results.started
        or date_in(log.files[1].path)
        or date_in(log.path)
        or f"undated-{xxh3_64(read_text(log.files[1].path)).hexdigest()}"
    )
    about = {
        "num_fewshot": results.of_task("n-shot", log.task),
        "task_version": results.of_task("versions", log.task),
    }
    return RunInfo(
        task=log.task,
        model=model,
        started=started,
        version=results.text("lm_eval_version"),
        metadata={key: spell(value) for key, value in about.items() if value is not None},
        lower_is_better=lower,
    )


def _names_filters(path: str) -> bool:
    """Tell whether the samples of a file name their filter: since November 2024."""
    with explaining(path, "line 1 is not a sample of lm-eval"):
        return next((decode_object(line).get("filter") is not None for line in rows_in(path)), True)


def _expected(results: Results, log: Log, setup: TaskSetup) -> tuple[OptionalInt, list[str]]:
    figures = results.figures(log.task)
    path = log.path
    filters = max(len(setup.filters), 1)
    for key in ("sample_len", "samples"):
        if count := figures.count(key):  # 0 if nothing was scored
            return count * filters, []
    count = results.object("n-samples", log.task).count("effective")
    if not count:
        return None, []
    # Of a run of chosen documents (--samples), the file states how many there are. The hash proves
    # that all are here.
    stated = results.of_task("task_hashes", log.task)
    if is_array(path) or not stated:
        return count * filters, []
    row_count = sum(1 for _ in rows_in(path))
    try:
        if row_count != count * filters and task_hash(path) == stated:
            return row_count, [
                f"the run evaluated {row_count // filters:,} chosen documents of {count:,}"
            ]
    except ValueError:
        pass  # reading the samples will report the damage
    return count * filters, []


def _aggregates_of(figures: JsonObject, settings: Fields) -> Figures:
    means = []
    others = {}
    for metric, name in metric_keys(figures):
        key = f"{metric},{name}"
        value = number_of(figures[key])
        if reason := _not_a_mean(metric, settings):
            others[key] = reason
        elif value is not None:
            means.append(Aggregate(metric_id(metric, name), key, value))
        elif figures[key] != "N/A":
            others[key] = f"its value is {figures[key]}"
    return means, others


def _not_a_mean(metric: str, settings: Fields) -> str:
    """Say why the figure of a metric is not a mean; empty if it is one."""
    listed = _metric_list(settings)
    if metric in listed:
        how = listed[metric]["aggregation"] or _REGISTRY.get(metric)
    elif metric in _REGISTRY:
        how = _REGISTRY[metric]
    else:  # lm-eval takes the mean of what a task returns besides the metrics that it lists
        how = "mean" if listed else None
    if not isinstance(how, str):
        return _OF_THE_TASK if how else "the log does not say how it is aggregated"
    if how in ("mean", "nanmean"):
        return ""
    if how in _REGISTRY.values() or how == "median":
        return f"lm-eval aggregates it as {how}, not as a mean"
    return _OF_THE_TASK


def _metric_list(settings: Fields) -> dict[str, Fields]:
    """The metrics that a task lists, by name; a function has its name in its source."""
    metrics = {}
    for entry in settings.objects("metric_list"):
        name = entry["metric"]
        if isinstance(name, str):
            source = re.match(_FUNCTION, name)
            metrics[source[1] if source else name] = entry
    return metrics


def _lower_is_better(figures: JsonObject, settings: Fields, higher: JsonObject) -> frozenset[str]:
    pairs = metric_keys(figures)
    better = {metric: metric not in _LOWER for metric, _ in pairs}
    for name, entry in _metric_list(settings).items():
        if entry["higher_is_better"] is not None:
            better[name] = entry["higher_is_better"]
    better |= higher
    lower = {metric for metric, value in better.items() if value is False}
    return frozenset(lower | {metric_id(*pair) for pair in pairs if pair[0] in lower})


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the slice has all it needs
    piece = log_slice.piece
    # names of metrics that cannot be told apart
    with explaining(piece.shard.path, "its metrics cannot be read"):
        maker = SampleMaker(log_slice.setup)
    make = maker.make
    read = maker.reader.row
    for number, text in rows_of(piece):
        try:
            sample = make(read(text))
        except (ValueError, MsgspecError, RecursionError) as exc:
            place = place_of(piece, number)
            raise LogError(
                piece.shard.path, f"{place} is not a sample of lm-eval, or cut off: {exc}"
            ) from None
        yield sample
