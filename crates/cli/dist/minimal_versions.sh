#!/usr/bin/env bash
# Compiles all crates with the lowest versions of direct dependencies that Cargo.toml allows.
set -euo pipefail
cd "$(dirname "$0")/../../.."
copy=target/minimal-versions
rm -rf $copy
mkdir -p $copy
git ls-files -z -- Cargo.toml Cargo.lock rust-toolchain.toml .cargo crates | xargs -0 cp --parents --target-directory=$copy
cd $copy
# The option is unstable.
export RUSTC_BOOTSTRAP=1
cargo update -Z direct-minimal-versions
cargo check --workspace --target-dir ../minimal-versions-build
