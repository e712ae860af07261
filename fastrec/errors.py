"""The errors of fastrec: one family, each with its data as attributes.

    FastrecError                    exit code 3, unless a subclass has another
    ├── UsageError                  the command line or an argument is wrong (exit code 2)
    │   └── NoMatchError            no record matches the filters
    ├── RefusedError                a corpus was made, but not published (exit code 1)
    ├── InvalidRecordError          in `judge.findings`: a line is not a valid record (exit code 1)
    ├── WorkerDiedError             a task killed its worker process twice, or never ended: the task
    ├── PanicError                  a native library panicked in a task: the task, the message
    ├── LockedError                 another run writes the same output: its process
    │   └── LostLeaseError          another run took the lease of this one, which was presumed dead
    ├── ClusterError                a cluster cannot be reached, or all its workers are gone
    ├── NothingValidError           no line of the input is a valid record; nothing was published
    ├── TooManyResultsError         a summary would not fit into memory: the limit, one result
    ├── BadShardsError              some shards could not be read; nothing was published
    ├── LogError                    a log of a harness is cut, damaged or foreign: path, reason
    ├── CorpusError                 a file of a corpus is damaged: path, reason, line
    ├── DamagedFileError            a work file is damaged, cut off or missing: path, reason
    └── ShardError                  a shard could not be read to its end: path, offset, reason
        ├── ShardMissingError       it does not exist, is not a file, or cannot be opened
        ├── ShardTruncatedError     it ends in the middle of a frame or member
        ├── ForeignFormatError      it is not JSON Lines but, for example, Parquet or CSV
        ├── ShardCorruptError       its bytes do not match its format or checksum
        └── ShardLimitError         reading it would exceed a limit (zstd window, memory)

An error is its fields and its message: `FastrecError` makes the constructor and the text, and
pickles it on its way back from a worker. `cli` maps the family to exit codes in one place.
"""

import errno
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar, dataclass_transform

# Up to the last @ before the path. A password may contain /, as keys of stores do; a port has
# digits only.
_USER = re.compile(r"://(?:[^/\s]*|[^\s/@:]+:(?!\d*/)[^\s@]*)@")
# in a store, ? may be part of a name or a glob
_QUERY = re.compile(r"(https?://[^?\s]*)\?\S+|(://[^?\s]*)\?\S*=\S*")
# Modules whose package has another name.
_PACKAGES = {"re2": "google-re2"}


def without_secrets(text: str, url: str = "") -> str:
    """Remove user, password and signature from URLs in a text; those of `url` anywhere in the text.

    >>> without_secrets("cannot read ftp://me:secret@host/a.jsonl or https://host/b.jsonl?token=secret")
    'cannot read ftp://…@host/a.jsonl or https://host/b.jsonl?…'
    >>> without_secrets("there is no bucket me:secret@host", "s3://me:secret@host/a.jsonl")
    'there is no bucket …@host'
    """
    for match in _USER.finditer(url):
        user = match[0][3:-1]
        password = user.partition(":")[2]
        secrets = (user, user.partition("/")[0], password, password.partition("/")[0])
        for secret in filter(None, secrets):
            text = text.replace(secret, "…")
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1\2?…", _USER.sub("://…@", text))


def shown(path: str) -> str:
    """Format a path for a message, without secrets.

    It is escaped if it has line breaks or bytes that are not UTF-8.
    """
    path = without_secrets(path)
    return path if path.isprintable() else repr(path)


def counted(number: int | Sized, noun: str) -> str:
    """Format a count, or that of some things, with its noun.

    >>> counted(1, "part"), counted(1_200, "line"), counted(["a", "b"], "model")
    ('1 part', '1,200 lines', '2 models')
    """
    if isinstance(number, Sized):
        number = len(number)
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Iterable[str], most: int = 10) -> str:
    """List the first names for a message, and count the others.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], most=2)
    ('a, b', 'a, b and 1 more')
    """
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more:,} more" if more > 0 else "")


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known names that are spelled most like a word or pattern.

    Case does not matter. A part of a name is near to the whole.

    >>> nearest("ORG/*", ["org/a", "b"]), nearest("subjct", ["metadata.subject"])
    (['org/a'], ['metadata.subject'])
    >>> nearest("gpt", ["other", "openai/gpt"]), nearest("xyz", ["abc"])
    (['openai/gpt'], [])
    """
    from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

    wanted = word.casefold().strip("*?")
    names = {name.casefold(): name for name in sorted(known)}
    matches = [name for name in names if len(wanted) > 2 and wanted in name]
    for cutoff in (0.8, 0.6, 0.5):  # what is much nearer than others stands alone
        matches = matches or get_close_matches(wanted, names, n=3, cutoff=cutoff)
    return [names[name] for name in matches[:3]]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End a message with the nearest names; empty if there are none.

    >>> did_you_mean("levle", ["level", "jobs"]), did_you_mean("x", ["level"])
    ("; did you mean 'level'?", '')
    """
    near = nearest(word, known)
    return f"; did you mean {', '.join(map(repr, near))}?" if near else ""


def arguments(paths: Sequence[str]) -> str:
    """Spell the first paths as arguments of a command that a message suggests.

    >>> arguments(["a b", "c"]), arguments(["a", "b", "c", "d"])
    ("'a b' c", 'a b c …')
    """
    return shlex.join(map(shown, paths[:3])) + (" …" if len(paths) > 3 else "")


def utf8(path: str) -> str:
    """Format a path for a document: without secrets, and valid UTF-8 whatever its bytes are."""
    return os.fsencode(without_secrets(path)).decode(errors="backslashreplace")


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the file to operating system errors that lack it.

    A failed write only says "no space left".
    """
    try:
        yield
    except OSError as exc:
        if exc.filename is None:
            exc.filename = path
        raise


@contextmanager
def writing(path: str, kind: str = "") -> Iterator[None]:
    """Turn an operating system error into one that says which file cannot be written."""
    try:
        yield
    except OSError as exc:
        raise FastrecError(f"{kind}{shown(path)} cannot be written: {exc.strerror or exc}") from exc


# Where something is wrong, if it is known.
_PLACES = {"offset": " at byte {:,}", "line": ", line {}"}


@dataclass_transform(eq_default=False)
class FastrecError(Exception):
    """The base class of all errors that fastrec raises on purpose.

    A subclass declares its fields by annotations, like a dataclass. They are the arguments of its
    constructor, and attributes. A subclass without annotations has the fields of its base. All
    values are also in `args`, from which `pickle` makes the error again. `_text` is the message,
    with the names of fields in braces.
    """

    exit_code = 3
    _fields: ClassVar[tuple[str, ...]] = ("message",)
    _text = "{message}"

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__) or cls._fields

    def __init__(self, *values: Any, **named: Any) -> None:
        named |= zip(self._fields[: len(values)], values, strict=True)
        for name in self._fields:
            setattr(self, name, named[name] if name in named else getattr(type(self), name))
        super().__init__(*vars(self).values())

    def __str__(self) -> str:
        fields = dict(vars(self))
        for name in fields.keys() & {"path", "address"}:
            fields[name] = shown(fields[name])
        for name, place in _PLACES.items():
            fields[name] = "" if fields.get(name) is None else place.format(fields[name])
        return self._text.format_map(fields)


class UsageError(FastrecError):
    """The caller asked for something impossible; the message says what to do instead."""

    exit_code = 2
    message: str


def need(purpose: str, *modules: str, error: Callable[[str], FastrecError] = UsageError) -> None:
    """Raise an error if an optional module is not installed, with the command that installs it.

    They are looked up, not imported: some start threads, and a process with threads must not fork.
    """
    missing = [_PACKAGES.get(name, name) for name in modules if find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise error(f"{purpose} needs {names}, not installed: pip install {' '.join(missing)}")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


class NoMatchError(UsageError):
    """No record matches the filters."""


class NothingValidError(FastrecError):
    """No line of the input is a valid record, so nothing was published."""

    shard: str
    lines: int
    rejected: int
    codes: Sequence[tuple[str, int]]

    def __str__(self) -> str:
        counts = (
            f"{counted(self.lines, 'line')}, {self.rejected:,} rejected, "
            f"{self.lines - self.rejected:,} blank"
        )
        if self.codes:
            counts += f" ({listed([f'{code}: {count:,}' for code, count in self.codes], 3)})"
        why = "Check the input"
        if any(code == "version.newer" for code, _ in self.codes):
            why = "Records are of a later version than the corpus: leave out --schema"
        elif self.rejected:
            why = f"Run `fastrec validate {shown(self.shard)}` to see why"
        return (
            f"no line is a valid record, so nothing was published: {counts}\n"
            f"{why}, or give --allow-empty to publish a corpus without records."
        )


class TooManyResultsError(FastrecError):
    """The summary of a corpus would not fit into memory.

    `evaluation` and `model` name one of its results.
    """

    most: int
    evaluation: str
    model: str

    def __str__(self) -> str:
        which = f"evaluation {shown(self.evaluation)}" + f", model {shown(self.model)}" * bool(
            self.model
        )
        return (
            f"the records have more than {self.most:,} results, one of which is {which}; a result "
            "is a model on a "
            "metric of an evaluation, and the summary holds all of them in memory. Nothing was "
            "published. If names "
            "contain ids or dates, move these to other fields; or normalize the evaluations in "
            "groups, with "
            "--evaluation"
        )


class RefusedError(FastrecError):
    """A corpus was made, but not published, because it failed a check.

    The old corpus stays as it was.
    """

    exit_code = 1
    output: str
    path: str
    reason: str
    summary: Any

    def __str__(self) -> str:
        path = shown(self.path)
        text = (
            f"refused: {self.reason}. {shown(self.output)} was not changed, and the refused "
            f"corpus is in {path}"
        )
        if self.summary.line_counts.rejected:
            text += f": run `fastrec rejects {path}` to see why lines were rejected"
        return text


class SecretsError(FastrecError):
    """Records that were to be exported have what looks like credentials; nothing was published."""

    exit_code = 1
    fields: str
    _text = (
        "nothing was published, because of what looks like credentials:\n  {fields}\n"
        "Remove these fields from the shards (`fastrec import --metadata` chooses the fields of an "
        "import), and revoke the credentials; or publish them with --allow-secrets"
    )


class WorkerDiedError(FastrecError):
    task: str
    _text = (
        "two worker processes died in the same task: {task}. They crashed, hung or were killed, "
        "perhaps because memory "
        "ran out. Nothing was published. Try fewer --jobs or less --memory, or leave the shard out"
    )


class PanicError(FastrecError):
    task: str
    reason: str
    _text = (
        "a native library panicked in this task: {task} ({reason}). Perhaps memory ran out. "
        "Nothing was published. Try "
        "fewer --jobs or less --memory, or leave the shard out"
    )


class LockedError(FastrecError):
    path: str
    holder: str
    _text = "{path} is being written by another run, {holder}: wait until it ends, or stop it"


class LostLeaseError(LockedError):
    _text = (
        "{path} was taken over by another run, {holder}, because this one did not renew its lease "
        "in time: nothing was "
        "published; run this again when the other one has ended"
    )


class ClusterError(FastrecError):
    address: str
    reason: str
    _text = "the Dask cluster at {address}: {reason}"


class ShardError(FastrecError):
    """A shard could not be read and checked to its last byte, so none of its records count."""

    path: str
    reason: str
    offset: int | None = None
    _text = "{path}: {reason}{offset}"


class ShardMissingError(ShardError):
    """The shard does not exist, is not a regular file, or cannot be opened."""


class ShardTruncatedError(ShardError):
    """The shard ends at `offset`, in the middle of a compressed frame: download it again."""

    _text = "{path}: {reason}"  # which says where the frame starts


class ForeignFormatError(ShardError):
    """The file is not JSON Lines; the reason says what it is, and which command reads it."""


class ShardCorruptError(ShardError):
    """The bytes of the shard do not match its format or its checksum."""


class ShardLimitError(ShardError):
    """Reading the shard takes more memory than a limit allows.

    The reason names the option that raises the limit.
    """


NO_MEMORY = "needs more memory than there is: try fewer --jobs"


def out_of_memory(path: str, what: str = "one of its lines") -> ShardLimitError:
    return ShardLimitError(path, f"{what} {NO_MEMORY}, or reject long lines with --max-line-bytes")


def is_out_of_memory(exc: BaseException) -> bool:
    """Whether memory ran out, whichever library says so.

    Most raise a MemoryError: Python itself, SQLite, pyarrow, zlib, bz2 and lzma. zstandard has one
    class for all errors, which says "Allocation error : not enough memory", and the operating
    system has a number. The loader of native libraries has a text only.
    """
    if isinstance(exc, OSError):
        return exc.errno == errno.ENOMEM
    text = str(exc).lower()
    if isinstance(exc, ImportError):
        return text.endswith(("failed to map segment from shared object", "cannot allocate memory"))
    is_zstd = type(exc).__module__.startswith("zstandard")
    return isinstance(exc, MemoryError) or (is_zstd and "not enough memory" in text)


class BadShardsError(FastrecError):
    errors: Sequence[ShardError]

    def __str__(self) -> str:
        shards = counted(self.errors, "shard")
        errors = "".join(f"  {error}\n" for error in self.errors)
        return (
            f"{shards} could not be read completely; nothing was published:\n{errors}"
            "Download them again, or leave them out. --skip-bad-shards publishes the others, if "
            "there are any."
        )


class CorpusError(FastrecError):
    path: str
    reason: str
    line: int | None = None
    _text = "{path}{line}: {reason}"


class LogError(FastrecError):
    path: str
    reason: str
    _text = "{path}: {reason}"


class NotATableError(LogError):
    """A file of a directory of tables is skipped; `reason` says which kind of file it is."""


class DamagedFileError(FastrecError):
    """A file of an earlier task or run is damaged, cut off or missing."""

    path: str
    reason: str
    _text = "{path} is damaged: {reason}"
