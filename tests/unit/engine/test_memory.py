"""What a run may hold, and the buffers it holds it in."""

from threading import Thread
from time import sleep

import pytest

from dask_io.engine.memory import Account, Buffers
from dask_io.stores.files import ALIGNMENT, address_of

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


def test_a_buffer_is_used_again() -> None:
    """What was taken back is lent to the next who asks for its size."""
    buffers = Buffers(4 * LARGE)
    first = buffers.lend(LARGE)
    first[:5] = b"first"
    second = buffers.lend(LARGE)
    buffers.take_back(first)

    third = buffers.lend(LARGE)

    assert bytes(third[:5]) == b"first"
    assert bytes(second[:5]) != b"first"


def test_idle_buffers_are_let_go() -> None:
    """Idle buffers give way to those of another size when the limit is reached."""
    buffers = Buffers(3 * LARGE)
    lent = [buffers.lend(LARGE) for _ in range(3)]
    for buffer in lent:
        buffer[:4] = b"used"
        buffers.take_back(buffer)
    del lent, buffer

    large = buffers.lend(2 * LARGE)
    kept = buffers.lend(LARGE)
    fresh = buffers.lend(LARGE)

    assert len(large) == 2 * LARGE
    assert (bytes(kept[:4]), bytes(fresh[:4])) == (b"used", bytes(4))
