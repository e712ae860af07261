"""A published corpus: its documents and parts, rejected lines, publishing, lock and lease."""
