"""What formats that are HDF5 inside may use of HDF5; they import nothing else of it."""

from dask_io.formats.hdf5 import Hdf5Format
from dask_io.formats.hdf5.attributes import (
    INTERNAL,
    Attribute,
    as_attribute,
    attributes_of,
    plain_attributes,
    write_attributes,
)
from dask_io.formats.hdf5.create import in_one_go, make_dataset
from dask_io.formats.hdf5.dataset import refuse_others, understand
from dask_io.formats.hdf5.file import (
    find_dataset,
    in_memory,
    in_subprocess,
    make_groups,
    open_own,
    reading,
    understanding,
    writing,
)
from dask_io.formats.hdf5.filters import type_of
from dask_io.formats.hdf5.scales import BARE, HIDDEN, found_around, is_bare, noted_dimensions
from dask_io.formats.hdf5.source import (
    Dialect,
    Hdf5Chunks,
    open_hdf5,
    read_description,
    reopen_hdf5,
)
from dask_io.formats.hdf5.target import Hdf5Target
from dask_io.formats.hdf5.tree import read_tree
from dask_io.formats.hdf5.tree_content import Hdf5Model
from dask_io.formats.hdf5.types import path_of_type

__all__ = [
    "BARE",
    "HIDDEN",
    "INTERNAL",
    "Attribute",
    "Dialect",
    "Hdf5Chunks",
    "Hdf5Format",
    "Hdf5Model",
    "Hdf5Target",
    "as_attribute",
    "attributes_of",
    "find_dataset",
    "found_around",
    "in_memory",
    "in_one_go",
    "in_subprocess",
    "is_bare",
    "make_dataset",
    "make_groups",
    "noted_dimensions",
    "open_hdf5",
    "open_own",
    "path_of_type",
    "plain_attributes",
    "read_description",
    "read_tree",
    "reading",
    "refuse_others",
    "reopen_hdf5",
    "type_of",
    "understand",
    "understanding",
    "write_attributes",
    "writing",
]
