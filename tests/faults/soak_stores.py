"""Cases of the soak test in an object store: two runs, leases that lapse, kills, and requests that
fail.

The server is real enough: separate processes talk to it over HTTP, and it holds answers back, loses
them, or applies a request after its client was killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import fastrec
from tests.faults.processes import Process, generate
from tests.faults.store_run import LAPSE, attempt
from tests.services.s3 import S3, Fault

OUT = "s3://bucket/nightly/corpus"
KEYS = "nightly/corpus/"
MOMENTS = (
    "/.fastrec-writing",
    "/part-00000-",
    "/part-00001-",
    "/rejects-",
    "/summary-",
    "/manifest.json",
)
"""Requests during which a run is stopped or killed."""
REQUESTS = (
    ("GET", "list"),
    ("GET", "nightly"),
    ("HEAD", "nightly"),
    ("DELETE", ""),
    ("POST", "delete"),
    ("", ""),
)
"""Other requests that fail: method, and a part of the path."""
HELD = 2.5
"""Longest time in seconds that the server holds an answer back."""
FAULTS = ("503", "500", "reset", "slow", "lost")


class StoreCases:
    """A server, shards of two runs, and the corpora that may come out."""

    def __init__(self, folder: Path) -> None:
        self.server = S3()
        self._scratch = folder / "scratch"
        os.environ.update(self.server.environment, TMPDIR=str(self._scratch), AWS_MAX_ATTEMPTS="2")
        self._new_scratch()
        self._shards = {
            name: generate(folder / name, 300, 4, seed)
            for seed, name in enumerate(("a", "b", "old"), 1)
        }
        self._hashes: dict[str, str] = {}
        for name in self._shards:
            code, said = self._run(name)
            assert code == 0, said
            self._hashes[self._text_hash()] = name
            self._old = {
                key: data for key, data in self.server.objects(KEYS).items() if name == "old"
            }
        assert len(self._hashes) == 3

    def stop(self, dice: random.Random) -> int:
        """A run is stopped until its lease has lapsed, another one takes over, and the first one
        continues.
        """
        self._begin(dice)
        work = self._work(dice)
        self._hold(dice)
        first = self._start("a", dice.choice([1, 1, 2]), work)
        if not first.wait_until(self.server.injected) or not first.send(signal.SIGSTOP):
            first.end()
            self._check()
            return 0
        time.sleep(LAPSE + 0.3)
        second = self._start("b", 1, work)
        half_way = dice.random() < 0.5
        if half_way:  # the first one continues while the second one works
            second.sleep(dice.uniform(0.5, 3.0))
            first.send(signal.SIGCONT)
        codes = [second.end()]
        first.send(signal.SIGCONT)
        codes.append(first.end())
        assert {code for code, _ in codes} <= {0, 3}, codes
        assert any(code == 0 for code, _ in codes), codes
        self._check("a", "b")
        self._run_again()
        return 1

    def kill(self, dice: random.Random) -> int:
        """A run is killed while a request is under way, which the store may apply later."""
        self._begin(dice)
        work = self._work(dice)
        killed = 0
        for _ in range(dice.randint(1, 2)):
            self._hold(dice)
            process = self._start("a", 1, work)
            if process.wait_until(self.server.injected):
                killed += process.send(signal.SIGKILL)
            process.end()
            self._check()
        self._run_again()
        return killed

    def race(self, dice: random.Random) -> int:
        """Two runs begin at almost the same time: one of them publishes, or both one after the
        other.
        """
        self._begin(dice)
        first = self._start("a")
        first.sleep(dice.choice([0, 0, 0.1, 1.0]))
        second = self._start("b")
        codes = [first.end(), second.end()]
        assert {code for code, _ in codes} <= {0, 3}, codes
        assert any(code == 0 for code, _ in codes), codes
        self._check("a", "b")
        self._run_again()
        return 1

    def fail(self, dice: random.Random) -> int:
        """Requests fail, or succeed without an answer."""
        self._begin(dice)
        faults = [
            Fault(
                dice.choice(FAULTS),
                *dice.choice([*(("PUT", moment) for moment in MOMENTS), *REQUESTS]),
                after=dice.choice([0, 0, 1, 3]),
                times=dice.randint(1, 12),
                seconds=0.3,
            )
            for _ in range(dice.randint(1, 3))
        ]
        self.server.fail(*faults)
        code, said = self._start("a", 1, self._work(dice)).end()
        assert code in (0, 3), said
        injected = self.server.injected()
        self._check(*(["a"] if code == 0 else []))
        self._run_again()
        return injected

    def close(self) -> None:
        """Stop the server."""
        self.server.close()

    def _begin(self, dice: random.Random) -> None:
        """Start with an old corpus, or with nothing."""
        self._new_scratch()
        self.server.clear()
        self._has_old = dice.random() < 0.7
        for key, data in self._old.items() if self._has_old else ():
            self.server.put(key, data)
        self.server.requests()

    def _new_scratch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)

    def _work(self, dice: random.Random) -> str:
        return dice.choice(["", "", "s3://bucket/tmp"])

    def _run(self, name: str) -> tuple[int, str]:
        """Run in this process, which takes less time than starting another one."""
        return attempt(str(self._shards[name]), OUT, "1", str(self._scratch))

    def _start(self, name: str, jobs: int = 1, work: str = "") -> Process:
        words = (str(self._shards[name]), OUT, str(jobs), work)
        return Process([sys.executable, "-m", "tests.faults.store_run", *words])

    def _hold(self, dice: random.Random) -> None:
        """Let some request wait."""
        moment = dice.choice(MOMENTS)
        seconds = dice.choice([0.2, HELD])
        after = dice.randint(0, 3) if moment == MOMENTS[0] else 0  # a lease is renewed
        self.server.fail(Fault("slow", "PUT", moment, after=after, times=1, seconds=seconds))

    def _text_hash(self) -> str:
        return str(
            json.loads(self.server.objects(f"{KEYS}manifest.json")[f"{KEYS}manifest.json"])[
                "text_xxh3_128"
            ]
        )

    def _check(self, *owners: str) -> None:
        """Check that the corpus is whole, and made by one of the runs.

        Without owners, there may be none.
        """
        self.server.fail()
        if f"{KEYS}manifest.json" not in self.server.objects(f"{KEYS}manifest.json"):
            assert not owners, "there is no corpus"
            assert not self._has_old, "the old corpus is gone"
            return
        problems = fastrec.verify(OUT).problems
        assert not problems, problems
        owner = self._hashes.get(self._text_hash())
        assert owner in (owners or ("a", "old")), f"the corpus is that of {owner}, not of {owners}"

    def _run_again(self) -> None:
        """Run undisturbed: the corpus is the expected one, and nothing else is left.

        The store may apply a request of a killed run meanwhile. Then the first attempt fails, or a
        file appears later than it looked for leftovers; the next attempt removes it.
        """
        self.server.fail()
        for _ in range(3):
            code, said = self._run("a")
            left = set(self.server.objects("nightly/")) - self._files() if code == 0 else set()
            if code == 0 and not left:
                break
            time.sleep(HELD)  # until no request is under way any more
        assert code == 0, said
        self._check("a")
        assert not left, f"these are left: {left}"

    def _files(self) -> set[str]:
        manifest = json.loads(self.server.objects(f"{KEYS}manifest.json")[f"{KEYS}manifest.json"])
        names = {"manifest.json", manifest["summary_file"]}
        for part in manifest["parts"]:
            names |= {part["file"], part["columns"]["file"]}
        if manifest["rejects"]:
            names.add(manifest["rejects"]["file"])
        return {f"{KEYS}{name}" for name in names}
