"""The Trio client: Producer, Consumer, Admin.

::

    from quorate.client import Producer

    async with Producer("127.0.0.1:9092") as producer:
        await producer.send("appLogs", b"started")
"""

if __name__ != "quorate.client":
    raise ImportError("import quorate.client: a bare 'client' would load its modules twice")

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import (
    BrokerDescription,
    BrokerLogDirs,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    DeletedRecords,
    LogDir,
    LogDirReplica,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    ResourceType,
    TopicDescription,
    TopicListing,
)
from quorate.client.connections import ConnectionOptions
from quorate.client.consumer import Consumer
from quorate.client.delivery import Delivery, RecordMetadata
from quorate.client.errors import (
    BootstrapError,
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
    NoOffsetError,
    NotAssignedError,
)
from quorate.client.offsets import TimestampOffset
from quorate.client.producer import Producer
from quorate.errors import ErrorCode, KafkaError, NetworkError, QuorateError
from quorate.model import TopicPartition
from quorate.records.record import Record

__all__ = [
    "Admin",
    "BootstrapError",
    "BrokerDescription",
    "BrokerLogDirs",
    "BufferFullError",
    "ClosedError",
    "ClusterDescription",
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
    "KafkaError",
    "LogDir",
    "LogDirReplica",
    "NetworkError",
    "NewTopic",
    "NoOffsetError",
    "NotAssignedError",
    "OffsetSpec",
    "PartitionDescription",
    "Producer",
    "QuorateError",
    "Record",
    "RecordMetadata",
    "ResourceType",
    "TimestampOffset",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "raise_first",
]
