# The chores of fleetledger. Needed on the machine: Python 3.10 or later, pip and make. uv is used where
# it is installed: it needs a tenth of the processor time of pip.
#
#   make demo      install into .venv (no torch) and let a fleet of five devices learn digits
#   make quick     in a minute: layout, types, both cores, the schemas, and tests near to what changed
#   make test      install what the tests need, then lint, type check and test
#   make test-torch  the tests that need torch, in a .venv-torch on top of .venv
#   make lint      only the checks that run no test
#   make format    bring the source into its one layout
#   make schemas   write docs/protocol, docs/json and generated tables again from the models
#   make bench     run every benchmark; each prints its claim, hardware and versions
#   make bench-peers  other frameworks and this one on the same tasks, with ratios; slow
#   make clean     remove .venv and all caches
#
# Another Python: make test PYTHON=python3.12 VENV=.venv312
# torch from another place, or without torchvision:  make test-torch TORCH="torch==2.13.0"
# What changed since another revision than where the branch left main:  make quick SINCE=HEAD~5
# One test file:  make test PYTEST_ARGS=tests/test_door.py
# Tests run on all cores; in one process, as for a debugger:  make test WORKERS=0
# Peers in minutes, their environments elsewhere, one torch for all:
#   make bench-peers PEERS=~/peers PEERS_TORCH="torch==2.13.0" PEERS_ARGS="--quick --cases trained"
# Demo options:   make demo DEMO_ARGS="--form compact --out runs/compact"

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
WORKERS ?= auto
DEMO_ARGS ?=
PEERS ?= .peers
PEERS_TORCH ?= torch
PEERS_ARGS ?=
SINCE ?=
TORCH ?= ".[train]"
# Files to read; of those that need torch only in part, the rest is left to `make test`.
TORCH_TESTS = -m "torch or torchvision" \
	$(shell grep -rl 'pytest\.mark\.torch' tests --include='test_*.py')
BIN := $(VENV)/bin
UV := $(shell command -v uv)
DEMO = --editable '.[simulator,cpu]'
TEST = --editable '.[simulator,cpu,dev]'
# For the environment $(1) the packages $(2); by pip, too, where uv does not find them: it reads no pip.conf.
# A file is compiled when it is first imported: most of what is installed never is.
INSTALL = $(if $(UV),$(UV) pip install -q --python $(1)/bin/python $(2) || )\
	$(BIN)/python -m pip --python $(1)/bin/python install -qq --no-compile $(2)
PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
PYTEST = -m pytest -n $(WORKERS) --dist worksteal

# Arrays and tensors of tests are small, and more threads than one only wait for each other.
quick test test-nightly test-torch: export OMP_NUM_THREADS = 1
# Else every worker, and every program that a test starts, would compile all of the source again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test test-nightly test-torch lint layout mypy types format schemas bench \
	bench-peers clean

demo: $(VENV)/.demo-installed
	$(BIN)/fleetledger demo $(DEMO_ARGS)

# Types are checked beside the tests, and told after them.
BESIDE = log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	$(MAKE) --no-print-directory $(1) >"$$log" 2>&1 & beside=$$!; \
	$(2); tests=$$?; wait $$beside; types=$$?; cat "$$log"; [ $$types -eq 0 ] && exit $$tests

# With AGAIN=1 what failed runs once more, alone, and what then passes is named: mend it first.
AGAIN ?=
TESTS = $(1) $(PYTEST) $(2) $(PYTEST_ARGS) || { [ $$? -eq 1 ] && [ -n "$(AGAIN)" ] && \
	echo "== Once more, alone. A test that passes now depends on what ran beside it: mend it." && \
	$(1) -m pytest -n 0 --last-failed --last-failed-no-failures none --maxfail 8 -rp $(2); }

quick: layout
	@$(call BESIDE,mypy,$(BIN)/python -m tests.quick --workers $(WORKERS) --since "$(SINCE)")

test: layout
	@$(call BESIDE,types,$(call TESTS,$(BIN)/python))

# What takes long and repeats, at more points or in another way, what quicker tests show.
test-nightly: layout
	FLEETLEDGER_NIGHTLY=1 $(BIN)/python $(PYTEST) -m nightly $(PYTEST_ARGS)

# torch is large, and a device needs it only to train: these tests skip in `make test`.
test-torch: $(VENV)-torch/.installed
	@$(call TESTS,$(VENV)-torch/bin/python,$(TORCH_TESTS))

lint: layout types

layout: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

mypy: $(VENV)/.test-installed
	$(BIN)/mypy

types: mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m fleetledger.schemas.generate --check

format: $(VENV)/.test-installed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

schemas: $(VENV)/.test-installed
	$(BIN)/python -m fleetledger.schemas.generate
	$(BIN)/python -m tests.docs.command_schemas
	$(BIN)/python -m tests.docs.tables

# Without benchmarks/gpu, which refuses to measure where no GPU is.
bench: $(VENV)/.test-installed
	set -e; for claim in $(filter-out gpu,$(subst /,.,$(patsubst benchmarks/%/run.py,%,$(wildcard \
		benchmarks/*/run.py benchmarks/*/*/run.py)))); do \
		echo "== $$claim"; $(BIN)/python -m benchmarks.$$claim.run; done

# pfl-research, Flower, fluke and BlazeFL, each installed into an environment of its own in $(PEERS).
bench-peers: $(VENV)-torch/.installed
	$(VENV)-torch/bin/python -m benchmarks.speed.fleet_overhead.run --environments $(PEERS) \
		--torch "$(PEERS_TORCH)" $(PEERS_ARGS)

clean:
	rm -rf $(VENV) $(VENV)-torch .peers build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis

# Stamps: a re-run installs nothing unless pyproject.toml has changed.
$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	$(call INSTALL,$(VENV),$(DEMO))
	touch $@

$(VENV)/.test-installed: pyproject.toml | $(BIN)/python
	$(call INSTALL,$(VENV),$(TEST))
	touch $@ $(VENV)/.demo-installed

# On top of $(VENV), whose packages it sees, so that these are not unpacked and compiled again: pip
# finds them there, and uv does not.
$(VENV)-torch/.installed: pyproject.toml $(VENV)/.test-installed
	$(PYTHON) -m venv --without-pip $(VENV)-torch
	$(BIN)/python -c $(PACKAGES) >"$$($(VENV)-torch/bin/python -c $(PACKAGES))/beneath.pth"
	$(call INSTALL,$(VENV)-torch,$(TORCH))
	$(BIN)/python -m pip --python $(VENV)-torch/bin/python install -qq --no-compile --editable '.[simulator,cpu,ray,dev,dev-torch]'
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fleetledger needs Python 3.10 or later: make PYTHON=python3.11 ...")'
	$(if $(UV),$(UV) venv -q --seed --python "$$(command -v $(PYTHON))" $(VENV) || )\
	{ $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -qq --upgrade pip; }
