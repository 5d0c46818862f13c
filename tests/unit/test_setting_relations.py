"""Properties of which each is valid must fit together; what does not is told in one line."""

import pytest

from quorate.errors import InvalidConfigError
from quorate.setting_relations import NODE_DOUBTS, NODE_RULES, broken_rules
from quorate.settings import node_config, node_values

MIB = 1 << 20
FETCH_WAIT, LAG = "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"
BUFFER, THREADS = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
MIN_LAG, MAX_LAG = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
HEARTBEAT, SESSION = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
MIN_HEARTBEAT = "group.consumer.min.heartbeat.interval.ms"
MAX_HEARTBEAT = "group.consumer.max.heartbeat.interval.ms"
MIN_SESSION = "group.consumer.min.session.timeout.ms"
MAX_SESSION = "group.consumer.max.session.timeout.ms"
PAUSE = "group.consumer.assignment.interval.ms"
MIN_PAUSE = "group.consumer.min.assignment.interval.ms"
MAX_PAUSE = "group.consumer.max.assignment.interval.ms"
BEAT, ELECTION = "quorate.quorum.heartbeat.interval.ms", "quorate.quorum.election.timeout.ms"


def test_the_defaults_fit_together() -> None:
    assert list(broken_rules([*NODE_RULES, *NODE_DOUBTS], node_values({}))) == []


@pytest.mark.parametrize(
    ("fitting", "not_fitting", "told"),
    [
        ({FETCH_WAIT: 700, LAG: 700}, {FETCH_WAIT: 701, LAG: 700}, f"{LAG}=700"),
        ({BUFFER: 2 * MIB + 2, THREADS: 2}, {BUFFER: 2 * MIB + 1, THREADS: 2}, f"{THREADS}=2"),
        ({BUFFER: MIB + 1}, {BUFFER: MIB}, f"{BUFFER}={MIB}"),
        ({"log.retention.ms": 1}, {"log.retention.ms": 0}, "keeps nothing"),
        ({"log.retention.ms": -1}, {"log.retention.ms": 0}, "log.retention.ms=0"),
        ({MIN_LAG: 5, MAX_LAG: 5}, {MIN_LAG: 6, MAX_LAG: 5}, f"{MIN_LAG}=6"),
        ({"log.dir": "data"}, {"log.dir": ""}, "log.dir is empty"),
        ({HEARTBEAT: 5000}, {HEARTBEAT: 4999}, f"{MIN_HEARTBEAT}=5000"),
        ({HEARTBEAT: 15_000}, {HEARTBEAT: 15_001}, f"{MAX_HEARTBEAT}=15000"),
        ({MAX_HEARTBEAT: 5000}, {MAX_HEARTBEAT: 4999}, f"{MAX_HEARTBEAT}=4999"),
        ({SESSION: 45_000}, {SESSION: 44_999}, f"{MIN_SESSION}=45000"),
        ({SESSION: 60_000}, {SESSION: 60_001}, f"{MAX_SESSION}=60000"),
        ({PAUSE: 15_000}, {PAUSE: 15_001}, f"{MAX_PAUSE}=15000"),
        ({MIN_PAUSE: 1000}, {MIN_PAUSE: 1001}, f"{MIN_PAUSE}=1001"),
        ({MIN_SESSION: 5001, SESSION: 5001}, {MIN_SESSION: 5000, SESSION: 5000}, "not less than"),
        ({BEAT: 100, ELECTION: 301}, {BEAT: 100, ELECTION: 300}, f"{BEAT}=100"),
        (
            {"group.coordinator.rebalance.protocols": "classic"},
            {"group.coordinator.rebalance.protocols": "consumer"},
            "lacks classic",
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused_with_why_and_what_to_try(
    fitting: dict[str, object], not_fitting: dict[str, object], told: str
) -> None:
    node_config({name: str(value) for name, value in fitting.items()})
    with pytest.raises(InvalidConfigError) as refused:
        node_config({name: str(value) for name, value in not_fitting.items()})
    what, why, advice = refused.value.message.replace("; try ", ": ").split(": ")
    assert told in what + why
    assert advice
    assert "\n" not in refused.value.message


def test_a_session_that_may_end_between_two_heartbeats_is_doubted_and_not_refused() -> None:
    texts = {"broker.session.timeout.ms": "3999"}
    assert node_config(texts).broker_session_timeout_ms == 3999
    (doubt,) = broken_rules(NODE_DOUBTS, node_values(texts))
    assert "broker.heartbeat.interval.ms=2000 is more than half of" in doubt
