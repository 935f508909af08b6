"""Builds what a release contains, in target/dist: `run.sh` calls it in an environment with requirements.txt.
`--image` before the targets builds the container image only.

The same commit, toolchain and packages give the same bytes: archives are sorted and carry the time of the commit, and no path
of this machine is in a binary.
"""
import gzip, hashlib, io, json, os, pathlib, shutil, subprocess, sys, tarfile

import image, third_party
from flags import compiler_flags

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Cargo keeps folders of the profile `dist` there, too.
DIST = ROOT / "target/dist"
FILES = "virtualize-[0-9]*"
# The same bytes on every system.
TEXT = {"encoding": "utf-8", "newline": "\n"}
SHELLS = {"bash": "virtualize.bash", "zsh": "_virtualize", "fish": "virtualize.fish", "powershell": "virtualize.ps1",
          "elvish": "virtualize.elv"}


def run(*words, environment=None, folder=ROOT):
    subprocess.run([str(word) for word in words], check=True, cwd=folder, env={**os.environ, **(environment or {})})


def output(*words):
    return subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip()


def build(target):
    """Builds the command for a target, and returns the binary. Linux targets use zig as C compiler and linker."""
    tool = "zigbuild" if "-linux-" in target else "build"
    run("cargo", tool, "--profile", "dist", "--locked", "--target", target, "--package", "virtualize-cli", "--features", "full",
        environment=compiler_flags(ROOT))
    name = "virtualize.exe" if "-windows-" in target else "virtualize"
    return ROOT / "target" / target / "dist" / name


def wheel(target):
    """Builds the Python wheel; for Linux one that runs with glibc 2.17 and later."""
    zig = ["--zig", "--compatibility", "manylinux2014"] if "-linux-" in target else []
    run(sys.executable, "-m", "maturin", "build", "--profile", "dist", "--locked", "--target", target.replace("-musl", "-gnu"),
        *zig, "--out", DIST, environment=compiler_flags(ROOT), folder=ROOT / "crates/python")


def pages(binary, folder):
    """Writes completions and man pages, as the command itself generates them."""
    (folder / "completions").mkdir(parents=True)
    (folder / "man").mkdir()
    for shell, name in SHELLS.items():
        (folder / "completions" / name).write_text(output(binary, "completions", shell) + "\n", **TEXT)
    run(binary, "man", folder / "man")


def entries(folder):
    """Yields the files of a folder as bytes, sorted by name."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file.read_bytes(), file.stat().st_mode & 0o111


def tar(stream, files, epoch):
    """Writes files as a tar archive whose bytes depend on nothing else."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, executable in files:
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), epoch, 0o755 if executable else 0o644
            archive.addfile(info, io.BytesIO(content))


def archive(folder, epoch):
    """Packs a folder as FOLDER.tar.gz."""
    with (open(f"{folder}.tar.gz", "wb") as file,
          gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=9, mtime=epoch) as stream):
        tar(stream, ((f"{folder.name}/{name}", *rest) for name, *rest in entries(folder)), epoch)


def release(target, binary, native, version):
    """Collects the files of an archive in a folder."""
    folder = DIST / f"virtualize-{version}-{target}"
    pages(native, folder)
    for file in [binary, ROOT / "LICENSE", ROOT / "README.md"]:
        shutil.copy(file, folder)
    apache = (ROOT / "LICENSE").read_text("utf-8").strip()
    (folder / "THIRD-PARTY-LICENSES").write_text(third_party.licenses(target, apache), **TEXT)
    return folder


def oci_archive(releases, version, epoch):
    """Writes the image of the musl targets."""
    folder = ROOT / "target/dist-image"
    shutil.rmtree(folder, ignore_errors=True)
    layout = image.build(ROOT / "crates/server/deploy/Containerfile", folder, releases, version, epoch)
    with open(DIST / f"virtualize-{version}-oci.tar", "wb") as stream:
        tar(stream, entries(layout), epoch)
    shutil.rmtree(folder)


def checksums():
    """Writes SHA256SUMS, which `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.glob(FILES))]
    (DIST / "SHA256SUMS").write_text("".join(lines), **TEXT)


def host():
    """Returns the target of this machine: on Linux the one with musl."""
    lines = dict(line.split(": ", 1) for line in output("rustc", "-vV").splitlines() if ": " in line)
    return lines["host"].replace("-linux-gnu", "-linux-musl")


def main(arguments):
    image_only, targets = arguments[:1] == ["--image"], [word for word in arguments if word != "--image"]
    os.chdir(ROOT)
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    targets = targets or [host()]
    packages = json.loads(third_party.cargo("metadata", "--locked", "--no-deps", "--format-version", "1"))["packages"]
    version = next(found["version"] for found in packages if found["name"] == third_party.PACKAGE)
    epoch = int(output("git", "log", "-1", "--format=%ct"))
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    DIST.mkdir(parents=True, exist_ok=True)
    for old in DIST.glob(FILES):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for target in targets:
        run("rustup", "target", "add", target, target.replace("-musl", "-gnu"))
    binaries = {target: build(target) for target in targets}
    # The command that generates completions and man pages must run here.
    native = binaries.get(host()) or build(host())
    releases = {target: release(target, binary, native, version) for target, binary in binaries.items()}
    if any(target in image.ARCHITECTURES for target in targets):
        oci_archive(releases, version, epoch)
    if image_only:
        for folder in releases.values():
            shutil.rmtree(folder)
        return
    for target, folder in releases.items():
        archive(folder, epoch)
        shutil.rmtree(folder)
        wheel(target)
    lock = (ROOT / "Cargo.lock").read_text("utf-8")
    (DIST / f"virtualize-{version}.cdx.json").write_text(third_party.sbom(targets[0], version, lock, epoch), **TEXT)
    checksums()


if __name__ == "__main__":
    main(sys.argv[1:])
