"""Topic names follow Kafka's rules."""

import pytest

from quorate.errors import InvalidTopicError
from quorate.quorum.metadata.topic_names import check_topic_name, collision


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__consumer_offsets", "-"])
def test_legal_names_pass(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b", "\0"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_topic_name(name)


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    assert collision("a.b_c", ["x", "a_b.c"]) == "a_b.c"
    assert collision("a.b", ["a.b", "a-b", "ab"]) is None
    assert collision("ab", ["a.b"]) is None
