"""The part of the HDF5 format that formats based on HDF5 may import."""

from dask_io.formats.hdf5 import Hdf5Format
from dask_io.formats.hdf5.attributes import (
    INTERNAL,
    Attribute,
    as_attribute,
    attributes_of,
    plain_attributes,
    write_attributes,
)
from dask_io.formats.hdf5.blocks import make_head, open_head
from dask_io.formats.hdf5.create import creation_plist, make_dataset
from dask_io.formats.hdf5.dataset import refuse_others, understand
from dask_io.formats.hdf5.file import (
    find_dataset,
    in_subprocess,
    make_groups,
    open_own,
    reading,
    understanding,
    writing,
)
from dask_io.formats.hdf5.filters import type_of
from dask_io.formats.hdf5.scales import BARE, HIDDEN, is_bare, objects_in_scope, recorded_dimensions
from dask_io.formats.hdf5.source import Dialect, open_hdf5, read_description
from dask_io.formats.hdf5.tree import read_tree
from dask_io.formats.hdf5.tree_content import Hdf5Model
from dask_io.formats.hdf5.types import path_of_type

__all__ = [
    "BARE",
    "HIDDEN",
    "INTERNAL",
    "Attribute",
    "Dialect",
    "Hdf5Format",
    "Hdf5Model",
    "as_attribute",
    "attributes_of",
    "creation_plist",
    "find_dataset",
    "in_subprocess",
    "is_bare",
    "make_dataset",
    "make_groups",
    "make_head",
    "objects_in_scope",
    "open_hdf5",
    "open_head",
    "open_own",
    "path_of_type",
    "plain_attributes",
    "read_description",
    "read_tree",
    "reading",
    "recorded_dimensions",
    "refuse_others",
    "type_of",
    "understand",
    "understanding",
    "write_attributes",
    "writing",
]
