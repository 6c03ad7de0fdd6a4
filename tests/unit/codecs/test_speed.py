"""How long codecs are predicted to take."""

from pathlib import Path

import numpy as np
import pytest

import dask_io
from dask_io.codecs.checksums import CHECKSUMS
from dask_io.codecs.speed import seconds_to_decode, seconds_to_encode

NAMES = {codec.name for codec in CHECKSUMS}


def test_codecs_add_up() -> None:
    """A byte goes through all of them."""
    shuffle, zstd = {"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 3}
    for seconds in (seconds_to_decode, seconds_to_encode):
        assert seconds([shuffle, zstd]) == pytest.approx(seconds([shuffle]) + seconds([zstd]))
        assert seconds([]) == 0


@pytest.mark.parametrize("name", ["zstd", "zlib", "blosc"])
def test_higher_levels_take_no_less(name: str) -> None:
    """Encoding takes longer with the level, decoding as long."""
    word, more = ("clevel", {"cname": "zstd"}) if name == "blosc" else ("level", {})
    codecs = [[{"id": name, word: level, **more}] for level in range(1, 23)]
    encoding = [seconds_to_encode(each) for each in codecs]
    assert encoding == sorted(encoding)
    assert encoding[-1] > encoding[0]
    assert len({seconds_to_decode(each) for each in codecs}) == 1


def test_level_0_of_zstd_is_its_default() -> None:
    """As slow as level 3, though the number is less; negative levels are fast."""
    low, default, one, three = (
        seconds_to_encode([{"id": "zstd", "level": level}]) for level in (-5, 0, 1, 3)
    )
    assert low == one < default == three


@pytest.mark.parametrize("name", [*sorted(NAMES), "delta", "no such codec"])
def test_any_codec_has_a_speed(name: str) -> None:
    """Also those of which nothing is known; all checksums have the same."""
    decoding, encoding = seconds_to_decode([{"id": name}]), seconds_to_encode([{"id": name}])
    assert 0 < decoding <= encoding < 1e-6
    assert (decoding == seconds_to_decode([{"id": "crc32c"}])) == (name in NAMES)


@pytest.mark.parametrize("place", ["array.zarr", "array.h5"])
def test_plans_count_what_is_decoded_and_encoded(place: str, tmp_path: Path) -> None:
    """The same array takes longer with a codec, both from it and to it, than without."""
    np.save(tmp_path / "array.npy", np.zeros((64, 64, 64)))
    dask_io.split(tmp_path / "array.npy", tmp_path / place, chunks=32, codec="gzip:9")
    dask_io.split(tmp_path / "array.npy", tmp_path / "plain", chunks=32)

    def coding(source: str, target: str, codec: str | None = None) -> float:
        job = dask_io.plan(tmp_path / source, tmp_path / target, chunks=16, codec=codec)
        return job.plan.coding_seconds

    assert coding("plain", "target") == 0
    decoding, encoding = coding(place, "target"), coding("plain", f"new-{place}", codec="gzip:9")
    assert 0 < decoding < encoding
    assert coding(place, f"new-{place}") == pytest.approx(decoding + encoding)
