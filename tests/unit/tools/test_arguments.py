"""What every command understands."""

import pytest

from quorate.tools.arguments import (
    GlobalOptions,
    bootstrap_of,
    glancing,
    parse_properties,
    refuse_zookeeper,
)
from quorate.tools.problems import UsageError


@pytest.mark.parametrize("words", [["--zookeeper", "a:2181"], ["topics", "--zookeeper=a:2181"]])
def test_zookeeper_is_refused_with_what_to_write_instead(words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_zookeeper(words)
    assert "--bootstrap-server" in refused.value.hint


def test_a_topic_may_be_called_zookeeper() -> None:
    refuse_zookeeper(["topics", "create", "zookeeper"])


def test_the_last_of_equal_properties_wins_and_values_may_contain_equal_signs() -> None:
    assert parse_properties(["a=1", "b = x=y ", "a=2"]) == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("text", ["a", "=1", " =1"])
def test_a_property_needs_a_name_and_an_equal_sign(text: str) -> None:
    with pytest.raises(UsageError, match="no property"):
        parse_properties([text])


def test_an_address_comes_from_the_option_then_a_property_then_the_environment() -> None:
    properties = {"bootstrap.servers": "p:1"}
    environment = {"QUORATE_BOOTSTRAP": "e:1"}
    assert bootstrap_of("o:1", properties, environment) == "o:1"
    assert bootstrap_of("", properties, environment) == "p:1"
    assert bootstrap_of("", {}, environment) == "e:1"
    assert bootstrap_of("", {}, {}) == ""


def test_who_only_shows_how_all_is_does_not_look_for_long_unless_told_to() -> None:
    assert glancing(GlobalOptions()).timeout_s == 3
    assert glancing(GlobalOptions(timeout_s=30)).timeout_s == 30
    assert glancing(GlobalOptions(timeout_s=10, timeout_is_given=True)).timeout_s == 10
