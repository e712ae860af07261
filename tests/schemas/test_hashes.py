"""`sample_hash` has the documented values."""

from __future__ import annotations

import hashlib

import pytest
import xxhash

from fastrec.errors import UsageError
from fastrec.schemas.hashes import HASHES, LIST_HASHES, sample_hash
from fastrec.storage import fingerprint


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
def test_lists_of_references_have_hashes_of_their_own(algorithm: str) -> None:
    """A question may have no reference, one or several, and one that is no list counts as a list of
    one.
    """
    compute = LIST_HASHES[algorithm]
    assert compute("raw", "a") == compute("raw", ["a"])
    assert len({compute("raw", references) for references in ([], [""], ["a"], ["a", ""])}) == 4


def test_fingerprints_depend_only_on_the_bytes() -> None:
    """Bytes, a bytearray and a view of the same bytes have the same fingerprint on every machine."""
    assert (
        fingerprint(b"abc")
        == fingerprint(bytearray(b"abc"))
        == fingerprint(memoryview(b"xabc")[1:])
    )
    assert fingerprint(b"abc") == 0x78AF5F94892F3950
