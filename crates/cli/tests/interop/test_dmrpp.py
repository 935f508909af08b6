"""References from a DMR++ sidecar are those of the file itself, whether the sidecar suffices or the file is read."""
import json, os, random, urllib.parse, urllib.request

import clients
import dmrpp
import h5py
import netCDF4
import numpy as np
import pytest
import service
from slow_s3 import SlowS3

SEEDS = [int(seed) for seed in os.environ.get("DMRPP_SEEDS", "1 2 3 4 5 6").split()]
TYPES = ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8"]
TEXTS = ["", "K", "a & b < \"c\"", " two\nlines\r\n\tx", "°C", "日本", "ends with blank ", "a\\b", "\\101", "100%"]


def references(path, *options):
    """The references, and why no sidecar was used, if so."""
    run = clients.virtualize(path, *options)
    assert run.status == 0, run.stderr
    inspected = clients.virtualize("inspect", path, *options, "--json")
    notes = [note for note in json.loads(inspected.stdout)["diagnostics"] if note["code"] == "sidecar-not-used"]
    return json.loads(run.stdout), [note["message"] for note in notes]


def check(path, fmt="kerchunk-json"):
    """Compares the references of file, sidecar and option. Returns why no sidecar was used."""
    direct, _ = references(path, "--format", fmt)
    sidecar, unused = references(f"{path}.dmrpp", "--format", fmt)
    assert sidecar == direct, unused
    assert references(path, "--format", fmt, "--option", "dmrpp=true") == (direct, unused)
    return unused


def attributes(item, rng):
    for n in range(rng.choice([0, 0, 1, 3])):
        kind = rng.choice([*TYPES, str, str])
        if kind is str:
            item.attrs[f"a{n}"] = rng.choice(TEXTS[: rng.choice([5, len(TEXTS)])])
        else:
            values = np.array([rng.choice([0, 1, 100, 0.1, 1e30, 3]) for _ in range(rng.choice([1, 1, 2]))])
            values = values if "f" in kind else np.clip(values, 0, 100)
            item.attrs[f"a{n}"] = values.astype(kind) if len(values) > 1 else values.astype(kind)[0]


def random_file(path, rng):
    """A file with scales, groups, and variables of all kinds that build_dmrpp accepts, mostly ordinary ones."""
    odd = rng.choice([0.0, 0.0, 0.02, 0.2])
    anonymous = rng.choice([0, 0, 0.3, 1])
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"]), track_order=rng.random() < 0.3) as file:
        attributes(file, rng)
        groups, scales = [file], []
        for n in range(rng.randrange(0, 3)):
            groups.append(rng.choice(groups).create_group(f"g{n}", track_order=rng.random() < 0.3))
            attributes(groups[-1], rng)
        for n in range(rng.randrange(1, 4) if anonymous < 1 else 0):
            size = rng.randrange(1, 9)
            extendable = {"maxshape": (None,), "chunks": (rng.randrange(1, 9),)} if rng.random() < 0.2 else {}
            scale = file.create_dataset(f"x{n}", data=np.arange(size, dtype=rng.choice(TYPES)), **extendable)
            scale.make_scale(f"x{n}" if rng.random() < 0.7 else "This is a netCDF dimension but not a netCDF variable.         9")
            attributes(scale, rng)
            scales.append(scale)
        names = [f"v{n}" for n in range(rng.randrange(1, 6))]
        for name in rng.sample(names, len(names)) if rng.random() < 0.3 else names:
            variable(rng.choice(groups), name, [] if rng.random() < anonymous else scales, rng, odd)


def variable(group, name, scales, rng, odd):
    axes = [rng.choice(scales) if scales else None for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    shape = tuple(rng.randrange(1, 9) if axis is None else len(axis) for axis in axes)
    kind = np.dtype(rng.choice([*TYPES, *TYPES, "S1", "S5"]) if shape else rng.choice(TYPES))
    options = {}
    if shape and rng.random() < 0.6:
        options["chunks"] = tuple(rng.randrange(1, size + 1) for size in shape)
        if scales and rng.random() < odd:  # shorter than the dimensions by whole chunks
            shape = tuple(rng.choice([size, *range(chunk, size, chunk)]) for size, chunk in zip(shape, options["chunks"]))
        if rng.random() < 0.6:
            options |= {"compression": "gzip", "compression_opts": rng.randrange(1, 10)}
        options["shuffle"] = rng.random() < 0.5
        options["fletcher32"] = rng.random() < 0.3
    if rng.random() < 0.6:
        options["fillvalue"] = rng.choice([0, 5, 7]) if kind.kind in "iu" else rng.choice([b"", b"x"]) if kind.kind == "S" else rng.choice([0, -9999.0, np.nan, -1e30])
    if "chunks" in options and rng.random() < odd:
        options["fill_time"] = "never"
    dataset = group.create_dataset(name, shape, kind, **options)
    values = np.array([rng.randrange(0, 100) for _ in range(int(np.prod(shape)))]).reshape(shape)
    values = values.astype("S2").astype(kind) if kind.kind == "S" else values.astype(kind)
    if rng.random() < odd and "chunks" in options:
        dataset[: shape[0] // 2] = values[: shape[0] // 2]
    elif rng.random() >= odd:
        dataset[...] = values
    if rng.random() < odd and "compression" in options:
        raw = np.zeros(dataset.chunks, kind).tobytes()
        dataset.id.write_direct_chunk((0,) * len(shape), raw, filter_mask=0xFF)
    for n, axis in enumerate(axes if scales and rng.random() >= odd else []):
        dataset.dims[n].attach_scale(axis)
    attributes(dataset, rng)
    if kind.kind == "f" and "fillvalue" in options and rng.random() < 0.7:
        dataset.attrs["_FillValue"] = kind.type(options["fillvalue"])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_files(tmp_path, seed):
    rng, used, made = random.Random(seed), 0, 0
    for n in range(12):
        path = tmp_path / f"{n}.h5"
        random_file(path, rng)
        namespaces = dmrpp.NAMESPACES.replace("http:", rng.choice(["http:", "https:"]))
        try:
            dmrpp.write(path, version=rng.choice(["3.20.10", "3.21.0-46"]), namespaces=namespaces, unlimited=rng.random() < 0.5)
        except dmrpp.Unsupported:
            continue
        made += 1
        used += not check(path, rng.choice(list(clients.FORMATS)))
    assert made > 4 and used > 0


def granule(path):
    """An ordinary granule: packed and compressed variables, coordinates, a group."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", 3), ("lat", 10), ("lon", 20), ("bounds", 2)):
            file.createDimension(name, size)
        file.createVariable("time", "f8", ("time",))[:] = range(3)
        file.createVariable("lat", "f4", ("lat",))[:] = range(10)
        sst = file.createVariable("sst", "i2", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 5, 20), fill_value=-32768)
        sst.setncatts({"scale_factor": np.float32(0.01), "add_offset": 273.15, "units": "K"})
        sst[:] = np.random.default_rng(0).uniform(270, 300, (3, 10, 20))
        wind = file.createVariable("wind", "f4", ("time", "lat", "lon"), zlib=True, fletcher32=True, fill_value=-1e30)
        wind[:] = 1.5
        file.createVariable("crs", "i4", ())[...] = 7
        file.createVariable("label", "S1", ("lat", "bounds"))[:] = "a"
        group = file.createGroup("deep")
        group.createVariable("flag", "u1", ("time", "lon"))[:] = 3
    return path


@pytest.fixture
def files(tmp_path):
    path = granule(tmp_path / "granule.nc")
    return path, dmrpp.write(path)


def test_a_granule_is_read_from_its_sidecar(files, fmt):
    assert check(files[0], fmt) == []


def test_values_are_those_of_the_file(files, fmt):
    import xarray as xr

    found = clients.open_dataset(references(files[1], "--format", fmt)[0], clients.FORMATS[fmt])
    with xr.open_dataset(files[0], engine="h5netcdf", decode_cf=False) as original:
        for name in original.variables:
            np.testing.assert_array_equal(found[name].values, original[name].values)


def unused(files, *options):
    """Why no sidecar was used; the references are those of the file."""
    found, why = references(files[1], *options)
    assert found == references(files[0])[0]
    assert len(why) == 1
    return why[0]


def edit(sidecar, old, new):
    text = sidecar.read_text("latin-1")
    assert old in text
    sidecar.write_text(text.replace(old, new, 1), "latin-1")


@pytest.mark.parametrize("old, new, why", [
    ("</Dataset>", "", "the document ends, expected a closing tag"),
    ('nBytes="4"', 'nBytes="9999999"', "beyond the"),
    (' dmrpp:version="3.21.0-46"', "", "such sidecars may lack variables"),
    ('fillValue="-32768"', "", "no fillValue"),
    ('name="granule.nc"', 'name="other.nc"', 'made for a file named "other.nc"'),
    ("H5.EnableCF=false", "H5.EnableCF=true", "H5.EnableCF"),
    ("<dmrpp:chunks ", "<!-- \n --><dmrpp:missingdata/><dmrpp:chunks ", "element dmrpp:missingdata"),
    ('<Dim name="/lat"/>', '<Dim size="10"/>', "the group has a dimension of the same size"),
])
def test_the_file_is_read_if_the_sidecar_does_not_suffice(files, old, new, why):
    edit(files[1], old, new)
    assert why in unused(files)


def test_an_older_sidecar_is_not_used(files):
    os.utime(files[1], (1, 1))
    assert "is older than the file" in unused(files)


def test_a_missing_sidecar_is_not_an_error(files):
    files[1].unlink()
    found, why = references(files[0], "--option", "dmrpp=true")
    assert found == references(files[0])[0] and "not found" in why[0]


def test_the_data_file_must_be_next_to_its_sidecar(files):
    data = files[0].read_bytes()
    files[0].unlink()
    run = clients.virtualize(files[1])
    assert run.status == 1 and "granule.nc: not found" in run.stderr
    files[0].write_bytes(b"\x0e\x03\x13\x01" + data)
    run = clients.virtualize(files[1])
    assert run.status == 1 and "looks like HDF4" in run.stderr
    renamed = files[1].rename(files[1].with_suffix(".xml"))
    run = clients.virtualize(renamed)
    assert run.status == 1 and "must have the name of its data file" in run.stderr


def test_files_with_a_user_block_are_read(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = np.arange(5)
        file["x"].make_scale("x")
    dmrpp.write(path)
    assert "user block" in check(path)[0]


def test_unallocated_data(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(6)
        file["x"].make_scale("x")
        for name, fill in (("zero", 0), ("nine", 9)):
            file.create_dataset(name, (6,), "u1", chunks=(2,), fillvalue=fill)[:2] = 1
            file[name].dims[0].attach_scale(file["x"])
    dmrpp.write(path)
    assert "may never have been written" in check(path)[0]
    with h5py.File(path, "a") as file:
        del file["nine"]
    dmrpp.write(path)
    assert "may be shorter than its dimensions" in check(path)[0]
    with h5py.File(path, "a") as file:
        file["zero"][5] = 1  # a chunk at the end
    dmrpp.write(path)
    assert check(path) == []


def series(folder):
    """Three granules with their sidecars."""
    paths = [granule(folder / f"{n}.nc") for n in range(3)]
    for n, path in enumerate(paths):
        with netCDF4.Dataset(path, "a") as file:
            file["time"][:] = np.arange(3) + 3 * n
        dmrpp.write(path)
    return paths


def test_sidecars_in_a_store(tmp_path):
    names = [name for path in series(tmp_path) for name in (path, path.with_name(path.name + ".dmrpp"))]
    with SlowS3({name.name: name.read_bytes() for name in names}) as store:
        direct = clients.virtualize("s3://bucket/0.nc", env=store.env)
        for arguments in (["s3://bucket/0.nc.dmrpp"], ["s3://bucket/0.nc", "--option", "dmrpp=true"]):
            run = clients.virtualize(*arguments, env=store.env)
            assert run.status == 0 and run.references == direct.references, run.stderr
        assert store.requested["0.nc.dmrpp"] == 2


def test_sidecars_in_batches(tmp_path):
    paths, outputs = series(tmp_path), []
    for n, inputs in enumerate((paths, [f"{path}.dmrpp" for path in paths], [*paths, "--option", "dmrpp=true"])):
        output = tmp_path / f"out{n}.json"
        run = clients.virtualize("batch", *inputs, "--concat-dim", "time", "-o", output)
        assert run.status == 0, run.stderr
        outputs.append(json.loads(output.read_text()))
    assert outputs[0] == outputs[1] == outputs[2]


def test_sidecars_in_the_service(tmp_path):
    (path, *_) = series(tmp_path)
    with service.started(tmp_path) as address:
        def get(**parameters):
            query = urllib.parse.urlencode(parameters)
            with urllib.request.urlopen(f"{address}/v1/references?{query}") as answer:
                return json.load(answer)

        direct = get(url=f"file://{path}")
        assert get(url=f"file://{path}.dmrpp") == direct
        assert get(url=f"file://{path}", dmrpp="true") == direct
