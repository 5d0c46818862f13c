"""A stock producer that gives up for good is replaced."""

import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.jepsen.clients import librdkafka
from quorate.jepsen.clients.sending import SenderOptions


@dataclass
class FakeError:
    is_fatal: bool

    def fatal(self) -> bool:
        return self.is_fatal


class FakeProducer:
    """One that can be told to give up for good."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.tell = settings["error_cb"]
        self.purged = threading.Event()

    def poll(self, _seconds: float) -> None: ...

    def purge(self) -> None:
        self.purged.set()

    def flush(self, _seconds: float) -> None: ...


def test_a_producer_that_will_never_send_again_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeProducer] = []

    def make(settings: dict[str, Any]) -> FakeProducer:
        made.append(FakeProducer(settings))
        return made[-1]

    monkeypatch.setattr(librdkafka, "load", lambda: SimpleNamespace(Producer=make))
    sender = librdkafka.StockSender(SenderOptions(bootstrap="nowhere:1", acks="all"))
    made[0].tell(FakeError(is_fatal=False))
    assert not made[0].purged.wait(0.05)
    made[0].tell(FakeError(is_fatal=True))
    assert made[0].purged.wait(10)
    sender.close(0)
    assert len(made) == 2
