"""A node's properties become the timers of its replica."""

import pytest

from quorate.errors import InvalidConfigError
from quorate.quorum.raft.rules import RETAINED_ENTRIES_MAX, Rules, rules_of
from quorate.settings import node_config

HEARTBEAT = "quorate.quorum.heartbeat.interval.ms"
ELECTION = "quorate.quorum.election.timeout.ms"
SNAPSHOT = "quorate.quorum.snapshot.entries"


def rules(**texts: int) -> Rules:
    named = {"heartbeat": HEARTBEAT, "election": ELECTION, "snapshot": SNAPSHOT}
    return rules_of(node_config({named[name]: str(value) for name, value in texts.items()}))


def test_a_node_elects_after_one_to_two_times_its_election_timeout() -> None:
    timing = rules(heartbeat=50, election=200).timing
    assert (timing.heartbeat_s, timing.election_min_s, timing.election_max_s) == (0.05, 0.2, 0.4)


@pytest.mark.parametrize(("every", "kept"), [(20, 20), (5000, RETAINED_ENTRIES_MAX)])
def test_entries_behind_a_snapshot_are_kept_for_followers_but_not_more_than_it_covers(
    every: int, kept: int
) -> None:
    timing = rules(snapshot=every).timing
    assert (timing.snapshot_entries, timing.retained_entries) == (every, kept)


def test_an_election_timeout_that_a_lost_heartbeat_could_exceed_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match=r"not more than three times .*=100: "):
        rules(heartbeat=100, election=300)
    assert rules(heartbeat=100, election=301).timing.election_min_s == 0.301
