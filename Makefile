# Every target creates .venv and installs what it needs by itself: nothing has to be set up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# One more than there are cores: many tests wait, for stores that are slow and clusters that start.
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
BENCH_ARGS ?=
SOAK_ARGS ?=
SCALE_ARGS ?= 1e9

.PHONY: help run test lint docs pictures soak cluster-demo bench bench-report bench-peers bench-instructions scale format dist clean
.DELETE_ON_ERROR:

help:            ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/run.stamp
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

# The demo has rejects of every kind on purpose; without --max-rejects their presence would be exit code 1.
run: $(VENV)/run.stamp   ## Normalize the corpus that ships with the project, and print what is in it.
	$(BIN)/fastrec normalize corpora/demo -o out/demo --overwrite --max-rejects 100% -v

test: $(VENV)/dev.stamp  ## Run the tests (PYTEST_ARGS adds arguments).
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/dev.stamp  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## Let ruff mend what it can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp  ## Write the pages of docs/ that are made from the code, and what commands print into all pages.
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.docs.snippets

pictures: $(VENV)/dev.stamp  ## Make the pictures of README.md anew, in a terminal and in the browser that is there.
	$(BIN)/python -m tests.docs.pictures

soak: $(VENV)/dev.stamp  ## Try faults, kills and damaged input at random for 10 minutes (SOAK_ARGS="--minutes 1 --seed 7").
	$(BIN)/python -m tests.faults.soak $(SOAK_ARGS)

cluster-demo: $(VENV)/dev.stamp ## Start an S3 server and a Dask cluster, run README's commands, compare, stop both.
	$(BIN)/python -m tests.services.demo

bench: $(VENV)/dev.stamp ## Measure, compare with the best before, add a line to bench/history.jsonl (BENCH_ARGS).
	$(BIN)/python -m bench.track $(BENCH_ARGS)

bench-report: $(VENV)/dev.stamp ## Draw the history of figures: out/bench/report.html.
	$(BIN)/python -m bench.report

bench-peers: $(VENV)/dev.stamp ## Compare with other tools and write the tables of README.md (BENCH_ARGS).
	$(BIN)/python -m bench.showdown $(BENCH_ARGS)

bench-instructions: $(VENV)/dev.stamp ## Count the judge's instructions per record under valgrind.
	$(BIN)/python -m bench.instructions

scale: $(VENV)/dev.stamp ## Simulate a corpus of 10^9 records: memory of the driver, objects, requests (SCALE_ARGS="1e6 1e9").
	$(BIN)/python -m bench.scale $(SCALE_ARGS)

$(VENV)/release.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group release
	@touch $@

dist: $(VENV)/release.stamp  ## Build wheel and sdist, check them, and try the wheel in an empty environment: dist/.
	rm -rf dist out/dist-venv
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv out/dist-venv
	out/dist-venv/bin/python -m pip install --quiet dist/*.whl
	out/dist-venv/bin/fastrec --version
	out/dist-venv/bin/fastrec normalize corpora/demo -o out/dist-demo --overwrite --max-rejects 100%
	out/dist-venv/bin/fastrec verify out/dist-demo

clean:           ## Remove what the other targets made.
	rm -rf $(VENV) out dist build .pytest_cache .mypy_cache .ruff_cache
