# Every target creates .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# One process more than cores, since many tests wait for slow stores or starting clusters.
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
# Tests start many processes, which are faster with cached bytecode.
export PYTHONDONTWRITEBYTECODE :=
BENCH_ARGS ?=
SOAK_ARGS ?=
SCALE_ARGS ?= 1e9

.PHONY: help run test test-long bench-test lint docs pictures soak cluster-demo bench bench-report bench-peers bench-instructions bench-profile scale format dist clean
.DELETE_ON_ERROR:

help:            ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# uv installs 100 packages in 15 s, pip in a minute. Where uv cannot reach the registry that pip is configured for, pip
# does it; compiling all packages would take 40 s, so Python compiles what the tests import.
$(VENV)/dev.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet uv \
	&& $(BIN)/uv pip install --quiet --python $(BIN)/python --editable . --group dev \
	|| { $(BIN)/python -m pip install --quiet --upgrade pip \
	&& $(BIN)/python -m pip install --quiet --no-compile --editable . --group dev; }
	@touch $(VENV)/run.stamp $@

# The demo has rejected lines of every kind on purpose. Without --max-rejects the exit code would be 1.
run: $(VENV)/run.stamp   ## Normalize the demo shards, and print a summary.
	$(BIN)/fastrec normalize corpora/demo -o out/demo --overwrite --max-rejects 100% -v

test: $(VENV)/dev.stamp  ## Run the tests (PYTEST_ARGS adds arguments).
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

# Full sizes take minutes for some tests.
test-long: $(VENV)/dev.stamp ## Run the tests with all their examples, in about an hour (PYTEST_ARGS adds arguments).
	LONG_TESTS=1 $(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal --timeout 3600 $(PYTEST_ARGS)

bench-test: $(VENV)/dev.stamp ## Run the tests of bench/, which `make test` leaves out (PYTEST_ARGS adds arguments).
	$(BIN)/python -m pytest -p tests.conftest --numprocesses $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS) bench/tests

lint: $(VENV)/dev.stamp  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## Let ruff fix style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp  ## Generate reference pages and tables from the code, and update the output of commands in all pages.
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.docs.gates
	$(BIN)/python -m tests.docs.simulations
	$(BIN)/python -m tests.docs.corrected
	$(BIN)/python -m tests.docs.snippets

pictures: $(VENV)/dev.stamp  ## Update the pictures in docs/assets (needs `script` and Chromium).
	$(BIN)/python -m tests.docs.pictures

soak: $(VENV)/dev.stamp  ## Inject random faults, kills and damage for 10 minutes (SOAK_ARGS="--minutes 1 --seed 7").
	$(BIN)/python -m tests.faults.soak $(SOAK_ARGS)

cluster-demo: $(VENV)/dev.stamp ## Run on a local S3 server and Dask cluster, compare with a local run, and stop both.
	$(BIN)/python -m tests.services.demo

bench: $(VENV)/dev.stamp ## Measure, compare with the best earlier figures, append to bench/history.jsonl (BENCH_ARGS).
	$(BIN)/python -m bench.track $(BENCH_ARGS)

bench-report: $(VENV)/dev.stamp ## Plot the history of figures: out/bench/report.html.
	$(BIN)/python -m bench.report

bench-peers: $(VENV)/dev.stamp ## Compare with other tools; write the tables of README.md and docs/benchmarks.md (BENCH_ARGS).
	$(BIN)/python -m bench.peer_tables $(BENCH_ARGS)

bench-instructions: $(VENV)/dev.stamp ## Count the instructions of the judge per record, with valgrind.
	$(BIN)/python -m bench.instructions

bench-profile: $(VENV)/dev.stamp ## Where the processor time of normalize goes, with perf (BENCH_ARGS="--corpus mixed").
	$(BIN)/python -m bench.core_seconds $(BENCH_ARGS)

scale: $(VENV)/dev.stamp ## Simulate the driver on 10^9 records: memory, objects, requests (SCALE_ARGS="1e6 1e9").
	$(BIN)/python -m bench.scale $(SCALE_ARGS)

$(VENV)/release.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group release
	@touch $@

dist: $(VENV)/release.stamp  ## Build the wheel and sdist in dist/, check them, and try the wheel in a new environment.
	rm -rf dist out/dist-venv
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv out/dist-venv
	out/dist-venv/bin/python -m pip install --quiet dist/*.whl
	out/dist-venv/bin/fastrec --version
	out/dist-venv/bin/fastrec normalize corpora/demo -o out/dist-demo --overwrite --max-rejects 100%
	out/dist-venv/bin/fastrec verify out/dist-demo

clean:           ## Remove everything the other targets created.
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache
