"""What a run may hold, and the buffers it holds it in."""

import ctypes
import mmap
import os
import subprocess
import sys
from threading import Thread
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.engine.memory import Account, Buffers
from dask_io.storage.local.transport import address_of
from dask_io.storage.medium import ALIGNMENT

LARGE = 2**20


def in_background(account: Account, n_bytes: int) -> tuple[Thread, list[bool]]:
    """Take bytes in a thread of its own; return it and where its answer will be."""
    answers: list[bool] = []
    thread = Thread(target=lambda: answers.append(account.take(n_bytes)), daemon=True)
    thread.start()
    return thread, answers


def test_an_account_remembers_its_peak() -> None:
    """The peak is the most that was in use at once."""
    account = Account(100)
    assert account.take(60)
    account.give_back(60)
    assert account.take(70)
    account.give_back(30)
    assert account.take(20)

    assert (account.used, account.peak) == (60, 70)


def test_taking_waits_for_room() -> None:
    """Whoever asks for more than is left waits until enough is given back, and no longer."""
    account = Account(100)
    account.take(80)
    thread, answers = in_background(account, 50)
    account.give_back(20)
    sleep(0.05)
    assert answers == []

    account.give_back(10)
    thread.join(5)

    assert answers == [True]
    assert (account.used, account.peak) == (100, 100)


def test_taking_if_free_never_waits() -> None:
    """Room that is not there now is not taken."""
    account = Account(100)
    assert account.take_if_free(100)
    assert not account.take_if_free(1)
    account.give_back(1)
    assert account.take_if_free(1)


def test_closing_ends_all_waiting() -> None:
    """A closed account gives nothing, neither to those who wait nor to those who come later."""
    account = Account(100)
    account.take(80)
    waiting = [in_background(account, 50) for _ in range(3)]

    account.close()

    for thread, answers in waiting:
        thread.join(5)
        assert answers == [False]
    assert not account.take(1)
    assert account.used == 80


def test_going_over_is_a_bug() -> None:
    """More than the limit at once, or more back than taken, is an error of ours."""
    account = Account(100)
    with pytest.raises(AssertionError):
        account.take(101)
    with pytest.raises(AssertionError):
        account.give_back(1)


@pytest.mark.parametrize("n_bytes", [1, 4095, 100_000, LARGE, LARGE + 1])
def test_a_buffer_is_large_enough(n_bytes: int) -> None:
    """A buffer can be written to its end; a large one begins at a page."""
    buffer = Buffers(2 * LARGE).lend(n_bytes)

    assert len(buffer) >= n_bytes
    buffer[n_bytes - 1 : n_bytes] = b"x"
    assert n_bytes < LARGE or address_of(buffer) % ALIGNMENT == 0


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("phase", [0, 2, 4095])
def test_a_buffer_begins_where_it_is_asked_to(phase: int, *, lasting: bool) -> None:
    """A large buffer begins so far behind a multiple of the alignment, wherever holes begin."""
    buffers = Buffers(4 * LARGE)
    buffers.lend(10)

    lent = [buffers.lend_inside(LARGE, phase=phase, lasting=lasting) for _ in range(3)]

    assert [address_of(buffer) % ALIGNMENT for buffer in lent if buffer is not None] == [phase] * 3


def test_what_lasts_lies_together() -> None:
    """Buffers that stay are lent from the end, so that all before them becomes one hole again."""
    buffers = Buffers(8 * LARGE)
    lent = [buffers.lend_inside(LARGE, lasting=bool(n % 2)) for n in range(8)]
    for buffer in lent[::2]:
        assert buffer is not None
        buffers.take_back(buffer)

    assert buffers.lend_inside(4 * LARGE) is not None
    assert buffers.lend_inside(4 * LARGE) is None


def test_what_alignment_loses_costs_no_room() -> None:
    """As many buffers fit as their bytes do, although each begins at a multiple of something."""
    size = LARGE + 100
    buffers = Buffers(50 * size)

    lent = [buffers.lend(size) for _ in range(50)]

    assert len({id(buffer.obj) for buffer in lent}) == 1


def test_a_buffer_is_used_again() -> None:
    """What was taken back is lent to the next who asks, whatever size that is."""
    buffers = Buffers(2 * LARGE)
    first, second = buffers.lend(LARGE), buffers.lend(LARGE)
    first[:5] = b"first"
    buffers.take_back(first)

    third = buffers.lend(LARGE // 2)

    assert bytes(third[:5]) == b"first"
    assert bytes(second[:5]) != b"first"


def test_neighbouring_holes_become_one() -> None:
    """Small buffers that are taken back, in any order, make room for a large one."""
    buffers = Buffers(4 * LARGE)
    small = [buffers.lend(LARGE) for _ in range(4)]
    for buffer in small:
        buffer[:4] = b"used"
    for place in (2, 0, 3, 1):
        buffers.take_back(small[place])

    whole = buffers.lend(4 * LARGE)

    assert [bytes(whole[n * LARGE : n * LARGE + 4]) for n in range(4)] == [b"used"] * 4


def test_what_no_hole_can_hold_lies_outside() -> None:
    """Where holes are too short a buffer comes from elsewhere; the last hole is given up for it."""
    buffers = Buffers(3 * LARGE)
    first, middle, last = (buffers.lend(LARGE) for _ in range(3))
    first[:4] = last[:4] = b"used"
    middle[:4] = b"kept"
    buffers.take_back(first)
    buffers.take_back(last)

    outside = buffers.lend(LARGE + LARGE // 2)

    assert len(outside) == LARGE + LARGE // 2
    assert [bytes(buffers.lend(LARGE)[:4]) for _ in range(2)] == [b"used", bytes(4)]
    assert bytes(middle[:4]) == b"kept"


def count_resident(memory: memoryview) -> int:
    """Return how many bytes of a mapping's pages are in memory."""
    n_pages = -(-len(memory) // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * n_pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    start, size = ctypes.c_void_p(address_of(memory)), ctypes.c_size_t(len(memory))
    assert libc.mincore(start, size, found) == 0, ctypes.get_errno()
    return mmap.PAGESIZE * sum(each & 1 for each in found)


@pytest.mark.linux
@given(st.lists(st.tuples(st.integers(1, 400_000), st.booleans()), max_size=40))
def test_no_more_is_resident_than_the_stretch_is_long(requests: list[tuple[int, bool]]) -> None:
    """Whatever lies outside of it, as much of its holes does not count, but for parts of pages."""
    limit = 1_000_000
    buffers = Buffers(limit)
    whole = buffers.lend(limit)
    whole[:] = bytes(limit)
    stretch = memoryview(whole.obj)
    buffers.take_back(whole)
    lent: list[memoryview] = []
    for number, (n_bytes, give_back) in enumerate(requests):
        if lent and (give_back or sum(map(len, lent)) + n_bytes > limit):
            buffers.take_back(lent.pop(number % len(lent)))
        if sum(map(len, lent)) + n_bytes <= limit:
            lent.append(buffers.lend(n_bytes))
            lent[-1][:] = bytes(n_bytes)
        outside = sum(len(each) for each in lent if each.obj is not whole.obj)
        ragged = 2 * mmap.PAGESIZE * (len(lent) + 1)
        assert count_resident(stretch) + outside <= len(stretch) + ragged


def test_small_buffers_take_no_pages_of_their_own() -> None:
    """However many small buffers are lent beyond the stretch, each costs little more."""
    buffers = Buffers(4096)

    lent = [buffers.lend(8) for _ in range(1100)]

    outside = [buffer for buffer in lent if not isinstance(buffer.obj, mmap.mmap)]
    assert len(outside) >= 500
    assert all(buffer.nbytes == 8 for buffer in lent)


def test_holes_are_kept_when_nothing_lies_outside_any_more() -> None:
    """What is taken back then is lent again as it is."""
    buffers = Buffers(2 * LARGE)
    inside = buffers.lend(LARGE)
    outside = buffers.lend(2 * LARGE)

    buffers.take_back(inside)
    again = buffers.lend(LARGE)
    buffers.take_back(outside)
    again[:4] = b"used"
    buffers.take_back(again)

    assert (len(outside), bytes(buffers.lend(LARGE)[:4])) == (2 * LARGE, b"used")


@given(
    st.lists(
        st.tuples(
            st.integers(1, 300_000),
            st.integers(0, ALIGNMENT - 1),
            st.booleans(),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_buffers_never_overlap(requests: list[tuple[int, int, bool, bool]]) -> None:
    """Whatever is lent and taken back in between, a lent buffer keeps what was put into it."""
    buffers = Buffers(2_000_000)
    lent: list[tuple[memoryview, int]] = []
    for number, (n_bytes, phase, lasting, give_back) in enumerate(requests):
        if give_back and lent:
            buffers.take_back(lent.pop(number % len(lent))[0])
        buffer = buffers.lend_inside(n_bytes, phase=phase, lasting=lasting)
        if buffer is None:
            buffer = buffers.lend_outside(n_bytes)
        buffer[:1] = buffer[-1:] = bytes([number])
        lent.append((buffer, number))

    assert all(buffer[0] == buffer[-1] == number for buffer, number in lent)


FRESH = """
import resource, sys
import numpy as np
from numcodecs import Zstd
from dask_io.engine.memory import reuse_freed_memory

codec, values = Zstd(1), np.random.default_rng(0).integers(0, 99, 2**22, np.uint8)

def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        codec.encode(values)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

n_fresh = count_faults()
reuse_freed_memory(2**23)
count_faults()
print(n_fresh, count_faults())
"""


@pytest.mark.linux
def test_what_codecs_free_is_used_again() -> None:
    """It was mapped and touched anew for every block."""
    # Settings of the C library's own, such as those that Dask gives to its workers, come first.
    settings = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True, env=settings
    )
    fresh, again = map(int, done.stdout.split())
    assert again < fresh / 10
