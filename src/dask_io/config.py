"""Read defaults for options from Dask's configuration."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION = "dask-io"
_VARIABLES = "DASK_DASK_IO__"
_SUFFIXES = {".yaml", ".yml", ".json"}


def configured(name: str) -> Any:
    """Return the value of an option in Dask's configuration, None if it is not set.

    Importing Dask takes a quarter of a second, so it is skipped if Dask is not loaded yet and no
    configuration mentions Dask IO.
    """
    if "dask" not in sys.modules and not is_configured():
        return None
    config = _load()
    return config.get(f"{_SECTION}.{name}", None)


def is_configured() -> bool:
    """Whether an environment variable or a configuration file of Dask mentions Dask IO."""
    if any(name.startswith(_VARIABLES) for name in os.environ):
        return True
    return any(_SECTION.encode() in _read(path) for path in _find_files())


def _read(path: Path) -> bytes:
    """Return the content of a file; like Dask, ignore a file that cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _find_files() -> Iterator[Path]:
    """Yield the configuration files that Dask reads, according to its documentation."""
    places = [
        Path(os.environ.get("DASK_ROOT_CONFIG", "/etc/dask")),
        Path(sys.prefix, "etc", "dask"),
        Path("~/.config/dask").expanduser(),
        *([Path(os.environ["DASK_CONFIG"])] if "DASK_CONFIG" in os.environ else []),
    ]
    for place in places:
        with suppress(PermissionError):
            found = place.iterdir() if place.is_dir() else iter([place])
            yield from (path for path in found if path.suffix in _SUFFIXES and path.is_file())


@cache
def _load() -> Any:
    """Return Dask's configuration, with our defaults in it."""
    import dask.config  # noqa: PLC0415 - see `configured`
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with Dask

    text = files("dask_io").joinpath("dask-io.yaml").read_text(encoding="utf-8")
    dask.config.update_defaults(yaml.safe_load(text))
    return dask.config
