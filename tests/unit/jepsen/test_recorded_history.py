"""A history recorded from Apache Kafka, in which acks=1 really lost records.

``python -m tests.robustness.kafka_loss tests/unit/jepsen/data/kafka-acks-1.cbor`` recorded it.
"""

from pathlib import Path

from quorate.jepsen.history import HistoryReader, Kind, Operation, operations
from quorate.jepsen.judging import EXIT_CODES, Validity, judge

HISTORY = Path(__file__).with_name("data") / "kafka-acks-1.cbor"
LOST = "acked-by-leader-only"


def recorded() -> tuple[dict[str, object], list[Operation]]:
    with HISTORY.open("rb") as file:
        reader = HistoryReader(file)
        return reader.header, list(operations(reader))


def test_what_kafka_lost_with_acks_1_is_found() -> None:
    header, done = recorded()
    assert str(header["version"]).startswith("Apache Kafka 4.")
    verdict = judge({**header, "allowed": []}, done)
    assert verdict.validity is Validity.INVALID_SAFETY
    assert EXIT_CODES[verdict.validity] == 3
    assert verdict.anomalies.counts[LOST] > 0


def test_the_records_that_are_named_as_lost_were_acknowledged_and_never_read_again() -> None:
    header, done = recorded()
    acked = {o.asked[1] for o in done if o.name == "send" and o.kind is Kind.OK}
    final = {v for o in done if o.name == "read" for _, _, values, *_ in o.told for v in values}
    assert judge({**header, "allowed": []}, done).anomalies.counts[LOST] == len(acked - final) > 0


def test_acks_1_promises_no_more_so_the_loss_is_set_aside() -> None:
    header, done = recorded()
    verdict = judge(header, done)
    assert verdict.validity is Validity.VALID
    assert not verdict.anomalies
    assert LOST in verdict.allowed.counts


def test_the_same_loss_with_acks_all_would_be_a_lost_write() -> None:
    header, done = recorded()
    verdict = judge({**header, "acks": "all", "allowed": []}, done)
    assert verdict.anomalies.counts["lost-write"] > 0
