"""Checks docs/dependencies.md: the number of crates, and the names of those with `unsafe` code or a build script.

Names come from `cargo tree` for the three systems that releases are built for, `unsafe` code from the sources of the crates.
"""
import json, pathlib, re, subprocess, tomllib

import pytest

from clients import ROOT

PAGE = ROOT / "docs/dependencies.md"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
SETS = {
    "command without features": ["--package", "virtualize-cli", "--no-default-features"],
    "command": ["--package", "virtualize-cli"],
    "Rust library": ["--package", "virtualize"],
    "Python wheel": ["--package", "virtualize-python"],
}
# What is not code: comments, strings and characters.
TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.DOTALL)
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|\(|(?:fn|impl|extern|trait)\b)")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def tree(target, edges, *selection):
    """Returns name and version of each crate of other projects."""
    lines = cargo("tree", "--prefix", "none", "--format", "{p}", "--target", target, "--edges", edges, *selection).splitlines()
    return {tuple(line.split()[:2]) for line in lines if line and not line.startswith("virtualize")}


def section(title):
    return PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def listed(title):
    """Returns the names in the last column of a table."""
    rows = [line for line in section(title).splitlines() if line.startswith("| ")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[-2])]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)
    return set(names)


def has_unsafe_code(package):
    libraries = [target for target in package["targets"] if {"lib", "rlib", "proc-macro"} & set(target["kind"])]
    files = {file for library in libraries for file in pathlib.Path(library["src_path"]).parent.rglob("*.rs")}
    texts = (file.read_text("utf-8", errors="replace") for file in files)
    return any("unsafe" in text and UNSAFE.search(TEXT.sub("", text)) for text in texts)


def has_build_script(package):
    return any("custom-build" in target["kind"] for target in package["targets"])


@pytest.fixture(scope="module")
def packages():
    used = set().union(*(tree(target, "normal,build,dev", "--workspace", "--all-features") for target in TARGETS))
    found = json.loads(cargo("metadata", "--format-version", "1", "--all-features"))["packages"]
    return [package for package in found if (package["name"], "v" + package["version"]) in used]


@pytest.mark.parametrize("name", SETS)
def test_number_of_crates(name):
    linked, compiled = (len(tree(TARGETS[0], edges, *SETS[name])) for edges in ("normal,no-proc-macro", "normal,build"))
    row = next(line for line in section("Number of crates").splitlines() if line.startswith(f"| {name} |"))
    assert row.split("|")[-3:-1] == [f" {linked} ", f" {compiled} "]


@pytest.mark.parametrize("title, condition", [("Unsafe code", has_unsafe_code), ("Build scripts", has_build_script)])
def test_crates_have_a_reason(title, condition, packages):
    expected = {package["name"] for package in packages if condition(package)}
    names = listed(title)
    assert expected, "the sources of crates are missing"
    assert names == expected, f"without a reason: {sorted(expected - names)}; no longer needed: {sorted(names - expected)}"


def test_tests_run_with_the_oldest_compiler_that_cargo_toml_allows():
    oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    used = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert used in (oldest, f"{oldest}.0")
