"""Why members of consumer groups are refused."""

from quorate.errors import ErrorCode, KafkaError


class FencedMemberEpochError(KafkaError):
    """The member is at an epoch that the group knows nothing of: it must begin anew."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class StaleMemberEpochError(KafkaError):
    """The member is at another epoch by now; the next heartbeat tells it which."""

    code = ErrorCode.STALE_MEMBER_EPOCH


class UnreleasedInstanceIdError(KafkaError):
    """The ``group.instance.id`` belongs to a member that has not left."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignorError(KafkaError):
    """There is no such assignor on the broker's side."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpressionError(KafkaError):
    """That is no regular expression, or matching it would take too long."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION
