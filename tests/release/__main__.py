"""Test a release: the wheel without the source, and each extra alone, on one or several Pythons.

`make release` calls this after it has built ``dist/``. The sdist must build the same wheel. Tests
run on the installed wheel, in the unpacked sdist without its ``src``. Every extra gets an
environment of its own with nothing but the wheel and what the extra asks for, and moves an array
into its format and back.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
# A fair part of the tests, in a few minutes: the API, the commands, every format, random plans.
TESTS = "tests/unit/test_api.py tests/integration/test_cli.py tests/conformance tests/properties"
# The target of a small array for each extra, by its suffix, and options.
TARGETS = {
    "hdf5": ("x.h5", []),
    "icechunk": ("x.icechunk::/x", []),
    "minc": ("x.mnc", []),
    "n5": ("x.n5::/x", []),
    "netcdf": ("x.nc", []),
    "nifti": ("x.nii.gz", ["--order", "F", "--chunks", "-1"]),
    "ome-zarr": ("x.ome.zarr", ["--axes", "z,y,x", "--spacing", "2"]),
    "precomputed": ("x.precomputed", []),
    "tiff": ("x.tif", ["--chunks", "1,16,16"]),
    "zarr": ("x.zarr", []),
    "all": ("x.zarr", []),
}
# Extras that add no target, and a script that needs them, next to the array.
SCRIPTS = {
    "distributed": """
from distributed import Client
import dask_io
with Client(n_workers=1, processes=False, dashboard_address=None) as client:
    dask_io.resplit("x.npy", "blocks", chunks=8, format="npy", client=client)
assert dask_io.verify("x.npy", "blocks")
""",
    "jupyter": """
import ipywidgets
import dask_io
dask_io.resplit("x.npy", "blocks", chunks=8, format="npy", progress=True)
""",
    "objects": """
import dask_io
dask_io.resplit("x.npy", "memory://bucket/x", chunks=8, format="npy")
assert dask_io.verify("x.npy", "memory://bucket/x")
""",
    "png": """
from pathlib import Path
import imagecodecs, numpy as np
import dask_io
volume = np.load("x.npy").astype("u1")
np.save("u1.npy", volume)
Path("slices").mkdir()
for z, plane in enumerate(volume):
    Path(f"slices/z_{z:02}.png").write_bytes(imagecodecs.png_encode(plane))
assert dask_io.verify("u1.npy", "slices")
""",
}


def main() -> None:
    """Test the sdist, the wheel, and every extra, on every Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--dist", type=Path, default=ROOT / "dist", help="folder of the wheel and the sdist")
    add("--pythons", default=sys.executable, help="interpreters, separated by commas")
    add("--tests", default=TESTS, help="files and folders of tests to run on the wheel")
    add("--extras", default="", help="only these, separated by commas")
    given = parser.parse_args()
    (wheel,), (sdist,) = (given.dist.resolve().glob(each) for each in ("*.whl", "*.tar.gz"))
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"])
    if extras != {*TARGETS, *SCRIPTS}:
        sys.exit(f"no test for the extras {sorted(extras ^ {*TARGETS, *SCRIPTS})}")
    with TemporaryDirectory() as folder:
        project = check_sdist(sdist, wheel, Path(folder))
        for number, python in enumerate(given.pythons.split(",")):
            place = Path(folder, str(number))
            place.mkdir()
            name = run(python, "--version").strip()
            if given.tests:
                say(f"{name}: {check_wheel(wheel, project, python, place, given.tests.split())}")
            for extra in sorted(set(given.extras.split(",")) & extras if given.extras else extras):
                check_extra(wheel, extra, python, place)
                say(f"{name}: {extra} installs alone, and works")


def check_sdist(sdist: Path, wheel: Path, folder: Path) -> Path:
    """Build and compare a wheel from the sdist, and return the unpacked sdist without ``src``."""
    shutil.unpack_archive(sdist, folder, filter="data")
    project = folder / sdist.name.removesuffix(".tar.gz")
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory")
    run(*build, str(folder), cwd=project)
    if content(folder / wheel.name) != content(wheel):
        sys.exit(f"{sdist.name} does not build the same wheel as the checkout")
    shutil.rmtree(project / "src")
    return project


def content(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file in a wheel."""
    with ZipFile(wheel) as packed:
        return {file.filename: file.CRC for file in packed.infolist()}


def check_wheel(wheel: Path, project: Path, base: str, place: Path, tests: list[str]) -> str:
    """Run tests on the installed wheel, in a project without source; return their summary."""
    python = make_environment(base, place / "wheel")
    install(python, "--require-hashes", "--requirement", str(ROOT / "requirements-dev.lock"))
    install(python, "--no-deps", str(wheel))
    return run(python, "-m", "pytest", "-q", "-n", "4", *tests, cwd=project).splitlines()[-1]


def check_extra(wheel: Path, extra: str, base: str, folder: Path) -> None:
    """Install one extra alone, and move an array into its format and back, or run its script."""
    place = folder / extra
    place.mkdir()
    python = make_environment(base, place / "environment")
    install(python, f"dask-io[{extra}] @ {wheel.as_uri()}")
    make = "import numpy as np; np.save('x.npy', np.arange(4096, dtype='f4').reshape(16, 16, 16))"
    run(python, "-c", make, cwd=place)
    if extra in SCRIPTS:
        run(python, "-c", SCRIPTS[extra], cwd=place)
        return
    target, options = TARGETS[extra]
    command = ("-m", "dask_io.cli")
    run(python, *command, "resplit", "x.npy", target, "--chunks", "8", *options, cwd=place)
    back = f"{target}/0" if extra == "ome-zarr" else target
    run(python, *command, "resplit", back, "back.npy", "--chunks", "-1", cwd=place)
    run(python, *command, "verify", "x.npy", "back.npy", cwd=place)


def make_environment(base: str, place: Path) -> str:
    """Make an environment, and return its interpreter."""
    run(base, "-m", "venv", str(place))
    return str(place / "bin" / "python")


def install(python: str, *what: str) -> None:
    """Install with pip."""
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command, and return its output; end with it if the command fails."""
    # The checkout must not be found by accident.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    """Print a result."""
    print(text, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    main()
