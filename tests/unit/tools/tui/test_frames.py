"""What each view shows of a cluster."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.jepsen.store import RunFolder
from quorate.model import TopicPartition
from quorate.tools.quorum.view import FOLLOWER
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import Frame, Tone
from quorate.tools.tui.views.cluster import header_lines
from quorate.tools.tui.views.frames import frame_of
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot, ends_of
from quorate.tools.tui.views.streams import bytes_shown
from quorate.tools.tui.views.txns import txn_lines
from quorate.tools.verify_runs import run_of
from tests.unit.tools.tui import clusters
from tests.unit.tools.tui.clusters import NOW_MS

SNAPSHOT = clusters.snapshot()


def texts(frame: Frame, *names: str) -> list[tuple[str, ...]]:
    at = [[column.name for column in frame.columns].index(name) for name in names]
    return [tuple(row.cells[i].text for i in at) for row in frame.rows]


def shown(view: str, argument: str = "", snapshot: Snapshot = SNAPSHOT) -> Frame:
    return frame_of(Place(view, argument), snapshot)


def header(snapshot: Snapshot | None) -> list[str]:
    return ["".join(part.text for part in line) for line in header_lines(snapshot)]


def test_topics_tell_records_sizes_and_the_worst_that_is_wrong() -> None:
    assert texts(shown(places.TOPICS), "name", "partitions", "replicas", "records", "state") == [
        ("clicks", "1", "2", "5", "● ok"),
        ("orders", "3", "3", "-", "✗ 1 offline"),
        ("payments", "1", "2", "0", "✗ 1 under min ISR"),
    ]


def test_a_topic_whose_replica_is_only_behind_is_under_replicated() -> None:
    relaxed = replace(SNAPSHOT, min_isr={})
    assert ("payments", "▲ 1 under-replicated") in texts(
        shown(places.TOPICS, "", relaxed), "name", "state"
    )


def test_rates_come_from_what_was_there_a_while_ago() -> None:
    before = replace(SNAPSHOT, topics=(clusters.CLICKS,))
    grown = {1: {TopicPartition("clicks", 0): clusters.replica(125)}}
    after = replace(clusters.later(before), on_brokers=grown)
    assert texts(shown(places.TOPICS, "", after), "name", "rate/s") == [("clicks", "12")]
    assert texts(shown(places.TOPICS, "", before), "rate/s") == [("-",)]


def test_nothing_is_said_of_records_while_a_leader_does_not_tell() -> None:
    assert ends_of(SNAPSHOT) == {"clicks": 5, "payments": 0}


def test_partitions_show_replicas_as_blocks_with_signs() -> None:
    frame = shown(places.PARTITIONS, "orders")
    assert texts(frame, "partition", "leader", "replicas", "log_end", "open", "state") == [
        ("orders-0", "1", "▸1 ●2 ✗3", "100", "0", "● ok"),
        ("orders-1", "2", "▸2 ✗3 ●1", "70", "10", "▲ at min ISR"),
        ("orders-2", "none", "✗3 ○1 ○2", "-", "0", "✗ offline"),
    ]
    tones = [part.tone for part in frame.rows[1].cells[2].parts if part.text != " "]
    assert tones == [Tone.LEADER_BLOCK, Tone.BAD_BLOCK, Tone.GOOD_BLOCK]


def test_the_bar_of_a_log_ends_in_what_is_not_committed() -> None:
    assert texts(shown(places.PARTITIONS, "orders"), "log") == [
        ("████████████",),
        ("███████▒",),
        ("-",),
    ]


def test_partitions_of_all_topics_in_their_order() -> None:
    names = [row.key for row in shown(places.PARTITIONS).rows]
    assert names == ["clicks-0", "orders-0", "orders-1", "orders-2", "payments-0"]
    assert shown(places.PARTITIONS, "nonesuch").remark == "there is no topic 'nonesuch'"


def test_a_partition_under_min_isr_says_so() -> None:
    assert texts(shown(places.PARTITIONS, "payments"), "state") == [("✗ under min ISR",)]
    relaxed = replace(SNAPSHOT, min_isr={})
    assert texts(shown(places.PARTITIONS, "orders", relaxed), "state")[1] == ("▲ under-replicated",)


def test_brokers_tell_their_state_and_their_share() -> None:
    frame = shown(places.BROKERS)
    assert texts(frame, "id", "state", "leads", "replicas", "behind") == [
        ("1", "● in service", "2", "5", "2"),
        ("2", "▲ draining", "2", "5", "1"),
        ("3", "✗ fenced", "0", "3", "2"),
    ]
    assert texts(frame, "size") == [("1.6 kB",), ("1.7 kB",), ("-",)]


def test_the_quorum_tells_who_lags_by_how_much_and_who_is_silent() -> None:
    frame = shown(places.QUORUM)
    assert texts(frame, "id", "role", "lag", "behind", "log") == [
        ("101", "● follower", "0", "0 ms", "4.0 kB"),
        ("102", "▸ leader", "0", "0 ms", "4.0 kB"),
        ("103", "✗ follower, silent", "8", "7 s", "-"),
    ]
    assert "2 of 3 decide, 0 more may fail" in frame.title
    assert shown(places.QUORUM, "", replace(SNAPSHOT, quorum=None)).rows == ()


def test_a_controller_whose_disk_is_full_is_told() -> None:
    quorum = clusters.quorum()
    full = clusters.controller(101, FOLLOWER, 50, disk_full=True)
    well = clusters.controller(103, FOLLOWER, 50)
    seen = replace(quorum, replicas=(full, quorum.replicas[1], well))
    snapshot = replace(SNAPSHOT, quorum=seen)
    frame = shown(places.QUORUM, "", snapshot)
    assert texts(frame, "role") == [("✗ follower, disk full",), ("▸ leader",), ("● follower",)]
    assert "2 of 3 decide, 0 more may fail" in frame.title
    assert "controller 102 term 7 (2/3)" in header(snapshot)[0]


def test_groups_tell_lag_in_records_and_seconds() -> None:
    assert texts(shown(places.GROUPS), "group", "state", "members", "lag", "behind") == [
        ("billing", "● Stable", "1", "60", "1 m 30 s"),
        ("idle", "○ Empty", "0", "0", "0 ms"),
        ("moving", "▲ PreparingRebalance", "1", "-", "-"),
    ]


@pytest.mark.parametrize(
    ("committed", "end", "trend", "eta"),
    [
        (60, 100, "▼ shrinking", "20 s"),
        (50, 200, "▲ growing", "-"),
        (40, 100, "■ stuck", "-"),
        (50, 110, "─ steady", "-"),
        (100, 100, "▼ shrinking", "-"),
    ],
)
def test_a_lag_has_a_trend(committed: int, end: int, trend: str, eta: str) -> None:
    after = clusters.later(SNAPSHOT)
    lags = (clusters.lag("billing", 0, committed, end), clusters.lag("billing", 1, 70, 70))
    frame = shown(places.GROUPS, "", replace(after, lags=lags))
    assert texts(frame, "trend", "eta")[0] == (trend, eta)


def test_offsets_of_a_group_by_partition() -> None:
    frame = shown(places.OFFSETS, "billing")
    assert texts(frame, "partition", "committed", "log_end", "lag", "client") == [
        ("orders-0", "40", "100", "60", "client-0"),
        ("orders-1", "70", "70", "0", "client-0"),
    ]
    assert shown(places.OFFSETS, "moving").remark == "it has read nothing"
    assert shown(places.OFFSETS, "nobody").remark == "there is no group 'nobody'"


def test_configs_begin_with_what_somebody_set() -> None:
    assert texts(shown(places.CONFIGS, "topic/orders"), "name", "value", "source") == [
        ("retention.ms", "1000", "topic"),
        ("cleanup.policy", "delete", "default"),
    ]
    assert shown(places.CONFIGS).remark == "nothing known of broker/default"


def test_messages_are_text_or_hexadecimal_newest_first() -> None:
    frame = shown(places.MESSAGES, "orders @-1h")
    assert texts(frame, "offset", "key", "value", "header") == [
        ("3", "null", "0xff00", "trace=t3"),
        ("2", "k2", "null", "trace=t2"),
        ("1", "k1", '{"a":1}', "trace=t1"),
    ]
    assert frame.newest_first


def test_bytes_that_control_a_terminal_do_not_reach_it() -> None:
    assert bytes_shown(b"\x1b[2J") == "0x1b5b324a"
    assert bytes_shown("schön\n".encode()) == "schön\n"


def test_events_tell_the_cause() -> None:
    assert texts(shown(places.EVENTS), "offset", "record", "about", "cause") == [
        ("11", "TopicRemoved", "old", "DeleteTopics by User:ann")
    ]


def test_the_header_tells_who_leads_and_what_is_wrong() -> None:
    assert header(SNAPSHOT) == [
        " quorate  the-cluster  controller 102 term 7 (2/3)  ✗ brokers 2/3",
        " topics 3  partitions 5  ✗ 1 offline  ▲ 3 under-replicated  ✗ 2 under min ISR",
    ]


def test_the_header_says_what_does_not_answer_and_how_old_the_rest_is() -> None:
    stale = replace(SNAPSHOT, now_ms=NOW_MS + 8_000, troubles=("broker 2 silent",))
    assert header(stale)[2] == " ▲ as of 8 s ago: broker 2 silent "
    fresh = replace(SNAPSHOT, troubles=("broker 2 silent",))
    assert header(fresh)[2] == " ▲ broker 2 silent "


def test_the_header_knows_of_a_quorum_without_a_leader_and_of_none() -> None:
    assert "✗ no leader, term 7" in header(replace(SNAPSHOT, quorum=clusters.quorum(None)))[0]
    assert "controllers unknown" in header(replace(SNAPSHOT, quorum=None))[0]
    assert "looking" in header(None)[0]


def test_no_header_of_usual_numbers_is_wider_than_80_columns() -> None:
    healthy = clusters.large()
    named = replace(healthy, cluster_id="xiYZNIgOLP37rRRn0IL2Tw")
    assert [len(line) <= 80 for line in header(named)] == [True, True]


def test_keys_of_rows_are_unique() -> None:
    for view, argument in itertools.product(places.VIEWS, ("orders", "billing", "topic/orders")):
        keys = [row.key for row in shown(view, argument).rows]
        assert len(keys) == len(set(keys)), view


# Transactions


def test_transactions_tell_what_is_open_and_for_how_long() -> None:
    assert texts(shown(places.TXNS), "transactional_id", "state", "open_for", "partitions") == [
        ("pay-1", "▸ Ongoing", "40 s", "2"),
        ("pay-2", "▲ PrepareCommit", "1 s", "1"),
        ("pay-3", "● CompleteCommit", "-", "0"),
        ("pay-4", "○ Empty", "-", "0"),
        ("pay-5", "▸ Ongoing", "-", "-"),
    ]
    tones = [row.cells[2].tone for row in shown(places.TXNS).rows]
    assert tones[:2] == [Tone.WARN, Tone.PLAIN]
    assert "nobody has written" in shown(places.TXNS, "", Snapshot(0)).remark


def test_a_transaction_is_described_with_its_partitions() -> None:
    told = txn_lines("pay-1", SNAPSHOT)
    assert "open for          40 s, aborted at 1 m" in told
    assert "  orders-1" in told
    over = clusters.transaction(4, "Empty", None)
    described = txn_lines("pay-4", replace(SNAPSHOT, transactions_told={"pay-4": over}))
    assert "no partition takes part" in described
    assert "producer          id 4004, epoch 3" in described
    assert txn_lines("nobody", SNAPSHOT) == ["there is no transactional id nobody any more"]


def test_runs_tell_what_was_found_and_the_worst_sorts_first() -> None:
    frame = shown("verify")
    assert texts(frame, "time", "verdict", "anomalies", "took") == [
        ("11-22 10:20", "○ not judged", "-", "-"),
        ("11-22 10:20", "▲ unknown", "-", "6 s"),
        ("11-22 10:20", "✗ invalid-safety", "lost-write realtime-order", "6 s"),
        ("11-22 10:20", "● valid", "-", "6 s"),
    ]
    orders = [row.cells[1].order for row in frame.rows]
    assert orders == [2, 1, 0, 3]
    lost = run_of(RunFolder(Path("nowhere")))
    assert (lost.validity, lost.started_ms) == ("not judged", None)
    frame = shown("verify", "", replace(SNAPSHOT, runs=(lost,)))
    assert texts(frame, "time", "workloads") == [("-", "-")]


def test_what_waits_for_followers_is_known_without_asking() -> None:
    places = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("no", 0)]
    assert [SNAPSHOT.waits_for_followers(place) for place in places] == [False, True, False]
