"""`Region`: boxes in array coordinates."""

from dask_io.geometry import Region


def test_the_intersection_of_boxes_apart_is_empty() -> None:
    """Boxes that do not meet share a region of size 0."""
    shared = Region((0, 0), (2, 2)) & Region((5, 0), (6, 2))
    assert shared.size == 0


def test_a_region_is_an_index() -> None:
    """Slices and shape are those of the box."""
    region = Region((1, 2), (3, 6))
    assert region.slices == (slice(1, 3), slice(2, 6))
    assert (region.shape, region.size) == ((2, 4), 8)


def test_relative_regions_are_moved() -> None:
    """A region counted from another origin keeps its shape."""
    moved = Region((5, 7), (6, 9)).relative_to((5, 5))
    assert moved == Region((0, 2), (1, 4))
    assert Region((5, 7), (6, 9)).slices_from((5, 5)) == moved.slices


def test_the_whole_array_is_a_region() -> None:
    """The whole of a shape starts at the origin."""
    assert Region.whole([4, 5]) == Region((0, 0), (4, 5))
