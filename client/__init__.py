"""The Trio client: Producer, Consumer, Admin.

::

    from quorate.client import Producer

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send("appLogs", b"started")
"""

if __name__ != "quorate.client":
    raise ImportError("import quorate.client: a bare 'client' would load its modules twice")

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quorate.client.admin import Admin, raise_first
    from quorate.client.admin_results import (
        BrokerDescription,
        BrokerLogDirs,
        BrokerVersions,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        DeletedRecords,
        FeatureChange,
        FeatureUpgrade,
        LogDir,
        LogDirReplica,
        NewTopic,
        OffsetSpec,
        PartitionDescription,
        QuorumDescription,
        QuorumReplica,
        Reassignment,
        ReplicaPart,
        ResourceType,
        TopicDescription,
        TopicListing,
    )
    from quorate.client.commits import Commit
    from quorate.client.connections import ConnectionOptions
    from quorate.client.consumer import Consumer
    from quorate.client.delivery import Delivery, RecordMetadata
    from quorate.client.errors import (
        BootstrapError,
        BufferFullError,
        ClosedError,
        CommitFailedError,
        DeliveryTimeoutError,
        FencedInstanceError,
        LogTruncationError,
        NoOffsetError,
        NotAssignedError,
        NoTransactionError,
        ProducerFencedError,
        TransactionAbortedError,
        TransactionOutcomeUnknownError,
    )
    from quorate.client.groups.results import (
        GroupDescription,
        GroupListing,
        MemberDescription,
        OffsetAndMetadata,
    )
    from quorate.client.membership.consumer_member import SubscriptionPattern
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.offsets import TimestampOffset
    from quorate.client.producer import Producer
    from quorate.client.rebalancing import RebalanceListener
    from quorate.client.table_view import TableView
    from quorate.client.transaction import Transaction
    from quorate.client.typed import TypedConsumer, TypedProducer, TypedRecord
    from quorate.errors import ErrorCode, KafkaError, NetworkError, QuorateError
    from quorate.model import TopicPartition
    from quorate.records.record import Record

__all__ = [
    "Admin",
    "BootstrapError",
    "BrokerDescription",
    "BrokerLogDirs",
    "BrokerVersions",
    "BufferFullError",
    "ClosedError",
    "ClusterDescription",
    "Commit",
    "CommitFailedError",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConnectionOptions",
    "Consumer",
    "DeletedRecords",
    "Delivery",
    "DeliveryTimeoutError",
    "ErrorCode",
    "FeatureChange",
    "FeatureUpgrade",
    "FencedInstanceError",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "KafkaError",
    "LogDir",
    "LogDirReplica",
    "LogTruncationError",
    "MemberDescription",
    "NetworkError",
    "NewTopic",
    "NoOffsetError",
    "NoTransactionError",
    "NotAssignedError",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionDescription",
    "Producer",
    "ProducerFencedError",
    "QuorateError",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "ReplicaPart",
    "ResourceType",
    "SubscriptionPattern",
    "TableView",
    "TimestampOffset",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "Transaction",
    "TransactionAbortedError",
    "TransactionOutcomeUnknownError",
    "TypedConsumer",
    "TypedProducer",
    "TypedRecord",
    "raise_first",
]

_MODULES: Final = {
    "quorate.client.admin": (
        "Admin",
        "raise_first",
    ),
    "quorate.client.admin_results": (
        "BrokerDescription",
        "BrokerLogDirs",
        "BrokerVersions",
        "ClusterDescription",
        "ConfigChange",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigResource",
        "DeletedRecords",
        "FeatureChange",
        "FeatureUpgrade",
        "LogDir",
        "LogDirReplica",
        "NewTopic",
        "OffsetSpec",
        "PartitionDescription",
        "QuorumDescription",
        "QuorumReplica",
        "Reassignment",
        "ReplicaPart",
        "ResourceType",
        "TopicDescription",
        "TopicListing",
    ),
    "quorate.client.commits": ("Commit",),
    "quorate.client.connections": ("ConnectionOptions",),
    "quorate.client.consumer": ("Consumer",),
    "quorate.client.delivery": (
        "Delivery",
        "RecordMetadata",
    ),
    "quorate.client.errors": (
        "BootstrapError",
        "BufferFullError",
        "ClosedError",
        "CommitFailedError",
        "DeliveryTimeoutError",
        "FencedInstanceError",
        "LogTruncationError",
        "NoOffsetError",
        "NotAssignedError",
        "NoTransactionError",
        "ProducerFencedError",
        "TransactionAbortedError",
        "TransactionOutcomeUnknownError",
    ),
    "quorate.client.groups.results": (
        "GroupDescription",
        "GroupListing",
        "MemberDescription",
        "OffsetAndMetadata",
    ),
    "quorate.client.membership.consumer_member": ("SubscriptionPattern",),
    "quorate.client.membership.identity": ("GroupMetadata",),
    "quorate.client.offsets": ("TimestampOffset",),
    "quorate.client.producer": ("Producer",),
    "quorate.client.rebalancing": ("RebalanceListener",),
    "quorate.client.table_view": ("TableView",),
    "quorate.client.transaction": ("Transaction",),
    "quorate.client.typed": ("TypedConsumer", "TypedProducer", "TypedRecord"),
    "quorate.errors": (
        "ErrorCode",
        "KafkaError",
        "NetworkError",
        "QuorateError",
    ),
    "quorate.model": ("TopicPartition",),
    "quorate.records.record": ("Record",),
}
"""Where the names above come from. They are imported when first used, so that a program which only
lists topics does not load the producer and the consumer."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
