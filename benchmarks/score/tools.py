"""The tools that are scored. Each is a generator of the arrays that it offers in a file.

It yields a path and either a zarr.Array or the exception that refused the array, and raises if it refuses the file. `wanted` lists the
paths that are judged, or is None if the oracle cannot open the file: tools that refuse a whole file for one array are called for one array after the other.
"""
import asyncio, gc, io, json, os, pathlib, posixpath, subprocess, tempfile, warnings


class Crash(Exception):
    """The tool died, or took too long."""


class Unopenable(Exception):
    """zarr-python cannot open an array that the tool offers."""


COMMAND, FORMAT, SECONDS = os.environ.get("VIRTUALIZE_BIN", "virtualize"), os.environ.get("VIRTUALIZE_FORMAT", "kerchunk-json"), 50


def virtualize(file, wanted):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "references.json")
        try:
            run = subprocess.run([COMMAND, file, "--format", FORMAT, "-o", out], capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Crash(f"timeout: no end after {SECONDS} s") from None
        # 101 is a panic of Rust; 134 and 139 are signals, as shells report them.
        if run.returncode < 0 or run.returncode in (101, 134, 139):
            raise Crash(f"status {run.returncode}: {run.stderr.strip()[-200:]}")
        if run.returncode:
            raise RuntimeError(run.stderr.strip()[-250:])
        references = json.loads(out.read_text())
    prefix = "/" if file.endswith(".h5") else ""
    for path, array in reference_arrays(references, 3 if FORMAT == "zarr3-json" else 2):
        yield prefix + path, array


def kerchunk(file, wanted):
    from kerchunk.hdf import SingleHdf5ToZarr
    refused = {}

    class Reader(SingleHdf5ToZarr):
        """Remembers the datasets that kerchunk leaves out with a warning."""

        def _translator(self, name, node):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                super()._translator(name, node)
            refused.update((f"/{name}", RuntimeError(" ".join(str(warning.message).split())[-200:])) for warning in caught if "quashed" in str(warning.message))

    reader = Reader(f"file://{file}", inline_threshold=0, vlen_encode="embed")
    # It calls zarr-python within a callback of h5py, whose lock a garbage collection there would wait for.
    gc.disable()
    try:
        references = reader.translate()
    finally:
        reader.close()
        gc.enable()
    yield from ((f"/{path}", array) for path, array in reference_arrays(references, 2))
    yield from refused.items()


def virtualizarr(file, wanted):
    from virtualizarr.parsers import HDFParser
    url, registry = local_store(file)
    try:
        whole = HDFParser()(url=url, registry=registry)
    except Exception:
        if wanted is None:
            raise
    else:
        yield from ((f"/{path}", array) for path, array in manifest_arrays(whole))
        return
    import h5py
    for path in wanted:
        group, name = posixpath.split(path)
        try:
            with h5py.File(file) as opened:
                others = [other for other in opened[group] if other != name]
            parser = HDFParser(group=group.strip("/") or None, drop_variables=others)
            found = dict(manifest_arrays(parser(url=url, registry=registry)))
        except Exception as error:
            yield path, error
            continue
        if name in found:
            yield path, found[name]


def async_hdf5(file, wanted):
    import zarr
    from async_hdf5 import HDF5File
    from async_hdf5.store import LocalStore
    from async_hdf5.zarr import open_hdf5
    folder, base = os.path.split(file)
    store = LocalStore(prefix=folder)

    async def groups():
        """Lists groups with the names of their datasets, breadth first; cycles end by depth and number."""
        opened = await HDF5File.open(base, store=store)
        found, queue = {}, [("", await opened.root_group())]
        for path, group in queue:
            try:
                found[path] = await group.dataset_names()
            except Exception:
                if not path:
                    raise
            try:
                names = await group.group_names() if path.count("/") <= 16 else []
            except Exception:
                names = []
            for name in names:
                if len(queue) < 3000:
                    try:
                        queue.append((f"{path}/{name}", await group.group(name)))
                    except Exception:
                        pass
        return found

    def open_group(path, without=()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return asyncio.run(open_hdf5(path=base, store=store, group=path.strip("/") or None, drop_variables=without))

    for path, names in asyncio.run(groups()).items():
        names_wanted = [name for name in names if wanted is None or f"{path}/{name}" in wanted]
        if not names_wanted:
            continue
        try:
            opened = dict.fromkeys(names_wanted, open_group(path))
        except Exception:
            opened = {}
            for name in names_wanted:
                try:
                    opened[name] = open_group(path, [other for other in names if other != name])
                except Exception as error:
                    yield f"{path}/{name}", error
        for name, group in opened.items():
            if name not in group._dataset_infos:
                yield f"{path}/{name}", RuntimeError("skipped")
                continue
            yield f"{path}/{name}", opened_or_error(lambda: zarr.open_array(group, path=name, mode="r", zarr_format=3))


def virtual_tiff(file, wanted):
    from virtual_tiff import VirtualTIFF
    url, registry = local_store(file)
    try:
        whole = VirtualTIFF(ifd=None, ifd_layout="flat")(url=url, registry=registry)
    except Exception:
        if wanted is None:
            raise
    else:
        yield from manifest_arrays(whole)
        return
    for path in wanted:
        if "." not in path:
            try:
                store = VirtualTIFF(ifd=int(path), ifd_layout="flat")(url=url, registry=registry)
            except Exception as error:
                yield path, error
            else:
                yield from manifest_arrays(store)


def tifffile(file, wanted):
    import tifffile
    from oracle import pages
    with tifffile.TiffFile(file) as opened:
        opened.pages.useframes = False
        for index, page in enumerate(pages(opened)):
            try:
                subs = list(page.pages or ())
            except Exception:
                subs = []
            for path, image in [(str(index), page), *((f"{index}.{number}", sub) for number, sub in enumerate(subs))]:
                try:
                    text = io.StringIO()
                    image.aszarr().write_fsspec(text, url=f"file://{os.path.dirname(file)}", zarr_format=2)
                    references = json.loads(text.getvalue())
                except Exception as error:
                    yield path, error
                else:
                    yield from ((path, array) for _, array in reference_arrays(references, 2))


TOOLS = {
    "virtualize": (virtualize, ["hdf5", "tiff"]), "kerchunk": (kerchunk, ["hdf5"]), "virtualizarr": (virtualizarr, ["hdf5"]),
    "async_hdf5": (async_hdf5, ["hdf5"]), "virtual_tiff": (virtual_tiff, ["tiff"]), "tifffile": (tifffile, ["tiff"]),
}


def register_codecs(tool):
    """Registers the codecs of imagecodecs. For Zarr v3 virtual-tiff has its own under some of the same names, so others set them by name."""
    import imagecodecs.numcodecs
    imagecodecs.numcodecs.register_codecs(verbose=False)
    if tool == "virtualize":
        import imagecodecs.zarr, zarr
        imagecodecs.zarr.register_codecs(verbose=False)
        names = [name for name in imagecodecs.zarr.__all__ if name[0].isupper()]
        zarr.config.set({f"codecs.imagecodecs_{name.lower()}": f"imagecodecs.zarr.{name}" for name in names})


def opened_or_error(open):
    try:
        return open()
    except Exception as error:
        return Unopenable(f"{type(error).__name__}: {error}")


def reference_arrays(references, zarr_format):
    """Opens each array of a reference set with fsspec and zarr-python."""
    import fsspec, zarr
    from zarr.storage import FsspecStore
    references = references.get("refs", references)
    filesystem = fsspec.filesystem("reference", fo=references, remote_protocol="file", asynchronous=True, remote_options={"asynchronous": True}, skip_instance_cache=True)
    store = FsspecStore(filesystem, read_only=True, path="")
    for key, value in references.items():
        path, _, name = key.rpartition("/")
        if name == (".zarray" if zarr_format == 2 else "zarr.json"):
            if zarr_format == 3 and (json.loads(value) if isinstance(value, str) else value)["node_type"] != "array":
                continue
            yield path, opened_or_error(lambda: zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format))


def local_store(file):
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    return f"file://{file}", ObjectStoreRegistry({"file://": LocalStore()})


def manifest_arrays(store):
    """Opens each array of a ManifestStore of VirtualiZarr."""
    import zarr

    def paths(group, prefix=""):
        yield from (prefix + name for name in group.arrays)
        for name, below in group.groups.items():
            yield from paths(below, f"{prefix}{name}/")

    for path in paths(store._group):
        yield path, opened_or_error(lambda: zarr.open_array(store, path=path, mode="r", zarr_format=3))
