"""Which API is served by which handler: the one list of what this broker can do."""

from collections.abc import Callable
from typing import Any, Final

from quorate.broker.handlers import (
    acls,
    classic_groups,
    cluster,
    configs,
    consumer_groups,
    coordinators,
    describe_topics,
    elections,
    features,
    fetch,
    group_offsets,
    groups,
    log_dirs,
    markers,
    metadata,
    offsets,
    produce,
    quorum,
    reassignments,
    sasl,
    session,
    topics,
    transactions,
    txn_listing,
    txn_offsets,
)
from quorate.broker.handlers.context import Broker, Caller
from quorate.promise import Promise, kept
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.messages.session import ApiVersion

Handler = Callable[[Broker, Any, Caller], Any]
"""Takes a decoded request; returns its response, a promise of it, or None for "no response"."""

_SERVED: Final[dict[int, Handler]] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: group_offsets.offset_commit,
    ApiKey.OFFSET_FETCH: group_offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: coordinators.find_coordinator,
    ApiKey.JOIN_GROUP: classic_groups.join_group,
    ApiKey.HEARTBEAT: classic_groups.heartbeat,
    ApiKey.LEAVE_GROUP: classic_groups.leave_group,
    ApiKey.SYNC_GROUP: classic_groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.OFFSET_DELETE: group_offsets.offset_delete,
    ApiKey.SASL_HANDSHAKE: sasl.sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: sasl.sasl_authenticate,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: offsets.delete_records,
    ApiKey.INIT_PRODUCER_ID: session.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.TXN_OFFSET_COMMIT: txn_offsets.txn_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: markers.write_txn_markers,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: acls.describe_acls,
    ApiKey.CREATE_ACLS: acls.create_acls,
    ApiKey.DELETE_ACLS: acls.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.ELECT_LEADERS: elections.elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
    ApiKey.DESCRIBE_QUORUM: quorum.describe_quorum,
    ApiKey.UPDATE_FEATURES: features.update_features,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: cluster.describe_producers,
    ApiKey.UNREGISTER_BROKER: cluster.unregister_broker,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topics.describe_topic_partitions,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TRANSACTIONS: txn_listing.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: txn_listing.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
    ApiKey.ADD_RAFT_VOTER: quorum.add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: quorum.remove_raft_voter,
}

API_VERSIONS_HANDLER: Final = session.ApiVersionsHandler(
    [
        ApiVersion(
            api_key=int(key),
            min_version=APIS[key].advertised_min_version,
            max_version=APIS[key].advertised_max_version,
        )
        for key in sorted([*_SERVED, ApiKey.API_VERSIONS])
    ]
)

HANDLERS: Final[dict[int, Handler]] = {**_SERVED, ApiKey.API_VERSIONS: API_VERSIONS_HANDLER}
"""Every API that the broker serves, by key."""

OWN_LISTENER: Final = ""
"""The listener over which a broker asks itself."""


def serve_own(broker: Broker, api_key: int, request: Any) -> Promise[Any]:
    """Serve a request of this broker's own, in the newest version."""
    answer = HANDLERS[api_key](broker, request, Caller(OWN_LISTENER, APIS[api_key].max_version))
    if isinstance(answer, Promise):
        return answer  # pyright: ignore[reportUnknownVariableType]
    return kept(answer)
