"""A parser for VirtualiZarr.

Examples
--------
>>> import virtualizarr
>>> from obspec_utils.registry import ObjectStoreRegistry
>>> from obstore.store import LocalStore
>>> from virtualize.virtualizarr import Parser
>>> registry = ObjectStoreRegistry({"file://": LocalStore()})
>>> virtualizarr.open_virtual_dataset("file:///data/scene.tif", registry, Parser())  # doctest: +SKIP
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack, cast

import numpy as np
from obspec_utils.registry import ObjectStoreRegistry
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH, MISSING_CHUNK_PATH
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
from zarr.codecs import BytesCodec
from zarr.core.metadata.v3 import ArrayV3Metadata

from virtualize import _virtualize
from virtualize._errors import Diagnostic, OptionError, RefusedError, VirtualizeWarning, warn, warn_of
from virtualize._foreign import ForeignFiles
from virtualize._manifest import Manifest, manifest_of
from virtualize._options import OpenOptions, to_json

__all__ = ["Parser"]


class Parser:
    """Parses HDF5, NetCDF, TIFF, GeoTIFF and COG files for VirtualiZarr.

    All files are read through the stores of the caller's registry. An array that VirtualiZarr or the installed codecs
    cannot represent is omitted with a ``virtualize.VirtualizeWarning``; with ``strict=True`` it is an error.

    Parameters
    ----------
    group
        Path of the group to open, with its subgroups. The root group by default.
    drop_variables
        Names of members of the group to omit.
    **options
        Options of ``virtualize.open``, such as ``inline`` and ``readable_by``.
    """

    def __init__(
        self,
        group: str | None = None,
        drop_variables: Iterable[str] | None = None,
        **options: Unpack[OpenOptions],
    ) -> None:
        if options.get("chunk_grid", "regular") != "regular":
            raise OptionError('chunk_grid must be "regular": VirtualiZarr has no other chunk grids')
        self._group = (group or "").strip("/")
        self._drop_variables = frozenset(drop_variables or ())
        self._options = to_json(options)
        self._strict = options.get("strict", False)

    def __call__(self, url: str, registry: ObjectStoreRegistry[Any]) -> ManifestStore:
        """Return the references of a file as a ManifestStore.

        Parameters
        ----------
        url
            Full url of the file.
        registry
            Maps the urls of this file, and of files that it refers to, to stores.
        """
        file = _virtualize.open(url, self._options, False, ForeignFiles(registry), True)
        warn_of(file)
        documents = {key[: -len("/zarr.json")]: json.loads(text) for key, text in file.documents().items()}
        if documents.get(self._group, {}).get("node_type") != "group":
            raise OptionError(f"{file.name}: no group {self._group!r}")
        members = _Members(file, documents, strict=self._strict)
        return ManifestStore(members.group(self._group, self._drop_variables), registry=registry)


class _Members:
    """The groups and arrays of a file as objects of VirtualiZarr."""

    def __init__(self, file: _virtualize.File, documents: Mapping[str, dict[str, Any]], strict: bool) -> None:
        self._file = file
        self._documents = documents
        self._strict = strict
        self._children: dict[str, list[str]] = {}
        for path in documents:
            if path:
                self._children.setdefault(path.rpartition("/")[0], []).append(path)

    def group(self, path: str, dropped: Iterable[str] = ()) -> ManifestGroup:
        arrays: dict[str, ManifestArray] = {}
        groups: dict[str, ManifestGroup] = {}
        for child in self._children.get(path, []):
            name = child.rpartition("/")[2]
            if name in dropped:
                continue
            if self._documents[child]["node_type"] == "group":
                groups[name] = self.group(child)
            elif (array := self._array(child)) is not None:
                arrays[name] = array
        return ManifestGroup(arrays, groups, self._documents[path].get("attributes", {}))

    def _array(self, path: str) -> ManifestArray | None:
        try:
            metadata = ArrayV3Metadata.from_dict(self._documents[path])
            metadata, manifest = _trimmed(metadata, manifest_of(self._file, path))
            array = ManifestArray(metadata, _chunk_manifest(manifest))
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            self._leave_out(path, error)
            return None
        if names := [name for codec in metadata.codecs if (name := _name_of_only_v3(codec))]:
            message = f"VirtualiZarr writes {', '.join(names)} wrongly to kerchunk references of Zarr format 2"
            remedy = "write with to_icechunk or to_kerchunk(zarr_format=3)"
            diagnostic = Diagnostic("virtualizarr-kerchunk", "warning", f"/{path}", message, remedy)
            warn(VirtualizeWarning(self._file.name, diagnostic))
        return array

    def _leave_out(self, path: str, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"array omitted: VirtualiZarr cannot represent it: {reason}"
        diagnostic = Diagnostic("virtualizarr-unsupported", "warning", f"/{path}", message)
        if self._strict:
            refused = RefusedError(f"{self._file.name}: {diagnostic}")
            refused.diagnostics = [diagnostic]
            raise refused
        warn(VirtualizeWarning(self._file.name, diagnostic))


def _name_of_only_v3(codec: Any) -> str | None:
    """Return the name of a codec that VirtualiZarr drops, or whose parameters it drops, for Zarr format 2."""
    name = str(codec.to_dict()["name"])
    is_of_arrays = isinstance(codec, ArrayArrayCodec | ArrayBytesCodec)
    return name if is_of_arrays and name.startswith("imagecodecs_") else None


def _trimmed(metadata: ArrayV3Metadata, manifest: Manifest) -> tuple[ArrayV3Metadata, Manifest]:
    """Shorten unfiltered chunks that are longer than the first axis, as VirtualiZarr's parser does.

    HDF5 allocates such chunks along unlimited dimensions. VirtualiZarr concatenates only chunks that end with the array.
    """
    shape = metadata.shape
    if not shape or len(metadata.codecs) != 1 or not isinstance(metadata.codecs[0], BytesCodec):
        return metadata, manifest
    chunk = metadata.chunks
    stored = math.prod(chunk) * metadata.data_type.to_native_dtype().itemsize
    if not 0 < shape[0] < chunk[0] or not np.isin(manifest.length, [0, stored]).all():
        return metadata, manifest
    kept = stored // chunk[0] * shape[0]
    document = metadata.to_dict()
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [shape[0], *chunk[1:]]}}
    length = np.minimum(manifest.length, np.uint64(kept))
    inline = {at: data[:kept] for at, data in manifest.inline.items()}
    return ArrayV3Metadata.from_dict(document), replace(manifest, length=length, inline=inline)


def _chunk_manifest(manifest: Manifest) -> ChunkManifest:
    return ChunkManifest.from_arrays(
        paths=_paths(manifest),
        offsets=manifest.offset,
        lengths=manifest.length,
        # Validation takes longer than everything else together, and urls of this package are absolute.
        validate_paths=False,
        inlined=manifest.inline,
    )


def _paths(manifest: Manifest) -> "np.ndarray[Any, np.dtypes.StringDType]":
    """Return the url of each chunk. One url for all chunks takes no memory per chunk."""
    source, text = manifest.source, np.dtypes.StringDType()
    if source.size and not any(source.strides) and source.flat[0] >= 0:
        one = np.array(manifest.urls[source.flat[0]], text)
        return cast("np.ndarray[Any, np.dtypes.StringDType]", np.broadcast_to(one, source.shape))
    # The last two entries are those of -2 and -1.
    table = np.array([*manifest.urls, INLINED_CHUNK_PATH, MISSING_CHUNK_PATH], text)
    index = source
    if manifest.inline:
        index = source.copy()
        for at in manifest.inline:
            index[at] = -2
    return cast("np.ndarray[Any, np.dtypes.StringDType]", np.asarray(table[index], text))
