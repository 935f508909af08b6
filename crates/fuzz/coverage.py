"""Prints the line coverage of each crate by the corpora of the fuzz targets; `run.sh coverage` calls it"""
import pathlib, sys

FUZZ = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FUZZ.parent / "cli/tests"))
from coverage import report

profiles = sorted(FUZZ.glob("coverage/*/coverage.profdata"))
programs = [program for profile in profiles for program in FUZZ.glob(f"target/*/coverage/*/release/{profile.parent.name}")]
report(profiles, FUZZ / "coverage/all.profdata", programs)
