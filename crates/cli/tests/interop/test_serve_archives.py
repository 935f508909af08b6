"""Archives behind the service: as Zarr stores of stored and of decoded chunks, as values, and as references."""
import json, urllib.error, urllib.parse, urllib.request

import clients
import numpy as np
import pytest
import service
import xarray as xr

NAMES = ["all.json", "all.parquet", "all.zarr", "all.icechunk"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Yields a service, the folder of the archives, and the dataset that xarray makes of the originals."""
    folder = tmp_path_factory.mktemp("archives")
    (folder / "data").mkdir()
    files = [folder / f"data/d{k}.nc" for k in range(3)]
    for k, path in enumerate(files):
        values = np.random.default_rng(k).integers(0, 999, (4, 5))
        data = {"t": (("time", "x"), values * 0.5), "n": (("time", "x"), values.astype("u2"))}
        encoding = {"t": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9, "zlib": True, "shuffle": True, "chunksizes": (2, 5)}}
        xr.Dataset(data, {"time": ("time", np.arange(4) + 4 * k, {"units": "days since 2001-01-01"})}).to_netcdf(
            path, engine="h5netcdf", encoding=encoding)
    for name in NAMES:
        run = clients.virtualize("batch", *files, "-o", folder / name, "--concat-dim", "time", "-q")
        assert run.status == 0, run.stderr
    with service.started(folder, tmp_path_factory.getbasetemp()) as address:
        yield address, folder, xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time")


def inspected(address, path):
    with urllib.request.urlopen(f"{address}/v1/inspect?" + urllib.parse.urlencode({"url": service.url(path)})) as answer:
        return json.load(answer)


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_is_a_store(archives, name):
    address, folder, expected = archives
    described = inspected(address, folder / name)
    assert described["root"]["children"]["t"]["shape"] == [12, 5]
    assert described["file"]["url"].removesuffix("/references.json") == service.url(folder / name) and described["file"]["size"] is None
    store = described["zarr"]["store"]
    for kind in ("zarr", "plain"):
        found = xr.open_zarr(address + store.replace("/v1/zarr/", f"/v1/{kind}/"))
        xr.testing.assert_equal(found.load(), expected)
    values = urllib.request.urlopen(address + store.replace("/v1/zarr/", "/v1/values/") + "?array=n&select=3:9,2").read()
    assert values == expected.n.values[3:9, 2].astype("<u2").tobytes()


def test_references_of_an_archive(archives, tmp_path):
    address, folder, expected = archives
    query = urllib.parse.urlencode({"url": service.url(folder / "all.icechunk")})
    (tmp_path / "refs.json").write_bytes(urllib.request.urlopen(f"{address}/v1/references?{query}").read())
    xr.testing.assert_equal(xr.open_dataset(str(tmp_path / "refs.json"), engine="kerchunk").load(), expected)


@pytest.mark.parametrize("name", ["late.json", "late.icechunk"])
def test_a_new_version_has_a_new_path(archives, tmp_path, name):
    address, folder, _ = archives
    files, out = sorted((folder / "data").iterdir()), tmp_path / name
    assert clients.virtualize("batch", *files[:2], "-o", out, "--concat-dim", "time", "-q").status == 0
    before = inspected(address, out)
    assert before["root"]["children"]["t"]["shape"] == [8, 5]
    assert clients.virtualize("batch", *files, "-o", out, "--concat-dim", "time", "--append", "-q").status == 0
    after = inspected(address, out)
    assert after["root"]["children"]["t"]["shape"] == [12, 5]
    assert before["zarr"]["version"] != after["zarr"]["version"]


def test_sources_outside_the_allowed_prefixes_are_not_read(archives, tmp_path_factory):
    address, folder, _ = archives
    secret = tmp_path_factory.getbasetemp().parent / "secret.bin"
    secret.write_bytes(bytes(16))
    array = {"zarr_format": 2, "shape": [16], "chunks": [16], "dtype": "|u1", "fill_value": 0, "order": "C", "compressor": None, "filters": None}
    for place in ([secret.as_uri(), 0, 16], [secret.as_uri()], ["http://127.0.0.1:1/a", 0, 16]):
        refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(array), "a/0": place}
        (folder / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
        with pytest.raises(urllib.error.HTTPError) as caught:
            store = inspected(address, folder / "refs.json")["zarr"]["store"].replace("/v1/zarr/", "/v1/values/")
            urllib.request.urlopen(f"{address}{store}?array=a").read()
        assert caught.value.code == 403, json.load(caught.value)
    with pytest.raises(urllib.error.HTTPError) as caught:
        inspected(address, folder / "nowhere.icechunk")
    assert caught.value.code == 404


@pytest.mark.parametrize("name", NAMES)
def test_segments_are_one_dataset_for_all_readers(archives, tmp_path, name):
    """`/v1/plain` and `/v1/values` combine groups that are stored differently; `/v1/zarr` has the groups."""
    address, folder, _ = archives
    (data := folder / f"segments-{name}").mkdir()
    files = [data / f"d{k}.nc" for k in range(4)]
    for k, path in enumerate(files):
        values = np.random.default_rng(k).integers(0, 99, (3, 5)).astype("i2" if k % 2 else "i4")
        encoding = {"t": {"_FillValue": 7 + k, "zlib": k != 2, "chunksizes": (2, 5)}, "n": {"dtype": "f4" if k else "f8"}}
        xr.Dataset({"t": (("time", "x"), values), "n": (("time", "x"), values / 3)}, {"time": ("time", np.arange(3) + 3 * k, {"units": "days since 2001-01-01"})}).to_netcdf(
            path, engine="h5netcdf", encoding=encoding)
    run = clients.virtualize("batch", *files, "-o", data / name, "--concat-dim", "time", "--option", "copy-limit=0")
    assert run.status == 0 and "reads them as one dataset" in run.stderr, run.stderr
    expected = xr.concat([xr.open_dataset(file, engine="h5netcdf") for file in files], "time").astype("f8")
    described = inspected(address, data / name)
    assert described["segments"]["dimension"] == "time" and described["root"]["children"]["t"]["shape"] == [12, 5]
    store = described["zarr"]["store"]
    found = xr.open_zarr(address + store.replace("/v1/zarr/", "/v1/plain/")).load()
    xr.testing.assert_equal(found.astype("f8"), expected)
    values = urllib.request.urlopen(address + store.replace("/v1/zarr/", "/v1/values/") + "?array=t&select=2:11:3,4").read()
    np.testing.assert_array_equal(np.frombuffer(values, "<f8"), expected.t.values[2:11:3, 4])
    group = described["segments"]["segments"][0]["group"]
    first = xr.open_zarr(address + store, group=group).load()
    xr.testing.assert_equal(first.t.astype("f8"), expected.t[:first.sizes["time"]])
    with pytest.raises(KeyError):
        xr.open_zarr(address + store)["t"]
