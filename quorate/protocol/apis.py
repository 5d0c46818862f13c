"""The API table: key, name, request, response, and the versions that we can read and write."""

from enum import IntEnum, unique
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.protocol.fields import NO_VERSIONS, layout_of
from quorate.protocol.messages import (
    acls,
    cluster,
    configs,
    consumer_groups,
    data,
    features,
    groups,
    metadata,
    offsets,
    placement,
    quorum,
    session,
    topics,
    transactions,
)


@unique
class ApiKey(IntEnum):
    """The numbers that requests carry."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81


ADVERTISED_MIN_VERSIONS: Final = {ApiKey.PRODUCE: 0}
"""Where we claim older versions than we have.

Old librdkafka compresses only if Produce starts at 0 (KAFKA-18659).
"""

ADVERTISED_MAX_VERSIONS: Final = {ApiKey.INIT_PRODUCER_ID: 5}
"""Where we have versions that Kafka 4.3 does not serve yet, because they may still change."""


@dataclass(frozen=True, slots=True)
class Api:
    """One request, its response, and the versions of both."""

    key: ApiKey
    name: str
    request: type[Any]
    response: type[Any]
    min_version: int
    max_version: int
    flexible_from: int | None
    advertised_min_version: int
    advertised_max_version: int

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tag sections."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """2 adds a tag section to 1."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """1 adds a tag section to 0.

        ApiVersions stays at 0: its reader cannot know yet what the broker speaks.
        """
        return 1 if self.is_flexible(version) and self.key != ApiKey.API_VERSIONS else 0


def _api(key: ApiKey, request: type[Any], response: type[Any]) -> Api:
    asked, answered = layout_of(request), layout_of(response)
    assert (asked.versions, asked.flexible) == (answered.versions, answered.flexible), key
    versions, flexible = asked.versions, asked.flexible
    return Api(
        key=key,
        name=request.__name__.removesuffix("Request"),
        request=request,
        response=response,
        min_version=versions.first,
        max_version=versions.last,
        flexible_from=None if flexible == NO_VERSIONS else flexible.first,
        advertised_min_version=ADVERTISED_MIN_VERSIONS.get(key, versions.first),
        advertised_max_version=ADVERTISED_MAX_VERSIONS.get(key, versions.last),
    )


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _api(ApiKey.PRODUCE, data.ProduceRequest, data.ProduceResponse),
        _api(ApiKey.FETCH, data.FetchRequest, data.FetchResponse),
        _api(ApiKey.LIST_OFFSETS, data.ListOffsetsRequest, data.ListOffsetsResponse),
        _api(ApiKey.METADATA, metadata.MetadataRequest, metadata.MetadataResponse),
        _api(ApiKey.OFFSET_COMMIT, offsets.OffsetCommitRequest, offsets.OffsetCommitResponse),
        _api(ApiKey.OFFSET_FETCH, offsets.OffsetFetchRequest, offsets.OffsetFetchResponse),
        _api(
            ApiKey.FIND_COORDINATOR, groups.FindCoordinatorRequest, groups.FindCoordinatorResponse
        ),
        _api(ApiKey.JOIN_GROUP, groups.JoinGroupRequest, groups.JoinGroupResponse),
        _api(ApiKey.HEARTBEAT, groups.HeartbeatRequest, groups.HeartbeatResponse),
        _api(ApiKey.LEAVE_GROUP, groups.LeaveGroupRequest, groups.LeaveGroupResponse),
        _api(ApiKey.SYNC_GROUP, groups.SyncGroupRequest, groups.SyncGroupResponse),
        _api(ApiKey.DESCRIBE_GROUPS, groups.DescribeGroupsRequest, groups.DescribeGroupsResponse),
        _api(ApiKey.LIST_GROUPS, groups.ListGroupsRequest, groups.ListGroupsResponse),
        _api(ApiKey.SASL_HANDSHAKE, session.SaslHandshakeRequest, session.SaslHandshakeResponse),
        _api(ApiKey.API_VERSIONS, session.ApiVersionsRequest, session.ApiVersionsResponse),
        _api(ApiKey.CREATE_TOPICS, topics.CreateTopicsRequest, topics.CreateTopicsResponse),
        _api(ApiKey.DELETE_TOPICS, topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
        _api(ApiKey.DELETE_RECORDS, topics.DeleteRecordsRequest, topics.DeleteRecordsResponse),
        _api(
            ApiKey.INIT_PRODUCER_ID,
            transactions.InitProducerIdRequest,
            transactions.InitProducerIdResponse,
        ),
        _api(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            data.OffsetForLeaderEpochRequest,
            data.OffsetForLeaderEpochResponse,
        ),
        _api(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            transactions.AddPartitionsToTxnRequest,
            transactions.AddPartitionsToTxnResponse,
        ),
        _api(
            ApiKey.ADD_OFFSETS_TO_TXN,
            transactions.AddOffsetsToTxnRequest,
            transactions.AddOffsetsToTxnResponse,
        ),
        _api(ApiKey.END_TXN, transactions.EndTxnRequest, transactions.EndTxnResponse),
        _api(
            ApiKey.WRITE_TXN_MARKERS,
            transactions.WriteTxnMarkersRequest,
            transactions.WriteTxnMarkersResponse,
        ),
        _api(
            ApiKey.TXN_OFFSET_COMMIT,
            transactions.TxnOffsetCommitRequest,
            transactions.TxnOffsetCommitResponse,
        ),
        _api(ApiKey.DESCRIBE_ACLS, acls.DescribeAclsRequest, acls.DescribeAclsResponse),
        _api(ApiKey.CREATE_ACLS, acls.CreateAclsRequest, acls.CreateAclsResponse),
        _api(ApiKey.DELETE_ACLS, acls.DeleteAclsRequest, acls.DeleteAclsResponse),
        _api(
            ApiKey.DESCRIBE_CONFIGS, configs.DescribeConfigsRequest, configs.DescribeConfigsResponse
        ),
        _api(ApiKey.ALTER_CONFIGS, configs.AlterConfigsRequest, configs.AlterConfigsResponse),
        _api(
            ApiKey.DESCRIBE_LOG_DIRS,
            cluster.DescribeLogDirsRequest,
            cluster.DescribeLogDirsResponse,
        ),
        _api(
            ApiKey.SASL_AUTHENTICATE,
            session.SaslAuthenticateRequest,
            session.SaslAuthenticateResponse,
        ),
        _api(
            ApiKey.CREATE_PARTITIONS,
            topics.CreatePartitionsRequest,
            topics.CreatePartitionsResponse,
        ),
        _api(ApiKey.DELETE_GROUPS, groups.DeleteGroupsRequest, groups.DeleteGroupsResponse),
        _api(ApiKey.ELECT_LEADERS, placement.ElectLeadersRequest, placement.ElectLeadersResponse),
        _api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            configs.IncrementalAlterConfigsRequest,
            configs.IncrementalAlterConfigsResponse,
        ),
        _api(
            ApiKey.LIST_CONFIG_RESOURCES,
            configs.ListConfigResourcesRequest,
            configs.ListConfigResourcesResponse,
        ),
        _api(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            placement.AlterPartitionReassignmentsRequest,
            placement.AlterPartitionReassignmentsResponse,
        ),
        _api(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            placement.ListPartitionReassignmentsRequest,
            placement.ListPartitionReassignmentsResponse,
        ),
        _api(ApiKey.OFFSET_DELETE, offsets.OffsetDeleteRequest, offsets.OffsetDeleteResponse),
        _api(ApiKey.DESCRIBE_QUORUM, quorum.DescribeQuorumRequest, quorum.DescribeQuorumResponse),
        _api(
            ApiKey.UPDATE_FEATURES, features.UpdateFeaturesRequest, features.UpdateFeaturesResponse
        ),
        _api(
            ApiKey.DESCRIBE_CLUSTER,
            metadata.DescribeClusterRequest,
            metadata.DescribeClusterResponse,
        ),
        _api(
            ApiKey.DESCRIBE_PRODUCERS,
            cluster.DescribeProducersRequest,
            cluster.DescribeProducersResponse,
        ),
        _api(
            ApiKey.UNREGISTER_BROKER,
            placement.UnregisterBrokerRequest,
            placement.UnregisterBrokerResponse,
        ),
        _api(
            ApiKey.DESCRIBE_TRANSACTIONS,
            transactions.DescribeTransactionsRequest,
            transactions.DescribeTransactionsResponse,
        ),
        _api(
            ApiKey.LIST_TRANSACTIONS,
            transactions.ListTransactionsRequest,
            transactions.ListTransactionsResponse,
        ),
        _api(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            consumer_groups.ConsumerGroupHeartbeatRequest,
            consumer_groups.ConsumerGroupHeartbeatResponse,
        ),
        _api(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            consumer_groups.ConsumerGroupDescribeRequest,
            consumer_groups.ConsumerGroupDescribeResponse,
        ),
        _api(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            metadata.DescribeTopicPartitionsRequest,
            metadata.DescribeTopicPartitionsResponse,
        ),
        _api(ApiKey.ADD_RAFT_VOTER, quorum.AddRaftVoterRequest, quorum.AddRaftVoterResponse),
        _api(
            ApiKey.REMOVE_RAFT_VOTER,
            quorum.RemoveRaftVoterRequest,
            quorum.RemoveRaftVoterResponse,
        ),
    )
}
"""Everything declared. Which of these a broker serves is decided by its table of handlers."""
