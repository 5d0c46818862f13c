"""Which records are found."""

import re
from pathlib import Path
from typing import Any

import pytest

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.problems import UsageError
from quorate.tools.record_text import record_line
from quorate.tools.searching import Query, check_pattern, parse_condition
from quorate.tools.topic_records import csv_line, text_for

EVERYTHING = Query(None, None, (), ())


def record(value: bytes | None, key: bytes | None = b"k", **headers: bytes) -> Record:
    return Record(TopicPartition("t", 0), 7, 5, key, value, tuple(headers.items()))


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("amount>6000", b'{"amount": 6001}', True),
        ("amount>6000", b'{"amount": 6000}', False),
        ("amount >= 6000", b'{"amount": 6000}', True),
        ("amount<1.5", b'{"amount": 1}', True),
        ("amount<=1", b'{"amount": 2}', False),
        ("amount>6000", b'{"amount": "9999"}', False),  # text is no number
        ("name>b", b'{"name": "c"}', True),
        ("json.user.name=ann", b'{"user": {"name": "ann"}}', True),
        ("user.name!=ann", b'{"user": {"name": "bob"}}', True),
        ("user.name!=ann", b'{"user": {}}', False),  # it is not there at all
        ('name="7"', b'{"name": "7"}', True),
        ("name=7", b'{"name": "7"}', False),
        ("items[1]~^x", b'{"items": ["a", "xy"]}', True),
        ("items.2=1", b'{"items": ["a", "xy"]}', False),
        ("ok=true", b'{"ok": true}', True),
        ("gone=null", b'{"gone": null}', True),
        ("a.b=1", b'{"a": 1}', False),
        ("a=1", b"no json", False),
        ("a=1", None, False),
    ],
)
def test_a_condition_is_about_a_place_in_json(
    condition: str, value: bytes | None, holds: bool
) -> None:
    query = Query(None, None, (), (parse_condition(condition),))
    assert query.keeps(record(value)) is holds


@pytest.mark.parametrize("text", ["amount", "=5", "a b=1", "", "a~("])
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        check_pattern("(")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, True),
        ({"key": b"k"}, True),
        ({"key": b"K"}, False),
        ({"value": re.compile(b"err|warn")}, True),
        ({"value": re.compile(b"^warn")}, False),
        ({"headers": ("lang",)}, True),
        ({"headers": ("lang=en",)}, True),
        ({"headers": ("lang=de",)}, False),
        ({"headers": ("lang", "host")}, False),
    ],
)
def test_all_that_is_said_must_be_so(said: dict[str, Any], found: bool) -> None:
    everything: dict[str, Any] = {"key": None, "value": None, "headers": (), "conditions": ()}
    query = Query(**{**everything, **said})
    assert query.keeps(record(b"an error", lang=b"en")) is found


def test_null_values_are_found_by_key_only() -> None:
    assert EVERYTHING.keeps(record(None))
    assert not Query(None, re.compile(b"x"), (), ()).keeps(record(None))


def test_a_line_of_csv_holds_all_of_a_record() -> None:
    assert csv_line(record(b'say "hi"\n', h=b"x")) == (
        b't,0,7,5,k,"say ""hi""\n","[[""h"", ""x""]]"\n'
    )
    assert csv_line(record(None, None)) == b"t,0,7,5,,,[]\n"
    assert csv_line(record(b"\xff")) == b't,0,7,5,k,"{""base64"": ""/w==""}",[]\n'


def test_the_name_of_a_file_says_what_is_in_it() -> None:
    assert text_for(Path("a.jsonl")) is record_line
    assert text_for(Path("a.b.csv.gz")) is csv_line
    for name in ("a", "a.parquet", "a.gz", "a.csv.zst"):
        with pytest.raises(UsageError, match="does not say"):
            text_for(Path(name))
