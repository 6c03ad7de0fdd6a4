"""The parts that all commands share: one line per error, exit codes, signals, output."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, NoReturn

import click

from dask_io import why_unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

DEBUG = "dask_io.debug"
"""Key in the context for ``--debug``."""
JSON = "dask_io.json"
"""Key in the context for ``--json``, True until an object has been printed."""

_USAGE, _ENVIRONMENT, _INTERRUPTED = 2, 3, 4
_ICECHUNK_LOG = "ICECHUNK_LOG"


class Verbs(click.Group):
    """A group of commands that keeps their order, and reports every error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names in the order in which they were added."""
        return list(self.commands)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the options before the command."""
        if reason := why_unsupported():
            # Not with `say`, whose imports may fail here.
            click.echo(f"dask-io: {reason}", err=True)
            sys.exit(_ENVIRONMENT)
        with one_line_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the rest and run the command."""
        with (
            one_line_errors(ctx),
            one_line_warnings(),
            no_icechunk_log(),
            terminate_as_interrupt(),
        ):
            return super().invoke(ctx)


@contextmanager
def one_line_errors(ctx: click.Context | None = None) -> Iterator[None]:
    """Turn every error into one line on stderr and its exit code."""
    from dask_io.errors import DaskIOError  # noqa: PLC0415  # only click is loaded for --help

    try:
        yield
    except (click.exceptions.Exit, SystemExit):
        raise
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "dask-io"
        _end(f"{_clause(error.format_message())}; try {path} --help", _USAGE, ctx)
    except click.ClickException as error:
        _end(_clause(error.format_message()), _USAGE, ctx)
    except DaskIOError as error:
        _end(str(error), error.exit_code, ctx)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", _INTERRUPTED, ctx)
    except Exception as error:  # noqa: BLE001  # every error becomes one line
        if isinstance(error, OSError) and isinstance(error.filename, str):
            _end(f"{error.filename}: {error.strerror}", _ENVIRONMENT, ctx)
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _end(f"{found}; run again with --debug for the traceback", _ENVIRONMENT, ctx)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print warnings of Dask IO as one line."""
    from dask_io.errors import DaskIOWarning  # noqa: PLC0415  # only click is loaded for --help

    def print_warning(
        message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        if issubclass(category, DaskIOWarning):
            say(f"dask-io: {one_line(str(message))}")
        else:
            default(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DaskIOWarning)
        default, warnings.showwarning = warnings.showwarning, print_warning
        yield


@contextmanager
def no_icechunk_log() -> Iterator[None]:
    """Keep icechunk from writing its log to stdout, which is for results."""
    before = os.environ.get(_ICECHUNK_LOG)
    os.environ[_ICECHUNK_LOG] = "off"
    try:
        yield
    finally:
        del os.environ[_ICECHUNK_LOG]
        if before is not None:
            os.environ[_ICECHUNK_LOG] = before


def _clause(message: str) -> str:
    """Turn a message of click into one clause."""
    text = " ".join(message.split()).rstrip(".")
    first, rest = text[:1], text[1:]
    return first.lower() + rest


def _end(message: str, code: int, ctx: click.Context | None = None) -> NoReturn:
    if ctx is not None and ctx.meta.get(DEBUG):
        say(traceback.format_exc().rstrip())
    say(f"dask-io: {one_line(message)}")
    if ctx is not None and ctx.meta.get(JSON):
        show_json({"error": {"message": one_line(message), "exit_code": code}})
    raise click.exceptions.Exit(code)


def one_line(text: str) -> str:
    """Escape line breaks and control characters, which file names may contain."""
    from dask_io.errors import printable  # noqa: PLC0415  # only click is loaded for --help

    return printable(text)


def say(text: str) -> None:
    """Write a message to stderr; ignore errors if it is closed."""
    with suppress(OSError):
        click.echo(_encodable(text, sys.stderr), err=True)


def show(text: str) -> None:
    """Write a result to stdout; a closed pipe, such as of ``head``, is not an error."""
    try:
        click.echo(_encodable(text, sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        # Flushing the rest of the buffer would fail again when the interpreter exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def show_json(found: object) -> None:
    """Write the JSON object of a command to stdout."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta[JSON] = False
    show(json.dumps(found))


def _encodable(text: str, stream: TextIO) -> str:
    """Escape characters that the encoding of the stream does not have."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into KeyboardInterrupt; exit at the second one."""
    if current_thread() is not main_thread():
        yield
        return
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        received.append(number)
        if len(received) > 1:
            say("dask-io: stopped immediately")
            os._exit(_INTERRUPTED)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
