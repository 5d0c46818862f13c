"""Ten thousand members of one group join at once, each on a connection of its own."""

import resource
from collections.abc import Generator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.protocol.apis import ApiKey
from quorate.protocol.consumer_protocol import Subscription, encode_subscription
from quorate.tools.bench import group_load, topics
from quorate.tools.bench.group_load import Wire
from quorate.tools.bench.topics import Address
from tests.compat import serving
from tests.conftest import IN_A_HURRY

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MEMBERS = 10_000
FILES = MEMBERS + 1_000
BYTES_PER_MEMBER_MAX = 16 << 10
"""Of the node's memory, with what the connection takes."""

GROUP = TOPIC = "t"
"""With longer names all that members say does not fit into one record, which Kafka refuses, too."""


@pytest.fixture
def many_files() -> Generator[None]:
    """Let this process, and the node that it starts, have a file for each member."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FILES:
        pytest.skip(f"a process may only have {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Crowd:
    """Members that all say the same at once."""

    def __init__(self, wires: list[Wire]) -> None:
        self.wires = wires

    def ask(self, key: ApiKey, version: int, bodies: list[Any]) -> list[Any]:
        frames = [group_load.framed(key, version, body) for body in bodies]
        return [
            group_load.answer(key, version, frame)
            for frame in group_load.exchange(self.wires, frames)
        ]

    def join(self, member_ids: list[str]) -> list[Any]:
        metadata = encode_subscription(Subscription((TOPIC,)))
        bodies = [group_load.join_body(GROUP, each, metadata) for each in member_ids]
        return self.ask(ApiKey.JOIN_GROUP, group_load.JOIN, bodies)


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_members_join_and_get_an_assignment(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    properties = {**IN_A_HURRY, "group.initial.rebalance.delay.ms": "1000"}
    folder = tmp_path_factory.mktemp("crowd")
    with serving.quorate(properties, folder) as broker, ExitStack() as stack:
        address = Address.parse(broker.server.bootstrap)
        topics.create_topic(broker.server.bootstrap, TOPIC, partitions=1, config={})
        group_load.coordinator_of(address, GROUP)
        before = broker.node.memory().rss_bytes
        crowd = Crowd([stack.enter_context(closing(Wire(address))) for _ in range(MEMBERS)])
        group_load.commit(crowd.wires[0], group_load.commit_body(GROUP, TOPIC, [0], 0))
        told = crowd.join([""] * MEMBERS)
        assert {each.error_code for each in told} == {ErrorCode.MEMBER_ID_REQUIRED}
        joined = crowd.join([each.member_id for each in told])
        assert {(each.error_code, each.generation_id) for each in joined} == {(ErrorCode.NONE, 1)}
        assert sorted(len(each.members) for each in joined)[-2:] == [0, MEMBERS]
        bodies = [
            group_load.sync_body(GROUP, each, {m.member_id: b"" for m in each.members})
            for each in joined
        ]
        synced = crowd.ask(ApiKey.SYNC_GROUP, group_load.SYNC, bodies)
        assert {each.error_code for each in synced} == {ErrorCode.NONE}
        assert broker.node.memory().rss_bytes - before < MEMBERS * BYTES_PER_MEMBER_MAX
