"""Conversions of trees, on trees alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from dask_io.errors import UsageError
from dask_io.hierarchy.conversions import (
    check_names,
    check_records,
    copy_text_verbatim,
    has_renamed_dimensions,
    place_dimensions,
    refuse_misnamed,
    refuse_types,
    store_booleans_as_integers,
)
from dask_io.hierarchy.tree import Tree, TreeArray

if TYPE_CHECKING:
    from dask_io.hierarchy.tree import Content
    from dask_io.stores.store import Source


def array(*dimensions: str | None, shape: tuple[int, ...], dtype: str = "f4") -> TreeArray:
    """Describe an array that is read in blocks."""
    source = SimpleNamespace(
        dtype=np.dtype(dtype), grid=SimpleNamespace(shape=shape), metadata={"attributes": {}}
    )
    return TreeArray.of(cast("Source", source), dimensions)


def tree(groups: tuple[str, ...] = (), *, shares: bool = False, **arrays: TreeArray) -> Tree:
    """Describe a tree; ``__`` in the name of an array stands for a group."""
    return Tree(
        root=Path("a.zarr"),
        format="zarr",
        content=cast("Content", None),
        groups={path: {} for path in ("", *groups)},
        arrays={name.replace("__", "/"): each for name, each in arrays.items()},
        shares_dimensions=shares,
    )


def is_name(name: str) -> bool:
    """Reject names that would lead elsewhere."""
    return "/" not in name and name not in {"", "..", ".zarray"}


def along(found: Tree) -> dict[str, tuple[str, ...]]:
    """Return the shared dimensions of every array."""
    return {name: each.along for name, each in found.arrays.items()}


def test_arrays_share_the_dimensions_of_the_groups_around_them() -> None:
    """A dimension belongs to the outermost array along it."""
    found = place_dimensions(
        tree(
            ("day",),
            day__t=array("time", "y", shape=(4, 6)),
            t=array("time", "y", shape=(4, 6)),
            y=array("y", shape=(6,)),
        ),
        is_name,
    )

    assert found.lengths == {"y": 6, "time": 4}
    assert along(found) == {"day/t": ("time", "y"), "t": ("time", "y"), "y": ("y",)}
    assert list(found.arrays) == ["day/t", "t", "y"]


def test_another_length_is_another_dimension() -> None:
    """In its own group an array may lie along a dimension of the same name."""
    found = place_dimensions(
        tree(("day",), t=array("x", shape=(4,)), day__t=array("x", shape=(5,))), is_name
    )

    assert found.lengths == {"x": 4, "day/x": 5}
    assert along(found) == {"t": ("x",), "day/t": ("day/x",)}


def test_a_coordinate_has_a_dimension_of_its_own() -> None:
    """It names the dimension of its group, even if one around it is as long."""
    found = place_dimensions(
        tree(("day",), x=array("x", shape=(4,)), day__x=array("x", shape=(4,))), is_name
    )

    assert found.lengths == {"x": 4, "day/x": 4}


def test_axes_without_names_get_some() -> None:
    """Names that are made up say nothing, so two lengths get two names."""
    found = place_dimensions(
        tree(a=array(None, "x", "x", shape=(2, 3, 4)), b=array(None, shape=(7,))), is_name
    )

    assert along(found) == {"a": ("dim_0", "x", "dim_2"), "b": ("dim_0_7",)}
    assert has_renamed_dimensions(found)


def test_names_that_are_kept_are_not_renamed() -> None:
    """Dimensions in inner groups keep their names, too."""
    found = place_dimensions(tree(("a",), a__b=array("x", None, shape=(2, 3))), is_name)

    assert not has_renamed_dimensions(found)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (tree(a=array("x", shape=(2,)), b=array("x", shape=(3,))), r"x of 2 and of 3 elements"),
        (tree(("x",), a=array("x", shape=(2,))), "has both a group and a dimension x"),
        (tree(a=array("..", shape=(2,))), r"invalid name \.\."),
    ],
)
def test_dimensions_that_cannot_be_shared_are_refused(broken: Tree, message: str) -> None:
    """Two lengths, the name of a group, and names that lead elsewhere."""
    with pytest.raises(UsageError, match=message):
        place_dimensions(broken, is_name)


def test_an_array_with_the_name_of_a_dimension_lies_along_it() -> None:
    """Others with such a name are refused."""
    placed = place_dimensions(
        tree(x=array("x", "y", shape=(2, 3)), y=array("y", shape=(3,))), is_name
    )

    assert list(refuse_misnamed(placed).refused) == ["x"]


def test_text_and_booleans_are_converted() -> None:
    """Strings lose their blocks, booleans become integers, all else stays."""
    before = tree(
        text=array("x", shape=(2,), dtype="U3"),
        truth=array("x", shape=(2,), dtype="bool"),
        number=array("x", shape=(2,)),
    )

    after = store_booleans_as_integers(copy_text_verbatim(before))

    assert list(after.sources) == ["truth", "number"]
    assert after.arrays["text"].verbatim == "holds texts"
    assert after.arrays["truth"].dtype == np.dtype("i1")
    assert after.arrays["number"] is before.arrays["number"]


def test_types_are_refused_after_conversion() -> None:
    """Booleans that become integers are not refused, complex numbers are."""
    converted = store_booleans_as_integers(
        tree(truth=array(shape=(), dtype="bool"), wave=array(shape=(), dtype="c8"))
    )

    def has_type(dtype: np.dtype[Any]) -> bool:
        return dtype.kind in "iuf"

    found = refuse_types(converted, has_type, "has {}")

    assert found.refused == {"wave": "has complex64"}


def test_names_and_depth_are_checked() -> None:
    """Every part of a path must be a name, and groups must not be nested too deeply."""
    check_names(tree(("a",), a__b=array(shape=())), is_name, "a group", deepest=2)
    with pytest.raises(UsageError, match=r"a group does not allow the name a/\.zarray"):
        check_names(tree(("a", "a/.zarray")), is_name, "a group", deepest=2)
    with pytest.raises(UsageError, match="more than 2 deep"):
        check_names(tree(("a", "a/b", "a/b/c")), is_name, "a group", deepest=2)


def test_missing_records_are_refused() -> None:
    """An array must be as long as the dimension that it shares, if it shares one."""
    t, u = array("time", shape=(3,)), array("time", shape=(2,))

    check_records(tree(t=t, u=u))
    with pytest.raises(UsageError, match=r"stores 2 of the 3 records along time of its variable u"):
        check_records(tree(shares=True, t=t, u=u))
