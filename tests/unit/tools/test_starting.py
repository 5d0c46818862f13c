"""Addresses on the command line, and what a node says that is ready."""

# pyright: reportPrivateUsage=false

from pathlib import Path
from typing import Any

import pytest

from quorate.broker.listeners import PLAINTEXT
from quorate.model import Endpoint
from quorate.settings import node_config
from quorate.tools.arguments import GlobalOptions
from quorate.tools.node import NodePlan, Ready, controller_endpoint
from quorate.tools.problems import EXIT_USAGE, UsageError
from quorate.tools.starting import StartArguments, _welcome, check_listeners, plan_node
from tests.unit.tools.test_docs import words_of
from tests.unit.tools.test_examples import understood


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


def told(**ready: Any) -> list[str]:
    """Return the commands that a node names when it is ready."""
    plan = NodePlan(node_config({}), {})
    lines = _welcome(plan, Ready(cluster_id="c", directory=Path("data"), **ready), 0.5)
    return [line for line in lines if line.startswith("  ")]


@pytest.mark.parametrize(("port", "elsewhere"), [(9092, []), (9093, ["-b", "127.0.0.1:9093"])])
def test_a_node_that_is_ready_names_commands_that_reach_it(port: int, elsewhere: list[str]) -> None:
    words = list(map(words_of, told(endpoints={PLAINTEXT: Endpoint("127.0.0.1", port)})))
    assert list(map(understood, words)) == ["topics create", "produce", "consume"]
    assert [each[-2:] == elsewhere for each in words] == [bool(elsewhere)] * 3


def test_a_controller_that_is_ready_names_the_command_that_starts_a_broker() -> None:
    controllers = [Endpoint("127.0.0.1", 9190), Endpoint("::1", 9191)]
    (words,) = map(words_of, told(endpoints={}, controllers=controllers))
    assert understood(words) == "broker start"
    (texts,) = (
        words[at + 1].split(",") for at, word in enumerate(words) if word == "--controllers"
    )
    assert list(map(controller_endpoint, texts)) == controllers


def test_times_that_may_be_meant_for_another_node_are_only_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = StartArguments(None, None, None, None, {})
    for session, warnings in (("4s", 0), ("3999", 1)):
        properties = (f"broker.session.timeout.ms={session}",)
        plan = plan_node(GlobalOptions(properties=properties), where)
        assert plan.texts["broker.session.timeout.ms"] == session
        assert len(caplog.records) == warnings
    assert "=2000 is more than half of broker.session.timeout.ms=3999: " in caplog.text
