"""The broker that tests of our client run on: a node of Quorate, or Apache Kafka."""

from collections.abc import Generator

import pytest

from tests.compat import serving
from tests.conftest import IN_A_HURRY


@pytest.fixture(scope="package")
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[str]:
    """Where the client finds a broker; ``--broker kafka`` says whose."""
    if request.config.getoption("broker") == "kafka":
        with serving.kafka_if_it_can_be_had(IN_A_HURRY) as kafka:
            yield kafka.server.bootstrap
        return
    with serving.quorate(IN_A_HURRY, tmp_path_factory.mktemp("node")) as node:
        yield node.server.bootstrap
