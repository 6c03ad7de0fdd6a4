"""Functions that a graph applies to every block between reading and storing."""

from __future__ import annotations

import operator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.chunk import astype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask._task_spec import Task
    from numpy.typing import NDArray

# Axes of different lengths reveal a function that transposes or shortens a block.
_TRIAL_LENGTHS = (2, 3)
# Elementwise functions other than NumPy's ufuncs that Dask puts into graphs.
_ELEMENTWISE = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.neg, operator.pos, operator.abs, operator.invert),
    *(operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(astype, np.clip, np.round),
)
_thread = local()


def is_in_block_function() -> bool:
    """Whether this thread is inside a block function, which may itself call Dask."""
    return getattr(_thread, "in_block_function", False)


@contextmanager
def _in_block_function() -> Iterator[None]:
    before = is_in_block_function()
    _thread.in_block_function = True
    try:
        yield
    finally:
        _thread.in_block_function = before


@dataclass(frozen=True)
class Call:
    """One call of a function on a block: a task and its arguments.

    `inputs` maps each argument that is a block to the number of the call that returns it; -1 is
    the original block.
    """

    task: Task
    inputs: Mapping[Any, int]
    constants: Mapping[Any, Any]

    def __call__(self, results: Mapping[int, NDArray[Any]]) -> Any:
        """Apply the function to the results of earlier calls."""
        blocks = {key: results[number] for key, number in self.inputs.items()}
        return self.task({**self.constants, **blocks})

    @property
    def is_elementwise(self) -> bool:
        """Whether each result is known to depend on one element only, not on its block."""
        function = self.task.func
        return isinstance(function, np.ufunc) or any(function is known for known in _ELEMENTWISE)


@dataclass(frozen=True)
class BlockFunction:
    """Calls that turn a block into another of the same shape; without calls, the identity.

    The last call returns the result. Calls need not be elementwise, so they are applied to exactly
    the blocks that Dask would apply them to.
    """

    calls: tuple[Call, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.calls)

    @property
    def is_elementwise(self) -> bool:
        """Whether all calls are elementwise; shape and memory order then make no difference."""
        return all(call.is_elementwise for call in self.calls)

    def __call__(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return the result for a block."""
        return self.results(block)[-1] if self.calls else block

    def results(self, block: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the result of every call.

        Raises
        ------
        ValueError
            If a result is not an array of the block's shape.
        """
        results = {-1: block}
        for number, call in enumerate(self.calls):
            with _in_block_function():
                results[number] = found = call(results)
            if type(found) is not np.ndarray or found.shape != block.shape:
                what = f"a {type(found).__name__} of shape {getattr(found, 'shape', None)}"
                raise ValueError(f"a function returned {what} for a block of shape {block.shape}")
        return [results[number] for number in range(len(self.calls))]

    def infer_types(self, dtype: np.dtype[Any], n_axes: int) -> ResultTypes:
        """Find the types of the results by applying the calls to a small block, as Dask does.

        Raises
        ------
        Exception
            Any error of the functions.
        """
        block = np.zeros(tuple(islice(cycle(_TRIAL_LENGTHS), n_axes)), dtype)
        return ResultTypes(tuple(found.dtype for found in self.results(block)), block.dtype)


@dataclass(frozen=True)
class ResultTypes:
    """Types of the results of a function's calls."""

    dtypes: tuple[np.dtype[Any], ...]
    input_dtype: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the last result."""
        return self.dtypes[-1] if self.dtypes else self.input_dtype

    @cached_property
    def itemsize(self) -> int:
        """Bytes per element of all results together.

        Temporary arrays inside the functions are not counted.
        """
        return sum(dtype.itemsize for dtype in self.dtypes)
