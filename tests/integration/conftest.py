"""The broker that tests of our client run on: a node of Quorate, or Apache Kafka."""

from collections.abc import Generator

import pytest

from tests.compat import serving
from tests.conftest import IN_A_HURRY


@pytest.fixture(scope="session")
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[str]:
    """Where the client finds a broker; ``--broker kafka`` says whose."""
    if request.config.getoption("broker") == "kafka":
        yield request.getfixturevalue("apache_kafka").server.bootstrap
        return
    with serving.quorate(IN_A_HURRY, tmp_path_factory.mktemp("node")) as node:
        yield node.server.bootstrap
