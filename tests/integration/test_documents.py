"""The documents' examples run."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import nibabel as nib
import numpy as np
import pytest
import tifffile
import zarr

from tests.commands import invoke
from tests.notices import without_notices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
FOLLOWED = [ROOT / "docs/index.md", ROOT / "docs/tutorial.md"]
"""Pages that a new user follows from top to bottom, in an empty folder."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOURS = "hours since 2020-01-31"
"""The units of time of the datasets: they begin on the last day of a January."""
KINDS = ("console", "python", "pycon")
"""The languages of examples, all of which are run."""
DIRECTIVES = ("{toctree}", "{eval-rst}")
"""Fences that are no examples, but instructions to Sphinx."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _examples(page: Path, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(page.read_text()) if name == language]


def _pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if _examples(page, language) and page not in FOLLOWED]


def _commands(text: str) -> list[tuple[list[str], str]]:
    """Return the commands of an example, each with what it prints, if the example shows that."""
    lines = (each.partition("\n") for each in f"\n{text}".split("\n$ ")[1:])
    found = [(shlex.split(line, comments=True), shown) for line, _, shown in lines]
    return [(words[1:], shown.rstrip()) for words, shown in found if words[0] == "dask-io"]


def _all_commands(page: Path) -> list[tuple[list[str], str]]:
    return _commands("".join(_examples(page, "console")))


def _run(words: list[str], shown: str) -> None:
    """Run a command, which succeeds and prints the lines that are shown."""
    done = invoke(*words)
    assert (done.exit_code, without_notices(done.stderr)) == (0, ""), done.output
    printed = _without_measures(done.output).splitlines()
    assert [line for line in _without_measures(shown).splitlines() if line not in printed] == []


def _without_measures(text: str) -> str:
    """Remove what differs between machines: times, speeds, sizes and the kind of the disk."""
    return re.sub(
        r"([\d.]+ )?[\d.]+ ?([KMG]iB|[kMG]B/s|min|m?s)\b|on (ssd|hdd|nvme|nfs)\b", "", text
    )


WITH_COMMANDS = [page for page in PAGES if _all_commands(page) and page not in FOLLOWED]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files that the examples speak of, small."""
    array = np.arange(12 * 10 * 8, dtype=np.int16).reshape(12, 10, 8)
    (tmp_path / "scan").mkdir()
    for i in range(3):
        for j in range(2):
            block = array[4 * i : 4 * i + 4, 5 * j : 5 * j + 5]
            np.save(tmp_path / "scan" / f"b_{i}_{j}_0.npy", block)
    np.save(tmp_path / "volume.npy", array)
    (tmp_path / "rois.txt").write_text("# around the left nucleus\n0:6,2:7\n3:9,:,2:5   # more\n")
    (tmp_path / "slices").mkdir()
    for number, picture in enumerate(array, 1):
        tifffile.imwrite(tmp_path / "slices" / f"slice_{number}.tif", picture)
    stack, about = array.reshape(2, 3, 2, 10, 8), {"axes": "TZCYX"}
    tifffile.imwrite(tmp_path / "hyper.tif", stack, imagej=True, metadata=about)
    make_groups(tmp_path)
    make_brain(tmp_path, array)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_groups(folder: Path) -> None:
    """Make a dataset and an image, as groups of Zarr arrays."""
    axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "zyx")]
    level = {
        "path": "0",
        "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0, 0.5, 0.5]}],
    }
    about = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [level], "name": "i"}]}
    year = zarr.create_group(folder / "year.zarr", attributes={"title": "A year"})
    image = zarr.create_group(folder / "image.zarr", attributes={"ome": about})
    for group, path, names, shape in [
        (year, "t", ["time", "y", "x"], (48, 6, 8)),
        (year, "time", ["time"], (48,)),
        (image, "0", ["c", "z", "y", "x"], (2, 8, 8, 8)),
    ]:
        made = group.create_array(path, shape=shape, dtype="i2", dimension_names=names)
        made[...] = np.arange(np.prod(shape)).reshape(shape)
    year["time"].attrs["units"] = HOURS

    make_file(folder / "year.nc")


def make_brain(folder: Path, array: NDArray[Any]) -> None:
    """Make a brain that lies obliquely, as one file and as blocks whose names have other axes."""
    affine = np.array([[1, 0.1, 0, -9], [-0.1, 1, 0, -7], [0, 0, 2, 5], [0, 0, 0, 1.0]])
    brain = nib.Nifti1Image(array, affine)
    nib.save(brain, folder / "brain.nii.gz")
    (folder / "brain_blocks").mkdir()
    for x, y in ((0, 0), (0, 5), (6, 0), (6, 5)):
        block = brain.slicer[x : x + 6, y : y + 5, :]
        nib.save(block, folder / "brain_blocks" / f"block_{y}_0_{x}.nii")


def make_file(path: Path) -> None:
    """Make a file of several variables of NetCDF."""
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("lat", 6), ("lon", 8)):
            file.createDimension(name, length)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(48)
        file["time"].units = HOURS
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(75, -75, 6)
        file.createVariable("lon", "f4", ("lon",))[:] = np.arange(8) * 45
        for name in ("tas", "pr"):
            file.createVariable(name, "f4", ("time", "lat", "lon"))[:] = np.zeros((48, 6, 8))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_are_found(page: Path) -> None:
    """Every example is of a kind that is run, and none is passed over because it is not seen."""
    text = page.read_text()
    opened = re.findall(r"^\s*```+(\S+)", text, re.MULTILINE)

    examples = [kind for kind in opened if kind not in DIRECTIVES]
    assert set(examples) <= set(KINDS)
    assert sum(len(_examples(page, kind)) for kind in KINDS) == len(examples)
    assert len(_all_commands(page)) == len(re.findall(r"^\s*\$ dask-io", text, re.MULTILINE))


def test_there_are_examples() -> None:
    """The pages that lead a new user are among those with examples."""
    names = {page.name for page in WITH_COMMANDS}
    assert {"README.md", "extract.md", "resume.md", "zarr.md"} <= names
    assert all(_pages_with(kind) for kind in KINDS)


@pytest.fixture
def scheduler_file(folder: Path) -> Iterator[None]:
    """Write the file of a scheduler whose worker is in this process."""
    distributed: Any = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.write_scheduler_file(str(folder / "scheduler.json"))
        yield


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_run(page: Path, request: pytest.FixtureRequest) -> None:
    """The commands of a page succeed, in their order, and print what the page shows."""
    commands = _all_commands(page)
    if any("s3://" in word for words, _ in commands for word in words):
        request.getfixturevalue("server")
    if any("--scheduler" in words for words, _ in commands):
        request.getfixturevalue("scheduler_file")
    for words, shown in commands:
        _run(words, shown)


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_pages_can_be_followed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page for new users run in their order, and print what the page shows."""
    monkeypatch.chdir(tmp_path)
    for kind, text in FENCE.findall(page.read_text()):
        if kind == "python":
            exec(compile(text, str(page), "exec"), {})  # noqa: S102
        elif kind == "console":
            for words, shown in _commands(text):
                _run(words, shown)


@pytest.mark.parametrize("page", _pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run(page: Path, folder: Path) -> None:
    """Every Python example of a page runs, each in a namespace of its own."""
    for example in _examples(page, "python"):
        for name in ("out", "blocks", "volume2.npy"):
            subprocess.run(["rm", "-rf", folder / name], check=True)
        exec(compile(f"import dask.array, dask_io\n{example}", str(page), "exec"), {})  # noqa: S102


@pytest.mark.parametrize("page", _pages_with("pycon"), ids=lambda page: page.name)
def test_sessions_print_what_they_show(page: Path) -> None:
    """Every interactive example of a page prints what the page says."""
    sessions = "\n".join(_examples(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(sessions, {}, page.name, str(page), 0)

    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_links_lead_somewhere(tmp_path: Path) -> None:
    """The pages are built without a warning; the notebook has a test of its own."""
    options = ["-W", "--keep-going", "--quiet", "--builder", "dummy"]
    options += ["--define", "nb_execution_mode=off"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ROOT / "docs", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (built.returncode, built.stderr) == (0, "")
