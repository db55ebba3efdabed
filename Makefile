# make demo   set up, fetch a MIOpen toolchain, build and prove databases for three GPUs
# make test   set up, and run linters and all tests
# make bench  set up, and measure what the README gives figures for

VENV := .venv
BIN := $(VENV)/bin
JOBS := $(shell nproc)
# Toolchains, and the store that demo and bench share; delete `build` to start from nothing.
export KDBFORGE_DATA ?= $(CURDIR)/build/data
export KDBFORGE_STORE ?= $(CURDIR)/build/store
SOURCES := $(shell git ls-files src CMakeLists.txt pyproject.toml 2>/dev/null)

.PHONY: demo test lint bench setup toolchain clean

demo: toolchain
	$(BIN)/kdbforge build suite:resnet50 --gpu gfx1030_40 --gpu gfx1010_20 --gpu gfx906_60 \
	    -o demo -j $(JOBS)

test: lint toolchain
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope tests

lint: setup
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: toolchain
	$(BIN)/python bench/run.py

toolchain: setup
	$(BIN)/kdbforge toolchain fetch --if-missing

setup: $(VENV)/installed

$(VENV)/installed: $(SOURCES)
	scripts/create-venv $(VENV)
	$(BIN)/python -m pip install --quiet '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build demo
