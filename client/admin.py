"""Trio shell: the Admin client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client import quorum
from quorate.client.admin_base import check, error_of, raise_first
from quorate.client.admin_results import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    DeletedRecords,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    QuorumDescription,
    TopicDescription,
    TopicListing,
)
from quorate.client.admin_transactions import TransactionAdmin
from quorate.client.connections import several
from quorate.client.leaders import Question, ask_leaders
from quorate.client.offsets import TimestampOffset, list_offsets
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from quorate.protocol.messages.quorum import (
    AddRaftVoterResponse,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from quorate.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorate.errors import QuorateError
    from quorate.protocol.messages.metadata import (
        MetadataResponse,
        MetadataResponseTopic,
    )

__all__ = ["Admin", "raise_first"]

BROKER_RESOURCE: Final = 4


class Admin(TransactionAdmin):
    """Creates, describes, changes and deletes what a cluster has.

    ::

        async with Admin("127.0.0.1:9092") as admin:
            await admin.create_topic("appLogs", partitions=4)
            print(await admin.list_topics())

    Methods on several things return a result for each: a value or the QuorateError that kept it
    from being done, so that one failure does not hide the others. :func:`raise_first` and the
    methods for one thing (``create_topic``) raise. It never creates a topic by asking for it.
    """

    # Topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until brokers say that it exists; None: the cluster's default.

        Raises:
            TopicAlreadyExistsError: There is one of that name.
            KafkaError: Something about it is not valid.
        """
        topic = NewTopic(name, partitions, replication_factor, configs or {})
        raise_first(await self.create_topics([topic]))
        await self.connected().topic(name)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, QuorateError | None]:
        """Create topics, or only say whether that would work; returns an error or None for each."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in several("create_topics", topics)],
            timeout_ms=self._settings.request_timeout_ms,
            validate_only=validate_only,
        )
        response: CreateTopicsResponse = await self.call(ApiKey.CREATE_TOPICS, request)
        return {
            t.name: error_of(t.error_code, t.error_message, f"topic {t.name!r}")
            for t in response.topics
        }

    async def delete_topics(self, names: Iterable[str]) -> dict[str, QuorateError | None]:
        """Delete topics and all their records; returns an error or None for each."""
        wanted = several("delete_topics", names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._settings.request_timeout_ms,
        )
        response: DeleteTopicsResponse = await self.call(ApiKey.DELETE_TOPICS, request)
        return {
            t.name or "": error_of(t.error_code, t.error_message, f"topic {t.name!r}")
            for t in response.responses
        }

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, QuorateError | None]:
        """Give topics that many partitions in total; returns an error or None for each."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ],
            timeout_ms=self._settings.request_timeout_ms,
            validate_only=validate_only,
        )
        response: CreatePartitionsResponse = await self.call(ApiKey.CREATE_PARTITIONS, request)
        return {
            t.name: error_of(t.error_code, t.error_message, f"topic {t.name!r}")
            for t in response.results
        }

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """Return the topics there are, by name."""
        response = await self.connected().metadata_of(None)
        return [
            TopicListing(t.name or "", t.topic_id, len(t.partitions), t.is_internal)
            for t in sorted(response.topics, key=lambda topic: topic.name or "")
            if include_internal or not t.is_internal
        ]

    async def describe_topics(
        self, names: Iterable[str]
    ) -> dict[str, TopicDescription | QuorateError]:
        """Return for each topic its partitions, and who has them."""
        wanted = several("describe_topics", names)
        response: MetadataResponse = await self.connected().metadata_of(wanted)
        return {topic.name or "": _describe(topic) for topic in response.topics}

    async def describe_all_topics(
        self, *, include_internal: bool = True
    ) -> tuple[TopicDescription, ...]:
        """Return all topics with their partitions, by name."""
        response: MetadataResponse = await self.connected().metadata_of(None)
        described = (_describe(t) for t in response.topics if include_internal or not t.is_internal)
        topics = (topic for topic in described if isinstance(topic, TopicDescription))
        return tuple(sorted(topics, key=lambda topic: topic.name))

    async def delete_records(
        self, before_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, DeletedRecords | QuorateError]:
        """Delete the records before an offset of each partition; -1 for all that are committed."""
        partitions = {TopicPartition(*each): offset for each, offset in before_offsets.items()}
        timeout_ms = self._settings.request_timeout_ms

        def request(asked: list[tuple[TopicPartition, int]]) -> DeleteRecordsRequest:
            topics: dict[str, DeleteRecordsTopic] = {}
            for (name, number), offset in asked:
                topic = topics.setdefault(name, DeleteRecordsTopic(name=name))
                topic.partitions.append(
                    DeleteRecordsPartition(partition_index=number, offset=offset)
                )
            return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)

        def told(answer: DeleteRecordsPartitionResult) -> DeletedRecords:
            return DeletedRecords(answer.low_watermark)

        question = Question(ApiKey.DELETE_RECORDS, "records of", request, told)
        return await ask_leaders(self.connected(), question, partitions)

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int], *, committed_only: bool = False
    ) -> dict[TopicPartition, TimestampOffset | QuorateError]:
        """Return offsets by partition: of an end, of the latest time, or of a time in ms."""
        timestamps = {TopicPartition(*partition): int(spec) for partition, spec in specs.items()}
        return await list_offsets(self.connected(), timestamps, committed_only=committed_only)

    # Settings

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | QuorateError]:
        """Return the settings of topics, brokers and groups, by name."""
        results: dict[ConfigResource, dict[str, ConfigEntry] | QuorateError] = {}
        for broker_id, group in _by_broker(resources).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type.value,
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                    for resource in group
                ],
                include_synonyms=True,
            )
            response: DescribeConfigsResponse = await self.call(
                ApiKey.DESCRIBE_CONFIGS, request, broker_id
            )
            for told in response.results:
                resource = ConfigResource.of(told.resource_type, told.resource_name)
                results[resource] = error_of(
                    told.error_code, told.error_message, str(resource)
                ) or _entries(told)
        return results

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, QuorateError | None]:
        """Change settings and leave the others alone; returns an error or None for each."""
        results: dict[ConfigResource, QuorateError | None] = {}
        for broker_id, group in _by_broker(changes).items():
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=resource.type.value,
                        resource_name=resource.name,
                        configs=[
                            IncrementalAlterableConfig(
                                name=change.name,
                                config_operation=change.operation.value,
                                value=change.value,
                            )
                            for change in changes[resource]
                        ],
                    )
                    for resource in group
                ],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await self.call(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, request, broker_id
            )
            for told in response.responses:
                resource = ConfigResource.of(told.resource_type, told.resource_name)
                results[resource] = error_of(told.error_code, told.error_message, str(resource))
        return results

    # The cluster

    async def describe_quorum(self) -> QuorumDescription:
        """Return how the controllers are, as a broker hears it from them.

        Raises:
            KafkaError: No controller answers the broker, or it refuses.
        """
        response: DescribeQuorumResponse = await self.call(
            ApiKey.DESCRIBE_QUORUM, quorum.describe_request()
        )
        for code, message in quorum.failures_of(response):
            check(code, message, "the quorum")
        return quorum.description_of(response)

    async def add_raft_voter(
        self, node_id: int, directory_id: bytes, endpoint: Endpoint, *, timeout_ms: int = 30_000
    ) -> None:
        """Make a controller that follows the quorum one that votes (KIP-853).

        Args:
            node_id: Its id.
            directory_id: The 16 bytes that name its disk, as :meth:`describe_quorum` tells them.
            endpoint: Where it listens for the other controllers.
            timeout_ms: How long it may take to catch up and be voted in.

        Raises:
            KafkaError: It was not added, or (after a timeout) nobody knows yet.
        """
        request = quorum.add_request(node_id, directory_id, endpoint, timeout_ms)
        response: AddRaftVoterResponse = await self.call(ApiKey.ADD_RAFT_VOTER, request)
        check(response.error_code, response.error_message, f"voter {node_id}")

    async def remove_raft_voter(self, node_id: int, directory_id: bytes) -> None:
        """Make a controller that votes one that only follows (KIP-853).

        Raises:
            KafkaError: It was not removed, or (after a timeout) nobody knows yet.
        """
        request = RemoveRaftVoterRequest(voter_id=node_id, voter_directory_id=directory_id)
        response: RemoveRaftVoterResponse = await self.call(ApiKey.REMOVE_RAFT_VOTER, request)
        check(response.error_code, response.error_message, f"voter {node_id}")


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.partitions is None else topic.partitions,
        replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in sorted(topic.assignments.items())
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
    )


def _describe(topic: MetadataResponseTopic) -> TopicDescription | QuorateError:
    error = error_of(topic.error_code, None, f"topic {topic.name!r}")
    if error is not None:
        return error
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionDescription(
                partition=p.partition_index,
                leader_id=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                offline=tuple(p.offline_replicas),
            )
            for p in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        ),
    )


def _entries(told: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        entry.name: ConfigEntry(
            name=entry.name,
            value=entry.value,
            source=entry.config_source,
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
            documentation=entry.documentation,
        )
        for entry in told.configs
    }


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Return whom to ask about which resources: a broker knows its own settings only."""
    groups: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type.value == BROKER_RESOURCE and resource.name != ""
        groups.setdefault(int(resource.name) if own else None, []).append(resource)
    return groups
