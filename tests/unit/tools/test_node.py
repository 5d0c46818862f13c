"""How the parts of a node begin and end."""

import trio
import trio.testing

from quorate.tools.node import start_shielded


async def test_a_part_that_has_not_started_yet_ends_with_what_starts_it() -> None:
    waiting = trio.Event()

    async def starts_late(*, task_status: trio.TaskStatus[None]) -> None:
        waiting.set()
        await trio.sleep(5)
        task_status.started()

    async with trio.open_nursery() as node:

        async def told_to_stop() -> None:
            await waiting.wait()
            node.cancel_scope.cancel()

        node.start_soon(told_to_stop)
        async with trio.open_nursery() as parts:
            scope = await start_shielded(parts, starts_late)
            scope.cancel()
            raise AssertionError("it started though it was told to stop")
    assert node.cancel_scope.cancelled_caught


async def test_a_part_that_has_started_outlives_what_is_told_to_stop_until_that_ends_it() -> None:
    told: list[str] = []

    async def used(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            told.append("ended")

    with trio.CancelScope() as node:
        async with trio.open_nursery() as parts:
            scope = await start_shielded(parts, used)
            node.cancel()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                told.append("took its leave")
                scope.cancel()
    assert told == ["took its leave", "ended"]
