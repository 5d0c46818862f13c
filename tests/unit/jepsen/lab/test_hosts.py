"""A node that ended by itself is found out, whatever is about to be done to it."""

import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.jepsen.lab.hosts import DiedError, Host


def test_a_power_cut_does_not_hide_that_a_node_had_ended_by_itself(tmp_path: Path) -> None:
    words = ["-c", "raise SystemExit('a bug of ours')"]
    host = Host("broker-101", 101, tmp_path, ("127.0.0.1", 1), words, (sys.executable,))
    host.disk = cast("Any", SimpleNamespace(cut_power=lambda _: 0, settle=lambda: None))
    host.start()
    while not host.has_ended:
        pass
    with pytest.raises(DiedError, match="a bug of ours"):
        host.cut_power(Random(1))
    host.close()
