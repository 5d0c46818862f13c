"""A topic in sections: what is wanted, for people and for programs."""

import json

import pytest

from quorate.client import ConfigEntry, PartitionDescription, TopicDescription
from quorate.tools.output import render
from quorate.tools.topic_sections import Offsets, Section, Topic, document_of, text_of
from quorate.tools.topics import Described

PARTITIONS = (
    PartitionDescription(0, 1, 4, (1, 2), (1,), ()),
    PartitionDescription(1, -1, 5, (2, 1), (2,), (1, 2)),
)
CONFIGS = {
    "retention.ms": ConfigEntry("retention.ms", "1000", 1, False, False, None),
    "secret": ConfigEntry("secret", None, 1, False, True, None),
}


def topic(name: str) -> Topic:
    told = TopicDescription(name, b"t" * 16, False, PARTITIONS)
    return Topic(Described(told, CONFIGS), {0: Offsets(3, 9)})


def test_one_section_has_no_heading() -> None:
    lines = text_of([topic("a")], Section.PARTITIONS, "table").splitlines()
    assert [line.split() for line in lines] == [
        [
            "PARTITION",
            "LEADER",
            "EPOCH",
            "REPLICAS",
            "ISR",
            "OFFLINE",
            "LOG-START-OFFSET",
            "HIGH-WATERMARK",
        ],
        ["0", "1", "4", "1,2", "1", "3", "9"],
        ["1", "-", "5", "2,1", "2", "1,2", "-", "-"],
    ]


def test_several_sections_and_topics_have_headings() -> None:
    text = text_of([topic("a")], Section.ALL, "table")
    assert [line for line in text.splitlines() if line.isupper() and " " not in line] == [
        "SUMMARY", "CONFIGS", "PARTITIONS",
    ]  # fmt: skip
    assert "retention.ms  1000      topic" in text
    assert "secret        (hidden)  topic" in text
    assert "SUMMARY of b\n============\n" in text_of(
        [topic("a"), topic("b")], Section.SUMMARY, "table"
    )


@pytest.mark.parametrize("sections", [Section.SUMMARY, Section.CONFIGS | Section.PARTITIONS])
def test_programs_get_what_is_wanted_and_null_for_the_rest(sections: Section) -> None:
    (item,) = json.loads(render(document_of([topic("a")], sections), "json"))["items"]
    assert item["name"] == "a"
    given = {name for name, value in item.items() if value is not None} - {"name"}
    assert given == {str(s.name).lower() for s in Section if s & sections}
    if Section.PARTITIONS in sections:
        assert item["partitions"][0]["high_watermark"] == 9
