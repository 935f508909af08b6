# The entry point for every task. `make run` and `make build` need only Rust; `make test` installs its Python clients into .env/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN         = target/$(PROFILE)/virtualize
PYTHON     := .env/bin/python
INTEROP    := crates/cli/tests/interop
MATURIN    := ../../.env/bin/maturin build --locked --interpreter ../../.env/bin/python
BENCHMARKS := target/benchmarks
# The HDF5 C library needs a newer CMake than many systems provide.
WITH_CMAKE = PATH="$(CURDIR)/.env/bin:$$PATH"
# Lints and tests use the same features, so each is built only once.
ALL = --workspace --locked --features virtualize-libhdf5/link,virtualize/libhdf5,virtualize-cli/libhdf5
# Build of target/debug/virtualize. `make test` has it from the Rust tests.
DEBUG_BUILD = cargo build --locked --package virtualize-cli --features full
# Runs the tests of all crates at once, but no doctests.
NEXTEST := $(shell command -v cargo-nextest)
FORMAT  ?= kerchunk-json
# Profile of `make build`: release compiles fast, dist runs fast.
PROFILE ?= release
# Which tests of pytest run: `make test-slow` sets slow, and an empty value runs all.
MARKS ?= not slow
# Continuous integration repeats a test that fails once, and names it: tests of servers and processes depend on the load of the machine.
PYTEST = -m pytest -q -n 2 -m "$(MARKS)" $(if $(CI),--reruns 1 -rR)
# Time limit of each fuzz target, in seconds.
SECONDS_EACH ?= 60

.PHONY: help build install wheel run env test test-slow test-rust test-interop test-python check docs fixtures fuzz score bench image dist ci

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build the command, target/release/virtualize (PROFILE=dist: slower to build, faster to run)
	cargo build --profile $(PROFILE) --locked --package virtualize-cli --features full

install: ## install the command into ~/.cargo/bin
	cargo install --locked --path crates/cli --features full

wheel: env ## build the Python wheel in target/wheels
	cd crates/python && $(MATURIN) --profile $(PROFILE) --out ../../target/wheels

run: ## print the references of a file: make run FILE=fixtures/hdf5/chunked.h5 [FORMAT=zarr3-json]
	@test -n "$(FILE)" || { echo "usage: make run FILE=path-or-url [FORMAT=$(FORMAT)]" >&2; exit 2; }
	@cargo run --profile quick --locked --package virtualize-cli $(if $(filter icechunk kerchunk-parquet,$(FORMAT)),--features full) -- "$(FILE)" --format $(FORMAT)

env: ## install the Python clients of the interop tests, and CMake, into .env/
	@bash $(INTEROP)/setup.sh .env

test: env ## run the tests: Rust with the HDF5 C library, the real clients, the Python package
	$(WITH_CMAKE) cargo $(if $(NEXTEST),nextest run,test) $(ALL)
	$(if $(NEXTEST),$(WITH_CMAKE) cargo test --doc $(ALL))
	$(MAKE) test-interop test-python DEBUG_BUILD=true

test-slow: ## run the slow tests of pytest: further random files, faults, executors, other readers, tutorials, and the page in Chromium
	$(MAKE) test-interop test-python MARKS=slow

test-rust: ## run the Rust tests, which need only Rust
	cargo test --workspace --locked

test-interop: env ## compare references, read by fsspec, zarr-python and xarray, with the original files (PYTEST_ARGS="-k tiff", MARKS= for slow ones, too)
	$(DEBUG_BUILD)
	@test -n "$${CHROMIUM:-}" || command -v chromium chromium-browser google-chrome >/dev/null || echo "Chromium not found: the slow tests of the service's page will fail (install chromium, or set CHROMIUM)"
	VIRTUALIZE_BIN=target/debug/virtualize $(PYTHON) $(PYTEST) --dist worksteal $(INTEROP) $(PYTEST_ARGS)

test-python: env ## install the Python package into a fresh environment and test it there
	rm -rf target/wheels-dev
	cd crates/python && $(MATURIN) --profile dev --out ../../target/wheels-dev
	bash crates/python/tests/setup.sh target/wheels-dev/*.whl
	target/python/bin/python $(PYTEST) --dist loadfile -c crates/python/pyproject.toml --rootdir . crates/python/tests $(PYTEST_ARGS)
	$(if $(filter slow,$(MARKS)),,target/python/bin/python -m pytest -q -c crates/python/pyproject.toml --rootdir . --doctest-modules --pyargs virtualize)

check: env ## check formatting, lints and the documentation of the code; warnings are errors
	cargo fmt --all --check
	$(WITH_CMAKE) cargo clippy $(ALL) --all-targets -- -D warnings
	$(WITH_CMAKE) RUSTDOCFLAGS="-D warnings" cargo doc $(ALL) --no-deps

docs: ## build the documentation site in target/site; dead links are errors
	$(DEBUG_BUILD)
	VIRTUALIZE_BIN=target/debug/virtualize docs/site/build.sh

fixtures: env ## regenerate fixtures/; expected results come from h5py, tifffile and GDAL
	$(PYTHON) fixtures/make/all.py

fuzz: env ## fuzz each target for SECONDS_EACH seconds (needs cargo-fuzz); TARGETS=… selects
	@SECONDS_EACH=$(SECONDS_EACH) crates/fuzz/run.sh fuzz $(TARGETS)

score: build env ## score the command on 1,200 public files through real clients, against h5py, tifffile and GDAL (TOOL=kerchunk: another tool)
	benchmarks/setup.sh
	$(BENCHMARKS)/env/bin/python benchmarks/fetch_corpus.py $(BENCHMARKS)/corpus
	VIRTUALIZE_BIN=$(BIN) VIRTUALIZE_FORMAT=$(FORMAT) $(BENCHMARKS)/env/bin/python benchmarks/score/score.py $(BENCHMARKS)/corpus --tool $(or $(TOOL),virtualize) --reasons 12

bench: ## time the command, the Python package, the service and other tools (PARTS="disk network"; benchmarks/README.md)
	$(MAKE) build wheel PROFILE=dist
	cargo build --profile dist --locked --package virtualize-server --example range_server
	cargo build --profile dist --locked --package virtualize --example scale
	benchmarks/run.sh $(PARTS)

image: env ## build the container image of the service, target/dist/virtualize-VERSION-oci.tar (needs buildah)
	crates/cli/dist/run.sh --image $(TARGETS)

dist: env ## build and test what a release contains, in target/dist (needs buildah; TARGETS=aarch64-unknown-linux-musl …)
	crates/cli/dist/run.sh $(TARGETS)

ci: check test ## run everything that continuous integration runs
	$(MAKE) test-slow docs DEBUG_BUILD=true
