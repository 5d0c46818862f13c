"""The brokers that can be compared: how to prepare their data, start them, and name them."""

import shlex
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import quorate
from quorate.dataclass import dataclass
from tests.compat.peers import java, nodes

# What a topic's file.delete.delay.ms is elsewhere: Kafka heeds only the broker's for whole topics.
KAFKA_PROPERTIES = {"log.segment.delete.delay.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that can be started any number of times, on old data or new.

    `prepare(directory, port)` makes a directory ready for `launch(directory, port, cores)`.
    """

    name: str
    version: str
    prepare: Callable[[Path, int], object]
    launch: Callable[[Path, int, str], nodes.Node]


def quorate_broker() -> Broker:
    """Return this repository's broker."""
    return Broker(
        "quorate",
        quorate.__version__,
        lambda directory, _port: directory.mkdir(parents=True, exist_ok=True),
        lambda directory, port, cores: nodes.launch_quorate(
            port=port, directory=directory, cores=cores
        ),
    )


def kafka_broker() -> Broker:
    """Return Apache Kafka; raises PeerUnavailableError where it cannot be had."""
    java.kafka_folder()
    return Broker(
        "kafka",
        java.KAFKA_VERSION,
        lambda directory, port: nodes.format_kafka(
            directory, port=port, properties=KAFKA_PROPERTIES
        ),
        lambda directory, port, cores: nodes.launch_kafka(
            directory / nodes.KAFKA_CONFIGURATION, port=port, directory=directory, cores=cores
        ),
    )


def command_broker(name: str, command: str) -> Broker:
    """Return a broker started by any command that has {port} and {directory} in it."""

    def launch(directory: Path, port: int, cores: str) -> nodes.Node:
        words = shlex.split(command.format(port=port, directory=directory / "data"))
        return nodes.launch(name, words, port=port, directory=directory, cores=cores)

    return Broker(
        name,
        "",
        lambda directory, _port: directory.mkdir(parents=True, exist_ok=True),
        launch,
    )


@contextmanager
def fresh_node(broker: Broker, *, cores: str) -> Generator[nodes.Node]:
    """Run a broker on no data, in a folder that goes with it."""
    with nodes.temporary_folder() as directory:
        port = nodes.free_port()
        broker.prepare(directory, port)
        with nodes.running(broker.launch(directory, port, cores)) as node:
            yield node
