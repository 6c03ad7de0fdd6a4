"""Formats of block files: a header, then the elements of one block.

A format whose blocks are not such files is a `Container`. A format module holds one `Format`.
Another package adds its own through the entry point group ``dask_io.formats`` and proves it with
`dask_io.testing.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dask_io.geometry import Layout
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.block_files import BlockFiles, Blocks
    from dask_io.stores.container import TargetOptions
    from dask_io.stores.space import Space
    from dask_io.stores.spec import ArraySpec
    from dask_io.stores.store import Readback, Source, Target

Peek: TypeAlias = Callable[[int], bytes]
"""Returns the first n bytes of a file, or all if there are fewer."""
ENCODING = "encoding"
"""Key of the metadata for the compression of data that follows a header; see `Format.encodings`."""
OpenAlike: TypeAlias = "Callable[[Location], Source | None]"
"""Opens a file that is stored like another one; returns None for any other."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a block file.

    Attributes
    ----------
    shape, dtype, layout
        The block's own shape, the type of its elements and their order.
    offset
        Where the data begins; 0 for a header that has not been created yet.
    space
        The space of the block, with the origin at its first element. None if it is unknown.
    metadata
        Other metadata of the array, as plain JSON values.
    start
        Where the block begins in its array; empty in a header that was read from a file.
    data_file
        Name of the file that holds the data, if the header is in a file of its own and contains
        this name. It is relative to the directory of the header.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    offset: int = 0
    space: Space | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    start: tuple[int, ...] = ()
    data_file: str = ""


class Prepare(Protocol):
    """Adapts the description of a new array to a format; see `Format.prepare`."""

    def __call__(self, spec: ArraySpec, options: TargetOptions, *, has_manifest: bool) -> ArraySpec:
        """Return the array as its files will describe it, or with a manifest for the rest."""


class Streamed(Protocol):
    """Reads and writes block files that are compressed as a whole."""

    def encode_header(self, header: bytes) -> bytes:
        """Return a new header as its file stores it."""

    def open(self, files: BlockFiles) -> Source:
        """Return the source for files whose names and headers have been checked."""

    def read_back(self, files: BlockFiles) -> Readback:
        """Open written files, to verify their checksums."""

    def make(
        self, blocks: Blocks, *, overwrite: bool, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that holds one block: a header, then its elements, then the end.

    Attributes
    ----------
    name
        Its name for users.
    suffixes
        Suffixes of its files, each with its dot; new files get the first.
    longest_header
        Bytes of the longest header accepted; 0 if files do not describe themselves.
    parse_header
        Reads a header. Raises ValueError if it is invalid; the message completes "the file ...".
    make_header
        Returns everything before the data of a block. Raises ValueError if the format cannot store
        the block; the message completes "the format ...".
    has_space
        Whether headers can store a block's space. They then differ from block to block.
    keeps
        Keys of other metadata that headers can store.
    keeps_header
        Whether new files get the other entries of an older header of this format. `parse_header`
        puts them under the key `HEADERS` of the metadata; see `dask_io.stores.kept_headers`.
    order
        ``"C"`` or ``"F"`` if blocks are always stored in this order; empty if either.
    byte_order
        ``">"`` or ``"<"`` if elements are always stored in this byte order; empty for any.
    is_read_only
        Whether files are never written; `make_header` then raises ValueError.
    trailer
        Returns the number of zeros that follow a block's data, from the size of the data in bytes.
    most_after
        Bytes of other content that may follow the data, in formats where its size is unknown.
    keep
        Returns more of a source's metadata that headers can store, if that depends on the values.
    open_file
        Opens a file that need not be a header and elements, for formats that have such files. Block
        files without a manifest are then opened one by one, and form one source together.
    open_alike
        From a file and the source that `open_file` returned for it, returns a function that opens
        other files. That function returns None for files that are stored in another way. For
        formats in which this is much faster than `open_file`; None if a file cannot be compared.
    header_suffix
        For headers in files of their own: their suffix. The header of ``scan.img`` is then in
        ``scan.hdr`` in the same directory. Empty if a file begins with its header.
    names_data
        Whether headers contain the name of the file with their data, or have no such name if the
        data follows the header in the same file.
    header_file
        For one file whose header has any other name: that name, relative to the directory of the
        data. It is set when the header is opened; see `Header.data_file`.
    prepare
        Returns a new array as files of this format describe it, from the source's description and
        the options of the target. Raises ValueError if the format cannot hold the array; the
        message completes "format ...". Formats without it refuse all options.
    compare
        Returns how a block's metadata differs from the metadata of its array; the message
        completes "the file ...". Empty if it does not.
    stream
        Reads and writes files that are compressed as a whole; None for other files. `parse_header`
        then gets compressed bytes, while `make_header` returns a header that is not compressed.
    encodings
        Readers of data that is compressed while its header is not, by the word that `parse_header`
        puts under the key `ENCODING` of the metadata.
    variants
        Formats of the same name whose files have other suffixes.
    """

    name: str
    suffixes: tuple[str, ...]
    longest_header: int
    parse_header: Callable[[Peek], Header]
    make_header: Callable[[Header], bytes]
    has_space: bool = False
    keeps: frozenset[str] = frozenset()
    keeps_header: bool = False
    order: Literal["", "C", "F"] = ""
    byte_order: Literal["", "<", ">"] = ""
    is_read_only: bool = False
    trailer: Callable[[int], int] | None = None
    most_after: int = 0
    keep: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    open_file: Callable[[Location], Source] | None = None
    open_alike: Callable[[Location, Source], OpenAlike | None] | None = None
    header_suffix: str = ""
    names_data: bool = False
    header_file: str = ""
    prepare: Prepare | None = None
    compare: Callable[[Mapping[str, Any], Mapping[str, Any]], str] | None = None
    stream: Streamed | None = None
    encodings: Mapping[str, Streamed] = field(default_factory=dict)
    variants: tuple[Format, ...] = ()

    def size_of_data(self, n_bytes: int) -> int:
        """Return the bytes in a file from the first element of a block on, with the trailer."""
        return n_bytes + (self.trailer(n_bytes) if self.trailer is not None else 0)

    @property
    def all_suffixes(self) -> tuple[str, ...]:
        """Suffixes of all files that can be opened, including variants and header files.

        A suffix that ends with another one, as ``.ome.tif`` with ``.tif``, is left out.
        """
        # A header that names its data is what users open; the data may have any name.
        is_opened = not (self.names_data and self.header_suffix)
        own = (*(self.suffixes if is_opened else ()), *filter(None, [self.header_suffix]))
        every = own + tuple(suffix for each in self.variants for suffix in each.all_suffixes)
        return tuple(s for s in every if not any(s != end and s.endswith(end) for end in every))

    @property
    def is_detached(self) -> bool:
        """Whether headers are in files of their own."""
        return bool(self.header_suffix or self.header_file)

    def of_file(self, name: str) -> Format:
        """Return the variant to which a file or a pattern of files belongs, by its suffix."""
        for variant in self.variants:
            if name.endswith((*variant.suffixes, variant.header_suffix or "\0")):
                return variant
        return self

    def compressed_by(self, codec: str | None) -> Format:
        """Return the variant whose files are compressed as a whole by a codec, else this format."""
        if codec is None or codec.partition(":")[0] != "gzip":
            return self
        # Others refuse the option, and say why.
        takes = (each for each in self.variants if each.stream is not None and each.prepare)
        return next(takes, self)

    def data_name(self, name: str) -> str:
        """Return the name of the file with a block's data; the name given may be its header's.

        Examples
        --------
        >>> pair = Format("pair", (".img",), 348, None, None, header_suffix=".hdr")
        >>> pair.data_name("scan.hdr"), pair.data_name("scan.img"), pair.header_name("scan.img")
        ('scan.img', 'scan.img', 'scan.hdr')
        """
        suffix = self.header_suffix
        if not suffix or not name.endswith(suffix):
            return name
        return name.removesuffix(suffix) + self.suffixes[0]

    def header_name(self, name: str) -> str:
        """Return the name of the file that has the header of a block's data file."""
        if self.header_file or not self.header_suffix:
            return self.header_file or name
        suffix = max((each for each in self.suffixes if name.endswith(each)), key=len, default="")
        return name.removesuffix(suffix) + self.header_suffix
