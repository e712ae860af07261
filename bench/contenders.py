"""All contenders by label, and the command that runs one in a fresh process.

fastrec is measured as the command that a user types. The other tools run as `python -m
bench.contenders LABEL JOB`. Each imports its own library, so only that contender fails if the
library is not installed.
"""

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from itertools import accumulate, cycle, groupby, islice, product
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen
from zipfile import ZipFile

import msgspec
import zstandard

from bench.logs import ANSWERS, files_in
from bench.measure import LEVEL, Job
from fastrec.corpus.trust import remember
from fastrec.engine import make_engine
from fastrec.normalize.options import MEMORY_PER_JOB
from fastrec.schemas.registry import DEFAULT_SCHEMA

NORMALIZE = "fastrec normalize"
FLOOR = "bare recompression"
_BLOCK = 1 << 20
_PIECE = 8 << 20  # of a file of a log, for one task
_HEADER = 30  # bytes before the name of a member of a zip archive


# The minimum for any tool that rewrites shards, or searches them.


def _for_each(job: Job, task: Callable[[Any], object], arguments: Iterable[Any]) -> list[Any]:
    """Run tasks in the pool that fastrec uses."""
    with make_engine(job.jobs) as engine:
        return [result for _, result in engine.run(task, arguments)]


def _batches(job: Job) -> Iterator[list[str]]:
    """Group shards into tasks: several tasks per process, and many tiny shards per task."""
    shards = job.shards()
    sizes = [Path(shard).stat().st_size for shard in shards]
    most = min(sum(sizes) / (8 * job.jobs), _PIECE)
    ends = zip(accumulate(sizes), shards, strict=True)
    for _, batch in groupby(ends, key=lambda end: end[0] // most):
        yield [shard for _, shard in batch]


class _Copy(NamedTuple):
    """A file to write with the text of a shard, or of some pieces of a file of a log."""

    source: str
    target: str
    pieces: Sequence[tuple[int, int]] = ()  # Places and sizes.


def _recompress_shards(job: Job) -> None:
    tasks = (
        [_Copy(shard, f"{job.output}/{Path(shard).name}") for shard in batch]
        for batch in _batches(job)
    )
    _for_each(job, _recompress, tasks)


def _recompress_log(job: Job) -> None:
    _for_each(job, _recompress, ([copy] for copy in _copies_of_log(job)))


def _copies_of_log(job: Job) -> Iterator[_Copy]:
    for number, path in enumerate(files_in(Path(job.inputs[0]))):
        pieces = [(start, _PIECE) for start in range(0, path.stat().st_size, _PIECE)]
        if path.suffix == ".eval":
            with ZipFile(path) as archive:
                members = archive.infolist()
            pieces = [
                (member.header_offset + _HEADER + len(member.filename), member.compress_size)
                for member in members
            ]
        for at, group in groupby(pieces, key=lambda piece: piece[0] // _PIECE):
            target = f"{job.output}/{number:03d}-{at:06d}.zst"
            yield _Copy(str(path), target, list(group))


def _recompress(copies: list[_Copy]) -> None:
    for copy in copies:
        writer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        with (
            Path(copy.source).open("rb") as source,
            Path(copy.target).open("wb") as target,
            writer.stream_writer(target) as packed,
        ):
            for text in _texts(copy, source):
                packed.write(text)


def _texts(copy: _Copy, source: BinaryIO) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor()
    if not copy.pieces:
        with decompressor.stream_reader(source, read_across_frames=True) as text:
            while block := text.read(_BLOCK):
                yield block
    for place, size in copy.pieces:
        source.seek(place)
        data = source.read(size)
        yield decompressor.decompress(data) if copy.source.endswith(".eval") else data


def _decompress_all(job: Job) -> None:
    _for_each(job, _decompress, job.shards())


def _decompress(shard: str) -> None:
    buffer = bytearray(_BLOCK >> 2)  # one buffer for all text: it stays in the cache
    reader = zstandard.ZstdDecompressor()
    with Path(shard).open("rb") as source, reader.stream_reader(source) as text:
        while text.readinto(buffer):
            pass


# Other tools that do some of the work of `normalize`.

_KEYS = "evaluation_name, sample_hash, model_id, evaluation_id, sample_id"
_OBJECTS = "input output messages interactions answer_attribution evaluation token_usage"
_TYPES = {
    **dict.fromkeys(_KEYS.replace("sample_hash", "schema_version").split(", "), "VARCHAR"),
    **dict.fromkeys(("interaction_type", "error"), "VARCHAR"),
    **dict.fromkeys((*_OBJECTS.split(), "performance", "metadata"), "JSON"),
}


def _duckdb(job: Job, query: Callable[[Any, str], str], memory_per_job: int = 0) -> None:
    """Read, hash, deduplicate, sort and write in one statement."""
    import duckdb  # noqa: PLC0415

    database = duckdb.connect(config={"threads": job.jobs, "temp_directory": job.scratch})
    if memory_per_job:
        database.execute(f"SET memory_limit = '{job.jobs * memory_per_job}B'")
    files = ", ".join(f"'{shard}'" for shard in job.shards())
    target = f"'{job.output}/corpus.jsonl.zst' (FORMAT json, COMPRESSION zstd)"
    database.execute(f"COPY ({query(database, files)} ORDER BY {_KEYS}) TO {target}")


def _plain_query(database: Any, files: str) -> str:
    """As it comes: DuckDB infers a type for each key."""
    read = f"read_ndjson([{files}], union_by_name = true)"
    columns = {row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
    others = "EXCLUDE (sample_hash)" if "sample_hash" in columns else ""
    digest = "sha256(input.raw || input.reference) AS sample_hash"
    return f"SELECT DISTINCT * {others}, {digest} FROM {read}"


def _tuned_query(_: Any, files: str) -> str:
    """As somebody who knows DuckDB would write it: given types, one record per identity."""
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in _TYPES.items())
    digest = "sha256((input->>'$.raw') || (input->>'$.reference')) AS sample_hash"
    read = (
        f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
        "maximum_object_size = 134217728)"
    )
    return f"SELECT DISTINCT ON ({_KEYS}) * FROM (SELECT {', '.join(_TYPES)}, {digest} FROM {read})"


def _polars(job: Job) -> None:
    """In lazy mode: it infers a schema from all lines, and writes one sorted file."""
    os.environ["POLARS_MAX_THREADS"] = str(job.jobs)
    import polars as pl  # noqa: PLC0415 - it reads the environment once

    asked = pl.col("input").struct.field("raw") + pl.col("input").struct.field("reference")
    digest = asked.map_elements(
        lambda text: sha256(text.encode()).hexdigest(), return_dtype=pl.String
    )
    frame = pl.scan_ndjson(job.shards(), infer_schema_length=None)
    hashed = frame.with_columns(digest.alias("sample_hash"))
    sink: Any = hashed.unique().sort(_KEYS.split(", ")).sink_ndjson
    sink(f"{job.output}/corpus.jsonl.zst", compression="zstd", compression_level=LEVEL)


def _gnu_sort(job: Job) -> None:
    """A shell pipeline that treats lines as bytes."""
    shards = shlex.join(job.shards())
    sort = f"LC_ALL=C sort -u --parallel {job.jobs} -S 1G -T {shlex.quote(job.scratch)}"
    target = shlex.quote(f"{job.output}/corpus.jsonl.zst")
    pipeline = (
        f"set -euo pipefail; zstd -dcq {shards} | {sort} | zstd -q -{LEVEL} "
        f"-T{job.jobs} -o {target}"
    )
    subprocess.run(["bash"], input=pipeline.encode(), check=True)


# Other libraries that validate records: the JSON parser of the standard library, made strict, and a
# validator. All of them run in the same pool as fastrec and count invalid lines.

IsValid = Callable[[Any], object]


def strict_loads(line: bytes) -> Any:
    """Parse a line.

    ValueError if it is not UTF-8, not JSON, repeats a key, or has NaN or an infinity.
    """
    return json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_refuse)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key in an object")
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _validate(make: Callable[[], IsValid], job: Job) -> int:
    """Check all lines; returns the number of invalid lines."""
    return sum(_for_each(job, _count_invalid, ((make, batch) for batch in _batches(job))))


def _count_invalid(task: tuple[Callable[[], IsValid], list[str]]) -> int:
    make, shards = task
    is_valid = make()
    invalid = 0
    for shard in shards:
        reader = zstandard.ZstdDecompressor().stream_reader(
            Path(shard).read_bytes(), read_across_frames=True
        )
        for line in reader.read().removesuffix(b"\n").split(b"\n"):
            try:
                invalid += not is_valid(strict_loads(line))
            except (ValueError, RecursionError):  # pydantic's errors are ValueErrors too
                invalid += 1
    return invalid


@cache
def _pydantic() -> IsValid:
    from bench.pydantic_record import Record  # noqa: PLC0415

    return Record.model_validate


@cache
def _jsonschema(module: str) -> IsValid:
    schema = json.loads(DEFAULT_SCHEMA.source)
    is_valid: IsValid = import_module(module).Draft7Validator(schema).is_valid
    return is_valid


# fastrec itself: commands as users type them, a leaderboard, and pages of `fastrec view`.

_OUTPUTS = {
    "normalize": f"--output {{}}/corpus --level {LEVEL} --max-rejects 100% -q",
    "import": "--output {}/records --strict",
    "export": "--output {}/tables -q",
}
_COMMANDS = (
    "normalize",
    "validate",
    "normalize CORPUS",
    *["cat", "export", "diff", "import", "sql"],
)
_ROWS = 1_000
# Between the questions that are asked for: they are in many parts, and at all places of them.
_STEP = 37


def _fastrec(label: str, job: Job) -> list[str]:
    """The command line of a contender that is a command of fastrec."""
    command = label.split()[1]
    options = [*job.options]
    if command != "sql":
        options += ["--jobs", str(job.jobs)]
    options += [word.format(job.output) for word in _OUTPUTS.get(command, "").split()]
    inputs = list(job.inputs)
    if label == "fastrec normalize CORPUS":  # trusted as if this build had just published them
        for manifest in Path(inputs[0]).rglob("manifest.json"):
            remember(manifest.read_bytes())
    elif command == "diff":
        inputs = [f"{inputs[0]}/old", f"{inputs[0]}/new"]
    elif "--input-column" in options:  # a directory has a description of the table, too
        inputs = [f"{inputs[0]}/{ANSWERS}"]
    return [sys.executable, "-m", "fastrec", command, *inputs, *options]


def _rank(job: Job) -> None:
    from fastrec.commands.leaderboard import leaderboard  # noqa: PLC0415

    leaderboard(job.inputs[0], jobs=job.jobs)


def _view(job: Job) -> None:
    """Start the server of `fastrec view`, and ask it for pages of a kind, one after the other."""
    from fastrec.commands.view import view  # noqa: PLC0415

    kind, number = job.options
    corpus = job.inputs[0]
    pages = {"table": _tables, "question": _questions}
    paths = [""] if kind == "start" else list(islice(pages[kind](corpus), int(number)))
    with view(corpus, jobs=job.jobs) as opened:
        thread = threading.Thread(target=opened.serve)
        thread.start()
        try:
            for path in paths:
                with urlopen(opened.address + path) as answer:
                    assert answer.read()
        finally:
            opened.stop()
            thread.join()


def _tables(corpus: str) -> Iterator[str]:
    """Tables of the evaluation with the most questions, in all orders."""
    from fastrec.answers.choosing import open_index  # noqa: PLC0415
    from fastrec.answers.table import SORTS  # noqa: PLC0415

    scope = max(open_index(corpus).scopes, key=lambda scope: scope.questions)
    for which, sort in cycle(product(["all", "disagreement"], SORTS)):
        yield f"questions?{_parameters(scope, sort=sort, size=str(_ROWS), which=which)}"


def _questions(corpus: str) -> Iterator[str]:
    """Questions of the evaluation with the most models."""
    from fastrec.answers.choosing import open_index  # noqa: PLC0415
    from fastrec.answers.table import Query  # noqa: PLC0415

    index = open_index(corpus)
    scope = max(index.scopes, key=lambda scope: len(scope.models))
    query = Query(evaluation_name=scope.evaluation_name, metric=scope.metric)
    rows = index.page(query, limit=_ROWS).rows
    for row in cycle(rows[::_STEP]):
        yield f"question/{row.sample_hash}?{_parameters(scope)}"


def _parameters(scope: Any, **more: str) -> str:
    metric = {} if scope.metric is None else {"metric": scope.metric}
    return urlencode({"evaluation": scope.evaluation_name, **metric, **more})


# What does the job in this process and its children, by label; None for commands of fastrec.
CONTENDERS: dict[str, Callable[[Job], object] | None] = {
    **{f"fastrec {command}": None for command in _COMMANDS},
    "fastrec leaderboard": _rank,
    "fastrec view": _view,
    "bare decompression": _decompress_all,
    "bare recompression of logs": _recompress_log,
    FLOOR: _recompress_shards,
    "DuckDB": partial(_duckdb, query=_plain_query),
    f"DuckDB, {MEMORY_PER_JOB >> 20} MiB per job": partial(
        _duckdb, query=_plain_query, memory_per_job=MEMORY_PER_JOB
    ),
    "DuckDB, tuned by hand": partial(_duckdb, query=_tuned_query),
    "DuckDB, tuned by hand, 8GB": partial(_duckdb, query=_tuned_query, memory_per_job=4 * 10**9),
    "Polars": _polars,
    "zstd | sort -u | zstd": _gnu_sort,
    "pydantic + strict json": partial(_validate, _pydantic),
    "jsonschema-rs + strict json": partial(_validate, partial(_jsonschema, "jsonschema_rs")),
    "jsonschema + strict json": partial(_validate, partial(_jsonschema, "jsonschema")),
}


def command_of(label: str, job: Job) -> list[str]:
    """The command that runs a contender in a fresh process."""
    if CONTENDERS[label] is None:
        return _fastrec(label, job)
    described = msgspec.json.encode(job).decode()
    return [sys.executable, "-m", "bench.contenders", label, described]


def main(label: str, described: str) -> None:
    """Let a contender do a job."""
    run = CONTENDERS[label]
    assert run, "a command of fastrec is a process of its own"
    run(msgspec.json.decode(described, type=Job))


if __name__ == "__main__":
    main(*sys.argv[1:])
