"""Compiler flags that keep paths of this machine out of binaries."""
import os, pathlib


def compiler_flags(root):
    """Returns the environment variables for a build in the checkout `root`."""
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    folders = [home / "registry/src", root]
    flags = {"RUSTFLAGS": " ".join(f"--remap-path-prefix={folder}/=" for folder in folders)}
    # Microsoft's compiler has no such option.
    if os.name != "nt":
        flags["CFLAGS"] = " ".join(f"-ffile-prefix-map={folder}/=" for folder in folders)
    return flags
