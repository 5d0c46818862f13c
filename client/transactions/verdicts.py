"""What an error means for a transaction: ask again, abort, or give the producer up (KIP-1050)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from quorate.errors import RETRIABLE, ErrorCode


class Verdict(Enum):
    """What to do after an error."""

    RETRY = auto()
    """The same request may succeed later."""

    ABORT = auto()
    """The transaction is to be aborted; the producer can go on with the next one."""

    RENEW = auto()
    """The coordinator does not know the producer any more: it is to ask for a new epoch."""

    FENCED = auto()
    """A newer producer has the transactional id, or the coordinator has ended its transaction."""

    FAIL = auto()
    """The producer cannot go on."""


_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})

_RENEW: Final = frozenset(
    {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
)

_ABORT: Final = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)

_PRODUCE_FAILS: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def verdict_of_coordinator(code: ErrorCode) -> Verdict:
    """Return what an error of a coordinator means (Kafka class ``TxnRequestHandler``)."""
    if code in _FENCED:
        # Coordinators of old say INVALID_PRODUCER_EPOCH and mean the same (KIP-588).
        return Verdict.FENCED
    if code in _RENEW:
        return Verdict.RENEW
    if code in _ABORT:
        return Verdict.ABORT
    return Verdict.RETRY if code in RETRIABLE else Verdict.FAIL


def verdict_of_leader(code: ErrorCode) -> Verdict:
    """Return what it means that records were refused, or not acknowledged in time, for good.

    A leader that finds the epoch too old may be right because a newer producer has fenced this one,
    or because the coordinator has ended a transaction that took too long: ending the transaction
    tells (KIP-588).
    """
    if code == ErrorCode.PRODUCER_FENCED:
        return Verdict.FENCED
    if code in _PRODUCE_FAILS:
        return Verdict.FAIL
    return Verdict.RENEW if code in _RENEW else Verdict.ABORT
