"""The format that CONTRIBUTING.md shows keeps the laws of stores."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats import make_target, open_source
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from dask_io.stores import Source, Target

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(EXAMPLE,) = [example for example in EXAMPLES if "idx" in example]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a package that adds the format."""
    module = ModuleType("idx_of_another_package")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(EXAMPLE, "CONTRIBUTING.md", "exec"), module.__dict__)  # noqa: S102 - our own text
    entries = {"idx": f"{module.__name__}:FORMAT"}
    monkeypatch.setattr("dask_io.formats.registry._others", lambda: entries)


class TestIdx(StoreConformance):
    """A directory of IDX blocks."""

    layouts = "C"
    dtypes = ("u1", "i1", ">i2", ">i4", ">f4", ">f8")

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a directory of blocks."""
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(folder / "blocks", format="idx", overwrite=overwrite, **kind)

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - it has a manifest
        """Open it."""
        return open_source(folder / "blocks")


def test_its_limits_are_told_in_one_line(tmp_path: Path) -> None:
    """What it cannot hold, and what is no such file."""
    np.save(tmp_path / "x.npy", np.zeros(3, "c8"))
    with pytest.raises(UsageError, match="cannot store complex64, only u1"):
        dask_io.resplit(tmp_path / "x.npy", tmp_path / "out", format="idx", chunks=2)
    for content in (b"", b"\0\0", b"abcdefgh", b"\0\0\x08\x02\0\0"):
        (tmp_path / "y.idx").write_bytes(content)
        with pytest.raises(DataError, match=r"IDX header|truncated"):
            open_source(tmp_path / "y.idx")
