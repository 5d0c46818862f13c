"""Commands find the node or cluster that quorate up runs from the directory they are called in."""

import os
from pathlib import Path

import pytest

from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_directory import ClusterDirectory
from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.nearby import LISTENING_NAME, nearby_bootstrap, write_listening
from quorate.tools.processes import ProcessId, process_id
from quorate.tools.session import bootstrap


def this_process() -> ProcessId:
    process = process_id(os.getpid())
    assert process is not None
    return process


def test_a_node_is_found_while_its_process_runs(tmp_path: Path) -> None:
    assert nearby_bootstrap(tmp_path) == ""
    write_listening(tmp_path, "127.0.0.1:9093", [this_process()])
    assert nearby_bootstrap(tmp_path) == "127.0.0.1:9093"
    write_listening(tmp_path, "127.0.0.1:9093", [ProcessId(os.getpid(), 1)])
    assert nearby_bootstrap(tmp_path) == ""


@pytest.mark.parametrize(
    "text", ["", "[]", '{"bootstrap": "a:1"}', '{"bootstrap": "a:1", "processes": [1]}', "\x00"]
)
def test_what_cannot_be_read_is_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / LISTENING_NAME).write_text(text)
    assert nearby_bootstrap(tmp_path) == ""


def test_a_cluster_is_found_while_a_node_of_it_runs(tmp_path: Path) -> None:
    home = ClusterDirectory(tmp_path)
    home.write_layout(Layout((Member("controller", 101, 9190), Member("broker", 1, 9095))))
    assert nearby_bootstrap(tmp_path) == ""
    own = this_process()
    home.write_running({"broker-1": own}, supervised=False)
    assert nearby_bootstrap(tmp_path) == "127.0.0.1:9095"
    home.write_running({"broker-1": ProcessId(own.pid, 1)}, supervised=False)
    assert nearby_bootstrap(tmp_path) == ""


def test_what_was_said_comes_before_what_is_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".quorate").mkdir()
    options = GlobalOptions(bootstrap="")
    environment = {"QUORATE_CONFIG": str(tmp_path / "none")}
    assert bootstrap(options, environment) == "127.0.0.1:9092"
    write_listening(Path(".quorate"), "127.0.0.1:9093", [this_process()])
    assert bootstrap(options, environment) == "127.0.0.1:9093"
    assert bootstrap(options, {**environment, "QUORATE_BOOTSTRAP": "e:1"}) == "e:1"
    assert bootstrap(GlobalOptions(bootstrap="o:1"), environment) == "o:1"
