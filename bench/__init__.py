"""Benchmarks: how fast fastrec is, compared with what, and whether it got slower.

    corpora, real ──▶ trials (measure, contenders, peers) ──▶ figures ──▶ track (compare, history) ──▶ report
    bench_judge, bench_stages (pytest-benchmark) ──▶ stages ──┘     └──▶ peer_tables (tables for the documentation)

Measuring, comparing and formatting are separate modules. `bench/README.md` explains every figure.
"""
