"""Lines made of the parts of a bundle are records as the encoder writes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from fastrec.harnesses.convert import NO_METRIC, Converter, line_maker, read_bundles, write_bundles
from fastrec.harnesses.log import RunInfo, Sample, Score
from fastrec.schemas.hashes import LIST_HASHES
from fastrec.schemas.newest import (
    AnswerAttribution,
    Evaluation,
    Input,
    Message,
    Output,
    Performance,
    Record,
    TokenUsage,
)
from tests.harnesses.converting import lines_of
from tests.sizes import examples

texts = st.text(max_size=6)
answers = st.lists(
    st.builds(
        AnswerAttribution,
        turn_idx=st.integers(0, 3),
        source=texts,
        extracted_value=texts,
        extraction_method=texts,
        is_terminal=st.booleans(),
    ),
    max_size=2,
)
outputs = st.builds(
    Output,
    raw=st.lists(texts, max_size=2),
    reasoning_trace=st.just(UNSET) | st.lists(texts, max_size=1),
)
metadata = st.dictionaries(texts, texts, max_size=2)
scores = st.builds(
    Score,
    metric=st.sampled_from(["acc", "f1:strict", "lower", 'é"', ""]),
    value=st.none()
    | st.sampled_from([0, 1, 0.0, 1.0, -0.0, 1e-7])
    | st.floats(allow_nan=False, allow_infinity=False),
    problem=texts,
    answers=st.none() | answers,
    output=st.none() | outputs,
    metadata=metadata,
)
samples = st.builds(
    Sample,
    sample_id=st.none() | texts,
    input=st.builds(
        Input,
        raw=texts | st.sampled_from(["plain", "DEL \x7f", 'a "quote"\n']),
        formatted=st.just(UNSET) | texts,
        reference=st.lists(texts, max_size=2),
        choices=st.just(UNSET) | st.lists(texts, max_size=2),
    ),
    scores=st.lists(scores, max_size=4),
    output=st.none() | outputs,
    messages=st.none()
    | st.lists(
        st.builds(Message, turn_idx=st.integers(0, 2), role=texts, content=texts), max_size=2
    ),
    interaction_type=st.sampled_from(["single_turn", "multi_turn", "agentic"]),
    answers=answers,
    num_turns=st.just(UNSET) | st.integers(1, 9),
    tool_calls=st.just(UNSET) | st.integers(0, 9),
    token_usage=st.none()
    | st.builds(
        TokenUsage, input_tokens=st.just(1), output_tokens=st.just(2), total_tokens=st.just(3)
    ),
    performance=st.none() | st.builds(Performance, latency_ms=st.floats(0, 100)),
    error=texts,
    metadata=metadata,
)
RUN = RunInfo(
    task="tâsk", model='m"odel', started="", version="1.2", lower_is_better=frozenset({"lower"})
)


def expected(sample: Sample, score: Score, graded: frozenset[str]) -> bytes:
    """The record of a score, encoded as a whole."""
    error = sample.error
    if score.value is None:
        problem = score.problem or "the score is not a number"
        error = f"{error}; {problem}" if error else problem
    value = score.value if score.value is not None else 0.0
    common = {"harness": "promptfoo", "harness_version": "1.2"} | sample.metadata | score.metadata
    digest = LIST_HASHES["sha256"](sample.input.raw, sample.input.reference)
    record = Record(
        schema_version="0.3.0",
        evaluation_id=RUN.evaluation_id,
        model_id=RUN.model,
        evaluation_name=RUN.task,
        evaluation_result_id=score.metric or UNSET,
        sample_id=digest[:16] if sample.sample_id is None else sample.sample_id,
        sample_hash=digest,
        interaction_type=sample.interaction_type,  # type: ignore[arg-type]
        input=sample.input,
        output=_set(sample.output if score.output is None else score.output),
        messages=_set(sample.messages),
        answer_attribution=sample.answers if score.answers is None else score.answers,
        evaluation=Evaluation(
            score=value,
            is_correct=value == 1 and not error and score.metric != "lower",
            num_turns=sample.num_turns,
            tool_calls_count=sample.tool_calls,
        ),
        token_usage=_set(sample.token_usage),
        performance=_set(sample.performance),
        error=error or UNSET,
        metadata=common | ({"graded": "true"} if score.metric in graded else {}),
    )
    return msgspec.json.encode(record)


def _set(value: Any) -> Any:
    return UNSET if value is None else value


class ShortReader:
    """Returns fewer bytes than asked for, as a file may."""

    version = 0

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def pread(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + min(size, 7)]


@settings(max_examples=examples(14, 320))
@given(st.lists(samples, max_size=3), st.frozensets(st.sampled_from(["acc", "lower", "f1:strict"])))
def test_lines_are_encoded_records(some, graded):
    converter = Converter("promptfoo", RUN)
    bundles = [converter.bundle(sample) for sample in some]
    data = b"".join(write_bundles([bundle]) for bundle in bundles if bundle)
    lines_in = line_maker(
        converter.result.head,
        list(converter.result.metrics),
        {name: {"graded": "true"} for name in graded},
    )
    text = b"".join(part for bundle in read_bundles(ShortReader(data)) for part in lines_in(bundle))
    unscored = [Score(metric="", value=None, problem="the log has no score for this sample")]
    assert text.splitlines(keepends=True) == [
        expected(sample, score, graded) + b"\n"
        for sample in some
        for score in sample.scores or unscored
    ]


@given(samples)
def test_lines_of_one_sample_name_their_metrics(sample):
    lines = lines_of(Converter("promptfoo", RUN), sample)
    assert [metric for metric, _ in lines] == [
        json.loads(line).get("evaluation_result_id", "") for _, line in lines
    ]
    assert len(lines) == max(len(sample.scores), 1)


def test_a_metric_with_brackets_matches_itself():
    converter = Converter("promptfoo", RUN, ["acc[0]"])
    scores = [Score(metric=metric, value=1.0) for metric in ("acc[0]", "acc0", "acc1")]
    sample = Sample(sample_id="1", input=Input(raw="a", reference=[]), scores=scores)
    assert [metric for metric, _ in lines_of(converter, sample)] == ["acc[0]", "acc0"]


def test_a_sample_without_a_wanted_metric_has_no_bundle():
    converter = Converter("promptfoo", RUN, ["f1*"])
    asked = Input(raw="a", reference=[])
    assert (
        converter.bundle(
            Sample(sample_id="1", input=asked, scores=[Score(metric="acc", value=1.0)])
        )
        is None
    )
    assert (
        lines_of(
            converter, Sample(sample_id="2", input=asked, scores=[Score(metric="acc", value=1.0)])
        )
        == []
    )
    assert converter.result.left_out == {NO_METRIC: 2}
