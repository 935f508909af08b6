# The entry point for every task. `make run` and `make build` need only Rust; `make test` installs its Python clients into .env/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BIN      = target/$(PROFILE)/virtualize
PYTHON  := .env/bin/python
INTEROP := crates/cli/tests/interop
MATURIN := ../../.env/bin/maturin build --locked --interpreter ../../.env/bin/python
SHARED  := ../shared
EVAL    := .eval
# The HDF5 C library needs a newer CMake than many systems provide.
WITH_CMAKE = PATH="$(CURDIR)/.env/bin:$$PATH"
# Lints and tests use the same features, so each is built only once.
ALL = --workspace --locked --features virtualize-libhdf5/link,virtualize/libhdf5,virtualize-cli/libhdf5
# Build of target/debug/virtualize. `make test` has it from the Rust tests.
DEBUG_BUILD = cargo build --locked --package virtualize-cli
test ci: DEBUG_BUILD = true
FORMAT  ?= kerchunk-json
# Profile of `make build`: release compiles fast, dist runs fast.
PROFILE ?= release
bench bench-remote: PROFILE = dist
# Time limit of each fuzz target, in seconds.
SECONDS_EACH ?= 60
# Revision that `make semver` compares with: the latest release.
BASELINE ?= $(shell git describe --tags --match 'v*' --abbrev=0 2>/dev/null)

.PHONY: help build wheel run env test test-all test-rust test-libhdf5 test-interop test-python check fmt clippy doc docs fixtures bench bench-files bench-remote fuzz score dist ci semver package pictures deny minimal-versions portability miri reproducible endurance mutants coverage fuzz-corpora fuzz-coverage

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build the command, target/release/virtualize (PROFILE=dist: slower to build, faster to run)
	cargo build --profile $(PROFILE) --locked --package virtualize-cli

wheel: env ## build the Python wheel in target/wheels
	cd crates/python && $(MATURIN) --profile $(PROFILE) --out ../../target/wheels

run: ## print the references of a file: make run FILE=fixtures/hdf5/chunked.h5 [FORMAT=zarr3-json]
	@test -n "$(FILE)" || { echo "usage: make run FILE=path-or-url [FORMAT=$(FORMAT)]" >&2; exit 2; }
	@# Without archives, Icechunk and the service the build takes half the time.
	@cargo run --release --locked --package virtualize-cli --no-default-features $(if $(filter icechunk,$(FORMAT)),--features icechunk) -- "$(FILE)" --format $(FORMAT)

env: ## install the Python clients of the interop tests, and CMake, into .env/
	@bash $(INTEROP)/setup.sh .env

test: test-all test-interop test-python ## run all tests: Rust with the HDF5 C library, the real clients, the Python package

test-all: env
	$(WITH_CMAKE) cargo test $(ALL)

test-rust: ## run the Rust tests, which need only Rust
	cargo test --workspace --locked

test-libhdf5: env ## compare the HDF5 reader with the C library, file by file (CORPUS=folder adds files)
	$(WITH_CMAKE) cargo test $(ALL) --test differential --test libhdf5_reader

test-interop: env ## compare references, read by fsspec, zarr-python and xarray, with the original files
	$(DEBUG_BUILD)
	@test -n "$${CHROMIUM:-}" || command -v chromium chromium-browser google-chrome >/dev/null || echo "Chromium not found: the tests of the service's page will fail (install chromium, or set CHROMIUM)"
	VIRTUALIZE_BIN=target/debug/virtualize $(PYTHON) -m pytest -q -n 2 --dist loadfile $(INTEROP) $(PYTEST_ARGS)

test-python: env ## install the Python package into a fresh environment and test it there
	rm -rf target/wheels-dev
	cd crates/python && $(MATURIN) --profile dev --out ../../target/wheels-dev
	bash crates/python/tests/setup.sh target/wheels-dev/*.whl
	target/python/bin/python -m pytest -q -n 2 --dist loadfile -c crates/python/pyproject.toml --rootdir . crates/python/tests $(PYTEST_ARGS)
	target/python/bin/python -m pytest -q -c crates/python/pyproject.toml --rootdir . --doctest-modules --pyargs virtualize

check: fmt clippy doc ## check formatting, lints and documentation; warnings are errors

fmt:
	cargo fmt --all --check

clippy: env
	$(WITH_CMAKE) cargo clippy $(ALL) --all-targets -- -D warnings

doc: env
	$(WITH_CMAKE) RUSTDOCFLAGS="-D warnings" cargo doc $(ALL) --no-deps

docs: ## build the documentation site in target/site; dead links are errors
	$(DEBUG_BUILD)
	VIRTUALIZE_BIN=target/debug/virtualize docs/site/build.sh

pictures: ## draw the pictures of docs/images
	$(PYTHON) docs/site/pictures/all.py

fixtures: env ## regenerate fixtures/; expected results come from h5py, tifffile and GDAL
	$(PYTHON) fixtures/make/all.py

# The other tools and the files that they are measured on.
bench-files:
	@test -d $(SHARED)/bench || { echo "make bench needs $(SHARED)/bench"; exit 1; }
	@test -x $(EVAL)/venv/bin/python || $(SHARED)/eval/setup.sh $(EVAL)/venv
	@test -d $(EVAL)/bench || $(EVAL)/venv/bin/python $(SHARED)/bench/make_files.py $(EVAL)/bench

bench: build wheel bench-files bench-remote ## time the binary, the Python package and other tools (needs ../shared), then load the service
	VIRTUALIZE_BIN=$(BIN) $(EVAL)/venv/bin/python $(SHARED)/bench/run.py $(EVAL)/bench --reps 3
	VIRTUALIZE_BIN=$(BIN) $(EVAL)/venv/bin/python crates/archive/examples/archive_peers.py $(SHARED)/bench $(EVAL)/bench
	$(PYTHON) benchmarks/netcdf3.py $(BIN) $(SHARED)/bench/range_server.py
	bash crates/python/tests/setup.sh target/wheels/*.whl
	target/python/bin/python crates/python/benchmarks/read.py
	target/python/bin/python crates/python/benchmarks/archive.py
	$(EVAL)/venv/bin/python crates/server/examples/load.py $(BIN) fixtures hdf5/chunked.h5 hdf5/netcdf4.nc tiff/cog.tif --clients 200 --seconds 10
	$(PYTHON) crates/server/examples/first_picture.py $(BIN)
	$(EVAL)/venv/bin/python crates/server/examples/load.py $(BIN) fixtures hdf5/chunked.h5 hdf5/netcdf4.nc tiff/cog.tif --clients 1000 --seconds 30 --wrk --strict --memory=256M
	$(EVAL)/venv/bin/python crates/server/examples/load.py $(BIN) fixtures --nginx --clients 16 --seconds 10

bench-remote: build bench-files ## time remote files beside the limit of the network and other tools (needs ../shared and wrk; ARGS='--no-peers --only …')
	cargo build --profile $(PROFILE) --locked --package virtualize-server --example range_server
	$(EVAL)/venv/bin/python benchmarks/remote.py $(BIN) $(dir $(BIN))examples/range_server $(EVAL)/bench --shared $(SHARED)/bench $(ARGS)

endurance: build env ## load the service with 1,000 clients for 30 minutes, then a batch of 1,000,000 files that is killed again and again (MINUTES=1 FILES=20000 for less)
	$(PYTHON) benchmarks/endurance/service.py $(BIN) --minutes $(or $(MINUTES),30)
	$(PYTHON) benchmarks/endurance/batch.py $(BIN) --files $(or $(FILES),1000000) --seconds $(if $(FILES),2,20)

# The crates with a stable API; virtualize exports virtualize-zarr.
semver: ## compare the public Rust API with the latest release (BASELINE=main: with another revision)
	@if [ -z "$(BASELINE)" ]; then echo "no release yet, so there is nothing to compare with"; else \
		cargo semver-checks --version >/dev/null || { echo "make semver needs cargo-semver-checks: cargo install cargo-semver-checks"; exit 1; }; \
		cargo semver-checks --default-features --baseline-rev "$(BASELINE)" --package virtualize --package virtualize-archive --package virtualize-zarr; \
	fi

package: ## build each crate from its package for crates.io
	cargo package --workspace --exclude virtualize-python --locked

deny: ## check licences, sources, duplicates and advisories of dependencies (needs cargo-deny; CHECKS='licenses bans sources' works offline)
	@cargo deny --version >/dev/null || { echo "make deny needs cargo-deny: cargo install cargo-deny --locked"; exit 1; }
	cargo deny --locked check --deny unmatched-skip $(CHECKS)

minimal-versions: ## compile all crates with the lowest versions of dependencies that Cargo.toml allows
	rm -rf target/minimal-versions && mkdir -p target/minimal-versions
	git ls-files -z -- Cargo.toml Cargo.lock rust-toolchain.toml .cargo crates | xargs -0 cp --parents --target-directory=target/minimal-versions
	cd target/minimal-versions && RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions && cargo check --workspace --target-dir ../minimal-versions-build

# Neither the size of a pointer nor the order of bytes in memory may change what these do. They read no files of their own accord.
PURE          := bytes codec dmrpp hdf5 map netcdf3 rare references tiff zarr
# The crate parquet is for little-endian processors.
LITTLE_ENDIAN := references
PROCESSORS    ?= i686 s390x powerpc
portability: $(PROCESSORS:%=portability-%) ## test the crates without I/O on 32-bit and big-endian processors (needs qemu-user, lib32gcc-s1 and gcc-{i686,s390x,powerpc}-linux-gnu)

# BUILD_STD=std builds the standard library, where rustup cannot install it (with RUSTC_BOOTSTRAP=1).
portability-%:
	$(if $(BUILD_STD),,rustup target add $*-unknown-linux-gnu)
	cargo test $(if $(BUILD_STD),-Z build-std=$(BUILD_STD)) --locked --target $*-unknown-linux-gnu \
		$(addprefix --package=virtualize-,$(if $(filter i686,$*),$(PURE),$(filter-out $(LITTLE_ENDIAN),$(PURE))))

# Without the crates that call C. Unit tests alone: the fixtures would take hours.
miri: ## interpret the unit tests of the crates without C code, and look for undefined behaviour (needs: rustup +nightly component add miri rust-src)
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked --lib $(addprefix --package=virtualize-,$(filter-out codec rare references,$(PURE)))

reproducible: env ## build the command and the wheel in two folders, and compare the bytes (PROFILE=dist: as releases are built)
	$(PYTHON) crates/cli/dist/reproducible.py --profile $(PROFILE)

fuzz: env ## fuzz each target for SECONDS_EACH seconds (needs cargo-fuzz); TARGETS=… selects
	@cargo fuzz --version >/dev/null || { echo "make fuzz needs cargo-fuzz: cargo install cargo-fuzz"; exit 1; }
	@SECONDS_EACH=$(SECONDS_EACH) crates/fuzz/run.sh fuzz $(TARGETS)

fuzz-corpora: env ## minimise what make fuzz has found, and keep it in crates/fuzz/corpora
	@crates/fuzz/run.sh minimise $(TARGETS)

# LLVM is the folder of llvm-profdata and llvm-cov in rustc's version of LLVM, such as /usr/lib/llvm-22/bin (Debian's llvm-22).
LLVM ?= $(dir $(shell find "$$(rustc --print sysroot)" -name llvm-profdata))
fuzz-coverage: env ## report the line coverage of each crate by the corpora
	@test -x $(LLVM)/llvm-profdata || { echo "make fuzz-coverage needs LLVM's tools: rustup component add llvm-tools, or LLVM=folder"; exit 1; }
	@LLVM=$(LLVM) crates/fuzz/run.sh coverage $(TARGETS)
	@LLVM_PROFDATA=$(LLVM)/llvm-profdata LLVM_COV=$(LLVM)/llvm-cov python3 crates/fuzz/coverage.py

mutants: ## change FILES=crates/…/*.rs in many ways, one at a time, and list the changes that no Rust test notices (needs cargo-mutants); TESTS=packages adds tests, SHARD=0/50 takes a part
	@cargo mutants --version >/dev/null || { echo "make mutants needs cargo-mutants: cargo install cargo-mutants"; exit 1; }
	@test -n "$(FILES)" || { echo "usage: make mutants FILES=crates/map/src/cf/*.rs [TESTS='virtualize-map virtualize']" >&2; exit 2; }
	cargo mutants --output target $(addprefix --file ,$(FILES)) $(addprefix --test-package ,$(TESTS)) $(if $(SHARD),--shard $(SHARD))

coverage: ## measure which lines of each crate the Rust tests run (needs Debian's llvm of rustc's LLVM version); PACKAGES=… selects
	crates/cli/tests/coverage.py $(if $(PACKAGES),$(addprefix --package ,$(PACKAGES)),--workspace)

score: build ## score the binary on the public corpus through real clients (needs ../shared)
	@test -d $(SHARED)/eval || { echo "make score needs $(SHARED)/eval"; exit 1; }
	EVAL_DIR=$(EVAL) $(SHARED)/eval/run.sh $(BIN) --format $(FORMAT)

dist: env ## build and test what a release contains, in target/dist (needs buildah; TARGETS=aarch64-unknown-linux-musl …)
	$(PYTHON) -m venv target/dist-env
	target/dist-env/bin/python -m pip install --quiet --disable-pip-version-check -r crates/cli/dist/requirements.txt
	target/dist-env/bin/python crates/cli/dist/dist.py $(TARGETS)
	target/dist-env/bin/python -m pytest -q -p no:cacheprovider crates/cli/dist

ci: check test docs ## run everything that continuous integration runs
