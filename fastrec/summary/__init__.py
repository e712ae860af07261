"""Summarize a corpus: rows, tallies, the census of questions, and the summary document.

Modules in the order of the work: `rows` (pass 1), `tally`, `census` and `same_run` (a part),
`part_statistics` (its files, and what they add up to), `summarize`. Modules that present a summary
begin with `present`.
"""
