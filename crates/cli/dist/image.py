"""Builds the OCI image of crates/server/deploy/Containerfile with buildah."""
import hashlib, json, shutil, subprocess

import certifi

ARCHITECTURES = {"x86_64-unknown-linux-musl": "amd64", "aarch64-unknown-linux-musl": "arm64"}
# As HEALTHCHECK of the Containerfile, in nanoseconds.
HEALTH_CHECK = {
    "Test": ["CMD", "/usr/bin/virtualize", "serve", "--check-health"],
    "Interval": 30_000_000_000, "Timeout": 6_000_000_000, "StartPeriod": 5_000_000_000,
}


def context(folder, releases):
    """Collects the files of the image, per architecture, from the releases of musl targets. Returns the architectures."""
    (folder / "writable/tmp").mkdir(parents=True)
    found = [(ARCHITECTURES[target], release) for target, release in releases.items() if target in ARCHITECTURES]
    for architecture, release in found:
        documents = folder / architecture / "usr/share/doc/virtualize"
        certificates = folder / architecture / "etc/ssl/certs"
        programs = folder / architecture / "usr/bin"
        for to in [documents, certificates, programs]:
            to.mkdir(parents=True)
        shutil.copy(release / "virtualize", programs)
        shutil.copyfile(certifi.where(), certificates / "ca-certificates.crt")
        for name in ["LICENSE", "THIRD-PARTY-LICENSES"]:
            shutil.copy(release / name, documents)
    return [architecture for architecture, _ in found]


def build(containerfile, folder, releases, version, epoch):
    """Builds the image of all musl targets, and returns its OCI layout."""
    platforms = ",".join(f"linux/{name}" for name in context(folder, releases))
    layout = folder / "layout"
    name = f"virtualize:{version}"
    buildah = ["buildah", "--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run"]
    for words in [
        ["build", "--isolation", "chroot", "--timestamp", epoch, "--identity-label=false", "--platform", platforms,
         "--build-arg", f"VERSION={version}", "--manifest", name, "--file", containerfile, folder],
        ["manifest", "push", "--all", name, f"oci:{layout}:{version}"],
    ]:
        subprocess.run([str(word) for word in [*buildah, *words]], check=True)
    add_health_check(layout)
    return layout


def add_health_check(layout):
    """Adds the health check to the images: buildah omits it from OCI images, although Docker reads it there, as BuildKit
    writes it."""
    index = json.loads((layout / "index.json").read_text())
    index["manifests"] = [changed(layout, descriptor) for descriptor in index["manifests"]]
    (layout / "index.json").write_text(json.dumps(index, sort_keys=True))


def changed(layout, descriptor):
    """Returns the descriptor of an image or of a list of images, with the health check in each configuration."""
    old = layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")
    content = json.loads(old.read_text())
    if "manifests" in content:
        content["manifests"] = [changed(layout, child) for child in content["manifests"]]
    elif "layers" in content:
        content["config"] = changed(layout, content["config"])
    else:
        content["config"]["Healthcheck"] = HEALTH_CHECK
    old.unlink()
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(data)
    return {**descriptor, "digest": f"sha256:{digest}", "size": len(data)}
