"""Sets of compatible files, from `virtualize scan --json` of files made for the picture."""
import json, subprocess, tempfile
from pathlib import Path

import netCDF4
from svg import Picture
from virtualize_command import COMMAND

COLOURS = ["green", "orange", "blue"]


def day(folder, number):
    """One day of wind. The packing changes on the sixth day, the data type on the tenth."""
    with netCDF4.Dataset(folder / f"2024-01-{number:02}.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 100)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2024-01-01"
        time[:] = [number - 1]
        wind = file.createVariable("wind", "i2" if number < 10 else "i4", ("time", "x"), zlib=True, chunksizes=[1, 100])
        wind.scale_factor = 0.01 if number < 6 else 0.02
        wind[:] = 1


def scan():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, 13):
            day(Path(folder), number)
        done = subprocess.run([COMMAND, "scan", "*.nc", "--json"], cwd=folder, check=True, capture_output=True)
    return json.loads(done.stdout)


def draw():
    report = scan()
    names = [Path(file).stem for run in report["runs"] for file in run["files"]]
    sets = len(report["sets"])
    picture = Picture(
        "archive",
        126 + 70 * sets,
        "Sets of compatible files in an archive",
        f"virtualize scan finds {sets} sets in {report['files']} files: the packing changes, then the data type. Each set is written to its own group.",
    )
    picture.text(24, 42, f"{report['files']} files, {sets} sets of compatible files", 19, bold=True)
    step = 712 / len(names)
    at = 0
    for row, run in enumerate(report["runs"]):
        colour = COLOURS[run["set"]]
        for file in run["files"]:
            x = round(24 + at * step, 1)
            picture.box(x, 62, round(step - 6, 1), 44, f"{colour}-fill", colour, 5)
            picture.text(round(x + (step - 6) / 2, 1), 90, Path(file).stem[-2:], 16, colour, "middle")
            at += 1
        describe(picture, 130 + row * 70, run, colour)
    picture.write()


def describe(picture, y, run, colour):
    picture.box(24, y, 712, 58, f"{colour}-fill", colour, 6)
    time = run["coordinates"]["time"]
    picture.text(40, y + 25, f"{time['first']} to {time['last']}", 16, colour, bold=True)
    differences = run["differences"] or []
    words = [f"/{one['path']}: {one['what']} {one['left']} → {one['right']}" for one in differences]
    more = f", and {len(words) - 1} more" if len(words) > 1 else ""
    picture.text(40, y + 47, words[0] + more if words else "the first set", 15)
    picture.text(720, y + 25, f"{len(run['files'])} files", 16, colour, "end")
