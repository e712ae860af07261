"""Summarize a corpus: rows, tallies, the census of questions, and the summary document.

Modules that compute, in the order of the work:

    rows               pass 1: the values of a record that statistics need
    tally, census      a part: sums over records; sorted lists of its questions and identities
    same_run           a part: contradictions, and records that are equal but for their run
    part_statistics    the files of a part, and what they add up to
    summarize          the document, whose classes are in `document`

Modules that present a summary begin with `present`: names are chosen, models are ranked. `significance` has the
intervals and tests that they and other commands use.
"""
