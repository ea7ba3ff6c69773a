"""The notebooks run from their first cell to their last; what they claim is asserted in them."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs pip install 'laconic-fl[notebooks]'")
nbclient = pytest.importorskip("nbclient", reason="needs pip install 'laconic-fl[notebooks]'")

HOME = Path(__file__).parents[2]
BOOKS = sorted((HOME / "notebooks").glob("*.ipynb"))


def test_the_page_lists_every_notebook_and_none_keeps_outputs():
    page = (HOME / "docs/notebooks.md").read_text()
    assert len(BOOKS) == 6
    for path in BOOKS:
        assert f"`{path.name}`" in page
        cells = nbformat.read(path, 4).cells
        assert not any(cell.get("outputs") for cell in cells)
        assert any("assert " in cell.source or "check_method" in cell.source for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    book = nbformat.read(path, 4)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources=where).execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
