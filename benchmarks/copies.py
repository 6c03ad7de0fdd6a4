"""Measure copies between orders of elements, next to copies within one order.

``python -m benchmarks.copies --help``. A block in F order goes to a block in C order, as it does on
the way from NIfTI to Zarr. The yardstick is the copy of the same block from C to C order; NumPy's
own assignment is shown too. Everything is in memory, and every figure is a median.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import prod
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from dask_io.engine.copying import copy
from dask_io.geometry import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHAPES = "112,112,112;160,160,160;256,256,256;500,500,100;64,512,512"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for every shape and type."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.copies", description=__doc__)
    parser.add_argument("--shapes", default=_SHAPES, help="shapes, separated by semicolons")
    parser.add_argument("--dtypes", default="u1,<i2,<f4,<f8", help="types, separated by commas")
    parser.add_argument("--repeats", type=int, default=7, help="copies of each kind")
    options = parser.parse_args(arguments)
    for text in options.shapes.split(";"):
        shape = tuple(map(int, text.split(",")))
        for dtype in options.dtypes.split(","):
            sys.stdout.write(f"{_measure(shape, np.dtype(dtype), options.repeats)}\n")


def _measure(shape: tuple[int, ...], dtype: np.dtype[np.generic], repeats: int) -> str:
    layout = Layout.c(len(shape))
    rows, target = np.ones(shape, dtype), np.zeros(shape, dtype)
    columns = np.asfortranarray(rows)
    ways: dict[str, Callable[[], None]] = {
        "C to C": lambda: copy(rows, target, layout),
        "F to C": lambda: copy(columns, target, layout),
        "NumPy F to C": lambda: np.copyto(target, columns),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    # In turns, so that a busy moment of the machine does not favour one of them.
    for _ in range(repeats):
        for way, run in ways.items():
            begin = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - begin)
    n_bytes = prod(shape) * dtype.itemsize
    rates = [f"{way} {n_bytes / median(found) / 1e9:.2f} GB/s" for way, found in seconds.items()]
    ratio = median(seconds["C to C"]) / median(seconds["F to C"])
    size = " x ".join(map(str, shape))
    return f"{size} of {dtype}: {', '.join(rates)}; F to C at {ratio:.2f} of C to C"


if __name__ == "__main__":
    main()
