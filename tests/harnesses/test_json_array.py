"""The items of an array are found whatever the layout of the document.

A damaged document is refused.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastrec.errors import LogError
from fastrec.harnesses.json_array import JsonArray
from fastrec.storage import storage_of
from tests.sizes import examples

TRICKY = [
    "},\n    {",
    '"',
    "\\",
    '\\"',
    "[",
    "]",
    "{",
    "}",
    ',{"a":',
    "}]",
    '"k": [',
    "é\u2028",
    "",
    "NaN,",
    "\\ud800",
    "k",
]

texts = st.sampled_from(TRICKY) | st.text(max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.sampled_from("ak"), inner, max_size=3)
    ),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from("abk") | texts, values, max_size=3)
arrays = st.lists(objects, max_size=12) | st.lists(values, max_size=6)
layouts = st.sampled_from(
    [
        {},
        {"separators": (",", ":")},
        {"indent": 1},
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"indent": 0},
        {"indent": 2, "ensure_ascii": False},
    ]
)


def array_of(document: bytes, key: str | None, **sizes: int) -> JsonArray:
    return JsonArray("log.json", io.BytesIO(document).read, key, decode, **sizes)


def decode(text: memoryview) -> object:
    try:
        return json.loads(bytes(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read(document: bytes, key: str | None, block_bytes: int = 7) -> tuple[list[object], bytes]:
    """Return the items and the envelope, and check the positions, with small blocks and larger
    ones.
    """
    found = []
    for read_bytes in (block_bytes, 64):
        array = array_of(document, key, block_bytes=read_bytes)
        items = list(array.items())
        cuts = [document[start : start + size] for start, size, _ in items]
        values = [value for _, _, value in items]
        assert repr([json.loads(cut) for cut in cuts]) == repr(values)
        found.append((values, array.envelope))
    assert repr(found[0]) == repr(found[1])
    return found[0]


def spaced(document: bytes, spaces: list[bytes]) -> bytes:
    """Put whitespace between all tokens."""
    tokens = re.findall(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\[\]{}:,"\s]+', document)
    return b"".join(token + spaces[number % len(spaces)] for number, token in enumerate(tokens))


@settings(max_examples=examples(13, 240))
@given(
    arrays,
    st.dictionaries(texts, values, max_size=3),
    layouts,
    st.integers(0, 3),
    st.sampled_from([1, 20, 1000]),
)
def test_the_items_are_those_of_json(array, others, layout, place, block_bytes):
    members = [(name, value) for name, value in others.items() if name != "k"]
    members.insert(place, ("k", array))
    document = json.dumps(dict(members), **layout).encode()
    for text in (document, document.replace(b"\n", b"\r\n"), b" \n" + document + b"\n\t"):
        items, envelope = read(text, "k", block_bytes)
        assert items == array
        assert json.loads(envelope) == dict(members) | {"k": []}
        assert list(json.loads(envelope)) == [name for name, _ in members]


@settings(max_examples=examples(13, 240))
@given(arrays, layouts, st.sampled_from([1, 20, 1000]))
def test_the_array_may_be_the_document(array, layout, block_bytes):
    items, envelope = read(json.dumps(array, **layout).encode(), None, block_bytes)
    assert items == array
    assert json.loads(envelope) == []


@settings(max_examples=examples(13, 240))
@given(
    arrays,
    st.lists(
        st.sampled_from([b"", b" ", b"\n", b"\r\n", b"\n    ", b"\t"]), min_size=1, max_size=7
    ),
)
def test_whitespace_may_be_anywhere(array, spaces):
    document = {"k": array, "z": {"k": array}}
    items, envelope = read(spaced(json.dumps(document).encode(), spaces), "k")
    assert items == array
    assert json.loads(envelope) == document | {"k": []}


@settings(max_examples=examples(13, 240))
@given(arrays, layouts, st.integers(1, 40))
def test_borders_of_blocks_do_not_matter(array, layout, block_bytes):
    document = json.dumps({"a": 1.5, "k": array, "z": "x"}, **layout).encode()
    assert read(document, "k", block_bytes) == read(document, "k", 1 << 20)


@settings(max_examples=examples(7, 80))
@given(st.lists(objects, min_size=1, max_size=3), layouts)
@example([{"a": '},\n    {"', "k": [{"a": 1}, {"a": 2}]}], {"indent": 2})
def test_a_document_that_is_cut_is_refused(array, layout):
    document = json.dumps({"a": [{}], "k": array, "z": 12}, **layout).encode()
    for end in range(len(document)):
        with pytest.raises(LogError, match=r"is cut off: it ends at byte|is not a JSON object"):
            read(document[:end], "k")


@given(st.lists(objects, min_size=2, max_size=5), layouts, st.data())
def test_damage_never_gives_a_wrong_cut(array, layout, data):
    """A byte is changed: if the document is still JSON, the items are right, and if not, something
    raises.
    """
    document = bytearray(json.dumps({"a": [{}], "k": array, "z": 12}, **layout).encode())
    document[data.draw(st.integers(0, len(document) - 1))] = data.draw(
        st.sampled_from(b'{}[]",:\\\n a0\xff')
    )
    try:
        expected = json.loads(bytes(document))
    except ValueError:
        expected = None
    try:
        items, envelope = read(bytes(document), "k")
        found = json.loads(envelope)
    except (LogError, ValueError):
        # What json accepts and we refuse is an object whose key is doubled or gone.
        assert (
            expected is None
            or not isinstance(expected.get("k"), list)
            or bytes(document).count(b'"k"') > 1
        )
        return
    if expected is None or not isinstance(expected.get("k"), list):
        assert not items
        assert expected is None or found == expected
    else:
        assert items == expected["k"]
        assert found == expected | {"k": []}


NO_DOCUMENTS = [
    b"",
    b" ",
    b"[1]",
    b'"k"',
    b"12",
    b"\xff\xfe",
    b'{"k": [1] "a": 2}',
    b'{"k": [1],}',
    b'{"k": [1,]}',
]
NO_DOCUMENTS += [
    b'{"k": [,]}',
    b'{"k": []} x',
    b'{"k": []}{}',
    b'{"k" []}',
    b"{k: []}",
    b'{"k": [1 2]}',
    b"{,}",
]
NO_DOCUMENTS += [
    b'{"k": [{]}]}',
    b'{"k": [}]}',
    b'{"k": [], "k": []}',
    b'{"k": [{"a": 1} {"a": 2}]}',
    b'{"k": [nul]}',
]
NO_DOCUMENTS += [b'{"k": ["a\nb"]}', b'{"k": ["\\x"]}']


@pytest.mark.parametrize("document", NO_DOCUMENTS)
def test_what_is_no_document_is_refused(document):
    with pytest.raises(LogError):
        read(document, "k")


@pytest.mark.parametrize(
    "document", [b"", b"{}", b'{"k": []}', b"1", b"[1] 2", b"[1", b"[1}", b"[", b"[1,]", b'["a']
)
def test_what_is_no_array_is_refused(document):
    with pytest.raises(LogError):
        read(document, None)


@pytest.mark.parametrize(
    "document", [b"{}", b'{"a": [1]}', b'{"k": null}', b'{"k": {"k": [1]}}', b'{"a": {"k": [1]}}']
)
def test_without_the_array_the_envelope_is_the_document(document):
    assert read(document, "k") == ([], document)


def test_what_python_writes_beyond_json():
    items = [{"a": float("inf"), "b": [float("-inf")], "c": "\ud83d"} for _ in range(20)]
    for layout in ({}, {"indent": 2}):
        assert read(json.dumps({"k": items}, **layout).encode(), "k")[0] == items
        text = json.dumps([{"x": float("nan"), "s": '\\ud800 "NaN, '}] * 20, **layout).encode()
        assert len(read(text, None)[0]) == 20
    assert read(b'\xef\xbb\xbf{"k": [1]}', "k") == ([1], b'\xef\xbb\xbf{"k": []}')


def test_an_escaped_key_is_the_key():
    assert read(rb'{"\u006b": [1, 2]}', "k") == ([1, 2], rb'{"\u006b": []}')


def test_deep_nesting_is_refused():
    document = b'{"k": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}"
    with pytest.raises(LogError, match="is nested too deeply, at byte 7"):
        read(document, "k", block_bytes=1 << 16)


def test_items_may_be_long():
    """As much is held as has to be; a value that is too long for memory is refused."""
    items = [{"a": "x" * size} for size in (1, 300, 2000, 5, 5, 5, 700)]
    for layout in ({}, {"indent": 2}):
        document = json.dumps({"k": items}, **layout).encode()
        assert read(document, "k")[0] == items
        with pytest.raises(LogError, match="has a value of more than 0 MB at byte"):
            list(array_of(document, "k", block_bytes=7, max_held=1500).items())


def test_a_file_is_scanned(tmp_path: Path):
    items = [{"id": number, "text": "x" * 10} for number in range(50)]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"status": "success", "samples": items}, indent=2))
    with storage_of(str(path)).open_reader(str(path)) as reader:
        array = JsonArray(str(path), reader.read, "samples", decode, block_bytes=200)
        found = list(array.items())
    assert json.loads(array.envelope) == {"status": "success", "samples": []}
    data = path.read_bytes()
    assert [json.loads(data[start : start + size]) for start, size, _ in found] == items


def test_memory_is_bounded_by_a_block():
    """The rest of a block and the next one are held: items are dropped once they were read."""
    item = json.dumps({"a": "x" * 100}).encode()
    held = 0
    array = array_of(b"[" + b", ".join([item] * 2000) + b"]", None, block_bytes=1000)
    for _ in array.items():
        held = max(held, len(array._data))
    assert held < 2 * 1000
    assert array.max_held == 512 << 20
