"""The recipes of docs/many-machines.md for SLURM and AWS Batch run as they are written. `sbatch` and `aws` are small programs that run the jobs here."""
import json, os, re, subprocess, sys

import clients
import pytest
from slow_s3 import SlowS3
from test_batch import content
from test_batch_s3 import day, fetched, filled, signed  # noqa: F401
from test_stores import s3  # noqa: F401

PAGE = clients.ROOT / "docs/many-machines.md"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

# Runs an array of jobs, three at once, each after it was killed once.
SBATCH = """
import concurrent.futures, os, re, subprocess, sys
options = dict(argument.removeprefix("--").partition("=")[::2] for argument in sys.argv[1:-1])
script, array = sys.argv[-1], options.get("array")
if "dependency" in options:
    assert options["dependency"] == "afterok:4711"

def run(number):
    count = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": array.partition("-")[2]} if array else {}
    environment = {**os.environ, **count}
    killed = subprocess.Popen(["bash", script], env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        killed.wait(0.03 * (number % 4))
    except subprocess.TimeoutExpired:
        os.killpg(killed.pid, 9)
    killed.wait()
    subprocess.run(["bash", script], env=environment, stdout=sys.stderr, check=True)

assert re.search(r"^#SBATCH ", open(script).read(), re.M)
first, last = map(int, (array or "1-1").split("-"))
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    list(pool.map(run, range(first, last + 1)))
print("4711")
"""

AWS = """
import concurrent.futures, json, os, subprocess, sys
def given(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None

assert sys.argv[1] == "batch"
if sys.argv[2] == "register-job-definition":
    definition = json.load(open(given("--cli-input-json").removeprefix("file://")))
    assert definition["type"] == "container"
    json.dump(definition, open(definition["jobDefinitionName"], "w"))
    sys.exit()
assert sys.argv[2] == "submit-job" and given("--job-queue") and given("--job-name")
container = json.load(open(given("--job-definition")))["containerProperties"]
size = given("--array-properties")
assert (given("--depends-on") is None) or given("--depends-on") == "jobId=job-1"

def run(index):
    array = {"AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": size.removeprefix("size=")} if size else {}
    named = {each["name"]: each["value"] for each in container["environment"]}
    folder = f"container-{index}"
    os.makedirs(folder, exist_ok=True)
    # The server of the test has another region.
    subprocess.run(container["command"], env={**named, **os.environ, **array}, cwd=folder, stdout=sys.stderr, check=True)

with concurrent.futures.ThreadPoolExecutor(3) as pool:
    list(pool.map(run, range(int(size.removeprefix("size=")) if size else 1)))
print("job-1")
"""


def blocks(heading):
    """Returns the code blocks of a section: those that begin with a comment or `jobDefinitionName` by name, as {name: text}."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[1]
    found = {}
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S):
        name = re.search(r"^# (\S+\.\w+)$", text, re.M)[1] if language == "bash" else "read.json" if "--shard" in text else "join.json"
        found[name] = text
    return found


def programs(folder, **sources):
    """Makes the command and other programs available on PATH."""
    names = folder / "bin"
    names.mkdir()
    os.symlink(clients.BINARY, names / "virtualize")
    for name, source in sources.items():
        (names / name).write_text(f"#!{sys.executable}\n{source.lstrip()}")
        (names / name).chmod(0o755)
    return f"{names}:{os.environ['PATH']}"


def run(script, folder, env):
    done = subprocess.run(["bash", "-euo", "pipefail", script], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_slurm(tmp_path):
    files = blocks("SLURM")
    assert set(files) == {"archive.sh", "read.sbatch", "join.sbatch", "submit.sh"}
    work = tmp_path / "work"
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text)
    with SlowS3({f"era5/d{k:03}.nc": day(k) for k in range(50)}) as server:
        keep = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env = {**keep, **server.env, "PATH": programs(tmp_path, sbatch=SBATCH)}
        whole = clients.virtualize("batch", "s3://bucket/era5/*.nc", "--concat-dim", "time", "-o", tmp_path / "whole.parquet", env=server.env)
        assert whole.status == 0, whole.stderr
        server.asked.clear()
        run("submit.sh", work, env)
        assert server.asked["?list"] == 1
    assert content(work / "era5.parquet") == content(tmp_path / "whole.parquet") != {}
    # Temporary files of killed tasks stay.
    assert len([path for path in (work / "era5.parts").iterdir() if not path.name.startswith(".virtualize-")]) == 21


def test_aws_batch(filled, signed, tmp_path):  # noqa: F811
    endpoint, _, client = filled
    files = blocks("AWS Batch")
    assert set(files) == {"read.json", "join.json", "submit.sh"}
    work = tmp_path / "work"
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text.replace("s3://bucket/era5/*.nc", "s3://private/days/*.nc").replace("s3://bucket/", "s3://private/"))
    keep = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    run("submit.sh", work, {**keep, **signed, "PATH": programs(tmp_path, aws=AWS)})
    whole = clients.virtualize("batch", "s3://private/days/*.nc", "--concat-dim", "time", "-o", tmp_path / "whole.parquet", env=signed)
    assert whole.status == 0, whole.stderr
    assert content(fetched(client, "refs/era5.parquet", tmp_path)) == content(tmp_path / "whole.parquet") != {}
    parts = [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix="era5.parts/")["Contents"]]
    assert len(parts) == 21


def test_definitions_are_json():
    for name, text in blocks("AWS Batch").items():
        if name.endswith(".json"):
            command = json.loads(text)["containerProperties"]["command"]
            assert command[:2] == ["sh", "-c"] and len(command) == 3
