"""Parts of OME-XML that describe more than the elements of an image: channels, instruments, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

NAMESPACE = "dask-io"
"""Namespace of the annotation in OME-XML that holds what OME-XML has no field for."""
# Elements that describe the array itself.
_OF_ARRAY = frozenset(("Pixels", "TiffData", "UUID", "LightPath"))
# Attributes of other elements that describe the array itself.
_PLAIN = frozenset(("ID", "Name", "SamplesPerPixel", "TheC", "TheT", "TheZ"))


def ome_channel_names(root: Element, number: int) -> tuple[str, ...]:
    """Return the names of the channels of an image, empty for those without a name.

    If no channel has a name, there are none.

    Examples
    --------
    >>> from xml.etree import ElementTree
    >>> text = '<OME><Image><Pixels><Channel Name="DAPI"/><Channel/></Pixels></Image></OME>'
    >>> ome_channel_names(ElementTree.fromstring(text), 0)
    ('DAPI', '')
    """
    parts = _parts(root, number)
    names = tuple(part.get("Name", "") for part in parts if _tag(part) == "Channel")
    return names if any(names) else ()


def has_more_in_ome(root: Element, number: int) -> bool:
    """Tell whether OME-XML describes more than the axes, the sizes and the names of channels.

    Examples
    --------
    >>> from xml.etree import ElementTree
    >>> image = "<Image>{}<Pixels><Channel ID='a' Name='DAPI'/></Pixels></Image>"
    >>> for more in ("", "<Description>Slide 7</Description>"):
    ...     text = "<OME>" + image.format(more) + "</OME>"
    ...     print(has_more_in_ome(ElementTree.fromstring(text), 0))
    False
    True
    """
    return any(
        bool((part.text or "").strip() or part.attrib.keys() - _PLAIN)
        for part in _parts(root, number)
        if _tag(part) not in _OF_ARRAY
    )


def _parts(root: Element, number: int) -> Iterator[Element]:
    """Yield all elements except other images, the image itself, and what Dask IO stored."""
    n_images = 0
    for part in root:
        if _tag(part) == "Image":
            if n_images == number:
                yield from (each for each in part.iter() if each is not part)
            n_images += 1
        elif _tag(part) == "StructuredAnnotations":
            for note in part:
                yield from () if note.get("Namespace") == NAMESPACE else note.iter()
        else:
            yield from part.iter()


def _tag(part: Element) -> str:
    return part.tag.rpartition("}")[2]
