"""How public functions look to a Python program: their errors, signatures and documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

from dask_io import api
from dask_io.jobs.settings import Options, ResumeOptions, Settings, with_known_options
from dask_io.python_errors import raises_for_python

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def public(function: AnyFunction) -> AnyFunction:
    """Return a function as Python programs see it.

    It raises errors without the frames inside Dask IO. Signature and documentation of a verb list
    all options, which its source summarizes as `Options`.
    """
    described = _describe(function)
    if described:
        options = _options_of(function).__annotations__
        call = raises_for_python(with_known_options(function, options))
    else:
        call = raises_for_python(function)
    # Found there again when it is unpickled.
    call.__module__ = "dask_io"

    if described:
        call.__doc__ = _with_parameters(inspect.getdoc(function) or "", described)
        call.__signature__ = _with_options(function, described)  # type: ignore[attr-defined]
    return cast("AnyFunction", call)


def _options_of(function: Callable[..., Any]) -> Any:
    annotation = str(function.__annotations__.get("options", ""))
    return ResumeOptions if ResumeOptions.__name__ in annotation else Options


def _describe(function: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each parameter of a verb, options included; {} for others.

    What the docstring of a verb does not describe is as in `resplit`.
    """
    takes_options = "Unpack[" in str(function.__annotations__.get("options", ""))
    if not takes_options or function.__module__ != api.__name__:
        return {}
    names = [name for name in inspect.signature(function).parameters if name != "options"]
    options = _options_of(function)
    names += [name for name in options.__annotations__ if name not in names]
    known = (
        _read_parameters(function),
        _read_parameters(options),
        _read_parameters(api.resplit),
        _read_parameters(Options),
    )
    found = {name: next((each[name] for each in known if name in each), "") for name in names}
    return {name: description for name, description in found.items() if description}


_SECTION = re.compile(
    r"^(?:Parameters|Attributes)\n-+\n((?:[^\n]+\n(?: {4}.*\n?|\n(?! *\w+\n-))+)+)", re.MULTILINE
)
_ENTRY = re.compile(r"^(\S.*)\n((?: {4}.*\n?)+)", re.MULTILINE)


@cache
def _read_parameters(documented: Any) -> dict[str, str]:
    """Return the indented description of each parameter in a docstring."""
    section = _SECTION.search((inspect.getdoc(documented) or "") + "\n")
    entries = _ENTRY.findall(section[1]) if section else []
    return {
        name: description.rstrip()
        for names, description in entries
        for name in names.split(", ")
        if not description.lstrip().startswith(("As in `resplit`", "See `"))
    }


def _with_parameters(text: str, described: dict[str, str]) -> str:
    """Put the description of all parameters into a docstring, in place of its own."""
    listed = "".join(f"{name}\n{description}\n" for name, description in described.items())
    section = f"Parameters\n----------\n{listed}"
    if found := _SECTION.search(text + "\n"):
        return f"{text[: found.start()]}{section}\n{text[found.end() :].lstrip()}".rstrip()
    summary, _, rest = text.partition("\n\n")
    return f"{summary}\n\n{section}\n{rest}".rstrip()


def _with_options(function: Callable[..., Any], described: dict[str, str]) -> inspect.Signature:
    signature = inspect.signature(function)
    named = {each.name: _default(each) for each in fields(Settings)}
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=named.get(name))
        for name in described
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*own, *options])


def _default(field: Field[Any]) -> object:
    if field.default is MISSING:
        return None
    return field.default.value if isinstance(field.default, Enum) else field.default
