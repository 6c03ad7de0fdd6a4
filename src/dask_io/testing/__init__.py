"""Public tools for tests: the walker of plans, and strategies for Hypothesis.

`dask_io.testing.strategies` needs Hypothesis and is imported on its own.
"""

from dask_io.testing.walker import Walked, walk, walk_bundle

__all__ = ["Walked", "walk", "walk_bundle"]
