"""Starts the service for tests."""
import contextlib, os, pathlib, socket, subprocess, tempfile, time, urllib.error, urllib.request

import clients


def url(file):
    return pathlib.Path(file).resolve().as_uri()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until_ready(address, process, log):
    """Waits until a service answers; fails with its log if it ends before."""
    for _ in range(1200):
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(f"http://{address}/healthz").close()
            break
        assert process.poll() is None, log.seek(0) or log.read()
        time.sleep(0.05)


@contextlib.contextmanager
def started(*folders, arguments=(), environment=None):
    """Yields the address of a service with access to these folders."""
    address = f"127.0.0.1:{free_port()}"
    allow = [word for folder in folders for word in ("--allow", url(folder) + "/")]
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", address, *allow, *arguments], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, **environment} if environment else None)
    try:
        until_ready(address, process, log)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=90)
