"""Listener properties are read strictly, and sockets are bound as they say."""

import socket
from pathlib import Path

import pytest

from quorate.broker.listeners import (
    Listener,
    ListenError,
    advertised_endpoints,
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


def test_tls_needs_a_key_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"ssl\.keystore\.location"):
        tls_context(node_config({}))
    path = tmp_path / "key.pem"
    path.write_text("nonsense")
    with pytest.raises(InvalidConfigError, match=r"ssl\.keystore"):
        tls_context(node_config({"ssl.keystore.location": str(path)}))
