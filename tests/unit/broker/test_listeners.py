"""Listener properties are read strictly, and sockets are bound as they say."""

import socket
import ssl
from pathlib import Path

import pytest
import trustme

from quorate.broker.listeners import (
    Listener,
    ListenError,
    advertised_endpoints,
    between_brokers,
    bind_listeners,
    parse_listeners,
    tls_context,
)
from quorate.errors import InvalidConfigError
from quorate.model import Endpoint
from quorate.settings import node_config


def test_listeners_are_read_by_protocol() -> None:
    assert parse_listeners(["127.0.0.1:9092"], "listeners") == {
        "PLAINTEXT": Endpoint("127.0.0.1", 9092)
    }
    texts = ["PLAINTEXT://127.0.0.1:9092", "ssl://[::1]:9093"]
    assert parse_listeners(texts, "listeners") == {
        "PLAINTEXT": Endpoint("127.0.0.1", 9092),
        "SSL": Endpoint("::1", 9093),
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("127.0.0.1", "is no listener"),
        ("PLAINTEXT://127.0.0.1:99999", "is no listener"),
        ("PLAINTEXT://127.0.0.1", "is no listener"),
        ("SASL_SSL://127.0.0.1:9092", "not supported"),
        ("PLAINTEXT://broker1..example.com:9092", r"'broker1\.\.example\.com' .* can be no host"),
        ("x" * 64 + ":9092", "can be no host"),
    ],
)
def test_what_is_no_listener_is_refused_with_an_example(text: str, complaint: str) -> None:
    with pytest.raises(InvalidConfigError, match=complaint):
        parse_listeners([text], "listeners")


def test_a_protocol_listens_once() -> None:
    with pytest.raises(InvalidConfigError, match="twice"):
        parse_listeners(["SSL://a:1", "SSL://b:2"], "listeners")


def test_the_system_chooses_port_zero_and_clients_are_told_which() -> None:
    config = node_config({"listeners": "PLAINTEXT://127.0.0.1:0"})
    (listener,) = bind_listeners(config)
    with listener.sock:
        port = listener.sock.getsockname()[1]
        assert advertised_endpoints(config, [listener]) == {
            "PLAINTEXT": Endpoint("127.0.0.1", port)
        }


def test_a_taken_port_is_an_error_and_leaves_nothing_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = node_config({"listeners": f"PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:{port}"})
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}"):
            bind_listeners(config)


def test_no_listeners_are_refused() -> None:
    with pytest.raises(InvalidConfigError, match="at least one"):
        bind_listeners(node_config({"listeners": ""}))


def test_buffer_sizes_are_set_on_the_listener() -> None:
    config = node_config(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "socket.receive.buffer.bytes": "64K"}
    )
    (listener,) = bind_listeners(config)
    with listener.sock as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 64 * 1024


def test_clients_can_be_told_another_address() -> None:
    config = node_config({"advertised.listeners": "PLAINTEXT://kafka.example:1234"})
    with socket.create_server(("127.0.0.1", 0)) as sock:
        told = advertised_endpoints(config, [Listener("PLAINTEXT", sock)])
    assert told == {"PLAINTEXT": Endpoint("kafka.example", 1234)}


def test_an_advertised_listener_must_listen() -> None:
    config = node_config({"advertised.listeners": "SSL://kafka.example:1234"})
    with pytest.raises(InvalidConfigError, match="no listener SSL"):
        advertised_endpoints(config, [])


def test_listening_everywhere_needs_an_advertised_address() -> None:
    config = node_config({})
    with (
        socket.create_server(("0.0.0.0", 0)) as sock,
        pytest.raises(InvalidConfigError, match="advertised"),
    ):
        advertised_endpoints(config, [Listener("PLAINTEXT", sock)])


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", ":9092", "kafka.example:0"])
def test_an_address_that_nobody_can_connect_to_is_not_advertised(address: str) -> None:
    config = node_config({"advertised.listeners": f"PLAINTEXT://{address}"})
    with (
        socket.create_server(("127.0.0.1", 0)) as sock,
        pytest.raises(InvalidConfigError, match="nobody can connect"),
    ):
        advertised_endpoints(config, [Listener("PLAINTEXT", sock)])


@pytest.fixture
def keystore(tmp_path: Path) -> Path:
    authority, path = trustme.CA(), tmp_path / "key.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return path


HERE = Endpoint("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("listeners", "properties", "protocol"),
    [
        (("PLAINTEXT", "SSL"), {}, "PLAINTEXT"),
        (("SSL",), {}, "SSL"),
        (("PLAINTEXT", "SSL"), {"inter.broker.listener.name": "ssl"}, "SSL"),
        (("PLAINTEXT", "SSL"), {"security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_brokers_connect_to_the_listener_that_is_for_them(
    keystore: Path, listeners: tuple[str, ...], properties: dict[str, str], protocol: str
) -> None:
    config = node_config({"ssl.keystore.location": str(keystore), **properties})
    between = between_brokers(config, dict.fromkeys(listeners, HERE))
    assert (between.protocol, between.context is None) == (protocol, protocol == "PLAINTEXT")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"},
            "only one of them",
        ),
        ({"inter.broker.listener.name": "INTERNAL"}, r"inter\.broker\.listener.* INTERNAL"),
        ({"security.inter.broker.protocol": "SSL"}, r"security\.inter\.broker.* SSL"),
    ],
)
def test_the_listener_for_brokers_must_be_there(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        between_brokers(node_config(properties), {"PLAINTEXT": HERE})


@pytest.mark.parametrize("algorithm", ["https", ""])
def test_other_brokers_are_trusted_by_certificate_and_by_name_unless_told_otherwise(
    keystore: Path, tmp_path: Path, algorithm: str
) -> None:
    trusted = tmp_path / "trust.pem"
    trustme.CA().cert_pem.write_to_path(trusted)
    properties = {
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(trusted),
        "ssl.endpoint.identification.algorithm": algorithm,
    }
    context = between_brokers(node_config(properties), {"SSL": HERE}).context
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, bool(algorithm))
    assert len(context.get_ca_certs()) == 1, "nobody but those who were named"


def test_tls_needs_a_key_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"ssl\.keystore\.location"):
        tls_context(node_config({}))
    path = tmp_path / "key.pem"
    path.write_text("nonsense")
    with pytest.raises(InvalidConfigError, match=r"ssl\.keystore"):
        tls_context(node_config({"ssl.keystore.location": str(path)}))
