"""What the options and columns of writes mean; security of both."""

import re

import pytest

from quorate.client.spark.places import OptionError
from quorate.client.spark.security import parse_security
from quorate.client.spark.write_options import check_columns, parse_write
from quorate.records.compression import Codec

SERVERS = {"kafka.bootstrap.servers": "a:1"}
ONCE = {"transactional": "true", "kafka.transactional.id": " job-1 "}


def test_defaults_write_to_all_replicas_without_compression() -> None:
    options = parse_write({**SERVERS, "topic": " t "})
    assert (options.topic, options.acks, options.codec) == ("t", -1, Codec.NONE)
    assert parse_write(SERVERS).topic is None


def test_a_transactional_id_is_wanted_or_not() -> None:
    options = parse_write(SERVERS | ONCE)
    assert (options.transactional_id, options.transaction_timeout_ms) == ("job-1", 900_000)
    assert parse_write(SERVERS | {"transactional": "false"}).transactional_id is None
    timeout = {"kafka.transaction.timeout.ms": "60000"}
    assert parse_write(SERVERS | ONCE | timeout).transaction_timeout_ms == 60_000


def test_kafkas_options_are_understood() -> None:
    texts = {"kafka.acks": "1", "kafka.compression.type": "zstd", "kafka.linger.ms": "5"}
    options = parse_write({**SERVERS, **texts})
    assert (options.acks, options.codec) == (1, Codec.ZSTD)
    assert "'linger.ms' is not known" in options.warnings[0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.key.serializer": "x"}, "Kafka option 'key.serializer' is not supported as keys"),
        ({"kafka.value.serializer": "x"}, "'value.serializer' is not supported as value are"),
        ({"transactional": "true"}, "but there is no kafka.transactional.id: give a name"),
        ({"kafka.transactional.id": "x"}, "but option 'transactional' is not 'true'"),
        (ONCE | {"kafka.transactional.id": "x" * 201}, "has 201 characters; it may have 200"),
        (ONCE | {"kafka.acks": "1"}, "Must set acks to all in order to use the idempotent"),
        ({"kafka.acks": "0"}, "Invalid value 0 for configuration acks"),
        ({"kafka.compression.type": "rar"}, "Invalid value rar for configuration compression.type"),
    ],
)
def test_writes_that_make_no_sense_get_one_line(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)) as caught:
        parse_write({**SERVERS, **options})
    assert "\n" not in str(caught.value)


def test_a_write_needs_a_broker() -> None:
    with pytest.raises(OptionError, match=r'Missing required configuration "bootstrap\.servers"'):
        parse_write({})


ALL = {
    "topic": "string",
    "key": "binary",
    "value": "string",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "timestamp": "timestamp",
}


def test_columns_are_those_of_sparks_sink() -> None:
    check_columns(ALL, None)
    check_columns({"value": "binary"}, "t")
    check_columns({"value": "binary", "topic": "int", "other": "map<int,int>"}, "t")


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        ({"value": "binary"}, None, "topic option required when no 'topic' attribute is present."),
        ({"key": "binary"}, "t", "Required attribute 'value' not found"),
        (ALL | {"value": "int"}, None, "value attribute unsupported type int. value must be a(n)"),
        (ALL | {"partition": "bigint"}, None, "partition must be a(n) int"),
        (ALL | {"topic": "int"}, None, "topic must be a(n) string"),
    ],
)
def test_other_columns_are_refused(columns: dict[str, str], topic: str | None, text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        check_columns(columns, topic)


def test_tls_is_set_up_by_pem_files() -> None:
    security = parse_security(
        {
            "security.protocol": "ssl",
            "ssl.ca.location": "ca.pem",
            "ssl.keystore.location": "own.pem",
            "ssl.keystore.type": "PEM",
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert (security.tls, security.trusted_file, security.own_file) == (True, "ca.pem", "own.pem")
    assert (security.key_password, security.check_name) == ("p", False)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"security.protocol": "SASL_SSL"}, "'security.protocol' is SASL_SSL: this connector"),
        ({"sasl.mechanism": "PLAIN"}, "'sasl.mechanism' is not supported: there is no SASL yet"),
        ({"ssl.protocol": "TLSv1.3"}, "'ssl.protocol' is not supported; there are"),
        ({"ssl.truststore.type": "JKS"}, "'ssl.truststore.type' is JKS: only PEM files"),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        parse_security(options)
