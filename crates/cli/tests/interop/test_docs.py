"""Runs the examples of README.md and docs/, and checks those that cannot run.

The blocks of a page run in order in one folder, which contains links to `fixtures` and `docs`, with `virtualize` and the test's Python on PATH.

| block | treatment |
|---|---|
| `console` | runs each line `$ command`, continued by `\\` or in a here-document; the lines below it are the expected output (both streams), in which `…` stands for any text, also across lines. A command without output below it must succeed and print nothing. A command that ends with `&` is a server: the next one runs when its port answers |
| `python` | runs in the namespace of the page, with top-level `await`. A `text` block right after it is its standard output, with `…` |
| any with `title="NAME"` or a first line `# NAME` | is written to the folder as NAME, and checked by its kind |
| `sh`, `bash` | is parsed; each `virtualize` command line must be valid |
| `json`, `yaml`, `toml` | is parsed; the service must accept a configuration |
| others, such as `text` | nothing |

What readers need not see is in comments, which no renderer shows: `<!-- setup: files s3 -->` prepares files or servers of `document_files.py`; `<!-- run … -->` runs shell commands. Variables and the working directory are kept. Ports on 127.0.0.1 and localhost are replaced by free ones.

Pages that use the Python package run in its environment: crates/python/tests/test_docs.py."""
import collections, json, re, shlex, subprocess, tomllib, urllib.parse

import clients
import pytest
from document_files import SETUPS
from documents import Session, blocks, needs_package, pages

# Options of other programs that pages mention, and one that only some builds have.
FOREIGN = {"--array", "--dist", "--features", "--nginx", "--no-default-features", "--wrk"}


def names(page):
    return str(page.relative_to(clients.ROOT))


def marks(page):
    """Tutorials make and serve archives of a year."""
    return [pytest.mark.slow] if page.parent.name == "tutorials" else []


@pytest.mark.parametrize("page", [pytest.param(page, id=names(page), marks=marks(page)) for page in pages() if blocks(page) and not needs_package(page)])
def test_examples(page, tmp_path):
    session = Session(tmp_path, clients.BINARY, setups=SETUPS)
    try:
        wrong = [f"{block.name}: {found}" for block in blocks(page) if (found := session.run(block))]
    finally:
        session.close()
    assert not wrong, "\n\n".join(wrong)


def parsed(*kinds):
    """Blocks that are not run."""
    return [pytest.param(block, id=block.name) for page in pages() for block in blocks(page) if block.kind in kinds]


@pytest.mark.parametrize("block", parsed("json", "yaml", "toml"))
def test_blocks_parse(block, tmp_path):
    if block.kind == "json":
        json.loads(block.text)
    elif block.kind == "yaml":
        import yaml
        assert all(part is not None for part in yaml.safe_load_all(block.text))
    elif {"allow", "listen", "token-file"} & tomllib.loads(block.text).keys():
        (tmp_path / "config.toml").write_text(block.text)
        # An invalid option after a valid configuration: the service does not start, and complains about the option only.
        run = clients.virtualize("serve", "--config", tmp_path / "config.toml", "--listen", "256.0.0.1:0")
        assert "256.0.0.1" in run.stderr, run.stderr


def command_lines(text):
    """Yields the words of each `virtualize` command line of a script."""
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars="();|&<>")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            continue
        start = 0
        for end in [k for k, word in enumerate(words) if set(word) <= set("();|&<>")] + [len(words)]:
            one = [word for k, word in enumerate(words[start:end]) if not (k == 0 and re.fullmatch(r"[A-Z_]+=.*", word))]
            start = end + 1
            # The number of a redirected stream, as in `2>&1`.
            if words[end : end + 1] and words[end][0] in "<>" and one[-1:] and one[-1].isdigit():
                one.pop()
            if one and one[0] == "virtualize":
                yield one[1:]


@pytest.mark.parametrize("block", parsed("sh", "bash", "json", "yaml"))
def test_command_lines_are_valid(block):
    """`--help` at the end of a line makes the command check all options and values before it, and do nothing."""
    if block.kind in ("sh", "bash"):
        done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for words in command_lines(block.text):
        known = options(words)
        unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
        assert not unknown, (unknown, words)
        # Variables have no value here.
        if not any(re.search(r"[$…]", word) for word in words):
            run = clients.virtualize(*words, "--help")
            assert run.status == 0, run.stderr


COMMANDS = ("inspect", "batch", "scan", "journal", "convert", "validate", "diff", "serve", "completions", "man", "explain", "options")


def options(words=()):
    """Returns the options of the command that these words call."""
    command = [word for word in words[:1] if word in COMMANDS]
    return known_options(*command)


_known = {}


def known_options(*command):
    if command not in _known:
        run = clients.virtualize(*command, "--help")
        found = re.findall(r"^ {2,6}(?:-\w, )?(--[a-z][\w-]*)", run.stdout.decode(), re.M) if run.status == 0 else []
        _known[command] = {"--help", "--version", *found}
    return _known[command]


def test_options_that_pages_mention_exist():
    known = set().union(*(known_options(*command) for command in [(), *((name,) for name in COMMANDS)]))
    mentioned = {option: names(page) for page in pages() for option in re.findall(r"`(--[a-z][\w-]*)", prose(page))}
    assert {option: page for option, page in mentioned.items() if option not in known | FOREIGN} == {}


def test_lists_render():
    """The site's Markdown needs an empty line before a list, and four spaces before a nested item; GitHub accepts both."""
    wrong = []
    for page in pages():
        lines = re.sub(r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), page.read_text(), flags=re.M | re.S).splitlines()
        for number, (above, line) in enumerate(zip(["", *lines], lines), 1):
            is_nested = re.match(r" {1,3}([-*]|\d+\.) ", line)
            if is_nested or re.match(r"([-*]|\d+\.) ", line) and above and not re.match(r"([-*]|\d+\.) | ", above):
                wrong.append(f"{names(page)}:{number}: {line}")
    assert not wrong, "\n".join(wrong)


def test_links_of_the_readme_exist():
    """The site checks the links of all other pages."""
    text = (clients.ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^):#]+)[^):]*\)|(?:src|srcset)=\"([^\":]+)\"", text)
    missing = [name for pair in targets if (name := "".join(pair)) and not (clients.ROOT / name).exists()]
    assert not missing, missing


def test_external_links_are_well_formed():
    for page in pages():
        for url in re.findall(r"\]\((\w+:[^)\s]*)\)|<(https?:[^>]*)>", prose(page)):
            parts = urllib.parse.urlsplit("".join(url))
            assert parts.scheme in ("https", "http", "mailto") and re.fullmatch(r"[\w.-]+(:\d+)?", parts.netloc or "x"), (names(page), url)


def prose(page):
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S)


@pytest.mark.parametrize("page, least", [("correctness", 60), ("threat-model", 30)])
def test_tables_name_tests_that_exist(page, least):
    """Each row of these pages names the tests that hold it: by name in Rust, by file and name in Python."""
    sources = "\n".join(path.read_text() for path in (clients.ROOT / "crates").rglob("*.rs") if "target" not in path.parts)
    folders = [clients.ROOT / "crates" / folder for folder in ("cli/tests/interop", "python/tests")]
    modules = collections.defaultdict(str)
    for path in (path for folder in folders for path in folder.glob("*.py")):
        modules[path.name] += path.read_text()
    rows = [line for line in (clients.ROOT / f"docs/{page}.md").read_text().splitlines() if line.startswith("| ")]
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
    assert checked > least and not missing, missing


@pytest.mark.parametrize("page, least", [("docs/architecture.md", 25), (".github/CONTRIBUTING.md", 10)])
def test_source_files_that_pages_name_exist(page, least):
    """Paths from the top or from `crates/`, in code spans."""
    spans = re.findall(r"`([^`\s{*]+/[^`\s{*]*)`", (clients.ROOT / page).read_text())
    tops = {path.name for path in [*clients.ROOT.iterdir(), *(clients.ROOT / "crates").iterdir()]}
    paths = [span.split("::")[0] for span in spans if span.split("/")[0] in tops and "NAME" not in span]
    assert len(paths) > least
    assert [path for path in paths if not (clients.ROOT / path).exists() and not (clients.ROOT / "crates" / path).exists()] == []


def test_nothing_names_a_place_that_does_not_exist():
    """Nothing is published: no organisation, site, registry or release of this project may be linked."""
    places = ["virtualize" + "-rs", "docs.rs/" + "virtualize", "ghcr.io/" + "virtualize", "crates.io/crates/" + "virtualize", "cargo install " + "virtualize",
              "pypi.org/project/" + "virtualize", "pip install " + "virtualize\n", "pip install \"" + "virtualize[", ".." + "/shared"]
    files = subprocess.run(["git", "ls-files"], cwd=clients.ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {name: (clients.ROOT / name).read_bytes() for name in files if (clients.ROOT / name).is_file()}
    assert [(name, place) for name, text in texts.items() for place in places if place.encode() in text] == []
