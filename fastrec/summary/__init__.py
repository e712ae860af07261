"""Summarize a corpus: rows, tallies, the census of questions, and the summary document."""
