"""Builds the command and the wheel in two folders, and compares the bytes (in the environment of `make env`).

The folders have paths of different lengths and their own build folders. Arguments after `--` select features of the command.
"""
import argparse, hashlib, os, pathlib, shutil, subprocess, sys

from flags import compiler_flags

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORK = ROOT / "target/reproducible"


def run(*words, folder, **environment):
    subprocess.run([str(word) for word in words], check=True, cwd=folder, env={**os.environ, **environment})


def copy(folder):
    """Copies the files that git knows, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    for name in names.decode().split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def build(folder, profile, epoch, wheel, features):
    """Returns the files that a build in `folder` makes."""
    environment = {**compiler_flags(folder), "SOURCE_DATE_EPOCH": epoch, "CARGO_TARGET_DIR": str(folder / "target")}
    run("cargo", "build", "--profile", profile, "--locked", "--package", "virtualize-cli", *features, folder=folder, **environment)
    built = [folder / "target" / profile / "virtualize"]
    if wheel:
        run(sys.executable, "-m", "maturin", "build", "--profile", profile, "--locked", "--interpreter", sys.executable,
            "--out", folder / "wheels", folder=folder / "crates/python", **environment)
        built += (folder / "wheels").glob("*.whl")
    return built


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", default="release")
    parser.add_argument("--no-wheel", dest="wheel", action="store_false")
    parser.add_argument("features", nargs="*", default=["--features", "full"])
    options = parser.parse_args()
    epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    shutil.rmtree(WORK, ignore_errors=True)
    sums, folders = [], [WORK / "a", WORK / "another" / "folder"]
    for folder in folders:
        copy(folder)
    for folder in folders:
        files = build(folder, options.profile, epoch, options.wheel, options.features)
        sums.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
        for file in files:
            shutil.copy(file, f"{WORK}/{len(sums)}-{file.name}")
        # The build folder takes gigabytes.
        shutil.rmtree(folder)
    for name, value in sums[0].items():
        print(value, name)
    if sums[0] != sums[1]:
        sys.exit(f"the second build differs: {sums[1]}; compare {WORK}/1-* with {WORK}/2-*")


if __name__ == "__main__":
    main()
