"""Reads the blocks of a Markdown page, and runs them in order in one folder. The docstring of test_docs.py describes the conventions."""
import dataclasses, json, os, re, select, signal, socket, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$|^<!-- (?P<hidden>setup|run):?\s(?P<content>.*?)-->", re.M | re.S)
FILE_NAME = re.compile(r"(?:#![^\n]*\n)?# ([\w./-]+\.\w+)\n")
ADDRESS = re.compile(r"(?:(?<=127\.0\.0\.1:)|(?<=localhost:)|(?<= -p )|(?<=--port ))\d{4,5}\b")
DEFAULT_PORT = "8080"
# Runs blocks of Python in one namespace. Requests and results are lines of JSON; what the blocks print goes to files.
PYTHON = r"""
import ast, asyncio, inspect, json, os, sys, traceback
requests, results = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
loop = asyncio.new_event_loop()
sys.path.insert(0, "")
for line in requests:
    request = json.loads(line)
    os.environ.update(request["env"])
    for stream, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream); os.close(file)
    failed = False
    try:
        asyncio.set_event_loop(loop)
        code = compile(request["code"], request["name"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        made = eval(code, globals())
        if inspect.iscoroutine(made):
            loop.run_until_complete(made)
    except BaseException:
        traceback.print_exc()
        failed = True
    sys.stdout.flush(); sys.stderr.flush()
    print(json.dumps(failed), file=results, flush=True)
"""


@dataclasses.dataclass
class Block:
    """A fenced block, or a hidden comment (`setup` or `run`)."""

    page: Path
    line: int
    kind: str
    text: str
    file: str | None = None
    output: str | None = None

    @property
    def name(self):
        return f"{self.page.name}:{self.line}"


def pages():
    """Returns README.md and all pages."""
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page):
    """Returns the blocks of a page in order. A `text` block right after a `python` block is the output of the latter."""
    source, found, end = page.read_text(), [], 0
    for match in BLOCK.finditer(source):
        indent = match["indent"] or ""
        text = re.sub(f"^{indent}", "", match["content"] or match["text"] or "", flags=re.M)
        title = re.search(r'title="([^"]+)"', match["info"] or "") or FILE_NAME.match(text)
        block = Block(page, source[: match.start()].count("\n") + 1, match["hidden"] or match["kind"], text, title and title[1])
        if block.kind == "text" and found and found[-1].kind == "python" and not source[end : match.start()].strip():
            found[-1].output = text
        found.append(block)
        end = match.end()
    return found


def steps(text):
    """Yields (command, expected output) of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\") or unfinished(command):
            more, _, output = output.partition("\n")
            command = command[:-1] + more.lstrip("> ") if command.endswith("\\") else command + "\n" + more.removeprefix("> ")
        yield command, output.strip()


def unfinished(command):
    """Tells whether a here-document or a quotation continues on the next line."""
    if document := re.search(r"<<-?\s*['\"]?(\w+)", command):
        return not re.search(rf"^{document[1]}$", command, re.M)
    return len(re.sub(r"\\.|'[^']*'|\"(\\.|[^\"\\])*\"", "", command).split("'")) > 1


def pattern(output):
    return re.compile(".*?".join(re.escape(part) for part in output.split("…")), re.S)


class Session:
    """The folder, environment, programs and servers of one page."""

    def __init__(self, top, virtualize, python=sys.executable, setups=None):
        self.top, self.folder, self.setups = top, top / "page", setups or {}
        self.folder.mkdir()
        for name in ("fixtures", "docs"):
            os.symlink(ROOT / name, self.folder / name)
        self.python, self.process, self.started, self.ports, self.stops = python, None, [], {}, []
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_LOG"))}
        # Settings of the developer must not affect pages.
        keep |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        names = self.programs(virtualize)
        self.env = {**keep, "PATH": f"{names}:{os.environ['PATH']}", "COLUMNS": "100", "PYTHONWARNINGS": "ignore", "MPLBACKEND": "agg"}
        # Another program may use the service's default port.
        self.env["VIRTUALIZE_LISTEN"] = f"127.0.0.1:{self.port(DEFAULT_PORT)}"

    def programs(self, virtualize):
        names = self.top / "bin"
        names.mkdir()
        for name, command in {"virtualize": virtualize, "python": f'"{self.python}"', "python3": f'"{self.python}"'}.items():
            (names / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (names / name).chmod(0o755)
        return names

    def port(self, shown):
        """Returns the free port that stands for the one that the page shows."""
        if shown not in self.ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports[shown] = str(free.getsockname()[1])
        return self.ports[shown]

    def local(self, text):
        return ADDRESS.sub(lambda match: self.port(match[0]), text)

    def shown(self, text):
        for shown, port in self.ports.items():
            text = re.sub(rf"(?<=:){port}\b", shown, text)
        return text

    def run(self, block):
        """Runs a block, and returns what is wrong with it, if anything."""
        if block.file:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.local(block.text))
        elif block.kind == "setup":
            for name in block.text.split():
                self.stops.append(self.setups[name](self))
        elif block.kind == "run":
            return self.command(block.text, None)
        elif block.kind == "console":
            return "\n".join(filter(None, [self.command(command, output) for command, output in steps(block.text)])) or None
        elif block.kind == "python":
            return self.run_python(block)

    def command(self, command, output):
        """Runs a command. Without an expected output, it must succeed; `None` accepts any output."""
        state, log = self.top / "state", self.top / f"log-{len(self.started)}"
        state.touch()
        # Variables live on, as in a terminal.
        script = f". {state}; set -a\n{self.local(command)}\nstatus=$?; export -p >{state}; echo \"cd '$PWD'\" >>{state}; exit $status\n"
        is_server = command.rstrip().endswith("&")
        with open(log, "wb") as out:
            shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
        self.started.append(shell)
        try:
            status = shell.wait(120)
        except subprocess.TimeoutExpired:
            return f"$ {command}\ntook more than 120 seconds"
        if is_server:
            self.wait_for(command, log, output or "")
        printed = self.shown(log.read_text(errors="replace")).strip()
        if output and not pattern(output).fullmatch(printed):
            return f"$ {command}\n{printed}\n--- expected ---\n{output}"
        if output == "" and printed and not is_server or status and not output:
            return f"$ {command}\n{printed}\nstatus {status}"

    def wait_for(self, command, log, output):
        """Waits until a server in the background answers, and has printed what the page shows."""
        ports = [self.port(shown) for shown in ADDRESS.findall(command) or [DEFAULT_PORT]]
        for _ in range(200):
            if all(map(is_open, ports)) and (not output or pattern(output).fullmatch(self.shown(log.read_text()).strip())):
                return
            time.sleep(0.1)

    def run_python(self, block):
        if not self.process:
            self.process = subprocess.Popen([self.python, "-c", PYTHON], cwd=self.folder, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
            self.started.append(self.process)
        out, err = self.top / "python.out", self.top / "python.err"
        request = {"code": "\n" * block.line + self.local(block.text), "name": str(block.page), "out": str(out), "err": str(err), "env": self.exported()}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], 120)
        answer = self.process.stdout.readline() if ready else ""
        printed = self.shown(out.read_text(errors="replace")).strip()
        if answer != "false\n":
            return self.shown(err.read_text(errors="replace")) or "Python ended, or took more than 120 seconds"
        if block.output and not pattern(block.output.strip()).fullmatch(printed):
            return f"{printed}\n--- expected ---\n{block.output}"

    def exported(self):
        """Returns the environment that commands of the page have exported."""
        state = self.top / "state"
        script = f"[ ! -e {state} ] || . {state}; {sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        return json.loads(subprocess.run(["bash", "-c", script], env=self.env, capture_output=True, text=True, check=True).stdout)

    def close(self):
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            with process:
                pass
        for stop in self.stops:
            stop and stop()


def is_open(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), 1).close()
    except OSError:
        return False
    return True


def needs_package(page):
    """Tells whether a page uses the Python package, which is installed in an environment of its own."""
    return any(block.kind == "python" and re.search(r"^\s*(import|from) virtualize\b|engine=\"virtualize\"|, virtualize\b", block.text, re.M) for block in blocks(page))
