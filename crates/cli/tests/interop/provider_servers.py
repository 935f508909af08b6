"""NASA Earthdata on loopback, as its parts behave: the login service, a data host, its endpoint of S3 credentials, S3 itself, and the servers
of signed URLs that a data host redirects to. Every request is recorded with its headers, by the name of the server."""
import base64, contextlib, datetime, hashlib, hmac, http.server, json, pathlib, re, secrets, threading, time, urllib.parse

import clients

USER, PASSWORD = "researcher", "pass-word-of-netrc"
TOKEN = "edl-token-of-environment"
REGION = "us-west-2"


class Recorded(http.server.BaseHTTPRequestHandler):
    """Records requests, and answers them with the method `answer`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.log.append(f"{self.command} {self.path}\n{self.headers}")
        time.sleep(self.server.delay)
        self.url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(self.url.query))
        self.answer()

    do_HEAD = do_POST = do_GET

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name.replace("_", "-"), one)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, name):
        # Objects whose names differ after a tilde have the same content.
        path = clients.FIXTURES / re.sub(r"~\d+$", "", name)
        if not path.is_file():
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        data = path.read_bytes()
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        start, end = int(first), min(len(data), int(last) + 1) if last else len(data)
        span = f"bytes {start}-{end - 1}/{len(data)}"
        return self.reply(206, data[start:end], Content_Range=span, ETag='"1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")

    @property
    def authorization(self):
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        return kind, value


class Login(Recorded):
    """Issues a code to a user that sends the password, and to nobody else: a bearer token is not accepted here."""

    def answer(self):
        if self.url.path == "/approve_app":
            return self.reply(200, b"<!doctype html><title>Approve this application</title>", Content_Type="text/html")
        if self.url.path != "/oauth/authorize":
            return self.reply(404)
        kind, value = self.authorization
        if not kind:
            return self.reply(200, b"<!doctype html><title>Sign in</title>", Content_Type="text/html")
        if kind != "Basic" or base64.b64decode(value).decode() != f"{USER}:{PASSWORD}":
            return self.reply(401, b"HTTP Basic: Access denied.\n", WWW_Authenticate='Basic realm="Please enter your Earthdata Login credentials."')
        if self.query["client_id"] == "unapproved":
            return self.reply(302, Location="/approve_app?client_id=unapproved")
        code = secrets.token_hex(16)
        self.server.world.codes.add(code)
        back = self.query["redirect_uri"] + "?" + urllib.parse.urlencode({"code": code, "state": self.query["state"]})
        return self.reply(302, Location=back, Set_Cookie="_urs-gui_session=of-the-login-host; Path=/; HttpOnly")


class Data(Recorded):
    """A data host: /open is public, /direct serves files itself, /signed redirects to signed URLs, /unapproved is of an application that the
    user has not approved, /tokenless accepts no bearer token, /mine refuses instead of redirecting, and /s3credentials issues credentials."""

    def answer(self):
        world, area = self.server.world, self.url.path.split("/")[1]
        if self.url.path == "/login":
            return self.back()
        if area == "open":
            return self.send_file(self.url.path.removeprefix("/open/"))
        kind, value = self.authorization
        if kind == "Bearer" and area != "tokenless":
            if value != world.token:
                return self.reply(401, b'{"error": "invalid_token"}', Content_Type="application/json")
        elif not self.session():
            if area == "mine":
                return self.reply(401, b"log in first")
            return self.redirect()
        if self.url.path == "/s3credentials":
            return self.reply(200, json.dumps(world.issue()).encode(), Content_Type="application/json")
        name = self.url.path.split("/", 2)[2]
        if area == "signed":
            return self.reply(303, Location=f"{world.signed.url}/{name}?X-Amz-Signature={world.sign(name)}&X-Amz-Expires=3600")
        return self.send_file(name)

    def session(self):
        cookies = dict(pair.strip().split("=", 1) for pair in self.headers.get("Cookie", "").split(";") if "=" in pair)
        return self.server.world.sessions.get(cookies.get("session"), 0) > time.time()

    def redirect(self):
        world = self.server.world
        visit = secrets.token_hex(8)
        world.visits.add(visit)
        client = "unapproved" if self.url.path.startswith("/unapproved/") else "approved"
        query = {"client_id": client, "response_type": "code", "redirect_uri": f"{self.server.url}/login", "state": self.path}
        return self.reply(302, Location=f"{world.login.url}/oauth/authorize?" + urllib.parse.urlencode(query), Set_Cookie=f"visit={visit}; Path=/; HttpOnly")

    def back(self):
        """Exchanges a code, once, for a session of the visit that began with the redirect to the login."""
        world = self.server.world
        visits = [pair.strip().removeprefix("visit=") for pair in self.headers.get("Cookie", "").split(";") if pair.strip().startswith("visit=")]
        if self.query.get("code") not in world.codes or not world.visits.intersection(visits):
            return self.reply(400, b"invalid code")
        world.codes.remove(self.query["code"])
        session = secrets.token_hex(16)
        world.sessions[session] = time.time() + world.lifetime
        world.logins += 1
        return self.reply(302, Location=self.query["state"], Set_Cookie=[f"session={session}; Path=/; HttpOnly", "other=1"])


class Signed(Recorded):
    """Serves signed URLs. As S3, it refuses requests with a second kind of authorization."""

    def answer(self):
        name = self.url.path.removeprefix("/")
        if "Authorization" in self.headers:
            return self.reply(400, b"<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism allowed</Message></Error>")
        if self.query.get("X-Amz-Signature") != self.server.world.sign(name):
            return self.reply(403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        return self.send_file(name)


class S3(Recorded):
    """Serves `/protected/` to issued credentials until they expire, `/lab/` to the keys of the profile lab, and `/public/` to unsigned requests
    only. Signatures are computed again."""

    def answer(self):
        world, (_, bucket, name) = self.server.world, urllib.parse.unquote(self.url.path).split("/", 2)
        if bucket == "public":
            return self.send_file(name) if "Authorization" not in self.headers else self.refuse(403, "AccessDenied")
        if not (given := self.authorization[1]):
            return self.refuse(403, "AccessDenied")
        fields = dict(field.strip().split("=", 1) for field in given.split(","))
        key, date, region, service, _ = fields["Credential"].split("/")
        if key == "the-lab-key":
            secret, token, expiry = "the-lab-secret", None, time.time() + 1
        elif key in world.credentials:
            secret, token, expiry = world.credentials[key]
        else:
            return self.refuse(403, "InvalidAccessKeyId")
        if token != self.headers.get("x-amz-security-token"):
            return self.refuse(403, "InvalidToken")
        if time.time() > expiry:
            world.expired += 1
            return self.refuse(400, "ExpiredToken")
        signed = fields["SignedHeaders"].split(";")
        headers = "".join(f"{header}:{' '.join(self.headers[header].split())}\n" for header in signed)
        query = "&".join(sorted(self.url.query.split("&")))
        canonical = "\n".join([self.command, self.url.path, query, headers, fields["SignedHeaders"], self.headers["x-amz-content-sha256"]])
        scope = f"{date}/{region}/{service}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        derived = f"AWS4{secret}".encode()
        for part in (*scope.split("/"), text):
            derived = hmac.digest(derived, part.encode(), "sha256")
        if fields["Signature"] != derived.hex() or region != REGION:
            return self.refuse(403, "SignatureDoesNotMatch")
        if bucket != ("lab" if key == "the-lab-key" else "protected"):
            return self.refuse(403, "AccessDenied")
        return self.send_file(name)

    def refuse(self, status, code):
        return self.reply(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}.</Message></Error>".encode())


class Signatures(Recorded):
    """Issues shared access signatures for containers, as the Planetary Computer does."""

    def answer(self):
        world = self.server.world
        if world.failures > 0:
            world.failures -= 1
            return self.reply(503)
        parts = self.url.path.split("/")
        if parts[:5] != ["", "api", "sas", "v1", "token"] or parts[5:] != ["account", "container"]:
            return self.reply(404, b'{"detail": "unknown container"}')
        expiry = time.time() + world.lifetime
        signature = base64.b64encode(secrets.token_bytes(24)).decode()
        world.signatures[signature] = expiry
        token = urllib.parse.urlencode({"se": time_text(expiry), "sp": "rl", "sv": "2024-05-04", "sr": "c", "sig": signature})
        return self.reply(200, json.dumps({"msft:expiry": time_text(expiry), "token": token}).encode(), Content_Type="application/json")


class Blobs(Recorded):
    """Blob storage that serves `/account/container/…` and `/container/…` for a valid signature; else it fails as Azure does."""

    def answer(self):
        world = self.server.world
        expiry = world.signatures.get(self.query.get("sig"))
        if expiry is None:
            return self.reply(409, "\ufeff<?xml version='1.0'?><Error><Code>PublicAccessNotPermitted</Code><Message>Public access is not permitted on this storage account.</Message></Error>".encode())
        if time.time() > expiry:
            world.expired += 1
            return self.reply(403, b"<?xml version='1.0'?><Error><Code>AuthenticationFailed</Code><Message>Signature not valid in the specified time frame</Message></Error>")
        return self.send_file(self.url.path.split("/container/", 1)[1])


def time_text(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class World:
    """The servers, and what they have issued. `lifetime` is that of sessions, credentials and signatures in seconds."""

    SERVERS = {"login": Login, "data": Data, "signed": Signed, "s3": S3, "sas": Signatures, "blobs": Blobs}

    def __init__(self):
        self.token, self.lifetime = TOKEN, 3600
        self.codes, self.visits, self.sessions, self.credentials, self.signatures = set(), set(), {}, {}, {}
        self.logins = self.expired = self.failures = self.issued = 0
        self.secret = secrets.token_bytes(16)

    def sign(self, name):
        return hmac.digest(self.secret, name.encode(), "sha256").hex()

    def issue(self):
        key, secret, token = "ASIA" + secrets.token_hex(8).upper(), secrets.token_hex(20), "session-" + secrets.token_hex(30)
        expiry = time.time() + self.lifetime
        self.credentials[key] = (secret, token, expiry)
        self.issued += 1
        # The notation of the data centres.
        text = datetime.datetime.fromtimestamp(expiry, datetime.UTC).isoformat(" ")
        return {"accessKeyId": key, "secretAccessKey": secret, "sessionToken": token, "expiration": text}

    def secrets(self):
        """Returns all secrets, each with the names of the servers that may receive it."""
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        found = {PASSWORD: {"login"}, basic: {"login"}, self.token: {"data", "login"}, "of-the-login-host": {"login"}, "the-lab-secret": set()}
        found |= {session: {"data"} for session in self.sessions}
        for secret, token, _ in self.credentials.values():
            found |= {secret: set(), token: {"s3"}}
        return found | {urllib.parse.quote(signature, safe=""): {"blobs"} for signature in self.signatures}

    def check_secrets(self, *texts):
        """Checks that no server received the secrets of another one, and that the texts have none of them."""
        for secret, allowed in self.secrets().items():
            for name in self.SERVERS:
                assert name in allowed or not any(secret in request for request in getattr(self, name).log), f"{secret} reached {name}"
            for text in texts:
                assert secret not in text, f"{secret} is in {text[:200]}"


@contextlib.contextmanager
def started():
    world, threads = World(), []
    for name, handler in World.SERVERS.items():
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads, server.log, server.delay, server.world = True, [], 0, world
        server.url = f"http://127.0.0.1:{server.server_port}"
        setattr(world, name, server)
        threads.append(threading.Thread(target=server.serve_forever, daemon=True))
        threads[-1].start()
    yield world
    for name in World.SERVERS:
        getattr(world, name).shutdown()


def netrc(folder, password=PASSWORD):
    """Writes a `.netrc` for the login service, and returns its path."""
    path = pathlib.Path(folder) / "netrc"
    path.write_text(f"machine example.org login other password other-password\nmachine 127.0.0.1\n  login {USER}\n  password {password}\n")
    return path
