"""Headers of files in the metadata of an array, so that a file of the same format gets them back.

The metadata has one key for all of them, `HEADERS`. Its value maps the name of a format to a JSON
value that only this format understands. Formats that keep the headers of others, such as Zarr and
the manifest of a directory, store the mapping without looking into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HEADERS = "headers"
"""Key of the headers in the metadata of a store."""


def headers_in(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the headers in the metadata of a store by the names of their formats; not empty ones.

    Examples
    --------
    >>> headers_in({"headers": {"fits": ["OBJECT  = 'M31'"], "nrrd": {}}})
    {'fits': ["OBJECT  = 'M31'"]}
    """
    found = metadata.get(HEADERS)
    entries = found.items() if isinstance(found, dict) else ()
    return {name: header for name, header in sorted(entries) if _is_header(header)}


def _is_header(value: object) -> bool:
    return (isinstance(value, dict) and any(value.values())) or (
        isinstance(value, list) and bool(value)
    )


def header_in(metadata: Mapping[str, Any], name: str) -> Any:
    """Return the header of one format in the metadata of a store, None if it has none."""
    found = metadata.get(HEADERS)
    return found.get(name) if isinstance(found, dict) else None


def with_header(name: str, header: object) -> dict[str, Any]:
    """Return metadata that holds the header of one format; empty if the header is."""
    return {HEADERS: {name: header}} if header else {}


def gather_headers(metadata: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return metadata of an earlier version, which had a key for each format, with one key.

    Examples
    --------
    >>> gather_headers({"scaling": 1, "nifti": {"header": "AA"}}, ["nifti", "nrrd"])
    {'scaling': 1, 'headers': {'nifti': {'header': 'AA'}}}
    """
    old = {name: metadata[name] for name in names if name in metadata}
    rest = {key: value for key, value in metadata.items() if key not in old}
    return {**rest, HEADERS: {**old, **headers_in(rest)}} if old else rest
