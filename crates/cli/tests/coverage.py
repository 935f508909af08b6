#!/usr/bin/env python3
"""Line coverage of the Rust tests, crate by crate: coverage.py [--workspace | --package NAME …]

Needs llvm-profdata and llvm-cov of rustc's LLVM: LLVM_PROFDATA and LLVM_COV name them, else those of that version on PATH are
taken. As RUSTC_WORKSPACE_WRAPPER, this program compiles our crates with counters; dependencies have none."""
import collections, json, os, pathlib, re, shutil, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RAW = TARGET / "coverage"


def tool(name):
    """Returns an LLVM tool of rustc's version."""
    version = re.search(r"LLVM version: (\d+)", subprocess.check_output(["rustc", "-vV"], text=True))[1]
    found = os.environ.get(name.upper().replace("-", "_")) or shutil.which(f"{name}-{version}")
    return found or sys.exit(f"coverage.py needs {name}-{version} (Debian: apt-get install llvm-{version})")


def executables(arguments, environment):
    """Builds the tests, and returns their executables."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", *arguments]
    built = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = map(json.loads, built.stdout.splitlines())
    return sorted({message["executable"] for message in messages if message.get("executable")})


def main(arguments):
    tool("llvm-cov")  # before the long part
    shutil.rmtree(RAW, ignore_errors=True)
    environment = os.environ | {"RUSTC_WORKSPACE_WRAPPER": __file__, "LLVM_PROFILE_FILE": str(RAW / "%m-%p.profraw")}
    programs = executables(arguments, environment)
    ran = subprocess.run(["cargo", "test", "--locked", "--no-fail-fast", *arguments], env=environment, cwd=ROOT)
    report(RAW.glob("*.profraw"), RAW / "merged.profdata", programs)
    return ran.returncode


def report(profiles, merged, programs):
    """Prints the covered lines of each crate, and its files with the most lines that did not run."""
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", "-o", merged, *profiles], check=True)
    objects = [part for program in programs for part in ("-object", program)]
    summary = subprocess.check_output([tool("llvm-cov"), "export", "-summary-only", "-instr-profile", merged, *objects])
    files, crates = json.loads(summary)["data"][0]["files"], collections.defaultdict(list)
    for file in files:
        if found := re.search(r"crates/((?!fuzz/)[^/]+)/src/((?!.*\btests\b).*)", os.path.normpath(file["filename"])):
            lines = file["summary"]["lines"]
            crates[found[1]].append((lines["count"] - lines["covered"], lines["count"], found[2]))
    for name, parts in sorted(crates.items()):
        missed, count = sum(part[0] for part in parts), sum(part[1] for part in parts)
        worst = ", ".join(f"{file} {lines}" for lines, _, file in sorted(parts, reverse=True)[:5] if lines)
        print(f"{name:12} {100 * (count - missed) / count:5.1f} % of {count:6} lines; not run: {worst}")


if __name__ == "__main__":
    if sys.argv[1:] and pathlib.Path(sys.argv[1]).name == "rustc":
        os.execvp(sys.argv[1], [*sys.argv[1:], "-C", "instrument-coverage"])
    sys.exit(main(sys.argv[1:]))
