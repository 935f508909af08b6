"""Lists what the binary contains besides this repository: licences as text, and a CycloneDX SBOM."""
import collections, datetime, json, pathlib, re, subprocess, tomllib, uuid

import ziglang
from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

PACKAGE = "virtualize-cli"
LICENSE_FILE = re.compile(r"((un)?licen[cs]e|copying|notice|copyright)[-.\w]*$", re.IGNORECASE)
# Packages in the scripts of the service's page, with their licenses.
PAGE = pathlib.Path(__file__).parents[2] / "server/assets/vendor-licenses.txt"
SOURCE_FILE = {".rs", ".c", ".h", ".py", ".toml", ".json", ".go"}


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def linked_packages(target):
    """Returns the metadata of every package linked into the binary, by id. Build scripts and procedural macros are not."""
    tree = cargo("tree", "--locked", "--package", PACKAGE, "--features", "full", "--target", target, "--edges", "normal,no-proc-macro",
                 "--prefix", "none", "--format", "{p}")
    names = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    found = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {package["id"]: package for package in found["packages"] if (package["name"], "v" + package["version"]) in names}
    uses = {node["id"]: [child for child in node["dependencies"] if child in packages] for node in found["resolve"]["nodes"]}
    return packages, uses


def license_files(folder):
    for file in sorted(folder.rglob("*")):
        below = file.relative_to(folder).parts[:-1]
        if LICENSE_FILE.match(file.name) and file.suffix not in SOURCE_FILE and file.is_file() and "tests" not in below:
            yield file


def licenses(target, apache):
    """Returns the texts of all licences, each once, with the packages that it covers."""
    packages, _ = linked_packages(target)
    covered = collections.defaultdict(list)
    for package in packages.values():
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}, {package['license']}"
        files = list(license_files(pathlib.Path(package["manifest_path"]).parent))
        assert files or package["license"] == "Apache-2.0", f"{name}: the package contains no license file"
        for text in {file.read_text("utf-8", errors="replace").strip() for file in files} or {apache}:
            covered[text].append(name)
    covered[apache].append("Rust standard library, MIT OR Apache-2.0")
    if target.endswith("-musl"):
        musl = pathlib.Path(ziglang.__file__).parent / "lib/libc/musl/COPYRIGHT"
        covered[musl.read_text("utf-8").strip()].append("musl, MIT")
    parts = [f"{'=' * 80}\n" + "\n".join(sorted(names)) + f"\n{'-' * 80}\n{text}\n" for text, names in covered.items()]
    parts.append(PAGE.read_text("utf-8"))
    return "virtualize contains the packages below, each under the license that follows its name.\n\n" + "\n".join(sorted(parts))


def checksums(lock):
    """Returns the SHA-256 digests of packages that come from a registry, by name and version."""
    packages = tomllib.loads(lock)["package"]
    return {(package["name"], package["version"]): package["checksum"] for package in packages if "checksum" in package}


def sbom(target, version, lock, epoch):
    """Returns the SBOM as CycloneDX JSON."""
    packages, uses = linked_packages(target)
    digests = checksums(lock)

    def component(package):
        key = package["name"], package["version"]
        return Component(
            name=package["name"], version=package["version"], bom_ref=f"{key[0]}@{key[1]}",
            type=ComponentType.APPLICATION if package["name"] == PACKAGE else ComponentType.LIBRARY,
            purl=PackageURL("cargo", name=package["name"], version=package["version"]),
            licenses=[LicenseFactory().make_from_string(package["license"].replace("/", " OR "))],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digests[key])] if key in digests else [],
        )

    components = {id: component(package) for id, package in packages.items()}
    root = next(found for found in components.values() if found.name == PACKAGE)
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"urn:virtualize/{version}/{target}/{epoch}"),
              components=[found for found in components.values() if found is not root])
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    for id, found in components.items():
        bom.register_dependency(found, [components[child] for child in uses[id]])
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"
