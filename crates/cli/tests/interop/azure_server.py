"""Azurite, Microsoft's emulator of Azure Blob Storage, on loopback. It checks signatures."""
import contextlib, re, subprocess, threading

import clients

AZURITE = clients.ENV / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
# The account and key that Azurite documents.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def started():
    """Yields the url of the account on a server that is stopped at the end."""
    process = subprocess.Popen([clients.NODE, AZURITE, "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", "0", "--skipApiVersionCheck",
                                "--disableTelemetry"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        messages = []
        for line in process.stdout:
            messages.append(line)
            if found := re.search(r"successfully listens on (http://[\d.]+:\d+)", line):
                break
        else:
            raise AssertionError("".join(messages))
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield f"{found[1]}/{ACCOUNT}"
    finally:
        process.terminate()
        process.wait(timeout=90)
