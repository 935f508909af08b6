"""Regenerates the plots of the tutorials from their own code: python docs/images/plots.py (needs the packages that the tutorials install)."""
import pathlib, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "crates/cli/tests/interop"))
PLOTS = {"first-file": "sst.png", "cog": "overview.png", "icechunk-archive": "year.png"}


def main():
    import clients, documents
    for page, plot in PLOTS.items():
        with tempfile.TemporaryDirectory() as top:
            session = documents.Session(pathlib.Path(top), clients.BINARY)
            try:
                for block in documents.blocks(ROOT / f"docs/tutorials/{page}.md"):
                    if problem := session.run(block):
                        sys.exit(f"{block.name}: {problem}")
                    if (session.folder / plot).exists():
                        break
                (ROOT / f"docs/images/{page}.png").write_bytes((session.folder / plot).read_bytes())
            finally:
                session.close()


if __name__ == "__main__":
    main()
