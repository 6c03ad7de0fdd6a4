"""Silence for the warnings of zarr-python about parts of the format that may change."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Silence:
    """Ignores warnings from the first entry to the last exit, in any threads.

    Filters belong to the process: if two threads used `warnings.catch_warnings` at once, the first
    to leave would end the silence of the other, and the last could leave it on for ever.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0
        self._filters = warnings.catch_warnings()

    def enter(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._filters.__exit__(None, None, None)


_SILENCE = _Silence()


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings in a block; any number of threads may be inside at once."""
    _SILENCE.enter()
    try:
        yield
    finally:
        _SILENCE.leave()
