"""The recipes of docs/many-machines.md for SLURM and Kubernetes run as they are written. `sbatch` and `kubectl` are small programs that run the jobs here."""
import os, re, subprocess, sys

import clients
import pytest
from test_batch import content
from test_batch_s3 import day, fetched, filled, signed  # noqa: F401
from test_stores import s3  # noqa: F401

PAGE = clients.ROOT / "docs/many-machines.md"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

# Runs an array of jobs, three at once, each after it was killed once.
SBATCH = """
import concurrent.futures, os, re, subprocess, sys, time
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
    # The script's own processes end a little later, and hold their lock until then.
    for _ in range(100):
        try:
            os.killpg(killed.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    subprocess.run(["bash", script], env=environment, stdout=sys.stderr, check=True)

assert re.search(r"^#SBATCH ", open(script).read(), re.M)
first, last = map(int, (array or "1-1").split("-"))
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    list(pool.map(run, range(first, last + 1)))
print("4711")
"""

KUBECTL = """
import concurrent.futures, os, subprocess, sys, yaml

if sys.argv[1] == "wait":
    assert sys.argv[-1] == "job/era5-read"
    sys.exit()
job = yaml.safe_load(open(sys.argv[sys.argv.index("-f") + 1]))
assert sys.argv[1] == "apply" and job["kind"] == "Job"
spec = job["spec"]
assert spec.get("completionMode") in ("Indexed", None)
[container] = spec["template"]["spec"]["containers"]

def run(index):
    folder = f"{job['metadata']['name']}-{index}"
    os.makedirs(folder, exist_ok=True)
    array = {"JOB_COMPLETION_INDEX": str(index)} if "completions" in spec else {}
    subprocess.run([*container["command"], *container["args"]], env={**os.environ, **array}, cwd=folder, stdout=sys.stderr, check=True)

with concurrent.futures.ThreadPoolExecutor(3) as pool:
    list(pool.map(run, range(spec.get("completions", 1))))
"""


def blocks(heading):
    """Returns the code blocks of a section by the names in their comments."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[1]
    texts = re.findall(r"^```\w+\n(.*?)^```$", section, re.M | re.S)
    return {re.search(r"^# (\S+\.\w+)$", text, re.M)[1]: text for text in texts}


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
    assert set(files) == {"archive.sh", "read.sbatch", "merge.sbatch", "submit.sh"}
    work, data = tmp_path / "work", tmp_path / "data/era5"
    work.mkdir()
    data.mkdir(parents=True)
    for name, text in files.items():
        (work / name).write_text(text.replace("/data/era5", str(data)))
    for k in range(50):
        (data / f"d{k:03}.nc").write_bytes(day(k))
    run("submit.sh", work, {**os.environ, "PATH": programs(tmp_path, sbatch=SBATCH)})
    whole = clients.virtualize("batch", f"{data}/*.nc", "--concat-dim", "time", "-o", tmp_path / "whole.parquet")
    assert whole.status == 0, whole.stderr
    assert content(work / "era5.parquet") == content(tmp_path / "whole.parquet") != {}
    assert len([*(work / "era5.shards").glob("*.journal")]) == 20


def test_kubernetes(filled, signed, tmp_path):  # noqa: F811
    endpoint, _, client = filled
    files = blocks("Kubernetes")
    assert set(files) == {"read.yaml", "submit.sh"}
    work = tmp_path / "work"
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text.replace("s3://bucket/era5/*.nc", "s3://private/days/*.nc").replace("s3://bucket/", "s3://private/"))
    keep = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    run("submit.sh", work, {**keep, **signed, "PATH": programs(tmp_path, kubectl=KUBECTL)})
    whole = clients.virtualize("batch", "s3://private/days/*.nc", "--concat-dim", "time", "-o", tmp_path / "whole.parquet", env=signed)
    assert whole.status == 0, whole.stderr
    assert content(fetched(client, "refs/era5.parquet", tmp_path)) == content(tmp_path / "whole.parquet") != {}
    journals = client.list_objects_v2(Bucket="private", Prefix="era5.shards/")["Contents"]
    assert len(journals) == 20
