"""Paths and URLs as strings: nothing here looks at a file."""

from __future__ import annotations

__all__ = ["is_private", "is_url", "join", "parent_and_name", "without_file_protocol"]


def is_url(path: str) -> bool:
    """Return whether a path belongs to an object store.

    >>> is_url("s3://bucket/runs"), is_url("runs/a.jsonl"), is_url("-")
    (True, False, False)
    """
    return "://" in path


def without_file_protocol(path: str) -> str:
    """Turn a `file://` URL into a path; anything else is returned as it is.

    >>> without_file_protocol("file:///data/runs"), without_file_protocol("s3://bucket/runs")
    ('/data/runs', 's3://bucket/runs')
    """
    return path.removeprefix("file://")


def is_private(path: str) -> bool:
    """Return whether only this process can see the files at a path."""
    return path.startswith("memory://")


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory.

    >>> join("s3://bucket/runs/", "a.jsonl"), join("runs", "a.jsonl"), join("", "a.jsonl")
    ('s3://bucket/runs/a.jsonl', 'runs/a.jsonl', 'a.jsonl')
    """
    return f"{directory.rstrip('/')}/{name}" if directory else name


def parent_and_name(path: str) -> tuple[str, str]:
    """Split a path into its directory and its name.

    >>> parent_and_name("s3://bucket/nightly/corpus/"), parent_and_name("out/corpus"), parent_and_name("/corpus")
    (('s3://bucket/nightly', 'corpus'), ('out', 'corpus'), ('/', 'corpus'))
    """
    parent, slash, name = path.rstrip("/").rpartition("/")
    return parent or slash, name
