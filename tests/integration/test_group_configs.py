"""What a group is configured with is what its coordinator does, on a real node."""

import time
import uuid
from typing import Any

import pytest
import trio

from quorate.client import Admin, ConfigChange, ConfigResource, GroupDescription, ResourceType
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest

pytestmark = pytest.mark.integration

NODES_SESSION_S = 3.0
"""What the node of these tests is configured with; see IN_A_HURRY."""


async def join(admin: Admin, group_id: str) -> Any:
    """Join as a member that will never be heard of again."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["nothing"],
        topic_partitions=[],
    )
    (response,) = await admin.coordinators().call_many(
        [group_id], ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda _: request, lambda r: [r.error_code]
    )
    return response


async def members(admin: Admin, group_id: str) -> int:
    description = (await admin.describe_groups([group_id]))[group_id]
    assert isinstance(description, GroupDescription)
    return len(description.members)


async def test_a_group_waits_for_its_members_as_long_as_it_is_configured_to(
    bootstrap: str,
) -> None:
    patient = ConfigResource(ResourceType.GROUP, "patient")
    changes = (
        ConfigChange("consumer.session.timeout.ms", "30000"),
        ConfigChange("consumer.heartbeat.interval.ms", "700"),
    )
    async with Admin(bootstrap) as admin:
        assert await admin.alter_configs({patient: changes}) == {patient: None}
        began_s = time.monotonic()
        assert (await join(admin, "usual")).heartbeat_interval_ms == 200
        assert (await join(admin, "patient")).heartbeat_interval_ms == 700
        with trio.fail_after(NODES_SESSION_S * 4):
            while await members(admin, "usual"):  # noqa: ASYNC110 - in another process
                await trio.sleep(0.1)
        assert time.monotonic() - began_s >= NODES_SESSION_S
        assert await members(admin, "patient") == 1
