"""The parts that all commands share: one line per error, exit codes, signals, output."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, NoReturn

import click

from dask_io import why_unsupported
from dask_io.cli.grouped import COMMAND_GROUPS, GroupedCommand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

DEBUG = "dask_io.debug"
"""Key in the context for ``--debug``."""
JSON = "dask_io.json"
"""Key in the context for ``--json``, True until an object has been printed."""
LOG = "dask_io.log"
"""Key in the context for the file of ``--log``."""

# What other programs call our options.
_EXTRA = re.compile(r"got unexpected extra arguments? \((.*)\)")
# The beginning of every log, by which a later run knows that it may append to the file.
_TIME, _LOG_HEAD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "), 20
# The longest line of help, and the width of names next to it.
_WHOLE, _COLUMN = 100, 12
_SIZE_OPTIONS = ("memory", "max_rate", "chunk_size", "size")
_NUMBER, _UNIT = re.compile(r"\d+(\.\d+)?"), re.compile(r"[kmgtp](i?b)?|bytes?", re.IGNORECASE)
_USAGE, _ENVIRONMENT, _INTERRUPTED = 2, 3, 4
_ICECHUNK_LOG = "ICECHUNK_LOG"


class Verbs(click.Group):
    """A group of commands that keeps their order, and reports every error in one line."""

    command_class = GroupedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the commands in groups, each with the whole first sentence of its help."""
        for title, names in COMMAND_GROUPS.items():
            found = [
                (name, self.commands[name].get_short_help_str(_WHOLE)) for name in names.split()
            ]
            with formatter.section(title):
                formatter.write_dl(found, col_spacing=_COLUMN - max(map(len, names.split())))

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the options before the command."""
        if reason := why_unsupported():
            # Not with `say`, whose imports may fail here.
            click.echo(f"dask-io: {reason}", err=True)
            sys.exit(_ENVIRONMENT)
        with one_line_errors():
            return super().make_context(*arguments, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; errors in those after it may be wanted as JSON."""
        options = args[: args.index("--")] if "--" in args else args
        if "--json" in options:
            ctx.meta[JSON] = True
        return super().parse_args(ctx, args)

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
    from dask_io.errors import (  # noqa: PLC0415  # only click is loaded for --help
        DaskIOError,
        StorageError,
    )
    from dask_io.python_errors import for_command_line, similar_path  # noqa: PLC0415  # the same

    try:
        yield
    except (click.exceptions.Exit, SystemExit):
        raise
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "dask-io"
        _end(f"{_explain(error)}; try {path} --help", _USAGE, ctx)
    except click.ClickException as error:
        _end(_clause(error.format_message()), _USAGE, ctx)
    except StorageError as error:
        guess = similar_path(error.path) if error.is_absent else ""
        original = for_command_line(error)
        _end(f"{original}{guess}", error.exit_code, ctx, original)
    except DaskIOError as error:
        original = for_command_line(error)
        _end(str(original), error.exit_code, ctx, original)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", _INTERRUPTED, ctx)
    except Exception as error:  # noqa: BLE001  # every error becomes one line
        # Python 3.11 raises it as a RuntimeError while a library defines its classes.
        if isinstance(error.__cause__, KeyboardInterrupt):
            _end("interrupted", _INTERRUPTED, ctx)
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


def _explain(error: click.UsageError) -> str:
    """Return the message of a usage error, with the option or the quotes that were meant."""
    from dask_io.errors import (  # noqa: PLC0415  # only click is loaded for --help
        OTHER_WORDS,
        did_you_mean,
    )

    message = _clause(error.format_message())
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        name = error.option_name
        known = [each for param in error.ctx.command.params for each in param.opts]
        other = f"--{OTHER_WORDS.get(name.lstrip('-').replace('-', '_'))}"
        if other in known:
            return f"no such option {name}; did you mean {other}?"
        return f"no such option {name}{did_you_mean(name, known)}"
    if isinstance(error, click.exceptions.NoSuchCommand):
        return message
    extra = _EXTRA.fullmatch(message)
    if extra is not None and error.ctx is not None and (meant := _size_of(error.ctx, extra[1])):
        return meant
    if extra is not None and (files := _similar_files(first := extra[1].partition(" ")[0])):
        return (
            f"too many paths, of which {first} is one; if they are those of a pattern, put it in "
            f"quotes, such as '{files}'"
        )
    return message


def _similar_files(path: str) -> str:
    """Return a pattern of files like an existing one, empty if there is no such file."""
    place = Path(path)
    # The name may be too long for a file, or that of a folder such as the current one.
    with suppress(OSError, ValueError):
        if place.exists():
            return str(place.with_name(f"*{place.suffix}"))
    return ""


def _size_of(ctx: click.Context, extra: str) -> str:
    """Return what was meant if a size and its unit are two arguments; empty if they are not."""
    given = ctx.params
    # The unit may have been taken for a path, so that the last path is left over.
    paths = [
        str(given[each.name]) for each in ctx.command.params if isinstance(each, click.Argument)
    ]
    words = [*extra.split(), *(each for each in paths if not os.path.exists(each))]  # noqa: PTH110
    unit = next(filter(_UNIT.fullmatch, words), None)
    for name in _SIZE_OPTIONS:
        number = given.get(name)
        if unit is not None and isinstance(number, str) and _NUMBER.fullmatch(number):
            option = f"--{name.replace('_', '-')}"
            both = f"{number} {unit}"
            return f"{option} {both} has a space; write {number}{unit}, or '{both}' in quotes"
    return ""


def _clause(message: str) -> str:
    """Turn a message of click into one clause."""
    text = " ".join(message.split()).rstrip(".")
    first, rest = text[:1], text[1:]
    return first.lower() + rest


def _end(
    message: str,
    code: int,
    ctx: click.Context | None = None,
    error: BaseException | None = None,
) -> NoReturn:
    """End the command with a message, and with the traceback of an error if it is asked for."""
    if ctx is not None and ctx.meta.get(DEBUG):
        found = error or sys.exception()
        say("".join(traceback.format_exception(found)).rstrip())
    say(f"dask-io: {one_line(message)}")
    if ctx is not None and ctx.meta.get(JSON):
        show_json({"error": {"message": one_line(message), "exit_code": code}})
    raise click.exceptions.Exit(code)


def one_line(text: str) -> str:
    """Escape line breaks and control characters, which file names may contain."""
    from dask_io.errors import printable  # noqa: PLC0415  # only click is loaded for --help

    return printable(text)


class Log:
    """A file that gets every line with the time."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Append lines."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._file.write("".join(f"{now} {line}\n" for line in text.splitlines()))
        self._file.flush()


@contextmanager
def open_log(path: str) -> Iterator[Log]:
    """Open a log to append to it, but to no other file.

    Raises
    ------
    StorageError
        If it cannot be written, or is a link or not a file.
    UsageError
        If a file is there that is not a log.
    """
    from dask_io.errors import UsageError  # noqa: PLC0415  # only click is loaded for --help
    from dask_io.storage.local.regular_files import open_own  # noqa: PLC0415  # loaded on use
    from dask_io.storage.os_errors import storage_errors  # noqa: PLC0415  # loaded on use

    with storage_errors(path):
        fd = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    with os.fdopen(fd, "a", encoding="utf-8") as file:
        head = os.pread(fd, _LOG_HEAD, 0)
        if head and not _TIME.match(head):
            name = one_line(path)
            raise UsageError(f"{name} exists and is not a log of Dask IO; give another name")
        yield Log(file)


def current_log() -> Log | None:
    """Return the log of the current command."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(LOG)


def _note(text: str) -> None:
    """Append a message to the log, if there is one."""
    if (log := current_log()) is not None:
        # A full disk must not end the run.
        with suppress(OSError, ValueError):
            log.write(text)


def say(text: str) -> None:
    """Write a message to stderr; ignore errors if it is closed."""
    _note(text)
    with suppress(OSError):
        click.echo(_encodable(text, sys.stderr), err=True)


def show(text: str) -> None:
    """Write a result to stdout; a closed pipe, such as of ``head``, is not an error."""
    _note(text)
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
