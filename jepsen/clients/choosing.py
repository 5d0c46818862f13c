"""The clients by the names that ``--client`` has for them."""

import contextlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

from quorate.jepsen.clients import java_producer, librdkafka
from quorate.jepsen.clients.java_producer import JavaSender
from quorate.jepsen.clients.librdkafka import StockReader, StockSender
from quorate.jepsen.clients.own import OwnReader, OwnSender
from quorate.jepsen.clients.own_transactor import OwnTransactor
from quorate.jepsen.clients.plain import PlainSender
from quorate.jepsen.clients.sending import MissingClientError, Sender, SenderOptions
from quorate.jepsen.clients.stock_transactor import StockTransactor
from quorate.jepsen.clients.transacting import Transactor, TransactorOptions
from quorate.jepsen.recorder import Recorder

OWN: Final = "own"
LIBRDKAFKA: Final = "librdkafka"
JAVA: Final = "java"
PLAIN: Final = "plain"
"""Without retries: each attempt is seen."""
ALL: Final = (OWN, LIBRDKAFKA, JAVA, PLAIN)

_SENDERS: Final[dict[str, Callable[[SenderOptions], Sender]]] = {
    OWN: OwnSender,
    LIBRDKAFKA: StockSender,
    JAVA: JavaSender,
    PLAIN: PlainSender,
}


class Reader(Protocol):
    """A consumer that reads along, from its making on, and writes down what it was given."""

    errors: list[str]

    def stop(self) -> None:
        """Read no more."""


def check_available(client: str) -> None:
    """See that a client is here.

    Raises:
        MissingClientError: it is not; says what to install.
    """
    if client == LIBRDKAFKA:
        librdkafka.load()
    elif client == JAVA:
        java_producer.jars()


def import_all() -> None:
    """Import whatever is imported late, as far as it is here."""
    with contextlib.suppress(MissingClientError):
        librdkafka.load()


def sender(client: str, options: SenderOptions) -> Sender:
    """Return a sender of that kind, under way."""
    return _SENDERS[client](options)


def transactor(client: str, options: TransactorOptions) -> Transactor:
    """Return a transactional producer of that kind, yet to be opened."""
    return StockTransactor(options) if client == LIBRDKAFKA else OwnTransactor(options)


def committed_reader(
    client: str,
    recorder: Recorder,
    bootstrap: str,
    topic: str,
    partitions: Sequence[int],
    rng: Random,
) -> Reader:
    """Return a reader of what is committed, under way; librdkafka reads nothing else by itself."""
    if client == LIBRDKAFKA:
        return StockReader(recorder, bootstrap, topic, partitions, rng)
    return OwnReader(recorder, bootstrap, topic, partitions, rng, committed_only=True)


def reader(
    client: str,
    recorder: Recorder,
    bootstrap: str,
    topic: str,
    partitions: Sequence[int],
    rng: Random,
) -> Reader:
    """Return a reader of that kind, under way; ours, where a client only sends."""
    kind = StockReader if client == LIBRDKAFKA else OwnReader
    return kind(recorder, bootstrap, topic, partitions, rng)
