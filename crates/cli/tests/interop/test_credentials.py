"""Identities: the login of NASA Earthdata, issued credentials that expire, and several of them in one run. The servers are in provider_servers.py."""
import json, os, stat, urllib.error, urllib.parse, urllib.request

import clients
import provider_servers as providers
import pytest
from service import started

FILE = "hdf5/chunked.h5"


@pytest.fixture
def world():
    with providers.started() as world:
        yield world


def environment(tmp_path, **more):
    """Returns an environment without a login, besides the given one."""
    return {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc"), "AWS_ALLOW_HTTP": "true", "AWS_REGION": providers.REGION, **more}


def toml(options):
    inline = lambda value: f"{{ {', '.join(toml(value))} }}" if isinstance(value, dict) else json.dumps(value)
    return [f"{name.replace('_', '-') if len(name) < 20 else name} = {inline(value)}" for name, value in options.items()]


def config(tmp_path, stores, **options):
    """Writes an options file with access by prefix, and returns its path."""
    lines = toml(options)
    for prefix, access in stores.items():
        lines += [f"[store.{json.dumps(prefix)}]", *toml(access)]
    path = tmp_path / "options.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def read(world, url, path, **env):
    run = clients.virtualize(url, "--config", path, env={**env, "RUST_LOG": "trace"})
    world.check_secrets(run.stdout.decode(), run.stderr)
    return run


def refused(world, url, path, *texts, **env):
    run = clients.virtualize(url, "--config", path, env=env)
    assert run.status == 1 and run.stdout == b"" and len(run.stderr.splitlines()) == 1, run
    for text in texts:
        assert text in run.stderr, run.stderr
    world.check_secrets(run.stderr)
    return run


# ---- NASA Earthdata over HTTPS

@pytest.mark.parametrize("area", ["direct", "signed", "tokenless"])
def test_a_netrc_logs_in_once(world, tmp_path, area):
    providers.netrc(tmp_path)
    url = f"{world.data.url}/{area}/{FILE}"
    run = read(world, url, config(tmp_path, {}, earthdata_login=world.login.url), **environment(tmp_path))
    assert run.status == 0, run.stderr
    assert "logging in at" in run.stderr
    # References name the data host, not the signed URL.
    assert {one[0] for one in run.references["refs"].values() if isinstance(one, list)} == {url}
    assert world.logins == 1 and any("code=" in request for request in world.data.log)


@pytest.mark.parametrize(("area", "logins"), [("direct", 0), ("signed", 0), ("mine", 0), ("tokenless", 1)])
def test_a_token_goes_to_the_data_host(world, tmp_path, area, logins):
    """A host that accepts no tokens is logged in to with the netrc."""
    providers.netrc(tmp_path)
    path = config(tmp_path, {world.data.url: {"earthdata_login": world.login.url}})
    run = read(world, f"{world.data.url}/{area}/{FILE}", path, **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))
    assert run.status == 0, run.stderr
    assert world.logins == logins


def test_a_user_and_a_password_may_be_variables(world, tmp_path):
    env = environment(tmp_path, EARTHDATA_USERNAME=providers.USER, EARTHDATA_PASSWORD=providers.PASSWORD)
    run = read(world, f"{world.data.url}/direct/{FILE}", config(tmp_path, {}, earthdata_login=world.login.url), **env)
    assert run.status == 0 and world.logins == 1, run.stderr


def test_a_token_reaches_no_other_host(world, tmp_path):
    """A host that is neither NASA's nor named may redirect to the login, but does not get the token."""
    run = refused(world, f"{world.data.url}/direct/{FILE}", config(tmp_path, {}, earthdata_login=world.login.url), "access denied",
                  **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))
    assert run.codes == [("", "source-denied")]
    assert not any(providers.TOKEN in request for request in world.data.log)


def test_public_files_cost_no_login(world, tmp_path):
    providers.netrc(tmp_path)
    path = config(tmp_path, {world.data.url: {"earthdata_login": world.login.url}})
    run = read(world, f"{world.data.url}/open/{FILE}", path, **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))
    assert run.status == 0 and world.login.log == []
    assert not any("Authorization" in request or "Cookie" in request for request in world.data.log)


def test_anonymous_requests_do_not_log_in(world, tmp_path):
    providers.netrc(tmp_path)
    path = config(tmp_path, {world.data.url: {"earthdata_login": world.login.url, "anonymous": True}})
    refused(world, f"{world.data.url}/direct/{FILE}", path, "requires a login", "requested anonymously",
            **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))
    assert world.login.log == []


def test_messages_name_what_helps(world, tmp_path):
    url, login = f"{world.data.url}/direct/{FILE}", {"earthdata_login": world.login.url}
    refused(world, url, config(tmp_path, {}, **login), "requires a login; requested without a login at 127.0.0.1", "EARTHDATA_TOKEN", "netrc",
            **environment(tmp_path))
    providers.netrc(tmp_path, "wrong-password")
    run = refused(world, url, config(tmp_path, {}, **login), "refuses the login", "requested with the Earthdata login of .netrc", "check the password",
                  **environment(tmp_path))
    assert "wrong-password" not in run.stderr
    providers.netrc(tmp_path)
    refused(world, f"{world.data.url}/unapproved/{FILE}", config(tmp_path, {}, **login), "approve the application", **environment(tmp_path))
    run = refused(world, url, config(tmp_path, {world.data.url: {"earthdata_login": world.login.url}}), "401", "Earthdata login of EARTHDATA_TOKEN",
                  "generate a new token", **environment(tmp_path, EARTHDATA_TOKEN="an-expired-token"))
    assert "an-expired-token" not in run.stderr


def batch(tmp_path, urls, path, env, *options):
    """Writes the references of each file, and returns the run and all texts that it left behind."""
    names = tmp_path / "list.txt"
    names.write_text("\n".join(urls))
    out, log = tmp_path / "out", tmp_path / "log.jsonl"
    run = clients.virtualize("batch", "--each", "--list", names, "-o", out, "--config", path, "--json-log", log, *options, env=env, timeout=300)
    texts = [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file() and file.name not in ("netrc", "options.toml")]
    return run, texts


def test_sessions_that_expire_during_a_run(world, tmp_path):
    providers.netrc(tmp_path)
    world.lifetime, world.data.delay = 1.5, 0.1
    urls = [f"{world.data.url}/tokenless/{FILE}~{n}" for n in range(150)]
    path = config(tmp_path, {}, concurrency=4, earthdata_login=world.login.url)
    run, texts = batch(tmp_path, urls, path, environment(tmp_path))
    assert run.status == 0, run.stderr
    assert 2 <= world.logins <= 20, world.logins
    world.check_secrets(run.stderr, run.stdout.decode(), *texts)


# ---- S3 with credentials that an endpoint issues

def s3_stores(world):
    return {"s3://protected/": {"s3_credentials": f"{world.data.url}/s3credentials", "endpoint": world.s3.url},
            world.data.url: {"earthdata_login": world.login.url}}


def test_s3_credentials_are_renewed_before_they_expire(world, tmp_path):
    providers.netrc(tmp_path)
    world.lifetime, world.s3.delay = 4, 0.2
    urls = [f"s3://protected/{FILE}~{n}" for n in range(200)]
    path = config(tmp_path, s3_stores(world), concurrency=4)
    run, texts = batch(tmp_path, urls, path, environment(tmp_path))
    assert run.status == 0, run.stderr
    assert world.issued >= 3 and world.expired == 0, (world.issued, world.expired)
    world.check_secrets(run.stderr, run.stdout.decode(), *texts)


def test_s3_credentials_with_a_token(world, tmp_path):
    run = read(world, f"s3://protected/{FILE}", config(tmp_path, s3_stores(world)), **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))
    assert run.status == 0 and world.issued == 1 and world.logins == 0, run.stderr


def test_errors_of_s3_credentials_name_the_endpoint(world, tmp_path):
    url = f"s3://protected/{FILE}"
    refused(world, url, config(tmp_path, s3_stores(world)), f"{world.data.url}/s3credentials: ", "requires a login", "EARTHDATA_TOKEN", **environment(tmp_path))
    stores = s3_stores(world)
    stores["s3://lab/"] = stores["s3://protected/"]
    refused(world, f"s3://lab/{FILE}", config(tmp_path, stores), "AccessDenied", f"requested with credentials from {world.data.url}/s3credentials", "us-west-2",
            **environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN))


# ---- profiles

def aws(folder, text):
    """Writes a program `aws` that stands for the AWS CLI."""
    (folder / "bin").mkdir()
    program = folder / "bin/aws"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


LAB = 'echo "$@" >> "$HOME/calls"; echo \'{"Version": 1, "AccessKeyId": "the-lab-key", "SecretAccessKey": "the-lab-secret"}\''


def test_profiles_are_those_of_the_aws_cli(world, tmp_path):
    env = environment(tmp_path, **aws(tmp_path, LAB))
    run = read(world, f"s3://lab/{FILE}", config(tmp_path, {"s3://lab/": {"profile": "lab", "endpoint": world.s3.url}}),
               **{**env, "AWS_ACCESS_KEY_ID": "another-key", "AWS_SECRET_ACCESS_KEY": "another-secret"})
    assert run.status == 0, run.stderr
    assert (tmp_path / "calls").read_text() == "configure export-credentials --format process --profile lab\n"
    run = read(world, f"s3://lab/{FILE}", config(tmp_path, {}, endpoint=world.s3.url), **env, AWS_PROFILE="other")
    assert run.status == 0 and (tmp_path / "calls").read_text().endswith("--profile other\n"), run.stderr
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = the-lab-key\n")
    run = read(world, f"s3://lab/{FILE}", config(tmp_path, {}, endpoint=world.s3.url), **env, AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "credentials"))
    assert run.status == 0 and (tmp_path / "calls").read_text().endswith("--profile default\n"), run.stderr


def test_errors_of_profiles(world, tmp_path):
    url, path = f"s3://lab/{FILE}", config(tmp_path, {"s3://lab/": {"profile": "lab", "endpoint": world.s3.url}})
    refused(world, url, path, "the AWS CLI", "not installed", "with the AWS profile lab", **environment(tmp_path, PATH="/nowhere"))
    env = environment(tmp_path, **aws(tmp_path, "echo 'Error loading SSO Token: Token for lab does not exist' >&2; exit 255"))
    refused(world, url, path, "Error loading SSO Token", "aws sso login --profile lab", **env)
    (tmp_path / "bin/aws").write_text("#!/bin/sh\necho the-lab-secret\n")
    refused(world, url, path, "something else than credentials", **env)


# ---- signatures for Azure

@pytest.mark.parametrize("kind", ["az", "https"])
def test_signatures_are_renewed_before_they_expire(world, tmp_path, kind):
    world.lifetime, world.blobs.delay, world.failures = 4, 0.2, 2
    template = f"{world.sas.url}/api/sas/v1/token/{{account}}/{{container}}"
    if kind == "az":
        prefix, access = "az://container/", {"endpoint": f"{world.blobs.url}/account", "store_option": {"azure_storage_account_name": "account"}}
    else:
        # The account is no part of a host name on loopback.
        prefix, access, template = f"{world.blobs.url}/container/", {}, template.replace("{account}", "account")
    urls = [f"{prefix}{FILE}~{n}" for n in range(150)]
    path = config(tmp_path, {prefix: {"sas_tokens": template, **access}}, concurrency=4)
    run, texts = batch(tmp_path, urls, path, environment(tmp_path))
    assert run.status == 0, run.stderr
    assert len(world.signatures) >= 3 and world.expired == 0, (len(world.signatures), world.expired)
    world.check_secrets(run.stderr, run.stdout.decode(), *texts)
    if kind == "https":
        refused(world, f"{world.blobs.url}/account/container/{FILE}", config(tmp_path, {}), "409", **environment(tmp_path))


# ---- several identities

def test_references_to_several_buckets_open(world, tmp_path):
    """One archive has files of a public bucket, a protected one, a profile's and an Earthdata host."""
    env = environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN, **aws(tmp_path, LAB))
    lab = {"profile": "lab", "endpoint": world.s3.url}
    stores = s3_stores(world) | {"s3://public/": {"anonymous": True, "endpoint": world.s3.url}, "s3://lab/": {"anonymous": True, "endpoint": world.s3.url}, "s3://lab/hdf5/": lab}
    path = config(tmp_path, stores)
    urls = [f"s3://public/{FILE}", f"s3://protected/{FILE}", f"s3://lab/{FILE}", f"{world.data.url}/signed/{FILE}"]
    out = tmp_path / "all.json"
    run = clients.virtualize("batch", *urls, "--stack-dim", "file", "-o", out, "--config", path, "--quiet", env=env)
    assert run.status == 0, run.stderr
    references = json.loads(out.read_text())
    assert {one[0] for one in references["refs"].values() if isinstance(one, list)} == set(urls)
    done = clients.virtualize("validate", out, "--config", path, "--full", env=env)
    assert done.status == 0, done.stderr
    world.check_secrets(run.stderr, done.stdout.decode(), done.stderr, *(file.read_bytes().decode("latin-1") for file in tmp_path.glob("*.json*")))


def test_a_token_of_a_prefix_goes_nowhere_else(world, tmp_path):
    (tmp_path / "token").write_text(f"{providers.TOKEN}\n")
    path = config(tmp_path, {f"{world.data.url}/direct/": {"bearer_token_file": str(tmp_path / "token")}})
    run = read(world, f"{world.data.url}/direct/{FILE}", path, **environment(tmp_path))
    assert run.status == 0, run.stderr
    before = len(world.data.log)
    assert read(world, f"{world.data.url}/open/{FILE}", path, **environment(tmp_path)).status == 0
    assert not any("Authorization" in request for request in world.data.log[before:])
    (tmp_path / "token").write_text("another-token")
    refused(world, f"{world.data.url}/direct/{FILE}", path, "401", f"requested with the bearer token in {tmp_path}/token", **environment(tmp_path))
    (tmp_path / "token").unlink()
    refused(world, f"{world.data.url}/direct/{FILE}", path, f"access denied: {tmp_path}/token: No such file", **environment(tmp_path))


def test_the_service_has_several_identities(world, tmp_path):
    (tmp_path / "token").write_text(providers.TOKEN)
    stores = s3_stores(world) | {"s3://public/": {"anonymous": True, "endpoint": world.s3.url},
                                 f"{world.data.url}/direct/": {"bearer_token_file": str(tmp_path / "token")},
                                 f"{world.blobs.url}/container/": {"sas_tokens": f"{world.sas.url}/api/sas/v1/token/account/{{container}}"}}
    urls = [f"s3://public/{FILE}", f"s3://protected/{FILE}", f"{world.data.url}/direct/{FILE}", f"{world.blobs.url}/container/{FILE}",
            f"{world.blobs.url}/container/{FILE}~1"]
    path = config(tmp_path, stores, allow=[*urls, f"{world.data.url}/signed/"])
    with started(arguments=["--config", path], environment=environment(tmp_path, EARTHDATA_TOKEN=providers.TOKEN)) as service:
        ask = lambda url: urllib.request.urlopen(f"{service}/v1/references?url={urllib.parse.quote(url)}", timeout=60)
        for url in urls:
            with ask(url) as answer:
                text = answer.read().decode()
            assert url in text
            world.check_secrets(text, str(answer.headers))
        assert len(world.signatures) == world.issued == 1
        # It follows no redirects.
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(f"{world.data.url}/signed/{FILE}")
        world.check_secrets(caught.value.read().decode())
