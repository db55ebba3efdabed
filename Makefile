# make demo   set up, fetch a MIOpen toolchain, build and prove databases for three GPUs
# make test   set up, and run linters and all tests, PyTorch among what they need
# make test-child  set up, fetch a libMIOpen that runs clang as a child process, and test with it
# make bench  set up, and measure what the README gives figures for
# make fuzz   set up, and fuzz each parser for FUZZ_SECONDS (FUZZ="kdb elf" for some of them);
#             fuzz-native does so with the native ones, and needs clang

VENV := .venv
BIN := $(VENV)/bin
JOBS := $(shell nproc)
# Toolchains, and the store that demo and bench share; delete `build` to start from nothing.
export KDBFORGE_DATA ?= $(CURDIR)/build/data
export KDBFORGE_STORE ?= $(CURDIR)/build/store
TORCH ?= torch==2.13.0+cpu
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
FUZZ_SECONDS ?= 60
FUZZ ?= kdb kdb_rows elf notes bundle journal plan manifest signature profiles problems
FUZZ_NATIVE := -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
SOURCES := $(shell git ls-files src CMakeLists.txt pyproject.toml 2>/dev/null)

.PHONY: demo test test-child lint bench fuzz fuzz-native setup toolchain clean

demo: toolchain
	$(BIN)/kdbforge build suite:resnet50 --gpu gfx1030_40 --gpu gfx1010_20 --gpu gfx906_60 \
	    -o demo -j $(JOBS)

test: lint toolchain $(VENV)/torch
	$(BIN)/python -m pytest -n $(JOBS) --dist loadscope --ignore tests/child tests

# A folder of its own, since a toolchain need not be named where there is only one.
test-child: export KDBFORGE_DATA = $(CURDIR)/build/data-child
test-child: setup
	$(BIN)/kdbforge toolchain fetch --miopen 6.4.3 --if-missing
	$(BIN)/python -m pytest tests/child

lint: setup
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: toolchain
	$(BIN)/python bench/run.py

fuzz: setup
	$(BIN)/python -m pip install --quiet '.[fuzz]'
	for target in $(FUZZ); do \
	    $(BIN)/python tests/fuzz/run.py $$target --seconds $(FUZZ_SECONDS) || exit 1; done

fuzz-native:
	mkdir -p build/fuzz/found build/fuzz/native_code_object build/fuzz/native_profile
	clang $(FUZZ_NATIVE) -Isrc/kdbforge -o build/fuzz/code_object tests/fuzz/native/code_object.c \
	    $(addprefix src/kdbforge/vgpu/native/,hip/code_object.c hip/probe.c common/marker.c)
	clang $(FUZZ_NATIVE) -Isrc/kdbforge -o build/fuzz/profile tests/fuzz/native/profile.c
	build/fuzz/code_object -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/found/ \
	    build/fuzz/native_code_object tests/fuzz/corpus/native_code_object tests/fuzz/corpus/elf
	build/fuzz/profile -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/found/ \
	    build/fuzz/native_profile tests/fuzz/corpus/native_profile

toolchain: setup
	$(BIN)/kdbforge toolchain fetch --if-missing

setup: $(VENV)/installed

$(VENV)/installed: $(SOURCES)
	scripts/create-venv $(VENV)
	$(BIN)/python -m pip install --quiet '.[dev,onnx]'
	touch $@

# `+cpu` is a build without CUDA, which is several gigabytes. Local folders and mirrors may have it;
# PyPI does not, PyTorch's own index does.
$(VENV)/torch: $(VENV)/installed
	if $(BIN)/python -m pip install --quiet --no-compile $(TORCH) 2>/dev/null || \
	    $(BIN)/python -m pip install --quiet --no-compile --retries 1 \
	        --extra-index-url $(TORCH_INDEX) $(TORCH); \
	then touch $@; \
	else echo "There is no $(TORCH) to be had: the tests that need PyTorch are skipped" >&2; fi

clean:
	rm -rf $(VENV) build demo
