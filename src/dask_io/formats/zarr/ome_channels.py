"""The names of channels in the ``omero`` part of an OME-Zarr image.

OME-Zarr requires a colour and a window of contrast with each name. The colours are those that
viewers use by themselves, and the window is the whole range of the type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ONE_COLOUR = "FFFFFF"
_COLOURS = ("00FFFF", "FFFF00", "FF00FF", "FF0000", "00FF00", "0000FF")


def make_omero(names: Sequence[str], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the description of channels with these names; empty names stand for none.

    Examples
    --------
    >>> (channel,) = make_omero(["DAPI"], np.dtype("u1"))["channels"]
    >>> channel["label"], channel["color"], channel["window"]["max"]
    ('DAPI', 'FFFFFF', 255.0)
    """
    low, high = 0.0, 1.0
    if dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    window = {"min": low, "max": high, "start": low, "end": high}
    return {
        "channels": [
            {**({"label": name} if name else {}), "color": colour, "window": window}
            for name, colour in zip(names, _colours(len(names)), strict=True)
        ]
    }


def read_channel_names(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the channels of an image, as its group has them; empty if it has none.

    Invalid metadata is ignored.
    """
    names = [each.get("label") for each in _channels(_omero_in(attributes))]
    found = tuple(name if isinstance(name, str) else "" for name in names)
    return found if any(found) else ()


def has_only_names(attributes: Mapping[str, Any]) -> bool:
    """Tell whether the description of channels has nothing but names.

    Colours and windows that `make_omero` chooses do not count.
    """
    omero = _omero_in(attributes)
    channels = _channels(omero)
    return omero.keys() <= {"channels"} and all(
        channel.keys() <= {"label", "color", "window"}
        and channel.get("color") == colour
        and isinstance(window := channel.get("window"), dict)
        and (window.get("start"), window.get("end")) == (window.get("min"), window.get("max"))
        for channel, colour in zip(channels, _colours(len(channels)), strict=True)
    )


def _omero_in(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    about = attributes.get("ome", attributes)
    omero = about.get("omero") if isinstance(about, dict) else None
    return omero if isinstance(omero, dict) else {}


def _channels(omero: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = omero.get("channels")
    channels = listed if isinstance(listed, list) else []
    return channels if all(isinstance(each, dict) for each in channels) else []


def _colours(count: int) -> list[str]:
    if count == 1:
        return [_ONE_COLOUR]
    return [_COLOURS[n % len(_COLOURS)] for n in range(count)]
