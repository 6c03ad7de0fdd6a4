"""How much staging the engine asks for, and how threads share it."""

from hypothesis import given
from hypothesis import strategies as st

from dask_io.engine.staging import share_staging, staging_for
from dask_io.planning import Problem


@given(
    length=st.integers(1, 10**12),
    chunk=st.integers(1, 10**9),
    itemsize=st.integers(1, 10**5),
    workers=st.integers(1, 64),
    wish=st.floats(0, 1),
)
def test_staging_is_shared_within_what_is_granted(
    length: int, chunk: int, itemsize: int, workers: int, wish: float
) -> None:
    """Threads never get more than was granted together, and each enough for an element."""
    problem = Problem.regular((length,), (chunk,), (chunk,), dtype=f"V{itemsize}", budget=1)
    asked = staging_for(problem.target, problem.dtype, workers)
    assert 0 < asked.minimum <= asked.preferred

    granted = asked.minimum + int(wish * (asked.preferred - asked.minimum))
    n_workers, each = share_staging(granted, problem, workers)

    assert 1 <= n_workers <= workers
    assert n_workers * each <= granted
    assert each >= itemsize + 2 * 4096
