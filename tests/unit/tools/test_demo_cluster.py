"""What the demo makes of what ``quorate up`` says."""

from pathlib import Path
from typing import Any

import pytest

from quorate.tools.demo_cluster import serving_cluster
from quorate.tools.problems import CommandError


def _ready(*pids: int | None) -> dict[str, Any]:
    brokers = [{"role": "broker", "id": n, "pid": pid} for n, pid in enumerate(pids, 1)]
    nodes = [{"role": "controller", "id": 100, "pid": 9}, *brokers]
    return {"bootstrap": "127.0.0.1:9092", "seconds": 0.7, "nodes": nodes}


def test_brokers_are_known_by_their_processes(tmp_path: Path) -> None:
    cluster = serving_cluster(_ready(11, 12), tmp_path)
    assert cluster.broker_pids == {1: 11, 2: 12}
    assert cluster.log == tmp_path / "logs" / "broker-1.log"


def test_a_cluster_that_lacks_a_node_is_not_played_on_and_the_node_says_why(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "broker-2.log").write_text("error: cannot listen on 127.0.0.1:15001\n")
    with pytest.raises(CommandError, match="broker-2 of the demo's cluster did not start") as told:
        serving_cluster(_ready(11, None, 13), tmp_path)
    assert "cannot listen on 127.0.0.1:15001" in told.value.why
