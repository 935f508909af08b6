"""Every tag that tifffile knows, one in a file: the table in docs/semantics-tiff.md says what it does, and GDAL and tifffile agree, or a diagnostic names the tag.
All types of values: RANDOM_TAGS=6."""
import json, logging, random, re, warnings

import clients
import numpy as np
import pytest

SEEDS = clients.seeds("RANDOM_TAGS", 1, 1)
MATRIX = tuple(map(float, (2, 0, 0, 5, 0, -2, 0, 7, 0, 0, 1, 0, 0, 0, 0, 1)))
KINDS = [(3, 1, 2), (3, 6, (2, 3, 4, 5, 6, 7)), (2, 0, "text"), (12, 16, MATRIX), (4, 1, 40), (7, 8, b"abcdefgh")]
# Values that make a difference to a program that knows the tag.
RATIONALS = {282, 283, 296}  # as text, they mean nothing
ACTIVE = {32995: (3, 1, 1), 32996: (3, 1, 3), 33445: (4, 1, 128), 33550: (12, 3, (10., 10., 0.)), 42113: (2, 0, "7"), 34735: (3, 8, (1, 1, 0, 1, 1025, 0, 1, 2))}
# Those of the images that tifffile writes.
WRITTEN = {254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 284, 322, 323, 324, 325, 338, 339}


def rows():
    """The table: (numbers, treatment)."""
    text = (clients.ROOT / "docs/semantics-tiff.md").read_text().split("\n## Tags\n")[1]
    found = []
    for tags, _, treatment in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.M)[1:]:
        spans = [tuple(map(int, span.split("–"))) for span in tags.split(", ")] if tags != "all others" else [(0, 65535)]
        found.append(([(span[0], span[-1]) for span in spans], treatment))
    return found


def treatment(tag, table):
    return next(text for spans, text in table if any(first <= tag <= last for first, last in spans))


def tags():
    import tifffile
    return sorted(({code for code, _ in tifffile.TIFF.TAGS.items()} | {65420, 65441}) - WRITTEN)


def value_of(tag, seed, text):
    if tag in ACTIVE:
        return ACTIVE[tag]
    if text.startswith("passed on"):
        return KINDS[0] if tag in (280, 281) else KINDS[2]
    return KINDS[(seed + tag) % len(KINDS)]


def write(path, tag=None, value=None):
    """Writes an image with a tag. Returns whether tifffile writes such a tag."""
    import tifffile
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    bands = 2 if tag == 32995 else 1
    data = np.arange(24 * bands, dtype="<u4").reshape(4, 6, bands)
    tifffile.imwrite(path, data if bands > 1 else data[..., 0], photometric="minisblack", planarconfig="contig" if bands > 1 else None, metadata=None, software=False,
                     extratags=[(tag, *value, True)] if tag else [])
    return tag is None or tag.to_bytes(2, "little") in path.read_bytes()[8:400]


def seen(path):
    """What GDAL and tifffile show; `None` if one of them refuses the file."""
    import rasterio, tifffile
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), rasterio.open(path) as file:
            warnings.simplefilter("ignore")
            found = {"values": file.read().tolist(), "masks": [file.read_masks(n + 1).tolist() for n in range(file.count)], "packing": (file.scales, file.offsets),
                     "units": file.units, "transform": file.transform.to_gdal(), "crs": str(file.crs), "points": len(file.gcps[0]), "rpc": file.rpcs is not None}
        with tifffile.TiffFile(path) as file:
            found["tifffile"] = (file.series[0].asarray().tolist(), str(file.series[0].dtype), file.series[0].shape)
    except Exception:  # noqa: BLE001, whatever either raises
        return None
    return found


def described(references):
    """References without the locations of chunks."""
    return {key: value for key, value in references["refs"].items() if isinstance(value, str)}


def run_all(folder):
    """Returns the references of each file in a folder, by name."""
    run = clients.virtualize("batch", f"{folder}/*.tif", "--each", "-o", f"{folder}/refs/")
    read = {path.name.removesuffix(".tif.json"): json.loads(path.read_text()) for path in (folder / "refs").glob("*.json")}
    return read, run.stderr


def diagnostics(path):
    return [(found["severity"], found["message"]) for found in json.loads(clients.virtualize("inspect", path, "--json").stdout)["diagnostics"]]


def test_the_table_covers_what_tifffile_knows():
    table = rows()
    assert len(table) > 10 and all(re.match("read|passed on|reported|ignored", text) for _, text in table)
    assert treatment(274, table).startswith("reported") and treatment(65000, table).startswith("ignored")


@pytest.mark.parametrize("seed", SEEDS)
def test_tags(tmp_path, seed):
    table = rows()
    made = {tag: value_of(tag, seed, treatment(tag, table)) for tag in tags()}
    write(tmp_path / "0.tif")
    made = {tag: value for tag, value in made.items() if write(tmp_path / f"{tag}.tif", tag, value)}
    write(tmp_path / "two.tif", 32995, (3, 1, 0))
    references, log = run_all(tmp_path)
    plain, pair = seen(tmp_path / "0.tif"), seen(tmp_path / "two.tif")
    problems = []
    for tag, value in made.items():
        text, path = treatment(tag, table), tmp_path / f"{tag}.tif"
        usual, base = (pair, "two") if tag == 32995 else (plain, "0")
        found = seen(path)
        if str(tag) not in references:
            problems += [] if f"{tag}.tif" in log else [f"{tag}: no output"]
            continue
        changed = found is not None and found != usual
        reported = diagnostics(path) if changed or text.startswith("reported") else []
        is_reported = any(f"tag {tag} " in message for _, message in reported)
        is_same = described(references[str(tag)]) == described(references[base])
        if text.startswith("ignored") and (changed or not is_same):
            problems.append(f"{tag} {value}: ignored, but {'other programs apply it' if changed else 'it changes the references'}")
        elif text.startswith("passed on") and is_same and not (tag in RATIONALS and value[0] == 2):
            problems.append(f"{tag} {value}: not passed on")
        elif text.startswith("reported") and (not is_reported or not is_same):
            problems.append(f"{tag} {value}: no diagnostic, or it changes the references: {reported}")
        elif text.startswith("reported (info") and changed or text.startswith("reported (warning") and tag == 32996 and not changed:
            problems.append(f"{tag} {value}: wrong severity")
        elif text.startswith("read") and changed and is_same and not reported:
            problems.append(f"{tag} {value}: read, but the references are the same")
    assert len(made) > 600
    clients.report(problems)


def test_positions(tmp_path):
    """Pixel scale, tie points and matrix in all combinations, complete or not, against GDAL."""
    import rasterio, tifffile
    pick, made = random.Random(5), {}
    matrices = [MATRIX, MATRIX[:12], MATRIX + (1.,), (0.,) * 16, (2., .5, 0., 5., .5, -2., 0., 7., 0., 0., 1., 0., 0., 0., 0., 1.)]
    scales = [(10., 10., 0.), (10., -10., 0.), (10., 10.), (10.,), (0., 10., 0.), (10., 0., 0.), (-10., 10., 2.), (10., 10., 0., 5.)]
    ties = [(0., 0., 0., 300., 500., 0.), (1., 2., 0., 300., 500., 0.), (0., 0., 0., 300., 500., 0., 5., 3., 0., 350., 470., 0.), (0., 0., 0.)]
    for n in range(200):
        chosen = {33550: pick.choice([None, *scales]), 33922: pick.choice([None, *ties, ties[0]]), 34264: pick.choice([None, None, *matrices])}
        keys = [(34735, 3, 8, (1, 1, 0, 1, 1025, 0, 1, pick.choice([1, 2])), True)] if pick.random() < .5 else []
        extra = keys + [(tag, 12, len(value), value, True) for tag, value in chosen.items() if value]
        tifffile.imwrite(tmp_path / f"{n}.tif", np.arange(24, dtype="<u2").reshape(4, 6), photometric="minisblack", metadata=None, extratags=extra)
        made[n] = chosen
    references, _ = run_all(tmp_path)
    problems = []
    for n, chosen in made.items():
        with warnings.catch_warnings(), rasterio.open(tmp_path / f"{n}.tif") as file:
            warnings.simplefilter("ignore")
            expected, points = file.transform.to_gdal(), len(file.gcps[0])
        # rasterio shows the scale although GDAL says that there is no transformation.
        scale, tie = chosen[33550], chosen[33922]
        if scale and len(scale) > 1 and scale[0] and scale[1] and len(tie or ()) < 6:
            expected = (0, 1, 0, 0, 0, 1)
        grid = json.loads(references[str(n)]["refs"].get("spatial_ref/.zattrs", "{}"))
        found = tuple(map(float, grid.get("GeoTransform", "0 1 0 0 0 1").split()))
        if found != expected or len(json.loads(grid.get("gcps", '{"features": []}'))["features"]) != points:
            problems.append(f"{chosen}: {grid}, expected {expected} and {points} control points")
    clients.report(problems)


SCALE = '<Item name="SCALE" sample="0" role="scale">0.5</Item>'
DOCUMENTS = {
    "ampersand": f'<GDALMetadata>{SCALE}<Item name="PRODUCER">Smith & Sons</Item></GDALMetadata>',
    "ampersand in a name": f'<GDALMetadata>{SCALE}<Item name="R&D">x</Item></GDALMetadata>',
    "document type": f"<!DOCTYPE x><GDALMetadata>{SCALE}</GDALMetadata>",
    "unquoted": "<GDALMetadata><Item name=SCALE sample=0 role=scale>0.5</Item></GDALMetadata>",
    "other case of a closing tag": f"<GDALMetadata>{SCALE.replace('</Item>', '</item>')}</GDALMetadata>",
    "lower case": f"<gdalmetadata>{SCALE.replace('Item', 'item')}</gdalmetadata>",
    "capitals": '<GDALMetadata><Item Name="SCALE" Sample="0" Role="scale">0.5</Item></GDALMetadata>',
    "float": f"<GDALMetadata>{SCALE.replace('0', '0.0', 1)}</GDALMetadata>",
    "empty sample": f"<GDALMetadata>{SCALE.replace('0', '', 1)}</GDALMetadata>",
    "comment": f"<GDALMetadata>{SCALE.replace('0.5', '<!-- half -->0.5')}</GDALMetadata>",
    "two documents": f"<GDALMetadata>{SCALE}</GDALMetadata><GDALMetadata>{SCALE.replace('0.5', '0.25')}</GDALMetadata>",
    "two texts": f"<GDALMetadata>{SCALE}</GDALMetadata>\0<GDALMetadata>{SCALE.replace('0.5', '0.25')}</GDALMetadata>",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lenient_metadata_is_read_as_by_gdal_or_reported(tmp_path, name):
    import rasterio, tifffile
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.arange(6, dtype="u1").reshape(2, 3), photometric="minisblack", metadata=None, extratags=[(42112, 2, 0, DOCUMENTS[name].encode(), True)])
    with rasterio.open(path) as file:
        expected = file.scales[0]
    run = clients.virtualize(path, "--strict")
    if run.status == 0:
        assert json.loads(run.references["refs"]["band_data/.zattrs"]).get("scale_factor", 1.0) == expected
    else:
        assert "GDAL_METADATA" in run.stderr and "[tiff-tag]" in run.stderr


@pytest.mark.parametrize("keys", [(2, 1, 0, 1, 1025, 0, 1, 2), (1, 1, 0, 3, 1025, 0, 1, 2), (1, 1, 0, 2, 1025, 0, 1, 2, 3072, 34736, 1, 0)], ids=["version", "count", "value"])
def test_damaged_keys_are_not_used(tmp_path, keys):
    import rasterio, tifffile
    path = tmp_path / "a.tif"
    tags = [(33550, 12, 3, (10., 10., 0.), True), (33922, 12, 6, (0., 0., 0., 300., 500., 0.), True), (34735, 3, len(keys), keys, True)]
    tifffile.imwrite(path, np.arange(6, dtype="u1").reshape(2, 3), photometric="minisblack", metadata=None, extratags=tags)
    with warnings.catch_warnings(), rasterio.open(path) as file:
        warnings.simplefilter("ignore")
        expected = file.transform.to_gdal()
    run = clients.virtualize(path)
    grid = json.loads(run.references["refs"]["spatial_ref/.zattrs"])
    assert tuple(map(float, grid["GeoTransform"].split())) == expected
    assert "GeoKeyDirectory" in run.stderr and "[tiff-tag]" in run.stderr
