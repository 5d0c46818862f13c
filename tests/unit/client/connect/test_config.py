"""A file about connectors says what it says, or what is wrong with it is told in one line."""

import tomllib

import pytest

from quorate.client.connect.config import (
    Common,
    ConfigError,
    ConnectConfig,
    FileSource,
    SqliteSink,
    parse_config,
)

FILE = '[connectors.log]\ntype = "file-source"\npath = "a.log"\ntopic = "t"\n'
SINK = '[connectors.db]\ntype = "sqlite-sink"\ntopics = ["t"]\ndatabase = "a.db"\n'


def parsed(text: str) -> ConnectConfig:
    return parse_config(tomllib.loads(text))


def test_what_is_not_said_has_a_default() -> None:
    source = FileSource(
        Common("log", 10, 500), "a.log", "t", None, False, 200, 1 << 20, 1_000_000, 1_000
    )
    sink = SqliteSink(Common("db", 10, 500), ("t",), "a.db", "db", (), False, 1_000)
    assert parsed(FILE + SINK) == ConnectConfig(None, "quorate-connect-offsets", (source, sink))


def test_all_may_be_said_with_units() -> None:
    source = parsed(
        'bootstrap = "h:1"\noffsets_topic = "o"\n'
        + FILE
        + 'key = "k"\nstart = "end"\npoll_interval_ms = "2s"\nbatch_bytes = "1M"\n'
        + 'line_bytes_max = 10\nrotation_wait_ms = "1m"\nretries = 0\nretry_backoff_ms = 1\n'
    )
    common = Common("log", 0, 1)
    assert source == ConnectConfig(
        "h:1", "o", (FileSource(common, "a.log", "t", b"k", True, 2_000, 1 << 20, 10, 60_000),)
    )
    (sink,) = parsed(
        SINK.replace('["t"]', '["t", "u"]')
        + 'table = "rows"\nunreadable = "skip"\nbatch_records_max = 5\n'
        + '[connectors.db.columns]\namount = "amount"\ncity = "address.city"\n'
    ).connectors
    columns = (("amount", ("amount",)), ("city", ("address", "city")))
    assert sink == SqliteSink(Common("db", 10, 500), ("t", "u"), "a.db", "rows", columns, True, 5)


def test_one_topic_need_be_no_list() -> None:
    (sink,) = parsed(SINK.replace('["t"]', '"t"')).connectors
    assert isinstance(sink, SqliteSink)
    assert sink.topics == ("t",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file has no connectors"),
        ("connectors = 1", "the file has no connectors"),
        ("[connectors]\nlog = 1", "connectors.log is no table"),
        ('[connectors.""]\ntype = "file-source"', "1 to 200 characters"),
        ("[connectors.log]", "connectors.log has no type: file-source or sqlite-sink"),
        (
            '[connectors.log]\ntype = "file-sink"',
            "is 'file-sink', but must be file-source or sqlite-sink",
        ),
        ("[connectors.log]\ntype = 7", "is 7, but must be"),
        ('[connectors.log]\ntype = ["file-source"]', "is \\['file-source'\\], but must be"),
        ('bootsrap = "h"\n' + FILE, "the file has 'bootsrap'.*did you mean 'bootstrap'"),
        ('[connector.log]\ntype = "x"', "the file has 'connector'.*did you mean 'connectors'"),
        (FILE + "poll_interval = 1", "did you mean 'poll_interval_ms'"),
        (FILE + "zzz = 1", "connectors.log has 'zzz', which is no setting; there are type"),
        (FILE + "poll_interval_ms = 0", "connectors.log.poll_interval_ms: "),
        (FILE + 'poll_interval_ms = "1 light year"', "connectors.log.poll_interval_ms: "),
        (FILE + "retries = true", "retries: True is not a number"),
        (FILE + "key = 1", "key: 1 is not a text"),
        (FILE + 'start = "middle"', "connectors.log.start: "),
        (FILE.replace('path = "a.log"', ""), "connectors.log has no path"),
        (FILE.replace('topic = "t"', 'topic = ""'), "connectors.log has no topic"),
        (SINK.replace('["t"]', "[]"), "connectors.db has no topics"),
        (SINK.replace('["t"]', "[1]"), "is not a list of texts"),
        (SINK.replace('["t"]', '"a,b"'), "'a,b' is not a list of texts"),
        (SINK + "column = 1", "did you mean 'columns'"),
        (SINK + "columns = 1", "columns is no table"),
        (SINK + '[connectors.db.columns]\na = "x..y"', "must be a path"),
        (SINK + "[connectors.db.columns]\na = 1", "must be a path"),
        (SINK + '[connectors.db.columns]\nOffset = "x"', "this one is taken"),
        (SINK + 'table = "Quorate_Topics"', "'Quorate_Topics' tells how far sinks are"),
        (SINK + '[connectors.db.columns]\na = "x"\nA = "y"', "differ in case"),
    ],
)
def test_what_makes_no_sense_is_told_where_it_stands(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)
