"""Reads every array of reference files with zarr-python: `python zarr_python.py [--imagecodecs] REFERENCES.json…` prints one line of JSON an array,
with its elements in C order as base64 of little-endian bytes (or as texts), or the reason why it cannot."""
import base64, json, pathlib, sys, warnings

import numcodecs.registry, numpy as np, zarr

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import clients


def read(store, path, zarr_format):
    values = np.asarray(zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format)[...])
    if values.dtype.kind in "OTU":
        return {"texts": [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.ravel().tolist()]}
    if not values.dtype.names:
        values = values.astype(values.dtype.newbyteorder("<"))
    return {"values": base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()}


def main(arguments):
    warnings.simplefilter("ignore")
    zarr.config.set({"array.rectilinear_chunks": True})
    if arguments[0] == "--imagecodecs":
        arguments = arguments[1:]
        clients.register_codecs()
    else:
        clients.register_codecs = lambda: None
        # As if the package imagecodecs-numcodecs, which makes itself known to numcodecs, were not there.
        numcodecs.registry.entries = {k: v for k, v in numcodecs.registry.entries.items() if not k.startswith("imagecodecs")}
    for file in arguments:
        references = json.loads(pathlib.Path(file).read_text())
        store, zarr_format = clients.open_store(references), 2 if ".zgroup" in references["refs"] else 3
        for path, kind in clients.nodes(references, zarr_format).items():
            if kind == "array":
                try:
                    line = read(store, path, zarr_format)
                except Exception as error:
                    line = {"error": repr(error)}
                print(json.dumps({"references": file, "array": path, **line}))


if __name__ == "__main__":
    main(sys.argv[1:])
