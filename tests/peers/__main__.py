"""Run the tests that Dask and xarray install, with and without Dask IO: ``make peer-suites``.

    python -m tests.peers --part quick

Fails if a test ends differently, if Dask IO raises, or if too few graphs went by plan.
"""

from __future__ import annotations

import argparse
import sys

from tests.peers.comparing import Part, compare, run_part

_BACKENDS = ("", "_api", "_chunks", "_common", "_datatree", "_file_manager", "_locks", "_lru_cache")
_XARRAY = (*(f"backends{name}" for name in _BACKENDS), "dask", "distributed")
# Tests marked so ask servers of the Internet.
_OFFLINE = ("-m", "not network")
_STORED = (*_OFFLINE, "--store-arrays")
# What these two ask for does not hold by plan, with the same values: that a lock is taken once for
# each block, and that a key stands for one task in all layers of a graph.
_OTHERWISE = (
    *("--deselect", "dask/array/tests/test_array_core.py::test_from_array_with_lock"),
    *("--deselect", "dask/array/tests/test_routines.py::test_histogram_delayed_range"),
)
# The files of Dask in which most graphs go by plan for the time that they take.
_DASK = ("fft", "masked", "overlap", "percentiles", "rechunk", "reshape", "shuffle", "ufunc")

# The least numbers of graphs are a little below those that were counted.
PARTS = {
    "quick": (
        Part(
            tuple(f"dask/array/tests/test_{name}.py" for name in _DASK),
            least_matched=1000,
            options=_STORED,
        ),
        Part(
            ("xarray/tests/test_backends.py",),
            least_matched=20,
            options=(*_OFFLINE, "-k", "manual_chunk or TestZarrDirectoryStore and chunk"),
        ),
    ),
    "all": (
        Part(("dask/array/tests",), least_matched=0, options=_OFFLINE),
        Part(("dask/array/tests",), least_matched=4500, options=(*_STORED, *_OTHERWISE)),
        Part(
            tuple(f"xarray/tests/test_{name}.py" for name in _XARRAY),
            least_matched=20,
            options=_OFFLINE,
        ),
    ),
}


def main() -> None:
    """Compare each suite of a part, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="quick", help="%(default)s by default")
    is_passed = True
    for part in PARTS[parser.parse_args().part]:
        comparison = compare(part, run_part)
        sys.stdout.write(f"{part}\n{comparison}\n\n")
        sys.stdout.flush()
        is_passed &= comparison.is_passed
    sys.exit(0 if is_passed else 1)


if __name__ == "__main__":
    main()
