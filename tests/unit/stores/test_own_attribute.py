"""Containers keep spaces and headers of other formats in one attribute."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dask_io.stores.own_attribute import add_own, take_own
from dask_io.stores.space import Affine, Space, SpaceAxis

SPACE = Space((SpaceAxis("y", "mm"), SpaceAxis("x")), Affine(((0.5, 0.1), (0.0, 2.0)), (1.0, 2.0)))
NIFTI = {"header": "AAAA", "extensions": [[6, "AAAA"]]}


def test_it_is_added_and_removed_again() -> None:
    """The user's attributes stay as they are, and nothing is lost through JSON."""
    said = {"attributes": {"a": 1}, "space": SPACE, "headers": {"nifti": NIFTI}}

    added = add_own(said)
    stored = {"attributes": json.loads(json.dumps(added["attributes"]))}

    assert added["attributes"].keys() == {"a", "dask_io"}
    assert take_own(stored, 2) == said


def test_nothing_is_added_for_nothing() -> None:
    """An unknown space, or an attribute of the user with this name, leaves attributes alone."""
    unknown = {"attributes": {}, "space": Space.unknown(2), "headers": {"nifti": None}}
    taken = {"attributes": {"dask_io": "mine"}, "space": SPACE}

    assert add_own(unknown) == unknown
    assert add_own(taken) == taken


@pytest.mark.parametrize(
    "value",
    ["mine", {}, {"space": 7}, {"space": SPACE.to_json(), "mine": 1}, {"space": {"axes": []}}],
)
def test_what_others_wrote_stays(value: Any) -> None:
    """An attribute that is not ours is the user's."""
    stored = {"attributes": {"dask_io": value}}

    assert take_own(stored, 2) == stored


def test_headers_of_any_format_are_kept() -> None:
    """Formats of other packages take part, with any JSON value; empty headers need no place."""
    headers = {"fits": ["OBJECT  = 'M31'"], "theirs": {"a": [1, None]}}

    added = add_own({"attributes": {}, "headers": {**headers, "nrrd": {}}})

    assert added["attributes"] == {"dask_io": headers}
    assert take_own(added, 2)["headers"] == headers
