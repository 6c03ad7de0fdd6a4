"""Errors as Python programs expect them.

Messages are written for the command line. Here options and commands in them become keywords and
calls, and errors also become the built-in kind that a program would catch:

==================== ==================================================
error                is also a
==================== ==================================================
DataError            ValueError
UsageError           ValueError
MissingLibraryError  ImportError
TargetExistsError    FileExistsError
StorageError         OSError, FileNotFoundError or PermissionError
==================== ==================================================
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from dask_io.errors import (
    DaskIOError,
    DataError,
    MissingLibraryError,
    StorageError,
    TargetExistsError,
    UsageError,
    did_you_mean,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_FLAGS = frozenset({"overwrite", "consume", "verify", "check", "strict", "write-empty", "dry-run"})
# Options whose keyword has another name. Those of raw files are keywords of `dask_io.open`.
_KEYWORDS = {
    "source-shape": "shape",
    "source-dtype": "dtype",
    "source-chunks": "chunks",
    "source-order": "order",
    "source-format": "format",
    "source-offset": "offset",
    "regions-file": "regions",
    "scheduler": "client",
}
_WORDY = frozenset({"strategy", "order", "format", "codec", "casting", "objective", "durability"})
"""Options whose values are words; other values have a digit or a comma."""
_LENGTHS = re.compile(r"\d+(?:,\d+)+")
_NO_VALUES = frozenset({"or", "and", "to", "out", "is", "are", "for", "cannot", "moves", "needs"})
# Names in a folder that are compared with one that is not there.
_MOST_NAMES = 1000
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?:[ =]([^\s;)]*[^\s;),.]))?")
_COMMAND = re.compile(
    r"dask-io (resume|verify|repair|finish)"
    r"((?: (?!(?:or|and|with|if|again)\b)(?:'[^']*'|\"[^\"]*\"|[^\s;,)'\"]|,(?=\S))+)*)"
)


def raises_for_python(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function or method that users call raise errors for Python, without inner frames.

    Functions of Dask IO do not call it, because what they catch must be the error as it was raised.
    """

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*arguments, **keywords)
        except DaskIOError as error:
            raise for_python(error) from None

    return call


def for_python(error: DaskIOError) -> DaskIOError:
    """Return an error in the words of Python, which is also of a built-in kind.

    Examples
    --------
    >>> error = for_python(TargetExistsError("out", unfinished=True))
    >>> print(error)
    out already exists and is unfinished; complete it with dask_io.resume("out"), or replace it \
with overwrite=True
    >>> isinstance(error, FileExistsError)
    True
    """
    if hasattr(error, "_original"):
        return error
    kind = _as_seen_by_python(cast("Any", type(error)), cast("Any", _builtin_kind(error)))
    # Without `__init__`: some built-in errors interpret their arguments.
    made: DaskIOError = kind.__new__(kind)
    guess = similar_path(error.path) if isinstance(error, StorageError) and error.is_absent else ""
    made.__dict__.update(error.__dict__, _original=error, _guess=guess)
    made.args = error.args
    if isinstance(made, OSError):
        made.filename = getattr(error, "path", None) or getattr(error, "target", None)
    return made


def similar_path(path: str) -> str:
    """Return a clause that names a path with a similar name, empty if there is none."""
    place = Path(path)
    with suppress(OSError, ValueError):
        names = sorted(each.name for each in place.parent.iterdir())[:_MOST_NAMES]
        paths = [str(place.with_name(name)) for name in names if not name.startswith(".")]
        return did_you_mean(path, paths)
    return ""


def for_command_line(error: DaskIOError) -> DaskIOError:
    """Return the error that `for_python` has translated, or an untranslated error as it is."""
    return getattr(error, "_original", error)


def _builtin_kind(error: DaskIOError) -> type[Exception] | None:
    if isinstance(error, StorageError):
        if error.is_absent:
            return FileNotFoundError
        return PermissionError if error.reason.lower() == "permission denied" else OSError
    kinds = {
        TargetExistsError: FileExistsError,
        MissingLibraryError: ImportError,
        UsageError: ValueError,
        DataError: ValueError,
    }
    return next((found for kind, found in kinds.items() if isinstance(error, kind)), None)


@cache
def _as_seen_by_python(kind: Any, builtin: Any) -> Any:
    def to_text(self: Any) -> str:
        return f"{in_python_words(str(self._original))}{printable(self._guess)}"

    def reduce(self: Any) -> tuple[Any, ...]:
        return for_python, (self._original,)

    bases = (kind,) if builtin is None else (kind, builtin)
    names = {"__str__": to_text, "__reduce__": reduce, "__module__": kind.__module__}
    return type(kind.__name__, bases, {**names, "__doc__": kind.__doc__})


def in_python_words(message: str) -> str:
    """Replace commands by calls, and options by keywords.

    Examples
    --------
    >>> print(in_python_words("use at least --memory 3000, or --strict"))
    use at least memory=3000, or strict=True
    >>> print(in_python_words("convert them with --dtype; then run dask-io resume 'my scan'"))
    convert them with dtype=...; then run dask_io.resume("my scan")
    >>> print(in_python_words("continue with: dask-io resume a.npy --no-sidecar"))
    continue with: dask_io.resume("a.npy", sidecar=False)
    >>> print(in_python_words("give --source-chunks 64,72,56"))
    give chunks=(64, 72, 56)
    """
    return _OPTION.sub(_to_keyword, _COMMAND.sub(_to_call, message))


def _to_keyword(match: re.Match[str]) -> str:
    name, value = match.groups()
    keyword = _KEYWORDS.get(name, name.replace("-", "_"))
    rest = "" if value is None else match[0].removeprefix(f"--{name}")
    if name == "no-sidecar":
        return f"sidecar=False{rest}"
    if name in _FLAGS:
        return f"{keyword}=True{rest}"
    if value is None or not _is_value(name, value):
        return f"{keyword}=...{rest}"
    if _LENGTHS.fullmatch(value):
        return f"{keyword}=({value.replace(',', ', ')})"
    return f"{keyword}={value if value.isdigit() else _quoted(value)}"


def _is_value(name: str, text: str) -> bool:
    if name in _WORDY:
        return text not in _NO_VALUES
    return any(char.isdigit() or char == "," for char in text)


def _to_call(match: re.Match[str]) -> str:
    verb, arguments = match.groups()
    if not arguments:
        return f"dask_io.{verb}"
    try:
        words = shlex.split(arguments)
    except ValueError:
        # A path that nobody quoted; an error must become text all the same.
        return match[0]
    texts = [each if each.startswith("--") else _quoted(each) for each in words]
    return f"dask_io.{verb}({', '.join(texts)})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
