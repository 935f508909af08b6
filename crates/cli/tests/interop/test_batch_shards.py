"""`batch` on many machines: shards that are read apart, in any order, repeatedly, killed and repeated, give the bytes of one undisturbed run. Whatever
does not belong together is refused. More archives: RANDOM_SHARDS=100."""
import concurrent.futures, contextlib, json, os, pathlib, random, re, shutil, signal, sqlite3, subprocess

import clients
import h5py
import numpy as np
import pytest
import xarray as xr
from archives import archive, days, netcdf
from clients import virtualize
from slow_s3 import SlowS3
from test_batch import content
from test_batch_s3 import filled, signed  # noqa: F401
from test_stores import s3  # noqa: F401

OUTPUTS = ["out.json", "out.parquet", "out.zarr", "out.icechunk"]
BROKEN = b"\x89HDF\r\n\x1a\n" + bytes(100)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


# ---- commands

def run(*arguments, status=0, env=None):
    done = virtualize("batch", *arguments, env=env)
    assert done.status == status, done.stderr
    return done


def killed(arguments, choose, most=0.15):
    """Starts a command and kills it, if it has not ended by then."""
    process = subprocess.Popen([clients.BINARY, "batch", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(choose.uniform(0, most))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.wait()


def shards(arguments, folder, of, more=(), env=None):
    """Reads all shards, several at once. Returns the journals."""
    journals = [f"{folder}/{k}-of-{of}.journal" for k in range(1, of + 1)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda k: run(*arguments, *more, "--shard", f"{k}/{of}", "--journal", journals[k - 1], env=env), range(1, of + 1)))
    return journals


def read_by(done):
    """Returns how many files a command read."""
    return int(re.search(rb"(\d+) read in" if isinstance(done.stderr, bytes) else r"(\d+) read in", done.stderr)[1])


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
@pytest.mark.parametrize("seed", clients.seeds("RANDOM_SHARDS", 3, 1))
def test_any_sharding_gives_the_bytes_of_one_run(tmp_path, seed, name):
    choose = random.Random(f"{seed} {name}")
    inputs, options = archive(tmp_path / "files", choose)
    whole, out = tmp_path / "whole" / name, tmp_path / name
    whole.parent.mkdir()
    run(inputs, *options, "-o", whole)
    arguments = [inputs, *options, "-o", out]
    of = choose.choice([1, 2, 3, 5, 14])
    numbers = list(range(1, of + 1)) + choose.choices(range(1, of + 1), k=2)
    choose.shuffle(numbers)
    for number in numbers:
        command = [*arguments, "--shard", f"{number}/{of}", "--journal", tmp_path / "shards" / f"{number}.journal"]
        if choose.random() < 0.3:
            killed(command, choose)
        run(*command)
    assert not out.exists()
    journals = [tmp_path / "shards" / f"{number}.journal" for number in range(1, of + 1)]
    choose.shuffle(journals)
    given = choose.choice([[tmp_path / "shards"], [f"{tmp_path}/shards/*.journal"], journals])
    command = [*arguments, *(argument for journal in given for argument in ("--merge", journal))]
    for _ in range(choose.randint(0, 3)):
        killed(command, choose)
    done = run(*command)
    same(out, whole)
    # The journal is that of an ordinary run.
    again = run(*arguments)
    assert "up to date" in again.stderr.lower(), (done.stderr, again.stderr)
    same(out, whole)


def test_shards_are_appended(tmp_path):
    """The shards of new files, with `--append`, and all files at once give the same bytes."""
    arguments = days(tmp_path / "files", 6)
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    run(*arguments, "-o", whole)
    first, second = ([f"{tmp_path}/files/d0[{digits}].nc", *arguments[1:], "-o", out] for digits in ("0-3", "45"))
    run(*first)
    journals = shards(second, tmp_path / "shards", 2)
    run(*second, "--append", *(argument for journal in journals for argument in ("--merge", journal)))
    same(out, whole)


@pytest.mark.parametrize("name", OUTPUTS)
def test_segments_of_shards_are_those_of_one_run(tmp_path, name):
    """Files that are stored differently, read in shards, after kills, and appended."""
    choose, files = random.Random(name), tmp_path / "files"
    files.mkdir()
    for k in range(12):
        data = {"a": (("time", "x"), np.random.default_rng(k).integers(0, 99, (3, 4)).astype("i2" if k % 5 else "i4")), "b": ("time", [k, k, k])}
        xr.Dataset({key: data[key] for key in (["a", "b"] if k % 4 else ["a"])}, {"time": ("time", range(3 * k, 3 * k + 3))}).to_netcdf(
            files / f"d{k:02}.nc", engine="h5netcdf", encoding={"a": {"zlib": k % 3 > 0, "chunksizes": (2, 4), "_FillValue": -k % 2}})
    options = ["--concat-dim", "time", "--option", "copy-limit=0"]
    # Nothing means "missing" in 64 bits, and no float has all of them.
    out = tmp_path / "refused.json"
    refused(f"{files}/*.nc", *options, "-o", out, says=["in d01.nc, b is additional (int64 (time)) (use "], output=out)
    options += ["--var", "b=optional:-9"]
    run(f"{files}/*.nc", *options, "-o", tmp_path / f"one-{name}")
    for folder in ("shards", "killed", "appended"):
        (tmp_path / folder).mkdir()
    out = tmp_path / "shards" / name
    arguments = [f"{files}/*.nc", *options, "-o", out]
    journals = shards(arguments, tmp_path / "shards", 3)
    run(*arguments, *(argument for journal in journals for argument in ("--merge", journal)))
    same(out, tmp_path / f"one-{name}")
    arguments = [f"{files}/*.nc", *options, "-o", tmp_path / "killed" / name]
    for _ in range(4):
        killed(arguments, choose)
    run(*arguments)
    same(tmp_path / "killed" / name, tmp_path / f"one-{name}")
    out = tmp_path / "appended" / name
    run(*sorted(files.glob("*.nc"))[:7], *options, "-o", out)
    run(f"{files}/*.nc", *options, "-o", out, "--append")
    same(out, tmp_path / f"one-{name}")


def test_only_shards_with_new_files_are_needed(tmp_path):
    arguments = days(tmp_path / "files", 6)
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    run(*arguments, "-o", whole)
    run(f"{tmp_path}/files/d0[0-2].nc", *arguments[1:], "-o", out)
    run(*arguments, "-o", out, "--shard", "2/2", "--journal", tmp_path / "2.journal")
    run(*arguments, "-o", out, "--merge", tmp_path / "2.journal")
    same(out, whole)


def test_files_that_fail_in_a_shard_are_those_of_the_run(tmp_path):
    arguments = days(tmp_path / "files")
    (tmp_path / "files/d02.nc").write_bytes(BROKEN)
    out, whole, merge = tmp_path / "out.json", tmp_path / "whole.json", ["--merge", tmp_path / "shards"]
    lone = run(*arguments, "-o", whole, status=1).stderr.splitlines()[-1]
    made = run(*arguments, "-o", out, "--shard", "1/2", "--journal", tmp_path / "shards/1.journal")
    assert "1 failed" in made.stderr and "d02.nc" in made.stderr
    run(*arguments, "-o", out, "--shard", "2/2", "--journal", tmp_path / "shards/2.journal")
    joined = run(*arguments, "-o", out, *merge, status=1).stderr.splitlines()[-1]
    assert joined.replace("out.json", "whole.json") == lone
    assert not out.exists()
    run(*arguments, "-o", whole, "--on-failure", "skip")
    run(*arguments, "-o", out, *merge, "--on-failure", "skip")
    same(out, whole)


def test_a_shard_resumes(tmp_path):
    """A complete shard reads nothing; a list that grew is read where it did."""
    out, shard = tmp_path / "out.json", ["--shard", "1/1", "--journal", tmp_path / "1.journal"]
    arguments = [*days(tmp_path / "files", 6), "-o", out]
    assert read_by(run(f"{tmp_path}/files/d0[0-3].nc", *arguments[1:], *shard)) == 4
    assert read_by(run(*arguments, *shard)) == 2
    assert read_by(run(*arguments, *shard)) == 0
    assert read_by(run(*arguments, *shard, "--restart")) == 6
    run(*arguments, "--merge", tmp_path / "1.journal")
    run(*arguments[:-1], tmp_path / "whole.json")
    same(out, tmp_path / "whole.json")


# ---- what does not belong together

def test_an_archive_that_changes_between_shards_is_refused(tmp_path):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files"), "-o", out]
    run(*arguments, "--shard", "1/2", "--journal", tmp_path / "shards/1.journal")
    days(tmp_path / "other", 7)
    shutil.copy(tmp_path / "other/d06.nc", tmp_path / "files")
    run(*arguments, "--shard", "2/2", "--journal", tmp_path / "shards/2.journal")
    refused(*arguments, "--merge", tmp_path / "shards", says=["1.journal", "1/2", "list"], output=out)


def listed(folder, pattern, to):
    """Writes a list as `ls` and `stat` would."""
    with open(to, "w") as out:
        for file in sorted(folder.glob(pattern)):
            out.write(json.dumps({"url": str(file), "size": file.stat().st_size, "modified": -(-file.stat().st_mtime_ns // 1_000_000)}) + "\n")
    return ["--list", to]


def test_a_file_that_is_replaced_after_it_was_listed_is_read_in_its_new_version(tmp_path):
    """As in a run on one machine, which lists files before it reads them."""
    out, whole = tmp_path / "out.json", tmp_path / "whole.json"
    options = days(tmp_path / "files")[1:]
    arguments = [*listed(tmp_path / "files", "*.nc", tmp_path / "files.jsonl"), *options]
    shards([*arguments, "-o", out], tmp_path / "shards", 2)
    netcdf(tmp_path / "files/d04.nc", 40, {"hours": 1, "chunk": 1, "variables": "a", "compression": "gzip"})
    shards([*arguments, "-o", out, "--restart"], tmp_path / "shards", 2)
    run(*arguments, "-o", out, "--merge", tmp_path / "shards")
    run(*arguments, "-o", whole)
    same(out, whole)


def test_a_file_that_was_listed_without_a_tag_is_read_again_if_it_changed(tmp_path):
    out, whole, names = tmp_path / "out.json", tmp_path / "whole.json", tmp_path / "list.txt"
    days(tmp_path / "files", 3)
    days(tmp_path / "others", 6)
    names.write_text("".join(f"s3://bucket/{k}.nc\n" for k in range(3)))
    arguments = ["--list", names, "--concat-dim", "time", "-o", out]
    shard = [*arguments, "--shard", "1/1", "--journal", tmp_path / "1.journal"]
    with SlowS3({f"{k}.nc": (tmp_path / f"files/d0{k}.nc").read_bytes() for k in range(3)}) as server:
        assert [read_by(run(*shard, env=server.env)) for _ in range(2)] == [3, 0]
        server.objects["1.nc"] = (tmp_path / "others/d05.nc").read_bytes()
        assert read_by(run(*shard, env=server.env)) == 1
        run(*arguments, "--merge", tmp_path / "1.journal", env=server.env)
        run(*arguments[:-1], whole, env=server.env)
    same(out, whole)


@pytest.mark.parametrize(("option", "named"), [
    (["--inline", "1K"], "inline-below"), (["--var", "x=vary"], "var"), (["--strict"], "strict"),
    (["-f", "zarr3-json"], "format"), (["--option", "copy-limit=1K"], "copy-limit"),
])
def test_shards_of_other_options_are_refused(tmp_path, option, named):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files", 2), "-o", out]
    run(*arguments, *option, "--shard", "1/1", "--journal", tmp_path / "1.journal")
    refused(*arguments, "--merge", tmp_path / "1.journal", says=["1.journal", named], output=out)


def edit(journal, sql):
    with contextlib.closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute(sql)


def test_journals_of_another_version_are_refused(tmp_path):
    out, journal = tmp_path / "out.json", tmp_path / "1.journal"
    arguments = [*days(tmp_path / "files", 2), "-o", out]
    run(*arguments, "--shard", "1/1", "--journal", journal)
    edit(journal, "UPDATE facts SET value = '0.0.1' WHERE name = 'program'")
    refused(*arguments, "--merge", journal, says=["1.journal", "version"], output=out)


def test_damage_is_refused(tmp_path):
    """Whatever is damaged, the output is never another one."""
    choose = random.Random(1)
    out, whole, journal = (tmp_path / name for name in ("out.json", "whole.json", "1.journal"))
    arguments = [*days(tmp_path / "files", 3), "-o", out]
    run(*arguments[:-1], whole)
    run(*arguments, "--shard", "1/1", "--journal", journal)
    good = journal.read_bytes()
    # Names, sizes and chunk tables: bytes that SQLite itself does not check.
    content = [at for at, byte in enumerate(good) if byte and at > 100]
    for how in ["short", "empty", "other", *["flip"] * 20]:
        at = choose.choice(content)
        flipped = good[:at] + bytes([good[at] ^ (1 << choose.randrange(8))]) + good[at + 1:]
        damaged = {"short": good[:at], "empty": b"", "other": b"PAR1" + bytes(200) + b"PAR1", "flip": flipped}[how]
        journal.write_bytes(damaged)
        done = virtualize("batch", *arguments, "--merge", journal)
        if how == "flip" and done.status == 0:
            # An index, or free space.
            same(out, whole)
            out.unlink()
            pathlib.Path(f"{out}.journal").unlink()
            continue
        text = refused(*arguments, "--merge", journal, says=["1.journal"], output=out)
        assert "panic" not in text
    for sql in ("UPDATE chunks SET chunks = x'00'", "UPDATE files SET size = size + 1", "DELETE FROM chunks WHERE node = 2"):
        journal.write_bytes(good)
        edit(journal, sql)
        refused(*arguments, "--merge", journal, says=["1.journal", "damaged"], output=out)
    journal.write_bytes(good)
    run(*arguments, "--merge", journal)
    same(out, whole)


def test_missing_repeated_and_incomplete_shards_are_named(tmp_path):
    out = tmp_path / "out.json"
    arguments = [*days(tmp_path / "files"), "-o", out]
    journals = [pathlib.Path(journal) for journal in shards(arguments, tmp_path / "shards", 3)]
    merge = [*arguments, "--merge", tmp_path / "shards"]
    good = journals[1].read_bytes()
    journals[1].unlink()
    refused(*merge, says=["missing shard 2/3"], output=out)
    refused(*arguments, "--merge", tmp_path / "none", says=["none"], output=out)
    journals[1].write_bytes(good)
    edit(journals[1], "DELETE FROM facts WHERE name = 'seal'")
    refused(*merge, says=["2-of-3.journal", "2/3", "not complete"], output=out)
    journals[1].write_bytes(journals[0].read_bytes())
    refused(*merge, says=["1-of-3.journal", "2-of-3.journal", "both", "1/3"], output=out)
    run(*arguments, "--shard", "2/4", "--journal", journals[1])
    refused(*merge, says=["2-of-3.journal", "2/4"], output=out)
    journals[1].write_text("notes")
    refused(*merge, says=["2-of-3.journal", "not a journal"], output=out)
    journals[1].write_bytes(good)
    run(*merge)


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/99999999999999999999"])
def test_shards_that_do_not_exist(tmp_path, shard):
    done = run(*days(tmp_path / "files", 1), "-o", tmp_path / "out.json", f"--shard={shard}", "--journal", tmp_path / "1.journal", status=2)
    assert "--shard" in done.stderr and not (tmp_path / "1.journal").exists()


# ---- stores

@pytest.mark.parametrize("name", ["out.json", "out.icechunk"])
def test_list_and_journals_in_a_bucket(filled, signed, tmp_path, name):  # noqa: F811
    endpoint, gate, client = filled
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="private", Prefix="days/")["Contents"] if entry["Key"].endswith(".nc")]
    client.put_object(Bucket="private", Key=f"{name}.shards/files.txt", Body="\n".join(f"s3://private/{key}" for key in keys).encode())
    inputs = ["--list", f"s3://private/{name}.shards/files.txt", "--concat-dim", "time"]
    arguments = [*inputs, "-o", tmp_path / name]
    (tmp_path / "whole").mkdir()
    run(*inputs, "-o", tmp_path / "whole" / name, env=signed)
    journals = shards(arguments, f"s3://private/{name}.shards", 3, env=signed)
    found = client.list_objects_v2(Bucket="private", Prefix=f"{name}.shards/")["Contents"]
    assert len(found) == 4
    for entry in found:
        body = client.get_object(Bucket="private", Key=entry["Key"])["Body"].read()
        assert b"the-key" not in body and b"the-secret" not in body
    # A complete shard is neither read nor uploaded again.
    times = {entry["Key"]: entry["LastModified"] for entry in found}
    assert read_by(run(*arguments, "--shard", "2/3", "--journal", journals[1], env=signed)) == 0
    assert times == {entry["Key"]: entry["LastModified"] for entry in client.list_objects_v2(Bucket="private", Prefix=f"{name}.shards/")["Contents"]}
    run(*arguments, "--merge", f"s3://private/{name}.shards/*.journal", env=signed)
    if name == "out.icechunk":
        assert virtualize("diff", tmp_path / name, tmp_path / "whole" / name, env=signed).status == 0
    else:
        same(tmp_path / name, tmp_path / "whole" / name)


def test_a_journal_that_may_not_be_written(filled, signed, tmp_path):  # noqa: F811
    wrong = {**signed, "AWS_ACCESS_KEY_ID": "another-key"}
    journal = "s3://private/denied/1.journal"
    arguments = [*days(tmp_path / "files", 1), "-o", tmp_path / "out.json"]
    done = run(*arguments, "--shard", "1/1", "--journal", journal, status=1, env=wrong)
    assert done.stderr.splitlines()[-1].startswith(f"error: {journal}: access denied: "), done.stderr
    done = run(*arguments, "--journal", journal, status=2)
    assert "only the journal of a shard" in done.stderr


# ---- files that change between a shard and the merge

def dataset(path, k, value, padding=0):
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["padding"] = "x" * padding
        file["time"] = np.arange(2 * k, 2 * k + 2)
        file["time"].make_scale("time")
        data = file.create_dataset("v", data=np.full((2, 3), value, "f4"), chunks=(1, 3))
        data.dims[0].attach_scale(file["time"])


def virtual(path, k, source):
    with h5py.File(path, "w", libver="latest") as file:
        file["time"] = np.arange(2 * k, 2 * k + 2)
        file["time"].make_scale("time")
        layout = h5py.VirtualLayout((2, 3), "f4")
        layout[:] = h5py.VirtualSource(source, "v", (2, 3))
        file.create_virtual_dataset("v", layout).dims[0].attach_scale(file["time"])


def values_of(files, out):
    """Returns the values of h5py and of the references, after the run that wrote these."""
    with xr.open_dataset(str(out), engine="kerchunk", chunks=None) as joined:
        found = joined.v.values
    truth = []
    for path in files:
        with h5py.File(path) as file:
            truth.append(file["v"][...])
    return np.concatenate(truth), found


@pytest.mark.parametrize("depends", [False, True], ids=["the file", "a source of a virtual dataset"])
def test_a_file_that_is_replaced_between_its_shard_and_the_merge_is_read_again(tmp_path, depends):
    files, sources = [tmp_path / f"{k}.h5" for k in range(4)], [tmp_path / f"source-{k}.h5" for k in range(4)]
    for k in range(4):
        dataset(sources[k] if depends else files[k], k, k + 1)
        if depends:
            virtual(files[k], k, sources[k].name)
    (tmp_path / "files.txt").write_text("".join(f"{path}\n" for path in files))
    arguments = ["--list", tmp_path / "files.txt", "--concat-dim", "time", "-o", tmp_path / "out.json"]
    journals = shards(arguments, tmp_path / "shards", 2)
    dataset(sources[1] if depends else files[1], 1, 99, padding=5000)
    done = run(*arguments, *(word for journal in journals for word in ("--merge", journal)))
    assert read_by(done) == 1
    truth, found = values_of(files, tmp_path / "out.json")
    assert found.tobytes() == truth.tobytes() and 99 in found


def test_a_file_that_is_removed_between_its_shard_and_the_merge_is_named(tmp_path):
    files = [tmp_path / f"{k}.h5" for k in range(4)]
    for k, path in enumerate(files):
        dataset(path, k, k + 1)
    (tmp_path / "files.txt").write_text("".join(f"{path}\n" for path in files))
    arguments = ["--list", tmp_path / "files.txt", "--concat-dim", "time", "-o", tmp_path / "out.json"]
    journals = shards(arguments, tmp_path / "shards", 2)
    files[2].unlink()
    refused(*arguments, *(word for journal in journals for word in ("--merge", journal)), says=["2.h5"], output=tmp_path / "out.json")


def test_sources_of_files_of_earlier_runs_are_checked_when_files_are_appended(tmp_path):
    files, sources = [tmp_path / f"{k}.h5" for k in range(3)], [tmp_path / f"source-{k}.h5" for k in range(3)]
    for k in range(3):
        dataset(sources[k], k, k + 1)
        virtual(files[k], k, sources[k].name)
    out = tmp_path / "out.json"
    run(*files[:2], "--concat-dim", "time", "-o", out)
    before = out.read_bytes()
    dataset(sources[1], 1, 99, padding=5000)
    done = run(files[2], "--concat-dim", "time", "-o", out, "--append", status=1)
    assert "1.h5" in done.stderr and "--on-change update" in done.stderr and out.read_bytes() == before
    run(files[2], "--concat-dim", "time", "-o", out, "--append", "--on-change", "update")
    truth, found = values_of(files, out)
    assert found.tobytes() == truth.tobytes() and 99 in found
