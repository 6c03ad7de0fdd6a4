"""Connect to the scheduler of a dask.distributed cluster."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, nullcontext
from importlib import import_module
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask_io.errors import DaskIOError, MissingLibraryError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

CURRENT = "current"
"""The value of `client` that means the client that is current in this process."""

_CONNECT_SECONDS = 10


def load_distributed() -> Any:
    """Import dask.distributed, which only runs on a cluster need.

    Raises
    ------
    MissingLibraryError
        If it is not installed.
    """
    try:
        return import_module("distributed")
    except ModuleNotFoundError as error:
        if error.name != "distributed":
            raise
        raise MissingLibraryError(
            "a run on a cluster needs the library distributed, which is not installed; install it "
            'with: pip install "dask-io[distributed]"'
        ) from None


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """Yield a client of a cluster; close it afterwards if it was created here.

    Parameters
    ----------
    client
        A `distributed.Client`, the text ``"current"`` for the client that is current in this
        process, or the address of a scheduler, or the path of a scheduler file.

    Raises
    ------
    StorageError
        If the scheduler cannot be reached, or is lost.
    UsageError
        If there is no current client, or the client belongs to another event loop.
    """
    distributed = load_distributed()
    if isinstance(client, distributed.Client):
        _check_usable(client)
        with _leaving_slot(distributed), reporting_loss(client):
            yield client
    elif client == CURRENT:
        current = _find_current(distributed)
        with _leaving_slot(distributed), reporting_loss(current):
            yield current
    elif isinstance(client, (str, Path)):
        with (
            _leaving_slot(distributed),
            _open(distributed, client) as opened,
            reporting_loss(opened),
        ):
            yield opened
    else:
        raise UsageError(
            f"client is {type(client).__name__}, not a distributed.Client; give a client, the "
            f"address of a scheduler, or {CURRENT!r}"
        )


@contextmanager
def _leaving_slot(distributed: Any) -> Iterator[None]:
    """In a task, let other tasks run in its place: parts may wait for the only worker."""
    with distributed.worker_client() if _in_task(distributed) else nullcontext():
        yield


@contextmanager
def reporting_loss(client: Any) -> Iterator[None]:
    """Report in one line that the scheduler does not answer any more.

    Raises
    ------
    StorageError
        If the cluster is lost.
    """
    try:
        yield
    except DaskIOError:
        # As Python programs get it, this may be an OSError, too.
        raise
    except OSError as error:
        is_closed = isinstance(error, load_distributed().comm.CommClosedError)
        if client.status == "running" and not is_closed:
            raise
        raise lost_cluster(client) from error


def lost_cluster(client: Any) -> StorageError:
    """Return the error that a cluster was lost."""
    at = client.scheduler.address if client.scheduler else "scheduler"
    return StorageError(at, "the cluster was lost", "start the cluster again")


def _check_usable(client: Any) -> None:
    if client.asynchronous:
        raise UsageError(
            "the client is asynchronous; give one that was created without asynchronous=True"
        )
    if client.status != "running":
        raise UsageError(f"the client is {client.status}, not running; connect it again")


def _find_current(distributed: Any) -> Any:
    try:
        client = distributed.get_client() if _in_task(distributed) else distributed.default_client()
    except ValueError:
        raise UsageError(
            "there is no current client; create one with distributed.Client, or give the address "
            "of a scheduler"
        ) from None
    _check_usable(client)
    return client


def _in_task(distributed: Any) -> bool:
    """Whether this code runs on a worker."""
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


@contextmanager
def _open(distributed: Any, place: str | PathLike[str]) -> Iterator[Any]:
    """Connect to a scheduler by its address, or by the file that it has written."""
    name = fspath(place)
    path = Path(name)
    is_file = path.is_file() or path.suffix == ".json"
    if is_file and not path.is_file():
        # The client would wait for the file forever.
        raise StorageError(name, "no such scheduler file", "start: dask scheduler --scheduler-file")
    where = {"scheduler_file": name} if is_file else {"address": name}
    try:
        with warnings.catch_warnings():
            # The survey of the workers reports the versions that matter, in one line.
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
            client = distributed.Client(**where, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StorageError(
            name,
            f"cannot connect to the scheduler: {reason}",
            "give the address that dask scheduler prints, such as tcp://10.0.0.1:8786",
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=_CONNECT_SECONDS)
