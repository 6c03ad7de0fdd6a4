"""The transport's counts are the process's system calls, as ``strace`` sees them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dask_io.geometry.ranges import Ranges

pytestmark = [
    pytest.mark.linux,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

RUN = """
import json, sys
import dask_io

source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
job = dask_io.plan(source, target, **options)
result = job.run()
counted = {
    "read": result.seeks.read, "write": result.seeks.write, "openings": result.openings,
    "n_read": result.n_bytes_read, "n_written": result.n_bytes_written,
    "predicted": [job.plan.seeks.read, job.plan.seeks.write, job.plan.openings],
    "n_predicted": job.plan.n_bytes_read, "n_gaps": job.plan.n_bytes_in_gaps,
}
print(json.dumps(counted))
"""
AT_AN_OFFSET = {"pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2"}
AT_THE_POSITION = {"read", "readv", "write", "writev", "lseek", "sendfile", "copy_file_range"}
OTHERS = {"openat", "close", "mmap", "dup", "dup2", "dup3"}
# A header is looked at in so many bytes from the start, if it does not come with the data.
LOOK = (0, 4096)
# With -y a descriptor is followed by its path: `pread64(3</tmp/b_0.npy>, ""..., 96, 128) = 96`.
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)(?:<(.*)>)?")
DESCRIPTOR = re.compile(r"(\d+)<([^>]*)>")
# Those that end in 2 have flags after the offset.
OFFSET = {
    name: re.compile(rf", (\d+){', [0-9A-Z_|]+' * name.endswith('2')}$") for name in AT_AN_OFFSET
}


@dataclass
class Visit:
    """One opening of a file: how it was opened, and offset and length of every transfer."""

    path: Path
    flags: str
    calls: list[tuple[int, int]] = field(default_factory=list)

    def moved_from(self, offset: int) -> list[tuple[int, int]]:
        """Transfers of data: what goes beyond the header, with which the first may begin."""
        return [
            (max(offset, begin), begin + n_bytes - max(offset, begin))
            for begin, n_bytes in self.calls
            if begin + n_bytes > offset and (begin, n_bytes) != LOOK
        ]


@dataclass
class Trace:
    """What a process did to block files."""

    visits: list[Visit]
    forbidden: list[str]


def n_seeks(calls: list[tuple[int, int]], *, slack: int = 0) -> int:
    """Transfers that do not begin where the one before ended, or up to `slack` bytes before."""
    seeks, end = 0, None
    for offset, n_bytes in calls:
        if end is None or not end - slack <= offset <= end:
            seeks += 1
        end = offset + n_bytes
    return seeks


def trace(folder: Path, options: dict[str, Any]) -> tuple[dict[str, Any], Trace]:
    """Resplit ``source`` to ``target`` under strace; return what it counted and what it did."""
    script, log = folder / "run.py", folder / "log"
    script.write_text(RUN, encoding="utf-8")
    calls = ",".join(sorted(AT_AN_OFFSET | AT_THE_POSITION | OTHERS))
    strace = ["strace", "-ff", "-y", "-s", "0", "-o", str(log), "-e", f"trace={calls}"]
    places = [str(folder / "source"), str(folder / "target")]
    command = [*strace, sys.executable, str(script), *places, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    # A visit belongs to one thread, and -ff gives every thread a log of its own.
    found = Trace([], [])
    for path in folder.glob("log.*"):
        follow(path.read_text(encoding="utf-8").splitlines(), tuple(places), found)
    counted: dict[str, Any] = json.loads(done.stdout)
    return counted, found


def follow(lines: list[str], places: tuple[str, ...], found: Trace) -> None:
    """Collect what one thread did to block files."""
    now: dict[int, Visit] = {}
    for name, arguments, value, opened in parse(lines):
        if name == "openat":
            if value >= 0 and opened.startswith(places) and not Path(opened).is_dir():
                now[value] = Visit(Path(opened), arguments)
                found.visits.append(now[value])
            continue
        descriptor = DESCRIPTOR.search(arguments)
        if descriptor is None or not is_block(descriptor[2], places):
            continue
        if name in AT_AN_OFFSET:
            offset = OFFSET[name].search(arguments)
            assert offset is not None, arguments
            if value > 0:  # the end of a file is found by reading nothing
                now[int(descriptor[1])].calls.append((int(offset[1]), value))
        elif name != "close":
            found.forbidden.append(f"{name}({arguments})")


def parse(lines: list[str]) -> Iterator[tuple[str, str, int, str]]:
    """Yield name, arguments, value and, if that is a descriptor, its path, of all calls."""
    for line in lines:
        if match := CALL.match(line):
            yield match[1], match[2], int(match[3]), match[4] or ""


def is_block(path: str, places: tuple[str, ...]) -> bool:
    """Tell whether a file is a block, finished or in the making."""
    return path.startswith(places) and "dask-io.json" not in path


def make_source(folder: Path, array: np.ndarray[Any, Any], chunks: tuple[int, int]) -> int:
    """Write an array as blocks with NumPy; return where data begins in them."""
    (folder / "source").mkdir()
    offset = 0
    for i in range(-(-array.shape[0] // chunks[0])):
        for j in range(-(-array.shape[1] // chunks[1])):
            rows, columns = (slice(n * c, (n + 1) * c) for n, c in zip((i, j), chunks, strict=True))
            path, block = folder / "source" / f"b_{i}_{j}.npy", array[rows, columns]
            np.save(path, block)
            offset = path.stat().st_size - block.nbytes
    return offset


def by_side(found: Trace, folder: Path) -> tuple[list[Visit], list[Visit]]:
    """Visits to the source's blocks, and to the target's."""
    blocks = [visit for visit in found.visits if "dask-io.json" not in visit.path.name]
    source, target = folder / "source", folder / "target"
    return (
        [visit for visit in blocks if visit.path.parent == source],
        [visit for visit in blocks if visit.path.parent == target],
    )


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("options", "region"),
    [
        ({"strategy": "naive", "memory": "1MB"}, ":,:"),
        ({"strategy": "keep", "memory": "1MB"}, ":,:"),
        ({"strategy": "keep", "memory": "150kB", "order": "F"}, ":,:"),
        ({"strategy": "auto", "memory": "1MB", "device": "hdd"}, "5:93,7:40"),
    ],
)
def test_counts_are_system_calls(
    quick_path: Path, workers: int, options: dict[str, Any], region: str
) -> None:
    """Seeks, openings and bytes are those of the kernel's log, and no file position is used.

    What lies between the parts of a region is read through: these bytes are counted too.
    """
    # Every block is longer than a look at its header.
    array = np.arange(96 * 76, dtype="<c16").reshape(96, 76)
    begin = make_source(quick_path, array, (20, 30))
    needed = array[Ranges.parse(region).region(array.shape).slices].nbytes
    options = {**options, "chunks": [35, 25], "workers": workers, "region": region}
    counted, found = trace(quick_path, options)

    read, written = by_side(found, quick_path)
    reads = [calls for visit in read if (calls := visit.moved_from(begin))]
    # Our own headers take 4096 bytes; they are written when a file is made.
    writes = [calls for visit in written if (calls := visit.moved_from(4096))]

    assert found.forbidden == []
    assert sum(map(n_seeks, reads)) == counted["read"]
    assert sum(map(n_seeks, writes)) == counted["write"]
    assert len(reads) + len(writes) == counted["openings"]
    assert sum(n for calls in reads for _, n in calls) == counted["n_read"]
    assert counted["n_read"] == counted["n_predicted"] == needed + counted["n_gaps"]
    assert bool(counted["n_gaps"]) == (region != ":,:")
    assert sum(n for calls in writes for _, n in calls) == counted["n_written"] == needed
    assert counted["predicted"] == [counted["read"], counted["write"], counted["openings"]]


def test_headers_are_touched_apart(quick_path: Path) -> None:
    """What is not counted are headers: written once, and read once, together with data."""
    array = np.arange(90 * 70, dtype="<i4").reshape(90, 70)
    begin = make_source(quick_path, array, (20, 30))
    _, found = trace(quick_path, {"chunks": [35, 25], "memory": "1MB", "workers": 1})

    read, written = by_side(found, quick_path)
    peeks = [call for visit in read for call in visit.calls if call[0] < begin]
    headers = [call for visit in written for call in visit.calls if call[0] < 4096]

    assert {offset for offset, _ in peeks} == {0}
    # Every header is read once; the first one also tells the pattern of names and the axes.
    assert len(peeks) <= 15 + 2
    blocks = [4 * n_rows * n_columns for n_rows in (35, 35, 20) for n_columns in (25, 25, 20)]
    assert sorted(headers) == sorted((0, 4096 + n_bytes) for n_bytes in blocks)


@pytest.mark.parametrize("workers", [1, 3])
def test_large_blocks_are_visited_as_counted(quick_path: Path, workers: int) -> None:
    """Direct I/O reads a little more than asked, in no other order: visits and seeks agree."""
    array = np.arange(1200 * 500, dtype="<f8").reshape(1200, 500)
    begin = make_source(quick_path, array, (300, 500))
    options = {"chunks": [400, 500], "memory": "8MB", "workers": workers}
    counted, found = trace(quick_path, options)

    read, written = by_side(found, quick_path)
    reads = [calls for visit in read if (calls := [c for c in visit.calls if c != LOOK])]
    writes = [calls for visit in written if (calls := visit.moved_from(4096))]

    assert found.forbidden == []
    assert begin == 128
    assert sum(n_seeks(calls, slack=8192) for calls in reads) == counted["read"] == 4
    assert sum(map(n_seeks, writes)) >= counted["write"] == 3
    assert counted["openings"] == 4 + 3
    assert {visit.path.name for visit in written} >= {f".b_{n}_0.npy.part" for n in range(3)}
    assert sum(n for calls in reads for _, n in calls) >= array.nbytes
    assert sum(n for calls in writes for _, n in calls) >= array.nbytes
