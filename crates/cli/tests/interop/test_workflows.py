"""Checks .github/: actionlint for the workflows, zizmor for their security, ShellCheck for their scripts and those of the repository."""
import subprocess

import yaml

from clients import ENV, NODE, ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONLINT = ENV / "actionlint" / "node_modules" / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
SHELLCHECK = [ENV / "bin" / "shellcheck", "--shell=bash", "--severity=warning"]


def check(*command, **options):
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stdout + done.stderr


def scripts():
    """Returns the `run` scripts of all workflows, by workflow, job and step."""
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            for number, step in enumerate(job.get("steps", [])):
                if "run" in step:
                    yield f"# {path.stem}, {name}, step {number}\nset -e\n{step['run']}"


def test_actionlint():
    assert WORKFLOWS
    check(NODE, ACTIONLINT, ".github/workflows/*.yml")


def test_zizmor():
    check(ENV / "bin" / "zizmor", "--offline", "--no-progress", GITHUB)


def test_scripts_of_workflows(tmp_path):
    files = []
    for number, script in enumerate(scripts()):
        files.append(tmp_path / f"{number}.sh")
        files[-1].write_text(script)
    check(*SHELLCHECK, *files)


def test_scripts_of_the_repository():
    listed = subprocess.run(["git", "ls-files", "*.sh", ".ci/run"], cwd=ROOT, capture_output=True, text=True, check=True)
    check(*SHELLCHECK, *listed.stdout.split())
