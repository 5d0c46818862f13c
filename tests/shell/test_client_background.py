"""The thread behind blocking calls, and calls that Ctrl-C gives up."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from quorate.client.background import Background
from tests.ctrl_c import ctrl_c


@asynccontextmanager
async def nothing() -> AsyncGenerator[None]:
    yield


@pytest.fixture
def background() -> Iterator[Background[None]]:
    background = Background(nothing)
    yield background
    background.close()


def test_what_ctrl_c_gives_up_has_ended_when_it_goes_on(background: Background[None]) -> None:
    ended: list[str] = []

    async def take_leave() -> None:
        try:
            ctrl_c()
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _ in range(1000):
                    await trio.lowlevel.checkpoint()
            ended.append("in peace")

    with pytest.raises(KeyboardInterrupt):
        background.call(take_leave)
    assert ended == ["in peace"]


def test_ctrl_c_twice_waits_for_nothing(background: Background[None]) -> None:
    finish = trio.Event()

    async def hesitate() -> None:
        try:
            ctrl_c()
            await trio.sleep_forever()
        finally:
            ctrl_c()
            with trio.CancelScope(shield=True):
                await finish.wait()

    with pytest.raises(KeyboardInterrupt):
        background.call(hesitate)
    background.call_now(finish.set)


def test_what_was_not_asked_for_yet_when_ctrl_c_came_never_is(
    background: Background[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def ask() -> None:
        await trio.lowlevel.checkpoint()
        asked.append("after all")

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(background, "run_soon", interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.call(ask)
    background.call_now(lambda: None)
    assert asked == []
