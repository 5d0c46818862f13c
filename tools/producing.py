"""Sends lines of a file or of standard input to a topic."""

import errno
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from quorate.client.delivery import Delivery
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.tools.arguments import compression_named
from quorate.tools.client_properties import ClientProperties
from quorate.tools.lines import LineError, LineFormat, LineSplitter
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.session import standard_input

if TYPE_CHECKING:
    from quorate.errors import QuorateError

CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class ProducePlan:
    """What to send where.

    Attributes:
        whole: the input is one record, not lines.
        sync: each record waits for the one before it to be acknowledged.
        skip_bad_lines: leave out lines that are no records, instead of stopping.
        on_delivered: called with each acknowledged record, in any order; or None.
    """

    topic: str
    lines: LineFormat
    whole: bool
    sync: bool
    skip_bad_lines: bool
    on_delivered: Callable[[Delivery], None] | None


class LineSender:
    """Sends lines; keeps how many were sent, and the first thing that went wrong.

    ``stop`` is called when something has gone wrong: the next line may be long in coming.
    """

    def __init__(self, producer: Producer, plan: ProducePlan, stop: Callable[[], None]) -> None:
        self._producer = producer
        self._plan = plan
        self._stop = stop
        self._line_number = 0
        self.sent = 0
        self.skipped = 0
        self.first_error: QuorateError | OSError | None = None

    async def send(self, line: bytes) -> None:
        """Hand a line to the producer.

        Raises:
            CommandError: the line is no record.
            QuorateError: it cannot be sent.
        """
        self._line_number += 1
        try:
            record = self._plan.lines.parse(line)
        except LineError as error:
            if self._plan.skip_bad_lines:
                self.skipped += 1
                return
            raise CommandError(
                f"line {self._line_number} is no record",
                why=str(error),
                hint="check -K, -f and the parse.* properties",
            ) from None
        delivery = await self._producer.enqueue(
            self._plan.topic,
            record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition,
        )
        self.sent += 1
        delivery.add_callback(self._settled)
        if self._plan.sync:
            await delivery.result()

    def _settled(self, delivery: Delivery) -> None:
        error = delivery.error
        if error is not None:
            self._fail(error)
        elif self._plan.on_delivered is not None and self.first_error is None:
            try:
                self._plan.on_delivered(delivery)
            except OSError as failure:  # whoever reads what we print has gone: "| head"
                self._fail(failure)

    def _fail(self, error: "QuorateError | OSError") -> None:
        self.first_error = self.first_error or error
        self._stop()


async def produce_input(
    bootstrap: str, plan: ProducePlan, settings: dict[str, Any], input_fd: int
) -> LineSender:
    """Send what can be read until its end, and wait until all of it is acknowledged.

    Raises:
        CommandError: a line is no record.
        QuorateError: a record could not be delivered; it says why.
        OSError: what ``on_delivered`` raised; nothing more was read then.
    """
    async with Producer(bootstrap, **settings) as producer:
        await producer.partitions_of(plan.topic)
        reading = trio.CancelScope()
        sender = LineSender(producer, plan, reading.cancel)
        with reading:
            try:
                await _pump(sender, plan, input_fd)
            finally:
                # What was read before a bad line, or before Ctrl-C, is sent all the same.
                with trio.move_on_after(5, shield=True):
                    await producer.flush()
    if sender.first_error is not None:
        raise sender.first_error
    return sender


async def _pump(sender: LineSender, plan: ProducePlan, input_fd: int) -> None:
    splitter = LineSplitter()
    whole = bytearray()
    while data := await trio.to_thread.run_sync(
        os.read, input_fd, CHUNK_BYTES, abandon_on_cancel=True
    ):
        if plan.whole:
            whole += data
            continue
        for line in splitter.feed(data):
            await sender.send(line)
            if sender.first_error is not None:
                return
    for line in [bytes(whole)] if plan.whole else splitter.finish():
        await sender.send(line)


def producer_settings(
    properties: ClientProperties, compression: str | None, acks: str | None
) -> dict[str, Any]:
    """Return properties of a producer, and what options say instead, as arguments of ours.

    Raises:
        UsageError: there is no such ``acks``, or codec.
    """
    acks = acks or properties.get("acks", "all")
    if acks not in {"all", "-1", "0", "1"}:
        raise UsageError(f"acks is {acks!r}", why="there are 0, 1 and all", hint="--acks all")
    settings: dict[str, Any] = {
        "acks": "all" if acks in {"all", "-1"} else int(acks),
        "compression": compression_named(compression or properties.get("compression.type", "none")),
    }
    for name, argument in (
        ("enable.idempotence", "idempotent"),
        ("linger.ms", "linger_ms"),
        ("batch.size", "batch_size_bytes"),
        ("delivery.timeout.ms", "delivery_timeout_ms"),
        ("retries", "retries"),
    ):
        value = properties.get(name, None)
        if value is not None:
            settings[argument] = value
    return settings


def input_descriptor(path: str | None) -> int:
    """Return the descriptor of a file, or of standard input.

    Raises:
        UsageError: standard input is closed.
        OSError: the file cannot be read, or is a directory.
    """
    if path in (None, "-"):
        return standard_input().fileno()
    descriptor = os.open(str(path), os.O_RDONLY)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return descriptor
