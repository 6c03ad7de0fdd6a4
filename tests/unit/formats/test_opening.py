"""From paths to stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, MissingLibraryError, SamePlaceError, StorageError, UsageError
from dask_io.formats import check_places, make_target, open_source
from dask_io.formats.registry import Bytes, Row, find_row, format_names, load_format
from dask_io.formats.reopening import read_back, remake_target, reopen_source
from dask_io.geometry import Grid, Layout
from dask_io.storage.medium import Durability
from dask_io.stores.block_files_target import BlockFilesTarget
from dask_io.stores.block_format import Format
from dask_io.stores.container import TargetOptions

if TYPE_CHECKING:
    from dask_io.stores.container import NewArray

GRID = Grid.regular((4, 6), (2, 3))


def target_at(path: str | Path, **changes: Any) -> BlockFilesTarget:
    """Describe a target of four blocks, unless told otherwise."""
    given: dict[str, Any] = {
        "grid": GRID,
        "dtype": np.dtype("<f4"),
        "layout": Layout.c(2),
    } | changes
    target = make_target(path, **given)
    assert isinstance(target, BlockFilesTarget)
    return target


@pytest.mark.parametrize("name", format_names())
def test_rows_say_what_formats_do(name: str) -> None:
    """The registry recognises a format by the name and the suffixes that its object has."""
    row = find_row(name)
    loaded = row.load()
    suffixes = loaded.all_suffixes if isinstance(loaded, Format) else loaded.suffixes
    assert (row.name, row.suffixes) == (name, suffixes)
    assert row.load().name == name
    if row.blocks:
        assert (row.load_blocks().name, row.load_blocks().all_suffixes) == (name, row.suffixes)


@pytest.mark.parametrize("name", ["npy", "raw"])
def test_our_formats_need_no_entry_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own formats are there even if nothing is announced."""
    monkeypatch.setattr("dask_io.formats.registry._others", dict)
    assert load_format(name).name == name


def test_other_packages_add_formats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An entry point is a format by name and suffix, and is loaded when it is used."""
    entries = dict.fromkeys(["mine", "npy"], "tests_no_such_module:FORMAT")
    monkeypatch.setattr("dask_io.formats.registry._others", lambda: entries)
    assert format_names()[:2] == ["npy", "raw"]
    assert format_names().count("npy") == 1
    assert format_names()[-1] == "mine"
    assert load_format("npy").name == "npy"
    with pytest.raises(UsageError, match="format mine cannot be loaded from tests_no_such_module"):
        target_at(tmp_path / "x", format="mine")


class Memory:
    """A container of another package, whose arrays are in memory and of one type."""

    name = "memory"
    suffixes = (".memory",)

    def open(self, path: Path, inside: str, *, strict: bool) -> Any:
        """Open the only array there is."""
        return SimpleNamespace(place=f"{path}|{inside}", strict=strict)

    def make(self, path: Path, inside: str, wanted: NewArray, **how: bool) -> Any:
        """Make a target."""
        wanted.options.refuse(self.name)
        return SimpleNamespace(place=f"{path}|{inside}", grid=wanted.grid, **how)

    def reopen(self, described: Any, at: Path | None, absent: Any) -> Any:
        """Open an array again."""
        return SimpleNamespace(place=f"{at or described['folder']}", absent=absent)

    def read_back(self, described: Any, at: Path) -> Any:
        """Open what was a target."""
        return SimpleNamespace(place=f"{at}", grid=described["grid"])

    def remake(self, described: Any, at: Path, **how: Any) -> Any:
        """Make a target again."""
        if "grid" not in described:
            raise ValueError("has no grid")
        return SimpleNamespace(place=f"{at}", **how)


def test_other_packages_add_containers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One module and an entry point: found by name, suffix and content, opened and made."""
    module = ModuleType("their_module")
    module.FORMAT = Memory()  # type: ignore[attr-defined]
    module.ROW = Row(  # type: ignore[attr-defined]
        "memory", (".memory",), container="their_module:FORMAT", marks=(Bytes(b"memory"),)
    )
    monkeypatch.setitem(sys.modules, "their_module", module)
    entries = {"memory": "their_module:ROW"}
    monkeypatch.setattr("dask_io.formats.registry._others", lambda: entries)

    (tmp_path / "x.memory").write_bytes(b"")
    (tmp_path / "y").write_bytes(b"memory")
    assert open_source(tmp_path / "x.memory").place == f"{tmp_path}/x.memory|"
    assert open_source(f"{tmp_path}/x.memory::/a/b").place == f"{tmp_path}/x.memory|a/b"
    assert open_source(tmp_path / "y").place == f"{tmp_path}/y|"
    with pytest.raises(UsageError, match="has the suffix of memory, but format is raw"):
        open_source(tmp_path / "x.memory", format="raw", shape=(1,), dtype="u1")
    kind: Any = {"grid": GRID, "dtype": np.dtype("<f4"), "layout": Layout.c(2)}
    made = make_target(tmp_path / "z.memory::a", **kind, overwrite=True)
    assert (made.place, made.grid) == (f"{tmp_path}/z.memory|a", GRID)
    assert make_target(tmp_path / "z", format="memory", **kind).place == f"{tmp_path}/z|"
    with pytest.raises(UsageError, match="format memory has no codec; leave it out"):
        make_target(tmp_path / "z.memory", **kind, options=TargetOptions(codec="zstd:3"))
    with pytest.raises(UsageError, match="is a pattern, but memory does not store block files"):
        make_target(tmp_path / "b_{0}_{1}.memory", **kind)

    described, place = {"format": "memory", "folder": "then", "grid": GRID}, Path("x::/a/b")
    how: Any = {"durability": Durability.NONE, "reserve": False}
    assert reopen_source(described).place == "then"
    assert read_back(described, at=place).grid == GRID
    assert remake_target(described, at=place, **how).place == "x/a/b"
    with pytest.raises(DataError, match="x: its description has no grid"):
        remake_target({"format": "memory"}, at=Path("x"), **how)


@pytest.mark.parametrize("target", ["out.h5", "blocks"])
def test_a_finished_target_without_its_library_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
) -> None:
    """Every command names the library; data that is whole is not to be repaired."""
    np.save(tmp_path / "in.npy", np.arange(12.0).reshape(3, 4))
    name = "hdf5" if target == "blocks" else None
    dask_io.resplit(tmp_path / "in.npy", tmp_path / target, chunks=2, format=name)
    for module in [name for name in sys.modules if name.startswith("dask_io.formats.")]:
        if module.split(".")[2] in {"zarr", "hdf5"}:
            monkeypatch.delitem(sys.modules, module)
    for library in ("zarr", "h5py"):
        monkeypatch.setitem(sys.modules, library, None)

    for verb in (dask_io.verify, dask_io.repair, dask_io.resume, dask_io.open):
        with pytest.raises(MissingLibraryError, match="install it with: pip install"):
            verb(tmp_path / target)
    with pytest.raises(StorageError, match="no such file or directory"):
        dask_io.open(tmp_path / f"absent{target}")


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the command that installs it, for sources and targets alike."""
    for name in [name for name in sys.modules if name.startswith("dask_io.formats.hdf5")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    says = r"format hdf5 needs h5py, .*; install it with: pip install 'dask-io\[hdf5\]'"
    with pytest.raises(UsageError, match=says):
        open_source(tmp_path / "x.h5")
    with pytest.raises(UsageError, match=says):
        make_target(tmp_path / "y.h5", grid=GRID, dtype=np.dtype("<f4"), layout=Layout.c(2))


def test_libraries_are_imported_when_they_are_needed(tmp_path: Path) -> None:
    """Neither `import dask_io` nor block files bring zarr along."""
    np.save(tmp_path / "x.npy", np.zeros(3))
    program = (
        "import sys, dask_io; dask_io.info('x.npy');"
        "print(sorted({'zarr', 'numcodecs'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["nothing", "nothing.npy", "no/where/b_{0}.npy"])
def test_absent_paths_are_a_matter_of_storage(name: str, tmp_path: Path) -> None:
    """Whatever the path looks like."""
    with pytest.raises(StorageError, match="no such file or directory; check the path"):
        open_source(tmp_path / name)


def test_unknown_suffixes_name_the_formats(tmp_path: Path) -> None:
    """Formats are listed to source and target alike."""
    (tmp_path / "x.zip").write_bytes(b"")
    with pytest.raises(UsageError, match="give one of npy, raw"):
        open_source(tmp_path / "x.zip")
    with pytest.raises(UsageError, match="give one of npy, raw"):
        target_at(tmp_path / "y.zip")
    with pytest.raises(UsageError, match="format 'zip' is unknown; formats are npy, raw"):
        target_at(tmp_path / "y", format="zip")


@pytest.mark.parametrize("files", [[], ["notes.txt"], ["a0.npy", "a0.raw"]])
def test_directories_that_show_no_blocks_are_refused(files: list[str], tmp_path: Path) -> None:
    """The advice is to name a pattern."""
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        DataError, match=r"give (a pattern of block files|those of one format), as in"
    ):
        open_source(tmp_path)


def test_strangers_beside_blocks_are_left_aside(tmp_path: Path) -> None:
    """Without a manifest, files of no format and hidden ones do not matter."""
    np.save(tmp_path / "b_0.npy", np.zeros(3))
    (tmp_path / "README.txt").write_text("about")
    (tmp_path / ".DS_Store").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    assert open_source(tmp_path).grid.shape == (3,)


def test_strangers_beside_a_manifest_are_left_aside(tmp_path: Path) -> None:
    """Notes do no harm; another file of the format may be a block that nobody knows."""
    np.save(tmp_path / "x.npy", np.zeros(6))
    dask_io.resplit(tmp_path / "x.npy", tmp_path / "out", chunks=3)
    (tmp_path / "out" / "README.txt").write_text("about")
    assert open_source(tmp_path / "out").grid.shape == (6,)
    np.save(tmp_path / "out" / "more.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"more\.npy is extra: it is not a block"):
        open_source(tmp_path / "out")


def test_one_file_of_each_format(tmp_path: Path) -> None:
    """A file is a grid of one block, in the order that its header or the user says."""
    array = np.asfortranarray(np.arange(24.0).reshape(4, 6))
    np.save(tmp_path / "x.npy", array)
    source = open_source(str(tmp_path / "x.npy"))
    assert (source.grid.n_blocks, source.layout.name, source.format) == (1, "F", "npy")
    (tmp_path / "x.bin").write_bytes(array.tobytes())
    source = open_source(tmp_path / "x.bin", shape=(4, 6), dtype="f8", order="1,0")
    assert (source.grid.n_blocks, source.layout.name, source.format) == (1, "F", "raw")
    (tmp_path / "odd.name").write_bytes(array.tobytes())
    assert open_source(tmp_path / "odd.name", shape=[24], dtype="f8").format == "raw"


def _save_raw_blocks(folder: Path, shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    """Save an array in raw blocks that are numbered from 1."""
    array = np.arange(np.prod(shape), dtype="<u2").reshape(shape)
    for i, j in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk, strict=True))):
        block = array[i * chunk[0] : (i + 1) * chunk[0], j * chunk[1] : (j + 1) * chunk[1]]
        (folder / f"b_{i + 1}_{j + 1}.raw").write_bytes(block.tobytes(order="F"))


@pytest.mark.parametrize("chunk", [(4, 3), (5, 3), (12, 4)])
def test_raw_blocks_suggest_their_chunks(chunk: tuple[int, int], tmp_path: Path) -> None:
    """Equal files, also with clipped ones at the end, have one possible shape."""
    _save_raw_blocks(tmp_path, (12, 10), chunk)
    given: dict[str, Any] = {"shape": (12, 10), "dtype": "<u2", "order": "F"}
    said = f"numbered as .* blocks; give their shape with --source-chunks {chunk[0]},{chunk[1]}$"
    with pytest.raises(UsageError, match=said):
        open_source(tmp_path, **given)

    assert open_source(tmp_path, **given, chunks=chunk).grid.longest == chunk


def test_raw_blocks_of_unknown_shape(tmp_path: Path) -> None:
    """If no shape follows from numbers and sizes, none is suggested."""
    _save_raw_blocks(tmp_path, (12, 10), (4, 3))
    with pytest.raises(UsageError, match=r"numbered as 3 x 4 blocks; .* with --source-chunks$"):
        open_source(tmp_path, shape=(12, 11), dtype="<u2")


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ({}, "give --source-shape and --source-dtype"),
        ({"shape": (4, 6)}, "give --source-dtype"),
        ({"dtype": "f8"}, "give --source-shape"),
        ({"shape": (4, 6), "dtype": "O"}, "Python objects"),
        ({"shape": (4, 6), "dtype": "f99"}, "dtype 'f99' is not known"),
        ({"shape": (4, 6), "dtype": "f8", "chunks": 2}, "is one file, so it is one block"),
        ({"shape": (4, 6), "dtype": "f8", "order": "Z"}, "order 'Z' is not C, F or the 2 axes"),
        ({"shape": (4, 6), "dtype": "f8", "order": "0"}, "order '0'"),
        ({"shape": (-4, 6), "dtype": "f8"}, "-4"),
        ({"shape": (), "dtype": "f8"}, "0 axes"),
    ],
)
def test_raw_files_need_a_description(
    description: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """What is missing or wrong is named."""
    (tmp_path / "x.raw").write_bytes(bytes(24 * 8))
    with pytest.raises(UsageError, match=says):
        open_source(tmp_path / "x.raw", **description)


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ({"shape": (6, 4)}, "has shape"),
        ({"dtype": "f4"}, "has dtype"),
        ({"order": "F"}, "has order C"),
        ({"chunks": 2}, "has blocks of 4 x 6, but 2 x 2"),
        ({"format": "raw"}, "has the suffix of npy, but format is raw"),
    ],
)
def test_contradictions_are_refused(description: dict[str, Any], says: str, tmp_path: Path) -> None:
    """A description of what describes itself has to agree with it."""
    np.save(tmp_path / "x.npy", np.zeros((4, 6)))
    with pytest.raises(UsageError, match=says):
        open_source(tmp_path / "x.npy", **description)
    source = open_source(tmp_path / "x.npy", shape=(4, 6), dtype="f8", order="C", chunks=-1)
    assert source.grid.shape == (4, 6)


def test_manifests_are_believed_before_names(tmp_path: Path) -> None:
    """A format that the manifest contradicts, or does not exist, is an error."""
    target = target_at(tmp_path / "x", grid=Grid.regular((0, 6), (1, 3)))
    target.create()
    target.finish()
    with pytest.raises(UsageError, match="holds npy blocks, but format is raw"):
        open_source(tmp_path / "x", format="raw")
    manifest = tmp_path / "x" / "dask-io.json"
    manifest.write_text(manifest.read_text().replace('"npy"', '"evil\\u001b"'))
    with pytest.raises(DataError, match=r"format 'evil\\x1b' is unknown"):
        open_source(tmp_path / "x")


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        ("blocks", {}, "blocks/b_{0}_{1}.npy"),
        ("blocks", {"like": "raw"}, "blocks/b_{0}_{1}.raw"),
        ("blocks", {"like": "zarr"}, "blocks/b_{0}_{1}.npy"),
        ("blocks", {"like": "npy", "format": "raw"}, "blocks/b_{0}_{1}.raw"),
        ("blocks.v2/", {}, "blocks.v2/b_{0}_{1}.npy"),
        ("blocks.v2", {"format": "npy"}, "blocks.v2/b_{0}_{1}.npy"),
        ("d/{1:03}-{0}.dat", {}, "d/{1:03}-{0}.dat"),
        ("x.npy", {"grid": Grid.regular((4, 6), (4, 6))}, "./x.npy"),
    ],
)
def test_targets_by_path(path: str, options: dict[str, Any], expected: str) -> None:
    """Suffix, pattern and source decide what a target is; nothing is touched."""
    blocks = target_at(path, **options)._blocks  # noqa: SLF001 - what was decided
    assert f"{blocks.folder}/{blocks.names.pattern}" == expected
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("x.npy", {}, "one file, but the chunks make 4 blocks"),
        ("x", {"layout": Layout((1, 0, 2)), "grid": Grid.regular((1,) * 3, (1,) * 3)}, "C or F"),
        ("x", {"dtype": np.dtype("O")}, "Python objects"),
        ("x/b_{0}.npy", {}, "one slice along axis 0, but chunks are longer than 1"),
        ("x/b_{0}_{0}.npy", {}, "is not a pattern of block files"),
        ("x{0}/b_{1}.npy", {}, "fields outside the file name"),
        ("x/b_{0}_{1}.zip", {}, "give one of npy, raw"),
        ("x/b_{0}_{1}.npy", {"format": "raw"}, "has the suffix of npy, but format is raw"),
    ],
)
def test_impossible_targets_are_refused(path: str, options: dict[str, Any], says: str) -> None:
    """Before anything is touched, in one line."""
    with pytest.raises(UsageError, match=says):
        target_at(path, **options)


def test_braces_in_real_names_are_names(tmp_path: Path) -> None:
    """A path that exists is that path, whatever it looks like."""
    folder = tmp_path / "run{0}"
    folder.mkdir()
    np.save(folder / "x{0}.npy", np.zeros(3))
    assert open_source(folder / "x{0}.npy").grid.shape == (3,)
    os.replace(folder / "x{0}.npy", folder / "b_0.npy")  # noqa: PTH105 - a plain rename
    assert open_source(folder / "b_{0}.npy").grid.shape == (3,)


def test_same_and_nested_places_are_refused(tmp_path: Path) -> None:
    """Links do not hide that source and target are one place, or one within the other."""
    source_folder = tmp_path / "src"
    source_folder.mkdir()
    np.save(source_folder / "b_0_0.npy", np.zeros((4, 6)))
    (tmp_path / "link").symlink_to(source_folder)
    source = open_source(source_folder)
    for place in ("src", "link", "src/inner", "link/deep/er", ".", "other/../src"):
        with pytest.raises(SamePlaceError, match=r"are the same|lies in source|contains source"):
            check_places(source, target_at(tmp_path / place))
    one = Grid.regular((4, 6), (4, 6))
    file = open_source(source_folder / "b_0_0.npy")
    with pytest.raises(SamePlaceError):
        check_places(file, target_at(tmp_path / "link" / "b_0_0.npy", grid=one))
    check_places(source, target_at(tmp_path / "srcs"))
    check_places(file, target_at(source_folder / "c.npy", grid=one))


@pytest.mark.parametrize("linked", ["b_0_0.npy", "0"])
def test_links_from_a_source_into_its_target_are_refused(tmp_path: Path, linked: str) -> None:
    """Else what they lead to would be replaced, and the source's values be lost with it."""
    kept, selected = tmp_path / "kept", tmp_path / "selected"
    (kept / "0").mkdir(parents=True)
    (selected / "deep").mkdir(parents=True)
    np.save(kept / "b_0_0.npy", np.zeros((4, 6)))
    np.save(selected / "b_0_0.npy", np.zeros((4, 6)))
    source = open_source(selected)
    (selected / "deep" / "link").symlink_to(kept / linked)
    with pytest.raises(SamePlaceError, match=r"kept contains source .*deep/link"):
        check_places(source, target_at(kept))
    (tmp_path / "other").mkdir()
    check_places(source, target_at(tmp_path / "other"))


def test_suffixes_in_upper_case_are_read(tmp_path: Path) -> None:
    """A folder of files such as Z0.NPY is opened as one of Z0.npy."""
    for number in range(3):
        with (tmp_path / f"Z{number}.NPY").open("wb") as file:
            np.save(file, np.full((4, 5), number))
    for place in (tmp_path, tmp_path / "Z{0:slice}.NPY"):
        found = dask_io.open(place)
        assert found.shape == (3, 4, 5)
        assert found[2, :, :].max() == 2


def test_files_of_containers_are_not_blocks(tmp_path: Path) -> None:
    """A folder of NetCDF files is refused without advice that would be refused, too."""
    for number in range(2):
        (tmp_path / f"tas_{number}.nc").write_bytes(b"CDF\x01")
    with pytest.raises(DataError, match="its netcdf files are not blocks of one array"):
        open_source(tmp_path)
    with pytest.raises(UsageError, match="several netcdf files are not one array"):
        open_source(tmp_path / "tas_{0}.nc")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("scan.nd2", "bioformats2raw converts files of microscopes to OME-Zarr"),
        ("scan.CZI", "bioformats2raw converts"),
        ("scan.jpg", r"use TIFF \(.tif\)"),
        ("scan.npyy", r"did you mean \.npy"),
    ],
)
def test_files_of_other_programs_are_refused_with_what_helps(
    name: str, advice: str, tmp_path: Path
) -> None:
    """A suffix that looks similar is proposed only for formats that are not known."""
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=advice):
        dask_io.open(tmp_path / name)
