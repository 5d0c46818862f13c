"""What may take the disk runs in threads, and nobody else waits for it."""

import threading

import pytest
import trio
import trio.testing

from quorate.broker.aside import THREADS_MAX, Aside


class Turns:
    """Notes what happens, and in which order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.over = trio.Event()

    def begin(self) -> None:
        self.events.append("begin")

    def end(self) -> None:
        self.events.append("end")
        self.over.set()

    def then(self) -> None:
        self.events.append("then")


async def test_a_slow_disk_holds_up_nobody_but_who_asked_it(nursery: trio.Nursery) -> None:
    turns = Turns()
    aside = Aside(turns.begin, turns.end)
    await nursery.start(aside.run)
    slow, threads = threading.Event(), list[threading.Thread]()

    def read() -> None:
        threads.append(threading.current_thread())
        slow.wait()

    aside(read, turns.then)
    await trio.testing.wait_all_tasks_blocked()
    assert turns.events == []
    slow.set()
    await turns.over.wait()

    assert turns.events == ["begin", "then", "end"]
    assert threads != [threading.current_thread()]


async def test_however_much_reads_there_is_a_thread_left_to_sync_with(
    nursery: trio.Nursery,
) -> None:
    turns = Turns()
    aside = Aside(turns.begin, turns.end)
    await nursery.start(aside.run)
    slow, at_work = threading.Event(), threading.Semaphore(0)

    def read() -> None:
        at_work.release()
        slow.wait()

    for _ in range(100):
        aside(read, turns.then)
    for _ in range(THREADS_MAX):
        await trio.to_thread.run_sync(at_work.acquire)

    assert not at_work.acquire(blocking=False)
    slow.set()


async def test_a_broker_that_stops_does_not_wait_for_the_disk() -> None:
    turns = Turns()
    aside = Aside(turns.begin, turns.end)
    slow, at_work = threading.Event(), threading.Event()

    def read() -> None:
        at_work.set()
        slow.wait()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(aside.run)
            aside(read, turns.then)
            await trio.to_thread.run_sync(at_work.wait)
            nursery.cancel_scope.cancel()

    slow.set()
    assert turns.events == []


async def test_work_is_taken_only_while_there_are_threads_to_do_it() -> None:
    turns = Turns()
    with pytest.raises(AssertionError, match="while running"):
        Aside(turns.begin, turns.end)(turns.then, turns.then)
