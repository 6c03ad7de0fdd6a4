"""Switching it on: within a context, or from now on."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import dask
from dask.base import dont_optimize
from dask.highlevelgraph import HighLevelGraph

from dask_io.errors import DaskIOWarning, UsageError, printable
from dask_io.graph.functions import is_at_work
from dask_io.graph.options import GraphOptions, OnMismatch, graph_options
from dask_io.graph.rewrite import consider, replace_layers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from dask_io.jobs.settings import Options

_KEY = "array_optimize"
_logger = logging.getLogger(__name__)
# Held while a thread that begins or ends a context reads and changes the configuration.
_changing = Lock()


class _NotSet(Enum):
    """No `array_optimize` is configured. None is different: Dask then optimizes nothing."""

    NOT_SET = "not set"


_NOT_SET: Final = _NotSet.NOT_SET


class MismatchWarning(DaskIOWarning):
    """Something is stored by Dask and not by plan."""


@dataclass(frozen=True)
class Optimizer:
    """What Dask calls with a graph before it runs it, in the scheduler if there is one.

    It carries its options, because the scheduler has its own configuration. `before` is what was
    configured before: nothing, the optimizer of an enclosing context, or one set by the user.
    """

    options: GraphOptions
    before: Any = _NOT_SET

    @property
    def others(self) -> Any:
        """What is configured apart from the optimizers of Dask IO."""
        return self.before.others if isinstance(self.before, Optimizer) else self.before

    def __call__(self, dsk: Any, keys: Any, **kwargs: Any) -> Any:
        """Put plans into a graph, and have it optimized as it would be without them."""
        from dask.array.optimization import optimize as dask_optimize  # noqa: PLC0415 - a second

        others = self.others
        then: Any = dask_optimize if others is _NOT_SET else others or dont_optimize
        return then(self.rewrite(dsk, keys), keys, **kwargs)

    def without(self, ended: Optimizer) -> Any:
        """Return what is configured once a context has ended.

        Contexts of several threads may overlap, so the last one to begin may not end first.
        """
        # Every context has its own options object, even if two are equal.
        if self.options is ended.options:
            return self.before
        if isinstance(self.before, Optimizer):
            return replace(self, before=self.before.without(ended))
        return self

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
            _logger.info("by plan: %s", printable(str(done)))
        if considered.reasons:
            self._tell(considered.reasons)
        return rewritten

    def _tell(self, reasons: Sequence[str]) -> None:
        text = f"by Dask: {'; '.join(dict.fromkeys(reasons))}"
        _logger.info("%s", printable(text))
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
    with _changing:
        ours = Optimizer(chosen, _configured())
        _configure(ours)
    try:
        yield
    finally:
        with _changing:
            found = _configured()
            _configure(found.without(ours) if isinstance(found, Optimizer) else ours.others)


def enable(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> None:
    """Optimize all Dask programs as `optimize` does, until `disable` is called."""
    chosen = graph_options(on_mismatch=on_mismatch, parts=parts, **options)
    with _changing:
        _configure(Optimizer(chosen, _others()))


def disable() -> None:
    """Stop optimizing Dask programs, and restore the configuration as it was without Dask IO."""
    with _changing:
        _configure(_others())


def active_options(**options: Unpack[Options]) -> GraphOptions:
    """Return the options of the context around, unless others are given."""
    found = _configured()
    if isinstance(found, Optimizer) and not options:
        return found.options
    return graph_options(**options)


def _configured() -> Any:
    return dask.config.get(_KEY, _NOT_SET)


def _others() -> Any:
    """Return what is configured apart from the optimizers of Dask IO."""
    found = _configured()
    return found.others if isinstance(found, Optimizer) else found


def _configure(value: Any) -> None:
    if value is _NOT_SET:
        dask.config.pop(_KEY, None)
    else:
        dask.config.set({_KEY: value})
