"""NIfTI: volumes of the brain with their place in the world, one file each, or one per block.

A file is a header and then the voxels in Fortran order, so its data is read and written by offset.
Stored values are moved as they are: scl_slope and scl_inter stay in the header, and are translated
for formats that have a scaling too. Any number of blocks may be read or written at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.formats.nifti.header import (
    KEY,
    LONGEST_DIMENSION,
    LONGEST_HEADER,
    Kept,
    as_version,
    compare_scaling,
    make_header,
    new_header,
    parse_header,
)
from dask_io.formats.nifti.scaling import keep_scaling
from dask_io.stores.block_format import Format, Header
from dask_io.stores.container import NO_CODEC
from dask_io.stores.gzip_files import LEVEL
from dask_io.stores.gzip_targets import gzip_variant
from dask_io.stores.kept_headers import HEADERS, headers_in
from dask_io.stores.space import is_close

if TYPE_CHECKING:
    from dask_io.stores.container import TargetOptions
    from dask_io.stores.spec import ArraySpec

_VERSIONS = (1, 2)


def prepare(spec: ArraySpec, options: TargetOptions, *, has_manifest: bool) -> ArraySpec:
    """Describe a new array as NIfTI files of the requested version will.

    Raises
    ------
    ValueError
        If NIfTI cannot hold it; the message completes "format ...".
    UsageError
        If an option is not supported.
    """
    if options.codec not in {None, NO_CODEC}:
        raise UsageError(
            f"codec {options.codec}: .nii files are not compressed; leave --codec out, or give a "
            "target that ends in .nii.gz, or a directory with --codec gzip"
        )
    replace(options, format_version=None).refuse(KEY)
    return _describe(spec, options, has_manifest=has_manifest)


def prepare_gzip(spec: ArraySpec, options: TargetOptions, *, has_manifest: bool) -> ArraySpec:
    """Describe a new array as compressed NIfTI files will, as `prepare` does."""
    replace(options, format_version=None, codec=None).refuse(f"{KEY} (.nii.gz)")
    if options.codec is not None:
        name, _, level = options.codec.partition(":")
        if name != "gzip" or level not in {"", *map(str, range(10))}:
            raise UsageError(
                f".nii.gz files are compressed with gzip, not {options.codec}; give a level from "
                "0 to 9, as in --codec gzip:6, or a target that ends in .nii"
            )
        spec = replace(spec, metadata={**spec.metadata, LEVEL: int(level or 6)})
    return _describe(spec, options, has_manifest=has_manifest)


def _describe(spec: ArraySpec, options: TargetOptions, *, has_manifest: bool) -> ArraySpec:
    version = options.format_version
    if version is not None:
        spec = _in_version(spec, version)
    if has_manifest:
        return spec
    # A file always names its axes, and it may not be able to store the whole space.
    shape = spec.grid.shape
    block = Header(shape, spec.dtype, spec.layout, 0, spec.space, spec.metadata)
    content = make_header(block)
    held = parse_header(lambda n_bytes: content[:n_bytes]).space
    is_held = held is not None and spec.space is not None and is_close(held, spec.space, shape)
    return spec if is_held else replace(spec, space=held)


def _in_version(spec: ArraySpec, version: int) -> ArraySpec:
    if version not in _VERSIONS:
        raise UsageError(f"NIfTI has versions 1 and 2, not {version}; give --format-version 1 or 2")
    if version == 1 and max(spec.grid.longest, default=0) > LONGEST_DIMENSION:
        raise ValueError(
            f"version 1 has at most {LONGEST_DIMENSION} elements along an axis, not "
            f"{max(spec.grid.longest)}; give --format-version 2"
        )
    kept = Kept.find(spec.metadata)
    header = new_header(spec.dtype, version) if kept is None else as_version(kept.header, version)
    made = Kept(bytes(header.binaryblock), kept.extensions if kept is not None else ())
    headers = {**headers_in(spec.metadata), KEY: made.to_json()}
    return replace(spec, metadata={**spec.metadata, HEADERS: headers})


_PAIR = Format(
    KEY,
    (".img",),
    LONGEST_HEADER,
    partial(parse_header, is_pair=True),
    partial(make_header, is_pair=True),
    has_space=True,
    keeps_header=True,
    keep=keep_scaling,
    order="F",
    header_suffix=".hdr",
    prepare=prepare,
    compare=compare_scaling,
)


_PLAIN = replace(
    _PAIR,
    suffixes=(".nii",),
    parse_header=parse_header,
    make_header=make_header,
    header_suffix="",
)
_GZIP = replace(gzip_variant(_PLAIN, ".nii.gz"), prepare=prepare_gzip)
FORMAT = replace(_PLAIN, variants=(_GZIP, _PAIR))
