"""The metadata of a moment, and what changed between two."""

from typing import Any

import pytest

from quorate.quorum.metadata import records as r
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.travel import (
    contents_of,
    diff_table,
    image_at,
    leaves,
    parse_point,
    text_of,
)
from quorate.tools.problems import CommandError, UsageError

TOPIC_ID = bytes(16)
BATCHES = [
    Batch(4, 1, (r.ClusterFormatted("c", 1_000, "cluster"),)),
    Batch(
        5,
        1,
        (
            r.TopicCreated("c", 2_000, "t", TOPIC_ID),
            r.PartitionCreated("c", 2_000, TOPIC_ID, 0, (1,), (1,), 1),
        ),
    ),
    Batch(6, 1, (r.ConfigSet("c", 3_000, "topic", "t", "retention.ms", "5"),)),
    Batch(7, 1, (r.TopicRemoved("c", 4_000, TOPIC_ID),)),
]


def topics_at(text: str) -> list[str]:
    return list(image_at(BATCHES, parse_point(text, 10_000)).topics)


def test_a_moment_is_an_offset_a_time_or_now() -> None:
    assert [topics_at(text) for text in ("4", "5", "6", "7", "now")] == [[], ["t"], ["t"], [], []]
    assert topics_at("-8s") == ["t"]
    assert topics_at("@1970-01-01T00:00:01Z") == []
    with pytest.raises(UsageError, match="no moment"):
        parse_point("yesterday-ish", 0)


def test_what_a_snapshot_has_swallowed_is_not_known() -> None:
    image = image_at(BATCHES[:2], parse_point("now", 0))
    batches = [Batch(5, None, image=image), *BATCHES[2:]]
    assert list(image_at(batches, parse_point("5", 0)).topics) == ["t"]
    with pytest.raises(CommandError) as caught:
        image_at(batches, parse_point("4", 0))
    assert caught.value.hint == "quorate metadata at 5"


def test_what_was_at_a_path_is_told() -> None:
    image = image_at(BATCHES, parse_point("5", 0))
    told: Any = contents_of(image, "/topics/t/0")
    assert told["leader_id"] == 1
    assert contents_of(image, "/topics/t/0/leader_id") == 1
    with pytest.raises(CommandError, match="there is no /topics/u"):
        contents_of(image, "/topics/u")


def test_what_changed_is_a_row_each() -> None:
    before, after = (image_at(BATCHES, parse_point(text, 0)) for text in ("5", "6"))
    rows = diff_table(before, after, "/configs").rows
    assert [row for row in rows if row[2] == "5"]
    assert diff_table(before, before, "/").rows == ()
    gone = diff_table(after, image_at(BATCHES, parse_point("7", 0)), "/topics/t").rows
    assert ("/topics/t/0/leader_id", "1", None) in gone


def test_values_are_told_with_their_paths() -> None:
    assert list(leaves({"a": {"b": 1, "c": [2]}, "d": {}})) == [
        ("/a/b", 1), ("/a/c", [2]), ("/d", {}),
    ]  # fmt: skip
    assert list(leaves(3)) == [("/", 3)]
    assert [text_of(v) for v in (None, "x", [1])] == [None, "x", "[1]"]
