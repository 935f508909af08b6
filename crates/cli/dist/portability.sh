#!/usr/bin/env bash
# Tests the crates without I/O on 32-bit and big-endian processors, or under Miri: portability.sh [i686|s390x|powerpc|miri …]
# Neither the size of a pointer nor the order of bytes in memory may change what they do. Needs qemu-user, lib32gcc-s1 and
# gcc-{i686,s390x,powerpc}-linux-gnu, or `rustup +nightly component add miri rust-src`.
# BUILD_STD=std builds the standard library, where rustup cannot install it (with RUSTC_BOOTSTRAP=1).
set -euo pipefail
cd "$(dirname "$0")/../../.."
packages() {
    printf -- '--package=virtualize-%s ' bytes dmrpp hdf5 map netcdf3 tiff zarr "$@"
}

[ $# -gt 0 ] || set -- i686 s390x powerpc
for processor; do
    case $processor in
    # Without crates that call C. Unit tests alone: the fixtures would take hours.
    miri)
        # shellcheck disable=SC2046
        MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked --lib $(packages)
        continue
        ;;
    i686) crates=$(packages codec rare references) ;;
    # The crate parquet, which references needs, is for little-endian processors.
    *) crates=$(packages codec rare) ;;
    esac
    [ -n "${BUILD_STD:-}" ] || rustup target add "$processor-unknown-linux-gnu"
    # shellcheck disable=SC2086
    cargo test ${BUILD_STD:+-Z build-std=$BUILD_STD} --locked --target "$processor-unknown-linux-gnu" $crates
done
