"""MINC files to test with: real ones, and new ones made by minc-tools and h5py."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import nibabel
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

REAL_FILES = Path(nibabel.__file__).parent / "tests/data"
IMAGE = "minc-2.0/image/0/image"


def load(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return real values and affine, as nibabel reads them."""
    with warnings.catch_warnings():
        # One of its own files declares a spacing that does not exist.
        warnings.simplefilter("ignore")
        found: Any = nibabel.load(path)
        return np.asarray(found.dataobj), np.asarray(found.affine)


def run(*command: object) -> bytes:
    """Run one of the minc-tools, and return what it prints."""
    return subprocess.run([*map(str, command)], check=True, capture_output=True).stdout


def make_raw(path: Path, values: NDArray[Any], *options: object) -> None:
    """Make a file of short integers with rawtominc, scaled slice by slice."""
    subprocess.run(
        [
            *("rawtominc", "-2", "-short", "-double", "-oshort", "-scan_range"),
            *map(str, (*options, path, *values.shape)),
        ],
        check=True,
        input=values.astype("f8").tobytes(),
    )


def info_of(path: Path) -> dict[str, tuple[float, ...]]:
    """Return length, step and start of each dimension, as mincinfo prints them."""
    lines = run("mincinfo", path).decode().splitlines()
    rows = [line.split() for line in lines[5:]]
    return {name: tuple(map(float, numbers)) for name, *numbers in rows}


def stored(path: Path) -> NDArray[Any]:
    """Return the stored values of a file of version 2."""
    with h5py.File(path) as file:
        return np.asarray(file[IMAGE])


def rewrite(source: Path, target: Path, **options: Any) -> None:
    """Copy a file, with its image stored in another way, such as in compressed chunks."""
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        old.copy("minc-2.0", new)
        image = new[IMAGE]
        values, attributes = image[...], dict(image.attrs)
        del new[IMAGE]
        made = new.create_dataset(IMAGE, data=values, **options)
        made.attrs.update(attributes)


def corner(affine: NDArray[Any], start: Sequence[int]) -> list[float]:
    """Return the world coordinates of an element."""
    found: list[float] = (affine @ [*start[-3:], 1])[:3].tolist()
    return found
