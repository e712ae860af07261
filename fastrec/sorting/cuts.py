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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from operator import itemgetter

from fastrec.limits import current_limits
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.keys import END, field_end
from fastrec.sorting.runs import Fence
from fastrec.storage import FileDigest, fingerprint

Border = tuple[bytes, int]  # a prefix, and the size of all records that have it

_BLOCK = 4_096  # borders per block of a file


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


def write_borders(path: str, borders: Iterable[Border]) -> FileDigest:
    return FileDigest(path, *write_blocks(path, _blocks(borders), compressed=True))


def _blocks(borders: Iterable[Border]) -> Iterator[tuple[list[bytes], list[int]]]:
    left = iter(borders)
    while block := list(islice(left, _BLOCK)):
        yield [prefix for prefix, _ in block], [size for _, size in block]


def read_borders(path: str) -> Iterator[Border]:
    for prefixes, sizes in read_blocks(path):
        yield from zip(prefixes, sizes, strict=True)


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
    most_parts = current_limits().most_parts
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

    candidates = _Candidates(part_bytes)
    candidates.add(ranked())
    candidates.grow(total)
    by_rank = sorted(candidates.held())
    part_bytes = candidates.part_bytes
    while len(cuts := _cuts(by_rank, total, part_bytes)) >= most_parts > 0:
        part_bytes *= 2
    return cuts


class _Candidates:
    """The borders that can become cuts.

    `_window` holds the latest borders, as far back as `_reach`, without those that have one of
    lower rank after them. So their ranks increase. Each has one of lower rank before it, except
    perhaps the first.
    """

    def __init__(self, part_bytes: int) -> None:
        # The size of the corpus is known at the end. Until then, borders are held for the smallest
        # part size that it may have.
        self._sizes = _part_sizes(part_bytes)
        self.part_bytes = self._sizes.pop()
        self._reach = self.part_bytes // 4
        self._fewest = current_limits().fewest_parts
        self._most = current_limits().most_borders
        self._window: deque[_Candidate] = deque()
        # whether the first one in the window has none of lower rank before it
        self._first_leads = False
        self._found: list[_Candidate] = []

    def add(self, candidates: Iterable[_Candidate]) -> None:
        window = self._window
        found = self._found
        for candidate in candidates:
            position = candidate[1]
            while window and window[0][1] < position - self._reach:
                found.append(window.popleft())
                self._first_leads = False
            while window and candidate < window[-1]:
                last = window.pop()
                if self._first_leads and not window:
                    found.append(last)
            if not window:
                self._first_leads = True
            window.append(candidate)
            if self._sizes:
                self.grow(position)
            if len(found) >= self._most and self._reach < position:
                self._double()

    def grow(self, size: int) -> None:
        """Choose the part size for a corpus of at least this size."""
        while self._sizes and size >= self._fewest * self._sizes[-1]:
            self._double()

    def _double(self) -> None:
        """Double the part size.

        What cannot become a cut with smaller parts cannot with larger parts.
        """
        held = sorted(self.held(), key=itemgetter(1, 2))
        self._window.clear()
        self._found.clear()
        self.part_bytes = self._sizes.pop() if self._sizes else 2 * self.part_bytes
        self._reach = self.part_bytes // 4
        self.add(held)

    def held(self) -> list[_Candidate]:
        return [*self._found, *self._window]


def _part_sizes(part_bytes: int) -> list[int]:
    """The part sizes of corpora of all sizes, the smallest one last.

    >>> [size >> 20 for size in _part_sizes(100 << 20)]
    [100, 50, 25]
    """
    sizes = [part_bytes]
    while sizes[-1] // 2 >= current_limits().least_part:
        sizes.append(sizes[-1] // 2)
    return sizes


def part_size_for(text_bytes: int, part_bytes: int) -> int:
    """The part size of a corpus with this much text.

    >>> [part_size_for(mib << 20, 64 << 20) >> 20 for mib in (1, 255, 256, 511, 512)]
    [16, 16, 32, 32, 64]
    """
    *larger, smallest = _part_sizes(part_bytes)
    return next(
        (size for size in larger if text_bytes >= current_limits().fewest_parts * size), smallest
    )


def _cuts(by_rank: Iterable[_Candidate], total: int, part_bytes: int) -> list[bytes]:
    ends = [0, total]
    keys: dict[int, bytes] = {}
    for _, position, key in by_rank:
        after = bisect_right(ends, position, 1, len(ends) - 1)
        low, high = ends[after - 1], ends[after]
        if 2 * (high - low) > 3 * part_bytes and 2 * (position - low) >= part_bytes <= 2 * (
            high - position
        ):
            ends.insert(after, position)
            keys[position] = key
    return [keys[position] for position in ends[1:-1]]


class RegionSample:
    """The first keys of blocks of all runs, with the sizes of these blocks.

    Its memory is bounded.
    """

    def __init__(self, most: int = _SAMPLED_BLOCKS) -> None:
        self._most = most
        self._blocks: list[tuple[bytes, int]] = []

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
