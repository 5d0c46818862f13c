"""Trio shell: what the Admin client asks and changes about brokers, and who has which partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from quorate.client import placement
from quorate.client.admin_base import check, error_of
from quorate.client.admin_features import FeatureAdmin
from quorate.client.admin_results import (
    BrokerDescription,
    BrokerLogDirs,
    ClusterDescription,
    LogDir,
    LogDirReplica,
    PartitionDescription,
    Reassignment,
    ReplicaPart,
    TopicDescription,
)
from quorate.client.connections import several
from quorate.errors import KafkaError, QuorateError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsTopicRequest,
)
from quorate.protocol.messages.placement import UnregisterBrokerRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quorate.protocol.messages.placement import (
        AlterPartitionReassignmentsResponse,
        ElectLeadersResponse,
        ListPartitionReassignmentsResponse,
        UnregisterBrokerResponse,
    )

FETCH_BY_NAME: Final = 12
"""The last version of Fetch that names topics."""


class PlacementAdmin(FeatureAdmin):
    """The part of the Admin client that is about brokers and replicas."""

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id and its brokers: those that are alive, or all (KIP-1073)."""
        request = DescribeClusterRequest(
            include_fenced_brokers=include_fenced, include_own_fields=True
        )
        response: DescribeClusterResponse = await self.call(ApiKey.DESCRIBE_CLUSTER, request)
        check(response.error_code, response.error_message, "the cluster")
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
                    b.cannot_write,
                )
                for b in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ),
        )

    async def unregister_broker(self, broker_id: int) -> None:
        """Take a broker out of the cluster that is gone for good.

        Raises:
            KafkaError: It is unknown, or not to be taken out now.
        """
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response: UnregisterBrokerResponse = await self.call(ApiKey.UNREGISTER_BROKER, request)
        check(response.error_code, response.error_message, f"broker {broker_id}")

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None
    ) -> dict[int, BrokerLogDirs | QuorateError]:
        """Return what brokers have on their disks; all brokers by default."""
        cluster = self.connected()
        if broker_ids is None:
            broker_ids = [broker.broker_id for broker in (await self.describe_cluster()).brokers]
        results: dict[int, BrokerLogDirs | QuorateError] = {}
        for broker_id in broker_ids:
            try:
                response: DescribeLogDirsResponse = await cluster.call_broker(
                    broker_id,
                    ApiKey.DESCRIBE_LOG_DIRS,
                    DescribeLogDirsRequest(topics=None, include_own_fields=True),
                )
            except QuorateError as error:
                results[broker_id] = error
            else:
                refused = error_of(response.error_code, None, f"broker {broker_id}")
                results[broker_id] = refused or _log_dirs(response)
        return results

    async def describe_topic_partitions(
        self, names: Iterable[str] = ()
    ) -> dict[str, TopicDescription | QuorateError]:
        """Return topics with partitions and eligible leader replicas (KIP-966); all, if none given.

        It asks page by page, so that very many partitions do no harm.
        """
        found: dict[str, TopicDescription | QuorateError] = {}
        topics = [
            DescribeTopicPartitionsTopicRequest(name=name)
            for name in sorted(several("describe_topic_partitions", names))
        ]
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)
            response: DescribeTopicPartitionsResponse = await self.call(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS, request
            )
            for told in response.topics:
                name = told.name or ""
                error = error_of(told.error_code, None, f"topic {name!r}")
                before = found.get(name)
                more = tuple(_partition(p) for p in told.partitions)
                if isinstance(before, TopicDescription):
                    more = (*before.partitions, *more)
                found[name] = error or TopicDescription(name, told.topic_id, told.is_internal, more)
            if response.next_cursor is None:
                return found
            cursor = response.next_cursor

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
    ) -> dict[TopicPartition, QuorateError | None]:
        """Have the preferred replicas lead; or, if nobody can lead, one that may lack records.

        Args:
            partitions: None stands for all: then only those come back that had an election.
            unclean: Elect a replica outside the in-sync ones where nobody leads: records are lost.

        Raises:
            KafkaError: Nothing was done at all.
        """
        wanted = None if partitions is None else several("elect_leaders", partitions)
        request = placement.elect_request(
            wanted, unclean=unclean, timeout_ms=self._settings.request_timeout_ms
        )
        response: ElectLeadersResponse = await self.call(ApiKey.ELECT_LEADERS, request)
        check(response.error_code, None, "elections")
        return _errors(placement.elections_of(response))

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, QuorateError | None]:
        """Move partitions to the brokers given, the first to lead; None calls off a move.

        Raises:
            KafkaError: Nothing was done at all.
        """
        request = placement.reassign_request(targets, self._settings.request_timeout_ms)
        response: AlterPartitionReassignmentsResponse = await self.call(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, request
        )
        check(response.error_code, response.error_message, "reassignments")
        return _errors(placement.reassigned_of(response))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the partitions that are on the move: some of those given, or of all."""
        wanted = None if partitions is None else several("list_partition_reassignments", partitions)
        request = placement.moves_request(wanted, self._settings.request_timeout_ms)
        response: ListPartitionReassignmentsResponse = await self.call(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, request
        )
        check(response.error_code, response.error_message, "reassignments")
        return placement.moves_of(response)

    async def read_replica(
        self, broker_id: int, partition: TopicPartition, offset: int, *, bytes_max: int
    ) -> ReplicaPart | QuorateError:
        """Return batches of a broker's own replica from an offset on, whether it leads or not.

        They begin with the batch that has the offset. What follows the replica's high watermark is
        not told; for the rest it is read as consumers read from followers (KIP-392).

        Raises:
            QuorateError: The broker does not answer.
        """
        request = FetchRequest(
            max_bytes=bytes_max,
            topics=[
                FetchTopic(
                    topic=partition.topic,
                    partitions=[
                        FetchPartition(
                            partition=partition.partition,
                            fetch_offset=offset,
                            partition_max_bytes=bytes_max,
                        )
                    ],
                )
            ],
        )
        response: FetchResponse = await self.connected().call_broker(
            broker_id, ApiKey.FETCH, request, version_max=FETCH_BY_NAME
        )
        what = f"{partition} on broker {broker_id}"
        told = next((p for t in response.responses for p in t.partitions), None)
        code = response.error_code or (0 if told is None else told.error_code)
        error = error_of(code, None, what)
        if error is not None or told is None:
            return error or KafkaError(f"{what}: the broker says nothing of it")
        batches = bytes(cast("memoryview | None", told.records) or b"")
        return ReplicaPart(told.high_watermark, told.log_start_offset, batches)


def _errors(told: placement.Told) -> dict[TopicPartition, QuorateError | None]:
    return {
        partition: error_of(code, message, str(partition))
        for partition, (code, message) in told.items()
    }


def _partition(told: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        partition=told.partition_index,
        leader_id=told.leader_id,
        leader_epoch=told.leader_epoch,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        offline=tuple(told.offline_replicas),
        elr=tuple(told.eligible_leader_replicas or ()),
        last_known_elr=tuple(told.last_known_elr or ()),
    )


def _log_dirs(response: DescribeLogDirsResponse) -> BrokerLogDirs:
    return BrokerLogDirs(
        tuple(
            LogDir(
                path=told.log_dir,
                error=error_of(told.error_code, None, told.log_dir),
                total_bytes=told.total_bytes,
                usable_bytes=told.usable_bytes,
                replicas={
                    TopicPartition(topic.name, p.partition_index): LogDirReplica(
                        p.partition_size,
                        p.offset_lag,
                        p.is_future_key,
                        p.log_end_offset,
                        p.high_watermark,
                        p.log_start_offset,
                    )
                    for topic in told.topics
                    for p in topic.partitions
                },
            )
            for told in response.results
        )
    )
