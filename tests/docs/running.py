"""Run code blocks of each language in a directory with the files that pages use."""

from __future__ import annotations

import atexit
import configparser
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import zstandard

import fastrec
from tests.check_pairs.trees import UUIDS, Tree
from tests.docs.examples import check_example, examples_of
from tests.docs.reference import ROOT
from tests.docs.snippets import Block, commands_of, is_alike
from tests.services.commands import Commands

_BIN: Final = Path(sys.executable).parent
_TOOLS: Final = ("jq", "zstdcat")
# Names in generated records, and the names that pages use instead.
_NAMES: Final = {
    b"word_problems": b"GSM8K",
    b"org-0/model-1b": b"org/model",
    b"org-1/model-3b": b"other/model",
}
_GIVEN: Final = (
    "runs",
    "corpora",
    "logs",
    "results",
    "data",
    "flat",
    "corpus",
    "corpus-monday",
    "corpus-tuesday",
    "old-corpus",
    "old.gz",
    "new-corpus",
    "nights",
    "answers.csv",
    "details.toml",
    "prices.toml",
    "rules.toml",
)
_DETAILS: Final = """
source_metadata = {source_organization_name = "Acme", evaluator_relationship = "first_party"}
eval_library = {name = "mine", version = "1"}
metrics = {"*" = {lower_is_better = false}}
"""
# Blocks in these languages are jobs for every night. On the first night there is nothing but the
# shards.
_JOBS: Final = ("bash", "crontab", "ini")
# Absolute paths in pages: the installation of fastrec, and the directory of the evaluations.
_INSTALLED = "/opt/fastrec/bin"
_EVALS = "/srv/evals"


@cache
def given() -> dict[str, Path]:
    """The files that pages use, made once: shards, corpora of two nights, a compressed file."""
    root = Path(tempfile.mkdtemp(prefix="fastrec-pages-"))
    atexit.register(shutil.rmtree, root)
    fastrec.generate(
        root / "all", records=600, seed=1, shards=4, compression="none", mix="single_turn"
    )
    fastrec.generate(
        root / "messy", records=100, seed=2, shards=1, compression="none", rejects=0.1, warnings=0.1
    )
    for number, path in enumerate(sorted([*(root / "all").iterdir(), *(root / "messy").iterdir()])):
        text = b"".join(
            map(_renamed, path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True))
        )
        path.unlink()
        folder = (
            root / "runs" / f"2026-11-{14 + number // 2}"
            if path.parent.name == "all"
            else path.parent
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{path.name}.zst").write_bytes(zstandard.compress(text))
    fastrec.normalize(root / "runs", root / "corpus-monday")
    changed = [
        line.replace(b'"is_correct":true', b'"is_correct":false')
        if b"GSM8K" in line and b"other/model" in line
        else line
        for line in fastrec.cat(root / "corpus-monday")
    ]
    (root / "old.gz").write_bytes(gzip.compress(b"\n".join(changed)))
    fastrec.normalize(root / "old.gz", root / "corpus-tuesday")
    fastrec.normalize([root / "runs", root / "messy"], root / "corpus", track_sources=True)
    (root / "nights").mkdir()
    for night, corpus in (("2026-11-16", "corpus-monday"), ("2026-11-17", "corpus-tuesday")):
        shutil.copytree(root / corpus, root / "nights" / night)
    fastrec.generate(root / "new", records=100, seed=3, shards=1, schema="0.3.0", mix="single_turn")
    fastrec.normalize(root / "new", root / "new-corpus")
    (root / "answers.csv").write_text("model,question,response,correct\norg/model,2 + 2?,4,yes\n")
    (root / "details.toml").write_text(_DETAILS)
    rule = '[[rule]]\nname = "last"\nextract = "number"\ncompare = "number"\n'
    (root / "rules.toml").write_text(rule)
    (root / "prices.toml").write_text('["*"]\ninput = 2.5\noutput = 10\n')
    (root / "old-corpus").symlink_to("corpus-monday")
    (root / "corpora").symlink_to(ROOT / "corpora")
    (root / "logs").symlink_to(ROOT / "corpora" / "logs")
    (root / "results").symlink_to(ROOT / "corpora" / "logs" / "lm-eval")
    Tree(root, "data", "gsm8k", "org", "model").add()
    mmlu = f"data/mmlu/org/model/{UUIDS[1]}_samples.jsonl"
    Tree(root, "data", "mmlu", "org", "model").add(uuid=UUIDS[1], stated={"file_path": mmlu})
    Tree(root, "flat", "objects", "00", "5b").add()
    return {name: root / name for name in _GIVEN}


@cache
def fast_commands() -> Path:
    """The directory of a program `fastrec` that starts fast; pages run it about 150 times."""
    folder = Path(tempfile.mkdtemp(prefix="fastrec-commands-"))
    commands = Commands(folder)
    atexit.register(shutil.rmtree, folder)
    atexit.register(commands.close)
    return commands.folder


def _renamed(line: bytes) -> bytes:
    normal = fastrec.judge(line).normal
    for old, new in _NAMES.items():
        normal = normal.replace(old, new)
    return normal + b"\n" if normal else line


class Scene:
    """A directory in which the blocks of a section run in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("FASTREC_", "SLURM_"))
            },
            "PATH": os.pathsep.join([str(fast_commands()), str(_BIN), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            **(
                {"FASTREC_STATE": state} if (state := os.environ.get("FASTREC_STATE")) else {}
            ),  # corpora are known
            "SLURM_CPUS_PER_TASK": "2",
        }

    def run(self, block: Block) -> None:
        """Run a block; AssertionError if it fails or prints something else."""
        if block.directive.startswith("skip"):
            return
        self.provide("runs" if block.language in _JOBS else block.text)
        if block.directive.startswith("compile"):
            compile(block.text, block.name, "exec")
            return
        RUNNERS[block.language](self, block)

    def provide(self, text: str) -> None:
        """Copy the files that a block reads. What a block makes itself first appears after `-o`."""
        for name, path in given().items():
            mention = re.search(rf"(-o )?(?<![\w./-]){re.escape(name)}(?![\w.-])", text)
            target = self.folder / name
            if mention and not mention[1] and not target.exists():
                if path.is_symlink():
                    target.symlink_to(path.resolve())
                elif path.is_dir():
                    shutil.copytree(path, target)
                else:
                    shutil.copy(path, target)

    def command(self, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                argument.replace(_INSTALLED, str(_BIN)).replace(_EVALS, str(self.folder))
                for argument in arguments
            ],
            cwd=self.folder,
            env={**self.environment, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )

    def must(self, *arguments: str, code: int = 0, **options: str) -> str:
        done = self.command(*arguments, **options)
        assert done.returncode == code, (
            f"exit code {done.returncode} instead of {code}:\n{done.stdout}"
        )
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def save(self, block: Block, name: str) -> Path:
        """Write a block to a file. A comment in its first line may name the file."""
        named = re.fullmatch(r"# (\S*/)?([\w.-]+\.\w+).*", block.first_line)
        path = self.folder / (named[2] if named else name)
        path.write_text(block.text.replace(_INSTALLED, str(_BIN)).replace(_EVALS, str(self.folder)))
        return path


def missing_tools(blocks: list[Block]) -> list[str]:
    """Tools that blocks use and this machine does not have."""
    text = " ".join(shlex.quote(block.text) for block in blocks)
    return [tool for tool in _TOOLS if re.search(rf"\b{tool}\b", text) and not shutil.which(tool)]


def _shell(scene: Scene, block: Block) -> None:
    code = re.fullmatch(r"exit (\d+)", block.directive)
    scene.must("bash", "-euo", "pipefail", "-c", block.text, code=int(code[1]) if code else 0)


def _script(scene: Scene, block: Block) -> None:
    scene.must("bash", str(scene.save(block, "script.sh")))


def printed_by(scene: Scene, block: Block) -> list[str]:
    """The output of each command of a `console` block; all run in one shell."""
    ends = "\ncode=$?; printf '\\036'; (exit $code)\n"
    script = "".join(command.text.rstrip("\n") + ends for command in commands_of(block.text))
    done = scene.command("bash", "-c", script)
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout.split("\036")[:-1]


def _console(scene: Scene, block: Block) -> None:
    for command, found in zip(commands_of(block.text), printed_by(scene, block), strict=True):
        assert is_alike(command.output, found), f"{command.text}prints\n{found}"


def _python(scene: Scene, block: Block) -> None:
    scene.must("run-script", str(scene.save(block, "snippet.py")))


def _settings(scene: Scene, block: Block) -> None:
    scene.provide("runs/")
    scene.save(block, "fastrec.toml")
    scene.must("fastrec", "normalize", "runs/", "-o", "unused", "--dry-run")


def _unit(scene: Scene, block: Block) -> None:
    """Check a systemd unit, and run the command of a service."""
    path = scene.save(block, "fastrec.service")
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    if shutil.which("systemd-analyze"):
        if path.suffix == ".service":
            found = scene.must("systemd-analyze", "verify", str(path))
            assert path.name not in found, found
        else:
            scene.must("systemd-analyze", "calendar", unit["Timer"]["OnCalendar"])
    if path.suffix == ".service":
        assert unit["Service"]["WorkingDirectory"] == str(scene.folder)
        scene.must(*shlex.split(unit["Service"]["ExecStart"].replace("%%", "%")))


def _crontab(scene: Scene, block: Block) -> None:
    """Check the lines of a crontab and run their commands. Every % in a command must be escaped."""
    variables = {}
    for line in block.text.splitlines():
        if variable := re.fullmatch(r"([A-Z]+)=(.*)", line):
            variables[variable[1]] = variable[2].replace(_INSTALLED, str(_BIN))
        elif line and not line.startswith("#"):
            *fields, command = line.split(maxsplit=5)
            assert len(fields) == 5
            assert all(re.fullmatch(r"[\d*,/-]+", field) for field in fields)
            assert not re.search(r"(?<!\\)%", command)
            scene.must("/bin/sh", "-c", command.replace("\\%", "%"), **variables)


def _examples(_: Scene, block: Block) -> None:
    for example in examples_of(block.text):
        check_example(example)


def _record(_: Scene, block: Block) -> None:
    """Judge a record that is printed over several lines."""
    verdict = fastrec.judge(json.dumps(json.loads(block.text)))
    assert (verdict.errors, verdict.warnings, verdict.version) == ((), (), "0.3.0")


def _diagram(_: Scene, __: Block) -> None:
    """A diagram in characters: nothing to run."""


RUNNERS: Final[dict[str, Callable[[Scene, Block], None]]] = {
    "sh": _shell,
    "bash": _script,
    "console": _console,
    "python": _python,
    "toml": _settings,
    "ini": _unit,
    "crontab": _crontab,
    "diff": _examples,
    "json": _record,
    "text": _diagram,
}
"""How to run blocks, by language. A block in any other language is an error."""
