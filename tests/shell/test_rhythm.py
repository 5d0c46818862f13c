"""The reactor while requests come one upon the other: it waits beside Trio, and nobody notices."""

import select
import time
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.net import beside_trio as beside_trio_module
from quorate.net import reactor as reactor_module
from quorate.net.bell import Bell
from quorate.net.beside_trio import BesideTrio, UnknownLoopError
from quorate.net.connection import Part
from quorate.net.reactor import LULL_S, QUICK_WAITS
from tests.shell.test_reactor import Server, echo, frame, read, serving

ENOUGH_S = 5.0
QUICK_S_MAX = reactor_module.QUICK_S_MAX


@pytest.fixture(autouse=True)
def quick_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor_module, "QUICK_S_MAX", 1.0)


async def ask(stream: trio.SocketStream) -> None:
    await stream.send_all(frame(b"hello"))
    assert await read(stream, 5) == b"hello"


async def get_into_rhythm(server: Server, stream: trio.SocketStream) -> None:
    with trio.fail_after(ENOUGH_S):
        while not server.reactor.in_rhythm:
            await ask(stream)


async def test_who_can_run_is_known_also_of_those_whose_turn_is_in_the_same_round() -> None:
    beside = BesideTrio()
    with select.epoll() as epoll:
        beside.begin(epoll.fileno())
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(60) as scope:
            assert 0 < beside.patience_s() <= 60
            await trio.lowlevel.checkpoint()
        assert not scope.cancelled_caught
        ran: list[int] = []

        async def run() -> None:
            ran.append(1)
            await trio.lowlevel.checkpoint()

        for _ in range(20):  # Trio takes those of one round in any order
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                nursery.start_soon(run)
                ran.clear()
                assert beside.patience_s() == 0
                await trio.lowlevel.checkpoint()
                assert beside.patience_s() == 0
        beside.end()


async def test_requests_that_follow_each_other_are_waited_for_beside_trio() -> None:
    async with serving(echo) as server, await server.connect() as stream:
        for _ in range(QUICK_WAITS // 2):
            await ask(stream)
        assert not server.reactor.in_rhythm
        await get_into_rhythm(server, stream)


async def test_when_they_do_not_any_more_it_is_as_before() -> None:
    async with serving(echo) as server, await server.connect() as stream:
        for _ in range(3):
            await get_into_rhythm(server, stream)
            await trio.sleep(4 * LULL_S)
            assert not server.reactor.in_rhythm
            await wait_all_tasks_blocked()
            await ask(stream)


async def test_who_seldom_asks_is_waited_for_in_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactor_module, "QUICK_S_MAX", QUICK_S_MAX)
    async with serving(echo) as server, await server.connect() as stream:
        for _ in range(2 * QUICK_WAITS):
            await ask(stream)
            await trio.sleep(0.01)
            assert not server.reactor.in_rhythm


async def test_timers_threads_and_other_sockets_are_not_late_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reactor_module, "LULL_S", 100.0)  # so long they would be late
    async with serving(echo) as server, await server.connect() as stream:
        await get_into_rhythm(server, stream)
        with trio.fail_after(ENOUGH_S):
            for _ in range(5):
                await trio.sleep(0.002)
                await trio.to_thread.run_sync(time.sleep, 0.001)
                await ask(stream)
        assert server.reactor.in_rhythm


async def test_tasks_that_a_request_wakes_run_at_once() -> None:
    bell = Bell()
    woken = 0

    def ring(request: bytes) -> Sequence[Part]:
        bell.ring()
        return echo(request)

    async def count() -> None:
        nonlocal woken
        while True:
            await bell.wait()
            woken += 1

    async with (
        serving(ring) as server,
        await server.connect() as stream,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(count)
        await get_into_rhythm(server, stream)
        before = woken
        await ask(stream)
        await ask(stream)
        assert woken > before
        nursery.cancel_scope.cancel()


async def test_two_in_rhythm_at_once_make_way_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reactor_module, "LULL_S", 0.05)
    async with (
        serving(echo) as one,
        serving(echo) as other,
        await one.connect() as first,
        await other.connect() as second,
    ):
        with trio.fail_after(ENOUGH_S):
            for _ in range(3):
                while not (one.reactor.in_rhythm and other.reactor.in_rhythm):
                    await ask(first)
                    await ask(second)
                await trio.sleep(0.2)
                assert not one.reactor.in_rhythm
                assert not other.reactor.in_rhythm


async def test_it_ends_in_rhythm_when_it_is_cancelled() -> None:
    async with serving(echo) as server, await server.connect() as stream:
        await get_into_rhythm(server, stream)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < ENOUGH_S / 10
    assert not server.reactor.in_rhythm


async def test_a_clock_that_jumps_jumps_when_nobody_asks(autojump_clock: MockClock) -> None:
    async with serving(echo) as server, await server.connect() as stream:
        await get_into_rhythm(server, stream)
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        assert autojump_clock.current_time() >= 5


async def test_another_trio_is_served_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_name: str) -> object:
        return object()

    monkeypatch.setattr(beside_trio_module, "import_module", unknown)
    with pytest.raises(UnknownLoopError):
        BesideTrio()
    async with serving(echo) as server, await server.connect() as stream:
        for _ in range(4 * QUICK_WAITS):
            await ask(stream)
        assert not server.reactor.in_rhythm
