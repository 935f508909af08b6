"""The service with an identity provider: tokens made by PyJWT, keys behind a URL that rotate and fail, and tokens that are reloaded."""
import base64, contextlib, http.server, json, os, re, signal, subprocess, threading, time, urllib.error, urllib.parse, urllib.request

import clients
import jwt
import pytest
import service
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

FILE = clients.ROOT / "fixtures/hdf5/chunked.h5"
AUDIENCE = "virtualize"
ISSUER = "https://issuer.example/"
KEYS = {
    "RS256": (rsa.generate_private_key(65537, 2048), jwt.algorithms.RSAAlgorithm),
    "PS384": (rsa.generate_private_key(65537, 3072), jwt.algorithms.RSAAlgorithm),
    "ES256": (ec.generate_private_key(ec.SECP256R1()), jwt.algorithms.ECAlgorithm),
    "ES384": (ec.generate_private_key(ec.SECP384R1()), jwt.algorithms.ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate(), jwt.algorithms.OKPAlgorithm),
}


def key_set(*names):
    """The public keys; the id of a key is the name of its algorithm."""
    keys = [KEYS[name][1].to_jwk(KEYS[name][0].public_key(), as_dict=True) | {"kid": name, "use": "sig"} for name in names]
    return {"keys": [{name: value for name, value in key.items() if name != "key_ops"} for key in keys]}


def token(algorithm="ES256", headers=None, **claims):
    all_claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "scope": "read metrics", "exp": int(time.time()) + 3600, **claims}
    return jwt.encode({name: value for name, value in all_claims.items() if value is not None}, KEYS[algorithm][0], algorithm=algorithm,
                      headers={"kid": algorithm, **(headers or {})})


def status(address, given, path=None):
    """The status of a request, and the code of its problem."""
    headers = {"Authorization": f"Bearer {given}"} if given is not None else {}
    path = path or f"/v1/references?url={urllib.parse.quote(service.url(FILE), safe='')}"
    try:
        return urllib.request.urlopen(urllib.request.Request(address + path, headers=headers)).status
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["code"]


def until(wanted, ask, seconds=60):
    """Asks until the answer is the wanted one."""
    end = time.monotonic() + seconds
    while (answer := ask()) != wanted:
        assert time.monotonic() < end, answer
        time.sleep(0.1)


@pytest.fixture
def keys_file(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(key_set(*KEYS)))
    return path


def arguments(keys, *more):
    return ["--jwks", keys, "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, *more]


def test_tokens_of_each_algorithm(keys_file):
    with service.started(clients.ROOT / "fixtures", arguments=arguments(keys_file)) as address:
        for algorithm in KEYS:
            assert status(address, token(algorithm)) == 200, algorithm
            assert status(address, token(algorithm, aud="other")) == (401, "token")
        assert status(address, None) == (401, "token")
        assert status(address, token(), "/metrics") == 200
        assert status(address, token(scope="virtualize:read"), "/metrics") == (403, "scope")
        assert status(address, token(scope=["read", "openid"])) == 200
        assert status(address, token(scope=None)) == (403, "scope")
        assert status(address, token(prefixes=[service.url(clients.ROOT / "fixtures/hdf5") + "/"])) == 200
        assert status(address, token(prefixes=[service.url(clients.ROOT / "fixtures/tiff") + "/"])) == (403, "not-allowed")


def test_confusions_are_refused(keys_file):
    """A public key as an HMAC secret, no signature, another key's id, a key in the header: each made by hand or by PyJWT."""
    part = lambda value: base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "scope": "read", "exp": int(time.time()) + 3600}
    public = json.loads(keys_file.read_text())["keys"][0]
    hashed = jwt.encode(claims, part(json.dumps(public).encode()), algorithm="HS256", headers={"kid": "RS256"})
    unsigned = [f"{part({'alg': alg, 'kid': 'ES256'})}.{part(claims)}." for alg in ("none", "None", "nOnE", "")]
    stranger = ec.generate_private_key(ec.SECP256R1())
    own = jwt.encode(claims, stranger, algorithm="ES256", headers={"kid": "ES256", "jwk": jwt.algorithms.ECAlgorithm.to_jwk(stranger.public_key(), as_dict=True)})
    url = jwt.encode(claims, stranger, algorithm="ES256", headers={"kid": "ES256", "jku": "http://127.0.0.1:1/keys"})
    swapped = jwt.encode(claims, KEYS["RS256"][0], algorithm="PS256", headers={"kid": "PS384"})
    with service.started(clients.ROOT / "fixtures", arguments=arguments(keys_file)) as address:
        assert status(address, token()) == 200
        for wrong in [hashed, *unsigned, own, url, swapped, token(headers={"kid": "RS256"}), token(headers={"typ": "dpop+jwt"}), token(headers={"crit": ["x"], "x": 1}),
                      token(exp=int(time.time()) - 120), token(nbf=int(time.time()) + 120), token(iat=int(time.time()) + 120), token(exp=None), token(sub=None),
                      token(iss="https://issuer.example"), token(aud=None), token(pad="x" * 17_000), token() + "A", "a.b.c", "..", ""]:
            assert status(address, wrong) == (401, "token"), wrong


def test_a_token_of_the_file_may_look_like_a_jwt(tmp_path, keys_file):
    (tmp_path / "tokens").write_text("a-token.with.two-dots read\n")
    with service.started(clients.ROOT / "fixtures", arguments=arguments(keys_file, "--token-file", tmp_path / "tokens")) as address:
        assert status(address, "a-token.with.two-dots") == status(address, token()) == 200
        assert status(address, "a-token.with.two-dot") == (401, "token")


@pytest.mark.slow
def test_tokens_and_keys_are_reloaded(tmp_path, keys_file):
    tokens = tmp_path / "tokens"
    tokens.write_text("first-token-of-all read\nsecond-token-of-all read\n")
    with service.started(clients.ROOT / "fixtures", arguments=arguments(keys_file, "--token-file", tokens)) as address:
        assert status(address, "first-token-of-all") == status(address, token()) == 200
        # Revoked, while clients keep asking with the other one.
        tokens.write_text("second-token-of-all read\n")
        until((401, "token"), lambda: (status(address, "second-token-of-all") == 200 and status(address, "first-token-of-all")))
        tokens.write_text("second-token-of-all read\nthird-token-of-all wrong\n")
        time.sleep(3)
        assert status(address, "second-token-of-all") == 200
        for gone in (lambda: tokens.unlink(), lambda: tokens.write_text("")):
            gone()
            time.sleep(3)
            assert status(address, None) == status(address, "") == (401, "token")
        assert status(address, "second-token-of-all") == (401, "token"), "an empty file revokes all tokens"
        assert status(address, token()) == 200
        # Keys.
        keys_file.write_text(json.dumps(key_set("RS256")))
        until((401, "token"), lambda: status(address, token()))
        assert status(address, token("RS256")) == 200
        keys_file.write_text("{}")
        time.sleep(3)
        assert status(address, token("RS256")) == 200, "a broken file changes nothing"


@pytest.mark.slow
def test_reloads_never_refuse_a_token_that_stays(tmp_path):
    """The file is written in place, slowly and often, and one of its tokens always stays."""
    tokens = tmp_path / "tokens"
    line = "token-that-stays-all-the-time read\n"
    tokens.write_text(line)
    with service.started(clients.ROOT / "fixtures", arguments=["--token-file", tokens]) as address:
        stop = threading.Event()

        def write():
            while not stop.is_set():
                with tokens.open("w") as file:
                    for _ in range(20):
                        print(f"token-{os.urandom(8).hex()} read", file=file, flush=True)
                    file.write(line)
                time.sleep(0.3)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            answers = {status(address, line.split()[0]) for _ in range(1000)}
        finally:
            stop.set()
            writer.join()
        assert answers == {200}


class Issuer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requested.append(self.path)
        body = self.server.answers.get(self.path)
        self.send_response(200 if body else 500)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode() if body else b"")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def issuer():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        server.requested, server.url = [], f"http://127.0.0.1:{server.server_port}"
        server.answers = {"/.well-known/openid-configuration": {"issuer": ISSUER, "jwks_uri": f"{server.url}/keys"}, "/keys": key_set("ES256")}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.slow
def test_keys_behind_a_url_rotate_and_fail():
    with issuer() as server:
        keys = f"{server.url}/.well-known/openid-configuration"
        with service.started(clients.ROOT / "fixtures", arguments=["--jwks", keys, "--jwt-audience", AUDIENCE]) as address:
            assert status(address, token()) == 200
            assert status(address, token(iss="https://other.example/")) == (401, "token"), "the configuration names the issuer"
            # A new key is found when a token names it, but not more often than every ten seconds.
            server.answers["/keys"] = key_set("ES256", "RS256")
            until(200, lambda: status(address, token("RS256")))
            requested = len(server.requested)
            for number in range(50):
                assert status(address, token(headers={"kid": f"unknown {number}"})) == (401, "token")
            assert len(server.requested) <= requested + 4
            # The issuer fails: the last good keys stay.
            server.answers["/keys"] = None
            for number in range(3):
                assert status(address, token(headers={"kid": f"other {number}"})) == (401, "token")
                assert status(address, token()) == status(address, token("RS256")) == 200
        # At the start there are none.
        refused = clients.virtualize("serve", "--allow", service.url(clients.ROOT / "fixtures") + "/", "--jwks", keys, "--jwt-audience", AUDIENCE, "--listen", "127.0.0.1:0")
        assert refused.status != 0 and re.search(r"--jwks .*status 500", refused.stderr) and len(refused.stderr.splitlines()) == 1, refused.stderr


@pytest.mark.parametrize("given, reason", [
    (["--jwks", "KEYS"], "--jwt-audience"),
    (["--jwt-audience", "a"], "--jwks"),
    (["--jwks", "missing.json", "--jwt-audience", "a"], "missing.json"),
    (["--jwks", "http://example.com/keys", "--jwt-audience", "a"], "https://"),
    (["--jwks", "EMPTY", "--jwt-audience", "a"], "no key"),
    (["--jwks", "http://127.0.0.1:1/keys", "--jwt-audience", "a"], "refused"),
])
def test_settings_that_are_not_safe(given, reason, keys_file, tmp_path):
    (tmp_path / "empty.json").write_text('{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}')
    given = [{"KEYS": str(keys_file), "EMPTY": str(tmp_path / "empty.json")}.get(word, word) for word in given]
    refused = clients.virtualize("serve", "--allow", service.url(clients.ROOT / "fixtures") + "/", "--listen", "127.0.0.1:0", *given)
    assert refused.status != 0 and reason in refused.stderr and len(refused.stderr.splitlines()) == 1, refused.stderr


def test_hangup_reloads_at_once(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("first-token-of-all read\n")
    address = f"127.0.0.1:{service.free_port()}"
    process = subprocess.Popen([clients.BINARY, "serve", "--listen", address, "--allow", service.url(clients.ROOT / "fixtures") + "/", "--token-file", tokens],
                               stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "listening" in line:
                break
        tokens.write_text("second-token-of-all read\n")
        process.send_signal(signal.SIGHUP)
        until(200, lambda: status(f"http://{address}", "second-token-of-all"))
        assert status(f"http://{address}", "first-token-of-all") == (401, "token")
    finally:
        process.terminate()
        text = process.communicate(timeout=60)[1]
    assert "token-of-all" not in text, "the log shows no token"
