# `make demo` and `make test` set everything up by themselves, in .venv; the second time they start at once. `make help` lists all.
PYTHON ?= python3
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal
CONSTRAINTS := constraints.txt
LOCKS := $(wildcard locks/*.txt)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_BY_HASH = $(INSTALL) --require-hashes --no-deps

# Tests of VerticalXgboost over sockets take the full xgboost from here, where `make .venv/xgboost` has put it.
ifneq ($(wildcard .venv/xgboost),)
export LACONIC_XGBOOST ?= $(CURDIR)/.venv/xgboost
endif

.PHONY: help demo test test-slow test-all check lint format types cards names sbom licences dist docs clean

help:
	@echo 'make demo       see a federation at work'
	@echo 'make test       the quick tests, in under 5 minutes on two cores; says at its end what it left out'
	@echo 'make test-slow  the tests that make test leaves out'
	@echo 'make test-all   all tests, in under 40 minutes'
	@echo 'make check      what CI runs: lint, types and all tests'
	@echo 'make lint       check style and format; make format mends them'
	@echo 'make types      check types'
	@echo 'make cards      put figures of studies into documents'
	@echo 'make names      write the stubs of public names anew'
	@echo 'make sbom       list all that is installed, with licences and hashes, as CycloneDX in sbom.json'
	@echo 'make licences   write the page of licences anew'
	@echo 'make dist       build wheel and sdist, and try them in an empty environment'
	@echo 'make docs       build the documentation in site/: strict, and without anything from elsewhere'
	@echo 'make clean      remove what make has set up'

demo: .venv/installed
	$(BIN)/laconic demo

test: .venv/installed-dev
	$(PYTEST) -m "not slow"

test-slow: .venv/installed-dev
	$(PYTEST) -m slow

test-all: .venv/installed-dev
	$(PYTEST)

check: lint types test-all

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/installed-dev
	$(BIN)/mypy

# Figures in cards and README, from the tables that studies saved.
cards: .venv/installed-dev
	$(BIN)/python -m studies.cards

# The stubs of public names, from tools/names.py and the methods that there are.
names: .venv/installed-dev
	$(BIN)/python -m tools.names

# Every part of the installation, as auditors' tools read it.
sbom: .venv/installed-dev
	$(BIN)/python -m tools.sbom --extras dev -o sbom.json

# docs/licences.md, from what the installed distributions say of themselves.
licences: .venv/installed-dev
	$(BIN)/python -m tools.licences

# Into dist/: looked into, installed into an empty environment by the locks, and run there.
dist: .venv/installed-dev
	$(BIN)/python -m tools.dist

# Warnings are errors, links and anchors among them. The variable leaves out an advertisement for a successor.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf .venv build site dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

# By hash: only files that the locks know are installed (docs/security.md). PyTorch first and at exactly this version, and
# without GPU where pip finds that build: a range would bring several gigabytes of CUDA along.
.venv/installed: pyproject.toml $(CONSTRAINTS) $(LOCKS) laconic/learn/dense_net.c laconic/learn/dense_lanes.h
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL_BY_HASH) -r locks/torch-cpu.txt 2> /dev/null || $(INSTALL_BY_HASH) -r locks/torch.txt
	$(INSTALL_BY_HASH) -r locks/core.txt
	$(INSTALL) --no-build-isolation -e . -c $(CONSTRAINTS)
	touch $@

# XGBoost's own vertical mode is in its full package only; a folder of its own keeps that beside the light one.
.venv/xgboost: .venv/installed
	$(INSTALL_BY_HASH) --target $@ -r locks/xgboost.txt

.venv/installed-dev: .venv/installed
	$(INSTALL_BY_HASH) -r locks/dev.txt
	$(INSTALL) --no-build-isolation -e '.[dev]' -c $(CONSTRAINTS)
	touch $@
