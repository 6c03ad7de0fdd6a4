"""Turn a NIfTI volume that is larger than the budget into Zarr, and back.

``python -m benchmarks.volumes --help``. The volume is in Fortran order and Zarr in C order, so all
elements change their place. Afterwards the file must have the same bytes. Copying the file is the
yardstick, with the final sync counted everywhere.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nibabel as nib
import numpy as np

import dask_io
from benchmarks.engine.measuring import drop_caches
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_AFFINE = np.array([[-0.5, 0.1, 0, 90], [0.1, 0.5, 0, -126], [0, 0, 0.6, -72], [0, 0, 0, 1]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; its files are removed at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.volumes", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="640MiB", help="bytes of the volume, about")
    add("--memory", type=parse_bytes, default="32MiB", help="the budget")
    add("--chunks", type=int, default=64, help="length of a Zarr chunk along each axis")
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="where to work, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the machine's caches")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="volumes-", dir=options.dir) as folder:
        _measure(Path(folder), options)


def _measure(folder: Path, options: argparse.Namespace) -> None:
    volume, back = folder / "volume.nii", folder / "back.nii"
    _make(volume, options.size)
    prepare = os.sync if options.warm else drop_caches
    chunks, memory = options.chunks, options.memory
    runs: dict[str, Callable[[], object]] = {
        "copy of the file": lambda: shutil.copyfile(volume, folder / "copy.nii"),
        "NIfTI to Zarr": lambda: dask_io.resplit(
            volume, folder / "z.zarr", chunks=chunks, memory=memory, codec="none"
        ),
        "Zarr to NIfTI": lambda: dask_io.merge(folder / "z.zarr", back, memory=memory),
    }
    size = volume.stat().st_size
    sys.stdout.write(f"volume of {format_bytes(size)} in a budget of {format_bytes(memory)}\n")
    for name, run in runs.items():
        prepare()
        begin = time.perf_counter()
        result = run()
        os.sync()
        seconds = time.perf_counter() - begin
        peak = getattr(result, "peak_memory", None)
        held = "" if peak is None else f", {format_bytes(peak)} of memory"
        sys.stdout.write(f"{name}: {seconds:.2f} s, {size / seconds / 1e6:.0f} MB/s{held}\n")
    if not filecmp.cmp(volume, back, shallow=False):
        sys.exit("the volume that came back differs")
    sys.stdout.write("the volume that came back is bit-identical\n")


def _make(path: Path, n_bytes: int) -> None:
    """Write a volume of 16-bit integers, plane by plane."""
    length = max(8, round((n_bytes / 2) ** (1 / 3)))
    header = nib.Nifti1Header()
    header.set_data_dtype("<i2")
    header.set_data_shape((length, length, length))
    header.set_sform(_AFFINE, 1)
    header.set_qform(_AFFINE, 1, strip_shears=True)
    header["vox_offset"], header["magic"] = 352, b"n+1"
    generator = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        for _ in range(length):
            file.write(generator.integers(0, 4000, length * length, "<i2").tobytes())


if __name__ == "__main__":
    main()
