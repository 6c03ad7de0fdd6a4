"""What a journal says of cells and blocks: what there cannot be is refused, whoever wrote it."""

from pathlib import Path

import numpy as np
import pytest
from xxhash import xxh3_64_hexdigest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.geometry import Grid
from dask_io.journal.ledger import Ledger

GRID = Grid.regular((6, 5), (3, 3))
NO_BLOCKS = ["-1,0", "0,-1", "2,0", "0,2", "0", "0,0,0", "0,x", ""]


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """Blocks that were written from other blocks, with a journal that does not seal them."""
    np.save(tmp_path / "x.npy", np.arange(30).reshape(GRID.shape))
    dask_io.split(tmp_path / "x.npy", tmp_path / "blocks", chunks=(3, 5))
    dask_io.resplit(tmp_path / "blocks", tmp_path / "out", chunks=3)
    journal = tmp_path / "out" / ".dask-io" / "journal"
    *lines, sealed = journal.read_bytes().splitlines(keepends=True)
    assert sealed.endswith(b" sealed\n")
    journal.write_bytes(b"".join(lines))
    return tmp_path / "out"


def tell(target: Path, line: str) -> None:
    """Add a line to a target's journal that matches its checksum."""
    with (target / ".dask-io" / "journal").open("a") as journal:
        journal.write(f"{xxh3_64_hexdigest(line.encode())} {line}\n")


@pytest.mark.parametrize("numbers", NO_BLOCKS)
def test_a_block_that_is_not_in_the_grid_is_refused(numbers: str) -> None:
    """A number below 0 does not count from the end: that would be another block."""
    cell = ["cell", numbers, "-", "0123456789abcdef"]
    for lines in ([cell], [["dropped", numbers]]):
        with pytest.raises(ValueError, match=r"out of bounds|invalid literal"):
            Ledger(GRID, lines)


def test_cells_of_a_block_that_was_dropped_do_not_count() -> None:
    """Only what was noted of it since then has to match the target."""
    noted = ["cell 0,0 - 01", "cell 1,1 - 02", "dropped 0,0", "cell 0,0 - 03", "dropped 0,0"]
    lines = [line.split() for line in [*noted, "cell 0,0 - 04"]]
    found = Ledger(GRID, lines).cells(lines)
    assert [(cell.index, cell.checksum) for cell in found] == [((1, 1), 2), ((0, 0), 4)]


@pytest.mark.parametrize("line", [["dropped"], ["cell"], ["cell", "0,0"], ["dropped", "0,0", "-"]])
def test_a_line_with_more_or_fewer_words_is_refused(line: list[str]) -> None:
    """It is nothing that Dask IO writes."""
    with pytest.raises(ValueError, match="a line that starts with"):
        Ledger(GRID, [line])


@pytest.mark.parametrize(
    "line",
    ["cell -1,0 - 0123456789abcdef", "dropped -1,0", "dropped", "freed -1,0 0", "freed 2,0 0"],
)
def test_nonsense_in_a_journal_is_refused(line: str, unfinished: Path) -> None:
    """The message names the journal; without the line the run is completed."""
    journal = unfinished / ".dask-io" / "journal"
    before = journal.read_bytes()
    tell(unfinished, line)
    with pytest.raises(DataError, match=r"\.dask-io"):
        dask_io.resume(unfinished)

    journal.write_bytes(before)
    dask_io.resume(unfinished, verify=True)


@pytest.mark.parametrize("line", ["freed", "freed x", "freed 0,0 0"])
def test_what_was_made_of_removed_blocks_is_not_overwritten(line: str, unfinished: Path) -> None:
    """However badly a journal says which they are."""
    tell(unfinished, line)
    source = unfinished.with_name("blocks")
    with pytest.raises(UsageError, match="source was consumed"):
        dask_io.resplit(source, unfinished, chunks=2, overwrite=True)
