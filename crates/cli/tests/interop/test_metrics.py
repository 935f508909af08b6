"""Counts of a run, as `--stats`, the JSON log and Prometheus metrics have them, compared with what the servers saw."""
import http.server, json, pathlib, re, stat, threading, time

import pytest
from clients import virtualize
from prometheus_client.parser import text_string_to_metric_families
from slow_s3 import SlowS3
from test_outages import FILES, files

assert files  # a fixture
PREFIX = "virtualize_batch_"


@pytest.fixture
def bucket(files):
    with SlowS3(files) as server:
        yield server


class Gateway:
    """Stores the bodies that are pushed to it; answers with `status`."""

    def __init__(self, status=200):
        self.pushed, owner = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.pushed.append((self.path, self.headers, body.decode()))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/metrics/job/era5"


def parsed(text):
    """Returns the values by name and labels, the label `output` aside, and the outputs."""
    values, outputs = {}, set()
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge"), family
        for sample in family.samples:
            assert sample.name.startswith(PREFIX) and sample.timestamp is None, sample
            assert (family.type == "counter") == sample.name.endswith("_total"), sample
            labels = dict(sample.labels)
            outputs.add(labels.pop("output"))
            key = (sample.name.removeprefix(PREFIX), *labels.values())
            assert key not in values, sample
            values[key] = sample.value
    return values, outputs


def run(bucket, output, *more, status=0, inputs=("s3://bucket/",)):
    run = virtualize("batch", *inputs, "--include", "*.nc", "--format", "kerchunk-json", "--each", "-o", output, *more, env=bucket.env)
    assert run.status == status, run.stderr
    return run


def test_counts_agree_with_those_of_the_server(bucket, tmp_path):
    keys = sorted(bucket.objects)
    bucket.failing.update({key: 1 + k % 2 for k, key in enumerate(keys[:10])})
    failing, bad = bucket.failing.total(), keys[-3:]
    bucket.private = set(bad)
    before = time.time()
    done = run(bucket, tmp_path / "out", "--metrics", tmp_path / "run.prom", "--json-log", tmp_path / "log", "--stats", status=1)
    values, outputs = parsed((tmp_path / "run.prom").read_text())
    assert outputs == {str(tmp_path / "out")}
    lists, asked = bucket.asked["?list"], bucket.asked.total() + bucket.looked.total()
    assert values["requests_total", "list"] == lists and values["requests_total", "read"] == asked - failing - lists
    assert values["retries_total", "throttled"] == failing
    assert all(values["retries_total", reason] == 0 for reason in ("server", "connection", "timeout"))
    assert failing * 0.05 <= values["retry_wait_seconds_total",] <= failing * 0.4
    # A file that was read is requested again, to see whether the store still answers.
    once = sum(len(bucket.objects[key]) for key in keys if key not in bad)
    assert 0 <= values["bytes_total",] - once <= max(map(len, bucket.objects.values()))
    assert values["files_total", "read"] == FILES - 3 and values["files_total", "failed"] == 3
    assert {key[1]: value for key, value in values.items() if key[0] == "failures_total" and value} == {"denied": 3}
    assert values["files_listed",] == FILES and values["files_pending",] == 0
    assert before - 1 <= values["start_timestamp_seconds",] <= time.time()
    assert 0 < values["reading_seconds",] <= values["duration_seconds",] <= time.time() - before
    assert ("last_success_timestamp_seconds",) not in values, "files failed"
    stats = re.search(r"stats: (\d+) requests \((\d+) for listings\), (\d+) retries \((\d+) throttled\) after .* waiting, (\d+) bytes; (\d+) files", done.stderr)
    assert list(map(int, stats.groups())) == [asked - failing, lists, failing, failing, values["bytes_total",], FILES], done.stderr
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    read = [event for event in events if event["event"] == "read"]
    assert sum(event["retries"] for event in read) == failing
    summary = events[-1]["summary"]
    assert summary["requests"] == asked - failing and summary["bytes"] == values["bytes_total",]
    assert summary["retries"]["throttled"] == failing and summary["retries"]["seconds"] == pytest.approx(values["retry_wait_seconds_total",])


def test_the_time_of_the_last_success_outlives_runs_that_fail(bucket, tmp_path):
    file, key = tmp_path / "run.prom", ("last_success_timestamp_seconds",)
    before = time.time()
    run(bucket, tmp_path / "out", "--metrics", file)
    success = parsed(file.read_text())[0][key]
    assert before - 1 <= success <= time.time()
    bucket.private = set(sorted(bucket.objects)[:1])
    run(bucket, tmp_path / "more", "--metrics", file, status=1)
    assert parsed(file.read_text())[0][key] == pytest.approx(success)
    run(bucket, tmp_path / "none", "--metrics", file, status=1, inputs=["s3://other/none.nc"])
    assert parsed(file.read_text())[0][key] == pytest.approx(success), "the run was refused"
    # The collector runs as another user, and reads files that end in .prom only.
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 and not list(tmp_path.glob(".virtualize-*"))


def test_metrics_are_pushed_while_the_run_proceeds(files, tmp_path):
    with SlowS3(files, latency=0.7) as bucket, Gateway() as gateway:
        run(bucket, tmp_path / "out", "--metrics", gateway.url, "--option", "concurrency=8")
    pushed = [parsed(body)[0] for _, _, body in gateway.pushed]
    assert len(pushed) >= 3 and {path for path, _, _ in gateway.pushed} == {"/metrics/job/era5"}
    assert all(headers["Content-Type"].startswith("text/plain; version=0.0.4") for _, headers, _ in gateway.pushed)
    read = [values["files_total", "read"] for values in pushed]
    assert read[0] == 0 and sorted(read) == read and any(0 < files < FILES for files in read) and read[-1] == FILES
    success = ["last_success_timestamp_seconds" in body for _, _, body in gateway.pushed]
    assert success == [False] * (len(pushed) - 1) + [True], "others keep that of an earlier run"


@pytest.mark.parametrize("how", ["refused", "away"])
def test_a_push_that_fails_is_a_warning(bucket, tmp_path, how):
    with Gateway(status=500) as gateway:
        url = gateway.url.replace("http://", "http://user:secret@") if how == "refused" else "http://user:secret@127.0.0.1:9/metrics/job/a"
        done = run(bucket, tmp_path / "out", "--metrics", url)
    assert "warning: the metrics are not up to date: 127.0.0.1: " in done.stderr and "secret" not in done.stderr, done.stderr
    assert done.stderr.count("warning") <= 2 and len(list(pathlib.Path(tmp_path / "out").rglob("*.json"))) == FILES


@pytest.mark.parametrize("place", ["no/such/folder/run.prom", "http://"])
def test_a_place_that_cannot_be_written_is_refused_at_once(bucket, tmp_path, place):
    done = run(bucket, tmp_path / "out", "--metrics", place, status=1)
    assert place in done.stderr and not (tmp_path / "out").exists() and not bucket.asked
