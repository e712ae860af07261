"""Benchmarks: how fast fastrec is, compared with what, and whether it got slower.

    corpora ──▶ trials (measure, contenders) ──▶ figures ──▶ track (history) ──▶ report
    bench_judge, bench_stages (pytest-benchmark) ──┘   └──▶ peer_tables (for the documentation)

Measuring, comparing and formatting are separate modules. `bench/README.md` explains every figure.
"""
