"""Several machines, simulated on one: a scheduler, three workers and an S3 server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastrec.errors import UsageError
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.normalize.normalizing import Corpus
from tests.running import run_here
from tests.services import demo
from tests.services.dask import LOOSE, Cluster, Killer
from tests.services.s3 import S3, without_token

pytestmark = LOOSE

OUT = "s3://bucket/nightly/corpus"


@pytest.fixture(scope="module")
def lasting(server: S3) -> Iterator[Cluster]:
    """A scheduler whose workers know the server. Tests may kill workers."""
    with Cluster(workers=0, **server.environment) as running:
        yield running


@pytest.fixture
def three(lasting: Cluster) -> Cluster:
    """A scheduler with three workers."""
    lasting.restore(3)
    return lasting


def assert_same(s3: S3, local: Corpus) -> None:
    objects = s3.objects("nightly/")
    files = {
        without_token(key.removeprefix("nightly/corpus/")): data for key, data in objects.items()
    }
    assert {name: files[name] for name in local.same_for_all} == local.same_for_all
    assert sorted(files) == sorted(path.name for path in local.path.iterdir())
    assert s3.uploads() == []


def test_from_store_to_store_on_a_cluster(
    three: Cluster, inputs: str, s3: S3, local: Corpus
) -> None:
    """The corpus has the same bytes, and no work is left behind."""
    command = ["normalize", inputs, "-o", OUT, "--engine", "dask", "--scheduler", three.address]
    result = run_here(*command, "--part-size", "50KB", "--max-rejects", "100%")
    assert result.returncode == 0, result.stderr
    assert_same(s3, local)


@pytest.mark.long_only
def test_the_commands_of_the_readme(
    three: Cluster, s3: S3, capfd: pytest.CaptureFixture[str]
) -> None:
    """`make cluster-demo` runs the commands as printed, and the bytes are the same."""
    assert demo.run_demo(s3, three) == 0
    printed = capfd.readouterr().out
    assert "$ fastrec normalize s3://bucket/runs/" in printed
    assert (
        "The same bytes in the store and on this machine: part-00000.columns, part-00000.jsonl.zst, "
        "summary.json." in printed
    )


@pytest.mark.long_only  # tests/engine tries it on this machine
def test_a_worker_killed_in_each_pass_changes_no_byte(
    three: Cluster, inputs: str, s3: S3, local: Corpus
) -> None:
    """Its unfinished uploads are aborted, and another worker runs its tasks."""
    killer = Killer(three, "sort", "merge")
    options = Options(engine="dask", scheduler=three.address, part_size=50_000)
    run([inputs], OUT, options, progress=killer)
    assert killer.left == []
    assert_same(s3, local)


@pytest.mark.long_only  # as directories in tests/engine
def test_a_store_that_workers_cannot_reach_is_refused(inputs: str, s3: S3) -> None:
    """The error names workers without access to the store, before any work."""
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    with (
        Cluster(workers=1, **{**s3.environment, **nowhere}) as one,
        pytest.raises(UsageError, match=r"s3://bucket/.* cannot be reached by tcp://"),
    ):
        run([inputs], OUT, Options(engine="dask", scheduler=one.address))
    assert s3.objects("nightly/") == {}
