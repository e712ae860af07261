"""Faults of a store or of the network: some are retried, others end the run with nothing published."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastrec.errors import without_secrets
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.storage import object_store as object_client
from fastrec.storage import object_store as object_files
from fastrec.storage.object_store import OBJECT_STORE, ObjectStore
from fastrec.storage.shared_object import SharedObject
from tests.normalize.normalizing import Corpus
from tests.running import run_here
from tests.services.s3 import S3, Fault, without_token
from tests.sizes import LONG

OUT = "s3://bucket/nightly/corpus"
ROOT = Path(__file__).parents[2]
ATTEMPTS = {
    "AWS_MAX_ATTEMPTS": "3"
}  # of botocore, fewer than its default; s3fs makes five attempts all the same
ONE_ATTEMPT = {"AWS_MAX_ATTEMPTS": "1"}
USUAL_ATTEMPTS = {"AWS_MAX_ATTEMPTS": "5"}
"""The default of botocore. One request may run into all three faults of a kind, so three attempts are too few."""


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory for work files that are not in the store."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


class Clients:
    """The clients of this process, which keep the settings of the environment in which they were
    made.
    """

    def __init__(self) -> None:
        self._environment: dict[str, str] = {}

    def use(self, **environment: str) -> dict[str, str]:
        """Forget them if they were made for another environment, and all stores that did not
        answer.
        """
        OBJECT_STORE._silent.clear()
        if environment != self._environment:
            self._environment = environment
            object_client._file_system.cache_clear()
            if s3fs := sys.modules.get("s3fs"):
                s3fs.S3FileSystem.clear_instance_cache()
        return environment


CLIENTS = Clients()


@pytest.fixture(scope="module", autouse=True)
def _own_clients() -> Iterator[None]:
    """Other tests do not get these clients."""
    yield
    CLIENTS.use()


def fastrec(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: a new one takes two seconds to import and configure s3fs."""
    done = run_here(*arguments, environment=CLIENTS.use(**(ATTEMPTS | environment)))
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def fastrec_alone(
    *arguments: str, tmp_path: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process."""
    return subprocess.run(
        [sys.executable, "-m", "fastrec", *arguments],
        env={
            **os.environ,
            **ATTEMPTS,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def words_of(inputs: str, *options: str) -> tuple[str, ...]:
    return (
        "normalize",
        inputs,
        "-o",
        OUT,
        "--part-size",
        "50KB",
        "--max-rejects",
        "100%",
        "--jobs",
        "1",
        *options,
    )


def normalize(inputs: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return fastrec(*words_of(inputs, *options), **environment)


def same_bytes(s3: S3, local: Corpus) -> bool:
    objects = s3.objects("nightly/corpus/")
    manifest = json.loads(objects["nightly/corpus/manifest.json"])
    parts = manifest["parts"]
    names = [
        *(part["file"] for part in parts),
        *(part["columns"]["file"] for part in parts),
        manifest["summary_file"],
    ]
    return {
        without_token(name): objects[f"nightly/corpus/{name}"] for name in names
    } == local.same_for_all


PASSING: dict[str, Fault] = {
    "busy while reading": Fault("503", "GET", "/in/", after=7, times=3),
    "broken while reading": Fault("500", "GET", "/in/", after=7, times=2),
    "cut off while reading": Fault("reset", "GET", "/in/", after=7, times=3),
    "slow": Fault("slow", "", "shard-1", times=4, seconds=0.5),
    "busy while writing": Fault("503", "PUT", "/part-", times=3),
    "cut off while writing": Fault("reset", "PUT", "/part-", times=2),
    "busy while listing": Fault("503", "GET", "/bucket?list", times=3),
    "busy while looking": Fault("503", "HEAD", "", times=3),
    "busy while publishing": Fault("503", "PUT", "/manifest.json", times=3),
    "busy while sweeping": Fault("503", "POST", "delete", times=3),
    "uploads may not be listed": Fault("403", "GET", "bucket?uploads"),
    "no answer about the lease": Fault("lost", "PUT", "/.fastrec-writing", times=2),
    "no answer about the manifest": Fault("lost", "PUT", "/manifest.json", times=2),
}


TOGETHER: list[tuple[str, ...]] = [
    (
        "busy while reading",
        "busy while writing",
        "busy while listing",
        "busy while looking",
        "busy while publishing",
        "busy while sweeping",
    ),
    (
        "broken while reading",
        "slow",
        "cut off while writing",
        "no answer about the lease",
        "no answer about the manifest",
    ),
    ("cut off while reading", "uploads may not be listed"),
]
"""Faults that one run has, each in other requests. With `make test-long`, there is a run for each fault, too."""
EACH = [pytest.param((name,), marks=pytest.mark.long_only) for name in PASSING]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("names", [*TOGETHER, *EACH], ids=" and ".join)
def test_a_temporary_fault_costs_only_time(
    names: tuple[str, ...], inputs: str, s3: S3, local: Corpus
) -> None:
    """The corpus has the same bytes as without the fault."""
    faults = [PASSING[name] for name in names]
    s3.fail(*faults)
    work = (
        ["--work-dir", "s3://bucket/tmp"] if any(fault.has == "delete" for fault in faults) else []
    )
    result = normalize(inputs, *work, **USUAL_ATTEMPTS)
    assert (result.returncode, result.stderr.count("Traceback")) == (0, 0), result.stderr
    assert all(s3.injected_each()), s3.injected_each()
    s3.fail()
    assert same_bytes(s3, local)
    assert s3.uploads() == []


LASTING: dict[str, Fault] = {
    "no shard can be read": Fault("503", "GET", "/in/shard-2", after=1),
    "connections are cut": Fault("reset", "GET", "/in/shard-1", after=1),
    "no part can be written": Fault("503", "PUT", "/part-00001"),
    "no manifest can be put": Fault("500", "PUT", "/manifest.json"),
    "nothing can be listed": Fault("503", "GET", "/bucket?list", after=4),
    "no work can be written": Fault("503", "PUT", "/tmp/"),
    "no work can be read": Fault("reset", "GET", "/run-"),
}


IN_TURN: list[tuple[str, ...]] = [
    ("nothing can be listed", "connections are cut", "no part can be written"),
    ("no shard can be read", "no manifest can be put"),
    ("no work can be written", "no work can be read"),
]
"""Faults of runs one after the other, each later than the one before."""


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    "names",
    [*IN_TURN, *(pytest.param((name,), marks=pytest.mark.long_only) for name in LASTING)],
    ids=" then ".join,
)
def test_a_lasting_fault_ends_the_run(
    names: tuple[str, ...], inputs: str, s3: S3, local: Corpus
) -> None:
    """Exit code 3 with object and reason, no manifest, no upload left.

    The next run gives the expected bytes.
    """
    in_work = LASTING[names[0]].has in (
        "/tmp/",
        "/run-",
    )  # with work in the store, a run sends more requests
    work = ["--work-dir", "s3://bucket/tmp"] if LONG or in_work else []
    for name in names:
        s3.fail(LASTING[name])
        result = normalize(inputs, *work, **ONE_ATTEMPT)
        assert (result.returncode, result.stderr.count("Traceback")) == (3, 0), (
            name,
            result.stderr,
        )
        assert "s3://bucket/" in result.stderr
        assert s3.injected(), name
        s3.fail()
        assert "nightly/corpus/manifest.json" not in s3.objects("nightly/")
        assert s3.uploads() == []
    again = normalize(inputs, *work, **ONE_ATTEMPT)
    assert again.returncode == 0, again.stderr
    assert same_bytes(s3, local)


@pytest.mark.usefixtures("short_waits")
def test_an_upload_that_fails_halfway_is_aborted(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one part of an upload fails, the file fails, and nothing of it is left."""
    monkeypatch.setattr(object_files, "_UPLOAD_PART", 5 << 20)  # the smallest that S3 takes
    for name, value in CLIENTS.use(**ONE_ATTEMPT).items():
        monkeypatch.setenv(name, value)
    s3.fail(Fault("500", "PUT", "partNumber=2"))
    with (
        pytest.raises(OSError, match="s3://bucket/large"),
        OBJECT_STORE.create("s3://bucket/large") as file,
    ):
        for _ in range(2):
            file.write(bytes(5 << 20))
    assert [request for request in s3.requests() if "partNumber=1" in request]
    assert s3.injected()
    assert (s3.uploads(), s3.objects()) == ([], {})
    s3.fail()
    with OBJECT_STORE.create("s3://bucket/large") as file:
        for _ in range(2):
            file.write(bytes(5 << 20))
    assert {key: len(data) for key, data in s3.objects().items()} == {"large": 10 << 20}


@pytest.mark.long_only  # the test above tries the upload alone
@pytest.mark.usefixtures("short_waits")
def test_a_run_whose_upload_fails_halfway(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """It publishes nothing and leaves no upload; the next one succeeds."""
    # Not records: kept as rejected lines in the work directory, where compression does not make
    # them much smaller.
    texts = [base64.b64encode(random.Random(seed).randbytes(5 << 19)) for seed in range(3)]
    s3.put("in/a.jsonl.gz", gzip.compress(b"".join(b'{"a": "%s"}\n' % text for text in texts), 1))
    monkeypatch.setattr(object_files, "_UPLOAD_PART", 5 << 20)  # the smallest that S3 takes
    words = (
        "normalize",
        "s3://bucket/in",
        "-o",
        OUT,
        "--work-dir",
        "s3://bucket/tmp",
        "--jobs",
        "1",
        "--allow-empty",
    )
    s3.fail(Fault("500", "PUT", "partNumber=2"))
    result = fastrec(*words, **ONE_ATTEMPT)
    assert (result.returncode, result.stderr.count("Traceback")) == (3, 0), result.stderr
    assert [request for request in s3.requests() if "partNumber=1" in request]
    s3.fail()
    assert s3.uploads() == []
    assert "nightly/corpus/manifest.json" not in s3.objects("nightly/")
    assert fastrec(*words, **ONE_ATTEMPT).returncode == 1
    assert "nightly/corpus/manifest.json" in s3.objects("nightly/")


@pytest.mark.usefixtures("short_waits")
def test_no_server(inputs: str) -> None:
    """A server that does not exist ends the run soon, with exit code 2, because no input is found."""
    result = normalize(inputs, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert (result.returncode, result.stderr.count("Traceback")) == (2, 0), result.stderr
    assert "s3://bucket/in: cannot be found" in result.stderr


def test_sending_to_a_silent_store_ends(s3: S3) -> None:
    """Writing an object, a new object, or a large one in parts does not hang, and leaves no upload."""
    CLIENTS.use()
    store = ObjectStore()
    OBJECT_STORE.write_all("s3://bucket/a", b"a")  # connects, without a short time limit
    impatient = use_limits(Limits(store_request_seconds=0.7))
    large = impatient(store.create)("s3://bucket/large")
    with s3.frozen(), impatient:
        for send in (store.write_all, lambda path, data: SharedObject(store, path).write(data)):
            with pytest.raises(OSError, match="s3://bucket/b"):
                send("s3://bucket/b", b"b")
        with pytest.raises(OSError, match="s3://bucket/large"):
            large.write(bytes(40 << 20))
    large.give_up()
    OBJECT_STORE.remove_all("s3://bucket/large")
    assert "large" not in s3.objects()


def test_a_silent_store_is_not_asked_again_at_once(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a request that failed slowly, clean-up does not wait again.

    A while later the store is asked again.
    """
    CLIENTS.use()
    s3.put("a", b"")
    s3.fail(Fault("403", "GET"))
    store = ObjectStore()
    hasty = Limits(store_slow_seconds=0.0, store_rest_seconds=40.0)
    for limits, asked in ((LIMITS, True), (LIMITS, True), (hasty, True), (hasty, False)):
        s3.requests()
        with (
            use_limits(limits),
            pytest.raises(OSError, match="Access Denied" if asked else "the store does not answer"),
        ):
            store.read_all("s3://bucket/a")
        assert bool(s3.requests()) == asked
    s3.fail()
    clock = time.monotonic
    later = types.SimpleNamespace(**{**vars(time), "monotonic": lambda: clock() + 40.0})
    with pytest.raises(OSError, match="the store does not answer"):
        store.read_all("s3://bucket/a")
    monkeypatch.setattr(object_client, "time", later)
    assert store.read_all("s3://bucket/a") == b""


@pytest.mark.parametrize(
    "way", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long_only)]
)
def test_a_killed_run_is_resumed(
    way: signal.Signals, inputs: str, s3: S3, local: Corpus, tmp_path: Path
) -> None:
    """A run killed while it waits for an answer leaves no manifest, and the next run gives the same
    bytes.
    """
    moments = ["/.fastrec-writing", "/summary-", "/part-00001-"]
    for moment in moments if LONG else moments[1:2] if way == signal.SIGKILL else moments[2:]:
        s3.fail(Fault("slow", "PUT", moment, times=1, seconds=1.0))
        s3.requests()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fastrec",
                "normalize",
                inputs,
                "-o",
                OUT,
                "--part-size",
                "50KB",
                "--jobs",
                "1",
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
            stderr=subprocess.PIPE,
        )
        while not any(moment in request for request in s3.requests() if request.startswith("PUT")):
            assert process.poll() is None, (moment, process.communicate()[1])
            time.sleep(0.01)
        process.send_signal(way)
        _, said = process.communicate()
        assert process.returncode in (-way, 128 + way), (moment, said)
        assert "nightly/corpus/manifest.json" not in s3.objects("nightly/")
        time.sleep(
            1.0
        )  # the server carries out the request after a second, though nobody waits for the answer
    s3.fail()
    result = normalize(inputs, "--overwrite")
    assert result.returncode == 0, result.stderr
    assert same_bytes(s3, local)
    assert not [key for key in s3.objects("nightly/") if "/." in key]


def test_no_secret_is_printed_or_written(
    inputs: str, s3: S3, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither printed nor written, whether the run succeeds or fails, even with -vv."""
    secrets = (s3.environment["AWS_SECRET_ACCESS_KEY"], s3.environment["AWS_ACCESS_KEY_ID"])
    work = ("--work-dir", "s3://bucket/tmp")
    good = fastrec(*words_of(inputs, "-v", *work))
    s3.fail(Fault("500", "PUT", "/part-"))
    bad = fastrec_alone(*words_of(inputs, "-vv", "--overwrite", *work), tmp_path=tmp_path)
    assert (good.returncode, bad.returncode) == (0, 3), bad.stderr
    output = good.stdout + good.stderr + bad.stdout + bad.stderr + str(s3.objects()) + caplog.text
    assert [secret for secret in secrets if secret in output] == []


def test_a_password_in_a_url_is_not_printed() -> None:
    """The user, the password and the query are left out of messages."""
    for url in (
        "ftp://me:hunter2@127.0.0.1:9/in/a.jsonl",
        "http://127.0.0.1:9/a.jsonl?token=hunter2",
    ):
        result = fastrec("validate", url)
        assert result.returncode == 2, result.stderr
        assert "127.0.0.1:9" in result.stderr
        assert "hunter2" not in result.stderr + result.stdout
    for url in (
        "s3://me:hunter2@bucket/a.jsonl",
        "s3://me:hunter2/x@bucket/a.jsonl",
        "s3://me:hunter2@x@bucket/a",
    ):
        for command in (
            ("validate", url),
            ("normalize", str(ROOT / "corpora/demo"), "-o", f"{url}/out"),
        ):
            result = fastrec(*command)
            assert result.returncode in (2, 3), result.stderr
            assert "hunter2" not in result.stderr + result.stdout


def test_urls_without_secrets() -> None:
    """Passwords with @ and / in them, queries that are nothing but a secret.

    Names of stores stay as they are.
    """
    hidden = [
        "ftp://me:a@hunter2@host/a",
        "s3://me:a/hunter2@bucket/a",
        "https://host/a?hunter2",
        "http://h/a?x='hunter2'",
    ]
    assert [url for url in hidden if "hunter2" in without_secrets(f"{url} is gone")] == []
    kept = [
        "s3://bucket/run?/a.jsonl",
        "s3://bucket/a@b/c.jsonl",
        "http://host:80/a@b",
        "s3://bucket/k=v/c.jsonl",
    ]
    assert list(map(without_secrets, kept)) == kept


@pytest.mark.parametrize(
    ("hidden", "url", "advice"),
    [
        ("fsspec", "s3://bucket/in", "pip install s3fs"),
        ("s3fs", "s3://bucket/in", "pip install s3fs"),
        ("gcsfs", "gs://bucket/in", "pip install gcsfs"),
    ],
)
def test_a_package_that_is_not_installed_is_named(
    hidden: str, url: str, advice: str, tmp_path: Path
) -> None:
    """With what to do about it."""
    (tmp_path / f"{hidden}.py").write_text(
        f"raise ModuleNotFoundError('No module named {hidden}', name='{hidden}')\n"
    )
    result = fastrec_alone("validate", url, tmp_path=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (result.returncode, advice in result.stderr) == (2, True), result.stderr
