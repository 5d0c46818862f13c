"""What all compatibility tests share: a broker, clients, topics, and the page of outcomes."""

import re
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from quorate.tools.bench import topics
from tests.compat import serving
from tests.compat.asking import both
from tests.compat.clients.agent import (
    Agent,
    FranzGo,
    Java,
    KafkaGo,
    KafkaJs,
    OtherGo,
    Sarama,
)
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.model import Client, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.clients.over_asyncio import Aiokafka
from tests.compat.matrix import Outcome, Result, render
from tests.compat.peers import cache
from tests.compat.twins import Twins
from tests.compat.wire import Wire, connected
from tests.conftest import IN_A_HURRY

KINDS: dict[str, Callable[[], Client]] = {
    kind.name: kind
    for kind in (Librdkafka, KafkaPython, Aiokafka, Kcat, Java, FranzGo, KafkaJs, Ours)
}
OTHERS: dict[str, Callable[[], OtherGo]] = {kind.name: kind for kind in (Sarama, KafkaGo)}
"""Clients that are tried with the most usual things only."""

NOT_OFFERED = "not offered: "

RESULTS = pytest.StashKey[list[Result]]()
VERSIONS = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compat-report", metavar="FILE", help="write the outcomes as a page")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(name): the line of the page that a test stands for")
    config.addinivalue_line("markers", "client(name): its column, where no fixture says it")
    config.addinivalue_line("markers", "needs(*ops): what a client must be able to do for the test")
    if config.getoption("compat_report", None) and config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "--compat-report: the page is of what one process has tried, all of it; leave out -n"
        )
    config.stash[RESULTS] = []
    config.stash[VERSIONS] = {}


class Clients:
    """Clients by name, each made when it is first asked for, and only once."""

    def __init__(self, versions: dict[str, str]) -> None:
        self._made: dict[str, Client | cache.PeerUnavailableError] = {}
        self._versions = versions

    def get(self, name: str) -> Client:
        """Return a client, or skip the test if it cannot be had."""
        if name not in self._made:
            try:
                client = (KINDS | OTHERS)[name]()
                self._versions[name] = client.version()
                self._made[name] = client
            except cache.PeerUnavailableError as error:
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, cache.PeerUnavailableError):
            pytest.skip(f"{name}: {made.reason}")
        return made

    def close(self) -> None:
        """End the processes of clients that have some."""
        for client in self._made.values():
            if isinstance(client, Agent):
                client.close()


@pytest.fixture(scope="package", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """What JVMs and nodes that were killed leave behind goes where pytest sweeps."""
    folder = str(tmp_path_factory.mktemp("left"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="package")
def clients(pytestconfig: pytest.Config) -> Generator[Clients]:
    made = Clients(pytestconfig.stash[VERSIONS])
    yield made
    made.close()


@pytest.fixture(params=list(KINDS))
def client(request: pytest.FixtureRequest, clients: Clients) -> Client:
    """Every client in turn; those that lack what the test needs are left out."""
    made = clients.get(request.param)
    for marker in request.node.iter_markers("needs"):
        for op in marker.args:
            if op in made.lacks:
                pytest.skip(f"{NOT_OFFERED}{made.name} cannot {op}")
    return made


@pytest.fixture(scope="package")
def ours() -> Ours:
    """The client for what a test needs beside the one that it tests."""
    return Ours()


@pytest.fixture(scope="package")
def jvm(clients: Clients) -> Java:
    """Kafka's tools in a JVM that runs already."""
    client = clients.get(Java.name)
    assert isinstance(client, Java)
    return client


@pytest.fixture(scope="package")
def apache_kafka() -> Generator[serving.Broker]:
    """One node of Apache Kafka for all tests."""
    with serving.kafka_if_it_can_be_had(IN_A_HURRY) as broker:
        yield broker


@pytest.fixture(scope="package")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[serving.Broker]:
    """One node for all tests."""
    if request.config.getoption("broker") == "kafka":
        yield request.getfixturevalue("apache_kafka")
        return
    directory = tmp_path_factory.mktemp("node")
    properties = {**IN_A_HURRY, **serving.certify(directory)}
    with serving.quorate(properties, directory) as started:
        yield started


@pytest.fixture
def twins(apache_kafka: serving.Broker, broker: serving.Broker) -> Generator[Twins]:
    """Both brokers, on connections for all who may have to wait."""
    with both(apache_kafka.server, broker.server) as connected_to_both:
        yield connected_to_both


@pytest.fixture(scope="package")
def server(broker: serving.Broker) -> Server:
    return broker.server


@pytest.fixture(params=["Quorate", "Apache Kafka"], scope="module")
def target(request: pytest.FixtureRequest) -> Server:
    """Both brokers in turn, for what has to be the same on both."""
    name = "broker" if request.param == "Quorate" else "apache_kafka"
    found: serving.Broker = request.getfixturevalue(name)
    return found.server


@pytest.fixture
def wire(target: Server) -> Generator[Wire]:
    with connected(target) as connection:
        yield connection


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", request.node.name)
    return name[-200:].strip("-.")


NewTopic = Callable[..., str]


@pytest.fixture
def new_topic(topic: str, server: Server, ours: Ours, request: pytest.FixtureRequest) -> NewTopic:
    """Create the test's topic with these partitions and settings; returns its name."""

    def create(partitions: int = 1, **configs: str) -> str:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        ours.create(server, TopicSpec(topic, partitions, named))
        if request.config.getoption("broker") == "kafka":
            topics.wait_for_leaders(server.bootstrap, topic, partitions)
        return topic

    return create


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    feature = item.get_closest_marker("feature")
    decided = report.when == "call" or (report.when == "setup" and not report.passed)
    if feature is not None and decided:
        item.config.stash[RESULTS].append(_result(item, feature.args[0], report))
    return report


def _result(item: pytest.Item, feature: str, report: pytest.TestReport) -> Result:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    marker = item.get_closest_marker("client")
    column = (
        parameters.get("client") or parameters.get("target") or (marker.args[0] if marker else "")
    )
    assert isinstance(item, pytest.Function)
    section = (item.module.__doc__ or "").partition("\n")[0].rstrip(".")
    return Result(section, feature.format(**parameters), column, _outcome(report))


def _outcome(report: pytest.TestReport) -> Outcome:
    if report.passed:
        return Outcome.PASSED
    if report.failed:
        return Outcome.FAILED
    offered = NOT_OFFERED not in str(report.longrepr)
    return Outcome.UNAVAILABLE if offered else Outcome.NOT_OFFERED


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("compat_report", None)
    if path and not session.config.option.keyword:  # a part of the tests makes no page
        results = session.config.stash[RESULTS]
        versions = session.config.stash[VERSIONS]
        page = render(results, versions)
        Path(path).write_text(page, encoding="utf-8")
