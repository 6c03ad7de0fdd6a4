"""Targets that are not as a run left them: written by another, or with a changed source or journal.

Also what `verify` says of a complete target that has changed since.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xxhash import xxh3_64_hexdigest

import dask_io

if TYPE_CHECKING:
    from tests.faults.conftest import Sample, Tool


def test_a_target_that_is_being_written_is_refused(sample: Sample, tool: Tool) -> None:
    """Neither another run nor a resume gets it; the first one is not disturbed."""
    run = tool.hold(*sample.resplit)

    for arguments in (sample.resplit, [*sample.resplit, "--overwrite"], ["resume", sample.out]):
        told = tool.fail(*arguments, code=3)
        assert f"{sample.out}: another run is writing it (process {run.pid})" in told
    told = tool.release(run)

    assert (run.returncode, told) == (0, "")
    sample.check_complete()


def test_one_file_that_is_being_written_is_refused(sample: Sample, tool: Tool) -> None:
    """The lock is beside the file, which does not exist yet."""
    target = sample.folder / "merged.npy"
    merge = ["merge", sample.blocks, target, "--workers", 1, "--strategy", "naive"]
    run = tool.hold(*merge)

    for arguments in (merge, [*merge, "--overwrite"], ["resume", target]):
        assert "another run is writing it" in tool.fail(*arguments, code=3)
    tool.release(run)

    assert run.returncode == 0
    sample.check_complete(target)


@pytest.mark.parametrize("again", ["resume", "overwrite"])
def test_a_dead_run_holds_nothing(sample: Sample, tool: Tool, again: str) -> None:
    """Once it has been killed its target can be completed, or replaced."""
    tool.kill(tool.hold(*sample.resplit))

    sample.check_blocks()
    tool.run(*(["resume", sample.out] if again == "resume" else [*sample.resplit, "--overwrite"]))
    sample.check_complete()


@pytest.fixture
def cut_short(sample: Sample, tool: Tool) -> Sample:
    """An array whose resplit was killed midway."""
    tool.kill(tool.hold(*sample.resplit))
    return sample


def touch(path: Path) -> None:
    """Give a file another time, a second later."""
    time = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(time, time))


def lengthen(path: Path) -> None:
    """Put a byte at the end of a file."""
    with path.open("ab") as file:
        file.write(b"\0")


def change_bytes(path: Path) -> None:
    """Put other values into a file of the same size."""
    values = np.load(path)
    np.save(path, -values)


def shorten(path: Path) -> None:
    """Take the last byte of a file away."""
    os.truncate(path, path.stat().st_size - 1)


def test_a_changed_source_is_refused(cut_short: Sample, tool: Tool) -> None:
    """Exit code 1, whether what changed is still needed or not; what is there stays."""
    n_blocks = cut_short.check_blocks()
    for name in ("b_0_0.npy", "b_7_0.npy"):
        path, saved = cut_short.blocks / name, cut_short.folder / "saved"
        shutil.copy2(path, saved)
        for change in (touch, lengthen, shorten, change_bytes, Path.unlink):
            change(path)
            assert str(cut_short.blocks) in tool.fail("resume", cut_short.out, code=1)
            assert cut_short.check_blocks() == n_blocks
            shutil.copy2(saved, path)

    tool.run("resume", cut_short.out)
    cut_short.check_complete()


def test_an_unknown_journal_is_refused(cut_short: Sample, tool: Tool) -> None:
    """One that another version has written, or that cannot be read, is not guessed at."""
    path = cut_short.out / ".dask-io" / "journal"
    first, rest = path.read_text().split("\n", 1)
    job = json.loads(first.split(" ", 2)[2])

    def say(text: str) -> None:
        path.write_text(f"{xxh3_64_hexdigest(text.encode())} {text}\n{rest}")

    say(f"job {json.dumps({**job, 'version': 99})}")
    assert "has version 99" in tool.fail("resume", cut_short.out, code=1)
    say(f"job {json.dumps({**job, 'target': {}})}")
    tool.fail("resume", cut_short.out, code=1)
    for text in ("job {", "cell 0,0 - 0123456789abcdef"):
        say(text)
        assert "does not describe its job" in tool.fail("resume", cut_short.out, code=1)
    path.write_text(f"{first}\n{rest}")
    tool.run("resume", cut_short.out)
    cut_short.check_complete()


def tear(path: Path) -> None:
    """Cut the last line short."""
    os.truncate(path, path.stat().st_size - 5)


def garble(path: Path) -> None:
    """Change a letter of the last line."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def zero(path: Path) -> None:
    """Fill the last line with zeros, as a loss of power may."""
    kept, last = path.read_bytes()[:-1].rsplit(b"\n", 1)
    path.write_bytes(kept + b"\n" + b"\0" * (len(last) + 1))


def test_a_spoilt_line_counts_for_nothing(cut_short: Sample, tool: Tool) -> None:
    """What it told of is done again, and no more than that."""
    saved = shutil.copytree(cut_short.out, cut_short.folder / "saved")
    n_durable = (saved / ".dask-io" / "journal").read_text().count(" cell ")
    for spoil in (tear, garble, zero):
        shutil.rmtree(cut_short.out)
        shutil.copytree(saved, cut_short.out)
        spoil(cut_short.out / ".dask-io" / "journal")

        result = json.loads(tool.run("resume", cut_short.out, "--json"))["result"]

        assert result["blocks_skipped"] == n_durable - 1
        assert result["blocks_written"] == 42 - result["blocks_skipped"]
        assert np.array_equal(dask_io.open(cut_short.out)[:, :], cut_short.array)
        assert dask_io.verify(cut_short.out)


def test_a_block_that_is_gone_is_written_again(cut_short: Sample, tool: Tool) -> None:
    """The journal says that it is durable, but somebody has removed it."""
    n_durable = (cut_short.out / ".dask-io" / "journal").read_text().count(" cell ")
    (cut_short.out / "b_0_0.npy").unlink()

    result = json.loads(tool.run("resume", cut_short.out, "--json"))["result"]

    assert result["blocks_skipped"] == n_durable - 1
    cut_short.check_complete()


@pytest.mark.parametrize(
    ("target", "options", "where"),
    [
        ("out", ["--chunks", "4,3"], "out/b_2_1.npy"),
        ("out", ["--chunks", "4,3", "--order", "F"], "out/b_2_1.npy"),
        ("out", ["--chunks", "4,3", "--format", "raw"], "out/b_2_1.raw"),
        ("out.npy", ["--chunks", "-1"], "out.npy"),
        ("out.npy", ["--chunks", "-1", "--strategy", "naive", "--order", "F"], "out.npy"),
        ("out.raw", ["--chunks", "-1"], "out.raw"),
    ],
)
def test_verify_finds_a_flipped_bit(
    sample: Sample, tool: Tool, target: str, options: list[str], where: str
) -> None:
    """A complete target alone passes; with one bit flipped, exit code 1 and the region."""
    place, path = sample.folder / target, sample.folder / where
    tool.run("resplit", sample.blocks, place, *options, "--workers", 1)
    tool.run("verify", place)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x10
    path.write_bytes(content)

    told = tool.fail("verify", place, code=1)

    # The last byte of the file is that of the last element of its block.
    region = "8:12,3:6" if target == "out" else "24,0:20" if "naive" not in options else "21:24"
    assert str(place) in told
    assert region in told
    assert "differ" in told


def test_verify_refuses_what_is_not_complete(cut_short: Sample, tool: Tool) -> None:
    """It is unfinished: exit code 1, and how to complete it."""
    told = tool.fail("verify", cut_short.out, code=1)
    assert f"dask-io resume {cut_short.out}" in told
    shutil.rmtree(cut_short.blocks)
    assert str(cut_short.blocks) in tool.fail("resume", cut_short.out, code=3)
