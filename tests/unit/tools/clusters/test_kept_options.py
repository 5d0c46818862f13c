"""What all nodes of a cluster are told is kept for those that are started later."""

import stat
from pathlib import Path

import pytest

from quorate.tools.arguments import GlobalOptions
from quorate.tools.client_properties import read_properties_file
from quorate.tools.cluster_directory import PROPERTIES_NAME, ClusterDirectory
from quorate.tools.cluster_up import node_options
from quorate.tools.problems import UsageError


def test_a_password_is_in_a_file_of_the_owners_and_not_among_the_arguments(tmp_path: Path) -> None:
    given = tmp_path / "given.properties"
    given.write_text("ssl.key.password=hunter2\n")
    directory = ClusterDirectory(tmp_path / "cluster")
    directory.make()
    (tmp_path / "node.toml").touch()
    options = GlobalOptions(command_config=str(given), properties=("num.partitions=3",))
    words = node_options(options, tmp_path / "node.toml", directory)
    assert "hunter2" not in " ".join(words)

    path = directory.path / PROPERTIES_NAME
    assert words[:4] == ["-F", str(path), "--config", str(tmp_path / "node.toml")]
    assert read_properties_file(path) == {"ssl.key.password": "hunter2", "num.partitions": "3"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert directory.kept_options() == words[:4], "as a node is told that is started later"

    again = node_options(GlobalOptions(command_config=str(path)), None, directory)
    assert again[:2] == ["-F", str(path)]
    assert read_properties_file(path)["ssl.key.password"] == "hunter2"


def test_a_cluster_of_an_older_version_has_kept_nothing(tmp_path: Path) -> None:
    assert ClusterDirectory(tmp_path).kept_options() == []


def test_what_no_node_would_start_with_is_refused_and_not_kept(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    kept = node_options(GlobalOptions(properties=("log.retention.ms=5",)), None, directory)
    for wrong in ("nonsense=1", "log.retention.ms=x"):
        with pytest.raises(UsageError, match="-X: "):
            node_options(GlobalOptions(properties=(wrong,)), None, directory)
    assert directory.kept_options() == kept[:2]
    assert read_properties_file(tmp_path / PROPERTIES_NAME) == {"log.retention.ms": "5"}
