"""The table of reserved attributes in docs/semantics-hdf5.md: each attribute is what the table says, and hidden attributes are those of h5netcdf."""
import json

import clients
import h5py
import numpy as np

VALUES = {"DIMENSION_LABELS": ["a", "b"], "_FillValue": np.array([7], "i4"), "missing_value": np.array([7], "i4"), "valid_range": np.array([0, 9], "i4"),
          "scale_factor": 0.5, "add_offset": 2.0, "flag_values": np.array([1, 2], "i4"), "_Netcdf4Dimid": np.int32(0)}


def table(heading):
    text = (clients.ROOT / "docs/semantics-hdf5.md").read_text().split(f"\n### {heading}\n")[1].split("\n#")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_reserved_attributes(tmp_path, fmt):
    import h5netcdf.attrs
    rows = {name.strip("`"): row[1] for row in table("Reserved attributes") for name in row[0].split(", ")}
    assert {name for name, text in rows.items() if text.startswith("hidden")} == set(h5netcdf.attrs._HIDDEN_ATTRS)
    problems = []
    for name, text in rows.items():
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=np.arange(10, dtype="i4")).attrs[name] = VALUES.get(name, "text")
        run = clients.virtualize(path, "--format", fmt)
        assert run.status == 0, (name, run.stderr)
        references = run.references.get("refs", run.references)
        node = references["v/.zattrs" if fmt == "kerchunk-json" else "v/zarr.json"]
        attributes = json.loads(node) if isinstance(node, str) else node
        attributes = attributes.get("attributes", attributes)
        is_shown, is_reported = name in attributes and name != "_ARRAY_DIMENSIONS", f'"{name}"' in run.stderr or name in run.stderr
        if text.startswith(("hidden", "omitted")) == is_shown or text.startswith("omitted") != is_reported:
            problems.append(f"{name}: {text}, but {attributes} {run.stderr}")
    clients.report(problems)
