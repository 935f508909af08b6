"""The messages of docs/how-to/troubleshooting.md: a file or command that triggers each code prints them."""
import re, subprocess

import clients
import pytest
import triggers

PAGE = clients.ROOT / "docs/how-to/troubleshooting.md"
SECTIONS = dict(re.findall(r"^### ([a-z0-9-]+)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S))
TRIGGERS = {**triggers.DIAGNOSTICS, **triggers.ERRORS}


@pytest.mark.parametrize("code", TRIGGERS)
def test_the_message_is_printed(code, tmp_path):
    arguments = TRIGGERS[code](tmp_path)
    done = subprocess.run([clients.BINARY, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    # `inspect` wraps lines.
    printed = " ".join((done.stdout + done.stderr).split())
    # A code in a table has no example of its message.
    message = re.search(r"^> (`+) ?(.*?) ?\1$", SECTIONS.get(code, ""), re.M)
    example = message[2] if message else f"[{code}]"
    pattern = ".{0,1000}?".join(re.escape(" ".join(part.split())) for part in re.split(r"\s*…\s*", example))
    assert re.search(pattern, printed), printed[-3000:]


@pytest.mark.parametrize("code", ["fill-value-dropped", "[mismatch]", "link-cycle"])
def test_the_command_prints_the_section(code):
    run = clients.virtualize("explain", code)
    assert run.status == 0 and "Remedy." in run.stdout.decode()
