# The one entry to everything. `make run` and `make build` need Rust alone; `make test` sets up its Python clients in .env/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN     := target/release/virtualize
PYTHON  := .env/bin/python
INTEROP := crates/cli/tests/interop
SHARED  := ../shared
EVAL    := .eval
# The C library is built by a newer CMake than many systems have.
WITH_CMAKE = PATH="$(CURDIR)/.env/bin:$$PATH"
# The same choice for lints and tests, so that everything is built once for each.
ALL = --workspace --locked --features virtualize-libhdf5/link,virtualize/libhdf5,virtualize-cli/libhdf5
FORMAT  ?= kerchunk-json
# What `make run` builds: dev shares its build with the tests.
PROFILE ?= release
# Seconds for each fuzz target.
SECONDS_EACH ?= 60

.PHONY: help build run env test test-all test-rust test-libhdf5 test-interop check fmt clippy doc fixtures bench fuzz score ci

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## the release binary, target/release/virtualize
	cargo build --release --locked --package virtualize-cli

run: ## print the references of a file: make run FILE=fixtures/hdf5/chunked.h5 [FORMAT=zarr3-json]
	@test -n "$(FILE)" || { echo "usage: make run FILE=path-or-url [FORMAT=$(FORMAT)]" >&2; exit 2; }
	@cargo run --quiet --profile $(PROFILE) --locked --package virtualize-cli -- "$(FILE)" --format $(FORMAT)

env: ## the Python clients of the interop tests, and CMake, in .env/
	@bash $(INTEROP)/setup.sh .env

test: test-all test-interop ## all tests: Rust with the HDF5 C library, then real clients

test-all: env
	$(WITH_CMAKE) cargo test $(ALL)

test-rust: ## unit, golden and command-line tests that need Rust alone
	cargo test --workspace --locked

test-libhdf5: env ## our HDF5 reader beside the C library, file by file (CORPUS=folder for more files)
	$(WITH_CMAKE) cargo test $(ALL) --test differential --test libhdf5_reader

test-interop: env ## our references read by fsspec, zarr-python and xarray, beside the original
	cargo build --locked --package virtualize-cli
	@test -n "$${CHROMIUM:-}" || command -v chromium chromium-browser google-chrome >/dev/null || echo "no Chromium: the page of the service is not tested"
	VIRTUALIZE_BIN=target/debug/virtualize $(PYTHON) -m pytest -q -n 2 --dist loadfile $(INTEROP) $(PYTEST_ARGS)

check: fmt clippy doc ## formatting, lints and documentation, warnings denied

fmt:
	cargo fmt --all --check

clippy: env
	$(WITH_CMAKE) cargo clippy $(ALL) --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

fixtures: env ## make fixtures/ anew (their expected results come from h5py, tifffile, GDAL)
	$(PYTHON) fixtures/make/all.py

bench: build ## beside the other tools, if ../shared is there; then load on the service
	@test -d $(SHARED)/bench || { echo "make bench needs $(SHARED)/bench"; exit 1; }
	@test -x $(EVAL)/venv/bin/python || $(SHARED)/eval/setup.sh $(EVAL)/venv
	@test -d $(EVAL)/bench || $(EVAL)/venv/bin/python $(SHARED)/bench/make_files.py $(EVAL)/bench
	VIRTUALIZE_BIN=$(BIN) $(EVAL)/venv/bin/python $(SHARED)/bench/run.py $(EVAL)/bench --reps 3
	VIRTUALIZE_BIN=$(BIN) $(EVAL)/venv/bin/python crates/archive/examples/archive_peers.py $(SHARED)/bench $(EVAL)/bench
	$(EVAL)/venv/bin/python crates/server/examples/load.py $(BIN) fixtures hdf5/chunked.h5 hdf5/netcdf4.nc tiff/cog.tif --clients 200 --seconds 10

fuzz: ## each fuzz target for SECONDS_EACH seconds (needs cargo-fuzz: cargo install cargo-fuzz); TARGETS=… for some
	@cargo fuzz --version >/dev/null || { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz"; exit 1; }
	@# libFuzzer's instruments are compiler flags that stable Rust hides; no sanitizer, since there is no unsafe code.
	@cd crates/fuzz; export RUSTC_BOOTSTRAP=1; \
	for target in $(or $(TARGETS),$$(cargo fuzz list --fuzz-dir .)); do \
		mkdir -p corpus/$$target; seeds=../../fixtures/$$target; test -d $$seeds || seeds=; \
		cargo fuzz run --fuzz-dir . -s none $$target corpus/$$target $$seeds -- \
			-max_total_time=$(SECONDS_EACH) -timeout=10 -rss_limit_mb=1024 -max_len=65536; \
	done

score: build ## the public corpus through real clients, if ../shared is there
	@test -d $(SHARED)/eval || { echo "make score needs $(SHARED)/eval"; exit 1; }
	EVAL_DIR=$(EVAL) $(SHARED)/eval/run.sh $(BIN) --format $(FORMAT)

ci: check test ## what .ci/run runs
