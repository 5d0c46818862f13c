"""Trio shell: the Admin client."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client import quorum
from quorate.client.admin_results import (
    BrokerDescription,
    BrokerLogDirs,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    DeletedRecords,
    LogDir,
    LogDirReplica,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    QuorumDescription,
    TopicDescription,
    TopicListing,
)
from quorate.client.connections import RETRY, Cluster, ConnectionOptions, client_settings
from quorate.client.errors import error_for
from quorate.client.lifetime import Lifetime
from quorate.client.offsets import TimestampOffset, list_offsets
from quorate.errors import MEANINGS, ErrorCode, KafkaError, QuorateError, known_code
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
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
from quorate.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataResponse,
    MetadataResponseTopic,
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
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

BROKER_RESOURCE: Final = 4


class Admin:
    """Creates, describes, changes and deletes what a cluster has.

    ::

        async with Admin("127.0.0.1:9092") as admin:
            await admin.create_topic("appLogs", partitions=4)
            print(await admin.list_topics())

    Methods on several things return a result for each: a value or the QuorateError that kept it
    from being done, so that one failure does not hide the others. :func:`raise_first` and the
    methods for one thing (``create_topic``) raise. It never creates a topic by asking for it.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], **options: Unpack[ConnectionOptions]
    ) -> None:
        """Check and keep the settings; ``async with`` connects.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            **options: See :class:`quorate.client.connections.ConnectionOptions`.

        Raises:
            ValueError: A setting makes no sense.
        """
        self._settings = client_settings(bootstrap, options)
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret
        self._lifetime = Lifetime("admin client")
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        self._cluster = await self._lifetime.open(self._settings, self._rng)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect."""
        await self._lifetime.close(error, traceback)

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
        await self._connected().topic(name)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, QuorateError | None]:
        """Create topics, or only say whether that would work; returns an error or None for each."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._settings.request_timeout_ms,
            validate_only=validate_only,
        )
        response: CreateTopicsResponse = await self._call(ApiKey.CREATE_TOPICS, request)
        return {
            t.name: _error(t.error_code, t.error_message, f"topic {t.name!r}")
            for t in response.topics
        }

    async def delete_topics(self, names: Iterable[str]) -> dict[str, QuorateError | None]:
        """Delete topics and all their records; returns an error or None for each."""
        wanted = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._settings.request_timeout_ms,
        )
        response: DeleteTopicsResponse = await self._call(ApiKey.DELETE_TOPICS, request)
        return {
            t.name or "": _error(t.error_code, t.error_message, f"topic {t.name!r}")
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
        response: CreatePartitionsResponse = await self._call(ApiKey.CREATE_PARTITIONS, request)
        return {
            t.name: _error(t.error_code, t.error_message, f"topic {t.name!r}")
            for t in response.results
        }

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """Return the topics there are, by name."""
        response = await self._connected().metadata_of(None)
        return [
            TopicListing(t.name or "", t.topic_id, len(t.partitions), t.is_internal)
            for t in sorted(response.topics, key=lambda topic: topic.name or "")
            if include_internal or not t.is_internal
        ]

    async def describe_topics(
        self, names: Iterable[str]
    ) -> dict[str, TopicDescription | QuorateError]:
        """Return for each topic its partitions, and who has them."""
        response: MetadataResponse = await self._connected().metadata_of(list(names))
        return {topic.name or "": _describe(topic) for topic in response.topics}

    async def describe_all_topics(
        self, *, include_internal: bool = True
    ) -> tuple[TopicDescription, ...]:
        """Return all topics with their partitions, by name."""
        response: MetadataResponse = await self._connected().metadata_of(None)
        described = (_describe(t) for t in response.topics if include_internal or not t.is_internal)
        topics = (topic for topic in described if isinstance(topic, TopicDescription))
        return tuple(sorted(topics, key=lambda topic: topic.name))

    async def delete_records(
        self, before_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, DeletedRecords | QuorateError]:
        """Delete the records before an offset of each partition; -1 for all that are committed."""
        cluster = self._connected()
        results: dict[TopicPartition, DeletedRecords | QuorateError] = {}
        by_leader: dict[int, DeleteRecordsRequest] = {}
        for partition, offset in before_offsets.items():
            try:
                leader_id = await cluster.leader_of(partition)
            except QuorateError as error:
                results[partition] = error
                continue
            request = by_leader.setdefault(
                leader_id, DeleteRecordsRequest(timeout_ms=self._settings.request_timeout_ms)
            )
            request.topics.append(
                DeleteRecordsTopic(
                    name=partition.topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
                    ],
                )
            )
        for leader_id, request in by_leader.items():
            response: DeleteRecordsResponse = await cluster.call_broker(
                leader_id, ApiKey.DELETE_RECORDS, request
            )
            for topic in response.topics:
                for told in topic.partitions:
                    partition = TopicPartition(topic.name, told.partition_index)
                    results[partition] = _error(
                        told.error_code, None, str(partition)
                    ) or DeletedRecords(told.low_watermark)
        return results

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int], *, committed_only: bool = False
    ) -> dict[TopicPartition, TimestampOffset | QuorateError]:
        """Return offsets by partition: of an end, of the latest time, or of a time in ms."""
        timestamps = {TopicPartition(*partition): int(spec) for partition, spec in specs.items()}
        return await list_offsets(self._connected(), timestamps, committed_only=committed_only)

    # Settings

    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | QuorateError]:
        """Return the settings of topics and brokers, by name."""
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
            response: DescribeConfigsResponse = await self._call(
                ApiKey.DESCRIBE_CONFIGS, request, broker_id
            )
            for told in response.results:
                resource = ConfigResource.of(told.resource_type, told.resource_name)
                results[resource] = _error(
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
            response: IncrementalAlterConfigsResponse = await self._call(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, request, broker_id
            )
            for told in response.responses:
                resource = ConfigResource.of(told.resource_type, told.resource_name)
                results[resource] = _error(told.error_code, told.error_message, str(resource))
        return results

    # The cluster

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id and its brokers: those that are alive, or all (KIP-1073)."""
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
        response: DescribeClusterResponse = await self._call(ApiKey.DESCRIBE_CLUSTER, request)
        _check(response.error_code, response.error_message, "the cluster")
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(
                BrokerDescription(
                    b.broker_id,
                    Endpoint(b.host, b.port),
                    b.rack,
                    b.is_fenced,
                    b.is_shutting_down,
                    b.is_draining,
                )
                for b in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ),
        )

    async def describe_quorum(self) -> QuorumDescription:
        """Return how the controllers are, as a broker hears it from them.

        Raises:
            KafkaError: No controller answers the broker, or it refuses.
        """
        response: DescribeQuorumResponse = await self._call(
            ApiKey.DESCRIBE_QUORUM, quorum.describe_request()
        )
        for code, message in quorum.failures_of(response):
            _check(code, message, "the quorum")
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
        response: AddRaftVoterResponse = await self._call(ApiKey.ADD_RAFT_VOTER, request)
        _check(response.error_code, response.error_message, f"voter {node_id}")

    async def remove_raft_voter(self, node_id: int, directory_id: bytes) -> None:
        """Make a controller that votes one that only follows (KIP-853).

        Raises:
            KafkaError: It was not removed, or (after a timeout) nobody knows yet.
        """
        request = RemoveRaftVoterRequest(voter_id=node_id, voter_directory_id=directory_id)
        response: RemoveRaftVoterResponse = await self._call(ApiKey.REMOVE_RAFT_VOTER, request)
        _check(response.error_code, response.error_message, f"voter {node_id}")

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None
    ) -> dict[int, BrokerLogDirs | QuorateError]:
        """Return what brokers have on their disks; all brokers by default."""
        cluster = self._connected()
        if broker_ids is None:
            broker_ids = [broker.broker_id for broker in (await self.describe_cluster()).brokers]
        results: dict[int, BrokerLogDirs | QuorateError] = {}
        for broker_id in broker_ids:
            try:
                response: DescribeLogDirsResponse = await cluster.call_broker(
                    broker_id, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None)
                )
            except QuorateError as error:
                results[broker_id] = error
            else:
                refused = _error(response.error_code, None, f"broker {broker_id}")
                results[broker_id] = refused or _log_dirs(response)
        return results

    async def _call(self, api_key: int, request: Any, broker_id: int | None = None) -> Any:
        """Ask a broker, anew while the cluster has no controller."""
        cluster = self._connected()
        attempts = 0
        while True:
            if broker_id is None:
                response = await cluster.call_any(api_key, request)
            else:
                response = await cluster.call_broker(broker_id, api_key, request)
            attempts += 1
            if not _lacks_controller(response) or attempts > CONTROLLER_ATTEMPTS:
                return response
            await trio.sleep(cluster.pause_s(RETRY, attempts))

    def _connected(self) -> Cluster:
        self._lifetime.check_open()
        assert self._cluster is not None
        return self._cluster


CONTROLLER_ATTEMPTS: Final = 5


def _lacks_controller(response: Any) -> bool:
    """Whether all that a response says is that no controller could be asked."""
    told = None
    for name in ("topics", "responses", "results"):
        told = told or getattr(response, name, None)
    codes = {getattr(result, "error_code", 0) for result in told or (response,)}
    return codes == {ErrorCode.NOT_CONTROLLER}


def raise_first(results: Mapping[Any, object]) -> None:
    """Raise the first error among the results of a method on several things."""
    for result in results.values():
        if isinstance(result, QuorateError):
            raise result


def _error(code: int, message: str | None, what: str) -> KafkaError | None:
    known = known_code(code)
    if known == ErrorCode.NONE:
        return None
    return error_for(known, f"{what}: {message or MEANINGS[known]}")


def _check(code: int, message: str | None, what: str) -> None:
    error = _error(code, message, what)
    if error is not None:
        raise error


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
    error = _error(topic.error_code, None, f"topic {topic.name!r}")
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


def _log_dirs(response: DescribeLogDirsResponse) -> BrokerLogDirs:
    return BrokerLogDirs(
        tuple(
            LogDir(
                path=told.log_dir,
                error=_error(told.error_code, None, told.log_dir),
                total_bytes=told.total_bytes,
                usable_bytes=told.usable_bytes,
                replicas={
                    TopicPartition(topic.name, p.partition_index): LogDirReplica(
                        p.partition_size, p.offset_lag, p.is_future_key
                    )
                    for topic in told.topics
                    for p in topic.partitions
                },
            )
            for told in response.results
        )
    )
