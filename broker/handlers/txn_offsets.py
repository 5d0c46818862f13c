"""TxnOffsetCommit: how far a group will have read when a transaction commits (KIP-98, KIP-447)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from quorate.broker.groups.committing import TopicCommit
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group import CommitSender, InvalidGroupIdError
from quorate.broker.handlers.commits import existing, refuse, refuse_commits
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.transactions import group_partition
from quorate.broker.shards.effects import InTransaction
from quorate.broker.transactions.verifying import Verified
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ADDS_FROM: Final = 5
"""The version from which this adds the group's partition to the transaction (KIP-890)."""
ABORTABLE_FROM: Final = 4
"""The version from which clients know TRANSACTION_ABORTABLE."""
LOADING_FROM: Final = 2
"""The version from which clients know COORDINATOR_LOAD_IN_PROGRESS here (KAFKA-7296)."""

TRIES_MAX: Final = 5

NO_EXPIRY: Final = -1

Done = Callable[[ErrorCode], None]


def txn_offset_commit(
    broker: Broker, request: TxnOffsetCommitRequest, caller: Caller
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    """Keep offsets in mind until their transaction ends; answered when that is safe."""
    response = TxnOffsetCommitResponse()
    commits: list[TopicCommit] = []
    for asked in request.topics:
        answers = [
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            for partition in asked.partitions
        ]
        response.topics.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=answers))
        topic = broker.replicas.image.topics.get(asked.name)
        if topic is None:
            refuse(answers, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            commits.append(existing(topic, asked.partitions, answers))
    promise: Promise[TxnOffsetCommitResponse] = Promise()

    def done(code: ErrorCode) -> None:
        refuse_commits(commits, _known(code, caller))
        promise.resolve(response)

    if any(commit.partitions for commit in commits):
        _commit(broker, request, caller, commits, done)
    else:
        return response
    return now_or_later(promise)


def _known(code: ErrorCode, caller: Caller) -> ErrorCode:
    """Return the code in words that the client knows."""
    if code == ErrorCode.STALE_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and caller.api_version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.NETWORK_EXCEPTION:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and caller.api_version < LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _commit(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    caller: Caller,
    commits: Sequence[TopicCommit],
    done: Done,
    tries: int = TRIES_MAX,
) -> None:
    """Ask the transaction's coordinator if need be, then write.

    The end of the last transaction may be written in between: then this has to be done again, for
    the answer might have been about that one.
    """
    adds = caller.api_version >= ADDS_FROM
    producer_id, epoch = request.producer_id, request.producer_epoch
    try:
        if not request.group_id:
            raise InvalidGroupIdError
        coordinator = broker.coordinators.of(request.group_id)
        guard = coordinator.context.writer.begin_verification(producer_id, epoch, adds=adds)
        where = group_partition(broker, request.group_id)
    except KafkaError as error:
        done(error.code)
        return
    transaction = InTransaction(producer_id, epoch, guard)

    def written(code: ErrorCode) -> None:
        if code == ErrorCode.INVALID_TXN_STATE and guard is not None and tries > 1:
            _commit(broker, request, caller, commits, done, tries - 1)
        else:
            done(code)

    write = partial(_write, coordinator, request, commits, transaction, written)
    if guard is None or not (adds or broker.config.transaction_partition_verification_enable):
        write()
        return

    def verified(codes: Verified) -> None:
        code = codes[where]
        if code == ErrorCode.NONE:
            write()
        else:
            done(code)

    broker.verify_transaction(
        request.transactional_id, producer_id, epoch, (where,), add=adds
    ).when_resolved(verified)


def _write(
    coordinator: GroupCoordinator,
    request: TxnOffsetCommitRequest,
    commits: Sequence[TopicCommit],
    transaction: InTransaction,
    done: Done,
) -> None:
    sender = CommitSender(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        transactional=True,
        api_version=0,
    )
    try:
        coordinator.keeper.commit(
            request.group_id,
            sender,
            commits,
            retention_ms=NO_EXPIRY,
            done=done,
            transaction=transaction,
        )
    except KafkaError as error:
        done(error.code)
