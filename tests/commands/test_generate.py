"""The generator, checked with jsonschema instead of fastrec's own judge."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
import zstandard
from jsonschema import Draft7Validator

import fastrec
from fastrec.commands.generate import FRAME_BYTES, Recipe, generate, invalid, labelled_lines, lines
from fastrec.commands.generate.invalid import INVALID_LINES
from fastrec.errors import UsageError
from fastrec.judge.findings import ERRORS, WARNINGS
from tests.sizes import examples

SCHEMA = Path(fastrec.__file__).parent / "schemas/files/instance_level_eval_0.2.0.schema.json"
VALIDATOR = Draft7Validator(json.loads(SCHEMA.read_bytes()))
DEPENDS_ON_OPTIONS = {
    "line.too_long",
    "hash.mismatch",
    "conflict.not_first",
    "conflict.rejected",
    "version.newer",
}
DEPENDS_ON_OPTIONS |= {"repeat.not_first", "repeat.rejected"}
# The codes of 0.2.0; `test_generate_versions.py` has those of later versions.
LATER_CODES = {
    "schema.unknown_key",
    "version.contradiction",
    "rule.single_turn_messages",
    "rule.multi_turn_messages",
}
REJECT_CODES = ERRORS.keys() - DEPENDS_ON_OPTIONS - LATER_CODES

EVERYTHING = {
    "records": examples(800, 1_200),
    "seed": 7,
    "duplicates": 0.1,
    "conflicts": 0.05,
    "unknown_keys": 0.3,
    "rejects": 0.15,
    "blanks": 0.02,
    "warnings": 0.2,
}


@pytest.fixture(scope="module")
def corpus():
    """Lines of all kinds: (kind, line) in order."""
    return list(labelled_lines(Recipe(**EVERYTHING)))


@cache
def default_lines(text):
    return list(lines(Recipe(records=examples(1_500, 2_000), seed=4, text=text)))


@cache
def default_records(text):
    return [json.loads(line) for line in default_lines(text)]


@pytest.fixture(scope="module", params=["evaluation", "words"])
def plain(request):
    """Lines of the default recipe, with either text."""
    return default_lines(request.param)


@pytest.fixture(scope="module", params=["evaluation", "words"])
def records(request):
    """The same lines, decoded; read-only."""
    return default_records(request.param)


@pytest.fixture(scope="module")
def bulk():
    """Lines of random words."""
    return default_lines("words")


# Determinism


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("evaluation", "9e60d120ab86c6b76d089b3c7e4836778db7b4c9ff9463f28ecee17b1e4ba516"),
        ("words", "afd7436e08ad1f0f7741611d251e1746874b3c4a8815e434cb1c1351be68521f"),
    ],
)
def test_text_is_stable(text, digest):
    """A seed gives the same text on every platform and Python version."""
    found = b"\n".join(lines(Recipe(**{**EVERYTHING, "records": 400}, text=text)))
    assert sha256(found).hexdigest() == digest


def test_seed_matters():
    """Another seed gives other text and other questions."""
    assert list(lines(Recipe(records=20, seed=1))) != list(lines(Recipe(records=20, seed=2)))


def test_lines_do_not_depend_on_shards(tmp_path):
    """Any number of shards with any compression contains the lines of the recipe in order."""
    expected = list(lines(Recipe(records=60, seed=5, blanks=0.1)))
    for shards, compression in ((1, "none"), (3, "mixed"), (7, "zst")):
        found = generate(
            tmp_path / str(shards),
            records=60,
            seed=5,
            blanks=0.1,
            shards=shards,
            compression=compression,
        )
        assert [line for path in found.paths for line in split(unpack(path))] == expected


def unpack(path):
    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        return gzip.decompress(data)
    if not path.endswith(".zst"):
        return data
    text = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        text.append(frame.decompress(data))
        assert frame.eof
        data = frame.unused_data
    return b"".join(text)


def split(text):
    rows = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if rows[-1] == b"":
        rows.pop()
    return [row.removesuffix(b"\r") for row in rows]


# Content


def test_proportions(records):
    """Four fifths of a mixed corpus are single_turn; all types and several evaluations occur."""
    found = records
    kinds = Counter(record["interaction_type"] for record in found)
    assert kinds["single_turn"] / len(records) == pytest.approx(0.80, abs=0.04)
    assert kinds["multi_turn"] / len(records) == pytest.approx(0.12, abs=0.03)
    assert kinds["agentic"] / len(records) == pytest.approx(0.08, abs=0.03)
    assert len({record["evaluation_name"] for record in found}) >= 6


@pytest.mark.parametrize("mix", ["single_turn", "agentic"])
def test_mix_of_one_type(mix):
    """A mix of one type has no records of other types."""
    recipe = Recipe(records=60, mix=mix, warnings=0.3, conflicts=0.1, duplicates=0.1)
    assert {json.loads(line)["interaction_type"] for line in lines(recipe)} == {mix}


def test_sizes(bulk):
    """The median line of random words has one to five kilobytes, the largest more than fifty."""
    sizes = sorted(map(len, bulk))
    assert 1_000 <= sizes[len(sizes) // 2] <= 5_000
    assert sizes[-1] > 50_000


def test_compressibility(bulk):
    """zstd level 3 shrinks random words about as much as real corpora."""
    text = b"\n".join(bulk)
    assert 3 <= len(text) / len(zstandard.ZstdCompressor(level=3).compress(text)) <= 5


def test_many_models_answer_the_same_questions(records):
    """A question is the same for every model, and every identity is unique."""
    questions = defaultdict(set)
    models = defaultdict(set)
    identities = Counter()
    for record in records:
        name = record["evaluation_name"]
        sample = record["sample_id"]
        questions[name, sample].add((record["input"]["raw"], record["input"]["reference"]))
        models[name, sample].add(record["model_id"])
        identities[identity(record)] += 1
    assert all(len(texts) == 1 for texts in questions.values())
    assert min(len(names) for names in models.values()) >= 8
    assert max(identities.values()) == 1


def identity(record):
    return tuple(
        record[key] for key in ("evaluation_id", "evaluation_name", "model_id", "sample_id")
    )


def test_valid_lines_are_valid(corpus):
    """Records, duplicates and conflicts satisfy draft-07 and every strict rule."""
    for kind, line in corpus:
        if kind in {"record", "duplicate", "conflict"}:
            assert not error_codes(line), line[:200]


def test_default_lines_are_valid(plain):
    """Records of the default recipe do, too."""
    assert not any(map(error_codes, plain[:200]))


def test_optional_fields_vary(records):
    """Every optional field is sometimes absent, sometimes present, and null where allowed."""
    found = records
    for key in ("sample_hash", "token_usage", "performance", "error", "metadata"):
        assert {key in record for record in found} == {True, False}
    for key in ("token_usage", "performance", "error", "output", "interactions"):
        assert any(key in record and record[key] is None for record in found)
    for key in ("formatted", "choices"):
        assert {key in record["input"] for record in found} == {True, False}
    outputs = [record["output"] for record in found if record["interaction_type"] == "single_turn"]
    assert {type(output.get("reasoning_trace", ...)) for output in outputs} == {
        str,
        type(None),
        type(...),
    }
    usages = [record["token_usage"] for record in found if record.get("token_usage")]
    assert {"reasoning_tokens" in usage for usage in usages} == {True, False}
    assert {type(usage["total_tokens"]) for usage in usages} == {int, float}
    assert {type(record["sample_id"]) for record in found} == {int, str}
    assert {type(record["evaluation"]["score"]) for record in found} == {bool, int, float}
    calls = [
        turn
        for record in found
        for turn in record.get("interactions") or ()
        if "tool_call_id" in turn
    ]
    assert {type(turn["tool_call_id"]) for turn in calls} == {str, list}


def test_most_hashes_are_correct(records):
    """A given `sample_hash` is the SHA-256 of raw and reference, with rare exceptions."""
    given = [record for record in records if "sample_hash" in record]
    wrong = sum(record["sample_hash"] != computed(record) for record in given)
    assert 0 < wrong < 0.02 * len(given)


def computed(record):
    return sha256((record["input"]["raw"] + record["input"]["reference"]).encode()).hexdigest()


@pytest.mark.each_value
@pytest.mark.parametrize(
    "pattern",
    [
        rb'^\{"schema_version": ',  # the order of the schema, with spaces
        rb'^\{"answer_attribution":\[',  # sorted, compact
        rb'^\{"(?!schema_version|answer_attribution)',  # another order
        rb"\\u[0-9a-f]{4}",  # ASCII only
        rb"\\ud83d\\ude00",  # a pair of surrogates
        rb"[\xd0-\xd1][\x80-\xbf]",  # Cyrillic as itself
        rb"[\xe4-\xe9][\x80-\xbf]{2}",  # Han as itself
        rb"\xf0\x9f",  # emoji as themselves
        rb"\xe2\x80\xa8",  # U+2028, which does not end a line
        rb"\\n",
        rb'\\"',
        rb"\\\\",
        rb"\\/",
        rb'"score": ?true',
        rb'"score": ?1[,}]',
        rb'"score": ?1\.0[,}]',
        rb'"score": ?0\.5[,}]',
        rb'"total_tokens": ?\d+\.0[,}]',
    ],
)
def test_spellings_occur(plain, pattern):
    """Each JSON spelling occurs in a default corpus."""
    assert any(re.search(pattern, line) for line in plain)


def test_floats_need_no_exponent(corpus):
    """No float needs an exponent, which the two JSON encoders would write differently."""
    for kind, line in corpus:
        if kind in {"record", "conflict"}:
            json.loads(
                line, parse_float=lambda text: pytest.fail(text) if "e" in text.lower() else 0.0
            )


# Shares


@pytest.mark.parametrize("kind", ["duplicate", "conflict", "blank"])
def test_shares(corpus, kind):
    """Each kind of line has the requested share."""
    asked = EVERYTHING[kind + "s"] * len(corpus)
    assert abs(sum(found == kind for found, _ in corpus) - asked) < 4 * math.sqrt(asked)


def test_share_of_invalid_lines(corpus):
    """Invalid lines of all codes together have the requested share."""
    asked = EVERYTHING["rejects"] * len(corpus)
    assert abs(sum(found in REJECT_CODES for found, _ in corpus) - asked) < 4 * math.sqrt(asked)


def test_default_recipe():
    """Every line is a record without unknown keys, and no two are equal."""
    found = list(labelled_lines(Recipe(records=300)))
    assert {kind for kind, _ in found} == {"record"}
    assert len({line for _, line in found}) == 300
    assert not any(unknown_keys(json.loads(line)) for _, line in found)


def test_duplicates_repeat_an_earlier_record(corpus):
    """A duplicate has the content of an earlier record, in any spelling."""
    seen = set()
    bytes_seen = set()
    equal = 0
    respelled = 0
    for kind, line in corpus:
        if kind not in {"record", "duplicate"}:
            continue
        meaning = canonical(json.loads(line))
        if kind == "duplicate":
            assert meaning in seen
            equal += line in bytes_seen
            respelled += line not in bytes_seen
        else:
            assert meaning not in seen
        seen.add(meaning)
        bytes_seen.add(line)
    assert equal > 20
    assert respelled > 20


def test_conflicts_share_only_the_identity(corpus):
    """A conflict has the identity of an earlier record and content that no other line has."""
    identities = set()
    meanings = set()
    for kind, line in corpus:
        if kind not in {"record", "conflict"}:
            continue
        record = json.loads(line)
        assert (identity(record) in identities) == (kind == "conflict")
        assert canonical(record) not in meanings
        identities.add(identity(record))
        meanings.add(canonical(record))


def canonical(record):
    """Return the content of a record: without nulls, with integers and a computed hash."""
    integers = {"turn_idx", "num_turns", "tool_calls_count"}

    def plainly(value, key=""):
        if isinstance(value, dict):
            return {name: plainly(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [plainly(item) for item in value]
        return (
            int(value) if key in integers | {"input_tokens"} and isinstance(value, float) else value
        )

    nullable = ("output", "interactions", "token_usage", "performance", "error")
    kept = {key: value for key, value in record.items() if value is not None or key not in nullable}
    return json.dumps({**plainly(kept), "sample_hash": computed(record)}, sort_keys=True)


# Unknown keys and warnings


def unknown_keys(value, schema=None, place="$"):
    """Yield the paths of keys that the schema does not name."""
    schema = VALIDATOR.schema if schema is None else schema
    if isinstance(value, list) and "items" in schema:
        return {
            found for item in value for found in unknown_keys(item, schema["items"], f"{place}[]")
        }
    if not isinstance(value, dict) or "properties" not in schema:
        return set()
    found = {place} if value.keys() - schema["properties"].keys() else set()
    for key in value.keys() & schema["properties"].keys():
        found |= unknown_keys(value[key], schema["properties"][key], f"{place}.{key}")
    return found


def test_unknown_keys_at_every_level(corpus):
    """Unknown keys have the requested share, and occur in every object of the schema."""
    places = [unknown_keys(json.loads(line)) for kind, line in corpus if kind == "record"]
    assert sum(map(bool, places)) / len(places) == pytest.approx(0.3, abs=0.06)
    assert set().union(*places) == {
        "$",
        "$.input",
        "$.output",
        "$.interactions[]",
        "$.interactions[].tool_calls[]",
        "$.answer_attribution[]",
        "$.evaluation",
        "$.token_usage",
        "$.performance",
    }


def warned(record):
    """Return the codes of the warnings of a record."""
    found = set()
    evaluation = record["evaluation"]
    if record.get("sample_hash", computed(record)) != computed(record):
        found.add("warn.sample_hash")
    usage = record.get("token_usage")
    if usage and usage["total_tokens"] != usage["input_tokens"] + usage["output_tokens"]:
        found.add("warn.total_tokens")
    if record["schema_version"] != "instance_level_eval_0.2.0":
        found.add("version.mismatch" if record["schema_version"] == "0.3.0" else "version.unknown")
    turns = record.get("interactions")
    if turns is None:
        return found
    if "num_turns" not in evaluation:
        found.add("warn.num_turns_missing")
    elif evaluation["num_turns"] != len(turns):
        found.add("warn.num_turns")
    if evaluation["tool_calls_count"] != sum(len(turn.get("tool_calls") or ()) for turn in turns):
        found.add("warn.tool_calls_count")
    if [turn["turn_idx"] for turn in turns] != list(range(len(turns))):
        found.add("warn.turn_idx")
    if record["answer_attribution"][0]["turn_idx"] >= len(turns):
        found.add("warn.attribution_turn")
    called = set()
    for turn in turns:
        answered = turn.get("tool_call_id", [])
        if not called.issuperset([answered] if isinstance(answered, str) else answered):
            found.add("warn.tool_call_id")
        called.update(call["id"] for call in turn.get("tool_calls") or ())
    return found


def test_warnings(corpus):
    """Each warning occurs alone in valid records, with the requested share."""
    found = [warned(json.loads(line)) for kind, line in corpus if kind == "record"]
    # One more kind would change the lines of every seed. `tests/judge` has the other turns.
    assert (
        set().union(*found)
        == WARNINGS.keys() - {"version.other_turns"}
        == {row.code for row in invalid.WARNINGS}
    )
    assert sum(map(bool, found)) / len(found) == pytest.approx(0.2, abs=0.05)
    assert all(len(codes - {"warn.sample_hash"}) <= 1 for codes in found)


@pytest.mark.parametrize("mix", ["mixed", "agentic"])
def test_no_warnings_by_default(mix, plain):
    """A default corpus has no warnings except a few wrong hashes, whoever its producers are."""
    text = plain if mix == "mixed" else lines(Recipe(records=150, mix=mix))
    assert set().union(*(warned(json.loads(line)) for line in text)) <= {"warn.sample_hash"}


# Invalid lines


def test_every_code_occurs(corpus):
    """The table has a row for every code that does not depend on options, and all of them occur."""
    assert {row.code for row in INVALID_LINES} == REJECT_CODES
    assert {kind for kind, _ in corpus} - {
        "record",
        "duplicate",
        "conflict",
        "blank",
    } == REJECT_CODES


def test_codes_alternate():
    """With as many invalid lines as there are codes, each code occurs once."""
    found = [kind for kind, _ in labelled_lines(Recipe(records=len(REJECT_CODES), rejects=1.0))]
    assert sorted(found) == sorted(REJECT_CODES)


@pytest.mark.parametrize("mix", ["mixed", "single_turn", "agentic"])
def test_invalid_lines_have_one_error(mix):
    """Every row gives lines that independent validators reject for that code alone."""
    recipe = Recipe(records=2 * len(INVALID_LINES), seed=11, rejects=1.0, mix=mix)
    for code, line in labelled_lines(recipe):
        assert error_codes(line) == {code}, line[:300]


@pytest.mark.parametrize("code", sorted(REJECT_CODES))
def test_invalid_lines_among_others(corpus, code):
    """Invalid lines among other lines have one error too."""
    found = [line for kind, line in corpus if kind == code]
    assert found
    assert all(error_codes(line) == {code} for line in found)


def test_blank_lines_are_blank(corpus):
    """Blank lines contain only white space."""
    assert {line.strip() for kind, line in corpus if kind == "blank"} == {b""}


RULES = {
    (0, "required"): "rule.single_turn_output",
    (0, "output"): "rule.single_turn_output",
    (0, "interactions"): "rule.single_turn_interactions",
    (1, "required"): "rule.multi_turn_interactions",
    (1, "interactions"): "rule.multi_turn_interactions",
    (1, "output"): "rule.multi_turn_output",
    (1, "metrics"): "rule.metrics_num_turns",
}


def error_codes(line):
    """Return all error codes of a line, found without fastrec."""
    found = set()
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.add("json.utf8")
        text = line.decode(errors="replace")

    def pairs(items):
        if len(dict(items)) != len(items):
            found.add("json.duplicate_key")
        return dict(items)

    def number(spelling):
        if not math.isfinite(float(spelling)):
            found.add("json.number")
        return 0.5

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=number)
    except json.JSONDecodeError:
        return found | {"json.syntax"}
    if depth(value) > 256:
        found.add("json.depth")
    if re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
        found.add("json.surrogate")
    # With real numbers this time: `1.0` is an integer for the schema and 0.5 is not.
    value = json.loads(text, parse_constant=lambda spelling: 0.5)
    return found | {schema_code(error) for error in VALIDATOR.iter_errors(value)}


def depth(value):
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def schema_code(error):
    path = list(error.absolute_schema_path)
    if path[0] != "allOf":
        return "schema." + {"oneOf": "one_of"}.get(error.validator, error.validator)
    rule = path[path.index("then") + 1 :]
    return RULES[path[1], rule[1] if rule[0] == "properties" else rule[0]]


# Files


@pytest.mark.parametrize(
    ("compression", "suffixes"),
    [
        ("none", ["", "", "", "", ""]),
        ("zst", [".zst"] * 5),
        ("gz", [".gz"] * 5),
        ("mixed", ["", ".zst", ".gz", "", ".zst"]),
    ],
)
def test_round_trip(tmp_path, compression, suffixes):
    """Shards of every compression decompress to the counted text."""
    found = generate(
        tmp_path / "out", records=100, seed=2, shards=5, compression=compression, rejects=0.2
    )
    names = [Path(path).name for path in found.paths]
    assert names == [f"shard-{number:05d}.jsonl{suffix}" for number, suffix in enumerate(suffixes)]
    assert sorted(names) == sorted(path.name for path in (tmp_path / "out").iterdir())
    texts = [unpack(path) for path in found.paths]
    assert sum(map(len, texts)) == found.text_bytes
    assert sum(Path(path).stat().st_size for path in found.paths) == found.file_bytes
    assert (
        sum(len(split(text)) for text in texts) == found.lines == 100 == sum(found.kinds.values())
    )


def test_unusual_shards(tmp_path):
    """The second shard has CRLF, the third a byte order mark, the fourth no last newline."""
    found = generate(tmp_path, records=50, shards=5, compression="none")
    texts = [unpack(path) for path in found.paths]
    assert [text.count(b"\r\n") for text in texts] == [0, 10, 0, 0, 0]
    assert [text.startswith(b"\xef\xbb\xbf") for text in texts] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert [text.endswith(b"\n") for text in texts] == [True, True, True, False, True]


def test_zstd_frames(tmp_path):
    """A shard of several megabytes has several frames, each with a declared size and a checksum."""
    found = generate(tmp_path, records=200, shards=1, mix="agentic", text="words")
    data = Path(found.paths[0]).read_bytes()
    frames = 0
    while data:
        header = zstandard.get_frame_parameters(data)
        assert header.has_checksum
        assert 0 < header.content_size <= found.text_bytes
        frame = zstandard.ZstdDecompressor().decompressobj()
        frame.decompress(data)
        data = frame.unused_data
        frames = frames + 1
    assert frames == 1 + found.text_bytes // FRAME_BYTES > 1


def test_more_shards_than_lines(tmp_path):
    """Shards without lines are valid, empty files of their format."""
    found = generate(tmp_path, records=1, shards=6, compression="mixed")
    assert [len(split(unpack(path))) for path in found.paths] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"records": -1},
        {"seed": -1},
        {"shards": 0},
        {"compression": "bz2"},
        {"mix": "chat"},
        {"text": "poems"},
        {"rejects": 1.5},
        {"warnings": -0.1},
        {"duplicates": 0.6, "conflicts": 0.6},
    ],
)
def test_wrong_arguments(tmp_path, arguments):
    """Wrong arguments are refused before anything is written."""
    with pytest.raises(UsageError):
        generate(tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_directory_that_is_not_empty(tmp_path):
    """It is refused and left unchanged."""
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        generate(tmp_path, records=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
