"""Benchmarks: what it costs, against what, and whether it got worse.

    corpora, real ──▶ trials (measure, contenders, peers) ──▶ figures ──▶ track (compare, history) ──▶ report
    bench_judge, bench_stages (pytest-benchmark) ──▶ stages ──┘     └──▶ showdown (the table of peers)

What measures does not format, what formats does not compare; `bench/README.md` says what each figure means.
"""
