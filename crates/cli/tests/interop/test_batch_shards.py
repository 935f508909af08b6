"""`batch` on many machines: shards that are read apart, in any order, repeatedly, killed and repeated, give the bytes of one undisturbed run. Whatever
does not belong together is refused. More archives: RANDOM_SHARDS=100."""
import concurrent.futures, json, os, pathlib, random, shutil, signal, subprocess

import clients
import pytest
from archives import archive, days, netcdf
from clients import virtualize
from slow_s3 import SlowS3
from test_batch import content
from test_batch_s3 import filled, signed  # noqa: F401
from test_stores import s3  # noqa: F401

SEEDS = int(os.environ.get("RANDOM_SHARDS", 3))
OUTPUTS = ["out.json", "out.parquet", "out.zarr", "out.icechunk"]
BROKEN = b"\x89HDF\r\n\x1a\n" + bytes(100)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


# ---- commands

def run(*arguments, status=0, env=None):
    done = virtualize("batch", *arguments, env=env)
    assert done.status == status, done.stderr
    return done


def receipt(done):
    """Returns the receipt that a shard prints: one line of at most 1 KB."""
    assert done.stdout.count(b"\n") == 1 and len(done.stdout) <= 1025, done.stdout
    return json.loads(done.stdout)


def killed(arguments, choose, most=0.15):
    """Starts a command and kills it, if it has not ended by then."""
    process = subprocess.Popen([clients.BINARY, "batch", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(choose.uniform(0, most))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.wait()


def shards(arguments, folder, of, more=(), env=None):
    """Reads all shards, several at once. Returns the parts."""
    parts = [f"{folder}/{k}-of-{of}.parquet" for k in range(1, of + 1)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda k: receipt(run(*arguments, *more, "--shard", f"{k}/{of}", "--part", parts[k - 1], env=env)), range(1, of + 1)))
    return parts


def same(ours, theirs):
    """Compares outputs byte by byte, and repositories node by node."""
    if str(ours).endswith(".icechunk"):
        done = virtualize("diff", ours, theirs)
        assert done.status == 0, done.stdout
    else:
        assert content(ours) == content(theirs) != {}


def refused(*arguments, says, output):
    done = virtualize("batch", *arguments)
    assert done.status in (1, 2), done
    text = done.stderr.splitlines()[-1]
    assert text.startswith("error: ") and all(one in text for one in says), done.stderr
    assert not pathlib.Path(output).exists()
    return text


# ---- the same bytes

@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_sharding_gives_the_bytes_of_one_run(tmp_path, seed, name):
    choose = random.Random(f"{seed} {name}")
    inputs, options = archive(tmp_path / "files", choose)
    whole, out, plan = tmp_path / "whole" / name, tmp_path / name, tmp_path / "plan.parquet"
    whole.parent.mkdir()
    run(inputs, *options, "-o", whole)
    arguments = [inputs, *options, "-o", out]
    more = choose.choice([[], ["--plan", plan]])
    if more:
        run(*arguments, *more)
        assert not out.exists()
    parts = []
    # Parts of two divisions: either is enough.
    for of in choose.sample([1, 2, 3, 5, 14], 2):
        numbers = list(range(1, of + 1)) + choose.choices(range(1, of + 1), k=2)
        choose.shuffle(numbers)
        for number in numbers:
            part = tmp_path / "parts" / f"{number}-of-{of}.parquet"
            command = [*arguments, *more, "--shard", f"{number}/{of}", "--part", part]
            if choose.random() < 0.3:
                killed(command, choose)
            assert receipt(run(*command))
            parts.append(part)
    choose.shuffle(parts)
    given = choose.choice([[tmp_path / "parts"], [f"{tmp_path}/parts/*.parquet"], parts])
    command = [*arguments, *more, *(argument for part in given for argument in ("--parts", part))]
    for _ in range(choose.randint(0, 3)):
        killed(command, choose)
    done = run(*command)
    assert not out.parent.joinpath("out.json.parts").exists()
    same(out, whole)
    # The journal is that of an ordinary run.
    again = run(*arguments)
    assert "up to date" in again.stderr.lower(), (done.stderr, again.stderr)
    same(out, whole)


def test_parts_of_several_divisions_complete_each_other(tmp_path):
    arguments = [*days(tmp_path / "files"), "-o", tmp_path / "out.json"]
    run(*arguments[:-1], tmp_path / "whole.json")
    for shard in ("1/2", "3/3", "4/6"):
        run(*arguments, "--shard", shard, "--part", tmp_path / "parts" / f"{shard.replace('/', '-')}.parquet")
    run(*arguments, "--parts", tmp_path / "parts")
    same(tmp_path / "out.json", tmp_path / "whole.json")


def test_parts_are_appended(tmp_path):
    """The parts of new files, with `--append`, and all files at once give the same bytes."""
    arguments = days(tmp_path / "files", 6)
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    run(*arguments, "-o", whole)
    first, second = ([f"{tmp_path}/files/d0[{digits}].nc", *arguments[1:], "-o", out] for digits in ("0-3", "45"))
    run(*first)
    parts = shards(second, tmp_path / "parts", 2)
    run(*second, "--append", *(argument for part in parts for argument in ("--parts", part)))
    same(out, whole)


def test_files_that_fail_in_a_shard_are_those_of_the_run(tmp_path):
    arguments = days(tmp_path / "files")
    (tmp_path / "files/d02.nc").write_bytes(BROKEN)
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    lone = run(*arguments, "-o", whole, status=1).stderr.splitlines()[-1]
    made = receipt(run(*arguments, "-o", out, "--shard", "1/2", "--part", tmp_path / "parts/1.parquet"))
    assert made["failed"] == 1 and "d02.nc" in made["failures"][0]
    receipt(run(*arguments, "-o", out, "--shard", "2/2", "--part", tmp_path / "parts/2.parquet"))
    joined = run(*arguments, "-o", out, "--parts", tmp_path / "parts", status=1).stderr.splitlines()[-1]
    assert joined.replace("out.json", "whole.json") == lone
    assert not out.exists()
    run(*arguments, "-o", whole, "--on-failure", "skip")
    run(*arguments, "-o", out, "--parts", tmp_path / "parts", "--on-failure", "skip")
    same(out, whole)


def test_a_receipt_is_small(tmp_path):
    """Even if all files fail, with long names."""
    folder = tmp_path / ("f" * 200)
    folder.mkdir()
    for k in range(20):
        (folder / f"{k:02}{'n' * 200}.nc").write_bytes(BROKEN)
    done = run(f"{folder}/*", "--concat-dim", "time", "-o", tmp_path / "out.json", "--shard", "1/1", "--part", tmp_path / "part.parquet")
    assert receipt(done)["failed"] == 20


# ---- what does not belong together

def test_an_archive_that_changes_between_shards_is_refused(tmp_path):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files"), "-o", out]
    run(*arguments, "--shard", "1/2", "--part", tmp_path / "parts/1.parquet")
    days(tmp_path / "other", 7)
    shutil.copy(tmp_path / "other/d06.nc", tmp_path / "files")
    run(*arguments, "--shard", "2/2", "--part", tmp_path / "parts/2.parquet")
    refused(*arguments, "--parts", tmp_path / "parts", says=["1.parquet", "list"], output=out)


def test_a_file_that_is_replaced_after_the_plan_is_read_in_its_new_version(tmp_path):
    """As in a run on one machine, which lists files before it reads them."""
    out, whole, plan = tmp_path / "out.json", tmp_path / "whole.json", tmp_path / "plan.parquet"
    arguments = [*days(tmp_path / "files"), "-o", out, "--plan", plan]
    run(*arguments)
    shards(arguments, tmp_path / "old", 2)
    netcdf(tmp_path / "files/d04.nc", 40, {"hours": 1, "chunk": 1, "variables": "a", "compression": "gzip"})
    shards(arguments, tmp_path / "parts", 2)
    run(*arguments, "--parts", tmp_path / "parts")
    run(*arguments[:-3], whole)
    same(out, whole)


def test_a_part_is_not_kept_if_a_file_changed_that_was_listed_without_a_tag(tmp_path):
    out, whole, listed = tmp_path / "out.json", tmp_path / "whole.json", tmp_path / "list.txt"
    days(tmp_path / "files", 3)
    days(tmp_path / "others", 6)
    listed.write_text("".join(f"s3://bucket/{k}.nc\n" for k in range(3)))
    arguments = ["--list", listed, "--concat-dim", "time", "-o", out]
    shard = [*arguments, "--shard", "1/1", "--part", tmp_path / "part.parquet"]
    with SlowS3({f"{k}.nc": (tmp_path / f"files/d0{k}.nc").read_bytes() for k in range(3)}) as server:
        assert not receipt(run(*shard, env=server.env))["reused"]
        assert receipt(run(*shard, env=server.env))["reused"]
        server.objects["1.nc"] = (tmp_path / "others/d05.nc").read_bytes()
        assert not receipt(run(*shard, env=server.env))["reused"]
        run(*arguments, "--parts", tmp_path / "part.parquet", env=server.env)
        run(*arguments[:-1], whole, env=server.env)
    same(out, whole)


@pytest.mark.parametrize(("option", "named"), [
    (["--inline", "1K"], "inline-below"), (["--var", "x=vary"], "var"), (["--strict"], "strict"),
    (["-f", "zarr3-json"], "format"), (["--copy-limit", "1K"], "copy-limit"),
])
def test_parts_of_other_options_are_refused(tmp_path, option, named):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files", 2), "-o", out]
    run(*arguments, *option, "--shard", "1/1", "--part", tmp_path / "part.parquet")
    refused(*arguments, "--parts", tmp_path / "part.parquet", says=["part.parquet", named], output=out)


def test_parts_of_another_version_are_refused(tmp_path):
    out, part = tmp_path / "out.json", tmp_path / "part.parquet"
    arguments = [*days(tmp_path / "files", 2), "-o", out]
    run(*arguments, "--shard", "1/1", "--part", part)
    version = virtualize("--version").stdout.split()[1]
    whole = part.read_bytes()
    assert version in whole
    part.write_bytes(whole.replace(version, version[:-1] + b"9"))
    refused(*arguments, "--parts", part, says=["part.parquet", "version"], output=out)


@pytest.mark.parametrize("what", ["part", "plan"])
def test_damage_is_refused(tmp_path, what):
    """Whatever is damaged, the output is never another one."""
    choose = random.Random(what)
    out, whole, plan, part = (tmp_path / name for name in ("out.json", "whole.json", "plan.parquet", "part.parquet"))
    arguments = [*days(tmp_path / "files", 3), "-o", out, "--plan", plan]
    run(*arguments[:-3], whole)
    run(*arguments)
    run(*arguments, "--shard", "1/1", "--part", part)
    damaged = part if what == "part" else plan
    good = damaged.read_bytes()
    for how in ["short", "empty", "other", "flip", "flip", "flip", "flip", "flip", "flip", "flip", "flip"]:
        at = choose.randrange(len(good))
        flipped = good[:at] + bytes([good[at] ^ (1 << choose.randrange(8))]) + good[at + 1:]
        damaged.write_bytes({"short": good[:at], "empty": b"", "other": b"PAR1" + bytes(200) + b"PAR1", "flip": flipped}[how])
        text = refused(*arguments, "--parts", part, says=[damaged.name], output=out)
        assert "panic" not in text
    damaged.write_bytes(good)
    run(*arguments, "--parts", part)
    same(out, whole)


def test_missing_shards_are_named(tmp_path):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files"), "-o", out, "--plan", tmp_path / "plan.parquet"]
    run(*arguments)
    parts = shards(arguments, tmp_path / "parts", 3)
    pathlib.Path(parts[1]).unlink()
    refused(*arguments, "--parts", tmp_path / "parts", says=["2/3", "--shard"], output=out)
    refused(*arguments, "--parts", tmp_path / "none", says=["none"], output=out)
    run(*arguments, "--shard", "2/3", "--part", parts[1])
    run(*arguments, "--parts", tmp_path / "parts")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/99999999999999999999"])
def test_shards_that_do_not_exist(tmp_path, shard):
    done = run(*days(tmp_path / "files", 1), "-o", tmp_path / "out.json", f"--shard={shard}", "--part", tmp_path / "part.parquet", status=2)
    assert "--shard" in done.stderr and not (tmp_path / "part.parquet").exists()


# ---- stores

@pytest.mark.parametrize("name", ["out.json", "out.icechunk"])
def test_plan_and_parts_in_a_bucket(filled, signed, tmp_path, name):  # noqa: F811
    endpoint, gate, client = filled
    inputs = ["s3://private/days/*.nc", "--concat-dim", "time"]
    arguments = [*inputs, "-o", tmp_path / name, "--plan", f"s3://private/{name}.parts/plan.parquet"]
    (tmp_path / "whole").mkdir()
    run(*inputs, "-o", tmp_path / "whole" / name, env=signed)
    run(*arguments, env=signed)
    shards(arguments, f"s3://private/{name}.parts", 3, env=signed)
    listed = client.list_objects_v2(Bucket="private", Prefix=f"{name}.parts/")["Contents"]
    assert len(listed) == 4
    for entry in listed:
        body = client.get_object(Bucket="private", Key=entry["Key"])["Body"].read()
        assert b"the-key" not in body and b"the-secret" not in body
    run(*arguments, "--parts", f"s3://private/{name}.parts/", env=signed)
    if name == "out.icechunk":
        assert virtualize("diff", tmp_path / name, tmp_path / "whole" / name, env=signed).status == 0
    else:
        same(tmp_path / name, tmp_path / "whole" / name)


def test_a_part_that_may_not_be_written(filled, signed, tmp_path):  # noqa: F811
    wrong = {**signed, "AWS_ACCESS_KEY_ID": "another-key"}
    part = "s3://private/denied/1.parquet"
    done = run(*days(tmp_path / "files", 1), "-o", tmp_path / "out.json", "--shard", "1/1", "--part", part, status=1, env=wrong)
    assert done.stderr.splitlines()[-1].startswith(f"error: {part}: access denied: ") and done.stdout == b"", done.stderr
