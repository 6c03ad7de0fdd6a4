"""Consolidated metadata of groups, which zarr-python makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import zarr
from zarr.buffer.cpu import Buffer
from zarr.storage import LocalStore, MemoryStore

from dask_io.formats.zarr.documents import CONSOLIDATED, V3, read_documents
from dask_io.formats.zarr.group import join, nodes
from dask_io.formats.zarr.quiet import quiet
from dask_io.hierarchy.tree import ROOT
from dask_io.storage.files import medium_of, write_whole
from dask_io.storage.local.regular_files import check_to_read
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.json_documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zarr.abc.buffer import Buffer as AnyBuffer
    from zarr.abc.buffer import BufferPrototype
    from zarr.abc.store import ByteRequest

    from dask_io.storage.location import Location


def in_memory(documents: Mapping[str, Mapping[str, bytes]]) -> MemoryStore:
    """Return a zarr-python store that holds documents, given by path and name."""
    content: dict[str, AnyBuffer] = {
        join(path, name): Buffer.from_bytes(text)
        for path, named in documents.items()
        for name, text in named.items()
    }
    return MemoryStore(content)


def gather(documents: Mapping[str, Mapping[str, bytes]], path: str) -> tuple[str, bytes]:
    """Consolidate the metadata of a group with zarr-python; return the document and its name.

    `documents` are those of the group and of everything in it, by path and name.
    """
    plain = {
        inside: {n: _without_consolidated(text) if n == V3 else text for n, text in named.items()}
        for inside, named in documents.items()
    }
    store = in_memory(plain)
    with quiet():
        zarr.consolidate_metadata(store, path=path or None)
    name = V3 if V3 in documents[path] else CONSOLIDATED
    return name, store._store_dict[join(path, name)].to_bytes()  # noqa: SLF001 - there is no other way to see it at once


def _without_consolidated(text: bytes) -> bytes:
    document = parse_json(text)
    document.pop("consolidated_metadata", None)
    return json.dumps(document).encode()


class _Files(LocalStore):
    """The files of a group for zarr-python, read and written like all other files."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> AnyBuffer | None:
        """Read a file, if it exists and is a regular file."""
        path = self.root / key
        if path.exists():
            check_to_read(path, path.stat())
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: AnyBuffer) -> None:
        """Write a file; it appears when it is complete and durable."""
        write_whole(self.root / key, value.to_bytes())


def consolidate(root: Location) -> None:
    """Consolidate the metadata of a group again."""
    if isinstance(root, Path):
        # zarr-python follows links, unlike us.
        with quiet(), storage_errors(root):
            zarr.consolidate_metadata(_Files(root))
        return
    name = V3 if V3 in read_documents(root) else CONSOLIDATED
    medium_of(root).update(root / name, lambda: _gather_in(root))


def _gather_in(root: Location) -> bytes:
    _, text = gather({node.path: node.documents for node in nodes(root)}, ROOT)
    return text
