"""Types of keyword arguments. Generated from the options of the command by option_types.py."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from datetime import date, datetime

type Size = int | str
"""A number of bytes: ``65536``, ``"64K"``."""

type Location = str | PathLike[str]
"""A path or url."""

type Several = str | Sequence[str]
"""A text, or several."""

type Time = datetime | date | str
"""A time with its zone, a date (midnight UTC), or either as text: ``"2024-02-29"``, ``"2024-02-29T12:00:00Z"``."""


class AccessOptions(TypedDict, total=False):
    """As whom files are accessed, and through which service. What is not given comes from the environment (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``, ``EARTHDATA_*``)."""

    store_option: Mapping[str, str]
    # Store setting, such as aws_region=eu-west-1 or timeout=30s; may be repeated

    anonymous: bool
    # Do not sign requests: for public buckets

    endpoint: str
    # URL of an S3-compatible, Google Cloud Storage or Azure service other than the default one

    bearer_token: str
    # Bearer token for HTTPS servers [default: that in VIRTUALIZE_BEARER_TOKEN]

    bearer_token_file: Location
    # File with the bearer token for HTTPS servers, which is read again for each request

    profile: str
    # AWS profile, whose credentials the AWS CLI (version 2) provides [default: that in AWS_PROFILE]

    s3_credentials: str
    # URL that returns temporary credentials for S3, such as `https://…/s3credentials` of a NASA data centre

    sas_tokens: str
    # URL that returns a SAS for Azure, such as `https://…/api/sas/v1/token/{account}/{container}`

    earthdata_login: str
    # URL of the Earthdata Login service [default: `https://urs.earthdata.nasa.gov`]


class RequestOptions(TypedDict, total=False):
    """Access by prefix of URLs, and how requests are sent."""

    stores: Mapping[str, AccessOptions]
    # Access options by prefix of URLs, such as `[store."s3://bucket/"]`; the longest prefix applies, instead of the options above

    concurrency: int
    # Maximum concurrent requests

    retries: int
    # Retries of a failed request

    retry_timeout: int
    # Maximum seconds for all attempts of a request together


class MappingOptions(TypedDict, total=False):
    """How files are mapped to Zarr."""

    strict: bool
    # Fail on any warning

    readable_by: Several
    # Write only arrays that these readers decode

    unpack: bool
    # Unpack packed numbers to floats through codecs (Zarr v3 only)

    missing_value_convention: bool
    # Declare each array's sentinel through the Zarr convention missing_value as well

    spatial_conventions: bool
    # Declare the position of grids of HDF5 and NetCDF files through the Zarr conventions spatial and proj as well

    chunk_grid: Literal["regular", "rectilinear"]
    # Chunk grid of arrays whose chunks differ in size: a short last strip of a TIFF, concatenated files

    inline: Size
    # Inline chunks smaller than SIZE and all chunks of coordinates, so that readers need fewer requests

    inline_limit: Size
    # Maximum decoded bytes per array to inline where references cannot express the data [default: 16M]

    inline_total: Size
    # Maximum total bytes that --inline may inline [default: 256M]

    split_contiguous: Size
    # Split contiguous HDF5 and NetCDF-3 data along the slowest axis into chunks of at most SIZE bytes

    ragged: bool
    # Write variable-length sequences of HDF5 files as contiguous ragged arrays of the CF conventions

    follow_external: bool
    # Follow external links of HDF5 files to files in the same folder or below

    dmrpp: bool
    # Read the DMR++ sidecar FILE.dmrpp instead of an HDF5 file, if it has all that references need

    ifd: Sequence[int | str] | int | str
    # Map only this image of a TIFF: 0, 1, …, or 0/1 for a SubIFD, as `inspect` numbers them; may be repeated

    complex_integers: Literal["complex", "structure"]
    # Data type of complex integers in TIFF files: complex64 and complex128, or structures of r and i

    stack_pages: bool
    # Stack TIFF pages of equal shape, data type, chunks and codecs into one array along a new axis

    ome_zarr: bool
    # Arrange the images of a TIFF file as OME-Zarr (OME-NGFF 0.5), which napari and other viewers open

    sidecars: bool
    # Request the sidecars of remote TIFF files that GDAL reads: .aux.xml, world files, and others


class ArchiveOptions(TypedDict, total=False):
    """Which version of an archive is opened, and where its files are."""

    branch: str
    # Branch of the Icechunk repository [default: main]

    tag: str
    # Tag of the Icechunk repository

    snapshot: str
    # Snapshot of the Icechunk repository

    rewrite_url: Mapping[str, str]
    # Read the files of references at other URLs: replace the prefix FROM with TO; may be repeated


class WriteOptions(TypedDict, total=False):
    """How references are written."""

    overwrite: bool
    # Replace an existing output that is a folder or prefix

    record_size: int
    # Rows per Parquet file (kerchunk-parquet) [default: 100000]

    rewrite_url: Mapping[str, str]
    # Replace the prefix FROM of source URLs with TO in the output; may be repeated

    relative: bool
    # Write source URLs relative to the output's folder; sources must be in that folder or below


class IcechunkOptions(TypedDict, total=False):
    """What is committed to an Icechunk repository, and where."""

    branch: str
    # Branch to commit to [default: main]

    message: str
    # Commit message [default: names the source]

    author: str
    # Commit author

    commit_property: Mapping[str, str]
    # Additional commit property; may be repeated

    group: Location
    # Group of the repository to write to [default: its root]

    replace_group: bool
    # Remove the group and everything below it first


class FileOptions(TypedDict, total=False):
    """Which files are read, besides those that the first argument names."""

    list: Location | Sequence[Location]
    # Read paths or URLs from a file, one per line

    stac: Location | Sequence[Location]
    # STAC item, item collection, collection or catalog to read assets from; may be repeated

    asset: Several
    # Select STAC assets with this key; may be repeated

    asset_role: Several
    # Select STAC assets with this role; may be repeated

    asset_alternate: str
    # Read STAC assets at their alternate location of this name, such as s3

    include: str
    # Select files whose name matches PATTERN


class LayoutOptions(TypedDict, total=False):
    """Along which dimensions files are combined. Arrays are given by name, by path, or as ``*`` for all."""

    concat_dim: Several
    # Concatenate files along an existing dimension; may be repeated

    stack_dim: Several
    # Stack files along a new dimension; may be repeated, the outermost dimension first

    coord: Mapping[str, str]
    # Take the coordinates along a dimension from elsewhere; may be repeated

    var: Mapping[str, str]
    # Treat an array differently from the others; may be repeated

    copy_limit: Size
    # Inline arrays of up to SIZE per file if their chunks cannot be aligned [default: 64K]


class PlanOptions(TypedDict, total=False):
    """How files become one dataset."""

    on_mismatch: Literal["combine", "stop", "split", "skip"]
    # How to treat files that are not compatible

    on_duplicate: Literal["error", "first", "last"]
    # How to treat files whose coordinates are equal or partly overlap

    allow_holes: bool
    # Allow positions without a file in an arrangement of several dimensions; they read as the fill value


class RunOptions(TypedDict, total=False):
    """How a run proceeds."""

    journal: Location
    # Journal from which the same command resumes [default: OUT.journal; for URLs in the current folder]

    shard: str
    # Read shard K of N of the files into the journal, and write no output

    merge: Several
    # Import the journals of shards instead of reading their files: a path, URL or pattern; may be repeated

    restart: bool
    # Start over, ignoring the journal

    append: bool
    # Add new files to those of earlier runs

    dry_run: bool
    # Read new files and report what would be written, without writing anything

    on_change: Literal["stop", "update", "drop"]
    # How to treat files of earlier runs that were changed or deleted since

    on_failure: Literal["stop", "skip", "retry"]
    # How to treat files that cannot be read

    max_failures: int
    # Maximum number of files that may fail without preventing the output [default: 0]

    attempts: int
    # Attempts per file when a store fails or the file changes [default: 3]
