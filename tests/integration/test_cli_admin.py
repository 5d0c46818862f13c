"""Commands for those who operate a cluster, against a node: features, brokers, directories."""

import json
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from quorate.client.sync import Admin, Producer
from quorate.tools.cli import run_command
from tests.compat.serving import Broker, quorate
from tests.conftest import IN_A_HURRY
from tests.integration import controllers

pytestmark = pytest.mark.integration

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[Broker]:
    with quorate(IN_A_HURRY, tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture
def run(node: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process; return its exit code, output and errors."""
    monkeypatch.setenv("QUORATE_BOOTSTRAP", node.server.bootstrap)

    def tell(*words: str) -> tuple[int, str, str]:
        code = run_command(list(words))
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return tell


def levels(run: Run) -> dict[str, int]:
    items = json.loads(run("features", "describe", "--json")[1])["items"]
    return {item["feature"]: item["finalized"] for item in items}


def test_levels_are_lowered_and_raised_again(run: Run) -> None:
    newest = levels(run)
    assert (newest["group.version"], newest["transaction.version"]) == (1, 2)
    lower = ["features", "downgrade", "transaction.version=1", "--feature", "group.version=0"]
    assert run(*lower)[0] == 2  # nobody to ask
    assert "would be off" in run(*lower, "--dry-run")[1]
    assert levels(run) == newest
    told = run(*lower, "-y")[1]
    assert "group.version is off" in told
    assert "transaction.version works at 1" in told
    assert levels(run) == {**newest, "group.version": 0, "transaction.version": 1}
    assert run("features", "upgrade")[0] == 0
    assert levels(run) == newest
    assert "nothing to do" in run("features", "upgrade")[1]


def test_a_level_that_cannot_be_is_refused_with_the_reason(run: Run) -> None:
    code, _, told = run("features", "upgrade", "transaction.version=7")
    assert (code, "controller supports 0 to 2" in told) == (1, True)
    assert "INVALID_UPDATE_VERSION" in told
    assert run("features", "downgrade", "-y")[0] == 2


def test_configurations_are_compared(run: Run) -> None:
    assert run("topics", "create", "one", "-c", "retention.ms=1h")[0] == 0
    assert run("topics", "create", "two")[0] == 0
    for words in (["topic/one"], ["topic/one", "topic/two"]):
        code, told, _ = run("configs", "diff", *words, "--exit-code")
        assert (code, "3600000" in told, "604800000" in told) == (3, True, True)
    code, told, _ = run("configs", "diff", "topic/two", "topic/two", "--exit-code")
    assert (code, told) == (0, "topic/two does not differ from topic/two\n")
    assert run("configs", "diff", "topic/one", "broker/1")[0] == 2


def test_a_node_is_who_its_formatted_directory_says(run: Run, tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path / "data")]
    assert run("storage", "format", "-t", "formatted-before", *where)[0] == 0
    with quorate(IN_A_HURRY, tmp_path) as started, Admin(started.server.bootstrap) as admin:
        assert admin.describe_cluster().cluster_id == "formatted-before"
    assert run("storage", "format", *where)[0] == 1
    assert run("storage", "format", *where, "--ignore-formatted")[0] == 0


def test_metadata_go_to_a_file_that_is_read_like_a_node(
    run: Run, node: Broker, tmp_path: Path
) -> None:
    data, path = ["--dir", str(node.data)], str(tmp_path / "m.cbor")
    assert run("metadata", "export", "--to", path, *data)[0] == 0
    assert run("metadata", "export", "--to", path, *data)[0] == 5
    kept = run("metadata", "at", "now", "/features", "--file", path)[1]
    assert kept == run("metadata", "at", "now", "/features", *data)[1]
    told = run("metadata", "shell", "--file", path, "cat", "/cluster/id")[1]
    assert told.strip() in (node.data / "meta.json").read_text()
    assert run("metadata", "cat", "--file", path, *data)[0] == 2


def test_what_a_broker_appends_can_be_followed_in_its_files(run: Run, node: Broker) -> None:
    assert run("topics", "create", "followed")[0] == 0
    with Producer(node.server.bootstrap) as producer:
        producer.send("followed", b"first", partition=0)
    path = node.partition_folder("followed")
    told = run("log", "tail-segments", str(path), "--from-beginning", "--data", "-n", "2")[1]
    batch, record = told.splitlines()
    assert batch.startswith("batch  base_offset=0 ")
    assert "value='first'" in record


def test_a_broker_that_is_gone_is_taken_out_and_no_other(run: Run, tmp_path: Path) -> None:
    code, _, told = run("brokers", "unregister", "1", "-y")
    assert (code, "is in service" in told) == (5, True)
    assert run("brokers", "unregister", "9", "-y")[0] == 2
    cluster = ["--dir", str(tmp_path / "cluster")]
    words = ["--brokers", "2", "--controllers", "1", "--port", "0", "--detach"]
    try:
        assert controllers.quorate("up", *words, *cluster).code == 0
        (status,) = controllers.quorate("status", "--json", *cluster).items()
        where = ["-b", status["bootstrap"]]
        assert run("topics", "create", "t", "-p", "1", "-r", "2", *where)[0] == 0
        assert controllers.quorate("chaos", "kill", "broker-2", "-y", *cluster).code == 0
        deadline = time.monotonic() + controllers.TIMEOUT_S
        while "in service" in (told := run("brokers", "unregister", "2", "-y", *where)[2]):
            assert time.monotonic() < deadline
        assert "still has 1 replicas" in told
        go = ["brokers", "unregister", "2", "--with-replicas", *where]
        assert "would take broker 2 out" in run(*go, "--dry-run")[1]
        assert run(*go, "-y")[0] == 0
        assert "there is no broker 2" in run(*go, "-y")[2]
    finally:
        controllers.quorate("down", *cluster)
