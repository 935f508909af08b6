#!/usr/bin/env bash
# Compares the public Rust API of the crates with a stable one with that of a revision, by default the latest release: semver.sh [REVISION]
# Needs cargo-semver-checks. The crate virtualize exports virtualize-zarr.
set -euo pipefail
cd "$(dirname "$0")/../../.."
baseline=${1:-$(git describe --tags --match 'v*' --abbrev=0 2>/dev/null || true)}
if [ -z "$baseline" ]; then
    echo "no release yet, so there is nothing to compare with"
    exit
fi
cargo semver-checks --default-features --baseline-rev "$baseline" --package virtualize --package virtualize-archive --package virtualize-zarr
