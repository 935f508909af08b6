"""The messages of docs/how-to/troubleshooting.md: a file or command that triggers each code prints them."""
import re, subprocess

import clients
import pytest
import triggers

PAGE = clients.ROOT / "docs/how-to/troubleshooting.md"
SECTIONS = dict(re.findall(r"^### ([a-z0-9-]+)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S))
TRIGGERS = {**triggers.DIAGNOSTICS, **triggers.ERRORS}
# Codes of the command that have no trigger here, and why.
UNTRIGGERED = {
    "chunks-unreadable": "needs a failing disk",
    "codec-name-clash": "Python only: crates/python/tests/test_codecs.py",
    "file-limit": "needs a file larger than 1 GiB, or one made for it: tests in crates/hdf5",
    "internal": "needs a bug",
    "not-allowed": "service only: crates/server/tests/it/access.rs",
    "ome-series": "test_tiff_structure.py",
    "output-failed": "needs a full disk",
    "output-locked": "needs two processes: test_batch_runs.py",
    "root-unreadable": "damage at the root is reported as file-malformed, unless another reader is used",
    "source-region": "needs S3: test_stores.py",
    "stopped": "needs a signal: test_batch_runs.py",
    "tiff-lerc": "needs a store that fails between two requests: test_lerc.py",
    "tiff-lerc-mask": "needs a remote file of more than 1,024 chunks",
    "tiff-truncated": "the reader reports such a file as tiff-image",
    "too-large": "needs a file made for it: test_hard_links.py",
    "too-many-nodes": "needs a million nodes",
    "unpack-needs-v3": "the command checks its arguments first; callers of the library see it",
}
SERVICE = PAGE.read_text().split("## HTTP service")[1]


def section_codes():
    return [code for code in SECTIONS if f"### {code}\n" not in SERVICE]


def test_each_code_has_a_trigger_or_a_reason():
    assert sorted(section_codes()) == sorted([*TRIGGERS, *UNTRIGGERED])


@pytest.mark.parametrize("code", TRIGGERS)
def test_the_message_is_printed(code, tmp_path):
    arguments = TRIGGERS[code](tmp_path)
    done = subprocess.run([clients.BINARY, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    message = re.search(r"^```text\n(.*?)\n```$", SECTIONS[code], re.M | re.S)
    assert message, f"the section of {code} shows no message"
    # `inspect` wraps lines.
    shown = " ".join((done.stdout + done.stderr).split())
    pattern = ".{0,1000}?".join(re.escape(" ".join(part.split())) for part in re.split(r"\s*…\s*", message[1]))
    assert re.search(pattern, shown), shown[-3000:]


@pytest.mark.parametrize("code", ["fill-value-dropped", "[mismatch]"])
def test_the_command_prints_the_section(code):
    run = clients.virtualize("explain", code)
    assert run.status == 0 and "Cure." in run.stdout.decode()
