"""Colours, width and progress bars on a terminal (a pseudo-terminal), and plain text elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import clients
import pytest
import slow_s3

ESCAPE = "\x1b"


def environment(**more):
    """Return an environment without variables about terminals, but for these."""
    names = {"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_LOG", "TERM", "CI"}
    return {**{name: value for name, value in os.environ.items() if name not in names}, "TERM": "xterm-256color", **more}


def on_terminal(*arguments, columns=80, **more):
    """Run the command on a pseudo-terminal, and return what it shows there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([clients.BINARY, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**more))
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux reports the end so.
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait()
    return shown.decode()


def elsewhere(*arguments, **more):
    """Run the command without a terminal, and return what it prints."""
    run = subprocess.run([clients.BINARY, *map(str, arguments)], capture_output=True, text=True, env=environment(**more), stdin=subprocess.DEVNULL)
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def warned():
    """Arguments that lead to a warning."""
    return [clients.FIXTURES / "hdf5/fill_message_1.h5", "-o", "/dev/null"]


MESSAGES = [
    (["/no/such/file.nc"], "error:"),
    (["--no-such-option"], "error:"),
    (["inspct"], "error:"),
    (["--help"], "Usage:"),
    (["batch", "-h"], "Usage:"),
]


@pytest.mark.parametrize("arguments, start", MESSAGES)
def test_text_is_coloured_on_a_terminal_alone(arguments, start):
    shown = on_terminal(*arguments)
    assert ESCAPE in shown and start in re.sub(r"\x1b\[[0-9;]*m", "", shown), shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")
    assert on_terminal(*arguments, NO_COLOR="1").replace("\r\n", "\n") == plain
    assert elsewhere(*arguments, COLUMNS="80") == plain
    assert ESCAPE in elsewhere(*arguments, CLICOLOR_FORCE="1")
    assert ESCAPE not in elsewhere(*arguments, CLICOLOR_FORCE="1", NO_COLOR="1")
    assert ESCAPE not in on_terminal(*arguments, TERM="dumb")


def test_warnings_are_coloured_on_a_terminal_alone(warned):
    assert f"{ESCAPE}[1;33mwarning:{ESCAPE}[0m " in on_terminal(*warned)
    assert ESCAPE not in on_terminal(*warned, NO_COLOR="1")
    assert ESCAPE not in elsewhere(*warned)


def test_the_log_is_coloured_on_a_terminal_alone(warned):
    assert ESCAPE in on_terminal(*warned, "-vv")
    assert ESCAPE not in on_terminal(*warned, "-vvv", NO_COLOR="1")
    log = elsewhere(*warned, "-vvv")
    assert "DEBUG" in log and ESCAPE not in log


def test_a_progress_bar_is_drawn_on_a_terminal_only(tmp_path):
    def run(how, name, **more):
        file = clients.FIXTURES / "hdf5/netcdf4.nc"
        return how("batch", file, "--concat-dim", "time", "-o", tmp_path / name, **more)

    assert "1 read in" in run(on_terminal, "a.json") and ESCAPE in run(on_terminal, "b.json")
    shown = run(on_terminal, "c.json", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*m", shown), "a bar moves the cursor, without colours"
    assert ESCAPE not in run(on_terminal, "d.json", TERM="dumb")
    assert ESCAPE not in run(elsewhere, "e.json")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_has_the_width_of_the_terminal(columns):
    for shown in (on_terminal("batch", "--help", columns=columns, NO_COLOR="1"), elsewhere("batch", "--help", COLUMNS=str(columns))):
        options = shown.replace("\r\n", "\n").split("Examples:")[0]
        widest = max(map(len, options.splitlines()))
        assert columns - 12 <= widest <= columns, shown


def test_help_is_readable_at_any_width():
    assert max(map(len, on_terminal("batch", "--help", columns=300, NO_COLOR="1").split("Examples:")[0].splitlines())) <= 120
    assert max(map(len, elsewhere("batch", "--help").split("Examples:")[0].splitlines())) <= 100
    # COLUMNS takes precedence over the terminal, as in other programs.
    assert max(map(len, on_terminal("batch", "--help", columns=300, NO_COLOR="1", COLUMNS="70").split("Examples:")[0].splitlines())) <= 70


def shown_of_slow_file(how, *arguments, **more):
    """Run a command on a file of a store that takes 1.2 seconds for each request."""
    content = (clients.FIXTURES / "hdf5/netcdf4.nc").read_bytes()
    with slow_s3.SlowS3({"a.nc": content}, latency=1.2) as store:
        return how(*arguments, **store.env, **more)


def test_a_slow_remote_file_shows_its_progress_on_a_terminal_alone(tmp_path):
    convert = ["s3://bucket/a.nc", "-o", tmp_path / "a.json"]
    for arguments in (convert, ["inspect", "s3://bucket/a.nc"]):
        shown = shown_of_slow_file(on_terminal, *arguments)
        assert "reading: 1 level, 0 requests, 0 bytes" in shown, shown
        assert shown.rindex("\x1b[2K") > shown.rindex("reading:"), "erased at the end"
    for hidden in (["--quiet"], ["-v"]):
        assert "reading:" not in shown_of_slow_file(on_terminal, *convert, *hidden)
    assert "reading:" not in shown_of_slow_file(on_terminal, *convert, TERM="dumb")
    assert "reading:" not in shown_of_slow_file(elsewhere, *convert)
    assert "reading:" not in on_terminal(clients.FIXTURES / "hdf5/netcdf4.nc", "-o", tmp_path / "b.json")
