"""Large logs of harnesses, generated from a seed.

`logs.json` has the documents of the harnesses; the writers fill in texts and numbers.

    lm-eval   the samples of two tasks and the results of their run: four continuations with two
              metrics, and a worked answer from which two filters extract. Lines have about 2 KB, or
              about 7 KB with examples in the prompts
    Inspect   transcripts of agents in a `.eval`: messages, and again as events, which are more than
              half of the text; long texts in them are attachments, as Inspect writes since 0.3.206
    HELM      indented JSON; tokens with their log-probabilities are most of the text
    a table   CSV with a question, an answer of 1 KB, its verdict and two columns of metadata
"""

import csv
import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from fastrec.commands.generate.text import Rng, phrase_tables

Document = dict[str, Any]
ANSWERS = "answers.csv"
_DATE = "2026-03-01T12-00-00.000000"
_encode = msgspec.json.Encoder().encode


_TEMPLATES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def _make(harness: str, template: str, **facts: Any) -> Document:
    """A document of a harness."""
    document: Document = _filled(_TEMPLATES[harness][template], facts)
    return document


def _filled(template: Any, facts: Mapping[str, Any]) -> Any:
    """A template with `$name` replaced by facts."""
    if isinstance(template, dict):
        return {key: _filled(value, facts) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, facts) for value in template]
    is_name = isinstance(template, str) and template.startswith("$")
    return facts[template[1:]] if is_name else template


# lm-eval


def _write_lm_eval(seed: int, directory: Path, questions: int, shots: int = 0) -> tuple[int, int]:
    tasks = {
        "choices": _choices(seed, questions, shots),
        "generation": _generation(seed, questions, shots),
    }
    results = {}
    samples = 0
    size = 0
    for task, facts in tasks.items():
        totals: defaultdict[str, float] = defaultdict(float)
        with (directory / f"samples_{task}_{_DATE}.jsonl").open("wb") as file:
            for sample in facts:
                texts = {**sample, "doc": json.dumps(sample["doc"])}
                for name in ("doc", "prompt", "target"):
                    sample[f"{name}_hash"] = sha256(texts[name].encode()).hexdigest()
                line = _make("lm-eval", task, **sample)
                for metric in line["metrics"]:
                    totals[f"{metric},{line['filter']}"] += line[metric]
                size += file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                samples += 1
        means = {metric: total / questions for metric, total in totals.items()}
        results[task] = {"alias": task, **means}
    document = _make("lm-eval", "results", results=results, questions=questions)
    path = directory / f"results_{_DATE}.json"
    return samples, size + path.write_bytes(json.dumps(document, indent=2).encode())


def _choices(seed: int, questions: int, shots: int) -> Iterator[Document]:
    rng = Rng(seed << 1)
    write = partial(phrase_tables(seed).latin[0].write, rng)
    examples = "".join(f"{write(26)}\n\n" for _ in range(shots))
    for number in range(questions):
        context = write(rng.between(12, 28))
        endings = [write(rng.between(3, 9)) for _ in range(4)]
        values = [-round(rng.random() * 60, 4) for _ in endings]
        by_length = [value / len(ending) for value, ending in zip(values, endings, strict=True)]
        target = rng.below(4)
        answers = [[str(value), "False"] for value in values]
        yield {
            "number": number,
            "doc": {"ind": number, "ctx": context, "endings": endings, "label": str(target)},
            "target": str(target),
            "prompt": examples + context,
            **{f"ending{place}": f" {ending}" for place, ending in enumerate(endings)},
            "answers": answers,
            "resps": [[answer] for answer in answers],
            "acc": float(values.index(max(values)) == target),
            "acc_norm": float(by_length.index(max(by_length)) == target),
        }


def _generation(seed: int, questions: int, shots: int) -> Iterator[Document]:
    table = phrase_tables(seed).latin[1]

    def asked(rng: Rng) -> str:
        return f"Question: {table.write(rng, rng.between(15, 40))}?\nAnswer:"

    def worked(rng: Rng) -> str:
        return f"{table.write(rng, rng.between(20, 50))}. The answer is {rng.below(999)}."

    examples = "".join(f"{asked(rng)} {worked(rng)}\n\n" for rng in map(Rng, range(shots)))
    for name in ("strict-match", "flexible-extract"):
        rng = Rng((seed << 1) + 1)  # the same questions and answers again
        scores = Rng(len(name))
        for number in range(questions):
            question = asked(rng)
            answer = worked(rng)
            target = f"{worked(rng)}\n#### {rng.below(999)}"
            yield {
                "number": number,
                "doc": {"question": question, "answer": target},
                "target": target,
                "prompt": examples + question,
                "answers": [answer.rsplit(maxsplit=1)[-1].strip(".")],
                "resps": [[answer]],
                "filter": name,
                "exact_match": float(scores.chance(0.4)),
            }


# Inspect

_TOOLS = ("bash", "python", "web_search", "text_editor")
_LONG = 100  # characters; longer texts in events become attachments


def _write_inspect(seed: int, directory: Path, samples: int) -> tuple[int, int]:
    solved = 0
    facts: Document = {"plan": _TEMPLATES["inspect"]["plan"], "samples": samples}
    facts["spec"] = _make("inspect", "spec", **facts)
    with (directory / "2026-05-01T12-00-00-00-00_agent_log.eval").open("wb") as file:
        archive = _Archive(file)
        archive.add("_journal/start.json", _make("inspect", "start", **facts))
        for number in range(samples):
            sample = _Transcript(seed, number).document(number)
            solved += sample["scores"]["checker"]["value"] == "C"
            archive.add(f"samples/task-{number}_epoch_1.json", sample)
        accuracy = solved / samples
        archive.add("header.json", _make("inspect", "header", accuracy=accuracy, **facts))
        archive.finish()
    return samples, archive.text_bytes


class _Transcript:
    """The messages, events and attachments of one sample."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = Rng((seed << 32) + number)
        tables = phrase_tables(seed)
        self._write = partial(tables.latin[0].write, self._rng)
        self._log = partial(tables.log.write, self._rng)
        write = partial(tables.latin[0].write, Rng(seed))
        self._tools = [
            _make("inspect", "tool", name=name, description=write(25), code=write(12))
            for name in _TOOLS
        ]
        self._messages: list[Document] = []
        self._events: list[Document] = []
        self._attachments: dict[str, str] = {}

    def document(self, number: int) -> Document:
        """The document of a member."""
        rng = self._rng
        task = self._write(rng.between(40, 120))
        self._messages.append({"id": self._id(), "content": self._write(120), "role": "system"})
        self._messages.append({"id": self._id(), "content": task, "role": "user"})
        for _ in range(rng.between(4, 24)):
            self._turn()
        completion = self._write(rng.between(10, 60))
        last = {"id": self._id(), "content": completion, "role": "assistant"}
        self._messages.append(last)
        score = _make(
            "inspect",
            "score",
            verdict=rng.choice("CI"),
            answer=str(rng.below(99)),
            explanation=self._write(20),
        )
        usage = self._usage()
        self._event("score", score=score, usage=usage)
        return _make(
            "inspect",
            "sample",
            sample_id=f"task-{number}",
            task=task,
            messages=self._messages,
            last=last,
            completion=completion,
            usage=usage,
            score=score,
            level=number % 3,
            events=self._events,
            seconds=round(rng.random() * 90, 3),
            id=self._id(),
            attachments=self._attachments,
            refs=[
                {**message, "content": self._attached(message["content"])}
                for message in self._messages
            ],
        )

    def _turn(self) -> None:
        """Let the model call a tool, and the tool answer."""
        rng = self._rng
        content: Any = self._write(rng.between(2, 30))
        if rng.chance(0.3):
            thought = {"type": "reasoning", "reasoning": self._write(rng.between(10, 80))}
            content = [thought, {"type": "text", "text": content}]
        output = self._log(rng.long_tail(60, 600))
        facts: Document = {
            "id": self._id(),
            "call_id": f"call_{rng.bits(64):016x}",
            "tool": rng.choice(_TOOLS),
            "code": self._log(rng.between(2, 40)),
            "content": content,
            "output": output,
            "attached": self._attached(output),
            "count": len(self._messages),
            "tools": self._tools,
            "usage": self._usage(),
        }
        facts["call"] = _make("inspect", "call", **facts)
        facts["turn"] = _make("inspect", "turn", **facts)
        self._event("model", **facts)
        self._event("tool", **facts)
        self._messages += [facts["turn"], _make("inspect", "result", **facts)]

    def _event(self, kind: str, **facts: Any) -> None:
        head = {"uuid": self._id(), "span_id": self._id(), "working_start": self._rng.random()}
        head["timestamp"] = "2026-05-01T12:00:00+00:00"
        self._events.append({**head, "event": kind, **_make("inspect", f"{kind} event", **facts)})

    def _attached(self, text: Any) -> Any:
        if not isinstance(text, str) or len(text) <= _LONG:
            return text
        name = f"{zlib.crc32(text.encode()):032x}"
        self._attachments[name] = text
        return f"attachment://{name}"

    def _usage(self) -> dict[str, int]:
        read = self._rng.between(500, 9_000)
        written = self._rng.between(5, 900)
        return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}

    def _id(self) -> str:
        return f"{self._rng.bits(104):026x}"


class _Archive:
    """A zip archive whose members are compressed by zstd, which `zipfile` cannot write."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._directory: list[bytes] = []
        self._compress = zstandard.ZstdCompressor(level=3).compress
        self.text_bytes = 0

    def add(self, name: str, document: Any) -> None:
        """Add a member."""
        text = _encode(document)
        data = self._compress(text)
        place = self._file.tell()
        sizes = (zlib.crc32(text), len(data), len(text), len(name), 0)
        # Version 4.5, names in UTF-8, compressed by zstd (method 93), no time.
        common = struct.pack("<3H4x3L2H", 45, 0x800, 93, *sizes)
        self._file.write(b"PK\3\4" + common + name.encode() + data)
        entry = struct.pack(f"<4sH{len(common)}s10xL", b"PK\1\2", 45, common, place)
        self._directory.append(entry + name.encode())
        self.text_bytes += len(text)

    def finish(self) -> None:
        """Write the directory."""
        place = self._file.tell()
        entries = b"".join(self._directory)
        count = len(self._directory)
        end = struct.pack("<4s4x2H2L2x", b"PK\5\6", count, count, len(entries), place)
        self._file.write(entries + end)


# HELM


def _write_helm(seed: int, directory: Path, instances: int) -> tuple[int, int]:
    templates = _TEMPLATES["helm"]
    folder = directory / "stories"
    folder.mkdir()
    head = _indented({"adapter_spec": templates["adapter"], "request_states": []})
    with (folder / "scenario_state.json").open("wb") as file:
        file.write(head.removesuffix(b"[]\n}"))
        for piece in _array(_state(seed, number) for number in range(instances)):
            file.write(piece.replace(b"\n", b"\n  "))
        file.write(b"\n}")
    totals: defaultdict[str, float] = defaultdict(float)
    with (folder / "per_instance_stats.json").open("wb") as file:
        file.writelines(_array(_stats(seed, number, totals) for number in range(instances)))
    means = [_stat(name, total / instances) for name, total in totals.items()]
    run_spec = _make("helm", "run_spec", **templates)
    documents = {"run_spec": run_spec, "scenario": {"name": "stories"}, "stats": means}
    for name, document in documents.items():
        (folder / f"{name}.json").write_bytes(_indented(document))
    return instances, sum(path.stat().st_size for path in folder.iterdir())


def _indented(document: Any) -> bytes:
    return msgspec.json.format(_encode(document), indent=2)


def _array(items: Iterable[Any]) -> Iterator[bytes]:
    """An indented array, piece by piece."""
    separator = b"["
    for item in items:
        yield separator + _indented([item])[1:-2]
        separator = b","
    yield b"\n]"


def _state(seed: int, number: int) -> Document:
    """A request and its result."""
    rng = Rng((seed << 32) + number)
    write = partial(phrase_tables(seed).latin[0].write, rng)
    question = write(rng.between(10, 60))
    shots = phrase_tables(seed).latin[0].write(Rng(seed), 60)
    words = [f" {word}" for word in write(rng.between(20, 90)).split(" ")]
    return _make(
        "helm",
        "state",
        id=f"id{number}",
        question=question,
        reference=write(5),
        prompt=f"{shots}\n\nQuestion: {question}\nAnswer:",
        text="".join(words),
        logprob=round(rng.random() * 3, 6),
        tokens=[{"text": word, "logprob": -round(rng.random() * 5, 6)} for word in words],
    )


def _stats(seed: int, number: int, totals: dict[str, float]) -> Document:
    """All metrics of an instance; adds them up."""
    rng = Rng((seed << 33) + number)
    templates = _TEMPLATES["helm"]
    values = {name: float(rng.below(900)) for name in templates["counts"]}
    values |= {name: float(rng.chance(0.3)) for name in templates["scores"]}
    for name, value in values.items():
        totals[name] += value
    stats = [_stat(name, value) for name, value in values.items()]
    return _make("helm", "stats", id=f"id{number}", stats=stats)


def _stat(name: str, value: float) -> Document:
    return _make("helm", "stat", name=name, value=value, square=value * value)


# A table


def _write_table(seed: int, directory: Path, rows: int) -> tuple[int, int]:
    """Half of the answers have several lines."""
    rng = Rng(seed)
    write = partial(phrase_tables(seed).latin[0].write, rng)
    path = directory / ANSWERS
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "model", "question", "response", "gold", "ok", "subject", "level"])
        for number in range(rows):
            question, model = divmod(number, 4)
            answer = write(150)
            if number % 2:
                answer = f'"{answer[:500]}"\n{answer[500:]}'
            verdict = "true" if rng.below(3) else "false"
            asked = f"{write(50)}, {question}?"
            cells = [question, f"m{model}", asked, answer, write(3), verdict]
            writer.writerow([*cells, f"s{number % 20}", number % 5])
    return rows, path.stat().st_size


# What writes a log of some size into a directory, and returns its samples and bytes of text.
WRITERS: Mapping[str, Callable[[int, Path, int], tuple[int, int]]] = {
    "lm-eval": _write_lm_eval,
    "lm-eval-shots": partial(_write_lm_eval, shots=5),
    "inspect": _write_inspect,
    "helm": _write_helm,
    "table": _write_table,
}


def files_in(directory: Path) -> list[Path]:
    """The files of a log, without what describes it."""
    paths = directory.rglob("*")
    return sorted(path for path in paths if path.is_file() and path.name != "corpus.json")
