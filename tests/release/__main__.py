"""Test a release: the wheel without the source, and each extra alone.

`make release` calls this after it has built ``dist/``. Every extra gets an environment of its own
with nothing but the wheel and what the extra asks for, and moves an array into its format and back.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
# The target of a small array for each extra, by its suffix, and options.
TARGETS = {
    "hdf5": ("x.h5", []),
    "icechunk": ("x.icechunk::/x", []),
    "minc": ("x.mnc", []),
    "n5": ("x.n5::/x", []),
    "netcdf": ("x.nc", []),
    "nifti": ("x.nii.gz", ["--order", "F"]),
    "ome-zarr": ("x.ome.zarr", ["--axes", "z,y,x", "--spacing", "2"]),
    "precomputed": ("x.precomputed", []),
    "tiff": ("x.tif", []),
    "zarr": ("x.zarr", []),
    "all": ("x.zarr", []),
}
# Extras that add no target, and what shows that they work.
IMPORTS = {
    "distributed": "import distributed, dask_io; dask_io.resplit",
    "jupyter": "import ipywidgets, dask_io",
    "objects": "import obstore, dask_io; dask_io.open",
    "png": "import imagecodecs, dask_io",
}


def main() -> None:
    """Test the wheel, then every extra."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", default="tests/conformance tests/unit/test_api.py")
    parser.add_argument("--extras", default="", help="only these, separated by commas")
    given = parser.parse_args()
    (wheel,) = (ROOT / "dist").glob("*.whl")
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    if extras != {*TARGETS, *IMPORTS}:
        sys.exit(f"no test for the extras {sorted(extras ^ {*TARGETS, *IMPORTS})}")
    with TemporaryDirectory() as folder:
        if given.tests:
            check_wheel(wheel, Path(folder), given.tests.split())
        for extra in sorted(set(given.extras.split(",")) & extras if given.extras else extras):
            check_extra(wheel, extra, Path(folder))
            print(f"{extra}: installs alone, and works", flush=True)  # noqa: T201 - the result


def check_wheel(wheel: Path, folder: Path, tests: list[str]) -> None:
    """Run tests on the installed wheel, in a copy of the project without its source."""
    copy, python = folder / "project", make_environment(folder / "wheel")
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("src", ".*", "dist"))
    install(python, "--require-hashes", "--requirement", str(ROOT / "requirements-dev.lock"))
    install(python, "--no-deps", str(wheel))
    run(python, "-m", "pytest", "-q", "-n", "4", *tests, cwd=copy)


def check_extra(wheel: Path, extra: str, folder: Path) -> None:
    """Install one extra alone, and move an array into its format and back."""
    place = folder / extra
    place.mkdir()
    python = make_environment(place / "environment")
    install(python, f"dask-io[{extra}] @ {wheel.as_uri()}")
    if extra in IMPORTS:
        run(python, "-c", IMPORTS[extra])
        return
    make = "import numpy as np; np.save('x.npy', np.arange(4096, dtype='f4').reshape(16, 16, 16))"
    run(python, "-c", make, cwd=place)
    target, options = TARGETS[extra]
    command = ("-m", "dask_io.cli")
    run(python, *command, "resplit", "x.npy", target, "--chunks", "8", *options, cwd=place)
    back = f"{target}/0" if extra == "ome-zarr" else target
    run(python, *command, "resplit", back, "back.npy", "--chunks", "-1", cwd=place)
    run(python, *command, "verify", "x.npy", "back.npy", cwd=place)


def make_environment(place: Path) -> str:
    """Make an environment, and return its interpreter."""
    venv.create(place, with_pip=True)
    return str(place / "bin" / "python")


def install(python: str, *what: str) -> None:
    """Install with pip."""
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command; end with its output if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
