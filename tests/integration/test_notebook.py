"""The notebook of the documents runs."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "how-to" / "dask-notebook.ipynb"
nbformat: Any = import_module("nbformat")


def test_the_notebook_runs(tmp_path: Path) -> None:
    """Every cell runs, one after another, in a process of its own, and what it asserts holds."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = import_module("nbclient").NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=dict(os.environ))

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert "By Dask" in cells[-1].outputs[0].text
