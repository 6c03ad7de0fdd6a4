"""Work that is done on the way, block by block, as layers of a graph describe it."""

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

# A block whose lengths differ shows a function that turns or shortens it.
_FEW = (2, 3)
# Besides universal functions, what arithmetic in a program becomes.
_ELEMENTWISE = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.neg, operator.pos, operator.abs, operator.invert),
    *(operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt),
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(astype, np.clip, np.round),
)
_thread = local()


def is_at_work() -> bool:
    """Whether this thread is in such a function, which may compute something with Dask itself."""
    return getattr(_thread, "at_work", False)


@contextmanager
def _at_work() -> Iterator[None]:
    before = is_at_work()
    _thread.at_work = True
    try:
        yield
    finally:
        _thread.at_work = before


@dataclass(frozen=True)
class Call:
    """One function of a block: a task, and what its arguments are.

    `inputs` has for each argument that is a block the number of the call that it comes from; -1 is
    the block itself.
    """

    task: Task
    inputs: Mapping[Any, int]
    constants: Mapping[Any, Any]

    def __call__(self, results: Mapping[int, NDArray[Any]]) -> Any:
        """Apply the function to what the calls before it returned."""
        blocks = {key: results[number] for key, number in self.inputs.items()}
        return self.task({**self.constants, **blocks})

    @property
    def is_elementwise(self) -> bool:
        """Whether an element is known to become the same in whatever block it is."""
        function = self.task.func
        return isinstance(function, np.ufunc) or any(function is it for it in _ELEMENTWISE)


@dataclass(frozen=True)
class BlockFunction:
    """Calls that make of a block another one of the same shape; without any, the block itself.

    The last call gives the result. They need not be elementwise, so that they are applied to the
    very blocks that Dask would apply them to.
    """

    calls: tuple[Call, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.calls)

    @property
    def is_elementwise(self) -> bool:
        """Whether all calls are known to be; blocks then keep their shape, however they lie."""
        return all(call.is_elementwise for call in self.calls)

    def __call__(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return what becomes of a block."""
        return self.results(block)[-1] if self.calls else block

    def results(self, block: NDArray[Any]) -> list[NDArray[Any]]:
        """Return what each call returns.

        Raises
        ------
        ValueError
            If one of them is not an array of the same shape.
        """
        results = {-1: block}
        for number, call in enumerate(self.calls):
            with _at_work():
                results[number] = found = call(results)
            if type(found) is not np.ndarray or found.shape != block.shape:
                what = f"a {type(found).__name__} of shape {getattr(found, 'shape', None)}"
                raise ValueError(f"of a block of shape {block.shape} a function made {what}")
        return [results[number] for number in range(len(self.calls))]

    def tried_on(self, dtype: np.dtype[Any], n_axes: int) -> Trial:
        """Apply the calls to a few elements, as Dask does, to see what they return.

        Raises
        ------
        Exception
            Whatever the functions raise.
        """
        few = np.zeros(tuple(islice(cycle(_FEW), n_axes)), dtype)
        return Trial(tuple(found.dtype for found in self.results(few)), few.dtype)


@dataclass(frozen=True)
class Trial:
    """What the calls of a function return: the type of each result."""

    dtypes: tuple[np.dtype[Any], ...]
    taken: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the result."""
        return self.dtypes[-1] if self.dtypes else self.taken

    @cached_property
    def itemsize(self) -> int:
        """Bytes that an element takes in all results together.

        What a function holds for itself meanwhile is its own.
        """
        return sum(dtype.itemsize for dtype in self.dtypes)
