"""Switching it on: within a context, or from now on."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
from dask.highlevelgraph import HighLevelGraph

from dask_io.errors import UsageError
from dask_io.graph.functions import is_at_work
from dask_io.graph.options import GraphOptions, OnMismatch, graph_options
from dask_io.graph.rewrite import consider, replace_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from dask_io.options import Options

_KEY = "array_optimize"
_logger = logging.getLogger(__name__)


class MismatchWarning(UserWarning):
    """Something is stored by Dask and not by plan."""


@dataclass(frozen=True)
class Optimizer:
    """What Dask calls with a graph before it runs it, in the scheduler if there is one.

    Options are with it, since the configuration there is another one. `then` is what was to be
    called before.
    """

    options: GraphOptions
    then: Callable[..., Any] | None = None

    def __call__(self, dsk: Any, keys: Any, **kwargs: Any) -> Any:
        """Put plans into a graph, and have it optimized as it would be without them."""
        from dask.array.optimization import optimize as dask_optimize  # noqa: PLC0415 - a second

        then: Callable[..., Any] = self.then or dask_optimize
        return then(self.rewrite(dsk, keys), keys, **kwargs)

    def rewrite(self, dsk: Any, keys: Any) -> Any:
        """Put plans into a graph; on any doubt it is returned as it is.

        So is one that is computed on the way of a plan: it would wait for that plan to end.
        """
        if not isinstance(dsk, HighLevelGraph) or is_at_work():
            return dsk
        try:
            considered = consider(dsk, keys if isinstance(keys, list) else [keys], self.options)
            rewritten = replace_layers(dsk, considered)
        except Exception:  # whatever it is, Dask alone can do it
            _logger.exception("a graph is left as it is, because looking at it failed")
            return dsk
        for done in (*considered.works, *considered.clusters):
            _logger.info("by plan: %s", done)
        if considered.reasons:
            self._tell(considered.reasons)
        return rewritten

    def _tell(self, reasons: Sequence[str]) -> None:
        text = f"by Dask: {'; '.join(dict.fromkeys(reasons))}"
        _logger.info("%s", text)
        match self.options.on_mismatch:
            case OnMismatch.WARN:
                warnings.warn(text, MismatchWarning, stacklevel=2)
            case OnMismatch.RAISE:
                raise UsageError(text)
            case OnMismatch.IGNORE:
                pass


@contextmanager
def optimize(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> Iterator[None]:
    """Have Dask programs within the context read, rechunk and store by plan.

    Parameters
    ----------
    on_mismatch
        What happens where a graph stores something that is not matched: ``"ignore"`` (the
        default), ``"warn"`` or ``"raise"``.
    parts
        Into how many tasks a plan is cut; by default one for each worker of a cluster, if there is
        one. What is read of a source block on both sides of a cut is read twice.
    **options
        ``memory``, which is that of each process, ``workers``, ``strategy``, ``objective`` and
        ``device``, as in `dask_io.plan`.
    """
    chosen = graph_options(on_mismatch=on_mismatch, parts=parts, **options)
    with dask.config.set({_KEY: Optimizer(chosen, _previous())}):
        yield


def enable(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> None:
    """Have all Dask programs do so from now on; otherwise as `optimize`."""
    chosen = graph_options(on_mismatch=on_mismatch, parts=parts, **options)
    dask.config.set({_KEY: Optimizer(chosen, _previous())})


def disable() -> None:
    """Leave Dask programs alone again."""
    dask.config.set({_KEY: _previous()})


def active_options(**options: Unpack[Options]) -> GraphOptions:
    """Return the options of the context around, unless others are given."""
    found = dask.config.get(_KEY, None)
    if isinstance(found, Optimizer) and not options:
        return found.options
    return graph_options(**options)


def _previous() -> Callable[..., Any] | None:
    """Return what was to be called before we were."""
    found = dask.config.get(_KEY, None)
    return found.then if isinstance(found, Optimizer) else found
