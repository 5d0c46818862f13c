"""Topic names follow Kafka's rules."""

import pytest

from quorate.errors import InvalidTopicError
from quorate.quorum.metadata.topic_names import check_topic_name, may_be_named, metric_name


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__consumer_offsets", "-"])
def test_legal_names_pass(name: str) -> None:
    check_topic_name(name)
    assert may_be_named(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b", "\0"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_topic_name(name)
    assert not may_be_named(name)


def test_names_that_differ_only_in_dots_and_underscores_have_one_name_in_metrics() -> None:
    assert metric_name("a.b_c") == metric_name("a_b.c") == "a_b_c"
    assert metric_name("a-b") is None
