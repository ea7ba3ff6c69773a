# `make demo` and `make test` set everything up by themselves, in .venv; the second time they start at once.
PYTHON ?= python3
BIN := .venv/bin
CONSTRAINTS := constraints.txt

.PHONY: demo test check lint format types cards clean

demo: .venv/installed
	$(BIN)/laconic demo

test: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: lint types test

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/installed-dev
	$(BIN)/mypy

# Figures in cards and README, from the tables that studies saved.
cards: .venv/installed-dev
	$(BIN)/python -m studies.cards

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache

# PyTorch first and at exactly this version: a range would bring several gigabytes of CUDA along.
.venv/installed: pyproject.toml $(CONSTRAINTS) laconic/learn/dense_net.c laconic/learn/dense_lanes.h
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 -c $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -c $(CONSTRAINTS)
	touch $@

# For tests of VerticalXgboost over sockets: set LACONIC_XGBOOST to this folder.
.venv/xgboost: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ xgboost==3.2.0

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c $(CONSTRAINTS)
	touch $@
