"""A pile of shards on disk that changes from night to night.

    pile = Pile(tmp_path / "in")
    DEEDS["rename"](pile, random.Random(7))
    run(pile.paths, out, ...)

Every write gets its own modification time, hours ago: a file that was just written is read again to
be sure, and tests would see only that.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from fastrec.sources.formats import Format
from tests.normalize.normalizing import SUFFIXES
from tests.samples import sample_of
from tests.sources.compressing import compressed

FORMATS = (Format.PLAIN, Format.ZSTD, Format.GZIP)
LATER = "0.3.0"
MODELS = ("org/a", "org/b", "org/c", "lab/d", "lab/e", "lab/f")
QUESTIONS = 6
BROKEN = (
    b"{",
    b"[]",
    b"",
    b"  ",
    b'{"a": 1}',
    b'{"a": "\xff\xfe"}',
    b"null",
    b'{"sample_id": 3, "sample_id": 4}',
)
"""Blank lines, and lines that are rejected."""
FIRST_TIME = 1_700_000_000 * 10**9


def record(
    evaluation: str, model: str, question: int, *, epoch: int = 0, score: float = 1.0, run: str = "1",
    version: str = "0.2.0",
) -> bytes:  # fmt: skip
    """Return a line that depends on the arguments alone, so that shards can share it.

    Two epochs are repeats, two scores contradictions, and two runs are equal but for evaluation_id.
    """
    answer = sample_of(version, "agentic" if question % 5 == 4 else "single_turn")
    answer |= {
        "evaluation_id": f"{evaluation}/{run}",
        "evaluation_name": evaluation,
        "model_id": model,
    }
    answer["sample_id"] = f"q-{question}"
    if question % 3 == 1:
        del answer["sample_hash"]
    answer["input"]["raw"] = f"{evaluation} {question}? " + "why " * (question * 7 % 60)
    if "output" in answer:
        said = f"{model} says {epoch}"
        answer["output"]["raw"] = said if version == "0.2.0" else [said]
    else:
        answer["error"] = f"{model} fails {epoch}"
    answer["evaluation"]["score"] = score
    return json.dumps(answer).encode()


def answers(
    evaluation: str, model: str, questions: Iterable[int] = range(QUESTIONS), **more: object
) -> list[bytes]:
    """Return one record of a model for each question."""
    return [record(evaluation, model, question, **more) for question in questions]  # type: ignore[arg-type]


class Pile:
    """Shards on disk, in the order in which they are given to `normalize`."""

    def __init__(self, folder: Path, evaluations: int = 5, models: int = 2) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        self.lines: dict[Path, list[bytes]] = {}
        """The lines of each shard."""
        self.gone: dict[Path, list[bytes]] = {}
        """Shards that were removed, and may come back."""
        self._ticks = 0
        self._names = 0
        folder.mkdir(parents=True)
        for evaluation in range(evaluations):
            for model in MODELS[:models]:
                self.add(answers(f"eval-{evaluation}", model), FORMATS[self._names % 3])

    def add(
        self, lines: Sequence[bytes], format_: Format = Format.PLAIN, folder: Path | None = None
    ) -> Path:
        """Add a shard with a new name."""
        path = self.new_path(format_, folder)
        self.write(path, lines, format_)
        return path

    def new_path(self, format_: Format = Format.PLAIN, folder: Path | None = None) -> Path:
        """Return a name that no shard ever had."""
        self._names += 1
        return (
            folder or self.folder
        ) / f"{self._names * 37 % 100:02d}-{self._names}.jsonl{SUFFIXES[format_]}"

    def write(self, path: Path, lines: Sequence[bytes], format_: Format | None = None) -> None:
        """Write a shard in place, in the format of its name unless another one is given."""
        self.write_bytes(
            path, compressed(format_ or format_of(path), b"".join(line + b"\n" for line in lines))
        )
        self.lines[path] = list(lines)
        if path not in self.paths:
            self.paths.append(path)

    def write_bytes(self, path: Path, data: bytes, mode: str = "wb") -> None:
        """Write to a file, and give it the next time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            file.write(data)
        self.touch(path)

    def touch(self, path: Path) -> None:
        """Give a file the next time."""
        self._ticks += 1
        os.utime(path, ns=(FIRST_TIME, FIRST_TIME + self._ticks * 10**6))

    def remove(self, path: Path) -> None:
        """Remove a shard; it may come back."""
        path.unlink()
        self.paths.remove(path)
        self.gone[path] = self.lines.pop(path)

    def rename(self, path: Path, new_path: Path) -> None:
        """Rename a shard. It keeps its place in the order."""
        new_path.parent.mkdir(parents=True, exist_ok=True)
        path.rename(new_path)
        self.paths[self.paths.index(path)] = new_path
        self.lines[new_path] = self.lines.pop(path)

    def evaluations(self) -> list[str]:
        """Return the names of all evaluations that have records."""
        records = [
            json.loads(line)
            for lines in self.lines.values()
            for line in lines
            if line not in BROKEN
        ]
        return sorted({str(answer["evaluation_name"]) for answer in records})

    def signatures(self) -> set[tuple[int, int, int]]:
        """Return size, time and inode of all shards."""
        found = [path.stat() for path in self.paths]
        return {(status.st_size, status.st_mtime_ns, status.st_ino) for status in found}

    def hashes(self) -> list[str]:
        """Return the hashes of all shards."""
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.paths]

    @property
    def is_later(self) -> bool:
        """Whether there are records of a later schema version."""
        return any(f'"{LATER}"'.encode() in line for lines in self.lines.values() for line in lines)


def format_of(path: Path) -> Format:
    """Return the format that the name of a shard promises."""
    return next(
        (format_ for format_, suffix in SUFFIXES.items() if suffix and path.suffix == suffix),
        Format.PLAIN,
    )


# What can happen between two nights. Each deed does nothing if there is nothing to do it to.

Deed = Callable[[Pile, random.Random], None]


def new_evaluation(pile: Pile, dice: random.Random) -> None:
    """A new evaluation, of one shard or one per model."""
    name = f"eval-{dice.randint(0, 60)}"
    models = MODELS[: dice.randint(1, 3)]
    each = [answers(name, model, range(dice.choice([1, 3, QUESTIONS, 20]))) for model in models]
    for lines in each if dice.random() < 0.5 else [list(chain(*each))]:
        pile.add(lines, dice.choice(FORMATS))


def new_model(pile: Pile, dice: random.Random) -> None:
    """One more model on an evaluation, for some of its questions."""
    questions = dice.sample(range(QUESTIONS), dice.randint(1, QUESTIONS))
    pile.add(
        answers(dice.choice(pile.evaluations() or ["eval-0"]), dice.choice(MODELS), questions),
        dice.choice(FORMATS),
    )


def giant_question(pile: Pile, dice: random.Random) -> None:
    """Many epochs of one question."""
    name = dice.choice(pile.evaluations() or ["eval-0"])
    question = dice.randrange(QUESTIONS)
    pile.add(
        [record(name, MODELS[0], question, epoch=epoch) for epoch in range(dice.choice([8, 25]))]
    )


def append(pile: Pile, dice: random.Random) -> None:
    """More lines at the end of a shard; a compressed one gets another frame."""
    path = dice.choice(pile.paths)
    more = answers(
        dice.choice(pile.evaluations() or ["eval-0"]), dice.choice(MODELS), epoch=dice.randint(0, 2)
    )
    text = b"".join(line + b"\n" for line in more)
    pile.write_bytes(path, compressed(actual_format(path), text), "ab")
    pile.lines[path] += more


def actual_format(path: Path) -> Format:
    """Return the format that the first bytes of a shard say."""
    head = path.read_bytes()[:4]
    return (
        Format.ZSTD
        if head == b"\x28\xb5\x2f\xfd"
        else Format.GZIP
        if head[:2] == b"\x1f\x8b"
        else Format.PLAIN
    )


def rewrite(pile: Pile, dice: random.Random) -> None:
    """Other records in a shard, perhaps in another compression, which its first bytes tell."""
    lines = answers(
        dice.choice(pile.evaluations() or ["eval-0"]), dice.choice(MODELS), epoch=dice.randint(0, 2)
    )
    pile.write(dice.choice(pile.paths), lines, dice.choice(FORMATS))


def replace_file(pile: Pile, dice: random.Random) -> None:
    """A new file takes the name of a shard, as an upload does; the content is the same or not."""
    path = dice.choice(pile.paths)
    lines = list(pile.lines[path])
    if dice.random() < 0.5:
        dice.shuffle(lines)
    fresh = path.with_name("upload.tmp")
    fresh.write_bytes(b"")
    fresh.replace(path)
    pile.write(path, lines)


def same_size(pile: Pile, dice: random.Random) -> None:
    """Other bytes of the same number in the same file, at a later time."""
    if plain := [path for path in pile.paths if actual_format(path) is Format.PLAIN]:
        path = dice.choice(plain)
        pile.write(path, list(map(other_of_same_size, pile.lines[path])), Format.PLAIN)


def in_secret(pile: Pile, dice: random.Random) -> None:
    """The same, but the file gets its old time again: only the content tells."""
    before = {path: path.stat() for path in pile.paths}
    same_size(pile, dice)
    for path, status in before.items():
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def other_of_same_size(line: bytes) -> bytes:
    """Return another record of the same size; the old one, if it is called again."""
    return line.translate(bytes.maketrans(b"07", b"70")) if b'"output"' in line else line


def drop_lines(pile: Pile, dice: random.Random) -> None:
    """A shard loses some of its lines."""
    path = dice.choice(pile.paths)
    pile.write(path, [line for line in pile.lines[path] if dice.random() < 0.5])


def remove(pile: Pile, dice: random.Random) -> None:
    """A shard is removed."""
    if len(pile.paths) > 1:
        pile.remove(dice.choice(pile.paths))


def come_back(pile: Pile, dice: random.Random) -> None:
    """A shard that was removed comes back."""
    if found := sorted(path for path in pile.gone if path not in pile.paths):
        path = dice.choice(found)
        pile.write(path, pile.gone[path])


def rename(pile: Pile, dice: random.Random) -> None:
    """A shard gets another name, and another place in the order of names."""
    path = dice.choice(pile.paths)
    pile.rename(path, pile.new_path(format_of(path), path.parent))


def move(pile: Pile, dice: random.Random) -> None:
    """A shard moves to another directory."""
    path = dice.choice(pile.paths)
    pile.rename(
        path,
        pile.folder
        / f"day-{dice.randint(0, 3)}"
        / f"{pile.new_path().name}{SUFFIXES[format_of(path)]}",
    )


def swap(pile: Pile, dice: random.Random) -> None:
    """Two shards swap their names.

    A name that promises compression is not for a text that is not UTF-8.
    """
    suffix = dice.choice(pile.paths).suffix
    alike = [path for path in pile.paths if path.suffix == suffix]
    if len(alike) > 1:
        one, two = dice.sample(alike, 2)
        aside = pile.folder / "aside"
        pile.rename(one, aside)
        pile.rename(two, one)
        pile.rename(aside, two)


def reorder(pile: Pile, dice: random.Random) -> None:
    """The arguments have another order."""
    dice.shuffle(pile.paths)


def share_lines(pile: Pile, dice: random.Random) -> None:
    """Some lines of one shard in another one, too, or twice in the same one."""
    source = dice.choice(pile.paths)
    target = dice.choice(pile.paths)
    lines = pile.lines[source]
    pile.write(
        target, pile.lines[target] + dice.sample(lines, dice.randint(0, min(len(lines), 12)))
    )


def copy(pile: Pile, dice: random.Random) -> None:
    """A copy of a shard, with its time or with a new one."""
    path = dice.choice(pile.paths)
    new_path = pile.new_path(format_of(path))
    shutil.copy2(path, new_path)
    if dice.random() < 0.5:
        pile.touch(new_path)
    pile.lines[new_path] = list(pile.lines[path])
    pile.paths.append(new_path)


def touch(pile: Pile, dice: random.Random) -> None:
    """A shard gets another time, perhaps that of this moment."""
    path = dice.choice(pile.paths)
    pile.touch(path)
    if dice.random() < 0.3:
        os.utime(path)


def break_lines(pile: Pile, dice: random.Random) -> None:
    """A shard gets blank and broken lines."""
    path = dice.choice(pile.paths)
    lines = pile.lines[path] + dice.choices(BROKEN, k=dice.randint(1, 6))
    dice.shuffle(lines)
    pile.write(path, lines)


def contradict(pile: Pile, dice: random.Random) -> None:
    """Contradictions and repeats of existing records, and records of another run, in a new shard."""
    name = dice.choice(pile.evaluations() or ["eval-0"])
    model = dice.choice(MODELS)
    lines = answers(name, model, range(3), score=0.0)
    lines += answers(name, model, range(2, 5), epoch=1)
    pile.add(lines + answers(name, model, run="2"), dice.choice(FORMATS))


def empty(pile: Pile, dice: random.Random) -> None:
    """A shard becomes empty."""
    pile.write(dice.choice(pile.paths), [], dice.choice(FORMATS))


def only_one(pile: Pile, dice: random.Random) -> None:
    """All shards but one are gone; not often, since little happens to a small pile."""
    if dice.random() < 0.7:
        return
    left = dice.choice(pile.paths)
    for path in list(pile.paths):
        if path != left:
            pile.remove(path)


def later_version(pile: Pile, dice: random.Random) -> None:
    """A shard of a later schema version."""
    name = dice.choice([*pile.evaluations(), "eval-later"])
    pile.add(answers(name, dice.choice(MODELS), version=LATER), dice.choice(FORMATS))


def no_later_version(pile: Pile, _: random.Random) -> None:
    """All shards of a later schema version are gone."""
    for path in list(pile.paths):
        if len(pile.paths) > 1 and any(f'"{LATER}"'.encode() in line for line in pile.lines[path]):
            pile.remove(path)


_UNSEEN: tuple[Deed, ...] = (rename, move, swap, reorder)
_SEEN: tuple[Deed, ...] = (
    *(
        new_evaluation,
        new_model,
        giant_question,
        append,
        rewrite,
        replace_file,
        same_size,
        drop_lines,
        remove,
    ),
    *(
        come_back,
        share_lines,
        copy,
        touch,
        break_lines,
        contradict,
        empty,
        only_one,
        later_version,
        no_later_version,
    ),
)
UNSEEN: dict[str, Deed] = {deed.__name__: deed for deed in _UNSEEN}
"""Deeds after which no shard has to be judged again."""
DEEDS: dict[str, Deed] = {deed.__name__: deed for deed in _UNSEEN + _SEEN}
"""All deeds that size, time and inode tell."""
SECRET: dict[str, Deed] = {**DEEDS, in_secret.__name__: in_secret}
"""All deeds that the content tells."""


def settle(pile: Pile) -> None:
    """Make sure that there are records: a corpus without any does not replace one with some."""
    if not any(line not in BROKEN for lines in pile.lines.values() for line in lines):
        pile.add(answers("eval-0", MODELS[0]))
