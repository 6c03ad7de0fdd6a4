"""gzip and zlib by libdeflate and ISA-L, compared with zlib."""

import random
import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dask_io.codecs import deflate
from dask_io.codecs.deflate import (
    ERRORS,
    GZIP_HEADER,
    ZLIB_HEADER,
    encode,
    longest_deflated,
    start_decoder,
)
from dask_io.codecs.streams import decompress

HEADERS = [ZLIB_HEADER, GZIP_HEADER]


def _kinds() -> dict[str, NDArray[np.uint8]]:
    noise = np.random.default_rng(0)
    z, y, x = np.mgrid[:40, :100, :100]
    image = (300 * np.sin(z / 9) + 200 * np.cos((x + y) / 30)).astype("<i2")
    image += noise.integers(0, 8, image.shape, np.int16)
    field = (280 + 20 * np.sin(x / 30) + noise.normal(0, 0.05, x.shape)).round(2).astype("<f4")
    sparse = noise.integers(1, 255, image.shape, np.uint8) * (noise.random(image.shape) < 0.01)

    def shuffled(array: NDArray[Any]) -> NDArray[np.uint8]:
        return array.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T.reshape(-1)

    return {
        "image": image.reshape(-1).view(np.uint8),
        "shuffled image": shuffled(image),
        "shuffled field": shuffled(field),
        "noise": noise.integers(0, 256, 2**19).astype(np.uint8),
        "sparse": sparse.reshape(-1),
        "labels": ((z // 9) * 97 + (y // 13) * 31 + x // 17).astype("<u2").reshape(-1).view("u1"),
    }


KINDS = _kinds()


@pytest.mark.parametrize("kind", KINDS)
def test_levels_keep_their_meaning(kind: str) -> None:
    """At each level, data is at most 4 % larger than zlib makes it, or shrinks over 40 times."""
    data = KINDS[kind]
    for level in range(10):
        n_bytes = encode(data, level, ZLIB_HEADER).nbytes
        assert n_bytes <= longest_deflated(data.nbytes)
        assert n_bytes <= max(1.04 * len(zlib.compress(data.data, level)), data.nbytes / 40)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("missing", ["_LIBDEFLATE", "_ISAL"])
def test_libraries_are_optional(header: int, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of them, zlib does the same, and each decodes what the other has encoded."""
    data = KINDS["image"]
    with monkeypatch.context() as patch:
        patch.setattr(deflate, missing, None)
        encoded = encode(data, 6, header)
        assert _decoded(start_decoder, header, encode(data, 1, header), data.nbytes) == bytes(data)
    for start in (start_decoder, _zlib_decoder):
        assert _decoded(start, header, encoded, data.nbytes) == bytes(data)


@pytest.mark.parametrize("header", HEADERS)
def test_damage_is_found_as_by_zlib(header: int) -> None:
    """Streams cut short, continued, repeated or changed decode as by zlib, or are refused."""
    choice = random.Random(header)
    n_refused, first = 0, 12 if header == GZIP_HEADER else 2
    for _ in range(400):
        data = choice.randbytes(choice.randrange(1, 40)) * choice.randrange(1, 60)
        good = bytes(encode(np.frombuffer(data, np.uint8), choice.randrange(10), header))
        changed = bytearray(good)
        # In the header of a gzip stream, the libraries ignore different flags.
        changed[choice.randrange(first, len(good))] ^= 1 << choice.randrange(8)
        for bad in (
            good[: choice.randrange(len(good))],
            good + choice.randbytes(choice.randrange(1, 20)),
            good + bytes(choice.randrange(1, 20)),
            good + good,
            bytes(changed),
        ):
            found = _decoded(start_decoder, header, bad, len(data))
            assert found == _decoded(_zlib_decoder, header, bad, len(data))
            n_refused += found is None
        assert _decoded(start_decoder, header, good, len(data) - 1) is None
        assert _decoded(start_decoder, header, good, len(data) + 1) is None
    assert n_refused > 1500


def _zlib_decoder(header: int) -> Any:
    return zlib.decompressobj(header)


def _decoded(start: Any, header: int, data: Any, n_bytes: int) -> bytes | None:
    out = np.empty(n_bytes, np.uint8)
    try:
        decompress(partial(start, header), np.frombuffer(data, np.uint8), out)
    except (ValueError, *ERRORS):  # type: ignore[misc]  # they are a tuple
        return None
    return out.tobytes()
