"""The program of ``quorate demo exactly-once``: reads numbers, writes their squares, exactly once.

It is what a user would write, but for how it ends: with whoever started it, or when it is killed.
"""

import contextlib
import sys
from typing import Final

import trio

from quorate.client import Consumer, Producer, TransactionAbortedError

SOURCE: Final = "numbers"
SINK: Final = "squares"
COMMIT_S: Final = 0.1


async def main(bootstrap: str) -> None:
    """Square numbers until standard input ends."""
    async with (
        Producer(bootstrap, transactional_id="squares-1") as producer,
        Consumer(
            bootstrap,
            group_id="squares",
            group_instance_id="1",  # it is the same member when it is back
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_end_with_standard_input, nursery.cancel_scope)
        consumer.subscribe(SOURCE)
        while True:
            # What comes between others is not counted, and read again.
            with contextlib.suppress(TransactionAbortedError):
                await _transaction(producer, consumer)


async def _transaction(producer: Producer, consumer: Consumer) -> None:
    """Square what comes for a while; results, and how far was read, are committed together."""
    async with producer.transaction(consumer) as transaction:
        deadline_s = trio.current_time() + COMMIT_S
        while (left_s := deadline_s - trio.current_time()) > 0:
            for record in await consumer.poll(timeout_ms=int(1e3 * left_s)):
                square = b"%d" % int(record.value or b"0") ** 2
                await transaction.enqueue(SINK, square, key=record.key)


async def _end_with_standard_input(scope: trio.CancelScope) -> None:
    async with trio.lowlevel.FdStream(sys.stdin.fileno()) as starter:
        await starter.receive_some()
    scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
