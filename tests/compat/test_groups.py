"""Consumer groups: members share partitions, and take over those of others.

Members are processes with stock clients; all of them assign by range.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Generator

import pytest

from tests.compat.clients.membership import (
    CLIENTS,
    GroupMember,
    Wish,
    crew,
    wait_for_shares,
    wait_until,
)
from tests.compat.clients.model import Message, Sending, Server
from tests.compat.clients.ours import Ours
from tests.compat.peers import cache, java

pytestmark = [pytest.mark.compat, pytest.mark.slow]

NewTopic = Callable[..., str]
Start = Callable[[str, Wish], GroupMember]


@pytest.fixture
def start() -> Generator[Start]:
    with crew() as started:
        yield started


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return _there(name)


def _there(name: str) -> str:
    if name.startswith("Java"):
        try:
            java.kafka_folder()
            cache.program("java")
        except cache.PeerUnavailableError as error:
            pytest.skip(error.reason)
    return name


def all_clients() -> list[str]:
    return [_there(name) for name in CLIENTS]


def produce(ours: Ours, server: Server, topic: str, placed: list[tuple[int, str]]) -> None:
    messages = [Message(value.encode(), partition=partition) for partition, value in placed]
    ours.produce(server, topic, messages, Sending())


def seen(*members: GroupMember) -> list[str]:
    return [value for member in members for _, _, value in member.reads]


def wait_for_reads(count: int, *members: GroupMember) -> None:
    wait_until(lambda: len(seen(*members)) >= count, lambda: str(sorted(seen(*members))))


@pytest.mark.feature("2 members: 2 of 4 partitions each; all to the one that is left when one dies")
def test_partitions_are_shared_and_taken_over(
    server: Server, new_topic: NewTopic, client: str, start: Start
) -> None:
    topic = new_topic(4)
    wish = Wish(server, topic, topic, session_ms=2_000)
    first, second = start(client, wish), start(client, wish)
    wait_for_shares([first, second], [2, 2], 4)
    first.kill()
    wait_for_shares([second], [4], 4)


@pytest.mark.feature("4 members: 1 partition each; a fifth is idle until one leaves")
@pytest.mark.client("all in one group")
def test_a_mixed_group_shares_partitions(server: Server, new_topic: NewTopic, start: Start) -> None:
    topic = new_topic(4)
    clients = all_clients()
    members = [
        start(client, Wish(server, topic, topic))
        for client in itertools.islice(itertools.cycle(clients), 5)
    ]
    wait_for_shares(members, [0, 1, 1, 1, 1], 4)
    idle = next(member for member in members if member.assigned == [])
    busy = next(member for member in members if member is not idle)
    busy.stop()
    members.remove(busy)
    wait_for_shares(members, [1, 1, 1, 1], 4)
    assert idle.assigned


@pytest.mark.feature("every record goes to each group once, in order within its partition")
@pytest.mark.client("all in one group")
def test_each_group_gets_every_record_once(
    server: Server, new_topic: NewTopic, start: Start, ours: Ours
) -> None:
    topic = new_topic(3)
    clients = all_clients()
    groups = {
        name: [start(client, Wish(server, f"{topic}-{name}", topic, commit=True)) for client in who]
        for name, who in (("sms", clients[:2]), ("email", clients[2:]))
    }
    for members in groups.values():
        wait_for_shares(members, {2: [1, 2], 3: [1, 1, 1]}[len(members)], 3)
    sent = [(n % 3, f"{'ABC'[n % 3]}{n // 3}") for n in range(60)]
    produce(ours, server, topic, sent)
    for members in groups.values():
        wait_for_reads(len(sent), *members)
        assert Counter(seen(*members)) == Counter(value for _, value in sent)
        for member in members:
            for letter in "ABC":
                got = [value for value in seen(member) if value.startswith(letter)]
                assert got == sorted(got, key=lambda value: int(value[1:]))


@pytest.mark.feature("killed after some commits: goes on at the first record not committed")
def test_a_member_goes_on_where_its_predecessor_had_committed(
    server: Server, new_topic: NewTopic, client: str, start: Start, ours: Ours
) -> None:
    topic = new_topic(1)
    wish = Wish(server, topic, topic, commit=True, session_ms=2_000)
    first = start(client, wish)
    wait_for_shares([first], [1], 1)
    produce(ours, server, topic, [(0, str(n)) for n in range(10)])
    wait_for_reads(10, first)
    first.stop()
    produce(ours, server, topic, [(0, str(n)) for n in range(10, 2_000)])
    second = start(client, wish)
    wait_for_reads(11, second)
    second.kill()
    assert seen(second)[0] == "10"
    third = start(client, wish)
    wait_for_reads(1, third)
    # The last record that it told of may or may not have been committed before the kill.
    last = int(seen(second)[-1])
    assert int(seen(third)[0]) in (last, last + 1)


@pytest.mark.feature("static member: killed and started again, it keeps its partitions")
def test_a_static_member_keeps_its_partitions(
    server: Server, new_topic: NewTopic, client: str, start: Start
) -> None:
    topic = new_topic(2)
    wishes = [Wish(server, topic, topic, instance_id=name, session_ms=6_000) for name in "ab"]
    first, second = (start(client, wish) for wish in wishes)
    wait_for_shares([first, second], [1, 1], 2)
    assert second.assigned is not None
    kept = list(second.assigned)
    second.kill()
    again = start(client, wishes[1])
    wait_for_shares([first, again], [1, 1], 2)
    assert again.assigned == kept
