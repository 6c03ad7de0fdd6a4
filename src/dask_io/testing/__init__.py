"""Public tools for tests: the plan walker, and Hypothesis strategies.

`dask_io.testing.strategies` needs Hypothesis and is imported separately.
"""

from dask_io.testing.walker import Walked, walk, walk_bundle

__all__ = ["Walked", "walk", "walk_bundle"]
