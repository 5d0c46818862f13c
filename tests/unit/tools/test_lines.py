"""Records out of lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.tools.lines import LineError, LineFormat, LineSplitter, NewRecord, parse_header
from quorate.tools.templates import compile_input


def test_a_line_is_a_value_without_a_key() -> None:
    assert LineFormat().parse(b"a:b") == NewRecord(None, b"a:b", (), None)


def test_what_the_options_say_holds_for_every_line() -> None:
    lines = LineFormat(key=b"k", headers=(("h", b"1"),), partition=2)
    assert lines.parse(b"x") == NewRecord(b"k", b"x", (("h", b"1"),), 2)


def test_a_key_stands_before_the_first_separator() -> None:
    lines = LineFormat(key_separator=b":")
    assert lines.parse(b"k:v:w") == NewRecord(b"k", b"v:w", (), None)
    assert lines.parse(b":v").key == b""
    with pytest.raises(LineError, match="':' behind the key"):
        lines.parse(b"no separator")


def test_headers_stand_before_the_key() -> None:
    lines = LineFormat(key_separator=b":", headers_delimiter=b"\t", headers=(("z", None),))
    assert lines.parse(b"a:1,b:2\tk:v") == NewRecord(
        b"k", b"v", (("z", None), ("a", b"1"), ("b", b"2")), None
    )
    assert lines.parse(b"\tk:v").headers == (("z", None),)


def test_a_marker_stands_for_null_and_an_empty_value_may() -> None:
    lines = LineFormat(key_separator=b":", null_marker=b"NULL")
    assert lines.parse(b"NULL:NULL") == NewRecord(None, None, (), None)
    assert LineFormat().parse(b"").value == b""
    assert LineFormat(empty_is_null=True).parse(b"").value is None


def test_a_pattern_takes_lines_apart() -> None:
    lines = LineFormat(pattern=compile_input("%p %h %k %v"), key=b"unused")
    assert lines.parse(b"3 a:1 k v w") == NewRecord(b"k", b"v w", (("a", b"1"),), 3)
    with pytest.raises(LineError, match="-f"):
        lines.parse(b"x")


def test_what_a_pattern_does_not_name_comes_from_the_options() -> None:
    lines = LineFormat(pattern=compile_input("%v"), key=b"k", partition=1)
    assert lines.parse(b"v") == NewRecord(b"k", b"v", (), 1)
    assert LineFormat(pattern=compile_input("%k")).parse(b"k") == NewRecord(b"k", None, (), None)


def test_the_name_of_a_header_is_text() -> None:
    assert parse_header(b"a=b=c", b"=") == ("a", b"b=c")
    with pytest.raises(LineError, match="UTF-8"):
        parse_header(b"\xff=1", b"=")


@given(st.lists(st.binary().filter(lambda b: b"\n" not in b and not b.endswith(b"\r"))), st.data())
def test_lines_are_the_same_however_the_bytes_arrive(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    found: list[bytes] = []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:count])
        stream = stream[count:]
    assert found + splitter.finish() == lines


def test_the_last_line_needs_no_end_and_ends_may_be_those_of_windows() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\r\nb") == [b"a"]
    assert splitter.finish() == [b"b"]
    assert splitter.finish() == []
