"""The service against its own OpenAPI document. A generated client reads a file. Schemathesis sends what the document allows and what it forbids, and checks each response.

OPENAPI_EXAMPLES=1000 sends more requests of each kind."""
import importlib, json, os, re, shutil, subprocess, sys, urllib.parse, urllib.request

import h5py, numpy as np, pytest

import clients, service

EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", 5))
TOKEN = "a-token-for-the-document"
FILES = ["hdf5/chunked.h5", "hdf5/netcdf4.nc", "tiff/cog.tif"]
# What a valid request to this service has; anything else that the document allows is mostly refused before a file is opened.
KNOWN = {"query.array": ["/temperature", "temperature", "/"], "path.key": ["zarr.json", "temperature/zarr.json", "temperature/c/0/0", "band_data/c/0/0/0"],
         "query.select": ["", "0", "0,0", ":,1:3", "::2,0"]}
# Any data that the document allows may still name no file (`positive_data_acceptance`).
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance", "response_schema_conformance",
          "negative_data_rejection", "missing_required_header", "unsupported_method", "allow_header_conformance", "use_after_free",
          "ensure_resource_availability", "ignored_auth"]


def settings(folder, secured):
    """Returns a configuration of Schemathesis in which half the values are those of existing files. Data may also be too large to be refused for anything else."""
    urls = [service.url(folder / name) for name in FILES]
    known = KNOWN | {"query.url": [*urls, service.url(folder) + "/"], "path.source": urls}
    lines = [f"[dictionaries.d{number}]\nvalues = {json.dumps(values)}\n" for number, values in enumerate(known.values())]
    lines += ["[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 405, 406, 409, 414, 422, 431]\n"]
    lines += [f'[auth.openapi.token]\nbearer = "{TOKEN}"\n'] * secured
    lines += ["[parameters]\n", *(f'"{name}" = {{ dictionary = "d{number}", probability = 0.5 }}\n' for number, name in enumerate(known))]
    return "".join(lines)


def findings(address, folder, document, secured):
    """Runs Schemathesis. Returns the number of its requests, its exit status and its output."""
    (folder / "schemathesis.toml").write_text(settings(folder / "files", secured))
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "schemathesis.toml"), "run", str(folder / "openapi.json"), "--url", address,
               "--checks", ",".join(CHECKS), "--max-examples", str(EXAMPLES), "--continue-on-failure", "--no-color", "--workers", "2",
               "--generation-database", "none", "--suppress-health-check", "all", "--request-timeout", "30"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    sent = re.search(r"([\d,]+) generated", run.stdout)
    return int(sent[1].replace(",", "")) if sent else 0, run.returncode, run.stdout + run.stderr


def test_a_generated_client_reads_a_file(tmp_path, monkeypatch):
    """openapi-python-client generates a client without warnings, for which ruff formats the code."""
    monkeypatch.setenv("PATH", f"{clients.ENV / 'bin'}:{os.environ['PATH']}")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tokens").write_text(f"{TOKEN} read\n")
    with service.started(clients.FIXTURES, arguments=["--token-file", tmp_path / "tokens"]) as address:
        urllib.request.urlretrieve(f"{address}/v1/openapi.json", tmp_path / "openapi.json")
        subprocess.run([sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none", "--fail-on-warning"],
                       cwd=tmp_path, check=True, capture_output=True)
        generated = importlib.import_module("generated")
        call = lambda name, *words, client=generated.AuthenticatedClient(address, TOKEN), **more: importlib.import_module(f"generated.api.{name}").sync(*words, client=client, **more)
        source = service.url(clients.FIXTURES / "hdf5/chunked.h5")
        assert call("service.about").allow == [service.url(clients.FIXTURES)]
        assert source in [file.url for file in call("folders.folder", url_query=source.rpartition("/")[0] + "/").files]
        run = clients.virtualize("fixtures/hdf5/chunked.h5", "--format", "zarr3-json")
        formats = importlib.import_module("generated.models").ReferencesFormat
        assert call("one_file.references", url_query=source, format_=formats.ZARR3_JSON) == run.references
        store = urllib.parse.urlsplit(call("one_file.inspect", url_query=source)["zarr"]["store"]).path.rpartition("/")[2]
        assert json.load(call("one_file.zarr", store, "temperature/zarr.json").payload)["shape"] == [4, 6]
        first = run.references["refs"]["temperature/c/0/0"]
        with open(clients.FIXTURES / "hdf5/chunked.h5", "rb") as file:
            file.seek(first[1])
            assert call("one_file.zarr", store, "temperature/c/0/0").payload.read() == file.read(first[2])
        with h5py.File(clients.FIXTURES / "hdf5/chunked.h5") as file:
            values = call("one_file.values", store, array="temperature", select="1:3,::2").payload.read()
            np.testing.assert_array_equal(np.frombuffer(values, "<f4").reshape(2, 3), file["temperature"][1:3, ::2])
        assert call("one_file.references", url_query="file:///etc/passwd").code == "not-allowed"
        assert call("one_file.references", url_query=source, client=generated.Client(address)).status == 401


@pytest.mark.slow
@pytest.mark.parametrize("secured", [False, True], ids=["open", "with tokens"])
def test_the_service_does_what_its_document_promises(tmp_path, secured):
    files = tmp_path / "files"
    for name in FILES:
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clients.FIXTURES / name, files / name)
    (tmp_path / "tokens").write_text(f"{TOKEN} read,metrics\n")
    with service.started(files, arguments=["--token-file", tmp_path / "tokens"] * secured) as address:
        with urllib.request.urlopen(f"{address}/v1/openapi.json") as answer:
            document = json.load(answer)
        if secured:
            # The document serves services without tokens as well; this one requires them.
            document = json.loads(json.dumps(document).replace('{"token": []}, {}]', '{"token": []}]'))
        sent, status, output = findings(address, tmp_path, document, secured)
    assert status == 0, output
    assert sent > 500, output
