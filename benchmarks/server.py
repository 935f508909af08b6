"""The server of the measurements: crates/server/examples/range_server, which serves a folder like S3 with the latency and bandwidth of a network."""
import contextlib, json, pathlib, socket, subprocess, sys, time, urllib.request


class Server:
    """Runs the server from start to end of a `with` block. Latency in milliseconds, bandwidth of a connection in MiB per second (0: unlimited)."""

    def __init__(self, binary, folder, latency=0, mibps=0):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.folder, self.endpoint = pathlib.Path(folder), f"http://127.0.0.1:{port}"
        self.command = [str(part) for part in (binary, folder, port, round(latency), round(mibps))]

    def __enter__(self):
        self.process = subprocess.Popen(self.command)
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.stats()
                return self
            time.sleep(0.05)
        sys.exit(f"no answer: {' '.join(map(str, self.command))}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def stats(self):
        """Returns what was counted since the previous call."""
        with urllib.request.urlopen(f"{self.endpoint}/__stats?reset=1", timeout=30) as answer:
            return json.load(answer)

    def settings(self):
        """Returns the environment in which the command reads `s3://bucket/` from here."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
