"""`batch` with the remains of earlier runs: modified outputs, changed files, damaged journals, concurrent runs."""
import json, pathlib, shutil, sqlite3, subprocess, time

import clients
import pytest
from slow_s3 import SlowS3
from test_batch import batch, content, states
from test_batch_model import NAMES, held, write
from test_batch_s3 import day

TIME = ("--concat-dim", "time")


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for version, name in enumerate("abcdef"):
        write(folder / name, name, version)
    return {name: folder / name for name in "abcdef"}


def named(files, names):
    return [files[name] for name in names]


def expected(names):
    return {name: NAMES.index(name) for name in names}


# ---- listings

def test_files_of_a_refused_run_are_not_taken_along(files, tmp_path):
    out = tmp_path / "out.json"
    batch(*named(files, "abc"), *TIME, "-o", out)
    assert "--on-change drop" in batch(*named(files, "de"), *TIME, "-o", out, status=1).stderr
    batch(files["f"], *TIME, "-o", out, "--append")
    assert held(out) == expected("abcf")


def test_a_run_without_an_output_binds_no_later_one(files, tmp_path):
    out = tmp_path / "out.json"
    assert "tme" in batch(*named(files, "ab"), "--concat-dim", "tme", "-o", out, status=1).stderr
    run = batch(*named(files, "cd"), *TIME, "-o", out)
    assert held(out) == expected("cd") and "all files are read again" in run.stderr


def test_a_bad_file_that_was_appended_can_be_dropped(files, tmp_path):
    out, bad = tmp_path / "out.json", tmp_path / "bad.nc"
    batch(*named(files, "ab"), *TIME, "-o", out)
    bad.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert "--on-change drop" in batch(bad, *TIME, "-o", out, "--append", status=1).stderr
    run = batch(files["c"], *TIME, "-o", out, "--append", status=1)
    assert "bad.nc" in run.stderr and "--on-change drop" in run.stderr
    batch(files["c"], *TIME, "-o", out, "--append", "--on-change", "drop")
    assert held(out) == expected("abc")
    batch(files["d"], *TIME, "-o", out, "--append")
    assert held(out) == expected("abcd")


# ---- outputs

@pytest.mark.parametrize("name", ["out.json", "out.parquet", "out.zarr"])
@pytest.mark.parametrize("how", ["short", "gone", "more"])
def test_a_damaged_output_is_not_called_up_to_date(files, tmp_path, name, how):
    out = tmp_path / name
    batch(*named(files, "ab"), *TIME, "-o", out)
    whole = content(out)
    part = out if out.is_file() else sorted(p for p in out.rglob("*") if p.is_file())[-1]
    if how == "short":
        part.write_bytes(part.read_bytes()[:-1])
    elif how == "gone":
        part.unlink()
    else:
        with part.open("ab") as file:
            file.write(b" ")
    run = clients.virtualize("batch", *named(files, "ab"), *TIME, "-o", out)
    if how == "gone" and out.suffix == ".json":
        assert run.status == 0
    else:
        assert run.status == 1 and "--overwrite" in run.stderr and "not what this journal wrote" in run.stderr
        run = batch(*named(files, "ab"), *TIME, "-o", out, "--overwrite")
    assert content(out) == whole and "up to date" not in run.stderr
    assert "up to date" in batch(*named(files, "ab"), *TIME, "-o", out).stderr


def test_a_copied_journal_does_not_undo_what_another_one_wrote(files, tmp_path):
    out, copy = tmp_path / "out.json", tmp_path / "copy"
    batch(*named(files, "ab"), *TIME, "-o", out)
    shutil.copy(f"{out}.journal", copy)
    batch(files["c"], *TIME, "-o", out, "--append")
    run = batch(files["d"], *TIME, "-o", out, "--append", "--journal", copy, status=1)
    assert "not what this journal wrote" in run.stderr and held(out) == expected("abc")
    # Neither does a new journal.
    run = batch(files["d"], *TIME, "-o", out, "--append", "--journal", tmp_path / "new", status=1)
    assert "--journal" in run.stderr and held(out) == expected("abc")


def test_outputs_of_single_files_are_compared_too(files, tmp_path):
    out = tmp_path / "refs"
    batch(*named(files, "abc"), "--each", "-o", out)
    whole = content(out)
    texts = sorted(out.rglob("*.json"))
    texts[0].write_bytes(texts[0].read_bytes()[:100])
    texts[1].write_bytes(b"{".ljust(texts[1].stat().st_size, b"x"))
    run = batch(*named(files, "abc"), "--each", "-o", out)
    assert "2 read" in run.stderr and content(out) == whole


# ---- earlier files

def test_older_files_are_checked_when_others_are_appended(files, tmp_path):
    out = tmp_path / "out.json"
    batch(*named(files, "abc"), *TIME, "-o", out)
    write(files["b"], "b", 15)
    before = content(out)
    run = batch(files["d"], *TIME, "-o", out, "--append", status=1)
    assert str(files["b"]) in run.stderr and "--on-change update" in run.stderr and content(out) == before
    batch(files["d"], *TIME, "-o", out, "--append", "--on-change", "update")
    assert held(out) == {**expected("abcd"), "b": 15}
    files["a"].unlink()
    run = batch(files["e"], *TIME, "-o", out, "--append", status=1)
    assert str(files["a"]) in run.stderr and "--on-change drop" in run.stderr
    batch(files["e"], *TIME, "-o", out, "--append", "--on-change", "drop")
    assert held(out) == {**expected("bcde"), "b": 15}


@pytest.mark.parametrize("count", [5, 40])
def test_older_objects_are_looked_at_without_being_read(tmp_path, count):
    """By single requests for a few files, by a listing for many."""
    out = tmp_path / "out.json"
    with SlowS3({f"era/d{k:03}.nc": day(k) for k in range(count + 1)}) as server:
        urls = [f"s3://bucket/{key}" for key in sorted(server.objects)]
        batch(*urls[:-1], *TIME, "-o", out, env=server.env)
        for last in (urls[-1:], urls[:-1]):
            server.requested.clear()
            server.looked.clear()
            batch(*last, *TIME, "-o", out, "--append", env=server.env)
            new = ["era/" + last[0].rsplit("/", 1)[1]] if last == urls[-1:] else []
            assert set(+server.requested) - {"?list"} == set(new)
            assert sum(server.looked.values()) == (0 if count > 16 else count + 1 - len(new))
        changed, gone = "era/d001.nc", "era/d002.nc"
        server.objects[changed] = day(1) + b"\0"
        run = batch(urls[-1], *TIME, "-o", out, "--append", status=1, env=server.env)
        assert changed in run.stderr and "--on-change update" in run.stderr
        batch(urls[-1], *TIME, "-o", out, "--append", "--on-change", "update", env=server.env)
        # Nor does the same command, whose urls do not identify the versions of the files.
        server.objects[changed] = day(1)
        server.requested.clear()
        batch(*urls, *TIME, "-o", out, env=server.env)
        assert set(+server.requested) - {"?list"} == {changed}
        del server.objects[gone]
        run = batch(urls[-1], *TIME, "-o", out, "--append", status=1, env=server.env)
        assert gone in run.stderr and "--on-change drop" in run.stderr
        server.requested.clear()
        batch(urls[-1], *TIME, "-o", out, "--append", "--on-change", "drop", env=server.env)
        assert gone not in out.read_text()


# ---- one output per file

@pytest.mark.parametrize("urls", [("http://localhost:1/a.nc?x=1", "http://localhost:1/a.nc?x=2"), ("s3://b/a.nc", "s3://b/a.nc.json/c.nc")])
def test_two_files_with_one_output_are_refused_before_reading(tmp_path, urls):
    run = batch(*urls, "--each", "-o", tmp_path / "refs", status=1)
    assert "map to the same output" in run.stderr and "a.nc.json" in run.stderr
    assert not list((tmp_path / "refs").rglob("*"))


def test_a_sibling_folder_can_be_appended(files, tmp_path):
    out = tmp_path / "refs"
    for folder, names in (("2024", "ab"), ("2025", "bc")):
        (tmp_path / folder).mkdir()
        for name in names:
            shutil.copy(files[name], tmp_path / folder / f"{name}.nc")
    batch(f"{tmp_path}/2024/*.nc", "--each", "-o", out)
    first = content(out)
    batch(f"{tmp_path}/2025/*.nc", "--each", "-o", out, "--append")
    assert set(content(out)) == {"a.nc.json", "b.nc.json", "2025/b.nc.json", "2025/c.nc.json"}
    assert {key: text for key, text in content(out).items() if key in first} == first
    assert "/2025/b.nc" in (out / "2025" / "b.nc.json").read_text()


# ---- journals and other runs

def test_a_damaged_journal_can_be_restarted(files, tmp_path):
    out = tmp_path / "out.json"
    journal = pathlib.Path(f"{out}.journal")
    batch(*named(files, "ab"), *TIME, "-o", out)
    text = journal.read_bytes()
    journal.write_bytes(text[:4096] + b"\xa5" * (len(text) - 4096))
    assert clients.virtualize("batch", *named(files, "ab"), *TIME, "-o", out).status != 0
    batch(*named(files, "ab"), *TIME, "-o", out, "--restart")
    assert held(out) == expected("ab")
    journal.write_text("notes of somebody")
    run = clients.virtualize("batch", *named(files, "ab"), *TIME, "-o", out, "--restart")
    assert run.status != 0 and journal.read_text() == "notes of somebody"


def test_an_output_has_one_run_at_a_time_whatever_their_journals(tmp_path):
    out = tmp_path / "out.json"
    with SlowS3({f"era/d{k}.nc": day(k) for k in range(8)}, latency=0.3) as server:
        urls = [f"s3://bucket/{key}" for key in sorted(server.objects)]
        environment = {**__import__("os").environ, **server.env}
        arguments = [clients.BINARY, "batch", *urls[:4], *TIME, "-o", str(out), "--option", "concurrency=1", "--journal", str(tmp_path / "first")]
        first = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not +server.requested:
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.01)
        run = batch(*urls[4:], *TIME, "-o", out, "--journal", tmp_path / "second", status=1, env=server.env)
        assert "another process is writing it" in run.stderr
        assert first.wait(120) == 0
        first.stderr.close()
        # A killed process leaves no lock.
        first = subprocess.Popen([*arguments, "--restart"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.requested.clear()
        while not +server.requested:
            time.sleep(0.01)
        first.kill()
        first.wait()
        batch(*urls[4:], *TIME, "-o", out, "--journal", tmp_path / "second", env=server.env)
    assert len(json.loads(out.read_text())["refs"]) and not list(tmp_path.glob(".virtualize-*"))


def test_what_killed_runs_left_goes_and_what_lives_stays(files, tmp_path):
    out = tmp_path / "refs"
    (out / "deep").mkdir(parents=True)
    left = [out / ".virtualize-abc.part", out / "deep" / ".virtualize-def.part", tmp_path / ".virtualize-ghi.part"]
    for path in left[:2]:
        path.write_text("a part of an output")
    (left[2] / "whole").mkdir(parents=True)
    living = out / ".virtualize-xyz.part"
    living.write_text("another process writes it")
    import fcntl
    with living.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        batch(files["a"], "--each", "-o", out)
        assert living.exists() and not any(path.exists() for path in left)
    batch(files["a"], "--each", "-o", out)
    assert not living.exists()


# ---- what a journal records

def state(out, *arguments, status=0):
    run = subprocess.run([clients.BINARY, "journal", f"{out}.journal", *arguments], capture_output=True, text=True)
    assert run.returncode == status, run.stderr
    return run.stdout if status == 0 else run.stderr


def test_a_journal_names_failures_and_the_next_command(files, tmp_path):
    out = tmp_path / "out.json"
    files["c"].write_text("no data")
    batch(*named(files, "abc"), *TIME, "-o", out, "--option", "bearer-token=secret", status=1)
    found = json.loads(state(out, "--json"))
    assert [found[name] for name in ("files", "read", "failed", "pending", "unwritten")] == [3, 2, 1, 0, 2]
    assert [(failure["class"], failure["files"]) for failure in found["failures"]] == [("file", 1)]
    assert str(files["c"]) in found["failures"][0]["first"][0] and found["outputs"] == []
    assert found["next"]["command"].endswith("--option bearer-token=... --on-failure retry") and "secret" not in json.dumps(found)
    write(files["c"], "c", 2)
    shown = state(out).splitlines()[-1].replace("--option bearer-token=...", "").strip()
    subprocess.run(shown, shell=True, check=True, capture_output=True)
    assert held(out) == expected("abc")
    assert "next: nothing" in state(out) and "written 20" in state(out)
    with sqlite3.connect(f"{out}.journal") as journal:
        # As a run holds it.
        journal.execute("PRAGMA locking_mode = EXCLUSIVE")
        journal.execute("BEGIN EXCLUSIVE")
        assert "another process" in state(out, status=1)
