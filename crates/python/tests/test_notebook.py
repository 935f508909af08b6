"""The notebook runs, and what it asserts holds."""

from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[3] / "docs/examples/python.ipynb"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs():
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "the notebook is kept without outputs"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOK.parent}}).execute()
    pictures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 4
    nbformat.write(notebook, NOTEBOOK.parents[2] / "target/python.ipynb")
