"""`virtualize scan` with failing stores: files are retried as in `batch`, and the result is that of a run without faults."""
import json, os, signal, subprocess

import clients
import pytest
from clients import virtualize
from test_batch import bucket, days, urls  # noqa: F401

DAYS = 12
LATENCY = 0.005


def scan(server, *arguments, status=0, log=None):
    more = ["--json-log", log] if log else []
    run = virtualize("scan", *arguments, "--json", *more, env=server.env)
    assert run.status == status, run.stderr
    events = [json.loads(line) for line in log.read_text().splitlines()] if log else []
    return json.loads(run.stdout), events, run.stderr


def of(events, name):
    return [event for event in events if event["event"] == name]


@pytest.fixture
def undisturbed(bucket):  # noqa: F811
    return scan(bucket, *urls(bucket))[0]


@pytest.mark.parametrize("failing", [0, 5, 11])
def test_throttled_files_are_tried_again(bucket, undisturbed, tmp_path, failing):  # noqa: F811
    """More often than single requests are retried; including the first file, which determines the dimension."""
    key = sorted(bucket.objects)[failing]
    bucket.failing[key] = 2
    found, events, _ = scan(bucket, *urls(bucket), "--option", "retries=0", log=tmp_path / "log")
    assert found == undisturbed and found["dimensions"] == [{"name": "time", "kind": "concat"}]
    retried = of(events, "retried")
    assert [(event["url"], event["attempt"]) for event in retried] == [(f"s3://bucket/{key}", 1), (f"s3://bucket/{key}", 2)]
    assert len(of(events, "read")) == DAYS and of(events, "sets")[0]["files"] == [DAYS]
    summary = of(events, "done")[0]["summary"]
    assert (summary["files"], summary["read"], summary["failed"]) == (DAYS, DAYS, 0)
    assert summary["requests"] == sum(event["requests"] for event in of(events, "read")) > 0


def test_files_that_fail_permanently_are_reported(bucket, tmp_path):  # noqa: F811
    key = sorted(bucket.objects)[3]
    bucket.failing[key] = 10**6
    found, events, messages = scan(bucket, *urls(bucket), "--option", "retries=0", "--attempts", "2", status=1, log=tmp_path / "log")
    assert found["files"] == DAYS - 1 and [one["url"] for one in found["failed"]] == [f"s3://bucket/{key}"]
    assert "503" in found["failed"][0]["error"] and key in messages
    assert [(event["attempts"], event["class"]) for event in of(events, "failed")] == [(2, "unavailable")]
    assert len(of(events, "retried")) == 1


def test_files_that_were_replaced_are_read_as_they_are_now(bucket, undisturbed, tmp_path):  # noqa: F811
    lines = [{"url": url} for url in urls(bucket)]
    lines[0]["etag"] = lines[7]["etag"] = '"before"'
    (tmp_path / "list").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found, events, _ = scan(bucket, "--list", tmp_path / "list", log=tmp_path / "log")
    assert found == undisturbed
    assert sorted(event["url"] for event in of(events, "retried")) == [lines[0]["url"], lines[7]["url"]]


def test_the_order_is_that_of_the_listing(bucket, undisturbed):  # noqa: F811
    """However long each file takes."""
    for key in sorted(bucket.objects)[::3]:
        bucket.failing[key] = 1
    found = scan(bucket, *urls(bucket), "--stack-dim", "run", "--option", "concurrency=5", "--option", "retries=0")[0]
    assert [url for run in found["runs"] for url in run["files"]] == urls(bucket)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("first", [0, 6])
def test_stopped(bucket, tmp_path, first):  # noqa: F811
    """Immediately, whichever file it waits for."""
    bucket.failing[sorted(bucket.objects)[first]] = 10**6
    arguments = [str(clients.BINARY), "scan", *urls(bucket), "--option", "retries=0", "--attempts", "1000", "--json-log", str(tmp_path / "log")]
    with subprocess.Popen(arguments, env={**os.environ, **bucket.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "again in" in line:
                process.send_signal(signal.SIGINT)
                break
        out, messages = process.communicate(timeout=300)
        assert process.returncode not in (0, None) and out == "" and "stopped after" in messages
