"""Connections: producers push, consumers pull, and the broker calls nobody."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import psutil
import pytest

from tests.compat.clients.membership import Wish, crew, wait_for_shares, wait_until
from tests.compat.clients.model import DEADLINE_S, Client, Message, Sending, Server, Task
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

LOOK_INTERVAL_S = 0.01
RECORDS = [Message(b"%d" % number) for number in range(50)]


class Link(NamedTuple):
    """A connection of the broker's process: the TCP ports at its own end and at the other one."""

    here: int
    there: int


def look(broker: Broker) -> tuple[set[int], set[Link]]:
    """Return the ports that the broker listens on, and the connections that it has."""
    found = psutil.Process(broker.node.popen.pid).net_connections("tcp")
    listening = {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}
    established = (each for each in found if each.status == psutil.CONN_ESTABLISHED)
    return listening, {Link(each.laddr.port, each.raddr.port) for each in established}


@contextmanager
def watched(broker: Broker) -> Generator[set[Link]]:
    """Collect the connections that the block brings; in the end see that others made them all."""
    listening, before = look(broker)
    new: set[Link] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_INTERVAL_S):
            new.update(look(broker)[1] - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield new
    finally:
        done.set()
        watching.join()
    new.update(look(broker)[1] - before)
    assert new, "nobody was connected"
    assert [link for link in new if link.here not in listening] == []


@pytest.mark.feature("clients connect to the broker, and it connects to none of them")
def test_clients_connect_and_are_never_connected_to(
    client: Client, broker: Broker, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    deadline_s = time.monotonic() + DEADLINE_S
    with watched(broker) as new:
        while not new and time.monotonic() < deadline_s:  # some are gone before one can look
            client.produce(server, topic, RECORDS, Sending())
            client.consume(server, Task(topic, {0: 0}, len(RECORDS)))


@pytest.mark.parametrize("client", ["librdkafka", "quorate.client"])
def test_members_of_groups_connect_and_are_never_connected_to(
    client: str, broker: Broker, server: Server, new_topic: NewTopic, ours: Ours
) -> None:
    topic = new_topic()
    with watched(broker), crew() as start:
        member = start(client, Wish(server, topic, topic, commit=True))
        wait_for_shares([member], [1], 1)
        ours.produce(server, topic, RECORDS, Sending())
        wait_until(lambda: len(member.reads) == len(RECORDS), lambda: str(member.reads))
        member.stop()
