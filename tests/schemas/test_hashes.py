"""`sample_hash` has the documented values, and the cache never changes them."""

from __future__ import annotations

import hashlib

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from fastrec.errors import UsageError
from fastrec.schemas.hashes import HASHES, LIST_HASHES, TEXT_HASHES, cached_hash, sample_hash
from fastrec.storage.digests import fingerprint

# Inputs that fall into the same slot: equal lengths and equal ends.
RIVALS = [(first * 50 + "same end of the raw input, long enough", "ref") for first in "abcdef"]


@pytest.mark.parametrize("algorithm", HASHES)
def test_sample_hash_is_the_hash_of_both_inputs_joined(algorithm: str) -> None:
    """Only the joined text counts, in UTF-8, and the result is lower-case hex."""
    text = "Wieviel ist 6 × 7?\u2028" + "42 😀"
    expected = {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "xxh3_128": xxhash.xxh3_128_hexdigest(text.encode()),
    }[algorithm]
    for cut in range(len(text)):
        assert sample_hash(text[:cut], text[cut:], algorithm=algorithm) == expected


def test_an_unknown_algorithm_is_refused() -> None:
    """The message lists the algorithms."""
    with pytest.raises(UsageError, match="sha256, xxh3_128"):
        sample_hash("", "", algorithm="md5")


@pytest.mark.parametrize("algorithm", HASHES)
def test_the_cache_changes_no_hash(algorithm: str) -> None:
    """Inputs that share a slot, are too long for the cache, or repeat get the right hash."""
    plain, remembered = TEXT_HASHES[algorithm], cached_hash(TEXT_HASHES[algorithm])
    long = ("x" * 20_000, "y")
    for raw, reference in (*RIVALS, long, long, ("", ""), *RIVALS, *RIVALS):
        assert remembered(raw, reference) == plain(raw, reference)


@pytest.mark.parametrize("algorithm", HASHES)
def test_the_cache_tells_lists_of_references_apart(algorithm: str) -> None:
    """A question may have no reference, one or several, and one that is no list counts as a list of one."""
    plain, remembered = LIST_HASHES[algorithm], cached_hash(LIST_HASHES[algorithm])
    for _ in range(2):
        for reference in ([], [""], "", ["a"], "a", ["a", "b"], ["a", "c"], ["ab"], ["a", "x" * 20_000], ["a", ""]):
            assert remembered("raw", reference) == plain("raw", reference)
    assert remembered("raw", "a") == remembered("raw", ["a"])
    assert len({remembered("raw", reference) for reference in ([], [""], ["a"], ["a", ""])}) == 4


def test_a_cached_hash_is_not_computed_again() -> None:
    """The second time the hash comes from the cache, except for a long input."""
    asked: list[str] = []

    def compute(raw: str, reference: str) -> str:
        asked.append(raw)
        return raw + reference

    remembered = cached_hash(compute)
    asked.clear()
    for raw in ("short", "x" * 20_000):
        assert [remembered(raw, "!"), remembered(raw, "!")] == [raw + "!"] * 2
    assert asked == ["short", "x" * 20_000, "x" * 20_000]


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40) | st.lists(st.text(max_size=9))), max_size=30))
def test_the_cache_is_transparent(inputs: list[tuple[str, str | list[str]]]) -> None:
    """For any sequence of inputs, the hashes are those of the plain function."""
    texts, lists = cached_hash(TEXT_HASHES["sha256"]), cached_hash(LIST_HASHES["sha256"])
    for raw, reference in inputs + inputs:
        remembered = texts if isinstance(reference, str) else lists
        assert remembered(raw, reference) == sample_hash(raw, reference)


def test_fingerprints_depend_only_on_the_bytes() -> None:
    """Bytes, a bytearray and a view of the same bytes have the same fingerprint on every machine."""
    assert fingerprint(b"abc") == fingerprint(bytearray(b"abc")) == fingerprint(memoryview(b"xabc")[1:])
    assert fingerprint(b"abc") == 0x78AF5F94892F3950
