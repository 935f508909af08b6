"""Draws the pictures of docs/images: `.env/bin/python docs/site/pictures/all.py [NAME …]`."""
import importlib, sys

NAMES = ["overview", "reference", "chunkmap", "fill", "page"]

for name in sys.argv[1:] or NAMES:
    importlib.import_module(name).draw()
