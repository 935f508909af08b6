"""The two meanings of "fill value", with the values of a fixture."""
from svg import Picture

# Array i2/set_ifset_sparse_conflict of fixtures/hdf5/fill_message_3.h5, which docs/explanation/fill-values.md shows.
STORED, FILL, SENTINEL = [1, -32766, 42], -32766, 42


def draw():
    picture = Picture(
        "fill-values",
        342,
        "The two meanings of fill value",
        "A chunk that is not stored reads as Zarr's fill_value. A stored element that equals the attribute _FillValue is masked by xarray.",
    )
    columns = [174 + 94 * at for at in range(6)]
    row(picture, columns, 24, "in the file", [str(value) for value in STORED], "green")
    picture.box(columns[3], 24, 94 * 3 - 8, 54, "page", "line", 6, 1.5)
    picture.text(columns[4] + 43, 58, "chunk not stored", 16, "quiet", "middle")
    shown = [str(value) for value in STORED] + [str(FILL)] * 3
    row(picture, columns, 144, "Zarr reads", shown, "green", {3: "blue", 4: "blue", 5: "blue"})
    shown[STORED.index(SENTINEL)] = "NaN"
    row(picture, columns, 264, "xarray shows", shown, "green", {2: "orange", 3: "blue", 4: "blue", 5: "blue"})
    picture.path(f"M{columns[4] + 43} 80V140", "blue", 2)
    picture.text(columns[4] + 30, 116, f"fill_value: {FILL}", 16, "blue", "end", bold=True)
    picture.path(f"M{columns[2] + 43} 200V260", "orange", 2)
    picture.text(columns[2] + 56, 236, f"_FillValue: {SENTINEL} is masked", 16, "orange", bold=True)
    picture.write()


def row(picture, columns, y, label, values, colour, others={}):
    picture.text(24, y + 33, label, 17, bold=True)
    for at, value in enumerate(values):
        own = others.get(at, colour)
        picture.box(columns[at], y, 86, 54, f"{own}-fill", own, 6)
        picture.text(columns[at] + 43, y + 33, value, 16, own, "middle")
