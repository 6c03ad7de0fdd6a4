"""Paths of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from dask_io.storage.objects.bucket import Objects
    from dask_io.storage.objects.connect import Connection


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """A key in an object store, with the interface of a local path.

    There are no directories. A prefix counts as a directory as long as there is an object below it.
    """

    connection: Connection
    key: str = ""

    def __str__(self) -> str:
        return f"{self.connection.scheme}://{self.connection.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str) -> ObjectPath:
        parts = [*self.key.split("/"), *name.split("/")]
        return ObjectPath(self.connection, "/".join(part for part in parts if part))

    def __lt__(self, other: ObjectPath) -> bool:
        return str(self) < str(other)

    def joinpath(self, *names: str) -> ObjectPath:
        """Return the path with these names appended."""
        return self / "/".join(names)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The suffix of the name, including the dot."""
        stem, dot, end = self.name.rpartition(".")
        return f".{end}" if dot and stem and end else ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The bucket, and the parts of the key."""
        bucket = f"{self.connection.scheme}://{self.connection.bucket}"
        return (bucket, *filter(None, self.key.split("/")))

    @property
    def parent(self) -> ObjectPath:
        """The parent; the bucket is its own parent."""
        return ObjectPath(self.connection, self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[ObjectPath, ...]:
        """All parents, nearest first."""
        parts = self.key.split("/") if self.key else []
        ends = range(len(parts) - 1, -1, -1)
        return tuple(ObjectPath(self.connection, "/".join(parts[:end])) for end in ends)

    def with_name(self, name: str) -> ObjectPath:
        """Return the path with another last part."""
        if not self.key:
            raise ValueError(f"{self} has no name")
        return self.parent / name

    def again(self, url: str) -> ObjectPath:
        """Return the path of a URL in the same store."""
        bucket = f"{self.connection.scheme}://{self.connection.bucket}"
        return ObjectPath(self.connection) / url.removeprefix(bucket)

    def absolute(self) -> ObjectPath:
        """Return itself."""
        return self

    def resolve(self) -> ObjectPath:
        """Return itself: there are no links."""
        return self

    @property
    def store(self) -> ObjectStore:
        """The store of obstore."""
        return self.connection.store

    @property
    def medium(self) -> Objects:
        """The medium of objects."""
        from dask_io.storage.objects.bucket import OBJECTS  # noqa: PLC0415 - only if needed

        return OBJECTS

    def exists(self) -> bool:
        """Tell whether it is an object, or a prefix of objects."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Tell whether it is an object."""
        return bool(self.key) and self.medium.find(self) is not None

    def is_dir(self) -> bool:
        """Tell whether it is a prefix of objects; False for a web server."""
        return self.connection.can_list and self.medium.is_folder(self)
