r"""Borders between questions, and the cuts between parts and between regions.

**Borders.** A question is an `evaluation_name` and a `sample_hash`. Its *prefix* is the beginning
of its records' keys up to the end of the later one of these fields. A *border* is such a prefix and
the size of the records that have it. In the default sort order, these are all records of the
question; if other fields come first, a question has several borders. The records of a border are
adjacent, and their keys are exactly those from `prefix` up to `prefix + FF`:

- A key in this range begins with the prefix, and the next byte, if any, is not FF. So the prefix
  ends with an end mark in this key, too, and not with the first half of an escaped NUL. The fields
  up to there are the same.
- Conversely, no field begins with FF, so a key with these fields is in the range.

A longer string may have the same prefix in bytes: `b\0…` is encoded as `b 00 FF …`. It sorts after
the range.

**Cuts between parts** depend on the content alone, and a change moves only cuts near it. Each
border has a *rank* that depends on its key alone. Borders between two values of the first sort
field (by default: between two evaluations) come first, in order of the fingerprint of that value;
then the others, in order of the fingerprint of their prefix. In this order, a border becomes a cut
if the range between its neighbouring cuts is larger than 1.5 × the part size, and both halves are
at least 0.5 × the part size. It follows:

- Parts are at least 0.5 × the part size, if there are several. A part larger than 1.5 × has no
  border in its middle, so one border holds all of it but less than the part size. So parts are
  smaller than 2 × the part size, unless a single question is larger than the part size.
- Changes within an evaluation that is larger than the part size before and after move no cut
  outside of it. Borders of evaluations are tried first, so until then it is within one range. A
  border beside it has more than the part size on that side, so only the size of the other side
  decides: at least 0.5 × the part size is enough. After that, less than this is left of other
  evaluations on each side of it in its range, and no cut fits there.

Borders that cannot become cuts are not held in memory: those that have a border of lower rank on
either side, at a distance of at most 0.25 × the part size. Proof: the places in a range that leave
enough on both sides form a stretch longer than 0.5 × the part size. If it includes such a border,
it includes one of the two others as well, which would have become a cut before. About 6 borders per
part remain, however many questions there are.

A small corpus gets smaller parts, so that several processes can make them (`Limits.fewest_parts`).
So when it doubles, its cuts move.

**Regions** only divide the work between tasks. They do not change the corpus, so they are cut at
approximate quantiles.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from operator import itemgetter

from msgspec import Struct

from fastrec.limits import current_limits, in_batches
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.keys import END, field_end
from fastrec.sorting.runs import Fence
from fastrec.storage import FileDigest, fingerprint

Border = tuple[bytes, int]  # a prefix, and the size of all records that have it

_BLOCK = 4_096  # borders per block of a file
_AT_ONCE = 512  # borders that are looked at together, at least


def prefix_maker(fields: Sequence[str]) -> Callable[[bytes], bytes]:
    """Make a function that cuts off what comes after some leading fields of a key."""

    def prefix(key: bytes) -> bytes:
        end = 0
        for field in fields:
            end = field_end(key, end, field)
        return key[:end]

    return prefix


class BorderSizes:
    def __init__(self, sort_fields: Sequence[str]) -> None:
        order = list(sort_fields)
        last = max(order.index("evaluation_name"), order.index("sample_hash"))
        self._prefix = prefix_maker(order[: last + 1])
        self.borders: list[Border] = []
        self._end = b""  # no key is less than this, so the first one begins a border

    def add(self, keys: Sequence[bytes], sizes: Sequence[int]) -> None:
        """Add records in order of their keys, which are not less than those added before."""
        first = 0
        while first < len(keys):
            if keys[first] >= self._end:
                prefix = self._prefix(keys[first])
                size = 0
                self._end = prefix + END
                self.borders.append((prefix, size))
            else:
                prefix, size = self.borders[-1]
            end = bisect_left(keys, self._end, first)
            self.borders[-1] = prefix, size + sum(sizes[first:end])
            first = end


def write_borders(path: str, borders: Sequence[Border]) -> FileDigest:
    return FileDigest(path, *write_blocks(path, in_batches(borders, _BLOCK), compressed=True))


def read_borders(path: str) -> Iterator[Border]:
    return map(tuple, chain.from_iterable(read_blocks(path)))


# Rank and position of a border, and the first key from there on.
_Candidate = tuple[int, int, bytes]

_WITHIN = 1 << 64  # added to the rank of borders within a value of the first sort field
_SAMPLED_BLOCKS = 1 << 17  # most entries of a `RegionSample`, in 25 MB


def choose_cuts(
    borders: Iterable[Border], part_bytes: int, sort_fields: Sequence[str]
) -> list[bytes]:
    """Choose the keys at which all parts but the first begin, given all borders in order.

    Consecutive borders with equal prefixes are added up. If there would be more parts than
    `Limits.most_parts`, or more borders would have to be held than `Limits.most_borders`, the part
    size is doubled until it fits.
    """
    first_field = prefix_maker(sort_fields[:1])
    limits = current_limits()
    total = 0

    def ranked() -> Iterator[_Candidate]:
        """Turn borders into candidates, and add up their sizes."""
        nonlocal total
        last = first_field_end = b""
        for prefix, size in borders:
            if prefix == last:  # one border in two regions
                total += size
                continue
            last = prefix
            if prefix >= first_field_end:
                # The cut is at the value itself, so that it stays where it is if questions are
                # added in front.
                value = first_field(prefix)
                first_field_end = value + END
                yield fingerprint(value), total, value
            else:
                yield _WITHIN + fingerprint(prefix), total, prefix
            total += size

    held: list[_Candidate] = []
    candidates = ranked()
    size = part_size_for(0, part_bytes)
    # As many as are held, so that it takes linear time.
    while more := list(islice(candidates, max(len(held), _AT_ONCE))):
        # The size of the corpus is known at the end. Until then, borders are held for the smallest
        # part size that it may have.
        size = max(size, part_size_for(total, part_bytes))
        held = _without_useless(held + more, size // 4)
        while len(held) > limits.most_borders and size // 4 < total:
            size *= 2
            held = _without_useless(held, size // 4)
    by_rank = sorted(held)
    size = max(size, part_size_for(total, part_bytes))
    while len(cuts := _cuts(by_rank, total, size)) >= limits.most_parts > 0:
        size *= 2
    return cuts


def _without_useless(candidates: Iterable[_Candidate], reach: int) -> list[_Candidate]:
    """Leave out candidates that have some of lower rank on both sides within reach.

    They cannot become cuts.
    """
    left = []
    # Candidates with none of lower rank after them so far: their ranks increase.
    rising: list[_Candidate] = []
    for candidate in candidates:
        while rising and candidate < rising[-1]:
            last = rising.pop()
            is_near = candidate[1] - last[1] <= reach
            if not (is_near and rising and last[1] - rising[-1][1] <= reach):
                left.append(last)
        rising.append(candidate)
    return sorted(left + rising, key=itemgetter(1, 2))


def part_size_for(text_bytes: int, part_bytes: int) -> int:
    """The part size of a corpus with this much text.

    >>> [part_size_for(mib << 20, 64 << 20) >> 20 for mib in (1, 255, 256, 511, 512)]
    [16, 16, 32, 32, 64]
    """
    limits = current_limits()
    while part_bytes // 2 >= limits.least_part and text_bytes < limits.fewest_parts * part_bytes:
        part_bytes //= 2
    return part_bytes


def _cuts(by_rank: Iterable[_Candidate], total: int, part_bytes: int) -> list[bytes]:
    ends = [0, total]
    keys = {}
    for _, position, key in by_rank:
        after = bisect_right(ends, position, 1, len(ends) - 1)
        low, high = ends[after - 1], ends[after]
        if 2 * (high - low) > 3 * part_bytes and 2 * (position - low) >= part_bytes <= 2 * (
            high - position
        ):
            ends.insert(after, position)
            keys[position] = key
    return [keys[position] for position in ends[1:-1]]


class RegionSample(Struct):
    """The first keys of blocks of all runs, with the sizes of these blocks.

    Its memory is bounded.
    """

    _most: int = _SAMPLED_BLOCKS
    _blocks: list[tuple[bytes, int]] = []

    def add(self, fences: Sequence[Fence], data_bytes: int) -> None:
        sizes = (
            end - start
            for start, end in pairwise([*(fence.data_offset for fence in fences), data_bytes])
        )
        self._blocks.extend(zip((fence.key for fence in fences), sizes, strict=True))
        while len(self._blocks) > self._most:
            self._thin()

    def _thin(self) -> None:
        """Make one entry of two neighbours."""
        self._blocks.sort()
        sizes = [size for _, size in self._blocks]
        if len(sizes) % 2:
            sizes.append(0)
        pairs = map(sum, zip(sizes[::2], sizes[1::2], strict=True))
        self._blocks = list(zip((key for key, _ in self._blocks[::2]), pairs, strict=True))

    def cuts(self, total_bytes: int, region_bytes: int, also: Iterable[bytes] = ()) -> list[bytes]:
        """Choose the keys at which all regions but the first begin, with those in `also`.

        Sampled sizes are scaled to `total_bytes`, the size of all runs. Regions hold at most about
        `region_bytes`.
        """
        blocks = sorted(self._blocks)
        sampled = max(1, sum(size for _, size in blocks))
        regions = -(-total_bytes // region_bytes)
        cuts = set(also)
        region = 0
        for (key, size), end in zip(blocks, accumulate(size for _, size in blocks), strict=True):
            # The middle of a block decides, so that regions are as often too large as too small.
            reached = (2 * end - size) * regions // (2 * sampled)
            if reached > region and key > blocks[0][0]:
                cuts.add(key)
                region = reached
        return sorted(cuts)
