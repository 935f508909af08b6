"""Random archives of the kinds that people have. Files that cannot be joined are refused with options that join them. The test applies these as a
person would, until the run succeeds. Each element of the output must then be that of the file it came from, as xarray reads it. More archives:
RANDOM_CURES=2000."""
import json, random, re, shlex, warnings

import netCDF4
import numpy as np
import pytest
import xarray as xr
from clients import seeds, unpacked, virtualize

ARCHIVES_PER_SEED = 10


def constant(name, value, dtype="i4", dims=(), **attributes):
    """Returns a function that adds a variable that has no dimension of the archive."""
    def add(file, k, n):
        values = np.asarray(value(k))
        own = []
        for size in values.shape:
            dim = dims[len(own)] if dims else f"{name}_{len(own)}"
            if dim not in file.dimensions:
                file.createDimension(dim, size)
            own.append(dim)
        file.createVariable(name, dtype, own)[...] = values
        file[name].setncatts(attributes)
    return add


def growing(name, dtype, *, of=lambda k: {}, zlib=lambda k: True, when=lambda k: True, fill=None, **attributes):
    """Returns a function that adds a variable along the dimension to some of the files, with the attributes `of` a file."""
    def add(file, k, n):
        if not when(k):
            return
        v = file.createVariable(name, dtype, ("time", "x"), zlib=zlib(k), fill_value=fill, chunksizes=(n, 4))
        v.set_auto_maskandscale(False)
        v.setncatts({**attributes, **of(k)})
        v[:] = np.random.default_rng(k).integers(1, 99, (n, 4)).astype(dtype)
    return add


def pitfalls(rng, count):
    """Returns what may be wrong with an archive of this many files: changes of files, by name."""
    some = rng.randrange(1, count)
    return {
        "scalar that differs (ARM, GOES)": constant("ntimes", lambda k: k),
        "list that differs (OCO-2)": constant("source_files", lambda k: np.arange(2 + k)),
        "positions that differ (swaths)": constant("lon2", lambda k: np.arange(6.0).reshape(2, 3) + k * 1e-6, "f8", ("yy", "xx")),
        "axis that differs (rounding)": constant("level", lambda k: np.arange(3.0) + k * 1e-7, "f8", ("level",)),
        "type that differs": lambda file, k, n: constant("quality", lambda k: 1, "i4" if k < some else "i2")(file, k, n),
        "later variable, floats": growing("later", "f4", when=lambda k: k >= some),
        "later variable, integers": growing("flags", "i2", when=lambda k: k >= some),
        "earlier variable, bytes": growing("ice", "u1", when=lambda k: k < some),
        "optional variable, packed": growing("sst", "i2", when=lambda k: k != some, fill=-999, scale_factor=0.5),
        "packing that changes": growing("packed", "i2", of=lambda k: {"scale_factor": 0.5 if k < some else 0.25}),
        "compression that changes": growing("compressed", "f4", zlib=lambda k: k < some),
        "units that change": growing("wind", "f4", of=lambda k: {"units": "m/s" if k < some else "knots"}),
        "constant in some files": lambda file, k, n: k >= some and constant("crs", lambda k: 0)(file, k, n),
        "attributes that differ": lambda file, k, n: file.setncatts({"history": f"made {k}", "orbit": k}),
        "group": lambda file, k, n: constant("orbit", lambda k: k)(file.createGroup("meta"), k, n),
    }


TIMES = {
    "times": lambda k, n: ([float(10 * k + i) for i in range(n)], "hours since 2000-01-01"),
    "times from each file's first": lambda k, n: ([float(i) for i in range(n)], f"hours since 2000-01-{k + 1:02} 00:00"),
    "an index that begins anew": lambda k, n: ([float(i) for i in range(n)], None),
    "times that overlap": lambda k, n: ([1.5 * k + i for i in range(n)], "hours since 2000-01-01"),
    "times that go back": lambda k, n: ([10.0 * k + i % 2 for i in range(n)], "hours since 2000-01-01"),
}
NAMES = ["granule_{:03}.nc", "P_2020{:02}01T120000_v1.nc", "orbit{}.nc", "ta_20200{}15.nc"]


def archive(rng, folder):
    """Writes the files of an archive. Returns them, and what is wrong with them."""
    folder.mkdir()
    count, n = rng.randint(2, 5), rng.randint(2, 4)
    possible = pitfalls(rng, count)
    chosen = rng.sample(sorted(possible), rng.randint(0, 3))
    times, name = rng.choice(sorted(TIMES)), rng.choice(NAMES)
    files = [folder / name.format(k + 1) for k in range(count)]
    for k, path in enumerate(files):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 4)
            values, units = TIMES[times](k, n)
            file.createVariable("time", "f8", ("time",))[:] = values
            if units:
                file["time"].units = units
            file.createVariable("ident", "i4", ("time",), chunksizes=(n,))[:] = 1000 * k + np.arange(n)
            growing("t2m", "f4", fill=-9.0)(file, k, n)
            for one in chosen:
                possible[one](file, k, n)
    return files, n, [times, *chosen]


def remedy(messages):
    """Returns the words of the first option that an error names."""
    found = re.search(r" \(use (--.*?) to [a-z]", messages)
    return shlex.split(found[1]) if found else None


def check(output, originals, group, n):
    """Compares each element with that of the file it came from. Returns the idents."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = unpacked(xr.open_dataset(str(output), engine="kerchunk", group=group).load())
    idents = got.ident.values
    of_files = sorted({int(ident) // 1000 for ident in idents})
    for name, variable in got.variables.items():
        if "time" in variable.dims:
            for at, ident in enumerate(idents):
                source = originals[int(ident) // 1000]
                value = variable.isel(time=at).values
                if name not in source.variables:
                    assert np.isnan(value).all(), (name, ident)
                    continue
                want = source.variables[name]
                want = want.isel(time=int(ident) % 1000) if "time" in want.dims else want
                np.testing.assert_array_equal(value, want.values, err_msg=f"{name} at {ident}")
        else:
            having = [originals[k].variables[name] for k in of_files if name in originals[k].variables]
            assert any(np.array_equal(variable.values, want.values) for want in having), name
    for k in of_files:
        missing = set(originals[k].variables) - set(got.variables)
        assert not missing, f"{missing} of file {k} in {group!r}"
    return list(map(int, idents))


@pytest.mark.parametrize("seed", seeds("RANDOM_CURES", 4))
def test_each_refusal_names_options_that_join_the_files(tmp_path, seed):
    for case in range(ARCHIVES_PER_SEED):
        rng = random.Random(f"{seed} {case}")
        files, n, what = archive(rng, tmp_path / str(case))
        output = tmp_path / f"{case}.json"
        given, messages = ["--concat-dim", "time"], ""
        stop = ["--on-mismatch", "stop"]
        for _ in range(4):
            run = virtualize("batch", *files, *given, *([] if "--on-mismatch" in given else stop), "-o", output, "--overwrite")
            if run.status == 0:
                break
            messages = run.stderr
            words = remedy(messages)
            assert words, (what, given, messages)
            assert words[0] != "--on-duplicate" and "skip" not in words, messages
            given += words
        else:
            raise AssertionError((what, given, messages))
        dropped = [rule.partition("=")[0] for rule in given if rule.endswith("=drop")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            originals = [xr.open_dataset(path, drop_variables=dropped).load() for path in files]
        groups = [f"set_{k}" for k in range(len(files))] if "split" in given else [""]
        idents = []
        for group in groups:
            if group and f"{group}/.zgroup" not in json.loads(output.read_text())["refs"]:
                continue
            idents += check(output, originals, group, n)
        assert sorted(idents) == sorted(1000 * k + i for k in range(len(files)) for i in range(n)), (what, given)
        # Nothing is omitted without a statement.
        assert all(f"without {name}" in messages for name in dropped), (what, messages)


def test_fill_values_of_optional_integers_are_called_lossy(tmp_path):
    """255 is an ordinary value of bytes without a fill value."""
    files = [tmp_path / f"t{k}_m{m}.nc" for k in range(2) for m in range(2)]
    for at, path in enumerate(files):
        ds = xr.Dataset({"a": (("time", "x"), np.ones((2, 3), "f4"))}, {"time": ("time", np.arange(2) + at // 2 * 2)})
        if at < 3:
            ds["b"] = ("time", "x"), np.array([[253, 254, 255]] * 2, "u1")
        ds.to_netcdf(path, engine="h5netcdf")
    run = virtualize("batch", *files, "--stack-dim", "member", "--concat-dim", "time", "--coord", "member=name:t*_m{member:d}.nc", "-o", tmp_path / "out.json")
    assert run.status == 1 and "b=optional:255 to join all 4 files, reading 255 as missing in b" in run.stderr


def test_scalar_times_of_several_units_may_vary(tmp_path):
    """Their values are converted to one unit along the dimension, without a loss."""
    files = [tmp_path / f"{k}.nc" for k in range(3)]
    for k, path in enumerate(files):
        reference = xr.Variable((), 6.0, {"units": f"hours since 2000-01-{k + 1:02}"})
        xr.Dataset({"a": ("time", np.arange(2.0)), "reftime": reference}, {"time": [2 * k, 2 * k + 1]}).to_netcdf(path, engine="h5netcdf")
    refused = virtualize("batch", *files, "--concat-dim", "time", "--on-mismatch", "stop", "-o", tmp_path / "all.json")
    assert refused.status == 1 and "use --var reftime=vary to join all 3 files" in refused.stderr, refused.stderr
    joined = virtualize("batch", *files, "--concat-dim", "time", "--var", "reftime=vary", "-o", tmp_path / "all.json")
    assert joined.status == 0, joined.stderr
    got = xr.open_dataset(str(tmp_path / "all.json"), engine="kerchunk")
    want = np.repeat(np.array([f"2000-01-{k + 1:02}T06" for k in range(3)], "M8[ns]"), 2)
    np.testing.assert_array_equal(got.reftime.values.astype("M8[ns]"), want)
