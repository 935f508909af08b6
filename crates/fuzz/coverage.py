"""Prints the line coverage of each crate by the corpora of the fuzz targets, and of each file with --files: make fuzz-coverage"""
import argparse, collections, glob, json, os, pathlib, subprocess

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("llvm", help="folder of llvm-profdata and llvm-cov of rustc's LLVM version")
arguments.add_argument("--files", action="store_true", help="print each file")
arguments = arguments.parse_args()

FUZZ = pathlib.Path(__file__).parent
PROFILES = sorted(FUZZ.glob("coverage/*/coverage.profdata"))
MERGED = FUZZ / "coverage/all.profdata"


def run(tool, *arguments_):
    return subprocess.run([f"{arguments.llvm}/{tool}", *map(str, arguments_)], check=True, capture_output=True, text=True).stdout


def programs():
    """Returns the instrumented programs of the targets that have a profile."""
    for profile in PROFILES:
        yield from glob.glob(f"{FUZZ}/target/*/coverage/*/release/{profile.parent.name}")


def covered(files):
    """Returns lines and covered lines of each crate or file."""
    found = collections.defaultdict(lambda: [0, 0])
    for file in files:
        path = os.path.normpath(file["filename"])
        crate, _, inner = path.partition("/crates/")[2].partition("/")
        if not inner.startswith("src/") or inner.endswith("tests.rs") or "/tests/" in inner or crate == "fuzz":
            continue
        lines = file["summary"]["lines"]
        name = f"{crate}/{inner}" if arguments.files else crate
        found[name][0] += lines["count"]
        found[name][1] += lines["covered"]
    return found


run("llvm-profdata", "merge", "-sparse", *PROFILES, "-o", MERGED)
first, *others = programs()
report = run("llvm-cov", "export", "-summary-only", f"-instr-profile={MERGED}", first, *(f"-object={other}" for other in others))
for name, (lines, hit) in sorted(covered(json.loads(report)["data"][0]["files"]).items()):
    print(f"{hit / max(lines, 1):6.1%} {hit:6} of {lines:6} lines  {name}")
