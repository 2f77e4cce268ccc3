# `make demo` and `make test` need nothing but python3 (3.11 or newer, with its venv module): each
# makes .venv and installs what it needs first. A stamp keeps later runs quick.

SHELL := /bin/bash
# torch's TCPStore asks for the name of each peer's address; an unanswered query costs 5 s without this.
export RES_OPTIONS := timeout:1 attempts:1
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= dev
ARGS ?=
BIN := $(VENV)/bin
# Tests without Ray share the cores; those with a cluster need both for it. ARGS may leave one of the two without a test.
PLAIN_TESTS := tests/unit tests/property tests/replay
CLUSTER_TESTS := tests/contract tests/integration tests/fault
NO_TESTS := 5
STAMP := $(VENV)/.installed-$(EXTRAS)
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq # errors only

# Set up (or bring up to date) the environment when a dependency file changed.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
	  sys.exit(0 if v >= (3, 11) else "raytide needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11" % v[:2])'
	@echo "raytide: installing into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

.PHONY: help setup demo test test-slow bench lint format types imports coverage test-gpu notebooks wheel clean
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything in it
	@echo "raytide: ready; activate with: source $(BIN)/activate"

demo: $(STAMP) ## watch a real job change its size while it trains (about 3 minutes)
	@echo "raytide: starting the demo"
	@$(BIN)/raytide demo $(ARGS)

test: $(STAMP) ## unit, property, contract, integration and fault tests (ARGS="-k name")
	@echo "raytide: running the tests"
	@$(BIN)/python -m pytest -q -n 2 --durations=10 --durations-min=1 $(PLAIN_TESTS) $(ARGS) || [ $$? -eq $(NO_TESTS) ]
	@$(BIN)/python -m pytest -q --durations=15 --durations-min=1 $(CLUSTER_TESTS) $(ARGS) || [ $$? -eq $(NO_TESTS) ]

test-slow: $(STAMP) ## the tests that take minutes: a real autoscaler, Ray Train inside a platform, lost nodes
	@$(BIN)/python -m pytest -q --slow -m slow --durations=15 --durations-min=1 $(CLUSTER_TESTS) $(ARGS)

bench: $(STAMP) ## every script of tests/bench in turn; each ends with one line of JSON
	@shopt -s nullglob; for script in tests/bench/[a-z]*.py; do \
	  echo "raytide: $$script"; $(BIN)/python "$$script" $(ARGS); \
	done

lint: $(STAMP) ## ruff, mypy and the import rules
	@$(BIN)/ruff check $(ARGS)
	@$(BIN)/ruff format --check
	@$(MAKE) --no-print-directory types imports

format: $(STAMP) ## let ruff format and fix what it can
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports --no-cache --no-logo

coverage: $(STAMP) ## the tests again, with a coverage report
	@$(BIN)/python -m pytest -q --cov --cov-report=term $(ARGS)

test-gpu: $(STAMP) ## the checks that need one GPU
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash tests/gpu/run.sh

notebooks: $(STAMP) ## run every notebook from top to bottom
	@shopt -s nullglob; for book in notebooks/*.ipynb; do \
	  echo "raytide: $$book"; $(BIN)/jupyter execute "$$book"; \
	done

wheel: $(STAMP) ## dist/*.whl, as cluster.yaml installs it
	@rm -rf dist
	@$(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean: ## remove .venv and every cache
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
