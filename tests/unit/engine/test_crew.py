"""Threads that carry out tasks."""

import signal
import time
from collections.abc import Callable
from threading import Event, Lock, Thread, get_ident
from threading import enumerate as enumerate_threads

import pytest

from dask_io.engine.crew import Alone, Crew


def make_crew(n_threads: int = 1, on_stop: Callable[[], None] = lambda: None) -> Crew:
    """A crew with small staging buffers, each with its own number in it."""
    return Crew([memoryview(bytearray([n])) for n in range(n_threads)], on_stop)


def within_seconds(act: Callable[[], None]) -> None:
    """Fail, instead of waiting forever, if something hangs; raise what it raises."""
    raised: list[BaseException] = []

    def catch() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    thread = Thread(target=catch, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_every_task_is_done(n_threads: int) -> None:
    """All tasks are done once `finish` returns, urgent ones that tasks add included."""
    done: list[int] = []
    lock = Lock()

    def note(number: int) -> Callable[[memoryview], None]:
        def task(_: memoryview) -> None:
            with lock:
                done.append(number)
            if number < 100:
                crew.add_urgent(note(number + 100))

        return task

    crew = make_crew(n_threads)

    def act() -> None:
        with crew:
            for number in range(100):
                crew.add(note(number))
            crew.finish()
            assert sorted(done) == list(range(200))

    before = set(enumerate_threads())
    within_seconds(act)
    assert set(enumerate_threads()) <= before


def test_a_thread_has_a_buffer_of_its_own() -> None:
    """A task gets its thread's staging buffer, and no two at once the same."""
    n_threads = 4
    taken: list[int] = []
    together = [Event() for _ in range(n_threads)]

    def task(staging: memoryview) -> None:
        taken.append(staging[0])
        together[staging[0]].set()
        assert all(event.wait(10) for event in together)

    def act() -> None:
        with make_crew(n_threads) as crew:
            for _ in range(n_threads):
                crew.add(task)
            crew.finish()

    within_seconds(act)
    assert sorted(taken) == list(range(n_threads))


def test_urgent_tasks_come_first() -> None:
    """Urgent tasks overtake those that wait; otherwise the order is that of adding."""
    done: list[str] = []
    begin, begun = Event(), Event()

    def first(_: memoryview) -> None:
        begun.set()
        begin.wait(10)

    def note(name: str) -> Callable[[memoryview], None]:
        return lambda _: done.append(name)

    def act() -> None:
        with make_crew() as crew:
            crew.add(first)
            begun.wait(10)
            crew.add(note("ordinary 1"))
            crew.add(note("ordinary 2"))
            crew.add_urgent(note("urgent 1"))
            crew.add_urgent(note("urgent 2"))
            begin.set()
            crew.finish()

    within_seconds(act)
    assert done == ["urgent 1", "urgent 2", "ordinary 1", "ordinary 2"]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_first_error_wins(n_threads: int) -> None:
    """The first error is raised to whoever adds or waits, and what still waits is dropped."""
    done: list[int] = []
    stopped = Event()

    def fail(_: memoryview) -> None:
        raise ValueError("the first")

    def fail_later(_: memoryview) -> None:
        assert stopped.wait(10)
        raise ValueError("the second")

    def act() -> None:
        with make_crew(n_threads, stopped.set) as crew:
            if n_threads > 1:
                crew.add(fail_later)
            crew.add(fail)
            assert stopped.wait(10)
            for number in range(100):
                crew.add(lambda _, number=number: done.append(number))  # type: ignore[misc]
            crew.finish()

    with pytest.raises(ValueError, match="the first"):
        within_seconds(act)
    assert len(done) <= 1


def test_an_error_ends_waiting_to_add() -> None:
    """Whoever waits because enough tasks wait already goes on when one of them fails."""
    begun = Event()

    def fail(_: memoryview) -> None:
        assert begun.wait(10)
        raise ValueError("too late")

    def act() -> None:
        with make_crew() as crew:
            crew.add(fail)
            begun.set()
            for _ in range(1000):
                crew.add(lambda _: None)
            crew.finish()

    with pytest.raises(ValueError, match="too late"):
        within_seconds(act)


def test_a_thread_that_cannot_start_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the system gives no more threads, those that have started end."""
    start = Thread.start
    started: list[Thread] = []

    def start_two(thread: Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    crew, before = make_crew(4), set(enumerate_threads())
    monkeypatch.setattr(Thread, "start", start_two)

    with pytest.raises(RuntimeError, match="new thread"), crew:
        pass

    assert set(enumerate_threads()) <= before


def test_leaving_early_stops_everyone() -> None:
    """An error where tasks are added ends the threads, waiting for no task in the queue."""
    begun, stopped = Event(), Event()

    def long(_: memoryview) -> None:
        begun.set()
        assert stopped.wait(10)

    def act() -> None:
        with make_crew(1, stopped.set) as crew:
            crew.add(long)
            crew.add(long)
            assert begun.wait(10)
            raise KeyboardInterrupt

    before = set(enumerate_threads())
    with pytest.raises(KeyboardInterrupt):
        within_seconds(act)
    assert set(enumerate_threads()) <= before


def test_interrupts_do_not_end_waiting_for_threads() -> None:
    """Ctrl-C, again and again while threads end, is raised when they have ended."""
    begun, stopped, ended = Event(), Event(), Event()
    main = get_ident()

    def long(_: memoryview) -> None:
        begun.set()
        assert stopped.wait(10)
        for _second in range(3):
            time.sleep(0.1)
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.1)
        ended.set()

    before = set(enumerate_threads())
    with pytest.raises(KeyboardInterrupt), make_crew(2, stopped.set) as crew:  # noqa: PT012
        crew.add(long)
        assert begun.wait(10)
        raise KeyboardInterrupt

    assert ended.is_set()
    assert set(enumerate_threads()) <= before


def test_a_tiny_run_does_tasks_at_once() -> None:
    """Without threads, a task is done when it is added, and then the urgent ones that it adds.

    They run one after another, because they share the staging buffer.
    """
    done: list[str] = []
    with Alone(memoryview(bytearray(1))) as crew:

        def read(_: memoryview) -> None:
            crew.add_urgent(lambda _: done.append("write"))
            done.append("read")

        for _ in range(2):
            crew.add(read)
        assert done == ["read", "write"] * 2
        crew.finish()


def test_a_tiny_run_raises_errors_at_once() -> None:
    """An error of a task reaches the thread that adds it."""

    def fail(_: memoryview) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Alone(memoryview(bytearray(1))) as crew:
        crew.add(fail)
