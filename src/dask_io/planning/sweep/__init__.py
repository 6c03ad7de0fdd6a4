"""The sweep strategy: the fewest seeks in the memory there is.

From the bottom up: `segments` looks at one axis of source and target where both are cut; `choices`
and `families` are read ends along one axis; `ends` finds the best ones for a budget, given
the other axes; `arrange` puts axes into an order; `structures` is what is looked at whatever
the budget; `by_slab` finds ends that differ from slab to slab; `search` finds the best of it all.
"""

from dask_io.planning.sweep.search import memory_for_lower_bound, plan_sweep

__all__ = ["memory_for_lower_bound", "plan_sweep"]
