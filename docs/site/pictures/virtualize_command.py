"""The command whose output the pictures show."""
import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMAND = str(ROOT / os.environ.get("VIRTUALIZE_BIN", "target/debug/virtualize"))
