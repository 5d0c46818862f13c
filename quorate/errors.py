"""KafkaError and the one table of error codes: code, name, retriable, what it means.

Numbers and names are the protocol's (Kafka class ``Errors``); the meanings are in our words.
"""

from enum import IntEnum
from typing import Final

from quorate.model import Endpoint


class ErrorCode(IntEnum):
    """Every error code of the Kafka protocol."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129


MEANINGS: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server met an error it has no code for.",
    ErrorCode.NONE: "No error.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies outside what the log still holds.",
    ErrorCode.CORRUPT_MESSAGE: "The records fail their checksum or are malformed.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker does not host that topic and partition.",
    ErrorCode.INVALID_FETCH_SIZE: "The requested fetch size is invalid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader now; an election may be on.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker neither leads nor follows the partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request was not finished within its timeout.",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available on this broker.",
    ErrorCode.MESSAGE_TOO_LARGE: "The batch is larger than max.message.bytes allows.",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The controller moved on to a newer epoch.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of a committed offset is too long.",
    ErrorCode.NETWORK_EXCEPTION: "The connection broke before an answer came.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading its state.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "That group or transaction has no coordinator now.",
    ErrorCode.NOT_COORDINATOR: "This broker is not the coordinator asked for.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The batch is larger than a segment may be.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "Written, but too few replicas were in sync then.",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1 (all).",
    ErrorCode.ILLEGAL_GENERATION: "The group's generation is another one.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member's protocols do not match the group's.",
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator does not know this member.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout lies outside the broker's bounds.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; join again.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The offset commit is too large.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized for that topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized for that group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized for the cluster.",
    ErrorCode.INVALID_TIMESTAMP: "A record's timestamp is out of the accepted range.",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The broker does not offer that SASL mechanism.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the state of the SASL exchange.",
    ErrorCode.UNSUPPORTED_VERSION: "That version of the API is not supported.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of that name exists already.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is not valid.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or too high.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is not valid.",
    ErrorCode.INVALID_CONFIG: "A configuration value is not valid.",
    ErrorCode.NOT_CONTROLLER: "This node is not the active controller.",
    ErrorCode.INVALID_REQUEST: "The request contradicts itself or cannot be served as it stands.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The record format does not support this.",
    ErrorCode.POLICY_VIOLATION: "A policy of the cluster forbids this.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The producer's sequence has a gap.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The producer's batch was appended before.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the newest seen.",
    ErrorCode.INVALID_TXN_STATE: "The transaction is in another state.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id is not that transactional id's.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is above the broker's bound.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "The producer's last transaction is being finished.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The coordinator was replaced by a newer one.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorized for the transactional id.",
    ErrorCode.SECURITY_DISABLED: "Security features are switched off.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "Not attempted, because another part of the request failed.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The disk under the partition failed or is full.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The broker has no such log directory.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "Nothing is known of that producer id here.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "A reassignment of the partition is under way.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are switched off.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no such delegation token.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The token belongs to somebody else.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Not allowed over this connection.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Not authorized for that delegation token.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "That type of principal is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "There is no such fetch session.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session is at another epoch.",
    ErrorCode.LISTENER_NOT_FOUND: "The leader does not have a listener of that name.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Topic deletion is switched off.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the broker's.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch in the request is newer than the broker's.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "That compression is not supported here.",
    ErrorCode.STALE_BROKER_EPOCH: "The broker registered again since.",
    ErrorCode.OFFSET_NOT_AVAILABLE: "The new leader's high watermark is not known yet.",
    ErrorCode.MEMBER_ID_REQUIRED: "Join again with the member id given.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group is full.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member uses that group.instance.id now.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No eligible leader is available.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition has the leader asked for already.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "There is no reassignment to cancel.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to that topic.",
    ErrorCode.INVALID_RECORD: "A record was refused by the broker's validation.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "Offsets of an open transaction are still pending.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The quota for such requests is used up for now.",
    ErrorCode.PRODUCER_FENCED: "A newer producer with the same transactional id took over.",
    ErrorCode.RESOURCE_NOT_FOUND: "There is no such resource.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names a resource twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential is not acceptable.",
    ErrorCode.INCONSISTENT_VOTER_SET: "The voters differ from those expected.",
    ErrorCode.INVALID_UPDATE_VERSION: "The update version is not valid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "The feature could not be updated.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The forwarded principal could not be read.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "There is no such snapshot.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position lies outside the snapshot.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker does not know that topic id.",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "A live broker uses that id already.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "That broker is not registered.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id does not match the topic's name.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id is another cluster's.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "There is no such transactional id.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session used topic ids otherwise.",
    ErrorCode.INELIGIBLE_REPLICA: "The replica may not join the ISR.",
    ErrorCode.NEW_LEADER_ELECTED: "The change made another replica the leader.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset lies in tiered storage.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch is no longer valid.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The instance id is still in use.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The group does not support that assignor.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is stale; heartbeat, then try again.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request went to the wrong type of endpoint.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "That endpoint type is not supported.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "There is no controller of that id.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "There is no such telemetry subscription.",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is too large.",
    ErrorCode.INVALID_REGISTRATION: "The registration is not valid.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction failed and must be aborted.",
    ErrorCode.INVALID_RECORD_STATE: "The share record is in another state.",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "There is no such share session.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session is at another epoch.",
    ErrorCode.FENCED_STATE_EPOCH: "The share state's epoch is stale.",
    ErrorCode.INVALID_VOTER_KEY: "The voter's id or directory does not match.",
    ErrorCode.DUPLICATE_VOTER: "The voter is in the set already.",
    ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid.",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client should look its brokers up anew.",
}
"""What each code means, in a sentence for people."""

RETRIABLE: Final[frozenset[ErrorCode]] = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)
"""The codes after which the same request may succeed later."""


class QuorateError(Exception):
    """Any error that Quorate raises on purpose and a caller may want to catch."""


MESSAGE_CHARACTERS_MAX: Final = 2000
"""Of what was wrong: it may repeat what a client sent, and has room in every version of an answer,
in old ones of which a text has at most 32,767 bytes."""

SHOWN_MAX: Final = 256


def shortened(text: str) -> str:
    """Return a text, or its beginning, for a message that has the reason behind it."""
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


class KafkaError(QuorateError):
    """An error with a code of the Kafka protocol.

    ``message`` says what was wrong in this case; without one, the code's meaning is used.
    """

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str | None = None, *, code: ErrorCode | None = None) -> None:
        if code is not None:
            self.code = code
        self.message = (message or MEANINGS[self.code])[:MESSAGE_CHARACTERS_MAX]
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.code.name})"

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRIABLE


def known_code(value: int) -> ErrorCode:
    """Return the code of a wire value; codes newer than this table are UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRangeError(KafkaError):
    """No record has that offset: it was deleted, or not written yet."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptRecordError(KafkaError):
    """Bytes that should be record batches are not."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartitionError(KafkaError):
    """The topic or partition does not exist here."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicIdError(KafkaError):
    """No topic has that id."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class NotLeaderOrFollowerError(KafkaError):
    """This broker does not host the partition in that role."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOutError(KafkaError):
    """Not finished within the request's timeout."""

    code = ErrorCode.REQUEST_TIMED_OUT


class MessageTooLargeError(KafkaError):
    """The batch is larger than the topic allows."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLargeError(KafkaError):
    """The batch is larger than a segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class NotEnoughReplicasError(KafkaError):
    """Too few replicas are in sync to accept acks=all."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class InvalidRequiredAcksError(KafkaError):
    """acks is none of 0, 1 and -1."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class InvalidTopicError(KafkaError):
    """The topic name is not valid."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class InvalidTimestampError(KafkaError):
    """A timestamp is out of the range the topic accepts."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedVersionError(KafkaError):
    """That version of the API is not supported."""

    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExistsError(KafkaError):
    """The topic exists already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(KafkaError):
    """The number of partitions is not valid."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorError(KafkaError):
    """The replication factor cannot be met."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentError(KafkaError):
    """The replica assignment is not valid."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfigError(KafkaError):
    """A configuration name or value is not valid."""

    code = ErrorCode.INVALID_CONFIG


class InvalidRequestError(KafkaError):
    """The request contradicts itself."""

    code = ErrorCode.INVALID_REQUEST


class InvalidRecordError(KafkaError):
    """A record was refused."""

    code = ErrorCode.INVALID_RECORD


class UnsupportedForMessageFormatError(KafkaError):
    """The record format is too old."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCompressionTypeError(KafkaError):
    """The compression codec is not known."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class OutOfOrderSequenceError(KafkaError):
    """The producer's sequence has a gap."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequenceError(KafkaError):
    """The batch was appended before, too long ago to say where."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochError(KafkaError):
    """The producer was fenced by a newer epoch."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class UnknownProducerIdError(KafkaError):
    """Nothing is known of the producer here."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class InvalidTxnStateError(KafkaError):
    """The transaction is in another state: it was not begun here, or another one was."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMappingError(KafkaError):
    """The producer id is not that of the transactional id."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class TransactionCoordinatorFencedError(KafkaError):
    """A newer coordinator has ended transactions of the producer since."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class StorageError(KafkaError):
    """The disk under the partition failed or is full."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class FencedLeaderEpochError(KafkaError):
    """The request's leader epoch is older than ours."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(KafkaError):
    """The request's leader epoch is newer than ours."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class StaleBrokerEpochError(KafkaError):
    """The broker registered again since."""

    code = ErrorCode.STALE_BROKER_EPOCH


class InconsistentClusterIdError(KafkaError):
    """The other side belongs to another cluster."""

    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class DuplicateBrokerRegistrationError(KafkaError):
    """A live broker uses that id."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class NotControllerError(KafkaError):
    """This node is not the active controller; nothing was done.

    ``leader_id`` and ``leader_endpoint`` say which one is, as far as that is known.
    """

    code = ErrorCode.NOT_CONTROLLER

    def __init__(
        self,
        message: str | None = None,
        *,
        leader_id: int | None = None,
        leader_endpoint: Endpoint | None = None,
    ) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.leader_endpoint = leader_endpoint


class NetworkError(KafkaError):
    """The connection broke before an answer came."""

    code = ErrorCode.NETWORK_EXCEPTION
