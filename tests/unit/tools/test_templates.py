"""Formats that records are printed and read with."""

import pytest

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.problems import UsageError
from quorate.tools.templates import compile_input, compile_output, unescape

RECORD = Record(TopicPartition("t", 3), 7, 1234, b"k", b"v", (("h", b"x"), ("n", None)))
BARE = Record(TopicPartition("t", 0), 0, -1, None, None, ())


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (r"%t %p %o %k %v\n", b"t 3 7 k v\n"),
        ("%T|%h|%K|%V|%S|%s", b"1234|h=x,n=NULL|1|1|1|v"),
        (r"100%%\t\\\x41\q", b"100%\t\\A\\q"),
        ("plain", b"plain"),
        ("", b""),
    ],
)
def test_verbs_and_escapes(template: str, text: bytes) -> None:
    assert compile_output(template)(RECORD) == text


def test_null_is_told_from_empty() -> None:
    assert compile_output("%k,%v,%K,%V")(BARE) == b"NULL,NULL,-1,-1"


def test_an_unknown_verb_is_refused() -> None:
    with pytest.raises(UsageError, match="%x"):
        compile_output("%x")


def test_unescape_keeps_verbs() -> None:
    assert unescape(r"a\tb%k") == b"a\tb%k"


@pytest.mark.parametrize(
    ("template", "line", "groups"),
    [
        ("%k %v", b"a b c", {"key": b"a", "value": b"b c"}),
        (r"%k\t%v\n", b"a\tb", {"key": b"a", "value": b"b"}),
        ("%p:%v", b"12:x", {"partition": b"12", "value": b"x"}),
        ("%h|%k|%v", b"a:b|k|v", {"headers": b"a:b", "key": b"k", "value": b"v"}),
        ("50%%%v", b"50%x", {"value": b"x"}),
    ],
)
def test_fields_end_where_the_text_behind_them_begins(
    template: str, line: bytes, groups: dict[str, bytes]
) -> None:
    match = compile_input(template).fullmatch(line)
    assert match is not None
    assert match.groupdict() == groups


@pytest.mark.parametrize("template", ["%k%v", "%o %v", "%v %v"])
def test_what_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="no format"):
        compile_input(template)
