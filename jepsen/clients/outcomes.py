"""What is known of a send: OK, certainly not done, or nobody knows. The one place that says so.

A send is FAIL only if no attempt of it can have reached a log. An error of a broker says so of the
attempt that it answers, if brokers give it before they append. Clients that try again by themselves
tell of the last attempt only: of those before nobody knows.
"""

from collections.abc import Iterable
from typing import Final

from quorate.errors import ErrorCode
from quorate.jepsen.history import Kind

ALL_IN_SYNC: Final = -1
NOBODY: Final = 0

REFUSED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Errors that are answered before anything is appended."""

NOT_HERE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that are answered before anything is appended, and by a leader that waits for followers
also when it leads no more: then its record may stay, or go."""


COMMIT_REFUSED: Final = frozenset(
    {
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors that coordinators answer before they append a commit."""


def of_answer(code: ErrorCode, acks: int) -> Kind:
    """Return what a broker's answer says of the attempt that it answers."""
    if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
        return Kind.OK if acks != NOBODY else Kind.INFO
    if code in REFUSED or (code in NOT_HERE and acks != ALL_IN_SYNC):
        return Kind.FAIL
    return Kind.INFO


def of_commit(code: ErrorCode) -> Kind:
    """Return what a coordinator's answer says of a commit of offsets.

    Those of one that was deposed, or cannot reach its replicas, come also after it has appended.
    """
    if code == ErrorCode.NONE:
        return Kind.OK
    return Kind.FAIL if code in COMMIT_REFUSED else Kind.INFO


def of_attempts(attempts: Iterable[Kind]) -> Kind:
    """Return what is known of a send with these attempts, of which it may have had none."""
    kinds = set(attempts)
    if Kind.OK in kinds:
        return Kind.OK
    return Kind.INFO if Kind.INFO in kinds else Kind.FAIL


def of_last_attempt(code: ErrorCode, attempts: int, acks: int, *, answered: bool) -> Kind:
    """Return what is known when a client tells how often it tried, and the last error only.

    Args:
        code: The error.
        attempts: How often the record may have left; 0 if it never did.
        acks: What the client asked for.
        answered: Whether the error is a broker's answer to the last attempt, and not the
            client's own, who lost patience or the connection.
    """
    if attempts == 0:
        return Kind.FAIL
    last = of_answer(code, acks) if answered else Kind.INFO
    return of_attempts([last, *([Kind.INFO] if attempts > 1 else [])])
