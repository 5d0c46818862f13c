"""Arguments as Kafka's tools take them."""

import pytest

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.cli import KAFKA_TOOLS, run_command
from quorate.tools.shims.arguments import ShimError, options, parse, split
from quorate.tools.shims.console import formatter, line_format
from quorate.tools.shims.running import SHIMS, Shim, run_shim

KNOWN = options("list create", "topic config", "state")


def test_flags_values_and_values_that_may_be_left_out() -> None:
    given = parse(["--list", "--topic=a", "--config", "x=1", "--config", "y=2"], KNOWN)
    assert "list" in given
    assert given.one("topic") == "a"
    assert given.properties("config") == {"x": "1", "y": "2"}
    assert parse(["--state", "--list"], KNOWN).all("state") == []
    assert parse(["--state", "Empty"], KNOWN).one("state") == "Empty"
    assert parse([], KNOWN).one("topic", "none") == "none"
    assert split(["a,b", "c"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--nonsense"], "nonsense is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["topic"], "Found non-option argument: topic"),
    ],
)
def test_what_is_not_understood_is_told_in_kafkas_words(words: list[str], complaint: str) -> None:
    with pytest.raises(ShimError) as caught:
        parse(words, KNOWN)
    assert caught.value.text == complaint


def test_what_is_missing_or_wrong_is_told() -> None:
    given = parse(["--config", "x", "--topic", "a"], KNOWN)
    with pytest.raises(ShimError, match="Missing required argument"):
        given.check("create")
    with pytest.raises(ShimError, match="Invalid command line properties: x"):
        given.properties("config")
    with pytest.raises(ShimError, match="Cannot parse argument 'a'"):
        given.number("topic")
    assert given.number("partitions") is None
    with pytest.raises(ShimError, match="Found multiple arguments for option topic"):
        parse(["--topic", "a", "--topic", "b"], KNOWN).one("topic")
    with pytest.raises(ShimError, match="one, please"):
        given.one_of(("list", "create"), "one, please")


def test_every_tool_is_listed_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(KAFKA_TOOLS) == set(SHIMS)
    for name in KAFKA_TOOLS:
        assert run_command([name, "--help"]) == 0
        assert f"For example: quorate {name} --bootstrap-server" in capsys.readouterr().out
    assert run_command(["kafka-topics", "--zookeeper", "localhost:2181", "--list"]) == 2
    assert "write --bootstrap-server" in capsys.readouterr().err


def test_records_are_written_as_kafkas_formatter_does() -> None:
    record = Record(TopicPartition("t", 2), 7, 99, None, b"v", (("h", b"1"), ("n", None)))
    everything = {f"print.{n}": "true" for n in ("timestamp", "partition", "offset", "headers")}
    assert formatter({}).text(record) == b"v\n"
    assert formatter({**everything, "print.key": "True "}).text(record) == (
        b"CreateTime:99\tPartition:2\tOffset:7\th:1,n:null\tnull\tv\n"
    )
    own = {"print.value": "false", "print.key": "true", "null.literal": "-"}
    assert formatter(own).text(record) == b"-\n"


def test_lines_are_read_as_kafkas_reader_does() -> None:
    own = {"parse.key": "true", "key.separator": ":", "null.marker": "NULL"}
    read = line_format(own).parse(b"k:NULL")
    assert (read.key, read.value) == (b"k", None)
    headers = line_format({"parse.headers": "TRUE", "parse.key": " True "}).parse(b"a:1\tk\tv")
    assert (headers.headers, headers.key, headers.value) == ((("a", b"1"),), b"k", b"v")


def test_who_reads_no_more_ends_a_tool_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def lines(*_: object) -> list[str]:
        raise BrokenPipeError

    def load(_self: Shim) -> object:
        return lines, KNOWN

    monkeypatch.setattr(Shim, "load", load)
    with pytest.raises(BrokenPipeError):  # which the command line takes for the end
        run_shim("kafka-topics", ["--list"])
    assert capsys.readouterr().err == ""
