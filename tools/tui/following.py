"""Trio shell: follows what has no end: the records of a topic, the decisions of controllers."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from quorate.errors import KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.arguments import GlobalOptions
from quorate.tools.consuming import find_bounds, marks_of
from quorate.tools.metadata.decided import Batch, Decided, Reader
from quorate.tools.metadata.directory import batches_of, controller_folder
from quorate.tools.metadata_feed import follow_feed
from quorate.tools.positions import parse_span
from quorate.tools.quorum_work import wall_clock_ms
from quorate.tools.reaching import find_controllers, tls_of
from quorate.tools.topics import Client
from quorate.tools.verify_runs import Run, runs_in

KEPT_MAX: Final = 1_000
"""How many records and how many decisions are kept to be looked at."""

DEFAULT_FROM: Final = "-50"
POLL_MS: Final = 250
RETRY_S: Final = 1.0
DIRECTORY_S: Final = 2.0


class Pause:
    """Whether to stop reading for a while; whoever reads waits here."""

    def __init__(self) -> None:
        self._go_on = trio.Event()
        self._go_on.set()

    def set(self, *, paused: bool) -> None:
        """Stop, or go on."""
        if paused and self._go_on.is_set():
            self._go_on = trio.Event()
        elif not paused:
            self._go_on.set()

    async def wait_over(self) -> None:
        """Wait until it goes on."""
        await self._go_on.wait()


async def follow_records(
    client: Client,
    argument: str,
    pause: Pause,
    tell: Callable[[Sequence[Record]], None],
    on_trouble: Callable[[Exception], None],
) -> None:
    """Tell the last records of a topic, whenever there are more, until cancelled.

    What cannot be read is told to ``on_trouble`` and tried again, from where it was.
    """
    topic, _, start = argument.partition(" ")
    kept: deque[Record] = deque(maxlen=KEPT_MAX)
    places: dict[TopicPartition, int] = {}
    while True:
        try:
            async with client.consumer(auto_offset_reset="earliest") as consumer:
                partitions = [TopicPartition(topic, n) for n in await consumer.partitions_of(topic)]
                span = parse_span(start or DEFAULT_FROM, wall_clock_ms())
                bounds = await find_bounds(consumer, partitions, marks_of(span))
                consumer.assign(partitions)
                for partition in partitions:
                    first = places.get(partition, bounds[partition].offset_of(span.start))
                    consumer.seek(partition, first)
                while True:
                    await pause.wait_over()
                    records = await consumer.poll(timeout_ms=POLL_MS)
                    if records:
                        kept.extend(records)
                        places.update({r.topic_partition: r.offset + 1 for r in records})
                        tell(tuple(kept))
        except QuorateError as error:
            on_trouble(error)
        await trio.sleep(RETRY_S)


async def follow_directory(
    directory: Path,
    tell: Callable[[Sequence[Decided]], None],
    on_trouble: Callable[[Exception], None],
) -> None:
    """Tell the last decisions that a node's directory holds, whenever there are more."""
    told: Decided | None = None
    while True:
        try:
            batches = await trio.to_thread.run_sync(_batches_in, directory)
        except (QuorateError, OSError) as error:
            on_trouble(error)
        else:
            reader = Reader()
            kept = [decided for batch in batches for decided in reader.read(batch)][-KEPT_MAX:]
            if kept and kept[-1] != told:
                told = kept[-1]
                tell(tuple(kept))
        await trio.sleep(DIRECTORY_S)


def _batches_in(directory: Path) -> list[Batch]:
    return list(batches_of(controller_folder(directory)))


async def follow_runs(argument: str, tell: Callable[[Sequence[Run]], None]) -> None:
    """Tell the runs of ``quorate verify`` in a folder, as they change, until cancelled."""
    told: tuple[Run, ...] | None = None
    while True:
        found = await trio.to_thread.run_sync(runs_in, Path(argument) if argument else None)
        if found != told:
            told = found
            tell(found)
        await trio.sleep(DIRECTORY_S)


async def follow_events(
    options: GlobalOptions,
    environment: dict[str, str],
    tell: Callable[[Sequence[Decided]], None],
    on_trouble: Callable[[Exception], None],
) -> None:
    """Tell the last decisions of the controllers, whenever there are more, until cancelled."""
    while True:
        kept: deque[Decided] = deque(maxlen=KEPT_MAX)
        reader = Reader()

        def take(batch: Batch, kept: deque[Decided] = kept, reader: Reader = reader) -> None:
            kept.extend(reader.read(batch))
            tell(tuple(kept))

        def trouble(error: KafkaError) -> None:
            on_trouble(error)

        try:
            endpoints = await find_controllers(options, environment)
            await follow_feed(endpoints, take, trouble, tls_of(options))
        except QuorateError as error:
            on_trouble(error)
        await trio.sleep(RETRY_S)
