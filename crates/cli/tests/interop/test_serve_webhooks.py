"""Webhooks of jobs: signatures as Python computes them, retries, and deliveries that another instance continues."""
import base64, hashlib, hmac, http.server, json, secrets, threading, time, urllib.error

import pytest

from test_serve_jobs import Service, archive, batch  # noqa: F401


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it receives, and answers with the next of `statuses`."""
    daemon_threads = True

    def __init__(self, statuses=()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses, self.received = list(statuses), []
        self.url = f"http://127.0.0.1:{self.server_port}/hooks/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait(self, count):
        end = time.monotonic() + 60
        while len(self.received) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(self.received) >= count
        return self.received


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.server.received.append((self.path, dict(self.headers), body))
        if status == 302:
            self.send_response(302)
            self.send_header("location", self.server.url + "elsewhere")
        else:
            self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def check(secret, headers, body):
    """Verifies a message as the specification of Standard Webhooks says."""
    headers = {name.lower(): value for name, value in headers.items()}
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)).decode()
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    return f"v1,{expected}" in headers["webhook-signature"].split(" ")


def serve(folder, archive, receiver, *secrets_):  # noqa: F811
    file = folder / "secrets"
    file.write_text("# newest first\n" + "\n".join(secrets_) + "\n")
    return Service(folder, archive, "--allow-webhook", receiver.url, "--webhook-secret-file", file)


def settled(service, job, state="delivered"):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with service.ask(f"/v1/jobs/{job}") as answer:
            shown = json.load(answer)
        if shown.get("webhook", {}).get("state") == state:
            return shown
        time.sleep(0.1)
    raise AssertionError(shown)


def test_the_end_of_a_job_is_sent_with_all_signatures(tmp_path, archive):  # noqa: F811
    receiver, new, old = Receiver(), new_secret(), new_secret()
    with serve(tmp_path, archive, receiver, new, old) as service:
        job = service.submit(**batch(archive, labels={"a": "b"}, webhook={"url": receiver.url + "jobs"}))
        service.ended(job)
        shown = settled(service, job)
        assert shown["webhook"] == {"state": "delivered", "attempts": 1, "next": None, "error": None}
        [(path, headers, body)] = receiver.received
        assert path == "/hooks/jobs" and headers["content-type"] == "application/json"
        assert check(new, headers, body) and check(old, headers, body) and not check(new_secret(), headers, body)
        sent = json.loads(body)
        assert sent == {key: value for key, value in shown.items() if key not in ("request", "webhook")} and sent["state"] == "done"
        # Secrets are replaced without a restart.
        (tmp_path / "secrets").write_text(newer := new_secret())
        job = service.submit(**batch(archive, inputs=[f"file://{archive}/nothing.nc"], webhook={"url": receiver.url, "events": ["failed", "done"]}))
        service.ended(job)
        _, headers, body = receiver.wait(2)[1]
        assert check(newer, headers, body) and not check(new, headers, body)


def test_only_the_events_of_the_request_are_sent(tmp_path, archive):  # noqa: F811
    receiver = Receiver()
    with serve(tmp_path, archive, receiver, new_secret()) as service:
        job = service.submit(**batch(archive, webhook={"url": receiver.url, "events": ["failed"]}))
        service.ended(job)
        other = service.submit(**batch(archive, webhook={"url": receiver.url, "events": ["done"]}))
        service.ended(other)
        settled(service, other)
        assert [json.loads(body)["id"] for *_, body in receiver.received] == [other]
        with service.ask(f"/v1/jobs/{job}") as answer:
            assert "webhook" not in json.load(answer)


def test_retries_continue_in_another_instance(tmp_path, archive):  # noqa: F811
    """The first attempt fails and the instance is killed: the next one sends the same message again."""
    receiver, secret = Receiver([500, 302]), new_secret()
    with serve(tmp_path, archive, receiver, secret) as service:
        job = service.submit(**batch(archive, webhook={"url": receiver.url}))
        service.ended(job)
        receiver.wait(1)
        shown = settled(service, job, "pending")
        while shown["webhook"]["attempts"] < 1:
            shown = settled(service, job, "pending")
        assert shown["webhook"]["error"] == "the receiver answered 500" and shown["webhook"]["next"]
        service.process.kill()
        service.process.wait()
    with serve(tmp_path, archive, receiver, secret) as one, serve(tmp_path, archive, receiver, secret) as other:
        shown = settled(other, job)
        assert shown["webhook"]["attempts"] == 3 and settled(one, job)["webhook"] == shown["webhook"]
    assert len(receiver.received) == 3 and {path for path, *_ in receiver.received} == {"/hooks/"}
    assert len({(headers["webhook-id"], body) for _, headers, body in receiver.received}) == 1
    assert all(check(secret, headers, body) for _, headers, body in receiver.received)


def test_a_receiver_that_is_gone_is_not_asked_again(tmp_path, archive):  # noqa: F811
    receiver = Receiver([410])
    with serve(tmp_path, archive, receiver, new_secret()) as service:
        job = service.submit(**batch(archive, webhook={"url": receiver.url}))
        shown = settled(service, job, "failed")
        assert shown["state"] == "done" and shown["webhook"]["attempts"] == 1


def test_webhooks_go_where_they_may(tmp_path, archive):  # noqa: F811
    receiver = Receiver()
    with serve(tmp_path, archive, receiver, new_secret()) as service:
        for url in ["http://127.0.0.1:1/hooks/", receiver.url.replace("hooks", "other"), receiver.url + "../x", "file:///etc/passwd",
                    "http://169.254.169.254/", receiver.url.replace("//", "//user@"), receiver.url + "?a=b", "x", 5]:
            with pytest.raises(urllib.error.HTTPError) as error:
                service.submit(**batch(archive, webhook={"url": url}))
            assert error.value.code in (400, 403), url
        for webhook in [{}, {"url": receiver.url, "events": ["queued"]}, {"url": receiver.url, "secret": "x"}, []]:
            with pytest.raises(urllib.error.HTTPError, match="400"):
                service.submit(**batch(archive, webhook=webhook))
    assert not receiver.received
