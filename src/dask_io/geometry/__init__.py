"""Regions, grids, layouts and runs: exact integers, no I/O."""

from dask_io.geometry.axis import Axis
from dask_io.geometry.grid import Grid
from dask_io.geometry.layout import Layout
from dask_io.geometry.orbits import Orbits, count_segments, cut_axis, orbits
from dask_io.geometry.region import Region

__all__ = ["Axis", "Grid", "Layout", "Orbits", "Region", "count_segments", "cut_axis", "orbits"]
