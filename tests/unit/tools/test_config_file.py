"""Configuration from a file and from -X."""

from pathlib import Path

import pytest

from quorate.tools.client_properties import (
    COMMON,
    PRODUCER,
    check_properties,
    read_properties_file,
    tls_context,
)
from quorate.tools.config_file import load_node_config, read_config_file
from quorate.tools.problems import UsageError


def written(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_flat_dotted_and_nested_keys_mean_the_same(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '"node.id" = 3\nnum.partitions = 4\nlisteners = ["PLAINTEXT://h:1", "SSL://h:2"]\n'
        '[delete.topic]\nenable = false\n[log]\nsegment.bytes = "1M"\n',
    )
    assert read_config_file(path) == {
        "node.id": "3", "num.partitions": "4", "listeners": "PLAINTEXT://h:1,SSL://h:2",
        "delete.topic.enable": "false", "log.segment.bytes": "1M",
    }  # fmt: skip


def test_a_property_on_the_command_line_overrides_the_file_and_that_the_defaults(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, '"node.id" = 3\n"num.partitions" = 4\n')
    config, texts = load_node_config(
        path, {"node.id": "5"}, {"num.partitions": "1", "log.dir": "d"}
    )
    assert (config.node_id, config.num_partitions, config.log_dir) == (5, 4, "d")
    assert texts["node.id"] == "5"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert read_config_file(written(tmp_path, "\ufeffnode.id = 3\n")) == {"node.id": "3"}


def test_units_are_understood() -> None:
    config, _ = load_node_config(None, {"broker.session.timeout.ms": "10s"}, {})
    assert config.broker_session_timeout_ms == 10_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"node.idd" = 1', "did you mean node.id"),
        ('"node.id" = "x"', "invalid value"),
        ('"node.id" = -1', "from 0"),
        ('"node.id" = "' + "9" * 5000 + '"', "from 0"),
        ("node.id = ", "not TOML"),
        ("node.id = " + "9" * 5000, "not TOML"),
        ('"node.id" = 2026-03-01', "no property can have"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        load_node_config(path, {}, {})
    assert told in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_config_file(tmp_path / "none.toml")


def test_a_wrong_property_on_the_command_line_is_said_to_stand_there() -> None:
    with pytest.raises(UsageError, match="-X"):
        load_node_config(None, {"no.such": "1"}, {})


def test_properties_that_contradict_each_other_are_told_with_why_and_what_to_try(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, '"replica.lag.time.max.ms" = 400\n')
    with pytest.raises(UsageError) as refused:
        load_node_config(path, {}, {})
    what = "replica.fetch.wait.max.ms=500 is more than replica.lag.time.max.ms=400"
    assert refused.value.what == what
    assert refused.value.why == "followers that wait for records would leave the ISR"
    assert refused.value.hint.startswith("a smaller replica.fetch.wait.max.ms or a larger")
    config, _ = load_node_config(path, {"replica.fetch.wait.max.ms": "400"}, {})
    assert config.replica_lag_time_max_ms == 400


def test_client_properties_are_typed_and_unknown_ones_refused() -> None:
    found = check_properties({"linger.ms": "1s", "acks": "all"}, PRODUCER)
    assert (found.get("linger.ms", 0), found.get("retries", 7)) == (1000, 7)
    with pytest.raises(UsageError, match=r"did you mean client\.id"):
        check_properties({"clientid": "x"}, COMMON)


def test_a_properties_file_has_kafkas_form(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# comment\n\nclient.id = me\n! more\nbootstrap.servers=h:1\n")
    assert read_properties_file(path) == {"client.id": "me", "bootstrap.servers": "h:1"}
    path.write_text("client.id\n")
    with pytest.raises(UsageError, match="line 1"):
        read_properties_file(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_properties_file(tmp_path / "none")


def test_tls_is_spoken_if_the_protocol_says_so(tmp_path: Path) -> None:
    assert tls_context(check_properties({}, COMMON)) is None
    assert tls_context(check_properties({"security.protocol": "SSL"}, COMMON)) is not None
    nowhere = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "none.pem")}
    with pytest.raises(UsageError, match="TLS"):
        tls_context(check_properties(nowhere, COMMON))


def test_properties_have_javas_other_form_too_and_what_is_none_is_not_repeated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("acks: all\nbootstrap.servers = a:1,b:2\nssl.key.password secret\n")
    with pytest.raises(UsageError, match="line 3, is no property") as refused:
        read_properties_file(path)
    assert "secret" not in "".join((refused.value.what, refused.value.why, refused.value.hint))
    path.write_text("acks: all\nbootstrap.servers = a:1,b:2\n")
    assert read_properties_file(path) == {"acks": "all", "bootstrap.servers": "a:1,b:2"}
