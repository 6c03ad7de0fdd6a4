"""The registry of formats: a row for each built-in format, and those of other packages.

A row contains everything that is needed to recognise a format. Its module, and the library that
the module needs, are loaded only to open or create an array.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from dask_io.errors import StorageError, UsageError, did_you_mean
from dask_io.storage.files import peeking, read_whole
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.hierarchy.container import TreeContainer
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format
    from dask_io.stores.container import Container

    AnyFormat: TypeAlias = Format | Container

ENTRY_POINTS = "dask_io.formats"
# The largest JSON document in which marks are looked for.
_LONGEST_JSON = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Files:
    """A mark of directories: they contain all these names. Those of directories end in ``/``."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bytes:
    """A mark of files: they have these bytes at an offset."""

    content: bytes
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Json:
    """A mark of directories: they contain a file with a JSON object that has all these keys."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Everything that is known about a format before its module is loaded.

    Attributes
    ----------
    name
        Its name for users, and the extra that installs its library.
    suffixes
        Suffixes of its files or directories, with the dot.
    blocks
        Address of the object that describes its block files, as ``module:name``; empty if the
        format has no block files.
    container
        Address of its `Container`; empty if the format has block files only.
    marks
        Marks in the content by which a container is recognised; one of them is enough.
    is_one_file
        Whether a container is a file, not a directory.
    holds_trees
        Whether a container holds groups, or files with several arrays: it is a `TreeContainer`.
    shared
        Suffixes that files of other formats may also have, if the format is given by name.
    order
        ``"C"`` or ``"F"`` if a container always stores elements in this order; see `fixed_order`.
    library
        The library that its module imports and that must be installed.
    object_class, objects
        The class of its library whose instances are arrays of this format, as ``module:name``, and
        our module that opens them. It has two functions: ``open_object`` returns a source, and
        ``fill_object`` a target that is filled in place.
    dialect_of
        Name of the format whose containers it uses, if it is a convention within another format.
    """

    name: str
    suffixes: tuple[str, ...]
    blocks: str = ""
    container: str = ""
    marks: tuple[Files | Bytes | Json, ...] = ()
    is_one_file: bool = False
    holds_trees: bool = False
    shared: tuple[str, ...] = ()
    order: str = ""
    library: str = ""
    object_class: str = ""
    objects: str = ""
    dialect_of: str = ""

    def load(self) -> AnyFormat:
        """Import the format's module, and return its container or else its block format.

        Raises
        ------
        UsageError
            If it cannot be imported; the message contains the command that installs its library.
        """
        return self.load_container() if self.container else self.load_blocks()

    def fixed_order(self) -> str:
        """Return the order of a new target, ``"C"`` or ``"F"``; empty if it can have any."""
        return self.order if self.container else self.load_blocks().order

    @property
    def is_installed(self) -> bool:
        """Whether the library that its module imports is installed."""
        return not self.library or find_spec(self.library) is not None

    def load_container(self) -> Container:
        """Return the container; see `load`."""
        return cast("Container", _load(self.name, self.container, self.library))

    def load_tree_container(self) -> TreeContainer:
        """Return the container of a format that holds trees; see `load`."""
        assert self.holds_trees, f"{self.name} does not hold trees"
        return cast("TreeContainer", self.load_container())

    def load_blocks(self) -> Format:
        """Return the format of its block files; see `load`.

        Raises
        ------
        UsageError
            If the format has no block files.
        """
        if not self.blocks:
            raise UsageError(
                f"several {self.name} files are not one array; give one path ending in "
                f"{self.suffixes[0]}"
            )
        return cast("Format", _load(self.name, self.blocks, self.library))

    def recognises(self, path: Location) -> bool:
        """Tell by its content whether an existing path is of this format."""
        try:
            with storage_errors(path):
                return any(_has_mark(path, mark) for mark in self.marks)
        except StorageError as error:
            # Report the path that the user gave, not a file in it.
            raise type(error)(str(path), error.reason, error.advice) from error


def _load(name: str, address: str, library: str = "") -> object:
    module, _, attribute = address.partition(":")
    try:
        with needs(name, library) if library else nullcontext():
            return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"format {name} cannot be loaded from {address}: {error}") from error


def _has_mark(path: Location, mark: Files | Bytes | Json) -> bool:
    match mark:
        case Files(names):
            return all(
                (path / name).is_dir() if name.endswith("/") else (path / name).is_file()
                for name in names
            )
        case Bytes(content, offset):
            if not path.is_file():
                return False
            with peeking(path) as peek:
                return peek(offset + len(content))[offset:] == content
        case Json(name, keys):
            return (path / name).is_file() and all(key in _json_object(path / name) for key in keys)


def _json_object(path: Location) -> dict[str, Any]:
    """Return the JSON object in a file, an empty one if the file contains anything else."""
    content = read_whole(path, _LONGEST_JSON)
    with suppress(ValueError, RecursionError):
        found = json.loads(content) if len(content) <= _LONGEST_JSON else None
        return found if isinstance(found, dict) else {}
    return {}


_HDF5 = b"\x89HDF\r\n\x1a\n"
# Proprietary files of microscopes. Those that are TIFF or HDF5 files, such as .lsm, are opened.
_MICROSCOPES = frozenset((".nd2", ".czi", ".lif", ".oib", ".oif", ".oir", ".vsi", ".zvi"))
_PICTURES = frozenset((".jpg", ".jpeg", ".gif", ".bmp", ".webp"))
# Built-in formats are not entry points, because searching all installed packages is slow.
_ROWS = (
    Row("npy", (".npy",), blocks="dask_io.formats.npy:FORMAT"),
    Row("raw", (".raw", ".bin", ".dat"), blocks="dask_io.formats.raw:FORMAT"),
    Row(
        "npy-stack",
        (".npystack",),
        container="dask_io.formats.npy_stack:FORMAT",
        marks=(Files(("info", "0.npy")),),
    ),
    Row(
        "zarr",
        (".zarr",),
        container="dask_io.formats.zarr:FORMAT",
        object_class="zarr:Array",
        objects="dask_io.formats.zarr.objects",
        marks=(Files(("zarr.json",)), Files((".zarray",)), Files((".zgroup",))),
        holds_trees=True,
        library="zarr",
    ),
    Row(
        "ome-zarr",
        (".ome.zarr",),
        container="dask_io.formats.zarr.ome_format:FORMAT",
        dialect_of="zarr",
        library="zarr",
    ),
    Row(
        "hdf5",
        (".h5", ".hdf5", ".hdf"),
        blocks="dask_io.formats.hdf5.blocks:FORMAT",
        container="dask_io.formats.hdf5:FORMAT",
        object_class="h5py:Dataset",
        objects="dask_io.formats.hdf5.objects",
        # The signature comes first, or after a user block.
        marks=tuple(Bytes(_HDF5, offset) for offset in (0, 512, 1024, 2048, 4096)),
        is_one_file=True,
        holds_trees=True,
        order="C",
        library="h5py",
    ),
    Row(
        "icechunk",
        (".icechunk",),
        container="dask_io.formats.icechunk:FORMAT",
        # Snapshots are listed in references or, since version 2, in one file.
        marks=(Files(("snapshots/", "refs/")), Files(("snapshots/", "repo"))),
        library="icechunk",
    ),
    Row(
        "n5",
        (".n5",),
        container="dask_io.formats.n5:FORMAT",
        # The root of a container, or a dataset in one.
        marks=(
            Json("attributes.json", ("n5",)),
            Json("attributes.json", ("dimensions", "blockSize", "dataType")),
        ),
        order="C",
        library="numcodecs",
    ),
    Row(
        "netcdf",
        (".nc", ".nc4"),
        container="dask_io.formats.netcdf:FORMAT",
        # Version 3; version 4 has the signature of HDF5.
        marks=(Bytes(b"CDF"),),
        is_one_file=True,
        holds_trees=True,
        order="C",
        library="h5py",
    ),
    Row(
        "precomputed",
        (".precomputed",),
        container="dask_io.formats.precomputed:FORMAT",
        # Early volumes have no entry "@type".
        marks=(Json("info", ("scales", "data_type", "num_channels")),),
        library="numcodecs",
    ),
    Row(
        "minc",
        (".mnc",),
        blocks="dask_io.formats.minc.blocks:FORMAT",
        container="dask_io.formats.minc:FORMAT",
        is_one_file=True,
        order="C",
        library="h5py",
    ),
    Row(
        "png",
        (".png",),
        blocks="dask_io.formats.png:FORMAT",
        marks=(Bytes(b"\x89PNG\r\n\x1a\n"),),
        library="imagecodecs",
    ),
    Row(
        "tiff",
        (".tif", ".tiff", ".btf"),
        blocks="dask_io.formats.tiff.blocks:FORMAT",
        container="dask_io.formats.tiff:FORMAT",
        # Classic and BigTIFF, in either byte order.
        marks=tuple(map(Bytes, (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"))),
        is_one_file=True,
        order="C",
        library="tifffile",
    ),
    Row("mgh", (".mgh", ".mgz", ".mgh.gz"), blocks="dask_io.formats.mgh:FORMAT"),
    Row(
        "mrc",
        (".mrc", ".mrcs", ".map", ".rec", ".mrc.gz", ".map.gz"),
        blocks="dask_io.formats.mrc:FORMAT",
        marks=(Bytes(b"MAP ", 208),),
    ),
    Row(
        "nrrd",
        (".nrrd", ".nhdr"),
        blocks="dask_io.formats.nrrd:FORMAT",
        marks=(Bytes(b"NRRD000"),),
    ),
    Row(
        "metaimage",
        (".mha", ".mhd"),
        blocks="dask_io.formats.metaimage:FORMAT",
        marks=(Bytes(b"ObjectType = Image"),),
    ),
    Row(
        "fits",
        (".fits", ".fit", ".fts", ".fits.gz", ".fit.gz", ".fts.gz"),
        blocks="dask_io.formats.fits:FORMAT",
        marks=(Bytes(b"SIMPLE  ="),),
    ),
    Row(
        "nifti",
        (".nii", ".nii.gz", ".img", ".hdr"),
        blocks="dask_io.formats.nifti:FORMAT",
        shared=(".img", ".hdr"),
        order="F",
        marks=(
            *(Bytes(magic, 344) for magic in (b"n+1\0", b"ni1\0")),
            *(Bytes(magic, 4) for magic in (b"n+2\0", b"ni2\0")),
        ),
        library="nibabel",
    ),
    Row(
        "analyze",
        (".img", ".hdr"),
        blocks="dask_io.formats.analyze:FORMAT",
        shared=(".img", ".hdr"),
    ),
)
_OURS = {row.name: row for row in _ROWS}


def built_in_names() -> list[str]:
    """Return the names of the formats of Dask IO itself."""
    return list(_OURS)


def format_names() -> list[str]:
    """Return the names of all formats, those of other packages last."""
    return [*_OURS, *sorted(_others().keys() - _OURS.keys())]


# Cached, because it searches all installed packages.
@cache
def _others() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def find_row(name: str) -> Row:
    """Return the row of a format by its name, importing it if another package defines it.

    Raises
    ------
    UsageError
        If the format is unknown, or the other package cannot be imported.
    """
    if name in _OURS:
        return _OURS[name]
    address = _others().get(name)
    if address is None:
        guess = did_you_mean(name, format_names())
        known = f"; formats are {', '.join(format_names())}"
        raise UsageError(f"format '{name}' is unknown{guess or known}")
    found = _load(name, address)
    return (
        found if isinstance(found, Row) else Row(name, cast("Format", found).all_suffixes, address)
    )


def target_row_of(name: str) -> Row | None:
    """Return the row of the format that a new target gets by its name: the longest suffix counts.

    Examples
    --------
    A new ``x.ome.zarr`` is an image; an existing one is opened as a Zarr group, as any image is.

    >>> target_row_of("x.ome.zarr").name, row_of("x.ome.zarr").name, target_row_of("x.zarr").name
    ('ome-zarr', 'zarr', 'zarr')
    """
    found = ((suffix, row) for row in _ROWS for suffix in row.suffixes if name.endswith(suffix))
    longest = max(found, key=lambda each: len(each[0]), default=None)
    return row_of(name) if longest is None else longest[1]


def row_of(name: str) -> Row | None:
    """Return the row of the format with the suffix of a file or directory name."""
    # All suffixes have a dot. Without one, the slow search for other packages is skipped.
    if "." not in name:
        return None
    for row in _ROWS:
        if name.endswith(row.suffixes):
            return row
    others = map(find_row, sorted(_others().keys() - _OURS.keys()))
    return next((row for row in others if name.endswith(row.suffixes)), None)


def load_format(name: str) -> AnyFormat:
    """Return a format by its name; its module is imported only now.

    Raises
    ------
    UsageError
        If the format is unknown, or its library is not installed.

    Examples
    --------
    >>> load_format("npy").suffixes
    ('.npy',)
    """
    return find_row(name).load()


def target_format_of(name: str) -> AnyFormat | None:
    """Return the format that a new target gets by its name."""
    row = target_row_of(name)
    return None if row is None else row.load()


def choose_format(path: Location, name: str | None) -> Format:
    """Return a format of block files, by its name if one is given, else by the suffix."""
    by_suffix = row_of(path.name)
    chosen = _recognised(path, by_suffix) if name is None else find_row(name)
    if chosen is None and path.is_file():
        chosen = next((row for row in _ROWS if row.blocks and row.recognises(path)), None)
    if chosen is None:
        suffixes = [suffix for row in _ROWS for suffix in row.suffixes]
        known = f"; give one of {', '.join(format_names())} with --format or --source-format"
        advice = _instead_of(path.suffix.lower()) or did_you_mean(path.suffix, suffixes) or known
        raise UsageError(f"{path} does not have the suffix of a known format{advice}")
    blocks = chosen.load_blocks()
    is_other = by_suffix is not None and by_suffix.name != chosen.name
    if by_suffix is not None and is_other and not path.name.endswith(by_suffix.shared):
        raise UsageError(f"{path} has the suffix of {by_suffix.name}, but format is {name}")
    return blocks.of_file(path.name)


def _instead_of(suffix: str) -> str:
    """Return a clause for an error about a format of other programs; empty for any other suffix."""
    if suffix in _MICROSCOPES:
        return "; bioformats2raw converts files of microscopes to OME-Zarr, which Dask IO reads"
    return "; use TIFF (.tif) for pictures" if suffix in _PICTURES else ""


def _recognised(path: Location, by_suffix: Row | None) -> Row | None:
    """Return the row of a file by its suffix or, if formats share the suffix, by the content."""
    if by_suffix is None or not path.name.endswith(by_suffix.shared) or not path.is_file():
        return by_suffix
    stem = path.name.removesuffix(path.suffix)
    files = [path.with_name(stem + suffix) for suffix in by_suffix.shared]
    if any(by_suffix.recognises(file) for file in files if file.is_file()):
        return by_suffix
    others = (row for row in _ROWS if row is not by_suffix and path.name.endswith(row.shared))
    return next(others, by_suffix)


def find_object_module(obj: Any) -> Any:
    """Return the module that opens an array of another library; None if no format has one.

    No library is imported to find out. Subclasses do not count, because they may read and write
    differently.
    """
    for row in _ROWS:
        library, _, name = row.object_class.partition(":")
        if library and type(obj) is getattr(sys.modules.get(library), name, None):
            return import_module(row.objects)
    return None


def tree_rows() -> Iterator[Row]:
    """Yield the rows of containers that hold trees; those of other packages come last."""
    yield from (row for row in _ROWS if row.holds_trees)
    # Searching the installed packages is slow, and rarely needed.
    for name in sorted(_others().keys() - _OURS.keys()):
        # Trees of other formats can be moved even if another package is broken.
        with suppress(UsageError):
            row = find_row(name)
            if row.holds_trees:
                yield row


def find_container(path: Location, name: str | None) -> Container | None:
    """Return the container at a path, by the format's name, the suffix, or the content."""
    row = find_container_row(path, name)
    return None if row is None else row.load_container()


def find_container_row(path: Location, name: str | None) -> Row | None:
    """Return the row of the container at a path, as `find_container` does."""
    row = find_row(name) if name is not None else row_of(path.name)
    if row is None:
        if not path.exists():
            return None
        with storage_errors(path):
            rows = map(find_row, format_names())
            row = next((row for row in rows if row.recognises(path)), None)
    elif row.blocks and path.is_dir():
        return None
    return row if row is not None and row.container else None
