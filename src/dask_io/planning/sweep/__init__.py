"""The sweep strategy: the fewest seeks within the memory budget.

From the bottom up: `segments` divides one axis at the common boundaries of source and target.
`choices` and `families` are read ends along one axis. `ends` finds the best read ends for a budget,
given the other axes: the shortest path through a `graph` for each segment, in the 64-bit arithmetic
of `limited`. `arrange` orders the axes. `structures` lists the candidates that do not depend on the
budget. `by_slab` finds read ends that differ between slabs. `search` finds the best.
"""

from dask_io.planning.sweep.search import memory_for_lower_bound, plan_sweep

__all__ = ["memory_for_lower_bound", "plan_sweep"]
