"""Fetches the public test files of corpus.tsv with git, and checks their SHA-256.

usage: fetch_corpus.py FOLDER [--from FOLDER] [--repository OWNER/NAME …]

Each repository is cloned without its files, and only those of the list are downloaded. Files that a repository no longer has, or has in
another version, are skipped and counted; a second run fetches only what is missing. --from copies the files from a folder of the same
layout (OWNER/NAME/PATH) instead.
"""
import argparse, collections, csv, hashlib, pathlib, shutil, subprocess, sys, tempfile

LIST = pathlib.Path(__file__).with_name("corpus.tsv")
# Git filters of a repository, such as Git LFS, would start other programs.
GIT = ["git", "-c", "core.hooksPath=/dev/null", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false"]


def entries():
    """Returns the rows of corpus.tsv: kind, repository, path, bytes, sha256, and whether the file is damaged on purpose."""
    with open(LIST, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def location(folder, entry):
    return pathlib.Path(folder, entry["repository"], entry["path"])


def is_whole(path, entry):
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]


def clone(repository, wanted, folder):
    """Checks out the wanted paths that the latest commit of a repository has, into a folder."""
    def git(*words, **options):
        return subprocess.run([*GIT, *words], check=True, **options)

    try:
        git("clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", f"https://github.com/{repository}", folder)
        listed = git("-C", folder, "ls-tree", "-rz", "--name-only", "HEAD", stdout=subprocess.PIPE).stdout.decode().split("\0")
        paths = sorted(set(wanted) & set(listed))
        if paths:
            git("-C", folder, "checkout", "--quiet", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul", input="\0".join(f":(literal){path}" for path in paths).encode())
    except subprocess.CalledProcessError as error:
        print(f"{repository}: git {error.cmd[len(GIT)]} failed with status {error.returncode}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--repository", nargs="*")
    options = parser.parse_args()
    missing, count = collections.defaultdict(list), 0
    for entry in entries():
        if options.repository and entry["repository"] not in options.repository:
            continue
        count += 1
        if not is_whole(location(options.folder, entry), entry):
            missing[entry["repository"]].append(entry)
    skipped = collections.Counter()
    for repository, wanted in missing.items():
        with tempfile.TemporaryDirectory() as temporary:
            if not options.source:
                clone(repository, [entry["path"] for entry in wanted], temporary)
            for entry in wanted:
                found = location(options.source, entry) if options.source else pathlib.Path(temporary, entry["path"])
                if not is_whole(found, entry):
                    skipped[f"{repository}: {'another version' if found.is_file() else 'not there'}"] += 1
                    continue
                to = location(options.folder, entry)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found, to)
    for why, number in skipped.items():
        print(f"skipped {number}: {why}")
    print(f"{count - skipped.total()} of {count} files are in {options.folder}, {skipped.total()} skipped")


if __name__ == "__main__":
    main()
