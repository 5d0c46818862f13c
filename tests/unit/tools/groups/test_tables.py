"""The tables of quorate groups, column by column as kafka-consumer-groups has them."""

from dataclasses import replace

import pytest

from quorate.client.groups.results import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetAndMetadata,
)
from quorate.model import Endpoint, TopicPartition
from quorate.tools.groups.lag import Bounds, PartitionLag, Trend, summed
from quorate.tools.groups.tables import (
    assignment_text,
    find_members,
    lag_table,
    list_table,
    members_table,
    offsets_table,
    remarks,
    state_table,
)
from quorate.tools.output import render

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ONE = MemberDescription("m-1", "i-1", "c", "/1.2.3.4", (T1, T0, U0), None, None, "r", ("t", "u"))
TWO = MemberDescription("m-2", None, "c", "/h", (), (T0,), 7, topic_regex="t.*")
GROUP = GroupDescription("g", "Classic", "consumer", "Stable", "range", (ONE, TWO), 3)
EMPTY = GroupDescription("e", "Consumer", "consumer", "Empty", "", (), 9, 5, 4)
LAGS = [
    PartitionLag("g", T0, OffsetAndMetadata(3, 1, "meta"), Bounds(5, 10), ONE),
    PartitionLag("g", T1, None, None, None),
]


def headings(text: str) -> list[str]:
    return text.splitlines()[0].split()


def test_groups_are_listed() -> None:
    listings = [GroupListing("g", "Classic", "consumer", "Stable"), GroupListing("o", "", "", "")]
    text = render(list_table(listings), "table")
    assert [line.split() for line in text.splitlines()] == [
        ["GROUP", "STATE", "TYPE", "PROTOCOL"],
        ["g", "Stable", "Classic", "consumer"],
        ["o", "-", "-"],
    ]
    assert render(list_table(listings), "name") == "g\no\n"


def test_offsets_have_the_columns_of_kafkas_tool() -> None:
    table = offsets_table(LAGS)
    text = render(table, "table")
    assert " ".join(headings(text)) == (
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    )
    assert text.splitlines()[1].split() == ["g", "t", "0", "3", "10", "7", "m-1", "/1.2.3.4", "c"]
    assert text.splitlines()[2].split() == ["g", "t", "1", "-", "-", "-", "-", "-", "-"]
    first, second = table.items()
    assert (first["lost"], first["log_start_offset"], first["leader_epoch"]) == (2, 5, 1)
    assert (first["instance_id"], first["metadata"]) == ("i-1", "meta")
    assert (second["lost"], second["leader_epoch"]) == (0, None)


def test_members_have_the_columns_of_kafkas_tool() -> None:
    table = members_table([GROUP])
    assert headings(render(table, "table")) == [
        "GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "GROUP-INSTANCE-ID",
    ]  # fmt: skip
    one, two = table.items()
    assert (one["partitions"], one["current_assignment"]) == (3, "t:0,1;u:0")
    assert (one["target_assignment"], one["topics"], one["rack"]) == (None, ["t", "u"], "r")
    assert (two["partitions"], two["current_assignment"]) == (0, None)
    assert (two["target_assignment"], two["current_epoch"]) == ("t:0", 7)


def test_no_partitions_are_no_text() -> None:
    assert assignment_text([]) is None


def test_states_have_the_columns_of_kafkas_tool() -> None:
    told = replace(GROUP, generation_id=4, leader="m-1", rebalance_reason="why", state_since_ms=0)
    table = state_table([told, EMPTY], {3: Endpoint("host", 9092)})
    assert render(table, "table").splitlines()[0].split("  ")[0] == "GROUP"
    assert [column.heading for column in table.columns[:5]] == [
        "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS",
    ]  # fmt: skip
    one, two = table.items()
    assert (one["coordinator"], one["members"]) == ("host:9092 (3)", 2)
    assert (one["generation"], one["leader"], one["since"]) == (
        4,
        "m-1",
        "1970-01-01T00:00:00.000Z",
    )
    assert (two["coordinator"], two["assignment_strategy"]) == ("- (9)", None)
    assert (two["group_epoch"], two["target_assignment_epoch"], two["since"]) == (5, 4, None)


def test_what_a_person_should_know_is_said() -> None:
    assert remarks([GROUP, EMPTY], LAGS) == [
        "Consumer group 'e' has no active members.",
        "Consumer group 'g' lost 2 records of t-0: it has read up to 3, the log begins at 5.",
    ]
    told = replace(GROUP, rebalance_reason="m-3 left: poll timeout")
    assert remarks([told]) == ["Consumer group 'g', last: m-3 left: poll timeout"]


def test_lags_are_told_in_records_and_in_seconds() -> None:
    (lag,) = summed(LAGS, by_partition=False)
    table = lag_table([lag], 0, None)
    assert table.items() == [
        {
            "group": "g", "topic": "t", "partitions": 2, "members": 1, "lag": 7,
            "lag_seconds": None, "lost": 2,
        },
    ]  # fmt: skip


def test_lags_of_partitions_have_trends_from_the_second_look_on() -> None:
    lags = summed(LAGS, by_partition=True)
    table = lag_table(lags, 5000, {lags[0].key: Trend("shrinking", 2.04, 0.0, 3.6)})
    first, second = table.items()
    assert (first["partition"], first["trend"], first["read_per_s"]) == (0, "shrinking", 2.0)
    assert (first["written_per_s"], first["eta_s"]) == (0.0, 4)
    assert (second["trend"], second["eta_s"], second["lag_seconds"]) == (None, None, 0.0)
    assert "READ/S" in render(table, "table")
    endless = lag_table(lags, 0, {lags[0].key: Trend("growing", 0.0, 1.0, None)})
    assert endless.items()[0]["eta_s"] is None


def test_members_are_found_by_any_of_their_names() -> None:
    assert find_members(GROUP, ["m-2"]) == [TWO]
    assert find_members(GROUP, ["i-1", "m-1"]) == [ONE]
    assert find_members(GROUP, ["c"]) == [ONE, TWO]
    with pytest.raises(KeyError, match="nobody"):
        find_members(GROUP, ["m-1", "nobody"])
