"""Three brokers that are reached with TLS only: they follow each other, and serve no strangers."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trustme
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from quorate.errors import NetworkError
from quorate.model import Endpoint
from quorate.net.exchange import Exchange
from quorate.net.rpc import connect
from quorate.protocol.apis import ApiKey
from tests.integration.brokers import Cluster, Security, send, wait_until

pytestmark = pytest.mark.slow


class Authority:
    """Gives out certificates, as PEM files of a key and a chain."""

    def __init__(self, directory: Path) -> None:
        self._ca = trustme.CA()
        self._directory = directory
        self.path = directory / "ca.pem"
        self._ca.cert_pem.write_to_path(self.path)

    def issue(self, name: str) -> Path:
        path = self._directory / f"{name}.pem"
        self._ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Cluster]:
    client = str(authority.issue("client"))
    security = Security(
        "SSL",
        broker={
            "ssl.keystore.location": str(authority.issue("broker")),
            "ssl.truststore.location": str(authority.path),
            "ssl.client.auth": "required",
        },
        client={
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority.path),
            "ssl.certificate.location": client,
            "ssl.key.location": client,
        },
    )
    running = Cluster(tmp_path_factory.mktemp("tls"), security=security)
    yield running
    running.close()


def test_brokers_without_a_plain_listener_follow_each_other_and_replace_a_killed_leader(
    cluster: Cluster,
) -> None:
    cluster.create("secret", min_insync_replicas="2")
    producer = cluster.producer(**{"enable.idempotence": True})
    assert [send(producer, "secret", b"%d" % i) for i in range(10)] == [None] * 10
    killed = cluster.leader("secret")
    cluster.brokers[killed].kill()
    assert [send(producer, "secret", b"%d" % i) for i in range(10, 20)] == [None] * 10
    assert cluster.leader("secret") != killed
    cluster.start(killed)
    cluster.brokers[killed].wait_until_ready()
    wait_until(lambda: len(cluster.isr("secret")) == 3, "the killed broker is in sync again")
    wait_until(lambda: len(set(cluster.logs("secret"))) == 1, "all have the same")


def test_who_shows_no_certificate_of_the_authority_is_not_served(
    cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    stranger = str(Authority(tmp_path).issue("stranger"))
    trusting = {"ssl.ca.location": str(authority.path)}
    for shown in ({}, {"ssl.certificate.location": stranger, "ssl.key.location": stranger}):
        plain = {"bootstrap.servers": cluster.options["bootstrap.servers"], "log_level": 0}
        admin = AdminClient({**plain, "security.protocol": "ssl", **trusting, **shown})
        with pytest.raises(KafkaException) as raised:
            admin.list_topics(timeout=3)
        assert raised.value.args[0].code() == KafkaError._TRANSPORT


async def test_neither_end_of_a_fetch_accepts_a_broker_with_a_foreign_certificate(
    cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    endpoint, foreign = Endpoint("127.0.0.1", cluster.ports[1]), Authority(tmp_path)

    async def fetch_over(trusted: Path, shown: Path) -> None:
        context = ssl.create_default_context(cafile=str(trusted))
        context.load_cert_chain(str(shown))
        stream = await connect(endpoint, ssl_context=context, timeout_ms=10_000)
        exchange = Exchange(stream, peer="broker 1", client_id="follower")
        try:
            await exchange.negotiate((ApiKey.FETCH,))
        finally:
            await exchange.close()

    with trio.fail_after(30):
        await fetch_over(authority.path, authority.issue("follower"))
        with pytest.raises(NetworkError):
            await fetch_over(authority.path, foreign.issue("stranger"))
        with pytest.raises(NetworkError, match="no TLS with"):
            await fetch_over(foreign.path, authority.issue("follower"))
