"""Why members of a group are refused."""

from quorate.errors import ErrorCode, KafkaError


class FencedInstanceIdError(KafkaError):
    """Another member has come with the same ``group.instance.id`` since (KIP-345)."""

    code = ErrorCode.FENCED_INSTANCE_ID


class IllegalGenerationError(KafkaError):
    """The group is in another generation."""

    code = ErrorCode.ILLEGAL_GENERATION


class RebalanceInProgressError(KafkaError):
    """The group asks its members to join again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class InconsistentGroupProtocolError(KafkaError):
    """The member knows no way to assign partitions that all others know, or is of another type."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class GroupMaxSizeReachedError(KafkaError):
    """The group has ``group.max.size`` members."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class InvalidSessionTimeoutError(KafkaError):
    """The session timeout is not within what the broker allows."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT
