"""The codecs of a chunk."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numcodecs  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_io.codecs.chain import Chain, as_bytes, longest_encoded
from dask_io.codecs.cores import Cores
from dask_io.codecs.parsing import parse_codec
from dask_io.codecs.registry import is_lossless
from dask_io.errors import UsageError
from tests.peak import peak_of, stays_within

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESSORS: list[dict[str, Any]] = [
    {"id": "zstd", "level": 1},
    {"id": "zstd", "level": 3, "checksum": True},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2},
    {"id": "lz4"},
    {"id": "gzip", "level": 1},
    {"id": "zlib", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "preset": 1},
]
FILTERS: list[dict[str, Any]] = [
    {"id": "shuffle", "elementsize": 4},
    {"id": "delta", "dtype": "<i4"},
    {"id": "delta", "dtype": "<i4", "astype": "<i8"},
    {"id": "astype", "encode_dtype": "<i8", "decode_dtype": "<i4"},
    {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<i4"},
    {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i4", "astype": "<i8"},
]
CHECKSUMS: list[dict[str, Any]] = [
    {"id": name} for name in ("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3")
]
NUMBER = np.dtype("<i4")


def chains() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw codecs that go together."""
    return st.builds(
        lambda *parts: [config for part in parts for config in part],
        st.lists(st.sampled_from(FILTERS[:2]), max_size=2),
        st.lists(st.sampled_from(FILTERS), max_size=1),
        st.lists(st.sampled_from(CHECKSUMS), max_size=1),
        st.lists(st.sampled_from(COMPRESSORS), max_size=1),
        st.lists(st.sampled_from(CHECKSUMS), max_size=1),
    )


def values(n_elements: int, seed: int, spread: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return numbers that compress more or less, as bytes."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, spread, n_elements).astype(NUMBER).view(np.uint8)


def decoded(chain: Chain, encoded: Any) -> bytes:
    """Decode into an array of the chunk's size."""
    out = np.full(chain.n_bytes, 7, np.uint8)
    chain.decode(as_bytes(encoded), out)
    return out.tobytes()


@given(
    configs=chains(),
    n=st.integers(1, 3000),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([1, 5, 2**30]),
)
def test_what_is_encoded_comes_back(
    configs: list[dict[str, Any]], n: int, seed: int, spread: int
) -> None:
    """Any chain gives back what it was given, and takes no more room than it says."""
    data = values(n, seed, spread)
    chain = Chain(configs, NUMBER, data.nbytes)

    encoded = chain.encode(data)

    assert encoded.nbytes <= chain.longest
    assert decoded(chain, encoded) == data.tobytes()


@given(
    config=st.sampled_from(COMPRESSORS),
    n=st.integers(1, 3000),
    piece=st.integers(1, 4000),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([1, 5, 2**30]),
)
def test_what_is_encoded_in_pieces_comes_back(
    config: dict[str, Any], n: int, piece: int, seed: int, spread: int
) -> None:
    """As what is encoded whole does, however it was cut, in a frame that says how long it is."""
    data = values(n, seed, spread)
    chain = Chain([config], NUMBER, data.nbytes)
    assert chain.takes_pieces == (config["id"] not in {"blosc", "lz4"})
    if not chain.takes_pieces:
        return

    starts = range(0, data.nbytes, piece)
    encoded = b"".join(chain.encode_pieces(data[start : start + piece] for start in starts))

    assert len(encoded) <= chain.longest
    assert decoded(chain, encoded) == data.tobytes()
    assert bytes(numcodecs.get_codec(config).decode(encoded)) == data.tobytes()


@pytest.mark.parametrize(
    "configs",
    [
        [],
        [{"id": "crc32c"}],
        [{"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 3}],
        [{"id": "zstd", "level": 3}, {"id": "crc32c"}],
        [{"id": "zstd", "level": 10}],
    ],
    ids=str,
)
def test_what_more_than_a_compressor_changes_is_encoded_whole(
    configs: list[dict[str, Any]],
) -> None:
    """And what would look back at more than most chunks have."""
    assert not Chain(configs, NUMBER, 4000).takes_pieces


@pytest.mark.parametrize(
    "config",
    [each for each in COMPRESSORS if each["id"] not in {"blosc", "lz4"}],
    ids=str,
)
def test_pieces_take_no_more_memory_than_said(config: dict[str, Any]) -> None:
    """However long the chunk is, and if it does not compress."""
    data, piece = values(2**20, 0, 2**30), 2**18
    chain = Chain([config], NUMBER, data.nbytes)
    starts = range(0, data.nbytes, piece)

    def encode() -> None:
        for _ in chain.encode_pieces(data[start : start + piece] for start in starts):
            pass

    assert stays_within(chain.piecewise_bytes(piece), encode)
    assert chain.piecewise_bytes(piece) < chain.encoding_bytes


@given(
    configs=chains(),
    n=st.integers(1, 500),
    seed=st.integers(0, 2**32 - 1),
    changes=st.data(),
)
def test_broken_chunks_are_refused_or_harmless(
    configs: list[dict[str, Any]], n: int, seed: int, changes: st.DataObject
) -> None:
    """Truncated, lengthened, flipped or random bytes never bring anything but a ValueError."""
    data = values(n, seed, 9)
    chain = Chain(configs, NUMBER, data.nbytes)
    encoded = bytearray(chain.encode(data).tobytes())
    how = changes.draw(st.sampled_from(["cut", "flip", "more", "random"]))
    if how == "cut":
        del encoded[changes.draw(st.integers(0, len(encoded) - 1)) :]
    elif how == "flip":
        encoded[changes.draw(st.integers(0, len(encoded) - 1))] ^= changes.draw(st.integers(1, 255))
    elif how == "more":
        encoded += changes.draw(st.binary(min_size=1, max_size=40))
    else:
        encoded = bytearray(changes.draw(st.binary(max_size=200)))
    # Codecs may leave bytes behind their stream aside; what is cut short never passes.
    refused = pytest.raises(ValueError, match=r"^cannot be decoded: ")
    with refused if how == "cut" else suppress(ValueError):
        decoded(chain, bytes(encoded))


@pytest.mark.parametrize("config", CHECKSUMS, ids=lambda config: config["id"])
@given(place=st.integers(0, 403), change=st.integers(1, 255))
@settings(max_examples=30)
def test_checksums_find_every_flipped_byte(config: dict[str, Any], place: int, change: int) -> None:
    """Wherever it is."""
    data = values(100, 1, 2**30)
    chain = Chain([config], NUMBER, data.nbytes)
    encoded = bytearray(chain.encode(data).tobytes())
    encoded[place] ^= change

    with pytest.raises(ValueError, match="cannot be decoded"):
        decoded(chain, bytes(encoded))


HUGE = 2**24
BOMBS: dict[str, tuple[str, Callable[[], Any]]] = {
    "gzip": ("gzip", lambda: gzip.compress(bytes(HUGE), 9)),
    "gzip of three members": ("gzip", lambda: gzip.compress(bytes(1000)) * 3),
    "zlib": ("zlib", lambda: zlib.compress(bytes(HUGE), 9)),
    "bz2": ("bz2", lambda: bz2.compress(bytes(HUGE))),
    "lzma": ("lzma", lambda: lzma.compress(bytes(HUGE))),
    "lzma with a huge dictionary": (
        "lzma",
        lambda: lzma.compress(
            bytes(1000), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**27, "preset": 0}]
        ),
    ),
    "zstd": ("zstd", lambda: numcodecs.Zstd(3).encode(np.zeros(HUGE, np.uint8))),
    "zstd of two frames": ("zstd", lambda: numcodecs.Zstd(3).encode(np.zeros(999, "u1")) * 2),
    "zstd that lies": ("zstd", lambda: b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(40)),
    "blosc": ("blosc", lambda: numcodecs.Blosc().encode(np.zeros(HUGE, np.uint8))),
    "blosc that lies": (
        "blosc",
        lambda: struct.pack("<4BIII", 2, 1, 1, 1, 2**31 - 1, 2**20, 56) + bytes(40),
    ),
    "lz4": ("lz4", lambda: numcodecs.LZ4().encode(np.zeros(HUGE, np.uint8))),
    "lz4 that lies": ("lz4", lambda: struct.pack("<i", -1) + bytes(40)),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_do_not_go_off(kind: str) -> None:
    """What would decode to more than a chunk is refused, and hardly any memory is taken."""
    name, make = BOMBS[kind]
    chain, bomb = Chain([{"id": name}], np.dtype("u1"), 1000), make()

    def go_off() -> None:
        with pytest.raises(ValueError, match="cannot be decoded"):
            decoded(chain, bomb)

    # The dictionary that xz asks for by default alone takes 8 MiB.
    assert stays_within((9 if name == "lzma" else 2) * 2**20, go_off)


def test_zstandard_without_a_size_is_decoded() -> None:
    """Frames need not say what they decode to; then the decoder itself is held to it."""
    frame = b"(\xb5/\xfd\x00\x00M\x00\x00\x10\x00\x00\x01\x00\xe3+\x80\x05"
    assert decoded(Chain([{"id": "zstd"}], np.dtype("u1"), 1000), frame) == bytes(1000)
    for n_bytes in (999, 1001):
        with pytest.raises(ValueError, match="cannot be decoded"):
            decoded(Chain([{"id": "zstd"}], np.dtype("u1"), n_bytes), frame)


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_several_streams_are_decoded(module: Any) -> None:
    """As the tools of the same names do, in slices however long; but none may be cut short."""
    data = np.random.default_rng(0).integers(0, 3, 10**6).astype(np.uint8).tobytes()
    streams = module.compress(data[:600_000]) + module.compress(data[600_000:])
    chain = Chain([{"id": module.__name__}], np.dtype("u1"), 10**6)
    assert decoded(chain, streams) == data
    if module is not gzip:
        # As Python's own functions have it, which other readers call.
        assert decoded(chain, streams + b"this is no stream") == data
    for cut_short in (streams[:-9], streams[: len(streams) // 2]):
        with pytest.raises(ValueError, match="cannot be decoded"):
            decoded(chain, cut_short)


@pytest.mark.parametrize("name", ["gzip", "zlib", "bz2", "lzma"])
@pytest.mark.parametrize("n_bytes", [2**18 - 1, 2**18, 2**18 + 1, 2**19 + 5, 2**20 + 258])
def test_streams_may_end_where_a_slice_does(name: str, n_bytes: int) -> None:
    """All of the input may be taken in while output is still to come."""
    data = np.zeros(n_bytes, np.uint8)
    chain = Chain([{"id": name}], np.dtype("u1"), n_bytes)
    assert decoded(chain, chain.encode(data)) == bytes(n_bytes)


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        ([{"id": "pickle"}], "codec pickle, which is not supported"),
        ([{"id": "vlen-utf8"}], "codec vlen-utf8, which is not supported"),
        ([{"id": "json2"}], "codec json2, which is not supported"),
        ([{"id": "zstd"}, {"id": "gzip"}], "codec gzip after a compressor"),
        ([{"id": "packbits"}], "packbits, which is not supported for elements of int32"),
        ([{"id": "delta", "dtype": "<i8"}], "delta for type int64, but elements of type int32"),
        (
            [{"id": "astype", "encode_dtype": "U999", "decode_dtype": "<i4"}],
            "is not numeric",
        ),
        (
            [{"id": "astype", "encode_dtype": "O", "decode_dtype": "<i4"}],
            "is not numeric",
        ),
        ([{"id": "delta"}], "is not numeric"),
        ([{"id": "jenkins_lookup3", "prefix": "QQ=="}], "with a prefix"),
    ],
)
def test_other_codecs_are_refused(configs: list[dict[str, Any]], says: str) -> None:
    """Whatever numcodecs could do: only what is known to be safe is used."""
    with pytest.raises(ValueError, match=says):
        Chain(configs, NUMBER, 400)


# Each compressor and each filter with every run, all combinations on demand.
@pytest.mark.parametrize(
    ("compressor", "filters"),
    [
        pytest.param(compressor, filters, marks=pytest.mark.slow if n and m and n != m else ())
        for n, compressor in enumerate(COMPRESSORS)
        for m, filters in enumerate([[], *([each] for each in FILTERS)])
    ],
    ids=str,
)
def test_no_more_memory_is_taken_than_said(
    compressor: dict[str, Any], filters: list[dict[str, Any]]
) -> None:
    """Neither to encode nor to decode."""
    data = values(2**18, 0, 2**30)
    chain = Chain([*filters, compressor], NUMBER, data.nbytes)
    encoded, out = chain.encode(data), np.empty(data.nbytes, np.uint8)

    assert stays_within(chain.encoding_bytes, lambda: chain.encode(data))
    assert stays_within(chain.decoding_bytes, lambda: chain.decode(encoded, out))
    assert encoded.nbytes <= longest_encoded(2 * data.nbytes)


@pytest.mark.parametrize(
    "config",
    [
        *({"id": "lzma", "preset": preset} for preset in (None, 0, 3, 6 | lzma.PRESET_EXTREME, 9)),
        {"id": "lzma", "preset": 2 | lzma.PRESET_EXTREME},
        {"id": "lzma", "preset": 3 | lzma.PRESET_EXTREME},
        {"id": "lzma", "filters": [{"id": lzma.FILTER_LZMA2, "dict_size": 2**26}]},
        {"id": "lzma", "filters": [{"id": lzma.FILTER_LZMA2, "dict_size": 2**24 + 1}]},
        {"id": "lzma", "filters": [{"id": lzma.FILTER_LZMA2, "preset": 4}]},
        {"id": "bz2", "level": 9},
    ],
    ids=str,
)
def test_slow_compressors_take_no_more_than_said(config: dict[str, Any]) -> None:
    """What they take depends on their settings, not on how much there is."""
    data = values(2**10, 0, 2**30)
    chain = Chain([config], NUMBER, data.nbytes)

    assert stays_within(chain.encoding_bytes, lambda: chain.encode(data))
    assert peak_of(lambda: chain.encode(data)) > chain.encoding_bytes // 4


def test_a_chunk_is_compressed_in_little_more_memory_than_it_takes() -> None:
    """Asked for all of it at once, the compressor would hold what it made twice."""
    data = values(2**21, 0, 2**30)
    chain = Chain([{"id": "gzip", "level": 1}], NUMBER, data.nbytes)

    assert chain.encoding_bytes < 1.5 * data.nbytes
    assert stays_within(chain.encoding_bytes, lambda: chain.encode(data))


@pytest.mark.parametrize(
    "config",
    [
        {"id": "lzma", "filters": "abc"},
        {"id": "lzma", "filters": [{"id": 33, "dict_size": "x"}]},
        {"id": "lzma", "preset": -1},
        {"id": "lzma", "check": 1000},
        {"id": "bz2", "level": 77},
        {"id": "gzip", "level": "high"},
        {"id": "zstd", "level": "\x1b[2J"},
        {"id": "blosc", "cname": "none"},
        {"id": "zlib", "depth": 3},
    ],
    ids=str,
)
def test_settings_that_nothing_can_encode_with(config: dict[str, Any]) -> None:
    """They come from metadata that anyone may have written; there is one line that says so."""
    data = values(10, 0, 9)
    chain = Chain([config], NUMBER, data.nbytes)

    def plan_and_encode() -> None:
        assert chain.encoding_bytes
        chain.encode(data)

    def plan_and_encode_in_pieces() -> None:
        if not chain.takes_pieces:
            chain.encode(data)
        assert chain.piecewise_bytes(1000)
        list(chain.encode_pieces([data]))

    for work in (plan_and_encode, plan_and_encode_in_pieces):
        with pytest.raises(
            UsageError, match=f"codec {config['id']} cannot encode .*choose another"
        ) as caught:
            work()
        assert str(caught.value).isprintable()


def test_coding_takes_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which there is one for each thread that codes."""
    seen: list[str] = []

    class Counted(Cores):
        def __enter__(self) -> None:
            super().__enter__()
            seen.append("taken")

        def __exit__(self, *error: object) -> None:
            super().__exit__(None, None, None)
            seen.append("left")

    monkeypatch.setattr("dask_io.codecs.chain.CORES", Counted())
    chain = Chain([{"id": "zstd"}], NUMBER, 400)
    encoded = chain.encode(values(100, 0, 9))
    assert seen == ["taken", "left"]
    decoded(chain, encoded)
    assert seen == ["taken", "left"] * 2


RESIDENT = """
import json
import sys
from pathlib import Path
import numpy as np
from dask_io.codecs.chain import Chain

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

steps = np.random.default_rng(0).integers(-3, 4, 2**22).astype("f4")
data = np.cumsum(steps, out=steps).view(np.uint8)
config = json.loads(sys.argv[1])
Chain([config], np.dtype("f4"), 4000).encode(data[:4000])
chain = Chain([config], np.dtype("f4"), data.nbytes)
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
encoded = chain.encode(data)
print(status("VmHWM") - before, chain.encoding_bytes - 2 * (chain.longest - encoded.nbytes))
if chain.takes_pieces:
    Path("/proc/self/clear_refs").write_text("5")
    before, starts = status("VmRSS"), range(0, data.nbytes, 2**20)
    for piece in chain.encode_pieces(data[start : start + 2**20] for start in starts):
        pass
    print(status("VmHWM") - before, chain.piecewise_bytes(2**20))
    del piece
del data, steps
decoded = np.ones(chain.n_bytes, np.uint8)
Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
chain.decode(encoded, decoded)
print(status("VmHWM") - before, chain.decoding_bytes)
"""


def test_moving_bytes_takes_little_memory() -> None:
    """Most files of NetCDF are shuffled, so a budget must not be asked for arithmetic then."""
    n_bytes = 2**26
    plain = Chain([{"id": "zlib", "level": 4}], NUMBER, n_bytes)
    shuffled = Chain(
        [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}], NUMBER, n_bytes
    )

    assert shuffled.encoding_bytes == plain.encoding_bytes + 2 * n_bytes
    assert shuffled.decoding_bytes == plain.decoding_bytes + 2 * n_bytes


@pytest.mark.linux
@pytest.mark.parametrize(
    "config",
    [
        *({"id": "zstd", "level": level} for level in (-7, 3, 9)),
        *(
            pytest.param({"id": "zstd", "level": level}, marks=pytest.mark.slow)
            for level in (0, 1, 4, 6, 7, 8)
        ),
        {"id": "lz4"},
    ],
    ids=str,
)
def test_libraries_take_no_more_than_said(config: dict[str, Any]) -> None:
    """Python does not see their tables, but the system does; room for what is not made is off."""
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT, json.dumps(config)],
        capture_output=True,
        text=True,
        check=True,
    )

    *to_encode, to_decode = (map(int, line.split()) for line in done.stdout.splitlines())
    assert len(to_encode) == (2 if config["id"] == "zstd" else 1)
    for taken, said in to_encode:
        assert 0 < taken <= said
    taken, said = to_decode
    assert taken <= said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'' is unknown; choose one of none, zstd, blosc"),
        ("pickle", "'pickle' is unknown"),
        ("zstd:99", "'zstd:99' has level '99'; choose 0 to 22"),
        ("zstd:3:4", "too many parameters; zstd takes at most 1"),
        (
            "blosc:snappy",
            "has cname 'snappy'; choose one of lz4, lz4hc, blosclz, zlib, zstd",
        ),
        ("zstd+gzip", "'zstd[+]gzip' has codec gzip after a compressor"),
    ],
)
def test_codecs_that_cannot_be_chosen(text: str, says: str) -> None:
    """What can be is said."""
    with pytest.raises(ValueError, match=says):
        parse_codec(text)


@pytest.mark.parametrize(
    "text", ["zstd:22", "zstd:0", "blosc:zstd:9:bitshuffle", "lz4", "gzip", "lzma:0"]
)
def test_codecs_that_can_be_chosen_work(text: str) -> None:
    """Each of them makes a chain."""
    configs = parse_codec(text)
    data = values(100, 0, 5)
    chain = Chain(configs, NUMBER, data.nbytes)
    assert decoded(chain, chain.encode(data)) == data.tobytes()
    assert all(is_lossless(config, NUMBER) for config in configs)
