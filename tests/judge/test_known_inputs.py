"""A judge that recognises known inputs says the same as one that does not, whatever the bytes are."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from fastrec.judge import known_inputs
from fastrec.judge.batch import Batch
from fastrec.judge.findings import REPAIRS
from fastrec.judge.judge import Judge
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.hashes import RECIPES, sample_hash
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS
from tests import reference
from tests.judge.test_oracle import LABELS
from tests.judge.test_paths import counted
from tests.samples import sample_of
from tests.sizes import examples
from tests.strategies import dice, respelled

OPTIONS: dict[str, dict[str, Any]] = {
    "own version": {},
    "to the newest version": {"target": NEWEST_SCHEMA.name},
    "to the default version": {"target": DEFAULT_SCHEMA.name},
    "verify hashes": {"sample_hash": "verify", "target": NEWEST_SCHEMA.name},
    "keep hashes": {"sample_hash": "fill", "algorithm": "xxh3_128"},
    "no further recipe": {
        "sample_hash": "verify",
        "any_recipe": False,
        "target": DEFAULT_SCHEMA.name,
    },
    "repair": {"repairs": frozenset(REPAIRS), "target": NEWEST_SCHEMA.name},
    "repair and guess": {
        "repairs": frozenset(REPAIRS),
        "target": DEFAULT_SCHEMA.name,
        "target_is_guess": True,
    },
    **{f"pinned to {name}": {"schema": name} for name in SCHEMAS},
    "pinned, xxh3_128": {
        "schema": DEFAULT_SCHEMA.name,
        "target": NEWEST_SCHEMA.name,
        "algorithm": "xxh3_128",
    },
}


class Twins:
    """Two judges with the same options, one of them without known inputs, that must agree on every
    chunk.
    """

    def __init__(self, known_input_bytes: int = 1 << 20, **options: Any) -> None:
        self.subject = Judge(
            JudgeSettings(warnings=True, known_input_bytes=known_input_bytes, **options)
        )
        self._plain = Judge(JudgeSettings(warnings=True, known_input_bytes=0, **options))

    def judge(self, chunk: bytes) -> Batch:
        """Judge a chunk by both; return what the judge with known inputs says."""
        found, batch = self._facts(self.subject, chunk)
        expected, _ = self._facts(self._plain, chunk)
        assert found == expected, chunk
        return batch

    @staticmethod
    def _facts(judge: Judge, chunk: bytes) -> tuple[dict[str, Any], Batch]:
        out = bytearray(b"before")
        batch = judge.judge_chunk(chunk, out, line=7, offset=1_000)
        assert batch.lines == len(batch.records) + len(batch.rejected) + batch.blank
        facts = {
            **counted(batch, bytes(out)),
            "lines": (batch.lines, batch.blank),
            "slow": batch.slow,
            "rejected": batch.rejected,
            "repaired": batch.repaired,
            "recipe names": batch.recipe_names,
        }
        return facts, batch


def known_in(batch: Batch) -> int:
    """Count the records of a batch whose inputs were known."""
    return sum(isinstance(record.input, msgspec.Raw) for record in batch.records)


def question(rng: random.Random, version: str) -> dict[str, Any]:
    """Return one of few inputs of a version; some are prefixes of others, or need an escape."""
    asked: dict[str, Any] = sample_of(version)["input"]
    asked["raw"] = rng.choice(
        ["6 x 7?", "6 x 7", "", 'say "input": {', "é: \U0001f600", "null", "a\\", "}", ', "output"']
    )
    if rng.random() < 0.3:
        asked["reference"] = rng.choice(["", "42", [], ["42"], ["42", "43"], ["a:b"]])
    if rng.random() < 0.2:
        asked[rng.choice(["formatted", "choices"])] = None
    if rng.random() < 0.2:
        asked[rng.choice(["zz", "input", "a b", 'q"', "output"])] = rng.choice(
            [None, 1, {"input": {"raw": "x"}}, [{}]]
        )
    if rng.random() < 0.2:
        asked.pop(rng.choice(list(asked)))
    return asked


def digest(rng: random.Random, asked: dict[str, Any]) -> str | None:
    """Return a `sample_hash`: right by one of the recipes, wrong, or null."""
    raw = asked.get("raw")
    given = asked.get("reference")
    if not isinstance(raw, str) or given is None:
        return "00"
    references = [given] if isinstance(given, str) else given
    hashes = [sample_hash(raw, given, algorithm=name) for name in ("sha256", "xxh3_128")]
    recipe = rng.choice(list(RECIPES.values()))
    return rng.choice(
        [
            *hashes,
            sample_hash(raw, references),
            sha256(recipe(raw, references)).hexdigest(),
            "00",
            None,
        ]
    )


def record(rng: random.Random, version: str) -> dict[str, Any]:
    """Return a record, nearly always a valid one, with one of few inputs."""
    made = sample_of(version, rng.choice(["single_turn", "single_turn", "multi_turn", "agentic"]))
    made["input"] = asked = question(rng, version)
    made["model_id"] = rng.choice("abc")
    if rng.random() < 0.5:
        made["sample_hash"] = digest(rng, asked)
    elif rng.random() < 0.5:
        made.pop("sample_hash", None)
    if rng.random() < 0.2:
        made["schema_version"] = rng.choice(LABELS)
    if rng.random() < 0.2:
        made["metadata"] = rng.choice(
            [None, {"input": asked}, {"input": "x"}, {"a": '"input": {}'}]
        )
    if rng.random() < 0.15:
        made[rng.choice(["zz", "messages", "input ", "Input"])] = rng.choice([None, asked, 1, "x"])
    if rng.random() < 0.15:
        made["evaluation_result_id"] = rng.choice([None, "id", 5])
    if rng.random() < 0.1:
        made.pop(rng.choice(list(made)))
    if rng.random() < 0.05:
        made["input"] = rng.choice([5, None, [], "x", {}, 3401836492178563215])
    return made


def spelled(rng: random.Random, made: dict[str, Any]) -> bytes:
    """Spell a record in one of the ways of producers, or of nobody."""
    style = rng.random()
    if style < 0.4:
        return json.dumps(made).encode()
    if style < 0.6:
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()
    if style < 0.7:
        items = list(made.items())
        rng.shuffle(items)
        return json.dumps(dict(items)).encode()
    if style < 0.8:
        return json.dumps(made, separators=(" ,\t", "  : ")).encode()
    return respelled(made, rng).encode()


PIECES = [
    *(bytes([byte]) for byte in b'{}[]",:\\0 .e-\r\t\x00\x80\xff'),
    b'"input": ',
    b'"input":',
    b'"input": {}',
    b'"input": 5, ',
    b', "input": {"raw": "x", "reference": "y"}',
    b'"inp\\u0075t": {"raw": "x", "reference": "y"}, ',
    b"null",
    b"NaN",
    b"1e999",
    b".0",
    b"e0",
    b"\\ud800",
    b"\\u003a",
    b"\\\\u003A",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r\n",
    b"[" * 300,
    b'{"a":' * 300,
]


def mutated(rng: random.Random, line: bytes) -> bytes:
    """Change some bytes of a line, most often near the borders of its input."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(line) + 1)
        begin = line.find(b'"input"')
        if begin >= 0 and rng.random() < 0.8:
            end = line.find(b"}", begin)
            at = rng.choice([begin, begin + 9, end]) + rng.randrange(-4, 5)
            at = min(max(at, 0), len(line))
        size = rng.choice([0, 0, 1, 1, 2, 9])
        match rng.randrange(5):
            case 0:
                line = line[:at] + line[at + size :]
            case 1:
                line = line[:at] + line[at : at + 9 * size] + line[at:]
            case 2 if rng.random() < 0.3:
                line = line[:at]
            case _:
                line = line[:at] + rng.choice(PIECES) + line[at + size :]
    return line


def chunk_of(rng: random.Random, lines: list[bytes], rate: float) -> bytes:
    """Return a chunk of some of these lines: many of them mutated, some blank, perhaps without its
    last newline.
    """
    ends = rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
    chosen = []
    for _ in range(rng.choice([1, 3, 10, 20])):
        line = rng.choice(lines)
        if rng.random() < rate:
            line = mutated(rng, line)
        chosen.append(rng.choice([b"", b" ", line]) if rng.random() < 0.05 else line)
    return ends.join(chosen) + rng.choice([b"", ends, ends, ends])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(dice)
@settings(max_examples=examples(2, 16))
def test_known_inputs_change_nothing(options: dict[str, Any], rng: random.Random) -> None:
    """Lines in any order and over many chunks, mutated or not, are judged as without known inputs."""
    twins = Twins(rng.choice([0, 20_000, 1 << 20, 1 << 20]), **options)
    own = [options["schema"]] if "schema" in options and rng.random() < 0.8 else reference.VERSIONS
    versions = rng.choice([[rng.choice(own)], own])
    spell = rng.choice([spelled, lambda _, made: json.dumps(made).encode()])
    lines = [spell(rng, record(rng, rng.choice(versions))) for _ in range(rng.choice([1, 3, 12]))]
    twins.judge(b"\n".join(lines))
    rate = rng.choice([0, 0.1, 0.5])
    for _ in range(6):
        twins.judge(chunk_of(rng, lines, rate))


def line_of(number: int = 0, **changes: Any) -> bytes:
    """Return a valid line with one of many inputs."""
    made = sample_of("0.2.0", **changes)
    made["input"] = {"raw": f"{number} x 7?", "reference": "42"}
    return json.dumps(made).encode()


LINE = line_of()
INPUT = b'{"raw": "0 x 7?", "reference": "42"}'
KEY = b'"input": '
WHOLE = KEY + INPUT + b", "
OTHER = b'{"raw": "?", "reference": "!"}'
HOSTILE: dict[str, tuple[bytes, str | None]] = {
    "the same": (LINE, None),
    "digits after it": (LINE.replace(INPUT, INPUT + b"0"), "json.syntax"),
    "a fraction after it": (LINE.replace(INPUT, INPUT + b".0"), "json.syntax"),
    "an exponent after it": (LINE.replace(INPUT, INPUT + b"e0"), "json.syntax"),
    "a sign before it": (LINE.replace(INPUT, b"-" + INPUT), "json.syntax"),
    "twice in a row": (LINE.replace(INPUT, INPUT + INPUT), "json.syntax"),
    "a brace after it": (LINE.replace(INPUT, INPUT + b"}"), "json.syntax"),
    "no comma after it": (LINE.replace(INPUT + b",", INPUT), "json.syntax"),
    "white space around it": (LINE.replace(INPUT, b" \t\r" + INPUT + b"\r\t "), None),
    "no white space before it": (LINE.replace(KEY, b'"input":'), None),
    "in a list": (LINE.replace(INPUT, b"[" + INPUT + b"]"), "schema.type"),
    "an integer": (LINE.replace(INPUT, b"1"), "schema.type"),
    "absent": (LINE.replace(WHOLE, b""), "schema.required"),
    "in metadata instead": (
        LINE.replace(WHOLE, b"").replace(b'"subject"', WHOLE + b'"subject"'),
        "schema.required",
    ),
    "in metadata, too": (LINE.replace(b'"subject"', WHOLE + b'"subject"'), None),
    "in metadata first": (
        b'{"metadata": {' + KEY + INPUT + b"}, " + LINE[1:].replace(b'"metadata"', b'"zz"'),
        None,
    ),
    "in itself": (LINE.replace(INPUT, INPUT[:-1] + b", " + KEY + INPUT + b"}"), None),
    "in another": (LINE.replace(INPUT, OTHER[:-1] + b", " + KEY + INPUT + b"}"), None),
    "the key twice": (LINE.replace(WHOLE, WHOLE * 2), "json.duplicate_key"),
    "another one before": (LINE.replace(WHOLE, KEY + OTHER + b", " + WHOLE), "json.duplicate_key"),
    "another one after": (LINE.replace(WHOLE, WHOLE + KEY + OTHER + b", "), "json.duplicate_key"),
    "an integer before": (LINE.replace(WHOLE, b'"input":1, ' + WHOLE), "json.duplicate_key"),
    "an integer after": (LINE.replace(WHOLE, WHOLE + b'"input":1, '), "json.duplicate_key"),
    "an escaped key": (LINE.replace(KEY, b'"inp\\u0075t": '), None),
    "an escaped key before": (
        LINE.replace(WHOLE, b'"inp\\u0075t": 1, ' + WHOLE),
        "json.duplicate_key",
    ),
    "an escaped key after": (
        LINE.replace(WHOLE, WHOLE + b'"inp\\u0075t": 1, '),
        "json.duplicate_key",
    ),
    "another key twice": (LINE.replace(WHOLE, WHOLE + b'"error": "x", '), "json.duplicate_key"),
    "a key in it twice": (LINE.replace(INPUT, INPUT[:-1] + b', "raw": "x"}'), "json.duplicate_key"),
    "a key that ends like it": (LINE.replace(KEY, b'"\\"input": '), "schema.required"),
    "a quote before it": (LINE.replace(KEY, b'"' + KEY), "json.syntax"),
    "in a string": (LINE.replace(b"6*7", json.dumps(WHOLE.decode()).encode()[1:-1]), None),
    "after a string without an end": (LINE.replace(b'", ' + KEY, b", " + KEY), "json.syntax"),
    "invalid UTF-8 in it": (LINE.replace(b"x 7?", b"x \xff?"), "json.utf8"),
    "invalid UTF-8 after it": (LINE.replace(b"6*7", b"\xff"), "json.utf8"),
    "half of a surrogate pair in it": (LINE.replace(b"x 7?", b"x \\ud800?"), "json.surrogate"),
    "half of a surrogate pair after it": (LINE.replace(b"6*7", b"\\ud800"), "json.surrogate"),
    "no number after it": (LINE.replace(b"12.5", b"NaN"), "json.number"),
    "too deep after it": (LINE.replace(b'{"b": null}', b"[" * 300 + b"]" * 300), "json.depth"),
    "cut in it": (LINE[: LINE.index(INPUT) + 9], "json.syntax"),
    "cut after it": (LINE[: LINE.index(INPUT) + len(INPUT)], "json.syntax"),
    "text after the line": (LINE + b" x", "json.syntax"),
    "escaped colons": (LINE.replace(b"6*7", b"a\\u003ab\\u003A"), None),
    "an escaped backslash that looks like a colon": (LINE.replace(b"6*7", b"a\\\\u003a"), None),
}


@pytest.mark.each_value
@pytest.mark.parametrize(
    "options",
    [{}, {"target": NEWEST_SCHEMA.name}, {"schema": DEFAULT_SCHEMA.name}],
    ids=["", "up", "pin"],
)
@pytest.mark.parametrize(("line", "code"), HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_imitates_a_known_input(
    line: bytes, code: str | None, options: dict[str, Any]
) -> None:
    """It is judged as if its input were not known: alone, and between valid lines."""
    twins = Twins(**options)
    assert known_in(twins.judge(LINE)) == 1
    for chunk in (
        line,
        line + b"\n",
        b"\n".join([LINE, line, LINE]),
        b"\r\n".join([line, b"", LINE, line]),
    ):
        batch = twins.judge(chunk)
        assert {invalid.findings[0].code for invalid in batch.rejected} == (
            {code} if code else set()
        )


def test_an_integer_in_place_of_the_input_is_no_known_one() -> None:
    """Not even the secret number, if the input of that line was not replaced."""
    twins = Twins()
    twins.judge(LINE)
    number = b"%d" % twins.subject._known_inputs.number
    assert len(number) == known_inputs.PLACEHOLDER_BYTES
    assert twins.judge(b"\n".join([LINE, LINE.replace(INPUT, number), LINE])).rejected


def test_unknown_keys_of_inputs_are_learned() -> None:
    """An input with an unknown key becomes a known one as soon as the decoder knows the key."""
    lines = [LINE.replace(INPUT, INPUT[:-1] + b', "zz": {"b": 1, "a": null}}')] * 3
    twins = Twins()
    batches = [twins.judge(b"\n".join(lines)) for _ in range(2)]
    assert [(batch.slow, known_in(batch)) for batch in batches] == [(1, 0), (0, 3)]


def test_all_versions_share_the_memory() -> None:
    """Whatever the lines are, known inputs take no more memory than they may, plus an eighth."""
    twins = Twins(100_000)
    for version in reference.VERSIONS:
        for start in range(0, 400, 50):
            made = [sample_of(version) for _ in range(50)]
            for number, each in enumerate(made, start):
                each["input"]["raw"] = f"{number} " + "x" * (number % 7 * 1_000)
            twins.judge("\n".join(map(json.dumps, made)).encode())
            assert 0 < twins.subject._known_inputs._bytes <= 100_000 * 9 // 8


def test_a_long_hash_is_not_remembered() -> None:
    """A wrong `sample_hash` may be as long as a line."""
    twins = Twins()
    for _ in range(2):
        batch = twins.judge(line_of(sample_hash="0" * 10_000))
        assert [replaced.given for replaced in batch.replaced] == ["0" * 10_000]
    (inputs,) = twins.subject._known_inputs._by_version.values()
    assert inputs.order[0].recipe[0] is None


def test_an_empty_hash_is_wrong() -> None:
    """No recipe gives it, with a known input either."""
    twins = Twins()
    for _ in range(2):
        batch = twins.judge(line_of(sample_hash=""))
        assert [replaced.given for replaced in batch.replaced] == [""]


def numbered(start: int, stop: int) -> bytes:
    return b"\n".join(line_of(number) for number in range(start, stop)) + b"\n"


def test_inputs_that_do_not_repeat_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """When memory is full and inputs are new, the judge rests.

    At last it forgets the old inputs, and learns others.
    """
    monkeypatch.setattr(known_inputs, "_TRIAL", 20)
    monkeypatch.setattr(known_inputs, "_SHORTEST_REST", 10_000)
    monkeypatch.setattr(known_inputs, "_LONGEST_REST", 20_000)
    twins = Twins(20 * 1_000)
    first = numbered(0, 20)
    assert known_in(twins.judge(first)) == 20
    assert known_in(twins.judge(first)) == 20
    known = [known_in(twins.judge(numbered(start, start + 20))) for start in range(100, 1_500, 20)]
    resting = known.index(0)
    assert resting < 5
    later = known.index(20, resting)
    assert known[later - 1] == 0  # it learned again
    assert known[later:].count(0) > len(known[later:]) // 2  # and rested again
    assert known_in(twins.judge(first)) < 20  # forgotten


def test_inputs_that_come_again_after_a_rest_are_still_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next shard may ask the questions of the last one again."""
    monkeypatch.setattr(known_inputs, "_TRIAL", 20)
    monkeypatch.setattr(known_inputs, "_SHORTEST_REST", 10_000)
    twins = Twins(24 * 1_000)
    shard = [numbered(start, start + 20) for start in range(0, 40, 20)]
    found = [known_in(twins.judge(chunk)) for _ in range(12) for chunk in shard]
    assert sum(found[-10:]) >= 10 * 20 // 3


def test_another_layout_is_found() -> None:
    """When the first line of a chunk has another spelling, the judge looks for it."""
    twins = Twins()
    compact = b"\n".join(
        json.dumps(json.loads(line_of(number)), separators=(",", ":")).encode()
        for number in range(5)
    )
    for chunk in (numbered(0, 5), compact, numbered(0, 5)):
        assert known_in(twins.judge(chunk)) == 5
