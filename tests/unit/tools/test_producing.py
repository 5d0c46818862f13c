"""Lines are sent until one cannot be, or until nobody reads what is told of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio

from quorate.client.delivery import Delivery
from quorate.tools import producing
from quorate.tools.lines import LineFormat
from quorate.tools.producing import LineSender, ProducePlan

if TYPE_CHECKING:
    from quorate.client.producer import Producer


class Delivered:
    """A record that is acknowledged at once."""

    error = None

    def add_callback(self, callback: Callable[[Delivery], None]) -> None:
        callback(cast("Delivery", self))


class Sending:
    """Takes records, as a producer does."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    async def enqueue(self, _topic: str, value: bytes | None, **_: object) -> Delivered:
        self.values.append(value)
        return Delivered()


def test_when_nobody_reads_what_is_told_of_records_no_more_are_sent(tmp_path: Path) -> None:
    told: list[Delivery] = []

    def tell(delivery: Delivery) -> None:
        told.append(delivery)
        raise BrokenPipeError

    lines = LineFormat()
    plan = ProducePlan("t", lines, whole=False, sync=False, skip_bad_lines=False, on_delivered=tell)
    sending = Sending()
    stopped: list[bool] = []
    sender = LineSender(cast("Producer", sending), plan, lambda: stopped.append(True))
    (tmp_path / "lines").write_bytes(b"one\ntwo\nthree\n")
    given = os.open(tmp_path / "lines", os.O_RDONLY)
    trio.run(producing._pump, sender, plan, given)  # pyright: ignore[reportPrivateUsage]
    os.close(given)
    assert isinstance(sender.first_error, BrokenPipeError)
    assert stopped
    assert (sending.values, len(told)) == ([b"one"], 1)
