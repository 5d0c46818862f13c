"""What our client says of a record that it has done with, as a history has it."""

from quorate.client.delivery import Delivery
from quorate.client.sending.batches import Appended, Batch
from quorate.jepsen.clients.outcomes import ALL_IN_SYNC
from quorate.jepsen.clients.own import outcome_of
from quorate.jepsen.clients.sending import told_of
from quorate.model import NO_TIMESTAMP, TopicPartition


def delivered(*, attempts: int) -> Delivery:
    batch = Batch(TopicPartition("t", 0), ready_at_ms=0, deadline_ms=1)
    batch.append(0, None, b"value", b"", 30)
    batch.attempts, batch.broker_id = attempts, 102
    batch.settle(Appended(7, NO_TIMESTAMP))
    return Delivery((batch, 0))


def test_it_is_known_who_acknowledged_what_was_sent_once() -> None:
    assert told_of(outcome_of(delivered(attempts=1), ALL_IN_SYNC)) == [7, 102]


def test_what_was_sent_again_may_have_been_taken_by_somebody_else() -> None:
    assert told_of(outcome_of(delivered(attempts=2), ALL_IN_SYNC)) == 7
