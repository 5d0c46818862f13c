"""Addresses on the command line: both ways of writing them, and what is neither."""

import pytest

from quorate.model import Endpoint
from quorate.settings import node_config
from quorate.tools.node import controller_endpoint
from quorate.tools.problems import EXIT_USAGE, UsageError
from quorate.tools.starting import check_listeners


@pytest.mark.parametrize("text", ["127.0.0.1:9190", "PLAINTEXT://127.0.0.1:9190"])
def test_addresses_may_be_written_with_their_protocol_or_without(text: str) -> None:
    assert controller_endpoint(text) == Endpoint("127.0.0.1", 9190)
    check_listeners(node_config({"listeners": text, "advertised.listeners": text}))


@pytest.mark.parametrize("text", ["9190", "SSL://127.0.0.1:9190", "KAFKA://127.0.0.1:9190"])
def test_what_is_no_controllers_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no controller address"):
        controller_endpoint(text)


@pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
def test_listeners_that_are_none_are_a_mistake_of_usage(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: 'bogus' is no listener") as raised:
        check_listeners(node_config({name: "bogus"}))
    assert raised.value.exit_code == EXIT_USAGE
