"""Broken files of every kind are refused or read; nothing else happens."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.subjects import SUBJECTS, Subject


@st.composite
def broken(draw: st.DrawFn, whole: bytes) -> bytes:
    """Change a file a little: other bytes here and there, a piece gone, doubled or put in."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        piece = bytes(content[start:end])
        content[start:end] = draw(
            st.one_of(
                st.binary(min_size=len(piece), max_size=len(piece)),
                st.binary(max_size=8),
                st.just(2 * piece),
                st.sampled_from([b"-1", b"0", b"1e400", b"99999999999999999999", b"null", b"[]"]),
            )
        )
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Subject, Path]:
    """Make an array of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    SUBJECTS[request.param].make(folder)
    return SUBJECTS[request.param], folder


@given(data=st.data())
def test_broken_files_are_refused_or_read(
    subject: tuple[Subject, Path], data: st.DataObject
) -> None:
    """Whatever is in the file, the errors are ours."""
    kind, whole = subject
    content = data.draw(broken((whole / kind.file).read_bytes()), label="content")
    with TemporaryDirectory() as temporary:
        folder = copytree(whole, temporary, dirs_exist_ok=True)
        kind.try_with(Path(folder), content)
