"""The record of a codec: its names in formats, how it runs, its memory and its speed.

Each codec has a module with its record, and `registry` lists the records. Everywhere else a codec
is a mapping, as numcodecs and Zarr 2 write it: ``{"id": "zstd", "level": 3}``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import numpy as np

    from dask_io.codecs.streams import Stream

T = TypeVar("T")
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
DType: TypeAlias = "np.dtype[Any]"
Config: TypeAlias = "Mapping[str, Any]"
Speed: TypeAlias = "Callable[[Config], tuple[float, float]]"


def speed(decoding: float, encoding: float | Mapping[int, float]) -> Speed:
    """Return a function for the speeds of decoding and encoding, in megabytes per second.

    The speed of encoding may depend on the level: each key is the highest level with its speed.
    The figures are between those measured for 16-bit integers and for 32-bit floats, both with
    noise, on one core. Other data can be up to eight times faster or slower.

    Examples
    --------
    >>> speed(180, {1: 30, 9: 20})({"id": "gzip", "level": 5})
    (180, 20)
    """
    by_level = {0: encoding} if isinstance(encoding, int | float) else encoding

    def of(config: Config) -> tuple[float, float]:
        level = config.get("clevel", config.get("level"))
        found = up_to(by_level, level if isinstance(level, int) else 0)
        return decoding, by_level[max(by_level)] if found is None else found

    return of


def up_to(table: Mapping[int, T], level: int) -> T | None:
    """Return the value of the first key that is at least `level`, None if there is none."""
    return next((value for highest, value in table.items() if level <= highest), None)


UNKNOWN_SPEED = speed(200, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """A codec whose output size depends on the data: usually smaller, at worst a little larger.

    The first argument of `decode` and `start` is the numcodecs codec.
    """

    decode: Callable[[Any, Bytes, Bytes], None]
    """Decode bytes so that they fill an array exactly, or raise an exception."""
    workspace: Callable[[Config, int], int]
    """The most bytes held to encode a chunk of a given size, without input and output."""
    decoding_bytes: int | None = None
    """The most bytes held to decode, without input and output; None: the same as to encode."""
    start: Callable[[Any, int], Stream] | None = None
    """Start to encode a chunk of a given size, piece by piece."""
    encode: Callable[[Any, Bytes, int], Bytes] | None = None
    """Encode a whole chunk to at most a given size, in one buffer; None: with numcodecs."""
    history: Callable[[Config], int | None] = lambda _: 0
    """Bytes of the input kept between pieces; None if only whole chunks can be encoded."""
    slowdown_in_pieces: float = 1.0
    """How many times longer encoding takes piece by piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A codec whose output size depends only on the input size."""

    encoded_type: Callable[[Config, DType], DType]
    """The output type for an input type; a ValueError if the input type is not supported."""
    encoded_size: Callable[[Config, int], int] = lambda _, n_bytes: n_bytes
    # Arithmetic needs temporary arrays of at most complex128.
    coding_bytes: Callable[[Config, int], int] = lambda _, n_bytes: n_bytes + 3 * 16 * n_bytes
    """The most bytes held to encode or decode, without input and output."""
    whole: Callable[[Config, int], int] = lambda _, n_bytes: n_bytes
    """Bytes of the input that are whole elements; the rest stays unchanged."""
    encode: Callable[[Any, Bytes], Any] = lambda codec, data: codec.encode(data)
    """Encode elements; the first argument is the numcodecs codec."""
    decode: Callable[[Any, Bytes], Any] = lambda codec, data: codec.decode(data)
    """Decode elements."""
    is_checksum: bool = False
    """Whether it only adds a checksum, and so may follow a compressor."""
    is_for_arrays: bool = True
    """Whether Zarr 3 lists it before the codec `bytes`."""
    cast: Callable[[Config, DType, DType], Config] = lambda config, *_: config
    """Adapt the parameters for elements of one type to those of another type."""
    fit: Callable[[Config, int, int], Config] = lambda config, *_: config
    """Adapt the parameters to an input size and an element size."""


@dataclass(frozen=True, slots=True)
class Zarr3:
    """The configuration of a codec that Zarr 3 defines; others get the prefix ``numcodecs.``."""

    write: Callable[[dict[str, Any], int], dict[str, Any] | None]
    """The configuration for parameters and an item size; None if it needs the prefix."""
    read: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """The parameters for a configuration."""


@dataclass(frozen=True, slots=True)
class Hdf5:
    """A codec in HDF5: a filter number and its client data values."""

    number: int
    _: KW_ONLY
    read: Callable[[tuple[int, ...], int], dict[str, Any] | None] = lambda *_: None
    """The parameters for values and an item size; None if only HDF5 can run the filter."""
    write: Callable[[Config, int], tuple[int, ...] | None] = lambda *_: None
    """The values for a codec and an item size; None if HDF5 has no such filter."""
    kept: tuple[int, int | None] = (0, None)
    """The range of the values that do not depend on the dataset."""
    is_optional: bool = True
    """Whether HDF5 may skip the filter for a chunk that it would not make smaller."""
    has_size: Callable[[tuple[int, ...]], bool] = lambda _: False
    """Whether a chunk starts with its decoded size, in 8 bytes."""

    @classmethod
    def with_level(cls, number: int, default: int) -> Hdf5:
        """Return a filter whose only value is a level, with this default in HDF5."""
        return cls(
            number,
            read=lambda values, _: {"level": values[0] if values else default},
            write=lambda config, _: (int(config.get("level", 1)),),
        )


@dataclass(frozen=True, slots=True)
class Codec:
    """Everything that is known about a codec."""

    name: str
    """Its name in numcodecs and in Zarr 2."""
    coding: Compressor | Filter | None
    """How it runs; None if only HDF5 can run it."""
    _: KW_ONLY
    speed: Speed = UNKNOWN_SPEED
    lossless_for: str = "biufcmMSUV"
    """The dtype kinds for which it is lossless."""
    parameters: Mapping[str, Collection[object]] | None = None
    """The choices of users for each parameter: values, or words for values. None if users cannot
    choose the codec."""
    zarr3: Zarr3 | None = None
    hdf5: Hdf5 | None = None
