"""A consumer group, as ConsumerGroupDescribe tells of it."""

from collections.abc import Iterable

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_members import Member
from quorate.broker.groups.consumer_records import by_topic
from quorate.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)
from quorate.quorum.metadata.image import MetadataImage

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(
    group: ConsumerGroup, image: MetadataImage, default_assignor: str
) -> ConsumerGroupDescribeGroup:
    """Return the group and its members; partitions of deleted topics are left out, as in Kafka."""
    return ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch.epoch,
        assignment_epoch=group.target_epoch.epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(
    group: ConsumerGroup, member: Member, image: MetadataImage
) -> ConsumerGroupDescribeMember:
    profile, standing = member.profile, member.standing
    reads = (*standing.assigned, *standing.revoking)  # until it says that it gave those up
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=standing.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topic_names),
        subscribed_topic_regex=profile.topic_regex or "",
        assignment=_assignment(reads, image),
        target_assignment=_assignment(group.target_of(member.member_id), image),
        member_type=CONSUMER_MEMBER if profile.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], image: MetadataImage) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=numbers
            )
            for topic_id, numbers in by_topic(partitions).items()
            if (name := image.topic_names.get(topic_id)) is not None
        ]
    )
