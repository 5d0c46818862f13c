"""Idempotence and transactions: InitProducerId."""

from quorate.protocol.fields import boolean, int16, int32, int64, string
from quorate.protocol.message import message


@message(versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Asks for a producer id and epoch; without a transactional id they only serve idempotence."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """Answers an InitProducerIdRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
