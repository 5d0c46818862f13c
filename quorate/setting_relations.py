"""What must hold between properties, beside the range of each: of a node, of a topic.

The rules are Kafka's (``KafkaConfig.validateValues``, ``GroupCoordinatorConfig``,
``LogConfig.validateValues``), of those properties that we have, and one of our own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from quorate.errors import InvalidConfigError
from quorate.setting_fields import Value

Values = Mapping[str, Value]
"""Of properties, by name: as they are written, else their defaults."""

Rule = Callable[[Values], str | None]
"""Returns what is wrong in one line, ``what: why; try this``; None if nothing is."""

DEDUPE_BYTES_PER_THREAD: Final = 1 << 20
COMPACTION_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")


def check_rules(rules: Sequence[Rule], values: Values) -> None:
    """Check values of which each by itself is valid.

    Raises:
        InvalidConfigError: they do not fit together.
    """
    for wrong in broken_rules(rules, values):
        raise InvalidConfigError(wrong)


def broken_rules(rules: Sequence[Rule], values: Values) -> Iterator[str]:
    """Yield what is wrong."""
    return (wrong for rule in rules if (wrong := rule(values)) is not None)


def _number(values: Values, name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _at_most(low: str, high: str, why: str) -> Rule:
    def rule(values: Values) -> str | None:
        lower, upper = _number(values, low), _number(values, high)
        if lower <= upper:
            return None
        return f"{low}={lower} is more than {high}={upper}: {why}; {_nearer(low, high)}"

    return rule


def _less_than(low: str, high: str, why: str) -> Rule:
    def rule(values: Values) -> str | None:
        lower, upper = _number(values, low), _number(values, high)
        if lower < upper:
            return None
        return f"{low}={lower} is not less than {high}={upper}: {why}; {_nearer(low, high)}"

    return rule


def _nearer(low: str, high: str) -> str:
    return f"try a smaller {low} or a larger {high}"


def _compaction_lags(prefix: str) -> Rule:
    """Return the rule of what a topic has itself, or by default (``prefix``)."""
    low, high = (prefix + name for name in COMPACTION_LAGS)
    return _at_most(low, high, "records would have to be compacted before they may be")


def _bounded(setting: str) -> tuple[Rule, ...]:
    """Return the rules of a setting of consumer groups, between whose bounds each has its own."""
    own, low, high = (f"group.consumer.{bound}{setting}" for bound in ("", "min.", "max."))
    why = "groups without a setting of their own would be out of bounds"
    return (
        _at_most(low, high, "no group could have a setting of its own"),
        _at_most(low, own, why),
        _at_most(own, high, why),
    )


def _records_are_kept(values: Values) -> str | None:
    """Topics may keep nothing (``retention.ms=0``); that all do is a mistake."""
    if _number(values, "log.retention.ms") != 0:
        return None
    return "log.retention.ms=0 keeps nothing in any topic: it says how long; try 1, or -1 for ever"


def _dedupe_buffer_suffices(values: Values) -> str | None:
    buffer, threads = "log.cleaner.dedupe.buffer.size", "log.cleaner.threads"
    size_bytes, count = _number(values, buffer), _number(values, threads)
    if size_bytes // count > DEDUPE_BYTES_PER_THREAD:
        return None
    return (
        f"{buffer}={size_bytes} is too little for {threads}={count}: each needs more than"
        f" {DEDUPE_BYTES_PER_THREAD} bytes for keys; {_nearer(threads, buffer)}"
    )


def _directory_is_named(values: Values) -> str | None:
    if values["log.dir"]:
        return None
    return "log.dir is empty: data would be wherever the node was started; try a path"


def _classic_groups_are_served(values: Values) -> str | None:
    protocols = values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple)
    if "classic" in protocols:
        return None
    return (
        "group.coordinator.rebalance.protocols lacks classic: groups of that protocol cannot be"
        " switched off; try classic or classic,consumer"
    )


def _elections_wait_for_heartbeats(values: Values) -> str | None:
    heartbeat, election = (
        "quorate.quorum.heartbeat.interval.ms",
        "quorate.quorum.election.timeout.ms",
    )
    heartbeat_ms, election_ms = _number(values, heartbeat), _number(values, election)
    if election_ms > 3 * heartbeat_ms:
        return None
    return (
        f"{election}={election_ms} is not more than three times {heartbeat}={heartbeat_ms}:"
        f" controllers would elect when a heartbeat is lost; {_nearer(heartbeat, election)}"
    )


def _sessions_outlast_a_heartbeat(values: Values) -> str | None:
    heartbeat, session = "broker.heartbeat.interval.ms", "broker.session.timeout.ms"
    heartbeat_ms, session_ms = _number(values, heartbeat), _number(values, session)
    if 2 * heartbeat_ms <= session_ms:
        return None
    return (
        f"{heartbeat}={heartbeat_ms} is more than half of {session}={session_ms}: a broker that is"
        f" late once is fenced (the session is its controller's); {_nearer(heartbeat, session)}"
    )


TOPIC_RULES: Final = (_compaction_lags(""),)

NODE_RULES: Final[tuple[Rule, ...]] = (
    _directory_is_named,
    _records_are_kept,
    _compaction_lags("log.cleaner."),
    _dedupe_buffer_suffices,
    _at_most(
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "followers that wait for records would leave the ISR",
    ),
    _classic_groups_are_served,
    *_bounded("heartbeat.interval.ms"),
    *_bounded("session.timeout.ms"),
    *_bounded("assignment.interval.ms"),
    _less_than(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
        "members would be out before they are heard again",
    ),
    _elections_wait_for_heartbeats,
)
"""What a node does not start without."""

NODE_DOUBTS: Final[tuple[Rule, ...]] = (_sessions_outlast_a_heartbeat,)
"""What it only warns of, as Kafka does: who is right may be another node's configuration."""
