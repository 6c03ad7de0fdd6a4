"""Images in OME-Zarr keep their metadata; every level, of labels too, is re-split."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from ome_zarr_models import open_ome_zarr

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.formats.zarr.quiet import quiet
from tests.commands import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.formats.zarr.group import Group

AXES = [
    {"name": "c", "type": "channel"},
    {"name": "z", "type": "space", "unit": "micrometer"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "unit": "micrometer"},
]
SHAPES = [(2, 10, 48, 40), (2, 10, 24, 20), (2, 10, 12, 10)]
LEVELS = ["0", "1", "2"]


def multiscales(axes: list[dict[str, str]], version: str | None) -> list[dict[str, Any]]:
    """What an image says about its levels."""
    n_axes = len(axes)
    datasets = [
        {
            "path": name,
            "coordinateTransformations": [
                {"type": "scale", "scale": [1.0] * (n_axes - 2) + [0.5 * 2**n] * 2},
                {"type": "translation", "translation": [0.0] * (n_axes - 2) + [0.25 * n] * 2},
            ],
        }
        for n, name in enumerate(LEVELS)
    ]
    told: dict[str, Any] = {"axes": axes, "datasets": datasets, "name": "image", "type": "mean"}
    return [{**told, "version": version} if version else told]


def make(place: Path, zarr_format: int) -> Path:
    """Make an image of two channels with labels, in OME-Zarr 0.4 or 0.5."""
    is_new = zarr_format == 3
    omero = {
        "channels": [
            {"color": "FF0000", "window": {"start": 0, "end": 9, "min": 0, "max": 9}, "label": "a"},
            {"color": "00FF00", "window": {"start": 0, "end": 9, "min": 0, "max": 9}, "label": "b"},
        ],
        "rdefs": {"model": "color"},
    }

    def about(told: dict[str, Any]) -> dict[str, Any]:
        return {"ome": {"version": "0.5", **told}} if is_new else told

    version = None if is_new else "0.4"
    random = np.random.default_rng(1)
    with quiet():
        root = zarr.create_group(place, zarr_format=zarr_format)  # type: ignore[arg-type]
        root.attrs.update(about({"multiscales": multiscales(AXES, version), "omero": omero}))
        labels = root.create_group("labels")
        labels.attrs.update(about({"labels": ["cells"]}))
        cells = labels.create_group("cells")
        told = {
            "multiscales": multiscales(AXES[1:], version),
            "image-label": {"colors": [{"label-value": 1, "rgba": [0, 0, 255, 255]}]},
        }
        cells.attrs.update(about(told))
        for group, names, dtype in ((root, "czyx", "u2"), (cells, "zyx", "i4")):
            for path, shape in zip(LEVELS, SHAPES, strict=True):
                extent = shape[-len(names) :]
                made = group.create_array(
                    path,
                    shape=extent,
                    chunks=(1,) * (len(names) - 2) + (16, 16),
                    dtype=dtype,
                    chunk_key_encoding={"name": "v2", "separator": "/"} if not is_new else None,
                    dimension_names=list(names) if is_new else None,
                )
                made[...] = random.integers(0, 9, extent)
    return place


def arrays(place: Path) -> dict[str, Any]:
    """All arrays in a group by their paths."""
    with quiet():
        group = zarr.open_group(place, mode="r")
        members = group.members(max_depth=None)
        return {path: each for path, each in members if isinstance(each, zarr.Array)}


def attributes(place: Path) -> dict[str, Any]:
    """What every group says, by its path."""
    with quiet():
        group = zarr.open_group(place, mode="r")
        members = group.members(max_depth=None)
        found = {path: dict(each.attrs) for path, each in members if isinstance(each, zarr.Group)}
        return {"": dict(group.attrs), **found}


@pytest.mark.parametrize("chunks", [(1, 5, 24, 24), {"c": 1, "z": 5, "y": 24, "x": 24}])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_level_is_re_split_and_the_metadata_kept(
    zarr_format: int, chunks: Any, tmp_path: Path
) -> None:
    """Of the image and of its labels, clipped to each level; other tools find it valid."""
    source = make(tmp_path / "a.zarr", zarr_format)

    done = dask_io.resplit(source, tmp_path / "b.zarr", chunks=chunks, memory="3MiB", verify=True)

    assert done.verified
    before, after = arrays(source), arrays(tmp_path / "b.zarr")
    assert before.keys() == after.keys()
    for path, array in after.items():
        assert np.array_equal(array[...], before[path][...])
        longest = (1, 5, 24, 24)[-array.ndim :]
        assert array.chunks == tuple(map(min, longest, array.shape))
    assert attributes(tmp_path / "b.zarr") == attributes(source)
    with quiet():
        found = open_ome_zarr(tmp_path / "b.zarr")
    assert type(found).__name__ == "Image"
    if zarr_format == 2:
        assert (tmp_path / "b.zarr/0/0/0/0/0").is_file(), "0.4 has chunks in directories"


@pytest.mark.parametrize("shards", [(1, 10, 48, 48), {"z": -1, "y": 48, "x": 48}])
def test_levels_in_shards(shards: Any, tmp_path: Path) -> None:
    """In the order of the axes or by their names, clipped where chunks are, and still valid."""
    source, target = make(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"

    dask_io.resplit(source, target, chunks=(1, 5, 24, 24), shards=shards, verify=True)

    found = {path: (array.chunks, array.shards) for path, array in arrays(target).items()}
    assert found == {
        "0": ((1, 5, 24, 24), (1, 10, 48, 48)),
        "1": ((1, 5, 24, 20), (1, 10, 24, 20)),
        "2": ((1, 5, 12, 10), (1, 10, 12, 10)),
        "labels/cells/0": ((5, 24, 24), (10, 48, 48)),
        "labels/cells/1": ((5, 24, 20), (10, 24, 20)),
        "labels/cells/2": ((5, 12, 10), (10, 12, 10)),
    }
    for path, array in arrays(source).items():
        assert np.array_equal(arrays(target)[path][...], array[...])
    with quiet():
        assert type(open_ome_zarr(target)).__name__ == "Image"
    with pytest.raises(UsageError, match=r"a group of Zarr 2 has no shards; leave them out$"):
        dask_io.resplit(make(tmp_path / "c.zarr", 2), tmp_path / "d.zarr", chunks=5, shards=shards)


def test_a_run_that_was_cut_short_is_resumed(tmp_path: Path) -> None:
    """And then is a valid image, which it was not before."""
    source, target = make(tmp_path / "a.zarr", 3), tmp_path / "b.zarr"

    def stop_midway(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        dask_io.resplit(source, target, chunks=(1, 5, 24, 24), progress=stop_midway)
    assert not (target / "zarr.json").exists()
    dask_io.resume(target)

    assert attributes(target) == attributes(source)
    assert all(
        np.array_equal(arrays(target)[path][...], each[...])
        for path, each in arrays(source).items()
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_no_valid_image_is_refused(zarr_format: int, tmp_path: Path) -> None:
    """In one line that says what is wrong, before anything is written."""
    source = make(tmp_path / "a.zarr", zarr_format)
    name = "zarr.json" if zarr_format == 3 else ".zattrs"
    told = json.loads((source / name).read_text())
    about = told["attributes"]["ome"] if zarr_format == 3 else told
    about["multiscales"][0]["axes"][3]["name"] = "y"
    (source / name).write_text(json.dumps(told))

    command = ["resplit", str(source), str(tmp_path / "b.zarr"), "--chunks", "1,5,24,24"]
    refused = invoke(*command)

    assert refused.exit_code == 1
    assert "is not valid OME-Zarr 0." in refused.stderr
    assert ": multiscales.0.axes: " in refused.stderr
    assert refused.stderr.endswith("must be unique. Got ['c', 'z', 'y', 'y']\n")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "b.zarr").exists()


def test_what_is_written_is_looked_at_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that were no valid image would stay unfinished."""
    source = make(tmp_path / "a.zarr", 3)
    job = dask_io.plan(source, tmp_path / "b.zarr", chunks={"x": 20})

    def refuse(group: Group) -> None:
        raise DataError(group.place, ["is not valid OME-Zarr"])

    monkeypatch.setattr("dask_io.formats.zarr.tree_target.check_images", refuse)
    with pytest.raises(DataError, match="not valid OME-Zarr"):
        job.run()
    monkeypatch.undo()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.info_group(tmp_path / "b.zarr")
    dask_io.resume(tmp_path / "b.zarr")
    assert attributes(tmp_path / "b.zarr") == attributes(source)


def test_chunks_that_do_not_match_the_axes(tmp_path: Path) -> None:
    """The line names the axes that there are."""
    source = make(tmp_path / "a.zarr", 3)

    with pytest.raises(UsageError, match="an image with the axes c,z,y,x"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks=(24, 24))
    with pytest.raises(UsageError, match="no array has a dimension 't'; the dimensions are c, x"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks={"t": 1})


def test_info_tells_what_it_is(tmp_path: Path) -> None:
    """And lists all levels."""
    source = make(tmp_path / "a.zarr", 2)

    text = invoke("info", source).stdout

    assert "a group of 6 ome-zarr arrays" in text
    assert "labels/cells/2" in text


def test_a_plate_is_re_split_field_by_field(tmp_path: Path) -> None:
    """Images in groups of groups, beside other files that belong to them."""
    with quiet():
        plate = zarr.create_group(
            tmp_path / "a.zarr", zarr_format=3, attributes={"ome": {"version": "0.5"}}
        )
        plate.create_group("A")
    for field in ("0", "1"):
        make(tmp_path / "a.zarr/A" / field, 3)
    (tmp_path / "a.zarr/OME").mkdir()
    (tmp_path / "a.zarr/A/notes.xml").write_text("<OME/>")

    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(2, -1, 12, 12))

    assert attributes(tmp_path / "b.zarr") == attributes(tmp_path / "a.zarr")
    assert arrays(tmp_path / "b.zarr")["A/1/0"].chunks == (2, 10, 12, 12)
    assert (tmp_path / "b.zarr/A/notes.xml").read_text() == "<OME/>"
