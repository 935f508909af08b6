"""The service for a long time: 1,000 clients, while files change and stores fail.

usage: service.py BINARY [--minutes 30] [--clients 1000] [--think 2.5] [--memory 256M] [--report FILE]

Each response is compared with what its file contained while the request was in progress. Fails if a response is
wrong or undocumented, if memory or descriptors grow over the last two thirds of the run, if descriptors remain, or if the service does not stop cleanly. Prints a line per minute.
"""
import argparse, asyncio, collections, json, os, pathlib, re, resource, shutil, signal, statistics, subprocess, sys, tempfile, time, urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clients
from sources import local, remote

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ["h5", "h5", "tif", "tif", "nc3", "h5"]
# The most that memory may grow over the last two thirds, as a part of --memory; and descriptors.
GROWTH, DESCRIPTORS = 0.05, 25
STOP_TIME, SAMPLE = 20, 5
# Seconds after which at most so many descriptors may remain: idle connections to stores are kept for 90; files in the cache stay open.
IDLE_TIME, REMAIN = 120, 25


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--think", type=float, default=2.5, help="seconds that a client pauses between two requests, on average")
    parser.add_argument("--every", type=float, default=0.25, help="seconds between two changes of files, on average")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--report", type=pathlib.Path)
    return parser.parse_args()


class Service:
    """The process of the service, and its measurements."""

    def __init__(self, chosen, folder, store):
        self.folder, self.samples = folder, []
        tokens = [f"token-of-reader-{number:04}" for number in range(50)]
        (folder / "tokens").write_text("".join(f"{token} read\n" for token in tokens) + "token-of-the-monitoring metrics\n")
        command = [chosen.binary.resolve(), "serve", "--listen", "127.0.0.1:0", "--allow", (folder / "data").as_uri() + "/", "--allow", f"{store}/bucket/",
                   "--allow", "s3://bucket/", "--endpoint", store, "--anonymous",
                   "--memory", chosen.memory, "--token-file", folder / "tokens", "--concurrency", "2048", "--log", "json"]
        self.log = open(folder / "log", "wb")
        environment = environment_of(store) | {"RUST_LOG": "info,virtualize_server::access=warn"}
        self.process = subprocess.Popen(list(map(str, command)), stderr=self.log, env=environment)
        self.tokens, self.port = tokens, self.listening()

    def listening(self):
        for _ in range(600):
            if found := re.search(r"listening on http://[^:]+:(\d+)", (self.folder / "log").read_text()):
                return int(found[1])
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)

    def sample(self):
        """Measures the process: memory in MiB, descriptors and threads."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        status, rollup = (proc / "status").read_text(), (proc / "smaps_rollup").read_text()
        number = lambda name, text: int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])
        cpu = sum(map(int, (proc / "stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        self.samples.append({"time": time.monotonic(), "rss": number("VmRSS", status) / 1024, "pss": number("Pss", rollup) / 1024, "threads": number("Threads", status),
                             "descriptors": len(os.listdir(proc / "fd")), "cpu": cpu})
        return self.samples[-1]

    def stop(self):
        """Stops the service. Returns its exit status, the seconds that it took, and the panics in its log."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(STOP_TIME + 30)
        return status, time.monotonic() - start, (self.folder / "log").read_text(errors="replace").count("panicked")


def environment_of(store):
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "GOOGLE_", "RUST_LOG", "VIRTUALIZE_"))}
    return keep | {"AWS_ENDPOINT_URL": store, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_SKIP_SIGNATURE": "true"}


def made(folder, store):
    """Returns the files that change: in a folder, in a bucket, and on a web server."""
    data = folder / "data"
    found = [local(data, f"local{number:02}.{kind}", kind, number) for number, kind in enumerate(KINDS * 2)]
    found += [remote(store, prefix, f"{name}{number:02}.{kind}", kind, 100 * at + number) for at, (prefix, name) in enumerate([("s3://bucket", "s"), (f"{store}/bucket", "w")], 1)
              for number, kind in enumerate(KINDS)]
    return found


async def measured(service, record, end):
    """Samples the process, and prints a line per minute."""
    start, minutes, at, answers = time.monotonic(), [], 1, 0
    while time.monotonic() < end:
        await asyncio.sleep(SAMPLE)
        now = service.sample()
        if now["time"] - start >= 60 * at:
            taken, record.latencies = sorted(record.latencies), []
            total = sum(record.answers.values())
            minutes.append({"minute": at, "responses": total - answers, "p50": part(taken, 0.5), "p99": part(taken, 0.99), "most": taken[-1], **now})
            at, answers = at + 1, total
            print({name: round(value, 3) for name, value in minutes[-1].items() if name != "time"}, flush=True)
    return minutes


def part(taken, share):
    return taken[min(len(taken) - 1, int(share * len(taken)))]


async def load(chosen, service, sources, record):
    end = time.monotonic() + 60 * chosen.minutes
    every = [clients.Client(service.port, service.tokens[number % len(service.tokens)], sources, record, end, chosen.think) for number in range(chosen.clients)]
    minutes = asyncio.create_task(measured(service, record, end))
    await asyncio.gather(clients.change(sources, end, chosen.every), *(client.run() for client in every))
    return await minutes


def idle(service, before):
    """Waits until the descriptors of the load are closed, and returns the last measurement."""
    end = time.monotonic() + IDLE_TIME
    while (now := service.sample()) and time.monotonic() < end and now["descriptors"] > before["descriptors"]:
        time.sleep(SAMPLE)
    return now


def growth(samples, name):
    """Returns how much a measurement grew over the last two thirds of the run, by the line of least squares."""
    late = samples[len(samples) // 3:]
    slope = statistics.linear_regression([one["time"] for one in late], [one[name] for one in late]).slope
    return slope * (late[-1]["time"] - late[0]["time"])


def main():
    chosen = options()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="endurance-")).resolve()
    (folder / "data" / "archive").mkdir(parents=True)
    store_process = subprocess.Popen([sys.executable, HERE / "store.py"], stdout=subprocess.PIPE, text=True)
    try:
        problems, report = run(chosen, folder, f"http://127.0.0.1:{store_process.stdout.readline().strip()}")
    finally:
        store_process.kill()
    print(json.dumps({name: value for name, value in report.items() if name not in ("samples", "by minute")}, indent=1))
    if chosen.report:
        chosen.report.write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(problems) or "no problem")
    if problems:
        sys.exit(f"the files are kept in {folder}")
    shutil.rmtree(folder)


def run(chosen, folder, store):
    sources, environment = made(folder, store), environment_of(store)
    for source in sources:
        source.learn(chosen.binary.resolve(), environment)
    service = Service(chosen, folder, store)
    before = service.sample()
    document = json.load(urllib.request.urlopen(f"http://127.0.0.1:{service.port}/v1/openapi.json"))
    record = clients.Record(document)
    urllib.request.urlopen(urllib.request.Request(f"{store}/fail", b"1", method="PUT")).close()
    service.samples.clear()
    minutes = asyncio.run(load(chosen, service, sources, record))
    counts = json.load(urllib.request.urlopen(urllib.request.Request(f"{store}/fail", b"0", method="PUT")))
    during = list(service.samples)
    after = idle(service, before)
    return judged(chosen, service, record, minutes, during, before, after, counts)


def judged(chosen, service, record, minutes, during, before, after, counts):
    """Returns the problems and the report."""
    memory, descriptors = growth(during, "rss"), growth(during, "descriptors")
    budget = int(chosen.memory.removesuffix("M"))
    status, seconds, panics = service.stop()
    checks = {
        f"{len(record.wrong)} wrong responses": record.wrong, "no response was checked": not min(record.checked.values(), default=0),
        f"memory grew by {memory:.1f} MiB over the last two thirds": memory > GROWTH * budget,
        f"descriptors grew by {descriptors:.0f} over the last two thirds": descriptors > DESCRIPTORS,
        f"{after['descriptors']} descriptors without clients, {before['descriptors']} before them": after["descriptors"] > before["descriptors"] + REMAIN,
        f"exit status {status} after {seconds:.1f} s, {panics} panics": status != 0 or seconds > STOP_TIME + 5 or panics,
    }
    whole = 60 * chosen.minutes
    report = {"clients": chosen.clients, "minutes": chosen.minutes, "memory": chosen.memory, "responses": sum(record.answers.values()),
              "per second": round(sum(record.answers.values()) / whole), "answers": dict(record.answers.most_common()), "checked": dict(record.checked),
              "p50 ms": round(1000 * statistics.median(one["p50"] for one in minutes)), "p99 ms of the worst minute": round(1000 * max(one["p99"] for one in minutes)),
              "p99 ms, median of minutes": round(1000 * statistics.median(one["p99"] for one in minutes)),
              "requests to the store": counts, "memory grew by MiB": round(memory, 2), "descriptors grew by": round(descriptors, 1),
              "before": before, "after": after, "stopped in s": round(seconds, 2), "wrong": record.wrong[:20], "wrong by kind": dict(record.kinds.most_common(20)),
              "by minute": [{name: round(value, 3) for name, value in one.items() if name != "time"} for one in minutes],
              "samples": [[round(one["time"] - during[0]["time"]), round(one["rss"], 1), one["descriptors"]] for one in during[::6]]}
    return [name for name, found in checks.items() if found], report


if __name__ == "__main__":
    main()
