"""Let Dask programs run by plan, within a context or until disabled."""

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
from dask_io.graph.functions import is_in_block_function
from dask_io.graph.options import GraphOptions, OnMismatch, graph_options
from dask_io.graph.rewrite import analyze, replace_layers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Unpack

    from dask_io.jobs.settings import Options

_KEY = "array_optimize"
_logger = logging.getLogger(__name__)
# Held while a thread that begins or ends a context reads and changes the configuration.
_config_lock = Lock()


class _NotSet(Enum):
    """No `array_optimize` is configured. None is different: Dask then optimizes nothing."""

    NOT_SET = "not set"


_NOT_SET: Final = _NotSet.NOT_SET


class MismatchWarning(DaskIOWarning):
    """Dask stores an array that cannot be stored by plan."""


@dataclass(frozen=True)
class Optimizer:
    """The function that Dask calls to optimize a graph, in the scheduler process if there is one.

    It carries its options, because the scheduler has its own configuration. `before` is the
    previous setting: none, the optimizer of an enclosing context, or one set by the user.
    """

    options: GraphOptions
    before: Any = _NOT_SET

    @property
    def others(self) -> Any:
        """The user's own setting, without the optimizers of Dask IO."""
        return self.before.others if isinstance(self.before, Optimizer) else self.before

    def __call__(self, dsk: Any, keys: Any, **kwargs: Any) -> Any:
        """Put plans into a graph, then apply the optimizer that would run without Dask IO."""
        from dask.array.optimization import optimize as dask_optimize  # noqa: PLC0415 - a second

        others = self.others
        optimizer: Any = dask_optimize if others is _NOT_SET else others or dont_optimize
        return optimizer(self.rewrite(dsk, keys), keys, **kwargs)

    def without(self, ended: Optimizer) -> Any:
        """Return the setting after a context has ended.

        Contexts of several threads may overlap, so the last one to begin may not end first.
        """
        # Every context has its own options object, even if two are equal.
        if self.options is ended.options:
            return self.before
        if isinstance(self.before, Optimizer):
            return replace(self, before=self.before.without(ended))
        return self

    def rewrite(self, dsk: Any, keys: Any) -> Any:
        """Put plans into a graph; if in doubt, return it unchanged.

        A graph that is computed inside a plan also stays unchanged, because its plans would wait
        for that plan to end.
        """
        if not isinstance(dsk, HighLevelGraph) or is_in_block_function():
            return dsk
        try:
            analysis = analyze(dsk, keys if isinstance(keys, list) else [keys], self.options)
            rewritten = replace_layers(dsk, analysis)
        except Exception:  # Dask alone can still run the graph
            _logger.exception("a graph was not optimized, because its analysis failed")
            return dsk
        for done in (*analysis.plan_tasks, *analysis.clusters):
            _logger.info("by plan: %s", printable(str(done)))
        if analysis.reasons:
            self._report_declined(analysis.reasons)
        return rewritten

    def _report_declined(self, reasons: Sequence[str]) -> None:
        text = f"by Dask: {'; '.join(dict.fromkeys(reasons))}"
        _logger.info("%s", printable(text))
        match self.options.on_mismatch:
            case OnMismatch.WARN:
                warnings.warn(text, MismatchWarning, stacklevel=2)
            case OnMismatch.RAISE:
                raise UsageError(text)
            case OnMismatch.IGNORE:
                pass


def optimize(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> AbstractContextManager[None]:
    """Let Dask programs within the context read, rechunk and store by plan.

    Parameters
    ----------
    on_mismatch
        What to do if a graph stores an array that cannot be stored by plan: ``"ignore"`` (the
        default), ``"warn"`` or ``"raise"``.
    parts
        Number of tasks into which each plan is divided; by default one per worker of a cluster,
        or one without a cluster. Source blocks that lie in two parts are read twice.
    **options
        ``memory`` (per process), ``workers``, ``strategy``, ``objective`` and ``device``, as in
        `dask_io.plan`.
    """
    return _optimizing(graph_options(on_mismatch=on_mismatch, parts=parts, **options))


@contextmanager
def _optimizing(chosen: GraphOptions) -> Iterator[None]:
    with _config_lock:
        ours = Optimizer(chosen, _configured())
        _configure(ours)
    try:
        yield
    finally:
        with _config_lock:
            found = _configured()
            _configure(found.without(ours) if isinstance(found, Optimizer) else ours.others)


def enable(
    *, on_mismatch: str | None = None, parts: int | None = None, **options: Unpack[Options]
) -> None:
    """Optimize all Dask programs as `optimize` does, until `disable` is called."""
    chosen = graph_options(on_mismatch=on_mismatch, parts=parts, **options)
    with _config_lock:
        _configure(Optimizer(chosen, _others()))


def disable() -> None:
    """Stop optimizing Dask programs, and restore the previous Dask configuration."""
    with _config_lock:
        _configure(_others())


def active_options(**options: Unpack[Options]) -> GraphOptions:
    """Return the given options or, if there are none, those of the enclosing context."""
    found = _configured()
    if isinstance(found, Optimizer) and not options:
        return found.options
    return graph_options(**options)


def _configured() -> Any:
    return dask.config.get(_KEY, _NOT_SET)


def _others() -> Any:
    """Return the user's own setting, without the optimizers of Dask IO."""
    found = _configured()
    return found.others if isinstance(found, Optimizer) else found


def _configure(value: Any) -> None:
    if value is _NOT_SET:
        dask.config.pop(_KEY, None)
    else:
        dask.config.set({_KEY: value})
