"""Groups whose broker assigns the partitions (KIP-848): ConsumerGroupHeartbeat and -Describe."""

from quorate.protocol.fields import array, boolean, int8, int16, int32, string, struct, uuid
from quorate.protocol.message import message, nested
from quorate.protocol.messages.metadata import OPERATIONS_NOT_ASKED_FOR


@nested
class ConsumerGroupHeartbeatTopicPartitions:
    """The partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """Joins with member epoch 0, stays, leaves with -1 (a static member with -2).

    Fields that are null or -1 have not changed since the last heartbeat.
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+")
    server_assignor: str | None = string(nullable="0+")
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable="0+", default=None
    )


@nested
class ConsumerGroupHeartbeatAssignment:
    """What a member is to read from now on."""

    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = array(
        ConsumerGroupHeartbeatTopicPartitions
    )


@message(versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """Answers a ConsumerGroupHeartbeatRequest; without an assignment it has not changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    member_id: str | None = string(nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatAssignment | None = struct(
        ConsumerGroupHeartbeatAssignment, nullable="0+"
    )


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Asks about groups and their members."""

    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


@nested
class ConsumerGroupDescribeTopicPartitions:
    """The partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


@nested
class Assignment:
    """What a member reads, or is to read."""

    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = array(
        ConsumerGroupDescribeTopicPartitions
    )


@nested
class ConsumerGroupDescribeMember:
    """One member of a group; its type is 0 for the classic protocol, 1 for this one."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8("1+", default=-1)


@nested
class ConsumerGroupDescribeGroup:
    """One group and its members."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ConsumerGroupDescribeMember] = array(ConsumerGroupDescribeMember)
    authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED_FOR)


@message(versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """Answers a ConsumerGroupDescribeRequest."""

    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeGroup] = array(ConsumerGroupDescribeGroup)
