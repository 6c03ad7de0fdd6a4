"""FITS images: cards, byte order, padding and the world coordinate system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats.fits import make_header, parse_header
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores.space import Space

ARRAY = np.arange(5 * 6 * 7, dtype=">i2").reshape(5, 6, 7)
WORLD = [
    "OBJECT  = 'M31     '           / a galaxy",
    "CTYPE1  = 'RA---TAN'",
    "CTYPE2  = 'DEC--TAN'",
    "CTYPE3  = 'FREQ    '",
    "CUNIT1  = 'deg     '",
    "CUNIT2  = 'deg     '",
    "CUNIT3  = 'Hz      '",
    "CRPIX1  =                  3.5",
    "CRPIX2  =                  2.5",
    "CRPIX3  =                  1.0",
    "CRVAL1  =                10.68",
    "CRVAL2  =                41.26",
    "CRVAL3  =               1.4D+9",
    "CD1_1   =              -0.0001",
    "CD1_2   =              0.00001",
    "CD2_1   =              0.00001",
    "CD2_2   =               0.0001",
    "CD3_3   =            1000000.0",
    "BZERO   =                32768",
    "BSCALE  =                    1",
    "CRPIX1A =                100.0",
    "HISTORY made by hand",
]


def image_cards(*cards: str, shape: tuple[int, ...] = ARRAY.shape, bits: int = 16) -> list[str]:
    """Return the cards of an image."""
    sizes = [f"NAXIS{n}  = {size:>20}" for n, size in enumerate(reversed(shape), 1)]
    begin = ["SIMPLE  =                    T", f"BITPIX  = {bits:>20}"]
    return [*begin, f"NAXIS   = {len(shape):>20}", *sizes, *cards]


def unit(cards: list[str]) -> bytes:
    """Write cards as a header of whole units."""
    text = "".join(card.ljust(80) for card in [*cards, "END"])
    return text.ljust(-(-len(text) // 2880) * 2880).encode()


def save(path: Path, content: bytes, array: np.ndarray = ARRAY) -> Path:
    """Save a file."""
    data = array.tobytes()
    path.write_bytes(content + data + bytes(-len(data) % 2880))
    return path


def header_of(path: Path) -> Header:
    """Read a file's header."""
    content = path.read_bytes()
    return parse_header(lambda n_bytes: content[:n_bytes])


def position(space: Space | None, index: tuple[int, ...]) -> tuple[float, ...]:
    """Return where an element lies."""
    assert space is not None
    assert space.affine is not None
    return space.affine.at(index)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Save an image with coordinates."""
    return save(tmp_path / "cube.fits", unit(image_cards(*WORLD)))


def test_axes_values_and_cards_are_those_of_the_file(cube: Path) -> None:
    """NAXIS3 comes first, elements are big-endian and unscaled, and the cards are kept."""
    info = dask_io.info(cube)
    assert (info.shape, info.dtype) == (ARRAY.shape, ARRAY.dtype)
    assert info.metadata["headers"]["fits"] == [card.rstrip() for card in WORLD]
    assert info.metadata["dimension_names"] == ("FREQ", "DEC--TAN", "RA---TAN")
    # Pixels are counted from 1, so the reference pixel is index 2.5 along the last axis.
    found = position(header_of(cube).space, (0, 1.5, 2.5))  # type: ignore[arg-type]
    assert found == pytest.approx((1.4e9, 41.26, 10.68), rel=1e-14)


def test_every_block_has_its_own_reference_pixel(cube: Path, tmp_path: Path) -> None:
    """CRPIX moves by whole elements, also that of other descriptions; all other cards stay."""
    dask_io.split(cube, tmp_path / "blocks", chunks=(3, 4, 5))
    whole = header_of(cube).space
    for path in (tmp_path / "blocks").glob("*.fits"):
        header = header_of(path)
        first = int(np.frombuffer(path.read_bytes()[header.offset :], ">i2")[0])
        z, y, x = map(int, np.unravel_index(first, ARRAY.shape))
        assert position(header.space, (0, 0, 0)) == pytest.approx(position(whole, (z, y, x)))
        cards = header.metadata["headers"]["fits"]
        assert f"CRPIX1  = {3.5 - x:>20}" in cards
        assert f"CRPIX1A = {100.0 - x:>20}" in cards
        assert "CRVAL1  =                10.68" in cards
        assert len(path.read_bytes()) % 2880 == 0


@pytest.mark.parametrize("has_manifest", [True, False])
def test_blocks_are_one_image_again(cube: Path, tmp_path: Path, *, has_manifest: bool) -> None:
    """Split, cut otherwise and merged, the file is byte by byte what a direct copy is."""
    dask_io.split(cube, tmp_path / "blocks", chunks=(3, 4, 5))
    if not has_manifest:
        (tmp_path / "blocks" / "dask-io.json").unlink()
    dask_io.resplit(tmp_path / "blocks", tmp_path / "others", chunks=(2, 6, 3))
    dask_io.merge(tmp_path / "others", tmp_path / "whole.fits")
    assert (tmp_path / "whole.fits").read_bytes() == cube.read_bytes()


def test_slices_say_at_which_frequency_they_lie(cube: Path, tmp_path: Path) -> None:
    """An image has a reference pixel along the axis that it does not have."""
    (tmp_path / "s").mkdir()
    dask_io.split(cube, tmp_path / "s" / "s_{0:slice}.fits", chunks=(1, -1, -1))
    header = header_of(tmp_path / "s" / "s_3.fits")
    assert header.shape == (6, 7)
    assert "CRPIX3  =                 -2.0" in header.metadata["headers"]["fits"]


def test_bytes_of_arrays_are_swapped(tmp_path: Path) -> None:
    """Little-endian arrays become big-endian images, and come back."""
    array = np.linspace(0, 1, 24).reshape(4, 6)
    np.save(tmp_path / "a.npy", array)
    result = dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.fits", chunks=-1)
    assert result.not_kept == ()
    content = (tmp_path / "a.fits").read_bytes()
    assert content[2880 : 2880 + array.nbytes] == array.astype(">f8").tobytes()
    assert content[2880 + array.nbytes :] == bytes(2880 - array.nbytes)
    dask_io.resplit(tmp_path / "a.fits", tmp_path / "b.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)
    dask_io.resplit(
        tmp_path / "a.npy", tmp_path / "c.fits", chunks=-1, dtype="f4", casting="same_kind"
    )
    assert dask_io.info(tmp_path / "c.fits").dtype == np.dtype(">f4")


def test_images_in_object_stores_end_with_zeros(cube: Path) -> None:
    """They are put at once, with the zeros that nobody writes."""
    place = "memory://fits-images"
    dask_io.split(cube, f"{place}/blocks", chunks=(3, 4, 5))
    dask_io.merge(f"{place}/blocks", f"{place}/whole.fits")
    assert dask_io.verify(cube, f"{place}/whole.fits").equal


def test_an_image_in_the_first_extension_is_read(tmp_path: Path) -> None:
    """The first header may have no image of its own."""
    cards = image_cards("PCOUNT  =                    0", "GCOUNT  =                    1")
    extension = ["XTENSION= 'IMAGE   '", *cards[1:]]
    path = save(tmp_path / "x.fits", unit(image_cards(shape=())) + unit(extension))
    dask_io.resplit(path, tmp_path / "x.npy", chunks=-1)
    assert np.array_equal(np.load(tmp_path / "x.npy"), ARRAY)


def test_old_headers_have_steps_and_a_rotation() -> None:
    """CDELT and CROTA2 make the same map as CD."""
    cards = [
        "CRPIX1  =                  1.0",
        "CRPIX2  =                  1.0",
        "CDELT1  =                 -2.0",
        "CDELT2  =                  3.0",
        "CROTA2  =                 90.0",
    ]
    content = unit(image_cards(*cards, shape=(4, 4)))
    space = parse_header(lambda n_bytes: content[:n_bytes]).space
    assert position(space, (0, 1)) == pytest.approx((-2.0, 0.0))
    assert position(space, (1, 0)) == pytest.approx((0.0, -3.0))


def test_limits_are_reported_in_one_line(tmp_path: Path) -> None:
    """FITS has no unsigned integers, and more than one image is not read."""
    np.save(tmp_path / "a.npy", np.zeros((3, 4), "u2"))
    with pytest.raises(UsageError, match="has no elements of type uint16, only uint8, int16"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.fits", chunks=-1)
    kind: Any = {"format": "fits", "dtype": "i4", "chunks": 2}
    with pytest.raises(UsageError, match="fits stores elements in C order, not F"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "a", order="F", **kind)
    path = save(tmp_path / "b.fits", unit(image_cards()))
    path.write_bytes(path.read_bytes() + bytes(2880))
    with pytest.raises(DataError, match="is too long"):
        dask_io.info(path)
    path.write_bytes(path.read_bytes()[: -2 * 2880])
    with pytest.raises(DataError, match="is truncated"):
        dask_io.info(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not begin with SIMPLE"),
        (b"SIMPLE  = T", "ends within its header"),
        (b"SIMPLE  =".ljust(2**21), "longer than"),
        (unit(["SIMPLE  = T", "BITPIX  = 16"]), "without NAXIS"),
        (unit(image_cards(shape=(4, -3))), "impossible shape"),
        (unit(image_cards(shape=(2**40, 2**40))), "impossible shape"),
        (unit(image_cards(shape=(4, 4), bits=12)), "BITPIX 12"),
        (unit([*image_cards(shape=())]), "an image of 0 axes"),
        (unit([*image_cards()[:2], "NAXIS   = 99999999999999999999"]), "not a whole number"),
        (unit(image_cards("CRPIX1  = 'one'")), "CRPIX1 is not a number"),
        (unit(image_cards("PCOUNT  = 8")), "groups or parameters"),
        (unit(image_cards(shape=())) + unit(["XTENSION= 'BINTABLE'"]), "a table"),
        (unit(image_cards("WCSAXES = 999999999")), ""),
    ],
)
def test_hostile_headers_are_refused_in_one_line(content: bytes, problem: str) -> None:
    """Nothing is trusted, and nothing large is made."""
    if not problem:
        assert parse_header(lambda n_bytes: content[:n_bytes]).shape == ARRAY.shape
        return
    with pytest.raises(ValueError, match=problem):
        parse_header(lambda n_bytes: content[:n_bytes])


def test_cards_of_a_hostile_manifest_are_left_out() -> None:
    """What is no card, or says something else about the data, is not written."""
    cards = ["BITPIX  = 8", "A" * 100, "X\n", 5, "END", "GOOD    = 1"]
    block = Header((2, 3), np.dtype(">i2"), Layout.c(2), metadata={"headers": {"fits": cards}})
    content = make_header(block)
    found = parse_header(lambda n_bytes: content[:n_bytes]).metadata
    assert found == {"headers": {"fits": ["GOOD    = 1"]}}


def test_cards_survive_other_formats(tmp_path: Path) -> None:
    """Zarr keeps the header for the way back, also that of a manifest of an earlier version."""
    volume = tmp_path / "a.fits"
    cards = make_header(Header((2, 3), np.dtype(">i2"), Layout.c(2), metadata={}))
    text = cards.decode().replace(
        "END".ljust(80), "OBJECT  = 'M31     '".ljust(80) + "END".ljust(80)
    )
    volume.write_bytes(text[: len(cards)].encode() + bytes(2880))
    done = dask_io.resplit(volume, tmp_path / "a.zarr", chunks=-1, workers=1)
    assert "fits_header" not in done.not_kept
    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b", chunks=2, format="fits", workers=1)
    manifest = tmp_path / "b/dask-io.json"
    said = json.loads(manifest.read_text())
    said["metadata"] |= said["metadata"].pop("headers")
    manifest.write_text(json.dumps(said))
    dask_io.merge(tmp_path / "b", tmp_path / "c.fits", workers=1)
    assert b"OBJECT  = 'M31     '" in (tmp_path / "c.fits").read_bytes()


def test_the_scaling_reaches_other_formats(tmp_path: Path) -> None:
    """NIfTI gets the real values of BZERO, FITS keeps the card, and others report the loss."""
    source = save(tmp_path / "u.fits", unit(image_cards("BZERO   =                32768")))
    results = {
        name: dask_io.resplit(source, tmp_path / name, chunks=-1, device="ssd")
        for name in ("u.nii", "again.fits", "u.zarr", "u.npy")
    }
    lost = {name: "scaling" in result.not_kept for name, result in results.items()}
    assert lost == {"u.nii": False, "again.fits": False, "u.zarr": True, "u.npy": True}
    header = (tmp_path / "u.nii").read_bytes()
    order = "<" if header[:2] == b"\x5c\x01" else ">"
    assert np.frombuffer(header, f"{order}f4", 2, 112).tolist() == [1.0, 32768.0]
