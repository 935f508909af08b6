"""Runs the examples of README.md and docs/, which must print the documented output.

In a block fenced by ```console, a line `$ command` is run with `virtualize` and the test's Python on PATH. The following lines are its expected
output (both streams), in which `…` stands for any text, also across lines. Other blocks are not run. Each block runs in a temporary folder that
contains links to `fixtures` and `docs`."""
import os, re, subprocess, sys

import clients
import pytest

DOCUMENTS = sorted([clients.ROOT / "README.md", *(clients.ROOT / "docs").rglob("*.md")])


def examples():
    for document in DOCUMENTS:
        if not document.is_file():
            continue
        for match in re.finditer(r"^```console\n(.*?)^```$", document.read_text(), re.M | re.S):
            line = document.read_text()[: match.start()].count("\n") + 1
            yield pytest.param(match[1], id=f"{document.name}:{line}")


def steps(block):
    """Yields (command, expected output) of a block."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = command[:-1] + more.lstrip("> ")
        yield command, output.strip()


def pattern(output):
    return re.compile(".*?".join(re.escape(part) for part in output.split("…")), re.S)


@pytest.fixture
def environment(tmp_path):
    names = tmp_path / "bin"
    names.mkdir()
    os.symlink(clients.BINARY, names / "virtualize")
    for name in ("python", "python3"):
        (names / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (names / name).chmod(0o755)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RUST_LOG"))}
    return {**keep, "PATH": f"{names}:{os.environ['PATH']}", "COLUMNS": "100", "PYTHONWARNINGS": "ignore"}, tmp_path


@pytest.mark.parametrize("block", examples())
def test_example(block, environment):
    env, tmp_path = environment
    folder = tmp_path / "top"
    folder.mkdir()
    for name in ("fixtures", "docs"):
        os.symlink(clients.ROOT / name, folder / name)
    for command, output in steps(block):
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        printed = done.stdout.strip()
        if output:
            assert pattern(output).fullmatch(printed), f"$ {command}\n{printed}\n--- expected ---\n{output}"
        else:
            assert printed == "", f"$ {command}\n{printed}"


def test_correctness_names_tests_that_exist():
    """Each row of docs/correctness.md names the tests that hold it: by name in Rust, by file and name in Python."""
    sources = "\n".join(path.read_text() for path in (clients.ROOT / "crates").rglob("*.rs") if "target" not in path.parts)
    folders = [clients.ROOT / "crates" / folder for folder in ("cli/tests/interop", "python/tests")]
    modules = {path.name: path.read_text() for folder in folders for path in folder.glob("*.py")}
    rows = [line for line in (clients.ROOT / "docs/correctness.md").read_text().splitlines() if line.startswith("| ")]
    missing, module, checked = [], None, 0
    for name in [name for row in rows for name in re.findall(r"`([^`]+)`", row.strip(" |").split(" | ")[-1])]:
        if match := re.fullmatch(r"(?:(test_\w+\.py)|…)(?:::(\w+))?", name):
            module = match[1] or module
            found = module in modules and (not match[2] or f"def {match[2]}(" in modules[module])
        elif re.fullmatch(r"[a-z]\w*_\w+", name):
            found = f"fn {name}(" in sources
        else:
            continue
        checked += 1
        missing += [] if found else [name]
    assert checked > 60 and not missing, missing
