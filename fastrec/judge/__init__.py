"""Judge lines: the fast path, the slow path, findings and their codes."""
