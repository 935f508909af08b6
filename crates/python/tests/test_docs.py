"""The examples of pages that use this package. crates/cli/tests/interop/test_docs.py describes the conventions, and runs the other pages."""

import os
import sys
from pathlib import Path

import pytest
from many_files import ROOT

from document_files import SETUPS  # isort: skip  # on sys.path through many_files
from documents import Session, blocks, needs_package, pages  # isort: skip

# Pages that a test of their own runs, because their examples need several processes.
ELSEWHERE = {"docs/many-machines.md"}
# Tutorials make and serve files of their own.
PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page.parent.name == "tutorials" else [])
    for page in pages()
    if needs_package(page) and str(page.relative_to(ROOT)) not in ELSEWHERE
]


@pytest.mark.skipif(os.name != "posix", reason="a shell")
@pytest.mark.parametrize("page", PAGES)
def test_examples(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path, f"{sys.executable} -m virtualize", setups=SETUPS)
    try:
        wrong = [f"{block.name}: {found}" for block in blocks(page) if (found := session.run(block))]
    finally:
        session.close()
    assert not wrong, "\n\n".join(wrong)
