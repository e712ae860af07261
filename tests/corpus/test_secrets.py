"""Credentials in metadata and configurations: found, named, and not published."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import fastrec
from fastrec.errors import RefusedError, SecretsError
from fastrec.judge.secrets import secrets_in, secrets_of
from fastrec.sources.shard import shard_at
from tests.commands.test_export_pairs import DETAILS
from tests.running import run_command
from tests.samples import sample_of

MIXED = "Ab3dE5gH1jK2mN4pQ6rS7tU8vW9xY0zA1bC2dE3fG4"
KEYS = {
    "an OpenAI key": [f"sk-{MIXED}", f"sk-proj-{MIXED}_{MIXED}", f"sk-or-v1-{'0a' * 32}"],
    "an Anthropic key": [f"sk-ant-api03-{MIXED}-{MIXED}"],
    "a Hugging Face token": [f"hf_{MIXED[:34]}"],
    "a GitHub token": [f"ghp_{MIXED[:36]}", f"ghs_{MIXED[:36]}", f"github_pat_{MIXED}_{MIXED}"],
    "a Google key": [f"AIza{MIXED[:35]}"],
    "an AWS key": ["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"],
    "a Slack token": ["xoxb-123456789012-abcdefGHIJ"],
    "a JSON web token": [f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{MIXED}"],
    "a bearer token": [f"Authorization: Bearer {MIXED}", f"bearer {MIXED[:20]}"],
    "a password in a URL": ["postgres://me:hunter2@host/db", "https://:pa55word@example.com"],
    "a token in a URL": [
        f"https://x.com/v1?a=1&api_key={MIXED}",
        f"wss://x/?access_token={MIXED}",
        f"https://b.s3.amazonaws.com/o?X=1&signature={MIXED}",
    ],
}
HARMLESS = [
    "",
    "sk-",
    "a task-specific-fine-tuning-of-large-models",
    "sk-learn-is-not-a-key-at-all-really",
    "risk-0123456789012345678901234567890",
    "hf_dataset",
    "hf_hub_download_from_the_repository",
    "https://example.com/a:b@c",
    "https://example.com/search?token=short&key=",
    "me@example.com: write to http://example.com",
    "postgres://me:*****@host/db",
    "https://${USER}:${PASSWORD}@host",
    "bearer of bad-news-without-any-figures",
    "the bearer 12",
    "eyJhbGciOiJIUzI1NiJ9",
    "AKIA",
    "0" * 64,
    "gpt-4o-2024-08-06",
    "xoxo-0123456789abcdef",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in KEYS.items() for text in texts]
)
def test_credentials_are_found(kind: str, text: str) -> None:
    """Alone, in a command line, in JSON inside of a text, and at the start of a line."""
    for whole in (text, f"run --key {text} -n 5", json.dumps({"key": text}), f"a=1\n{text}\n"):
        [finding] = secrets_in({"args": ["x", {"config": whole}]})
        assert finding.path == "$.args[1].config"
        assert kind in finding.message
        assert text[:20] not in finding.message
        record = sample_of("0.3.0", metadata={"config": whole})
        [(number, found)] = secrets_of([b"", json.dumps(record).encode()])
        assert (number, found.path) == (1, "$.metadata.config")


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_texts(text: str) -> None:
    assert list(secrets_in(text)) == []


@pytest.mark.parametrize("name", ["alpaca", "gsm8k", "tau"])
def test_real_records_have_none(real: Path, name: str) -> None:
    for path in sorted((real / name).glob("*.jsonl*"))[:2]:
        lines = b"".join(shard_at(str(path)).read_text()).split(b"\n")[:1_000]
        assert list(secrets_of(lines)) == []


def test_texts_of_questions_and_answers_are_not_searched() -> None:
    key = KEYS["an OpenAI key"][0]
    record = sample_of("0.3.0", metadata={"n": "1"}, error=None)
    record["input"] = {"raw": key, "reference": [key]}
    record["output"] = {"raw": [key]}
    lines = [json.dumps(record).encode(), json.dumps(record | {"error": f"key {key}"}).encode()]
    assert [(at, finding.path) for at, finding in secrets_of(lines)] == [(1, "$.error")]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"\xff sk-", b'{"evaluation":{', b'sk-,"evaluation":{']
)
def test_lines_that_are_no_records(line: bytes) -> None:
    assert list(secrets_of([line, line])) == []


def test_inner_fields_do_not_hide_a_credential() -> None:
    """A tool call and metadata may have a field `evaluation`, too."""
    record = sample_of("0.2.0", metadata={"evaluation": {"x": 1}, "key": KEYS["an AWS key"][0]})
    record["input"] = record["input"] | {"more": {"a": 1, "evaluation": {"x": 1}}}
    text = json.dumps(record, separators=(",", ":")).encode()
    assert [finding.path for _, finding in secrets_of([text])] == ["$.metadata.key"]


@pytest.mark.parametrize(
    "part", ["sk-", "sk-a", "-eyJ", "-eyJaaaaaaaaa.", "://", "://a:", "Bearer a", "&key=", "hf_ "]
)
def test_hostile_texts_take_no_longer(part: str) -> None:
    started = time.process_time()
    assert len(list(secrets_in(part * (100_000 // len(part))))) <= 1
    assert time.process_time() - started < 2


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    records = []
    for number in range(6):
        metadata = {"api_key": KEYS["an OpenAI key"][0]} if number % 2 else {"n": str(number)}
        records.append(
            sample_of(
                "0.3.0", sample_id=f"q{number}", model_id=f"org/m{number % 2}", metadata=metadata
            )
        )
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("jobs", [1, 2])
def test_normalize_refuses_them(shard: Path, tmp_path: Path, jobs: int) -> None:
    """Only if it is asked to. The refused corpus is complete."""
    out = tmp_path / "out"
    with pytest.raises(RefusedError) as caught:
        fastrec.normalize(shard, out, check_secrets=True, jobs=jobs)
    message = str(caught.value)
    assert "$.metadata.api_key looks like an OpenAI key: sk-Ab3… of 45 characters" in message
    assert "org/m1 q" in message
    assert "(3 records)" in message
    assert MIXED not in message
    assert not out.exists()
    assert fastrec.verify(f"{out}.refused").ok
    assert MIXED not in (tmp_path / "out.refused" / "manifest.json").read_text()
    summary = fastrec.normalize(shard, out, check_secrets=True, model="org/m0")
    assert summary.line_counts.kept == 3
    assert not Path(f"{out}.refused").exists()


def test_an_incremental_run_searches_unchanged_parts(shard: Path, tmp_path: Path) -> None:
    fastrec.normalize(shard, tmp_path / "out", incremental=True)
    with pytest.raises(RefusedError):
        fastrec.normalize(
            shard, tmp_path / "out", incremental=True, overwrite=True, check_secrets=True
        )


@pytest.mark.parametrize("form", ["csv", "matrix", "pairs"])
def test_export_refuses_them(shard: Path, tmp_path: Path, form: str) -> None:
    """Until they are left out or allowed. The matrix has no texts."""
    fastrec.normalize(shard, tmp_path / "corpus")
    (tmp_path / "details.toml").write_text(DETAILS)
    words = ["export", tmp_path / "corpus", "-o", tmp_path / "out", "--format", form]
    words += ["--details", tmp_path / "details.toml"] if form == "pairs" else []
    done = run_command(*words)
    if form == "matrix":
        assert done.returncode == 0
        return
    assert done.returncode == 1
    message = done.stderr.decode()
    assert "\n  $.metadata.api_key looks like an OpenAI key: sk-Ab3… of 45 characters" in message
    assert "fastrec import --metadata" in message
    assert "--allow-secrets" in message
    assert MIXED not in message
    assert not (tmp_path / "out").exists()
    assert run_command(*words, "--model", "org/m0").returncode == 0
    assert run_command(*words, "--overwrite", "--allow-secrets").returncode == 0


def test_details_of_pairs_are_searched(shard: Path, tmp_path: Path) -> None:
    fastrec.normalize(shard, tmp_path / "corpus", model="org/m0")
    details = tmp_path / "details.toml"
    details.write_text(
        f'[evaluations."*".generation_config.generation_args]\nexecution_command = "run {KEYS["a bearer token"][0]}"\n'
    )
    with pytest.raises(SecretsError, match=r"execution_command looks like a bearer token: Bearer…"):
        fastrec.export(tmp_path / "corpus", tmp_path / "out", format="pairs", details=details)


def test_many_fields_are_counted(tmp_path: Path) -> None:
    key = KEYS["a Google key"][0]
    record = sample_of("0.3.0", metadata={f"key{number:02}": key for number in range(25)})
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    fastrec.normalize(tmp_path / "in.jsonl", tmp_path / "corpus")
    with pytest.raises(SecretsError) as caught:
        fastrec.export(tmp_path / "corpus", tmp_path / "out", format="csv")
    assert "$.metadata.key19 " in str(caught.value)
    assert "$.metadata.key20 " not in str(caught.value)
    assert "  5 more fields" in str(caught.value)
