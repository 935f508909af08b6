#!/usr/bin/env bash
# Fuzzes targets, minimises their corpora, or measures the lines that the corpora reach: run.sh fuzz|minimise|coverage [TARGET …]
#
# corpora/TARGET.tar.xz is the minimised corpus, which `minimise` rewrites. It is unpacked into corpus/TARGET, which git ignores
# and runs extend. Needs cargo-fuzz, the oracles of `make env`, and for `coverage` LLVM's tools in rustc's version: LLVM=FOLDER, such
# as /usr/lib/llvm-22/bin (Debian's llvm-22), or `rustup component add llvm-tools`.
set -eu
cd "$(dirname "$0")"
# Coverage instrumentation needs flags that stable Rust hides. No sanitizer: the code has no unsafe blocks.
export RUSTC_BOOTSTRAP=1
task=$1
shift
cargo fuzz --version >/dev/null || { echo "run.sh needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1; }
if [ "$task" = coverage ]; then
    LLVM=${LLVM:-$(dirname "$(find "$(rustc --print sysroot)" -name llvm-profdata)")}
    [ -x "$LLVM/llvm-profdata" ] || { echo "run.sh needs LLVM's tools: rustup component add llvm-tools, or LLVM=FOLDER" >&2; exit 1; }
fi

targets=("$@")
test $# -gt 0 || mapfile -t targets < <(cargo fuzz list --fuzz-dir .)
for target in "${targets[@]}"; do
    corpus=corpus/$target
    mkdir -p "$corpus"
    test ! -e "corpora/$target.tar.xz" || tar -xf "corpora/$target.tar.xz" -C "$corpus" --skip-old-files
    case $target in
    open) seeds=(../../fixtures/{hdf5,netcdf3,tiff}) ;;
    hdf5* | tiff*) seeds=(../../fixtures/{"${target%_differential}",mapping}) ;;
    *) seeds=(../../fixtures/"${target%_differential}") ;;
    esac
    test -d "${seeds[0]}" || seeds=()
    # With cfg(fuzzing), miniz_oxide skips the checksums of zlib streams, and decodes what the reference libraries refuse.
    case $target in
    *_differential) checks=(--no-cfg-fuzzing) ;;
    *) checks=() ;;
    esac
    case $task in
    fuzz)
        cargo fuzz run "${checks[@]}" --fuzz-dir . -s none "$target" "$corpus" "${seeds[@]}" -- -max_total_time="${SECONDS_EACH:-60}" \
            -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1
        ;;
    minimise)
        cargo fuzz cmin "${checks[@]}" --fuzz-dir . -s none "$target" "$corpus" -- -timeout=10 -rss_limit_mb=1024 -max_len=65536
        tar -caf "corpora/$target.tar.xz" -C "$corpus" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
        ;;
    coverage)
        cargo fuzz coverage "${checks[@]}" --fuzz-dir . -s none --llvm-path "$LLVM" "$target" "$corpus" "${seeds[@]}"
        ;;
    esac
done
if [ "$task" = coverage ]; then LLVM_PROFDATA=$LLVM/llvm-profdata LLVM_COV=$LLVM/llvm-cov python3 coverage.py; fi
